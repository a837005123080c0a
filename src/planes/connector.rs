//! One task per wanted plane: it connects, probes, takes new credentials, and tries again.
//!
//! ```text
//! attempt ──found──→ hold: probe · swap credentials · refresh optional parts ──lost──┐
//!    ↑   └──failed──────────────────────────────────────────────────────────→ wait ←─┘
//!    └──────────────────────── backoff over, or a new access ───────────────────┘
//! ```
//! What an outcome means is decided by [`state::Machine`]; here is only what has to wait.

mod probe;
mod refresh;
mod state;

use std::{
    hash::{BuildHasher, RandomState},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use jiff::Timestamp;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{info, warn};

pub use self::state::{DisconnectReason, PlaneState};
use self::{
    probe::Found,
    state::{Failure, Verdict},
};
pub(super) use self::{
    refresh::{Defined, Ever},
    state::{Facts, Machine},
};
use super::{
    Access, AccessChange, PlaneKey, RemoteChange, ServedKinds,
    client::{AccessError, Connection},
    plane::{Plane, Session},
    registry::Hub,
    subscribers::Subscribers,
    watches::{FIRST_RETRY, Surroundings},
};
use crate::telemetry::metrics::PlaneMetrics;

/// Probes that callers ask for by their doubts are at least this far apart.
const DOUBT_SPACING: Duration = Duration::from_secs(1);

/// The connector of one plane.
pub(super) struct Connector {
    key: PlaneKey,
    /// Tells this connector's planes from those of an earlier one of the same key.
    id: u64,
    access: watch::Receiver<Access>,
    hub: Arc<Hub>,
    metrics: Arc<PlaneMetrics>,
    machine: Machine,
    published: Arc<RwLock<PlaneState>>,
    /// Connections and watches.
    tasks: TaskTracker,
    /// Groups that the plane was ever seen to serve.
    ever: Arc<Ever>,
    stop: CancellationToken,
    jitter: RandomState,
}

impl Connector {
    /// A connector, and where it makes the state known. `machine` has what is known of the plane.
    pub(super) fn new(
        key: PlaneKey,
        id: u64,
        access: watch::Receiver<Access>,
        machine: Machine,
        hub: Arc<Hub>,
        metrics: Arc<PlaneMetrics>,
        stop: CancellationToken,
    ) -> (Self, Arc<RwLock<PlaneState>>) {
        let published = Arc::new(RwLock::new(PlaneState::Connecting));
        let connector = Self {
            key,
            id,
            access,
            hub,
            metrics,
            machine,
            published: published.clone(),
            tasks: TaskTracker::new(),
            ever: Arc::default(),
            stop,
            jitter: RandomState::new(),
        };
        (connector, published)
    }

    /// Connects and stays connected until told to stop. Nothing of the plane is left when this returns.
    pub(super) async fn run(mut self) {
        let stop = self.stop.clone();
        stop.run_until_cancelled(self.drive()).await;
        self.hub.withdraw(&self.key, self.id);
        self.tasks.close();
        self.tasks.wait().await;
    }

    async fn drive(&mut self) {
        loop {
            let access = self.access.borrow_and_update().clone();
            // Boxed: planes that wait would otherwise hold the room that an attempt takes.
            let attempt = Box::pin(attempt(
                self.hub.clone(),
                access.clone(),
                self.metrics.clone(),
                self.tasks.clone(),
                self.stop.clone(),
            ));
            let Some(outcome) = unless_changed(&mut self.access, attempt).await else { continue };
            match outcome {
                Ok((connection, found)) => Box::pin(self.hold(access, connection, found)).await,
                Err(failure) => {
                    self.machine.failed(Timestamp::now(), failure);
                }
            }
            self.publish();
            let wait = self.machine.wait(self.hub.options.probe_interval, self.random());
            if unless_changed(&mut self.access, sleep(wait)).await.is_none() {
                self.machine.begin_anew();
            }
        }
    }

    /// Keeps the plane connected, until it is lost or given another address.
    async fn hold(&mut self, mut access: Access, connection: Connection, found: Found) {
        let (kinds, kinds_seen) = watch::channel(found.kinds.clone());
        let changes = Subscribers::default();
        let told = changes.subscribe();
        let around = Surroundings {
            plane: self.key.clone(),
            client: connection.watches.clone(),
            tasks: self.tasks.clone(),
            closed: connection.closed.child_token(),
            changes,
            kinds: kinds_seen.clone(),
            first_retry: FIRST_RETRY,
            metrics: self.metrics.clone(),
            room: connection.room.clone(),
        };
        let defined = Arc::new(Defined::follow(around, found.said_ready, self.ever.clone()));
        let listing = first_list(&connection, &defined, &found.kinds, self.hub.options.attempt_timeout);
        let Some(listed) = until_changed(&self.access, listing).await else { return };
        if let Err(failure) = listed {
            self.machine.failed(Timestamp::now(), failure);
            return;
        }
        let was_lost = self.machine.was_lost();
        if self.machine.found(Timestamp::now(), &found.facts) == Verdict::Disconnect {
            return;
        }
        let concurrency = self.hub.options.concurrency;
        let session = Session::new(
            &connection,
            self.tasks.clone(),
            self.hub.objects.clone(),
            kinds_seen,
            defined.clone(),
            concurrency,
            self.metrics.clone(),
        );
        let mut plane =
            Plane::new(self.key.clone(), self.id, found.facts, self.hub.options.deadline, session);
        if was_lost {
            plane.start_slowly();
        }
        self.hub.put(&plane, &self.stop);
        self.publish();
        let mut news = self.follow_kinds(&connection, defined, told, kinds);

        let mut probed = Instant::now();
        let mut due = probed + self.next_probe();
        loop {
            tokio::select! {
                biased;
                () = changed(&mut self.access) => match self.exchange(&mut access, &connection) {
                    Exchange::Done => {}
                    Exchange::Leave => break self.machine.left(),
                    Exchange::Failed => break,
                },
                Some(found) = news.recv() => {
                    if self.machine.refreshed(&found.version, &found.capabilities) {
                        plane = plane.with(found.version, found.capabilities);
                        self.hub.put(&plane, &self.stop);
                        self.publish();
                    } else if found.other_kinds {
                        self.hub.changes.tell(&self.key);
                    }
                    continue;
                }
                excess = connection.room.until_exceeded() => {
                    self.machine.failed(Timestamp::now(), probe::excess(&excess));
                    break;
                }
                () = connection.doubt.notified() => {
                    due = due.min(probed + DOUBT_SPACING);
                    continue;
                }
                () = sleep_until(due) => {}
            }
            let asked = Instant::now();
            let probe = probe::alive(&connection.probes, self.hub.options.probe_timeout);
            // A new access makes the answer worthless: the plane is probed again with it.
            let Some(outcome) = until_changed(&self.access, probe).await else {
                due = Instant::now();
                continue;
            };
            let verdict = match outcome {
                Ok(uid) => {
                    self.metrics.probed(asked.elapsed());
                    if self.machine.is_in_doubt() {
                        plane.start_slowly();
                    }
                    self.machine.answered(Timestamp::now(), &uid)
                }
                Err(failure) => self.machine.failed(Timestamp::now(), failure),
            };
            if verdict == Verdict::Disconnect {
                break;
            }
            self.store_state();
            probed = Instant::now();
            due = probed + self.next_probe();
        }
        self.hub.withdraw(&self.key, self.id);
        // `connection` ends here, and with it everything that uses it.
    }

    /// Brings a new access into use.
    fn exchange(&mut self, access: &mut Access, connection: &Connection) -> Exchange {
        let new = self.access.borrow_and_update().clone();
        let change = AccessChange::between(access, &new);
        *access = new;
        match (change, &*access) {
            (AccessChange::Reconnect, _) => Exchange::Leave,
            (AccessChange::Swap, Access::Remote(remote)) => match connection.swap(&remote.auth) {
                Ok(()) => {
                    info!(plane = %self.key, "uses new credentials");
                    Exchange::Done
                }
                Err(error) => {
                    self.machine.failed(Timestamp::now(), unusable(error));
                    Exchange::Failed
                }
            },
            _ => Exchange::Done,
        }
    }

    fn follow_kinds(
        &self,
        connection: &Connection,
        defined: Arc<Defined>,
        told: mpsc::UnboundedReceiver<RemoteChange>,
        kinds: watch::Sender<Arc<ServedKinds>>,
    ) -> mpsc::Receiver<refresh::News> {
        let (tell, news) = mpsc::channel(1);
        let following = refresh::follow_kinds(
            defined,
            told,
            connection.probes.clone(),
            self.hub.options.attempt_timeout,
            kinds,
            tell,
        );
        let closed = connection.closed.clone();
        self.tasks.spawn(async move {
            closed.run_until_cancelled(following).await;
        });
        news
    }

    fn next_probe(&self) -> Duration {
        self.machine.wait(self.hub.options.probe_interval, self.random())
    }

    fn random(&self) -> f64 {
        let random = u32::try_from(self.jitter.hash_one(Instant::now()) >> 32).unwrap_or_default();
        f64::from(random) / f64::from(u32::MAX)
    }

    /// Makes the state known, and tells of it if it is another one than before.
    fn publish(&self) {
        let new = self.machine.state();
        let old = self.store_state();
        if state::same_but_for_contact(&old, new) {
            return;
        }
        self.metrics.connected(matches!(new, PlaneState::Connected { .. }));
        match new {
            PlaneState::Connecting => info!(plane = %self.key, "connecting"),
            PlaneState::Connected { server_version, cluster_uid, capabilities, .. } => info!(
                plane = %self.key, server_version, cluster_uid, capabilities = capabilities.names().join(","),
                "connected"
            ),
            PlaneState::Disconnected { why, message, .. } => {
                self.metrics.disconnected(why.as_str());
                warn!(plane = %self.key, reason = %why, message, "not connected; trying again");
            }
        }
        self.hub.changes.tell(&self.key);
    }

    fn store_state(&self) -> PlaneState {
        self.metrics.contacted(self.machine.last_contact());
        let mut published = self.published.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *published, self.machine.state().clone())
    }
}

