//! What etcd holds of a cluster: read, compared and put back without asking the API server.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::{Context, Result, ensure};
use base64::{Engine, prelude::BASE64_STANDARD};
use http_body_util::{BodyExt, Full};
use hyper::{Request, StatusCode, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::UnixStream;

/// All keys of the API server, and the first one behind them.
const ALL: (&str, &str) = ("/registry/", "/registry0");

/// The store of a cluster whose etcd serves HTTP beside gRPC.
pub(super) struct Store {
    socket: PathBuf,
}

/// A key with the revision of its last change, and its value where it was asked for.
pub(super) struct Entry {
    pub(super) revision: String,
    pub(super) value: String,
}

/// One change of a transaction. Values are as they were read.
pub(super) enum Change<'a> {
    Delete(&'a str),
    Put(&'a str, &'a str),
}

impl Store {
    pub(super) fn at(socket: PathBuf) -> Self {
        Self { socket }
    }

    /// All keys with their revisions.
    pub(super) async fn keys(&self) -> Result<BTreeMap<String, Entry>> {
        let range = json!({"key": encoded(ALL.0), "range_end": encoded(ALL.1), "keys_only": true});
        entries(&self.call("/v3/kv/range", &range).await?)
    }

    /// All keys with their values. By pages: etcd's own client takes no answer of more than four megabytes.
    pub(super) async fn everything(&self) -> Result<BTreeMap<String, Entry>> {
        const PAGE: usize = 16;
        let (mut all, mut from) = (BTreeMap::new(), ALL.0.to_owned());
        loop {
            let range = json!({"key": encoded(&from), "range_end": encoded(ALL.1), "limit": PAGE});
            let page = entries(&self.call("/v3/kv/range", &range).await?)?;
            let is_last = page.len() < PAGE;
            if let Some((last, _)) = page.last_key_value() {
                // The key that follows it.
                from = format!("{last}\0");
            }
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// Makes all changes at once; returns the revision that what was put has now.
    pub(super) async fn change(&self, changes: &[Change<'_>]) -> Result<String> {
        let request = |change: &Change<'_>| match change {
            Change::Delete(key) => json!({"request_delete_range": {"key": encoded(key)}}),
            Change::Put(key, value) => json!({"request_put": {"key": encoded(key), "value": value}}),
        };
        let changes: Vec<Value> = changes.iter().map(request).collect();
        let answer = self.call("/v3/kv/txn", &json!({"success": changes})).await?;
        text(&answer["header"]["revision"])
    }

    async fn call(&self, path: &str, body: &Value) -> Result<Value> {
        let stream = UnixStream::connect(&self.socket).await.context("connect to etcd")?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = Request::post(path)
            .header("host", "etcd")
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body.to_string())))?;
        let response = sender.send_request(request).await.context("ask etcd")?;
        let status = response.status();
        let body = response.into_body().collect().await.context("hear from etcd")?.to_bytes();
        ensure!(
            status == StatusCode::OK,
            "etcd answers {status} to {path}: {}",
            String::from_utf8_lossy(&body)
        );
        serde_json::from_slice(&body).context("read etcd's answer")
    }
}

fn entries(answer: &Value) -> Result<BTreeMap<String, Entry>> {
    let found = answer["kvs"].as_array().map(Vec::as_slice).unwrap_or_default();
    found
        .iter()
        .map(|found| {
            let key = BASE64_STANDARD.decode(text(&found["key"])?).context("read a key of etcd")?;
            let value = found["value"].as_str().unwrap_or_default().to_owned();
            Ok((String::from_utf8(key)?, Entry { revision: text(&found["mod_revision"])?, value }))
        })
        .collect()
}

fn text(value: &Value) -> Result<String> {
    value.as_str().map(ToOwned::to_owned).with_context(|| format!("etcd says {value}"))
}

fn encoded(key: &str) -> String {
    BASE64_STANDARD.encode(key)
}
