//! Following the objects of a plane: one watch per kind and selector, shared by all controllers.

mod follow;
mod progress;
mod reader;
mod store;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kantor_api::labels;
use kube::{
    Client,
    api::{ApiResource, DynamicObject},
};
use tokio::{sync::watch, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(super) use self::follow::start;
use self::{progress::Progress, store::Store};
use super::{PlaneKey, ServedKinds, room::Room, subscribers::Subscribers};
use crate::telemetry::metrics::PlaneMetrics;

/// How much of each object is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Follow {
    /// All of it, but for managed fields.
    Whole,
    /// Its metadata, but for managed fields.
    Metadata,
}

/// How far the watch of a kind is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowState {
    /// A list is under way, the first one or one after a failure.
    Listing,
    /// The store has been filled and follows the watch.
    Synced,
    /// The plane does not serve this kind; it is tried again when that changes.
    NotInstalled,
    /// The credentials may not list or watch it, which somebody has to change; it is tried again.
    Denied {
        /// Why, free of anything that changes from try to try.
        error: String,
    },
    /// It cannot be listed or watched and is tried again; what the store holds may be behind.
    Failing {
        /// Why, free of anything that changes from try to try.
        error: String,
    },
}

/// An object of a plane that was added, changed or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteChange {
    /// The plane.
    pub plane: PlaneKey,
    /// API group of the object.
    pub group: String,
    /// Kind of the object.
    pub kind: String,
    /// Namespace of the object.
    pub namespace: Option<String>,
    /// Name of the object.
    pub name: String,
    /// Labels of the object; of a deleted one, those it had.
    pub labels: BTreeMap<String, String>,
    /// Whether it is gone.
    pub deleted: bool,
}

impl RemoteChange {
    /// UID of the object's owner in the control plane.
    pub fn owner_uid(&self) -> Option<&str> {
        owner_uid(&self.labels)
    }
}

/// As a cause: `Pod shop/web-1 on acme/eu`.
impl fmt::Display for RemoteChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        write!(f, "{} on {}", self.name, self.plane)
    }
}

/// UID of the owner, in the control plane, of an object with these labels.
pub(super) fn owner_uid(labels: &BTreeMap<String, String>) -> Option<&str> {
    labels.get(labels::OWNER_UID).or_else(|| labels.get(labels::RELEASE_UID)).map(String::as_str)
}

/// The objects of a kind on a plane, as far as the watch has told.
pub struct Followed {
    resource: ApiResource,
    store: Store,
    state: watch::Sender<FollowState>,
    progress: Progress,
    stop: CancellationToken,
}

impl Followed {
    /// The kind.
    pub fn resource(&self) -> &ApiResource {
        &self.resource
    }

    /// Waits until the watch has told of what was written with this version, for as long as it is worth waiting, so that the next
    /// look at it finds that. False if it has not.
    pub async fn caught_up(&self, version: u64) -> bool {
        let told = timeout(CATCH_UP, self.progress.reach(version));
        self.stop.run_until_cancelled(told).await.is_some_and(|told| told.is_ok())
    }

    /// An object.
    pub fn get(&self, namespace: Option<&str>, name: &str) -> Option<Arc<DynamicObject>> {
        self.store.get(namespace, name).map(Arc::new)
    }

    /// The names of all objects, in no order.
    pub(super) fn names(&self) -> Vec<String> {
        self.store.names()
    }

    /// The version of an object.
    pub(super) fn version(&self, namespace: Option<&str>, name: &str) -> Option<String> {
        self.store.version(namespace, name)
    }

    /// Waits until the first list is over: it has been read, or it failed.
    pub(super) async fn tried(&self) -> FollowState {
        let mut state = self.state.subscribe();
        // The sender lives as long as `self`.
        let tried = state.wait_for(|state| *state != FollowState::Listing).await.map(|state| state.clone());
        tried.unwrap_or(FollowState::Listing)
    }

    /// Tells when the state changes.
    pub(super) fn states(&self) -> watch::Receiver<FollowState> {
        self.state.subscribe()
    }

    /// All objects, in no order.
    pub fn all(&self) -> Vec<DynamicObject> {
        self.store.all()
    }

    /// The objects whose labels name this owner, in no order.
    pub fn owned_by(&self, owner_uid: &str) -> Vec<DynamicObject> {
        self.store.owned_by(owner_uid)
    }

    /// How far the watch is. Only [`FollowState::Synced`] says that what is not here does not exist.
    pub fn state(&self) -> FollowState {
        self.state.borrow().clone()
    }