enum Exchange {
    /// It is in use: time for a probe.
    Done,
    /// It is for another server.
    Leave,
    /// It cannot be used.
    Failed,
}

async fn attempt(
    hub: Arc<Hub>,
    access: Access,
    metrics: Arc<PlaneMetrics>,
    tasks: TaskTracker,
    stop: CancellationToken,
) -> Result<(Connection, Found), Failure> {
    let settings = hub.options.client_settings();
    let connection =
        Connection::open(&access, hub.own.as_ref(), &settings, &metrics, &tasks, &stop).map_err(unusable)?;
    let found = probe::everything(&connection.probes, hub.options.attempt_timeout).await?;
    Ok((connection, found))
}

/// Waits for the list of the plane's definitions: without it nobody can tell what is not there. Those that are not `served` are
/// read before anybody asks: what is not known would be said, and taken back a moment later.
async fn first_list(
    connection: &Connection,
    defined: &Defined,
    served: &ServedKinds,
    deadline: Duration,
) -> Result<(), Failure> {
    let listed = async {
        let listed = timeout(deadline, defined.listed()).await.unwrap_or_default();
        defined.read(&connection.probes, served, deadline).await;
        listed
    };
    let listed = tokio::select! {
        listed = listed => listed,
        excess = connection.room.until_exceeded() => return Err(probe::excess(&excess)),
    };
    if listed { Ok(()) } else { Err(probe::unlisted()) }
}

fn unusable(error: AccessError) -> Failure {
    Failure {
        why: DisconnectReason::InvalidAccess,
        message: format!("cannot use the plane's access: {error}"),
    }
}

/// Waits for a new access.
async fn changed(access: &mut watch::Receiver<Access>) {
    if access.changed().await.is_err() {
        // The plane is being forgotten: its token ends this wait.
        std::future::pending::<()>().await;
    }
}

/// None if a new access came before `work` was done.
async fn unless_changed<T>(access: &mut watch::Receiver<Access>, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = changed(access) => None,
        done = work => Some(done),
    }
}

/// As [`unless_changed`], leaving the change to be noticed by others.
async fn until_changed<T>(access: &watch::Receiver<Access>, work: impl Future<Output = T>) -> Option<T> {
    let mut access = access.clone();
    unless_changed(&mut access, work).await
}
