//! A connected plane, as controllers get it.

use std::{fmt, sync::Arc, time::Duration};

use http::{HeaderName, HeaderValue};
use kantor_core::known::Known;
use kube::{Client, api::ApiResource, client::Body};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::BoxError;

use super::{
    Capabilities, Follow, Followed, Kind, PlaneKey, RemoteChange, Served, ServedKinds,
    client::Connection,
    connector::{Defined, Facts},
    definitions::Definitions,
    room::Room,
    subscribers::Subscribers,
    turns::Turns,
    watches::{FIRST_RETRY, Follows, Surroundings},
};
use crate::telemetry::metrics::PlaneMetrics;

const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");

/// A connected plane. What it says holds for the moment it was handed out; its clients fail at once when the plane
/// is no longer connected.
#[derive(Clone)]
pub struct Plane {
    /// The DataPlane.
    pub key: PlaneKey,
    /// UID of the namespace `kube-system`.
    pub cluster_uid: String,
    /// Version of the server, such as `v1.36.3`.
    pub server_version: String,
    /// Its optional parts.
    pub capabilities: Capabilities,
    /// How long a call may take in all. Callers apply it: a client cannot know when an answer is complete.
    pub deadline: Duration,
    id: u64,
    session: Arc<Session>,
}

/// What lives as long as the connection.
pub(super) struct Session {
    calls: Client,
    watches: Client,
    doubt: Arc<Notify>,
    closed: CancellationToken,
    tasks: TaskTracker,
    changes: Subscribers<RemoteChange>,
    kinds: watch::Receiver<Arc<ServedKinds>>,
    defined: Arc<Defined>,
    room: Arc<Room>,
    slots: Arc<Semaphore>,
    turns: Turns,
    follows: Follows,
    metrics: Arc<PlaneMetrics>,
}

impl Session {
    pub(super) fn new(
        connection: &Connection,
        tasks: TaskTracker,
        changes: Subscribers<RemoteChange>,
        kinds: watch::Receiver<Arc<ServedKinds>>,
        defined: Arc<Defined>,
        concurrency: usize,
        metrics: Arc<PlaneMetrics>,
    ) -> Arc<Self> {
        Arc::new(Self {
            calls: connection.calls.clone(),
            watches: connection.watches.clone(),
            doubt: connection.doubt.clone(),
            closed: connection.closed.clone(),
            tasks,
            changes,
            kinds,
            defined,
            room: connection.room.clone(),
            slots: Arc::new(Semaphore::new(concurrency.max(1))),
            // Some of their calls go to the control plane.
            turns: Turns::new(concurrency.div_ceil(2).max(1)),
            follows: Follows::default(),
            metrics,
        })
    }
}

impl Plane {
    pub(super) fn new(
        key: PlaneKey,
        id: u64,
        facts: Facts,
        deadline: Duration,
        session: Arc<Session>,
    ) -> Self {
        let Facts { server_version, cluster_uid, capabilities } = facts;
        Self { key, cluster_uid, server_version, capabilities, deadline, id, session }
    }

    /// The same connection, of which more is known.
    pub(super) fn with(&self, server_version: String, capabilities: Capabilities) -> Self {
        Self { server_version, capabilities, ..self.clone() }
    }

    /// The same, of another connector.
    #[cfg(test)]
    pub(super) fn numbered(self, id: u64) -> Self {
        Self { id, ..self }
    }

    pub(super) const fn id(&self) -> u64 {
        self.id
    }

    /// For reads and writes: limited in number and rate, with a time-out for silence.
    pub fn calls(&self) -> Client {
        self.session.calls.clone()
    }

    /// As [`Plane::calls`], in the name of a user of the plane, if there is one: what the user may not do is refused by
    /// the server. A name that cannot be sent makes all calls fail, rather than go out in Kantor's own name.
    pub fn calls_as(&self, user: Option<&str>) -> Client {
        let Some(user) = user else { return self.calls() };
        let user = HeaderValue::from_str(user).map_err(|_| "the name of the user cannot be sent");
        let calls = self.session.calls.clone();
        let service = tower::service_fn(move |mut request: http::Request<Body>| {
            let (user, calls) = (user.clone(), calls.clone());
            async move {
                request.headers_mut().insert(IMPERSONATE_USER, user?);
                Ok::<_, BoxError>(calls.send(request).await?)
            }
        });
        Client::new(service, "default")
    }

