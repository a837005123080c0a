//! All planes that are wanted, and those of them that are connected.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use kube::Config;
use moka::{ops::compute::Op, sync::Cache};
use tokio::sync::{mpsc, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Access, AccessChange, AddressPolicy, Plane, PlaneKey, PlaneState, RemoteChange,
    client::ClientSettings,
    connector::{Connector, Machine},
    credentials_expiry,
    room::Limits,
    subscribers::Subscribers,
};
use crate::{
    client::fence::{ALWAYS, Permit},
    telemetry::metrics::{Metrics, PlaneMetrics},
};

/// Settings of all planes.
#[derive(Clone, Copy, Debug)]
pub struct PlaneOptions {
    /// Time between probes of a connected plane.
    pub probe_interval: Duration,
    /// How long a probe may take.
    pub probe_timeout: Duration,
    /// How long it may take to open a connection, handshake included.
    pub connect_timeout: Duration,
    /// How long an attempt to connect may take in all.
    pub attempt_timeout: Duration,
    /// How long a call may take in all; see [`Plane::deadline`].
    pub deadline: Duration,
    /// Calls under way at a time, per plane.
    pub concurrency: usize,
    /// Calls per second, per plane.
    pub qps: u32,
    /// Calls that may exceed the rate for a moment, per plane.
    pub burst: u32,
    /// Addresses that planes may have.
    pub addresses: AddressPolicy,
    /// How much each plane may say.
    pub limits: Limits,
    /// Leave to write to planes.
    pub permit: &'static Permit,
}

impl Default for PlaneOptions {
    fn default() -> Self {
        Self {
            probe_interval: Duration::from_secs(10),
            probe_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(5),
            attempt_timeout: Duration::from_secs(10),
            deadline: Duration::from_secs(10),
            concurrency: 32,
            qps: 100,
            burst: 200,
            addresses: AddressPolicy::default(),
            limits: Limits::default(),
            permit: &ALWAYS,
        }
    }
}

impl PlaneOptions {
    pub(super) fn client_settings(&self) -> ClientSettings {
        ClientSettings {
            connect_timeout: self.connect_timeout,
            deadline: self.deadline,
            concurrency: self.concurrency,
            qps: self.qps,
            burst: self.burst,
            permit: self.permit,
            addresses: self.addresses,
            limits: self.limits,
        }
    }
}

/// There is no connection to a plane now. [`Planes::changes`] tells when there is one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotConnected {
    /// Nobody asked for it with [`Planes::want`].
    #[error("the data plane {0} is not registered")]
    NotWanted(PlaneKey),
    /// The first attempt is under way.
    #[error("the data plane {0} is being connected")]
    Connecting(PlaneKey),
    /// It was tried, or it was lost.
    #[error("the data plane {plane} is not connected: {message}")]
    Disconnected {
        /// The plane.
        plane: PlaneKey,
        /// Why and what to do.
        message: String,
    },
}

/// All planes. Cheap to clone; the clones are one.
#[derive(Clone)]
pub struct Planes {
    hub: Arc<Hub>,
    wanted: Arc<RwLock<HashMap<PlaneKey, Wanted>>>,
    next_id: Arc<AtomicU64>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// What connectors share.
pub(super) struct Hub {
    pub(super) options: PlaneOptions,
    /// How the operator reaches its own cluster.
    pub(super) own: Option<Config>,
    pub(super) metrics: Metrics,
    pub(super) changes: Subscribers<PlaneKey>,
    pub(super) objects: Subscribers<RemoteChange>,
    /// Without limit or age: what is evicted would still be connected. Only connectors put and remove.
    connected: Cache<PlaneKey, Arc<Plane>>,
}

impl Hub {
    /// Hands the plane out from now on, unless its connector was told to stop.
    pub(super) fn put(&self, plane: &Plane, stop: &CancellationToken) {
        let plane = Arc::new(plane.clone());
        self.connected
            .entry(plane.key.clone())
            .and_compute_with(|_| if stop.is_cancelled() { Op::Nop } else { Op::Put(plane) });
    }

