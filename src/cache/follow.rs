//! Following one kind: its watch fills a store and tells which objects changed.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fmt::Debug,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kantor_core::backoff::Backoff;
use kube::{
    Api, Resource, ResourceExt,
    core::ApiResource,
    runtime::{
        reflector::{self, ObjectRef, Store, store::Writer},
        watcher::Event,
    },
};
use serde::de::DeserializeOwned;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{error, info, warn};

use super::{
    sync::{self, KindState, SyncBoard},
    watching::{Failure, Told, Watching},
};
use crate::{client::decode::Read, telemetry::metrics::Metrics};

/// A kind that can be followed.
pub trait Followed:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> Followed for K where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

/// Objects of a kind that are followed with one watch.
pub(super) struct Place<K: Followed> {
    /// Where they are; none: anywhere.
    pub(super) namespace: Option<String>,
    pub(super) api: Api<Read<K>>,
}

/// Which objects are followed.
#[derive(Clone, Default)]
pub(super) struct Selection {
    /// Their labels.
    pub(super) labels: Option<String>,
    /// Names of those that are followed; none: all.
    pub(super) names: Option<BTreeSet<String>>,
}

/// Follows a kind in its `places` until `stop`. `changed` is called, after the store has been brought up to date, for
/// each object that was added, changed or deleted, also for those that vanished while the watch was broken. It gets
/// the object as it now is, or nothing when it has gone. What it returns goes to `wake` when all that a list tells has been
/// taken in, and the board says so: whoever is woken then finds all of it.
#[expect(clippy::too_many_arguments, reason = "what all watches share, and what is done about this kind")]
pub(super) fn start<K: Followed, W: Send + 'static>(
    places: Vec<Place<K>>,
    selection: &Selection,
    board: &SyncBoard,
    metrics: &Metrics,
    tasks: &TaskTracker,
    stop: &CancellationToken,
    changed: impl Fn(&ObjectRef<K>, Option<&Arc<K>>) -> W + Send + Sync + 'static,
    wake: impl Fn(W) + Send + Sync + 'static,
) -> Store<K> {
    let (store, mut writer) = reflector::store();
    // Filled place by place; who reads it waits for the board, not for the store.
    writer.apply_watcher_event(&Event::Init);
    writer.apply_watcher_event(&Event::InitDone);
    let (writer, changed, wake) = (Arc::new(Mutex::new(writer)), Arc::new(changed), Arc::new(wake));
    let kind = sync::name_of(&ApiResource::erase::<K>(&()));
    for Place { namespace, api } in places {
        let place = sync::place(&kind, namespace.as_deref());
        board.set(&place, KindState::Listing);
        metrics.watch_starts(&kind);
        let (metrics, kind) = (metrics.clone(), kind.clone());
        let mut follower = Follower {
            place,
            namespace,
            names: selection.names.clone(),
            store: store.clone(),
            writer: writer.clone(),
            listed: HashMap::new(),
            unreadable: BTreeMap::new(),
            sync: board.clone(),
            changed: changed.clone(),
            wake: wake.clone(),
        };
        let mut watching = Watching::new(api, selection.labels.clone());
        let stop = stop.clone();
        tasks.spawn(async move {
            let mut backoff = Backoff::new(FIRST_RETRY, LAST_RETRY);
            let following = async {
                loop {
                    let failure = watching.run(|told| follower.hear(told)).await;
                    follower.report(&failure);
                    metrics.watch_restarted(&kind);
                    tokio::time::sleep(backoff.after(failure.stood, failure.asked())).await;
                }
            };
            stop.run_until_cancelled(Box::pin(following)).await;
        });
    }
    store
}

/// When to try again what failed; then later each time, until it has worked for a while.
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LAST_RETRY: Duration = Duration::from_secs(30);

struct Follower<K: Followed, F, G> {
    /// The kind and where it is followed, as the board knows it.
    place: String,
    namespace: Option<String>,
    names: Option<BTreeSet<String>>,
    store: Store<K>,
    /// Shared with those who follow the kind in other places.
    writer: Arc<Mutex<Writer<K>>>,
    /// What a list in progress has named so far; nothing for what cannot be read and never could.
    listed: HashMap<ObjectRef<K>, Option<K>>,
    /// What cannot be read, and why; with what a list in progress has named of it.
    unreadable: BTreeMap<String, String>,
    sync: SyncBoard,
    changed: Arc<F>,
    wake: Arc<G>,
}

