//! A TLS man-in-the-middle in front of a kube-apiserver: it records every request and breaks what a rule says.
//!
//! ```text
//! client ──TLS──→ serve ─→ forward ─→ apiserver      request  what is asked for (pure)
//!                            │  └→ watching (events)  record   what is written down, log keeps it
//!                            └→ rules ← FaultHandle   fault    which requests, and what happens to them
//! ```
//!
//! It speaks HTTP/1.1 on both sides and does not pass on protocol upgrades (`exec`, `port-forward`). Each proxy runs on a
//! thread of its own, so that it works whatever the test's runtime is doing, and dropping it ends everything before the
//! drop returns. A server that cannot be reached shows as a cut connection.

use std::{convert::Infallible, net::Ipv4Addr, sync::Arc, thread, time::Duration};

use anyhow::{Context, ensure};
use hyper::{
    Uri,
    http::uri::{Authority, PathAndQuery, Scheme},
};
use tokio::{net::TcpListener, sync::oneshot};

use crate::{Cluster, SharedCluster, certificates::Identity};

mod answer;
mod body;
mod fault;
mod forward;
mod log;
mod matching;
mod record;
mod request;
mod rules;
mod serve;
mod tls;
mod usage;
mod watching;

pub use fault::{Action, Answerer, EventPredicate, Fault, FaultWhen, Rewriter, StatusReply, WatchEvent};
pub use log::Mark;
pub use matching::Match;
pub use record::{Credential, Outcome, Record, Records, RequestBody};
pub use request::{Target, Verb};
pub use rules::FaultHandle;

/// Bytes of one request body that are recorded: more than the apiserver accepts.
pub const BODY_LIMIT: usize = 4 << 20;

/// The server behind a proxy.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// Name of the cluster, for reports.
    pub name: String,
    /// `https://host:port`.
    pub url: String,
    /// CA of the server's certificate.
    pub ca_pem: String,
    /// Certificate and key that the server accepts as its front proxy (`--requestheader-client-ca-file`). Needed to pass
    /// on the identity of client certificates.
    pub front_proxy: Option<Identity>,
    /// CA of client certificates. Without it the proxy does not ask for any.
    pub client_ca_pem: Option<String>,
}

impl From<&Cluster> for Upstream {
    fn from(cluster: &Cluster) -> Self {
        Self {
            name: cluster.name().to_owned(),
            url: cluster.url().to_owned(),
            ca_pem: cluster.ca_pem().to_owned(),
            front_proxy: Some(cluster.front_proxy_identity().clone()),
            client_ca_pem: Some(cluster.client_ca_pem().to_owned()),
        }
    }
}

impl From<&SharedCluster> for Upstream {
    fn from(cluster: &SharedCluster) -> Self {
        Self::from(&**cluster)
    }
}

/// The proxy. Everything of it ends when it is dropped.
pub struct Proxy {
    url: String,
    shared: Arc<Shared>,
    /// Dropped to stop the thread.
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// What connections and the test's side share.
struct Shared {
    name: String,
    server: Authority,
    clients: tls::Clients,
    facade: tls::Facade,
    log: Arc<log::Log>,
    rules: Arc<rules::Rules>,
}

impl Shared {
    fn at_server(&self, uri: &Uri) -> Uri {
        let mut parts = uri.clone().into_parts();
        parts.scheme = Some(Scheme::HTTPS);
        parts.authority = Some(self.server.clone());
        parts.path_and_query.get_or_insert(PathAndQuery::from_static("/"));
        Uri::from_parts(parts).expect("scheme, authority and path make a URI")
    }
}

impl Proxy {
    /// Starts a proxy on a free port of 127.0.0.1, in front of a `&Cluster` or any other [`Upstream`].
    ///
    /// Clients get there with `cluster.kubeconfig().at(proxy.url(), proxy.ca_pem())`.
    pub fn start(upstream: impl Into<Upstream>) -> anyhow::Result<Self> {
        let upstream = upstream.into();
        let url: Uri = upstream.url.parse().context("URL of the server")?;
        ensure!(url.scheme() == Some(&Scheme::HTTPS), "the server's URL {url} is not https");
        ensure!(matches!(url.path(), "" | "/"), "the server's URL {url} has a path");
        let shared = Arc::new(Shared {
            name: upstream.name.clone(),
            server: url.authority().context("host of the server")?.clone(),
            clients: tls::Clients::new(&upstream)?,
            facade: tls::Facade::new(upstream.client_ca_pem.as_deref())?,
            log: Arc::new(log::Log::new()),
            rules: Arc::new(rules::Rules::new()),
        });
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let (stop, stopped) = oneshot::channel();
        let serving = shared.clone();
        let thread = thread::Builder::new().name(format!("proxy-{}", address.port())).spawn(move || {
            runtime.block_on(serve::run(listener, serving, stopped));
            // Name look-ups run on threads that cannot be ended; they are not waited for.
            runtime.shutdown_background();
        })?;
        Ok(Self { url: format!("https://{address}"), shared, stop: Some(stop), thread: Some(thread) })
    }

