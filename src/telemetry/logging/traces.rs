//! Sending spans to a collector of OpenTelemetry, over HTTP.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::Context as _;
use async_trait::async_trait;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{Config, client::ConfigExt};
use opentelemetry::KeyValue;
use opentelemetry_http::{Bytes, HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tokio::{runtime::Handle, time::timeout};
use tracing::{info, warn};

use crate::VERSION;

/// How long the last spans may take at the end of the process.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(5);
/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Collectors answer with a few bytes.
const ANSWER_LIMIT: usize = 1 << 20;
const PATH: &str = "/v1/traces";

/// The address of a collector, or what is wrong with it.
pub fn parse_endpoint(text: &str) -> Result<String, String> {
    let expected = "expected the address of a collector, such as http://localhost:4318";
    let uri: Uri = text.parse().map_err(|error| format!("{error}: {expected}"))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http" | "https"), Some(_)) => Ok(text.to_owned()),
        _ => Err(expected.to_owned()),
    }
}

/// Where spans are sent, by the address of the collector.
fn traces_url(endpoint: &str) -> String {
    let endpoint = endpoint.trim_end_matches('/');
    if endpoint.ends_with(PATH) { endpoint.to_owned() } else { format!("{endpoint}{PATH}") }
}

/// Collects spans and sends them from a thread of its own. When too many wait to be sent, new ones are dropped.
pub(super) fn provider(endpoint: &str) -> anyhow::Result<SdkTracerProvider> {
    let url = traces_url(&parse_endpoint(endpoint).map_err(anyhow::Error::msg)?);
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(Sender::new(&url)?)
        .with_endpoint(url)
        .with_timeout(PATIENCE)
        .build()
        .context("cannot send traces")?;
    let resource = Resource::builder()
        .with_service_name("kantor")
        .with_attribute(KeyValue::new("service.version", VERSION))
        .build();
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build())
}

/// Sends requests on the runtime of the process, whichever thread asks for it.
#[derive(Debug)]
struct Sender {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    runtime: Handle,
    failing: AtomicBool,
}

impl Sender {
    fn new(url: &str) -> anyhow::Result<Self> {
        // With the authorities of the operating system.
        let tls = Config::new(url.parse()?).rustls_client_config().context("cannot use TLS")?;
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { client, runtime: Handle::current(), failing: AtomicBool::new(false) })
    }

    /// Says once that spans are lost, and once that they are not any more.
    fn note(&self, failing: bool) {
        match (self.failing.swap(failing, Ordering::Relaxed), failing) {
            (false, true) => warn!("the collector does not take spans; they are lost until it does"),
            (true, false) => info!("the collector takes spans again"),
            _ => {}
        }
    }
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let sending = async move {
            let (head, body) = client.request(request.map(Full::new)).await?.into_parts();
            let body = Limited::new(body, ANSWER_LIMIT).collect().await?.to_bytes();
            Ok::<_, HttpError>(Response::from_parts(head, body))
        };
        let answer = self.runtime.spawn(async { timeout(PATIENCE, sending).await }).await;
        let answer = answer.map_err(HttpError::from).and_then(|in_time| in_time.map_err(HttpError::from)?);
        self.note(!answer.as_ref().is_ok_and(|answer| answer.status().is_success()));
        answer
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("http://localhost:4318", "http://localhost:4318/v1/traces")]
    #[case("http://localhost:4318/", "http://localhost:4318/v1/traces")]
    #[case("https://otel.example.com/tenant", "https://otel.example.com/tenant/v1/traces")]
    #[case("http://localhost:4318/v1/traces", "http://localhost:4318/v1/traces")]
    fn spans_go_to_their_own_path(#[case] endpoint: &str, #[case] url: &str) {
        assert_eq!(traces_url(&parse_endpoint(endpoint).unwrap()), url);
    }

    #[rstest]
    #[case("localhost:4318")]
    #[case("ftp://localhost")]
    #[case("http://")]
    #[case("")]
    fn other_addresses_are_refused_with_what_was_expected(#[case] endpoint: &str) {
        assert!(parse_endpoint(endpoint).unwrap_err().contains("http://localhost:4318"));
    }
}
