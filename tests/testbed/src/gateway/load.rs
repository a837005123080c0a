//! Steady load on the external Gateway, counted.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result};
use http_body_util::{BodyExt, Empty};
use hyper::{Request, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{net::TcpStream, task::JoinSet, time::timeout};

use super::Client;

/// How long an answer may take: one that takes longer is counted as an error.
const LIMIT: Duration = Duration::from_secs(15);

/// What came back so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Answers by status code.
    pub statuses: BTreeMap<u16, u64>,
    /// Answers by the pod that gave them.
    pub pods: BTreeMap<String, u64>,
    /// Answers by the image of that pod.
    pub images: BTreeMap<String, u64>,
    /// Answers other than 200, by their status and body: Envoy tells in it what went wrong.
    pub refusals: BTreeMap<String, u64>,
    /// Requests without an answer, by what went wrong.
    pub errors: BTreeMap<String, u64>,
}

impl Tally {
    /// All requests.
    pub fn total(&self) -> u64 {
        self.statuses.values().chain(self.errors.values()).sum()
    }

    /// Requests that ended otherwise than with 200.
    pub fn failed(&self) -> u64 {
        self.total() - self.statuses.get(&200).copied().unwrap_or_default()
    }
}

/// Requests in a loop, until stopped or dropped.
pub struct Load {
    tally: Arc<Mutex<Tally>>,
    tasks: JoinSet<()>,
}

impl Client {
    /// Asks for `target` again and again, on so many connections that stay open, with a pause after each answer.
    pub fn load(
        &self,
        connections: usize,
        pause: Duration,
        host: &str,
        target: &str,
        headers: &[(&str, &str)],
    ) -> Result<Load> {
        let mut request = Request::get(target).header("host", host);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Empty::<Bytes>::new()).context("build a request")?;
        let tally = Arc::new(Mutex::new(Tally::default()));
        let mut tasks = JoinSet::new();
        for _ in 0..connections {
            let (request, tally, client) = (request.clone(), Arc::clone(&tally), *self);
            tasks.spawn(async move {
                loop {
                    // Ends with an error only; then there is another connection.
                    if let Err(error) = ask(client, &request, pause, &tally).await {
                        *lock(&tally).errors.entry(format!("{error:#}")).or_default() += 1;
                        tokio::time::sleep(pause.max(Duration::from_millis(1))).await;
                    }
                }
            });
        }
        Ok(Load { tally, tasks })
    }
}

impl Load {
    /// What came back until now.
    pub fn so_far(&self) -> Tally {
        lock(&self.tally).clone()
    }

    /// Ends the load.
    pub async fn stop(mut self) -> Tally {
        self.tasks.shutdown().await;
        self.so_far()
    }
}

async fn ask(
    client: Client,
    request: &Request<Empty<Bytes>>,
    pause: Duration,
    tally: &Mutex<Tally>,
) -> Result<()> {
    let stream = TcpStream::connect(client.address()).await.context("connect")?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.context("begin")?;
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    loop {
        sender.ready().await.context("use the connection again")?;
        let exchange = async {
            let response = sender.send_request(request.clone()).await.context("send")?;
            let status = response.status().as_u16();
            let body = response.into_body().collect().await.context("read")?.to_bytes();
            anyhow::Ok((status, body))
        };
        let (status, body) = timeout(LIMIT, exchange).await.context("no answer in time")??;
        let told: Value = serde_json::from_slice(&body).unwrap_or_default();
        {
            let mut tally = lock(tally);
            *tally.statuses.entry(status).or_default() += 1;
            if status != 200 {
                let refusal = format!("{status} {}", String::from_utf8_lossy(&body));
                *tally.refusals.entry(refusal).or_default() += 1;
            }
            if let (Some(pod), Some(image)) = (told["pod"].as_str(), told["image"].as_str()) {
                *tally.pods.entry(pod.to_owned()).or_default() += 1;
                *tally.images.entry(image.to_owned()).or_default() += 1;
            }
        }
        tokio::time::sleep(pause).await;
    }
}

fn lock(tally: &Mutex<Tally>) -> std::sync::MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}
