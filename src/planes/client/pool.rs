//! Connections to one server, and the service that sends requests over them.

use std::{
    sync::{Arc, PoisonError, RwLock},
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{
    Request, Response, StatusCode,
    header::{AUTHORIZATION, USER_AGENT},
};
use hyper::rt::Executor;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioTimer,
};
use kube::client::Body;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::{BoxError, Service};

use super::{answer::Answer, credentials::Credentials, resolve::Resolver, user_agent};
use crate::{
    client::fence::{Fenced, Permit},
    planes::{AddressPolicy, room::Room},
};

type Connector = TimeoutConnector<HttpsConnector<HttpConnector<Resolver>>>;
type HttpClient = legacy::Client<Connector, Fenced>;

/// An idle connection is kept a little longer than probes are apart.
const KEPT_IDLE: Duration = Duration::from_secs(25);
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct PoolSettings {
    pub(super) tls: ClientConfig,
    pub(super) server_name: Option<ServerName<'static>>,
    pub(super) connect_timeout: Duration,
    pub(super) read_timeout: Option<Duration>,
    pub(super) addresses: Option<AddressPolicy>,
    pub(super) tasks: TaskTracker,
    pub(super) closed: CancellationToken,
}

/// A pool of connections that can be exchanged for an empty one.
#[derive(Clone)]
pub(super) struct Pool(Arc<Shared>);

struct Shared {
    connector: Connector,
    executor: PlaneExecutor,
    current: RwLock<HttpClient>,
}

impl Pool {
    pub(super) fn new(settings: PoolSettings) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(Resolver::new(settings.addresses));
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        // Finds a peer that vanished without a word under an open watch.
        tcp.set_keepalive(Some(Duration::from_secs(30)));
        tcp.set_keepalive_interval(Some(Duration::from_secs(10)));
        tcp.set_keepalive_retries(Some(3));
        let mut tls = HttpsConnectorBuilder::new().with_tls_config(settings.tls).https_or_http();
        if let Some(name) = settings.server_name {
            tls = tls.with_server_name_resolver(FixedServerNameResolver::new(name));
        }
        let mut connector = TimeoutConnector::new(tls.enable_http1().wrap_connector(tcp));
        connector.set_connect_timeout(Some(settings.connect_timeout));
        connector.set_read_timeout(settings.read_timeout);
        connector.set_write_timeout(Some(WRITE_TIMEOUT));
        // Without this a connection that was idle for nearly the read time-out breaks under its next request.
        connector.set_reset_reader_on_write(true);
        let executor = PlaneExecutor { tasks: settings.tasks, closed: settings.closed };
        let current = RwLock::new(http_client(&connector, &executor));
        Self(Arc::new(Shared { connector, executor, current }))
    }

    /// Makes later requests use new connections. Those in use live until their request is over.
    pub(super) fn renew(&self) {
        let new = http_client(&self.0.connector, &self.0.executor);
        *self.0.current.write().unwrap_or_else(PoisonError::into_inner) = new;
    }

    fn current(&self) -> HttpClient {
        self.0.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn http_client(connector: &Connector, executor: &PlaneExecutor) -> HttpClient {
    legacy::Client::builder(executor.clone())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(KEPT_IDLE)
        .build(connector.clone())
}

/// Runs connections as tasks of their plane, so that they end with it, whatever they are doing.
#[derive(Clone)]
struct PlaneExecutor {
    tasks: TaskTracker,
    closed: CancellationToken,
}

impl<F> Executor<F> for PlaneExecutor
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, connection: F) {
        let closed = self.closed.clone();
        self.tasks.spawn(async move {
            closed.run_until_cancelled(connection).await;
        });
    }
}

/// The plane was disconnected or forgotten while a call was under way, or before it.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the plane is no longer connected; try again when it is")]
struct Closed;

/// Sends requests with the credentials of the moment.
#[derive(Clone)]
pub(super) struct Transport {
    pool: Pool,
    credentials: Option<Arc<Credentials>>,
    doubt: Option<Arc<Notify>>,
    closed: CancellationToken,
    /// Of what the answers may take; those of lists and watches are measured by who reads them.
    room: Option<Arc<Room>>,
    permit: &'static Permit,
}

impl Transport {
    pub(super) fn new(
        pool: Pool,
        credentials: Option<Arc<Credentials>>,
        doubt: Option<Arc<Notify>>,
        closed: CancellationToken,
        room: Option<Arc<Room>>,
        permit: &'static Permit,
    ) -> Self {
        Self { pool, credentials, doubt, closed, room, permit }
    }
}

impl Service<Request<Body>> for Transport {
    type Response = Response<Answer>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let transport = self.clone();
        // Credentials and connections are chosen when the request is sent, not when it begins to wait.
        Box::pin(async move { transport.send(request).await })
    }
}

impl Transport {
    async fn send(self, mut request: Request<Body>) -> Result<Response<Answer>, BoxError> {
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, user_agent());
        if let Some(token) = self.credentials.as_ref().and_then(|current| current.authorization()) {
            headers.insert(AUTHORIZATION, token);
        }
        // After all waiting: what was queued while this operator led is not sent when it no longer does.
        let request = self.permit.fence(request)?;
        let answer = self.closed.run_until_cancelled(self.pool.current().request(request)).await;
        let answer = answer.ok_or(Closed)?;
        let doubtful = answer.as_ref().map_or(true, |answer| answer.status() == StatusCode::UNAUTHORIZED);
        if let Some(doubt) = self.doubt.as_ref().filter(|_| doubtful) {
            doubt.notify_one();
        }
        Ok(answer?.map(|body| Answer::new(body, self.room)))
    }
}