impl<K: Followed, W, F: Fn(&ObjectRef<K>, Option<&Arc<K>>) -> W, G: Fn(W)> Follower<K, F, G> {
    fn hear(&mut self, told: Told<Read<K>>) {
        match told {
            Told::Event(event) => self.take(event),
            Told::Watching => self.note_synced(),
        }
    }

    fn take(&mut self, event: Event<Read<K>>) {
        match event {
            Event::Init => {
                self.listed.clear();
                self.unreadable.clear();
            }
            Event::InitApply(object) => {
                let key = key_of(object.meta());
                if self.follows(&key) {
                    let object = self.readable(object);
                    self.listed.insert(key, object);
                }
            }
            Event::InitDone => self.finish_list(),
            Event::Apply(object) => {
                let key = key_of(object.meta());
                if self.follows(&key)
                    && let Some(object) = self.readable(object)
                {
                    self.write([Event::Apply(object)]);
                    (self.wake)(self.tell(&key));
                }
                self.note_synced();
            }
            Event::Delete(object) => {
                let key = key_of(object.meta());
                self.unreadable.remove(&key.to_string());
                // The store drops an object by its key alone, so that of an unreadable one does as well.
                let last = object.0.ok().or_else(|| self.known(&key).map(Arc::unwrap_or_clone));
                if let Some(last) = last.filter(|_| self.follows(&key)) {
                    self.write([Event::Delete(last)]);
                    (self.wake)(self.tell(&key));
                }
                self.note_synced();
            }
        }
    }

    /// A list tells what is there, not what has gone since the last one: that is what it no longer names.
    fn finish_list(&mut self) {
        let mut listed = std::mem::take(&mut self.listed);
        let here = |object: &Arc<K>| self.namespace.is_none() || object.namespace() == self.namespace;
        let mut keys: HashSet<ObjectRef<K>> = listed.keys().cloned().collect();
        let before = self.store.state().into_iter().filter(here);
        let gone: Vec<Arc<K>> =
            before.filter(|object| !listed.contains_key(&key_of(object.meta()))).collect();
        keys.extend(gone.iter().map(|object| key_of(object.meta())));
        let there = listed.drain().filter_map(|(_, object)| object).map(Event::Apply);
        self.write(there.chain(gone.into_iter().map(|object| Event::Delete(Arc::unwrap_or_clone(object)))));
        let told: Vec<W> = keys.iter().map(|key| self.tell(key)).collect();
        self.note_synced();
        told.into_iter().for_each(&*self.wake);
    }

    fn follows(&self, key: &ObjectRef<K>) -> bool {
        self.names.as_ref().is_none_or(|names| names.contains(&key.name))
    }