    /// Stops handing out the plane of this connector; a later connector's is left alone.
    pub(super) fn withdraw(&self, key: &PlaneKey, id: u64) {
        self.connected.entry_by_ref(key).and_compute_with(|found| match found {
            Some(found) if found.value().id() == id => Op::Remove,
            _ => Op::Nop,
        });
    }
}

struct Wanted {
    id: u64,
    access: watch::Sender<Access>,
    state: Arc<RwLock<PlaneState>>,
    metrics: Arc<PlaneMetrics>,
    stop: CancellationToken,
    ended: CancellationToken,
}

impl Planes {
    /// No planes yet. `own` is how the operator reaches its own cluster, for planes that are it. Connectors run on
    /// `tasks` and end with `stop`.
    pub fn new(
        options: PlaneOptions,
        own: Option<Config>,
        metrics: Metrics,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Self {
        let connected = Cache::builder().build();
        let (changes, objects) = (Subscribers::default(), Subscribers::default());
        Self {
            hub: Arc::new(Hub { options, own, metrics, changes, objects, connected }),
            wanted: Arc::default(),
            next_id: Arc::default(),
            tasks: tasks.clone(),
            stop: stop.clone(),
        }
    }

    /// Wants a plane connected, with this access. The same again does nothing; other credentials are used from the
    /// next request on, with all watches kept; another server or authority makes it reconnect.
    pub fn want(&self, key: &PlaneKey, access: Access) {
        self.want_known(key, access, None, None);
    }

    /// As [`Planes::want`], for a plane that is known to be the cluster with this UID: another cluster at its address
    /// is reported as [`DisconnectReason::IdentityChanged`](super::DisconnectReason::IdentityChanged) and not used.
    /// Without it a plane is the cluster that answers first. It counts from the first call on; to accept another
    /// cluster, [`Planes::forget`] the plane and want it anew. `last_contact` is when it is known to have answered last.
    pub fn want_known(
        &self,
        key: &PlaneKey,
        access: Access,
        cluster_uid: Option<String>,
        last_contact: Option<jiff::Timestamp>,
    ) {
        let mut wanted = self.wanted.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = wanted.get(key) {
            known.metrics.credentials_expire(expiry(&access));
            known.access.send_if_modified(|current| {
                let changed = AccessChange::between(current, &access) != AccessChange::Nothing;
                if changed {
                    *current = access;
                }
                changed
            });
            return;
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let metrics = self.hub.metrics.add_plane(key.to_string());
        metrics.credentials_expire(expiry(&access));
        let (access, accesses) = watch::channel(access);
        let (stop, ended) = (self.stop.child_token(), CancellationToken::new());
        let hub = self.hub.clone();
        let machine = Machine::new(cluster_uid, last_contact);
        let (connector, state) =
            Connector::new(key.clone(), id, accesses, machine, hub, metrics.clone(), stop.clone());
        let end = ended.clone().drop_guard();
        // Tracked inside the task, so that whoever waits for the end finds it off the books.
        let running = self.tasks.track_future(connector.run());
        tokio::spawn(async move {
            running.await;
            drop(end);
        });
        wanted.insert(key.clone(), Wanted { id, access, state, metrics, stop, ended });
    }

    /// Stops everything of a plane at once. The future, which need not be awaited, ends when nothing of it is left:
    /// no task, no watch, no connection.
    pub fn forget(&self, key: &PlaneKey) -> impl Future<Output = ()> + Send + use<> {
        let mut all = self.wanted.write().unwrap_or_else(PoisonError::into_inner);
        let wanted = all.remove(key);
        if let Some(wanted) = &wanted {
            wanted.stop.cancel();
            self.hub.metrics.forget_plane(&key.to_string());
            self.hub.withdraw(key, wanted.id);
            self.hub.changes.tell(key);
        }
        drop(all);
        async move {
            if let Some(wanted) = wanted {
                wanted.ended.cancelled().await;
            }
        }
    }

    /// The plane, if it is connected now. Never dials and never waits.
    pub fn get(&self, key: &PlaneKey) -> Result<Arc<Plane>, NotConnected> {
        if let Some(plane) = self.hub.connected.get(key) {
            return Ok(plane);
        }
        Err(match self.state(key) {
            None => NotConnected::NotWanted(key.clone()),
            Some(PlaneState::Disconnected { message, .. }) => {
                NotConnected::Disconnected { plane: key.clone(), message }
            }
            // Connected: it is being handed out or withdrawn this moment.
            Some(PlaneState::Connecting | PlaneState::Connected { .. }) => {
                NotConnected::Connecting(key.clone())
            }
        })
    }

    /// What is known of a plane; none if it is not wanted.
    pub fn state(&self, key: &PlaneKey) -> Option<PlaneState> {
        let wanted = self.wanted.read().unwrap_or_else(PoisonError::into_inner);
        wanted.get(key).map(|known| known.state.read().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// The keys of all wanted planes.
    pub fn keys(&self) -> Vec<PlaneKey> {
        self.wanted.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Tells, from now on, of each plane whose state changed: connected, not connected or for another reason, other
    /// optional parts or kinds, forgotten. Nothing is left out; read [`Planes::state`] for what it is now.
    pub fn changes(&self) -> mpsc::UnboundedReceiver<PlaneKey> {
        self.hub.changes.subscribe()
    }

    /// Tells, from now on, of each followed object on any plane that was added, changed or deleted.
    pub fn remote_changes(&self) -> mpsc::UnboundedReceiver<RemoteChange> {
        self.hub.objects.subscribe()
    }
}

/// When the credentials of an access expire, in seconds since 1970.
fn expiry(access: &Access) -> Option<i64> {
    match access {
        Access::InCluster => None,
        Access::Remote(remote) => credentials_expiry(remote).map(jiff::Timestamp::as_second),
    }
}

impl fmt::Debug for Planes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planes").field("wanted", &self.keys()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