    /// Whether the store has been filled and follows the watch.
    pub fn is_synced(&self) -> bool {
        *self.state.borrow() == FollowState::Synced
    }

    /// Waits until the store has been filled and follows the watch. False if the watch ended before that.
    pub async fn synced(&self) -> bool {
        let mut state = self.state.subscribe();
        let synced = state.wait_for(|state| *state == FollowState::Synced);
        self.stop.run_until_cancelled(synced).await.is_some_and(|synced| synced.is_ok())
    }

    /// As [`Followed::synced`], for as long as it is worth waiting. A list that is under way is waited for, since one of many
    /// objects takes longer than any other call may: what is not known yet is neither gone nor in trouble. One that fails is
    /// given `patience` to succeed, and one that is not allowed none: time alone does not change that.
    pub async fn listed(&self, patience: Duration) -> bool {
        // As good as always, and asked for several kinds in each reconcile.
        if self.is_synced() {
            return true;
        }
        let mut state = self.state.subscribe();
        let listed = async {
            let under_way = state.wait_for(|state| *state != FollowState::Listing);
            let ended = timeout(LONGEST_LIST, under_way).await;
            let is_denied = |state: &FollowState| matches!(state, FollowState::Denied { .. });
            if ended.is_ok_and(|state| state.is_ok_and(|state| !is_denied(&state))) {
                timeout(patience, self.synced()).await.ok();
            }
        };
        self.stop.run_until_cancelled(listed).await;
        self.is_synced()
    }

    /// Why it may not be listed or watched, if it may not be; that is known when the first list has ended, for which it is waited
    /// no longer than `patience`.
    pub async fn denied(&self, patience: Duration) -> Option<String> {
        let mut state = self.state.subscribe();
        let known = timeout(patience, state.wait_for(|state| *state != FollowState::Listing));
        self.stop.run_until_cancelled(known).await;
        match self.state() {
            FollowState::Denied { error } => Some(error),
            _ => None,
        }
    }

    /// Whether the watch has ended: the plane was disconnected or forgotten, or nobody needs it any more. The store
    /// keeps what it last had.
    pub fn ended(&self) -> bool {
        self.stop.is_cancelled()
    }
}

impl fmt::Debug for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Followed")
            .field("kind", &self.resource.kind)
            .field("state", &*self.state.borrow())
            .finish_non_exhaustive()
    }
}

/// What a watch needs of its plane.
pub(super) struct Surroundings {
    pub(super) plane: PlaneKey,
    pub(super) client: Client,
    pub(super) tasks: TaskTracker,
    pub(super) closed: CancellationToken,
    pub(super) changes: Subscribers<RemoteChange>,
    /// The kinds that the plane serves.
    pub(super) kinds: watch::Receiver<Arc<ServedKinds>>,
    /// When to ask again for what the server refuses; then later each time.
    pub(super) first_retry: Duration,
    pub(super) metrics: Arc<PlaneMetrics>,
    /// How much may be kept.
    pub(super) room: Arc<Room>,
}

/// How long to wait for a watch to tell of what was written. What it has not told by then is looked up.
const CATCH_UP: Duration = Duration::from_secs(2);

/// How long a list that does not end is waited for.
const LONGEST_LIST: Duration = Duration::from_mins(1);

/// A server that starts does not serve custom resources for a moment, and its discovery need not change for it.
pub(super) const FIRST_RETRY: Duration = Duration::from_secs(1);

/// The watches of one connection.
#[derive(Default)]
pub(super) struct Follows(Mutex<HashMap<Key, Arc<Followed>>>);

#[derive(PartialEq, Eq, Hash)]
struct Key {
    api_version: String,
    plural: String,
    selector: String,
    what: Follow,
}

impl Key {
    fn new(resource: &ApiResource, selector: &str, what: Follow) -> Self {
        Self {
            api_version: resource.api_version.clone(),
            plural: resource.plural.clone(),
            selector: selector.to_owned(),
            what,
        }
    }
}

impl Follows {
    pub(super) fn get_or_start(
        &self,
        resource: &ApiResource,
        selector: &str,
        what: Follow,
        surroundings: impl FnOnce() -> Surroundings,
    ) -> Arc<Followed> {
        let mut follows = self.lock();
        let start = || follow::start(resource, selector, what, surroundings());
        follows.entry(Key::new(resource, selector, what)).or_insert_with(start).clone()
    }

    pub(super) fn stop(&self, resource: &ApiResource, selector: &str, what: Follow) {
        if let Some(followed) = self.lock().remove(&Key::new(resource, selector, what)) {
            followed.stop.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Arc<Followed>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