    fn write(&self, events: impl IntoIterator<Item = Event<K>>) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        for event in events {
            writer.apply_watcher_event(&event);
        }
    }

    /// The object without what nobody reads, or, if it is malformed, the last version that was not.
    fn readable(&mut self, object: Read<K>) -> Option<K> {
        match object.0 {
            Ok(mut object) => {
                self.unreadable.remove(&key_of::<K>(object.meta()).to_string());
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
                self.unreadable.insert(key.to_string(), invalid.error);
                self.known(&key).map(Arc::unwrap_or_clone)
            }
        }
    }

    fn tell(&self, key: &ObjectRef<K>) -> W {
        (self.changed)(key, self.known(key).as_ref())
    }

    fn known(&self, key: &ObjectRef<K>) -> Option<Arc<K>> {
        self.store.get(key)
    }

    fn note_synced(&self) {
        let state = match self.unreadable.first_key_value() {
            None => KindState::Synced,
            Some((first, _)) => KindState::Unreadable { count: self.unreadable.len(), first: first.clone() },
        };
        if self.sync.set(&self.place, state.clone()) {
            if let KindState::Unreadable { count, first } = state {
                warn!(
                    kind = self.place,
                    count,
                    first,
                    "following, but some objects cannot be read: nothing of this kind is taken for gone until they are corrected or deleted"
                );
            } else {
                info!(kind = self.place, "following");
            }
        }
    }

    fn report(&self, failure: &Failure) {
        let message = failure.to_string();
        if self.sync.set_failing(&self.place, message.clone()) {
            // A server that has just got a definition says so for a moment.
            if failure.is_start_of_kind() {
                info!(kind = self.place, error = message, "cannot follow yet; trying again");
            } else {
                warn!(kind = self.place, error = message, "cannot follow; trying again");
            }
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

#[cfg(test)]
mod tests {
    use kantor_api::Project;
    use serde_json::json;

    use super::*;

    /// What was told, and whether the kind was known then.
    type Seen = Arc<Mutex<Vec<(&'static str, bool)>>>;

    type Changed = Box<dyn Fn(&ObjectRef<Project>, Option<&Arc<Project>>) + Send + Sync>;
    type Woken = Box<dyn Fn(()) + Send + Sync>;

    fn project(name: &str) -> Read<Project> {
        let spec = json!({"deploymentPipelineRef": "default"});
        serde_json::from_value(json!({"metadata": {"name": name, "namespace": "acme"}, "spec": spec}))
            .unwrap()
    }

    /// One that does not fit its kind.
    fn misfit(name: &str) -> Read<Project> {
        let object = json!({"metadata": {"name": name, "namespace": "acme"}, "spec": "nonsense"});
        serde_json::from_value(object).unwrap()
    }

    fn follower() -> (Follower<Project, Changed, Woken>, SyncBoard, Seen) {
        let (store, mut writer) = reflector::store();
        writer.apply_watcher_event(&Event::Init);
        writer.apply_watcher_event(&Event::InitDone);
        let board = SyncBoard::default();
        board.set("projects", KindState::Listing);
        let seen = Seen::default();
        let note = |what: &'static str| {
            let (board, seen) = (board.clone(), seen.clone());
            move || seen.lock().unwrap().push((what, board.behind("projects").is_none()))
        };
        let (taken_in, woken) = (note("taken in"), note("woken"));
        let changed: Changed = Box::new(move |_, _| taken_in());
        let woken: Woken = Box::new(move |()| woken());
        let follower = Follower {
            place: "projects".to_owned(),
            namespace: None,
            names: None,
            store,
            writer: Arc::new(Mutex::new(writer)),
            listed: HashMap::new(),
            unreadable: BTreeMap::new(),
            sync: board.clone(),
            changed: Arc::new(changed),
            wake: Arc::new(woken),
        };
        (follower, board, seen)
    }

    #[test]
    fn a_kind_counts_as_known_once_all_of_its_list_is_taken_in_and_only_then_somebody_is_woken() {
        let (mut follower, _, seen) = follower();
        for event in
            [Event::Init, Event::InitApply(project("a")), Event::InitApply(project("b")), Event::InitDone]
        {
            follower.hear(Told::Event(event));
        }
        let expected = [("taken in", false), ("taken in", false), ("woken", true), ("woken", true)];
        assert_eq!(*seen.lock().unwrap(), expected);
    }

    #[test]
    fn a_kind_with_objects_that_cannot_be_read_is_behind_until_they_are_corrected_or_deleted() {
        let (mut follower, board, _) = follower();
        let mut hear = |event| follower.hear(Told::Event(event));
        let behind = || board.behind("projects");
        hear(Event::Init);
        hear(Event::InitApply(misfit("b")));
        hear(Event::InitApply(project("c")));
        hear(Event::InitDone);
        assert!(behind().is_some_and(|why| why.starts_with("1 of its objects cannot be read")), "{board:?}");
        assert!(format!("{board:?}").contains("acme"), "{board:?}");
        assert_eq!(board.missing(), Vec::<String>::new(), "the others are looked after");
        hear(Event::Apply(misfit("a")));
        assert!(behind().is_some_and(|why| why.starts_with("2 of its objects")), "{board:?}");
        hear(Event::Apply(project("b")));
        assert!(behind().is_some_and(|why| why.starts_with("1 of its objects")), "{board:?}");
        hear(Event::Delete(misfit("a")));
        assert_eq!(behind(), None);
        hear(Event::Apply(misfit("c")));
        assert!(behind().is_some(), "what it was is known, what it is is not");
        // Deleted while the watch was broken.
        hear(Event::Init);
        hear(Event::InitDone);
        assert_eq!(behind(), None);
    }

    #[test]
    fn a_watch_that_was_refused_and_stands_again_is_up_to_date() {
        let (mut follower, board, _) = follower();
        follower.hear(Told::Event(Event::Init));
        follower.hear(Told::Event(Event::InitDone));
        board.set_failing("projects", "too many requests".to_owned());
        assert!(board.behind("projects").is_some());
        follower.hear(Told::Watching);
        assert_eq!(board.behind("projects"), None);
    }
}