    /// Where clients connect to.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The CA that clients must trust: the proxy's own.
    pub fn ca_pem(&self) -> &str {
        &self.shared.facade.ca_pem
    }

    /// The point in time after all requests so far.
    pub fn mark(&self) -> Mark {
        self.shared.log.mark()
    }

    /// All requests since `mark`.
    pub fn since(&self, mark: Mark) -> Records {
        self.shared.log.since(mark)
    }

    /// All requests.
    pub fn requests(&self) -> Records {
        self.since(Mark(0))
    }

    /// The requests since `mark` that may change what the cluster stores; see [`Target::is_write`].
    pub fn writes_since(&self, mark: Mark) -> Records {
        self.since(mark).writes()
    }

    /// Fails the test, naming them, if there were writes since `mark`.
    #[track_caller]
    pub fn assert_no_writes_since(&self, mark: Mark) {
        let writes = self.writes_since(mark);
        assert!(writes.is_empty(), "expected no writes, there were {}:\n{writes}", writes.len());
    }

    /// Fails the test, naming them, if there were any requests since `mark`. Watches that were open before do not count.
    #[track_caller]
    pub fn assert_no_requests_since(&self, mark: Mark) {
        let requests = self.since(mark);
        assert!(requests.is_empty(), "expected no requests, there were {}:\n{requests}", requests.len());
    }

    /// Waits until there is a request, past or new, that `wanted` accepts. It is asked again whenever a request changes
    /// its outcome; the error lists what came instead.
    pub async fn await_request(
        &self,
        wanted: impl Fn(&Record) -> bool,
        deadline: Duration,
    ) -> anyhow::Result<Record> {
        self.await_request_since(Mark(0), wanted, deadline).await
    }

    /// As [`Proxy::await_request`], among the requests since `mark`.
    pub async fn await_request_since(
        &self,
        mark: Mark,
        wanted: impl Fn(&Record) -> bool,
        deadline: Duration,
    ) -> anyhow::Result<Record> {
        self.shared.log.wait(mark, wanted, deadline).await
    }

    /// Waits until no new request came for as long as `quiet`.
    pub async fn await_quiet(&self, quiet: Duration, deadline: Duration) -> anyhow::Result<()> {
        self.shared.log.wait_quiet(quiet, deadline).await
    }

    /// Forgets the requests before `mark` that are over, to bound memory in long runs.
    pub fn forget_before(&self, mark: Mark) {
        self.shared.log.forget_before(mark);
    }

    /// Adds a rule, which is in force when this returns and until its handle is dropped. A rule that never took effect fails the
    /// test then; see [`FaultHandle::may_miss`].
    pub fn fault(&self, fault: Fault) -> FaultHandle {
        self.shared.rules.add(fault)
    }

    /// Cuts all connections and resets new ones, until called with `false`.
    pub fn refuse(&self, refuse: bool) {
        self.shared.rules.refuse(rules::BY_TEST, refuse);
    }

    /// Cuts all connections once; new ones are served.
    pub fn cut_connections(&self) {
        self.shared.rules.cut_connections();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened.
            let _ = thread.join();
        }
        usage::note(&self.shared.name, &self.requests());
    }
}
