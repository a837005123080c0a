//! Requests to the external Gateway, sent exactly as they are written.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::network::DATA;

/// Envoy Gateway adds 10000 to ports that only root may use.
const PORT: u16 = 10_080;
const LIMIT: Duration = Duration::from_secs(30);

/// Speaks to the external Gateway, as a client outside of the cluster would.
#[derive(Clone, Copy, Debug)]
pub struct Client;

/// What came back.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Names, in lower case, and values of the headers.
    pub headers: Vec<(String, String)>,
    /// The body; that of a back-end tells what it was asked.
    pub body: String,
}

impl Client {
    /// Where Envoy listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((DATA, PORT))
    }

    /// Sends a request without a body. The target goes into the request line as it is: no path is normalised, no
    /// character encoded.
    pub async fn request(
        &self,
        method: &str,
        host: &str,
        target: &str,
        headers: &[(&str, &str)],
    ) -> Result<Answer> {
        let mut text = format!("{method} {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n");
        for (name, value) in headers {
            text.extend([name, ": ", value, "\r\n"]);
        }
        text.push_str("\r\n");
        // Not until the end of the connection: Envoy leaves it open for a second more.
        let answer = self.exchange(text.as_bytes(), |answer| is_whole(answer, method == "HEAD")).await;
        let answer = answer.with_context(|| format!("{method} {target}"))?;
        Answer::read(&answer).with_context(|| format!("{method} {target}: not HTTP: {answer:?}"))
    }

    /// Sends bytes and returns all that comes back until the connection ends.
    pub async fn send(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        self.exchange(bytes, |_| false).await
    }

    async fn exchange(&self, bytes: &[u8], enough: impl Fn(&[u8]) -> bool) -> Result<Vec<u8>> {
        let exchange = async {
            let mut stream = TcpStream::connect(self.address()).await.context("connect to Envoy")?;
            stream.write_all(bytes).await.context("write to Envoy")?;
            let mut answer = Vec::new();
            while !enough(&answer) && stream.read_buf(&mut answer).await.context("read from Envoy")? > 0 {}
            Ok(answer)
        };
        timeout(LIMIT, exchange).await.with_context(|| format!("no answer in {} s", LIMIT.as_secs()))?
    }
}

/// True if nothing more belongs to this answer.
fn is_whole(bytes: &[u8], without_body: bool) -> bool {
    let Some(end) = find(bytes, b"\r\n\r\n") else { return false };
    let Ok(answer) = Answer::read(bytes) else { return false };
    let length = answer.header("content-length").and_then(|length| length.parse().ok());
    // A body in chunks is read with its end only; one without a length ends with the connection.
    without_body
        || answer.header("transfer-encoding").is_some()
        || length.is_some_and(|length: usize| bytes.len() >= end + 4 + length)
}

impl Answer {
    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// What the back-end tells of itself and of what it was asked; `null` if no back-end answered.
    pub fn told(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    fn read(bytes: &[u8]) -> Result<Self> {
        let end = find(bytes, b"\r\n\r\n").context("no end of the headers")?;
        let head = String::from_utf8_lossy(&bytes[..end]);
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).context("no status")?;
        let headers = lines.filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        });
        let mut answer = Self {
            status: status.parse().context("a status that is no number")?,
            headers: headers.collect(),
            body: String::new(),
        };
        let rest = &bytes[end + 4..];
        let chunked = answer.header("transfer-encoding").is_some_and(|value| value.contains("chunked"));
        let body = if chunked { unchunked(rest)? } else { rest.to_vec() };
        answer.body = String::from_utf8_lossy(&body).into_owned();
        Ok(answer)
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn unchunked(mut bytes: &[u8]) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = find(bytes, b"\r\n").context("a chunk without a size")?;
        let size = String::from_utf8_lossy(&bytes[..end]);
        let size = usize::from_str_radix(size.trim(), 16).context("a size that is no number")?;
        bytes = &bytes[end + 2..];
        if size == 0 {
            return Ok(body);
        }
        ensure!(bytes.len() >= size + 2, "a chunk that was cut off");
        body.extend_from_slice(&bytes[..size]);
        bytes = &bytes[size + 2..];
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, is_whole};

    #[test]
    fn answers_are_read_with_and_without_chunks() {
        let plain = Answer::read(b"HTTP/1.1 404 Not Found\r\nDate: now\r\n\r\nnot here").unwrap();
        assert_eq!((plain.status, plain.header("date"), plain.body.as_str()), (404, Some("now"), "not here"));
        let chunked =
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        assert_eq!(Answer::read(chunked).unwrap().body, "abcde");
        assert!(Answer::read(b"nonsense").is_err());
        assert!(is_whole(chunked, false) && !is_whole(&chunked[..chunked.len() - 5], false));
        let sized = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab";
        assert!(is_whole(sized, false) && !is_whole(&sized[..sized.len() - 1], false));
    }
}
