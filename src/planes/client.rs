//! Clients of one cluster whose credentials can be exchanged while they are in use.
//!
//! ```text
//! calls    ─→ concurrency ─→ rate ─→ counted ─┐
//! probes   ───────────────────────────────────┼─→ token ─→ fence ─→ Pool (time-outs, address filter, TLS with the certificate)
//! watches  ──────────────────────────→ counted ─┘            one for calls and probes, one without read time-out for watches
//! ```

mod answer;
mod change;
mod credentials;
mod pool;
mod resolve;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use http::{HeaderValue, Uri, uri::Scheme};
use kantor_core::net::Host;
use kube::{
    Client, Config,
    client::{Body, ConfigExt},
};
use rustls::{
    ClientConfig,
    client::Resumption,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::sync::Notify;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};
use tower::{BoxError, Layer, Service, ServiceBuilder, limit::ConcurrencyLimitLayer};

pub use self::change::AccessChange;
pub(super) use self::{answer::retry_after, resolve::ResolveError};
use self::{
    credentials::Credentials,
    pool::{Pool, PoolSettings, Transport},
};
use super::{
    Access, AddressPolicy, Auth, RemoteAccess,
    room::{Limits, Room},
};
use crate::{
    client::{fence::Permit, rate_limit::RateLimitLayer},
    telemetry::metrics::PlaneMetrics,
};

/// Why an access cannot be used. The text says what to correct and nothing of the access itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AccessError(pub(super) &'static str);

/// How long a connection may be silent under a call, if calls may not take longer.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Limits and settings of a plane's clients.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientSettings {
    pub(super) connect_timeout: Duration,
    pub(super) deadline: Duration,
    pub(super) concurrency: usize,
    pub(super) qps: u32,
    pub(super) burst: u32,
    pub(super) addresses: AddressPolicy,
    pub(super) limits: Limits,
    pub(super) permit: &'static Permit,
}

/// Clients of one cluster. Dropping it cuts all of their connections.
pub(super) struct Connection {
    /// For reads and writes of controllers: limited in number and rate.
    pub(super) calls: Client,
    /// For the connector: not held up by calls that wait.
    pub(super) probes: Client,
    /// For lists and watches: nothing ends a read but the connection.
    pub(super) watches: Client,
    /// Told when a call or watch was answered 401, or could not be made.
    pub(super) doubt: Arc<Notify>,
    /// What its answers and objects may take.
    pub(super) room: Arc<Room>,
    /// Cancelled when the connection is dropped, or with its parent.
    pub(super) closed: CancellationToken,
    /// None for the operator's own cluster, whose credentials kube reads again by itself.
    credentials: Option<Arc<Credentials>>,
    pools: [Pool; 2],
    _close: DropGuard,
}

impl Connection {
    /// Makes the clients; nothing is dialled yet. Their connections are tasks of `tasks` and end with `parent`.
    pub(super) fn open(
        access: &Access,
        own: Option<&Config>,
        settings: &ClientSettings,
        metrics: &PlaneMetrics,
        tasks: &TaskTracker,
        parent: &CancellationToken,
    ) -> Result<Self, AccessError> {
        let closed = parent.child_token();
        let (config, mut tls, credentials) = match access {
            Access::InCluster => {
                let own = own.ok_or(AccessError("this operator has no cluster of its own: use secretRef"))?;
                let tls = own
                    .rustls_client_config()
                    .map_err(|_| AccessError("the operator's own credentials cannot be used"))?;
                (own.clone(), tls, None)
            }
            Access::Remote(remote) => {
                let credentials = Arc::new(Credentials::new(&remote.auth)?);
                let (config, mut tls) = remote_config(remote, settings.addresses)?;
                tls.client_auth_cert_resolver = credentials.clone();
                (config, tls, Some(credentials))
            }
        };
        // A resumed session keeps the identity of the handshake that began it: after an exchange of certificates
        // the server would go on seeing the old one.
        tls.resumption = Resumption::disabled();
        let addresses = credentials.is_some().then_some(settings.addresses);
        let server_name = config.tls_server_name.as_deref().map(server_name).transpose()?;
        let pool = |read_timeout| {
            Pool::new(PoolSettings {
                tls: tls.clone(),
                server_name: server_name.clone(),
                connect_timeout: settings.connect_timeout,
                read_timeout,
                addresses,
                tasks: tasks.clone(),
                closed: closed.clone(),
            })
        };
        let pools = [pool(Some(READ_TIMEOUT.max(settings.deadline))), pool(None)];
        let doubt = Arc::new(Notify::new());
        let room = Room::new(settings.limits);
        let transport = |pool: &Pool, doubt: Option<&Arc<Notify>>, room: Option<&Arc<Room>>| {
            let transport = Transport::new(
                pool.clone(),
                credentials.clone(),
                doubt.cloned(),
                closed.clone(),
                room.cloned(),
                settings.permit,
            );
            clustered(&config, transport)
        };
        let calls = ServiceBuilder::new()
            .layer(ConcurrencyLimitLayer::new(settings.concurrency.max(1)))
            .layer(RateLimitLayer::new(settings.qps, settings.burst))
            .layer(metrics.calls.layer())
            .service(transport(&pools[0], Some(&doubt), Some(&room))?);
        let watches = metrics.calls.layer().layer(transport(&pools[1], Some(&doubt), None)?);
        Ok(Self {
            calls: Client::new(calls, "default"),
            probes: Client::new(transport(&pools[0], None, Some(&room))?, "default"),
            watches: Client::new(watches, "default"),
            doubt,
            room,
            credentials,
            pools,
            _close: closed.clone().drop_guard(),
            closed,
        })
    }

