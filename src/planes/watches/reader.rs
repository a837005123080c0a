//! Reading lists and watches of a server that may be anybody: no more than there is room for, and nothing of it is logged.

use std::time::Duration;

use futures::StreamExt;
use http::{Request, Response};
use http_body_util::{BodyExt, BodyStream, LengthLimitError, Limited};
use hyper::body::Bytes;
use kube::{Client, api::WatchEvent, client::Body, core::ObjectList};
use serde::{Deserialize, de::DeserializeOwned};
use tokio::time::timeout;

use crate::planes::client::retry_after;

/// How long a page of a list may take, and a watch to be opened.
const LONGEST: Duration = Duration::from_mins(1);

/// Why a list or a watch does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The server ended it in order.
    Ended,
    /// There is no answer, or it broke off.
    Broken,
    /// The version to go on from is too old.
    Expired,
    /// The server says no.
    Refused {
        /// The code of its answer.
        code: u16,
        /// How long it asks to wait.
        after: Option<Duration>,
    },
    /// The answer is not what it should be.
    Unreadable,
    /// A page is too long: fewer objects may fit.
    PageTooLong,
    /// There is more than there is room for.
    TooLarge(String),
}

/// What an answer of this code means.
pub(super) fn refused(code: u16, after: Option<u32>) -> Stop {
    let after = after.filter(|seconds| *seconds > 0).map(|seconds| Duration::from_secs(seconds.into()));
    match code {
        410 => Stop::Expired,
        code => Stop::Refused { code, after },
    }
}

/// One object is longer than any that a server takes.
pub(super) fn longer_than(limit: usize) -> Stop {
    Stop::TooLarge(format!("an object is longer than {} MiB", limit.div_ceil(1 << 20)))
}

/// Asks for a page of a list.
pub(super) async fn page<K: DeserializeOwned + Clone>(
    client: &Client,
    request: Result<Request<Vec<u8>>, kube::core::request::Error>,
    limit: usize,
) -> Result<ObjectList<K>, Stop> {
    let read = async {
        let body = whole(send(client, request).await?.into_body(), limit).await?;
        serde_json::from_slice(&body).map_err(|_| Stop::Unreadable)
    };
    timeout(LONGEST, read).await.unwrap_or(Err(Stop::Broken))
}

/// Opens a watch.
pub(super) async fn lines(
    client: &Client,
    request: Result<Request<Vec<u8>>, kube::core::request::Error>,
    limit: usize,
) -> Result<Lines, Stop> {
    let answer = timeout(LONGEST, send(client, request)).await.unwrap_or(Err(Stop::Broken))?;
    Ok(Lines { body: BodyStream::new(answer.into_body()), read: Vec::new(), searched: 0, limit })
}

/// An event of a watch.
pub(super) fn event<K: DeserializeOwned>(line: &[u8]) -> Result<WatchEvent<K>, Stop> {
    serde_json::from_slice(line).map_err(|_| Stop::Unreadable)
}

/// Sends a request; an answer other than success is a stop.
async fn send(
    client: &Client,
    request: Result<Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<Response<Body>, Stop> {
    /// Longest text of a refusal.
    const REFUSAL: usize = 64 << 10;
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Details {
        retry_after_seconds: u32,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Status {
        details: Details,
    }
    let request = request.map_err(|_| Stop::Unreadable)?;
    let answer = client.send(request.map(Body::from)).await.map_err(|_| Stop::Broken)?;
    if answer.status().is_success() {
        return Ok(answer);
    }
    let (code, asked) = (answer.status().as_u16(), retry_after(answer.headers()));
    let text = whole(answer.into_body(), REFUSAL).await.unwrap_or_default();
    let said: Status = serde_json::from_slice(&text).unwrap_or_default();
    Err(match refused(code, Some(said.details.retry_after_seconds)) {
        Stop::Refused { code, after } => Stop::Refused { code, after: after.max(asked) },
        other => other,
    })
}

async fn whole(body: Body, limit: usize) -> Result<Bytes, Stop> {
    match Limited::new(body, limit).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Stop::PageTooLong),
        Err(_) => Err(Stop::Broken),
    }
}

/// The lines of a watch.
pub(super) struct Lines<B = Body> {
    body: BodyStream<B>,
    read: Vec<u8>,
    /// How much of it is known to hold no end of a line.
    searched: usize,
    limit: usize,
}

impl<B: hyper::body::Body<Data = Bytes> + Unpin> Lines<B> {
    /// The next line. Nothing is lost if this is dropped while it waits.
    pub(super) async fn next(&mut self) -> Result<Vec<u8>, Stop> {
        loop {
            if let Some(end) = self.read[self.searched..].iter().position(|byte| *byte == b'\n') {
                let rest = self.read.split_off(self.searched + end + 1);
                let line = std::mem::replace(&mut self.read, rest);
                self.searched = 0;
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return Ok(line);
            }
            self.searched = self.read.len();
            if self.read.len() > self.limit {
                return Err(longer_than(self.limit));
            }
            match self.body.next().await {
                Some(Ok(frame)) => {
                    self.read.extend_from_slice(frame.data_ref().map_or(&[], |data| data.as_ref()));
                }
                Some(Err(_)) => return Err(Stop::Broken),
                None => return Err(Stop::Ended),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(pieces: &[&str], limit: usize) -> Lines<impl hyper::body::Body<Data = Bytes> + Unpin> {
        let frames: Vec<Result<_, std::io::Error>> = pieces
            .iter()
            .map(|piece| Ok(hyper::body::Frame::data(Bytes::copy_from_slice(piece.as_bytes()))))
            .collect();
        let body = http_body_util::StreamBody::new(futures::stream::iter(frames));
        Lines { body: BodyStream::new(body), read: Vec::new(), searched: 0, limit }
    }

    #[tokio::test]
    async fn lines_come_whole_however_they_are_cut() {
        let mut lines = lines_of(&["o", "ne\ntwo\n\n", "", "thr", "ee\nlost"], 100);
        for expected in ["one\n", "two\n", "three\n"] {
            assert_eq!(lines.next().await.unwrap(), expected.as_bytes());
        }
        assert_eq!(lines.next().await, Err(Stop::Ended));
    }

    #[tokio::test]
    async fn a_line_is_as_long_as_it_may_be_and_no_longer() {
        let mut lines = lines_of(&["12345678\n", "123456789", "0", "1\n"], 9);
        assert_eq!(lines.next().await.unwrap().len(), 9);
        assert!(matches!(lines.next().await, Err(Stop::TooLarge(_))));
    }

    #[test]
    fn what_a_server_asks_for_is_heard() {
        assert_eq!(refused(410, None), Stop::Expired);
        assert_eq!(refused(429, Some(0)), Stop::Refused { code: 429, after: None });
        let after = Some(Duration::from_secs(7));
        assert_eq!(refused(503, Some(7)), Stop::Refused { code: 503, after });
    }
}
