//! Clients of the control plane.
//!
//! ```text
//! work   ─→ concurrency ─→ rate ─→ counted ─→ address, credentials ─→ fence ─→ time limits ─→ connections
//! Lease  ────────────────────────────────────→ address, credentials ─────────→ time limits ─→ connections
//! ```
//!
//! A server that takes a request and says nothing, or a network that loses packets, must not stop anybody for ever: each
//! answer has to begin within a time, and to go on within the same. Only an open watch may be silent; whoever watches looks
//! at the clock itself, and keep-alive finds a peer that has vanished.

mod patient;

use std::{
    task::{Context, Poll},
    time::Duration,
};

use anyhow::Context as _;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Client, Config,
    client::{Body, ClientBuilder, ConfigExt},
    core::Status,
};
use tokio::time::timeout;
use tower::{BoxError, Service, ServiceBuilder, limit::ConcurrencyLimitLayer};

use self::patient::{Patient, Silent};
use crate::client::{
    call_metrics::{CallsLayer, Verb},
    fence::{ALWAYS, Fenced, Permit},
    rate_limit::RateLimitLayer,
};

type Connections = legacy::Client<TimeoutConnector<HttpsConnector<HttpConnector>>, Fenced>;

/// How long a connection is kept that nobody uses.
const KEPT_IDLE: Duration = Duration::from_mins(1);
/// How long the peer may leave what was sent without an acknowledgement.
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);
/// Largest refusal of a watch that is read.
const REFUSAL_LIMIT: usize = 64 << 10;

/// What the control plane is asked for, and for how long it is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Requests under way at a time.
    pub(crate) concurrency: usize,
    /// Requests per second.
    pub(crate) qps: u32,
    /// Requests that may exceed the rate for a moment.
    pub(crate) burst: u32,
    /// How long the answer to a read may take to begin, and to go on.
    pub(crate) read: Duration,
    /// The same of a write.
    pub(crate) write: Duration,
}

/// A client that keeps to the limits, and writes while it may.
pub(crate) fn working(
    limits: &Limits,
    config: &Config,
    permit: &'static Permit,
    calls: CallsLayer,
) -> anyhow::Result<Client> {
    let service = ServiceBuilder::new()
        .layer(ConcurrencyLimitLayer::new(limits.concurrency))
        .layer(RateLimitLayer::new(limits.qps, limits.burst))
        .layer(calls)
        .service(clustered(config, Transport::new(config, permit, limits)?)?);
    Ok(Client::new(service, config.default_namespace.clone()))
}

/// A client that nothing holds up, for the Lease.
pub(crate) fn electing(limits: &Limits, config: &Config) -> anyhow::Result<Client> {
    let service = clustered(config, Transport::new(config, &ALWAYS, limits)?)?;
    Ok(Client::new(service, config.default_namespace.clone()))
}

/// The transport with what kube's own stack adds: the server's address and the operator's credentials.
fn clustered(
    config: &Config,
    transport: Transport,
) -> anyhow::Result<
    impl Service<Request<Body>, Response = Response<Patient<Incoming>>, Error = BoxError, Future: Send + 'static>
    + Send
    + 'static
    + use<>,
> {
    const UNUSABLE: &str = "cannot make a client of the control plane's configuration";
    Ok(ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().context(UNUSABLE)?)
        .layer(config.extra_headers_layer().context(UNUSABLE)?)
        .map_err(BoxError::from)
        .service(transport))
}

/// Sends requests, and waits for their answers for a while.
#[derive(Clone)]
struct Transport {
    connections: Connections,
    permit: &'static Permit,
    limits: Limits,
}

impl Transport {
    fn new(config: &Config, permit: &'static Permit, limits: &Limits) -> anyhow::Result<Self> {
        if config.proxy_url.is_some() {
            // It says what is not supported.
            ClientBuilder::try_from(config.clone())?;
        }
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(Duration::from_secs(30)));
        tcp.set_keepalive_interval(Some(Duration::from_secs(10)));
        tcp.set_keepalive_retries(Some(3));
        #[cfg(target_os = "linux")]
        tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
        let https = config
            .rustls_https_connector_with_connector(tcp)
            .context("cannot make a client of the control plane's configuration")?;
        let mut connector = TimeoutConnector::new(https);
        connector.set_connect_timeout(config.connect_timeout);
        let connections = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(KEPT_IDLE)
            .build(connector);
        Ok(Self { connections, permit, limits: *limits })
    }

    async fn send(self, request: Request<Body>) -> Result<Response<Patient<Incoming>>, BoxError> {
        let watches = Verb::of(&request).is_watch();
        let reads = [Method::GET, Method::HEAD].contains(request.method());
        let patience = if reads { self.limits.read } else { self.limits.write };
        // After all waiting: what was queued while this operator led is not sent when it no longer does.
        let request = self.permit.fence(request)?;
        let answer = timeout(patience, self.connections.request(request)).await;
        let answer = answer.map_err(|_| Silent(patience))??;
        if watches && answer.status().is_success() {
            return Ok(answer.map(Patient::for_ever));
        }
        let answer = answer.map(|body| Patient::new(body, patience));
        if watches { Err(refusal(answer).await) } else { Ok(answer) }
    }
}

/// kube takes the answer to a watch for events, whatever its code is: a watch that is refused would look like one that stands.
async fn refusal(answer: Response<Patient<Incoming>>) -> BoxError {
    let code = answer.status();
    let body = match Limited::new(answer.into_body(), REFUSAL_LIMIT).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return error,
    };
    let nameless = || Status {
        code: code.as_u16(),
        message: code.canonical_reason().unwrap_or_default().to_owned(),
        ..Status::default()
    };
    let status = serde_json::from_slice(&body).unwrap_or_else(|_| nameless());
    kube::Error::Api(Box::new(status)).into()
}

impl Service<Request<Body>> for Transport {
    type Response = Response<Patient<Incoming>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}

#[cfg(test)]
mod tests;