    /// As many as there may be calls under way at a time. Who takes one first does not spend its deadline on waiting for
    /// others.
    pub fn slots(&self) -> Arc<Semaphore> {
        self.session.slots.clone()
    }

    /// Waits for leave to work on it, for one of a kind. However many wait, few have their objects in memory; who waits
    /// for one plane keeps nobody from another.
    pub async fn turn(&self, of: &'static str) -> OwnedSemaphorePermit {
        self.session.turns.take(of).await
    }

    /// It was in trouble, and is well again: what has piled up for it is not worked off all at once.
    pub(super) fn start_slowly(&self) {
        self.session.turns.start_slowly();
    }

    /// For lists and watches, which may be silent for as long as they like.
    pub fn watches(&self) -> Client {
        self.session.watches.clone()
    }

    /// The kinds that it serves now.
    pub fn kinds(&self) -> Arc<ServedKinds> {
        self.session.kinds.borrow().clone()
    }

    /// What is known of `kind` on it now.
    pub fn known(&self, kind: &Kind) -> Known<Served> {
        self.kinds().known(kind, || self.session.defined.of(&kind.group))
    }

    /// As [`Plane::known`], of the first of these versions that is served, or else of any other: objects that were made in one
    /// version are there in each.
    pub fn known_in(&self, group: &str, versions: &[&str], kind: &str) -> Known<Served> {
        let kinds = self.kinds();
        let of = |version: &str| Kind::new(group, version, kind);
        let served = versions.iter().map(|version| of(version)).find(|kind| kinds.kinds().any(|k| k == kind));
        let first = served.unwrap_or_else(|| kinds.in_any_version(&of(versions.first().unwrap_or(&""))));
        self.known(&first)
    }

    /// The groups of which objects may be there that nobody can see: their server does not answer, or they are not served
    /// yet. The error says why not even that is known.
    pub fn unseen(&self) -> Result<Vec<String>, &'static str> {
        let (kinds, defined) = (self.kinds(), self.session.defined.with_objects());
        let defined = match (defined, self.session.defined.of("")) {
            (Some(names), _) => names,
            // As good as can be: what is served is all that Kantor may know.
            (None, Definitions::Forbidden { .. }) => vec![],
            (None, _) => {
                return Err("the custom resource definitions of the data plane have not been listed");
            }
        };
        let unseen = kinds.unseen(defined.iter().map(String::as_str));
        Ok(unseen.into_iter().map(ToOwned::to_owned).collect())
    }

    /// What is measured of it.
    pub fn metrics(&self) -> &PlaneMetrics {
        &self.session.metrics
    }

    /// Cancelled when the plane is disconnected or forgotten.
    pub fn cancelled(&self) -> &CancellationToken {
        &self.session.closed
    }

    /// Has the plane probed soon. The clients do that by themselves when a request is answered 401 or cannot be made;
    /// this is for what they cannot see, such as a deadline that has passed.
    pub fn doubt(&self) {
        self.session.doubt.notify_one();
    }

    /// Follows the objects of a kind that `selector` selects (empty: all), whole or their metadata only. The first
    /// call starts the watch, later ones share it; it ends with the connection, or by [`Plane::unfollow`].
    pub fn follow(&self, resource: &ApiResource, selector: &str, what: Follow) -> Arc<Followed> {
        let session = &self.session;
        session.follows.get_or_start(resource, selector, what, || Surroundings {
            plane: self.key.clone(),
            client: session.watches.clone(),
            tasks: session.tasks.clone(),
            closed: session.closed.child_token(),
            changes: session.changes.clone(),
            kinds: session.kinds.clone(),
            first_retry: FIRST_RETRY,
            metrics: session.metrics.clone(),
            room: session.room.clone(),
        })
    }

    /// Ends a watch that [`Plane::follow`] started.
    pub fn unfollow(&self, resource: &ApiResource, selector: &str, what: Follow) {
        self.session.follows.stop(resource, selector, what);
    }
}

impl fmt::Debug for Plane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plane")
            .field("key", &self.key)
            .field("cluster_uid", &self.cluster_uid)
            .field("server_version", &self.server_version)
            .field("capabilities", &self.capabilities)
            .finish_non_exhaustive()
    }
}