    /// Uses other credentials from the next request on. Open watches and calls in flight are left alone.
    pub(super) fn swap(&self, auth: &Auth) -> Result<(), AccessError> {
        let Some(credentials) = &self.credentials else {
            return Err(AccessError("the operator's own cluster takes no other credentials"));
        };
        if credentials.swap(auth)? {
            // A connection keeps the certificate of its handshake: later requests need new ones.
            self.pools.iter().for_each(Pool::renew);
        }
        Ok(())
    }
}

/// The transport with what kube's own stack adds: the server's address and the operator's own credentials.
fn clustered(
    config: &Config,
    transport: Transport,
) -> Result<
    impl Service<
        http::Request<Body>,
        Response = http::Response<answer::Answer>,
        Error = BoxError,
        Future: Send + 'static,
    >
    + Send
    + 'static
    + use<>,
    AccessError,
> {
    let own_auth =
        config.auth_layer().map_err(|_| AccessError("the operator's own credentials cannot be used"))?;
    let headers =
        config.extra_headers_layer().map_err(|_| AccessError("a header of the operator cannot be sent"))?;
    Ok(ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(own_auth)
        .layer(headers)
        .map_err(BoxError::from)
        .service(transport))
}

/// Address and TLS settings of another cluster, without any credentials.
fn remote_config(
    remote: &RemoteAccess,
    addresses: AddressPolicy,
) -> Result<(Config, ClientConfig), AccessError> {
    if remote.server.scheme() != Some(&Scheme::HTTPS) {
        return Err(AccessError("the server's address must begin with https://"));
    }
    check_literal(&remote.server, addresses)?;
    let mut config = Config::new(remote.server.clone());
    config.tls_server_name.clone_from(&remote.tls_server_name);
    config.root_cert = remote.ca_pem.as_deref().map(authorities).transpose()?;
    let tls = match &config.root_cert {
        Some(_) => config.rustls_client_config(),
        None => system_authorities(&config),
    };
    let tls = tls.map_err(|_| AccessError("the certificate authority of the server cannot be used"))?;
    Ok((config, tls))
}

/// Settings that trust the authorities of the operating system. These are read once: they are many, and planes that
/// cannot be reached are tried again and again.
fn system_authorities(without_authority: &Config) -> kube::Result<ClientConfig> {
    static SYSTEM: OnceLock<ClientConfig> = OnceLock::new();
    if let Some(tls) = SYSTEM.get() {
        return Ok(tls.clone());
    }
    let tls = without_authority.rustls_client_config()?;
    Ok(SYSTEM.get_or_init(|| tls).clone())
}

/// Names are judged by what they resolve to; an address that stands in the URL is never resolved.
fn check_literal(server: &Uri, addresses: AddressPolicy) -> Result<(), AccessError> {
    let host = server.host().ok_or(AccessError("the server's address has no host"))?;
    match Host::parse(host) {
        Ok(Host::Ip(ip)) if !addresses.permits(ip) => {
            Err(AccessError("the server's address is not one a plane may have"))
        }
        _ => Ok(()),
    }
}

fn authorities(pem: &str) -> Result<Vec<Vec<u8>>, AccessError> {
    // The errors of the parser quote the text that they could not read.
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found.iter().map(|der| der.to_vec()).collect()),
        _ => Err(AccessError("the certificate authority of the server is not a PEM certificate")),
    }
}

fn server_name(name: &str) -> Result<ServerName<'static>, AccessError> {
    ServerName::try_from(name.to_owned()).map_err(|_| AccessError("tls-server-name is not a host name"))
}

/// What the operator calls itself.
fn user_agent() -> HeaderValue {
    HeaderValue::from_static(concat!("kantor/", env!("CARGO_PKG_VERSION")))
}

#[cfg(test)]
mod tests;
