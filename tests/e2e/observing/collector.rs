//! A collector of OpenTelemetry, as small as can be: it takes spans over HTTP and keeps them.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{AnyValue, KeyValue, any_value::Value},
};
use prost::Message;

/// A span, as it was received.
#[derive(Clone, Debug)]
pub struct Span {
    pub name: String,
    /// Name and version of the service that sent it.
    pub service: (String, String),
    trace: Vec<u8>,
    id: Vec<u8>,
    parent: Vec<u8>,
    attributes: BTreeMap<String, String>,
}

impl Span {
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }
}

/// The spans above a span, from its parent up.
pub fn ancestors(spans: &[Span], of: &Span) -> Vec<Span> {
    let above = |span: &Span| spans.iter().find(|s| s.trace == span.trace && s.id == span.parent).cloned();
    std::iter::successors(above(of), above).collect()
}

type Spans = Arc<Mutex<Vec<Span>>>;

/// A running collector.
pub struct Collector {
    address: SocketAddr,
    spans: Spans,
}

impl Collector {
    pub async fn start() -> Self {
        let spans = Spans::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = Router::new().route("/v1/traces", post(take)).with_state(spans.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { address, spans }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn spans(&self) -> Vec<Span> {
        self.spans.lock().unwrap().clone()
    }
}

async fn take(State(spans): State<Spans>, headers: HeaderMap, body: Bytes) -> StatusCode {
    assert_eq!(headers["content-type"], "application/x-protobuf");
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    for resource in request.resource_spans {
        let of_service = attributes(resource.resource.unwrap_or_default().attributes);
        let service =
            ["service.name", "service.version"].map(|key| of_service.get(key).cloned().unwrap_or_default());
        let service: (String, String) = service.into();
        let received = resource.scope_spans.into_iter().flat_map(|scope| scope.spans).map(|span| Span {
            name: span.name,
            service: service.clone(),
            trace: span.trace_id,
            id: span.span_id,
            parent: span.parent_span_id,
            attributes: attributes(span.attributes),
        });
        spans.lock().unwrap().extend(received);
    }
    StatusCode::OK
}

fn attributes(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    attributes.into_iter().map(|attribute| (attribute.key, text(attribute.value))).collect()
}

fn text(value: Option<AnyValue>) -> String {
    match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    }
}
