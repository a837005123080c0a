//! Everything Kantor knows of the control plane: one watch per kind, its store, and who is to be woken by a change.

mod census;
mod follow;
mod index;
mod schema;
mod sync;
mod wake;
mod watching;

use std::{
    collections::BTreeSet,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kantor_api::{
    Build, Component, ConfigurationGroup, DataPlane, DeployableArtifact, Deployment, DeploymentPipeline,
    DeploymentTrack, Endpoint, Environment, HostnameClaim, Organization, Project, Release,
};
use kantor_core::{
    hierarchy::{self, Catalog as _, Described, Facts, Id, Key, KeyRef, Kind, Need, Place, ResolveError},
    hostnames::book::Book,
    scope::Scope,
};
use kube::{
    Api, Client, Resource,
    core::{NamespaceResourceScope, PartialObjectMeta},
    runtime::reflector::{ObjectRef, Store},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    follow::{Followed, Selection},
    wake::Wakers,
};
pub use self::{
    index::Index,
    schema::{await_definitions, await_outdated},
    sync::{KindState, SyncBoard},
    wake::{Wake, Wakes},
};
use crate::telemetry::metrics::Metrics;

/// The control plane's objects. Cheap to clone.
#[derive(Clone)]
pub struct World {
    /// The stores, one per kind.
    pub stores: Stores,
    /// How far the watches are.
    pub sync: SyncBoard,
    index: Arc<RwLock<Index>>,
    claims: Arc<RwLock<Book>>,
    wakers: Wakers,
}

/// One store per kind.
#[derive(Clone)]
#[expect(missing_docs, reason = "the kinds of the API, by their names")]
pub struct Stores {
    pub organizations: Store<Organization>,
    pub data_planes: Store<DataPlane>,
    pub environments: Store<Environment>,
    pub deployment_pipelines: Store<DeploymentPipeline>,
    pub projects: Store<Project>,
    pub components: Store<Component>,
    pub deployment_tracks: Store<DeploymentTrack>,
    pub builds: Store<Build>,
    pub configuration_groups: Store<ConfigurationGroup>,
    pub deployable_artifacts: Store<DeployableArtifact>,
    pub deployments: Store<Deployment>,
    pub endpoints: Store<Endpoint>,
    pub hostname_claims: Store<HostnameClaim>,
    pub releases: Store<Release>,
    /// Metadata only.
    pub namespaces: Store<PartialObjectMeta<Namespace>>,
    /// Metadata only, without annotations: their values are read one by one where they are needed.
    pub secrets: Store<PartialObjectMeta<Secret>>,
}

impl World {
    /// Starts one watch per kind of `scope` on `tasks`, whose state is noted in `sync`. They end with `stop`.
    pub fn start(
        client: &Client,
        scope: &Scope,
        sync: SyncBoard,
        metrics: &Metrics,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> (Self, Wakes) {
        let (wakers, woken) = wake::channels();
        let start = Start { client, scope, metrics, tasks, stop, sync, index: Arc::default(), wakers };
        let claims: Arc<RwLock<Book>> = Arc::default();
        let stores = Stores {
            organizations: start.follow_all(Kind::Organization),
            data_planes: start.follow(Kind::DataPlane),
            environments: start.follow(Kind::Environment),
            deployment_pipelines: start.follow(Kind::DeploymentPipeline),
            projects: start.follow(Kind::Project),
            components: start.follow(Kind::Component),
            deployment_tracks: start.follow(Kind::DeploymentTrack),
            builds: start.follow(Kind::Build),
            configuration_groups: start.follow(Kind::ConfigurationGroup),
            deployable_artifacts: start.follow(Kind::DeployableArtifact),
            deployments: start.follow(Kind::Deployment),
            endpoints: start.follow(Kind::Endpoint),
            hostname_claims: start.follow_claims(claims.clone()),
            releases: start.follow(Kind::Release),
            namespaces: start.follow_all(Kind::Namespace),
            secrets: start.follow(Kind::Secret),
        };
        // Whoever waits for the board finds the watches on it from now on.
        start.sync.forget(sync::STARTING);
        let world = Self { stores, sync: start.sync, index: start.index, claims, wakers: start.wakers };
        let counted = world.clone();
        metrics.count_with(move || counted.census());
        (world, woken)
    }

    /// Metadata of the namespace `name`.
    pub fn namespace(&self, name: &str) -> Option<Arc<PartialObjectMeta<Namespace>>> {
        self.stores.namespaces.get(&ObjectRef::new(name))
    }

    /// The object of `kind` that `object` refers to.
    pub fn resolve(&self, object: &impl Described, kind: Kind) -> Result<Id, ResolveError> {
        let facts = object.facts();
        hierarchy::resolve(&*self.read(), &facts, kind)
    }

    /// The first of the objects of `kinds` that `object` refers to and that was not found.
    pub fn unresolved(&self, object: &impl Described, kinds: &[Kind]) -> Option<ResolveError> {
        let facts = object.facts();
        hierarchy::unresolved(&*self.read(), &facts, kinds)
    }

    /// The objects of `kind` that go with `object` when it is deleted.
    pub fn taken_along(&self, object: &impl Described, kind: Kind) -> Vec<Id> {
        let facts = object.facts();
        hierarchy::taken_along(&*self.read(), &facts, kind)
    }

    /// The objects of `kind` that `object` waits for when it is deleted.
    pub fn users(&self, object: &impl Described, kind: Kind) -> Vec<Id> {
        let facts = object.facts();
        hierarchy::users(&*self.read(), &facts, kind)
    }

    /// The other objects that live and have the logical name of `object`.
    pub fn twins(&self, object: &impl Described) -> Vec<Id> {
        let facts = object.facts();
        hierarchy::twins(&*self.read(), &facts)
    }

    /// The objects of `kind` that refer to `object`.
    pub fn children(&self, object: &impl Described, kind: Kind) -> Vec<Id> {
        let facts = object.facts();
        hierarchy::children(&*self.read(), &facts, kind)
    }

    /// The objects of `kind` that refer to the same `parent` as `object` does, whether it exists or not.
    pub fn beside(&self, object: &impl Described, parent: Kind, kind: Kind) -> Vec<Id> {
        let facts = object.facts();
        hierarchy::beside(&*self.read(), &facts, parent, kind)
    }

    /// The objects of `kind` that the object with this UID owns.
    pub fn owned_by(&self, uid: &str, kind: Kind) -> Vec<Id> {
        self.read().owned_by(uid).into_iter().filter(|id| id.kind == kind).collect()
    }

    /// The object with this UID.
    pub fn with_uid(&self, uid: &str) -> Option<Id> {
        self.read().with_uid(uid)
    }

    /// The Endpoints that hold, or wait for, the claim of this name, as they say themselves.
    pub fn contenders(&self, claim: &str) -> Vec<Id> {
        let claim = KeyRef::Named { kind: Kind::HostnameClaim, namespace: "", name: claim };
        self.read().referring(claim).into_iter().filter(|id| id.kind == Kind::Endpoint).collect()
    }

    /// Why what is known of `kind` may be out of date, if it may be. Nothing is to be taken for gone then.
    pub fn behind(&self, kind: Kind) -> Option<String> {
        let name = sync::name_of(&kind.resource());
        self.sync.behind(&name).map(|why| format!("{name} cannot be followed: {why}"))
    }

    /// What is known of an object.
    pub fn facts(&self, id: &Id) -> Option<Facts> {
        self.read().facts(id).cloned()
    }

    /// The object that `need` is about.
    pub fn find(&self, need: &Need) -> Result<Id, ResolveError> {
        hierarchy::find(&*self.read(), need)
    }

    /// Wakes `id` and those that depend on it: something outside the control plane has changed for them.
    pub fn wake_concerned(&self, id: &Id) {
        let woken = self.read().concerned(id);
        self.wakers.wake(&woken, &caused_by(id));
    }

    /// Wakes the object that `need` is about, because of `cause`.
    pub fn wake(&self, need: &Need, cause: &Arc<str>) {
        if let Ok(id) = self.find(need) {
            self.wakers.wake(&BTreeSet::from([id]), cause);
        }
    }

    /// Wakes the object with this UID, because of `cause`.
    pub fn wake_uid(&self, uid: &str, cause: &Arc<str>) {
        if let Some(id) = self.with_uid(uid) {
            self.wakers.wake(&BTreeSet::from([id]), cause);
        }
    }

    /// Wakes the objects of `kind` that refer to the object with this UID, because of `cause`.
    pub fn wake_children(&self, uid: &str, kind: Kind, cause: &Arc<str>) {
        let children = {
            let index = self.read();
            let facts = index.with_uid(uid).and_then(|id| index.facts(&id).cloned());
            facts.map(|facts| hierarchy::children(&*index, &facts, kind)).unwrap_or_default()
        };
        self.wakers.wake(&children.into_iter().collect(), cause);
    }

    /// Wakes the objects of `kinds` that say that they are in a namespace of a data plane, because of `cause`.
    pub fn wake_placed(&self, kinds: &[Kind], place: &Place, cause: &Arc<str>) {
        let placed = self.read().placed(place);
        self.wakers.wake(&placed.into_iter().filter(|id| kinds.contains(&id.kind)).collect(), cause);
    }

    /// Wakes the objects of `kind` that say that they are on the data plane of that namespace and name, because of `cause`.
    pub fn wake_on_plane(&self, kind: Kind, (namespace, name): (&str, &str), cause: &Arc<str>) {
        let plane = KeyRef::Named { kind: Kind::DataPlane, namespace, name };
        let on_it = self.read().referring(plane);
        self.wakers.wake(&on_it.into_iter().filter(|id| id.kind == kind).collect(), cause);
    }

    /// The claims of host names.
    pub fn claims(&self) -> RwLockReadGuard<'_, Book> {
        self.claims.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that `id` waits for the claims of these names, and for no others any more: whatever becomes of them wakes it. Who
    /// decides what is in its way holds [`World::claims`] until this is noted, so that no change is missed in between.
    pub fn await_claims(&self, id: &Id, names: BTreeSet<String>) {
        if names.is_empty() && !self.read().is_waiting(id) {
            return;
        }
        let claim = |name| Key::Named(Id::new(Kind::HostnameClaim, "", name));
        let claims: Vec<Key> = names.into_iter().map(claim).collect();
        self.index.write().unwrap_or_else(PoisonError::into_inner).await_only(id, &claims);
    }

    /// Takes in a claim as it was written, before the watch tells of it.
    pub fn note_claim(&self, claim: HostnameClaim) {
        self.claims.write().unwrap_or_else(PoisonError::into_inner).set(Arc::new(claim));
    }

    /// Drops a claim that was deleted, before the watch tells of it.
    pub fn forget_claim(&self, name: &str) {
        self.claims.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    fn read(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the watches of all kinds are started with.
struct Start<'a> {
    client: &'a Client,
    scope: &'a Scope,
    metrics: &'a Metrics,
    tasks: &'a TaskTracker,
    stop: &'a CancellationToken,
    sync: SyncBoard,
    index: Arc<RwLock<Index>>,
    wakers: Wakers,
}

impl Start<'_> {
    /// Follows a kind whose objects are in namespaces.
    fn follow<K>(&self, kind: Kind) -> Store<K>
    where
        K: Followed + Described + Resource<Scope = NamespaceResourceScope>,
    {
        let client = || self.client.clone();
        let resource = kind.resource();
        let places = self.scope.places().into_iter().map(|namespace| follow::Place {
            api: namespace.map_or_else(
                || Api::all_with(client(), &resource),
                |name| Api::namespaced_with(client(), name, &resource),
            ),
            namespace: namespace.map(ToOwned::to_owned),
        });
        self.follow_and(kind, places.collect(), None, |_, _| {})
    }

    /// Follows a kind whose objects are in no namespace, or are namespaces.
    fn follow_all<K: Followed + Described>(&self, kind: Kind) -> Store<K> {
        let names = Some(self.scope.namespaces.clone()).filter(|names| !names.is_empty());
        self.follow_and(kind, self.everywhere(kind), names, |_, _| {})
    }

    /// Claims are looked up by host and by holder, too.
    fn follow_claims(&self, book: Arc<RwLock<Book>>) -> Store<HostnameClaim> {
        let also = move |key: &ObjectRef<HostnameClaim>, claim: Option<&Arc<HostnameClaim>>| {
            let mut book = book.write().unwrap_or_else(PoisonError::into_inner);
            match claim {
                Some(claim) => book.set(claim.clone()),
                None => book.remove(&key.name),
            }
        };
        self.follow_and(Kind::HostnameClaim, self.everywhere(Kind::HostnameClaim), None, also)
    }

    fn everywhere<K: Followed>(&self, kind: Kind) -> Vec<follow::Place<K>> {
        vec![follow::Place { namespace: None, api: Api::all_with(self.client.clone(), &kind.resource()) }]
    }

    /// Follows a kind, if anybody reads it; `also` is told of each change before anybody is woken by it.
    fn follow_and<K: Followed + Described>(
        &self,
        kind: Kind,
        mut places: Vec<follow::Place<K>>,
        names: Option<BTreeSet<String>>,
        also: impl Fn(&ObjectRef<K>, Option<&Arc<K>>) + Send + Sync + 'static,
    ) -> Store<K> {
        let (index, wakers) = (self.index.clone(), self.wakers.clone());
        let changed = move |key: &ObjectRef<K>, object: Option<&Arc<K>>| {
            also(key, object);
            let id = Id::new(kind, key.namespace.clone().unwrap_or_default(), &key.name);
            // Before the lock is taken: all others wait for it, and what is in an object is up to its author.
            let facts = object.map(|object| object.facts());
            let woken = {
                let mut index = index.write().unwrap_or_else(PoisonError::into_inner);
                match facts {
                    Some(facts) => index.put(facts),
                    None => index.remove(&id),
                }
            };
            (woken, caused_by(&id))
        };
        let wake = move |(woken, cause): (BTreeSet<Id>, Arc<str>)| wakers.wake(&woken, &cause);
        if !self.scope.follows(kind) {
            places.clear();
        }
        let selection = Selection { labels: self.scope.selector(kind), names };
        follow::start(places, &selection, &self.sync, self.metrics, self.tasks, self.stop, changed, wake)
    }
}

/// A cause in words: `Deployment acme/shop`.
fn caused_by(id: &Id) -> Arc<str> {
    let Id { kind, namespace, name } = id;
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }.into()
}
