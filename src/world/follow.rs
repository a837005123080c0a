//! Following one kind: its watch fills a store and tells which objects changed.

use std::{collections::HashSet, fmt::Debug, sync::Arc, time::Duration};

use futures::{Stream, StreamExt, pin_mut};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Resource, ResourceExt,
    core::{ApiResource, DeserializeGuard},
    runtime::{
        reflector::{self, ObjectRef, Store, store::Writer},
        watcher::{self, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{error, info, warn};

use super::sync::{self, KindState, SyncBoard};
use crate::metrics::Metrics;

/// A kind that can be followed.
pub trait Followed:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> Followed for K where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

/// Follows the kind of `api` until `stop`. `changed` is called, after the store has been brought up to date, for
/// each object that was added, changed or deleted, also for those that vanished while the watch was broken. It gets
/// the object as it now is, or nothing when it has gone.
pub(super) fn start<K: Followed>(
    api: Api<K>,
    board: &SyncBoard,
    metrics: &Metrics,
    tasks: &TaskTracker,
    stop: &CancellationToken,
    changed: impl Fn(&ObjectRef<K>, Option<&K>) + Send + 'static,
) -> Store<K> {
    let (store, writer) = reflector::store();
    let kind = sync::name_of(&ApiResource::erase::<K>(&()));
    board.set(&kind, KindState::Listing);
    metrics.watch_starts(&kind);
    let metrics = metrics.clone();
    let guarded: Api<DeserializeGuard<K>> = Api::all(api.into_client());
    let mut follower = Follower { kind, writer, listed: None, sync: board.clone(), changed };
    let stop = stop.clone();
    tasks.spawn(async move {
        let mut wait = FIRST_RETRY;
        let following = async {
            loop {
                // A watch that is resumed after a failure tells nothing until something changes. So each failure is
                // followed by a new list, whose end is told.
                let synced = follower.run(watcher(guarded.clone(), watcher::Config::default())).await;
                metrics.watch_restarted(&follower.kind);
                wait = if synced { FIRST_RETRY } else { (wait * 2).min(LAST_RETRY) };
                tokio::time::sleep(wait).await;
            }
        };
        stop.run_until_cancelled(following).await;
    });
    store
}

/// When to try again what failed; then later each time, until it works.
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LAST_RETRY: Duration = Duration::from_secs(30);

struct Follower<K: Followed, F> {
    kind: String,
    writer: Writer<K>,
    /// What a list in progress has named so far.
    listed: Option<HashSet<ObjectRef<K>>>,
    sync: SyncBoard,
    changed: F,
}

impl<K: Followed, F: Fn(&ObjectRef<K>, Option<&K>)> Follower<K, F> {
    /// Takes events until one is a failure; tells whether there was a list before it.
    async fn run(&mut self, events: impl Stream<Item = watcher::Result<Event<DeserializeGuard<K>>>>) -> bool {
        pin_mut!(events);
        let mut synced = false;
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    synced |= matches!(event, Event::InitDone);
                    self.take(event);
                }
                Err(error) => {
                    self.report(&error);
                    break;
                }
            }
        }
        synced
    }

    fn take(&mut self, event: Event<DeserializeGuard<K>>) {
        match event {
            Event::Init => {
                self.listed = Some(HashSet::new());
                self.writer.apply_watcher_event(&Event::Init);
            }
            Event::InitApply(object) => {
                let key = key_of(object.meta());
                if let Some(object) = self.readable(object) {
                    self.writer.apply_watcher_event(&Event::InitApply(object));
                }
                self.listed.get_or_insert_default().insert(key);
            }
            Event::InitDone => self.finish_list(),
            Event::Apply(object) => {
                let key = key_of(object.meta());
                if let Some(object) = self.readable(object) {
                    self.writer.apply_watcher_event(&Event::Apply(object));
                    self.tell(&key);
                }
                self.note_synced();
            }
            Event::Delete(object) => {
                let key = key_of(object.meta());
                // The store drops an object by its key alone, so that of an unreadable one does as well.
                let last = object.0.ok().or_else(|| self.known(&key).map(Arc::unwrap_or_clone));
                if let Some(last) = last {
                    self.writer.apply_watcher_event(&Event::Delete(last));
                    self.tell(&key);
                }
            }
        }
    }

    /// A list tells what is there, not what has gone since the last one: that is what it no longer names.
    fn finish_list(&mut self) {
        let before: HashSet<ObjectRef<K>> =
            self.writer.as_reader().state().iter().map(|object| key_of(object.meta())).collect();
        self.writer.apply_watcher_event(&Event::InitDone);
        self.note_synced();
        let listed = self.listed.take().unwrap_or_default();
        for key in before.union(&listed) {
            self.tell(key);
        }
    }

    /// The object without what nobody reads, or, if it is malformed, the last version that was not.
    fn readable(&self, object: DeserializeGuard<K>) -> Option<K> {
        match object.0 {
            Ok(mut object) => {
                object.managed_fields_mut().clear();
                // It repeats the whole object, the values of Secrets included.
                object.annotations_mut().remove("kubectl.kubernetes.io/last-applied-configuration");
                Some(object)
            }
            Err(invalid) => {
                let key = key_of(&invalid.metadata);
                error!(
                    object = %key, error = invalid.error,
                    "this object does not fit its kind and is not followed until it is corrected"
                );
                self.known(&key).map(Arc::unwrap_or_clone)
            }
        }
    }

    fn tell(&self, key: &ObjectRef<K>) {
        (self.changed)(key, self.known(key).as_deref());
    }

    fn known(&self, key: &ObjectRef<K>) -> Option<Arc<K>> {
        self.writer.as_reader().get(key)
    }

    fn note_synced(&self) {
        if self.sync.set(&self.kind, KindState::Synced) {
            info!(kind = self.kind, "following");
        }
    }

    fn report(&self, error: &watcher::Error) {
        let message = describe(error);
        if self.sync.set_failing(&self.kind, message.clone()) {
            warn!(kind = self.kind, error = message, "cannot follow; trying again");
        }
    }
}

fn key_of<K: Followed>(metadata: &ObjectMeta) -> ObjectRef<K> {
    let key = ObjectRef::new(metadata.name.as_deref().unwrap_or_default());
    match &metadata.namespace {
        Some(namespace) => key.within(namespace),
        None => key,
    }
}

fn describe(error: &watcher::Error) -> String {
    let status = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => status,
        other => return other.to_string(),
    };
    // By the code: for a group that does not exist the server answers with a page, not with a reason.
    if status.code == 404 {
        return "not installed; install the custom resources: kantor crds | kubectl apply --server-side -f -"
            .to_owned();
    }
    format!("{} ({})", status.message, status.code)
}
