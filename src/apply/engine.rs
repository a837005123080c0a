//! The apply engine: brings the objects of one owner on one plane to what they shall be.
//!
//! ```text
//! intent + live objects (the plane's watches) ─→ core::changes: nothing, create, update, wait, refuse
//!   ─→ server-side apply, stage by stage, inside a stage all at once ─→ one Change per object
//! ```
//!
//! What is as it shall be costs no request. An object is made only where there is none (`resourceVersion: "1"`, which no
//! object has, makes the server refuse otherwise) and changed only where it is the one that was looked at (its UID goes
//! along), so that nothing of others is ever overwritten, whatever happens in between.

mod removal;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{FutureExt, StreamExt, future::join_all, stream};
use kantor_api::{annotations, common::InventoryItem};
use kantor_core::{
    changes::{self, Outcome, Owner, STAGES, Step, Wanted, shown},
    hierarchy,
    known::Known,
    tenancy,
};
use kube::{
    ResourceExt,
    api::{ApiResource, DynamicObject},
};
use moka::sync::Cache;
use serde_json::Value;

pub use self::removal::{Found, Remains, Removed, Whose};
use super::{
    Deletion, WriteError, Writer,
    patience::{Patience, Repairs},
};
use crate::planes::{Follow, FollowState, Followed, Kind, Plane, Served};

/// Objects of a stage that are worked on at a time. The plane's own limits are narrower; this bounds memory.
const PARALLEL: usize = 64;

/// A version that no object has.
pub const NO_VERSION: &str = "1";

/// Where objects are kept, and how.
pub struct Site<'a> {
    /// The plane.
    pub plane: &'a Plane,
    /// Writes to it.
    pub writer: Writer,
    /// Field manager.
    pub manager: &'static str,
    /// Selects the objects of all owners of this kind.
    pub selector: &'a str,
}

impl Site<'_> {
    /// Reads what the watches do not show, in Kantor's own name as they do: who may not write something need not be
    /// allowed to see it, and what cannot be seen would be waited for without end.
    fn reader(&self) -> Writer {
        Writer::to_plane(self.plane, None)
    }
}

/// An object that shall be there, and the UID that was recorded for it.
pub type Placed = (Wanted, Option<String>);

/// What became of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The object, with its UID if it is there.
    pub item: InventoryItem,
    /// What became of it.
    pub outcome: Outcome,
    /// When to try again, if nothing else wakes the owner.
    pub again: Option<Duration>,
    /// The version that was written, if anything was.
    pub version: Option<String>,
}

impl Change {
    fn without_write(item: InventoryItem, outcome: Outcome, again: Option<Duration>) -> Self {
        Self { item, outcome, again, version: None }
    }
}

/// The engine. It remembers what failed and what servers keep otherwise than asked; everything else is read off the
/// objects.
pub struct Engine {
    patience: Patience,
    repairs: Repairs,
    /// By UID of the object: what was asked for, and what the server made of it. Only where the two differ.
    settled: Cache<String, (String, u64)>,
}

/// How long it is remembered what the server made of an object that nobody looks at any more: far longer than until all are
/// looked at again.
const UNUSED: Duration = Duration::from_hours(24);

impl Default for Engine {
    fn default() -> Self {
        let (patience, repairs) = (Patience::default(), Repairs::default());
        Self { patience, repairs, settled: Cache::builder().time_to_idle(UNUSED).build() }
    }
}

/// A kind on a plane, as far as it can be worked on.
enum Ground {
    Ready(Arc<Followed>),
    /// It is served and may not be listed: nothing of it is made, and what may be there is looked up one by one.
    Denied(ApiResource, String),
    /// There are no objects of it: the plane does not serve it.
    Absent(Outcome),
    /// What there is cannot be told.
    Unknown(Outcome, Option<Duration>),
}

impl Engine {
    /// Brings all objects of `owner` to what they shall be. All are tried; each has its own outcome, in the order of
    /// `wanted`.
    #[tracing::instrument(level = "debug", skip_all, fields(plane = %site.plane.key, objects = wanted.len()))]
    pub async fn sync(&self, site: &Site<'_>, owner: &Owner, wanted: &[Placed]) -> Vec<Change> {
        let mut changes: BTreeMap<usize, Change> = BTreeMap::new();
        let items: Vec<InventoryItem> = wanted.iter().map(|(wanted, _)| wanted.item()).collect();
        let mut missing: HashSet<String> = HashSet::new();
        for stage in 0..STAGES {
            let batch: Vec<usize> = (0..items.len())
                .filter(|i| changes::stage(&items[*i].group, &items[*i].kind) == stage)
                .collect();
            // Looked at when its turn comes: a stage before it may have brought the kind.
            let grounds = self.grounds(site, batch.iter().map(|i| &items[*i])).await;
            let mut turns = Vec::with_capacity(batch.len());
            for i in batch {
                let ground = grounds.get(&Kind::of(&items[i]));
                let (wanted, recorded) = &wanted[i];
                if missing.contains(&items[i].namespace) {
                    let item = InventoryItem { uid: recorded.clone(), ..items[i].clone() };
                    let outcome = Outcome::Waiting(format!("waits for Namespace {}", item.namespace));
                    changes.insert(i, Change::without_write(item, outcome, Some(AGAIN)));
                    continue;
                }
                let turn =
                    async move { (i, self.settle(site, owner, wanted, recorded.as_deref(), ground).await) };
                turns.push(turn.boxed());
            }
            let done: Vec<(usize, Change)> = stream::iter(turns).buffer_unordered(PARALLEL).collect().await;
            let written =
                done.iter().filter_map(|(i, change)| Some((Kind::of(&items[*i]), change.version.clone()?)));
            catch_up(&grounds, written).await;
            missing.extend(done.iter().filter_map(|(i, change)| {
                let is_namespace = items[*i].group.is_empty() && items[*i].kind == "Namespace";
                (is_namespace && !change.outcome.is_in_place()).then(|| items[*i].name.clone())
            }));
            changes.extend(done);
        }
        changes.into_values().collect()
    }

    /// The kinds of `items` that may not be listed on the plane, and why: nothing of them is sent.
    pub async fn denied<'a>(
        &self,
        site: &Site<'_>,
        items: impl Iterator<Item = &'a InventoryItem>,
    ) -> HashMap<Kind, String> {
        let kinds: HashSet<Kind> = items.map(Kind::of).collect();
        let look = async |kind: Kind| {
            let served = site.plane.known(&kind).if_present()?;
            let followed = site.plane.follow(&served.resource, site.selector, Follow::Whole);
            let why = followed.denied(site.plane.deadline).await?;
            let why = not_followed(&kind, &why);
            Some((kind, why))
        };
        join_all(kinds.into_iter().map(look)).await.into_iter().flatten().collect()
    }

    /// Forgets what was remembered of an owner.
    pub fn forget(&self, owner: &Owner) {
        self.patience.forget_owner(&owner.uid);
    }

    /// The watches of the kinds of `items`, once they know what is there.
    async fn grounds<'a>(
        &self,
        site: &Site<'_>,
        items: impl Iterator<Item = &'a InventoryItem>,
    ) -> HashMap<Kind, Ground> {
        let kinds: HashSet<Kind> = items.map(Kind::of).collect();
        let mut found = Vec::with_capacity(kinds.len());
        for kind in kinds {
            let known = site.plane.known(&kind);
            let look = async move {
                let ground = ground(site, &kind, known).await;
                (kind, ground)
            };
            found.push(look.boxed());
        }
        join_all(found).await.into_iter().collect()
    }

    /// Brings one object to what it shall be.
    async fn settle(
        &self,
        site: &Site<'_>,
        owner: &Owner,
        wanted: &Wanted,
        recorded: Option<&str>,
        ground: Option<&Ground>,
    ) -> Change {
        let mut item = wanted.item();
        item.uid = recorded.map(ToOwned::to_owned);
        let followed = match ground {
            Some(Ground::Ready(followed)) => followed,
            Some(Ground::Denied(_, why)) => {
                return Change::without_write(item, Outcome::Refused(why.clone()), Some(AGAIN));
            }
            // Woken when the plane serves other kinds.
            Some(Ground::Absent(outcome)) => return Change::without_write(item, outcome.clone(), None),
            Some(Ground::Unknown(outcome, again)) => {
                return Change::without_write(item, outcome.clone(), *again);
            }
            None => {
                let outcome = Outcome::Failed("its kind has not been looked at".to_owned());
                return Change::without_write(item, outcome, Some(AGAIN));
            }
        };
        let live = followed.get(wanted.object.metadata.namespace.as_deref(), &item.name);
        let step = self.step(owner, wanted, live.as_deref(), recorded);
        if step == Step::Create && is_in_namespace_of_another(site.plane, owner, &item.namespace) {
            let why = format!("namespace {} belongs to another organization", item.namespace);
            return Change::without_write(item, Outcome::Refused(why), Some(AGAIN));
        }
        let (key, tried) = (wanted.item(), tried(owner, wanted));
        if matches!(step, Step::Create | Step::Update { .. })
            && let Some((outcome, wait)) = self.patience.hold(&owner.uid, &key, &tried, Instant::now())
        {
            return Change::without_write(item, outcome, Some(wait));
        }
        if let Step::Update { drift: Some(field), .. } = &step
            && let Some(wait) = self.repairs.hold(&keeper(site, owner), &key, Instant::now())
        {
            let why = format!("somebody else changes {field} again and again; it is changed back less often");
            return Change::without_write(item, Outcome::Failed(why), Some(wait));
        }
        let attempt = Attempt { engine: self, site, owner, wanted, recorded, resource: followed.resource() };
        match attempt.carry_out(step, live.as_deref()).await {
            Ok(Done { outcome, object }) => {
                self.patience.forget(&owner.uid, &key);
                if matches!(outcome, Outcome::Configured { drift: Some(_) }) {
                    self.repairs.repaired(&keeper(site, owner), &key, Instant::now());
                }
                let version = object.as_ref().and_then(ResourceExt::resource_version);
                let uid = object.as_ref().and_then(ResourceExt::uid);
                item.uid = uid.or_else(|| live.and_then(|live| live.uid())).or(item.uid);
                Change { item, outcome, again: None, version }
            }
            Err(error) => {
                let (outcome, at_least) = outcome_of(error);
                let again =
                    self.patience.failed(&owner.uid, &key, &tried, &outcome, at_least, Instant::now());
                Change::without_write(item, outcome, Some(again))
            }
        }
    }

    fn step(
        &self,
        owner: &Owner,
        wanted: &Wanted,
        live: Option<&DynamicObject>,
        recorded: Option<&str>,
    ) -> Step {
        changes::step(owner, wanted, live, recorded, |live| {
            let found = live.metadata.uid.as_ref().and_then(|uid| self.settled.get(uid));
            found.is_some_and(|(hash, projection)| {
                hash == wanted.hash && projection == changes::projection(live, wanted)
            })
        })
    }

    /// Remembers an object that the server keeps otherwise than it was asked to: asking again would not change it.
    fn note(&self, wanted: &Wanted, applied: &DynamicObject) {
        let Some(uid) = applied.uid() else { return };
        if changes::drift(applied, wanted).is_some() {
            let projection = changes::projection(applied, wanted);
            self.settled.insert(uid, (wanted.hash.clone(), projection));
        } else {
            self.settled.invalidate(&uid);
        }
    }
}

/// One object's turn.
struct Attempt<'a> {
    engine: &'a Engine,
    site: &'a Site<'a>,
    owner: &'a Owner,
    wanted: &'a Wanted,
    recorded: Option<&'a str>,
    resource: &'a ApiResource,
}

struct Done {
    outcome: Outcome,
    object: Option<DynamicObject>,
}

impl Done {
    fn without_object(outcome: Outcome) -> Self {
        Self { outcome, object: None }
    }
}

impl Attempt<'_> {
    async fn carry_out(&self, step: Step, live: Option<&DynamicObject>) -> Result<Done, WriteError> {
        match step {
            Step::Nothing => Ok(Done::without_object(Outcome::Unchanged)),
            Step::AwaitEnd => Ok(Done::without_object(self.awaiting())),
            Step::Refuse(why) => Err(WriteError::Refused(why)),
            Step::Update { uid, taken_over, drift } => self.update(uid, taken_over, drift, live).await,
            Step::Create => match self.create().await {
                Err(WriteError::Conflict) => self.look_first().await,
                made => made,
            },
        }
    }

    async fn create(&self) -> Result<Done, WriteError> {
        let mut body = self.body();
        body.metadata.resource_version = Some(NO_VERSION.to_owned());
        // One is what it is made with anyway.
        if let Some(replicas) = self.wanted.first_replicas.filter(|replicas| *replicas != 1) {
            set_replicas(&mut body, replicas.into());
        }
        let object = self.apply(&body).await?;
        Ok(Done { outcome: Outcome::Created, object: Some(object) })
    }

    /// The object exists although the watch does not show it: it is not labelled as ours, or the watch is behind.
    async fn look_first(&self) -> Result<Done, WriteError> {
        let item = self.wanted.item();
        let found = self.site.writer.read(self.resource, &item.namespace, &item.name).await?;
        let step = self.engine.step(self.owner, self.wanted, found.as_ref(), self.recorded);
        match step {
            Step::Create => Err(WriteError::Conflict),
            Step::Nothing => Ok(Done { outcome: Outcome::Unchanged, object: found }),
            Step::AwaitEnd => Ok(Done::without_object(self.awaiting())),
            Step::Refuse(why) => Err(WriteError::Refused(why)),
            Step::Update { uid, taken_over, drift } => {
                self.update(uid, taken_over, drift, found.as_ref()).await
            }
        }
    }

    async fn update(
        &self,
        uid: Option<String>,
        mut taken_over: Option<String>,
        drift: Option<String>,
        live: Option<&DynamicObject>,
    ) -> Result<Done, WriteError> {
        let mut body = self.update_body(uid.as_deref(), live);
        if let Some(former) = self.owner.former_manager
            && live.is_some_and(|live| !live.annotations().contains_key(annotations::INTENT_HASH))
        {
            let item = self.wanted.item();
            let managers = (former, self.site.manager);
            let inherited =
                self.site.writer.inherit(self.resource, &item, managers, taken_over.as_deref()).await?;
            taken_over = taken_over.map(|looked_at| inherited.unwrap_or(looked_at));
        }
        if taken_over.is_some() {
            body.metadata.resource_version.clone_from(&taken_over);
        }
        let mut applied = self.apply(&body).await;
        let is_own = taken_over.is_none();
        if is_own && matches!(applied, Err(WriteError::Conflict)) && body.metadata.resource_version.is_some()
        {
            // Its status changes all the time while it is scaled or rolled out.
            let item = self.wanted.item();
            let found = self.site.writer.read(self.resource, &item.namespace, &item.name).await?;
            applied = self.apply(&self.update_body(uid.as_deref(), found.as_ref())).await;
        }
        match applied {
            Ok(object) => {
                let same = live.and_then(ResourceExt::resource_version) == object.resource_version();
                let outcome = if same { Outcome::Unchanged } else { Outcome::Configured { drift } };
                Ok(Done { outcome, object: Some(object) })
            }
            Err(WriteError::Immutable(why)) => self.replace(uid, why).await,
            Err(error) => Err(error),
        }
    }

    /// The object for the one with this UID. Replicas that others set are left as they are: to give the field up would reset it to
    /// one, so it is kept at what they made of it, as long as that is what they made of it.
    fn update_body(&self, uid: Option<&str>, live: Option<&DynamicObject>) -> DynamicObject {
        let mut body = self.body();
        body.metadata.uid = uid.map(ToOwned::to_owned);
        let replicas = live.and_then(|live| live.data.pointer("/spec/replicas"));
        if let Some(replicas) = replicas.filter(|replicas| self.wanted.autoscaled && **replicas != 1) {
            set_replicas(&mut body, replicas.clone());
            body.metadata.resource_version = live.and_then(ResourceExt::resource_version);
        }
        body
    }

    async fn replace(&self, uid: Option<String>, why: String) -> Result<Done, WriteError> {
        let item = self.wanted.item();
        if !self.owner.replace {
            return Err(WriteError::Refused(format!(
                "{why}; to have it deleted and made anew, set the annotation {}: \"true\"",
                annotations::REPLACE
            )));
        }
        match self.site.writer.delete(self.resource, &item.namespace, &item.name, uid).await? {
            Deletion::Gone => self.create().await,
            Deletion::Pending { .. } => Ok(Done::without_object(self.awaiting())),
        }
    }

    async fn apply(&self, body: &DynamicObject) -> Result<DynamicObject, WriteError> {
        let applied = self.site.writer.apply_any(self.resource, self.site.manager, body).await?;
        self.engine.note(self.wanted, &applied);
        Ok(applied)
    }

    fn body(&self) -> DynamicObject {
        let mut body = self.wanted.object.clone();
        body.annotations_mut().insert(annotations::INTENT_HASH.to_owned(), self.wanted.hash.clone());
        body
    }

    fn awaiting(&self) -> Outcome {
        Outcome::Waiting(format!(
            "{} is being deleted; it is made anew when it has gone",
            shown(&self.wanted.item())
        ))
    }
}

/// An owner on one plane: what Deployments share has one owner on all of them.
fn keeper(site: &Site<'_>, owner: &Owner) -> String {
    format!("{} on {}", owner.uid, site.plane.key)
}

fn set_replicas(body: &mut DynamicObject, replicas: Value) {
    if let Some(spec) = body.data.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("replicas".to_owned(), replicas);
    }
}

/// Whether a namespace is another organization's by now. It was judged before; since then somebody else may have made it.
fn is_in_namespace_of_another(plane: &Plane, owner: &Owner, namespace: &str) -> bool {
    if namespace.is_empty() || owner.organization.is_empty() {
        return false;
    }
    let namespaces = plane.follow(&hierarchy::Kind::Namespace.resource(), "", Follow::Metadata);
    let found = namespaces.get(None, namespace);
    found.is_some_and(|found| tenancy::is_of_another(found.labels(), &owner.organization))
}

/// What is tried, and with which rights: what was refused is tried again at once when more is allowed.
fn tried(owner: &Owner, wanted: &Wanted) -> String {
    format!("{} adopt={} replace={}", wanted.hash, owner.adopt, owner.replace)
}

fn outcome_of(error: WriteError) -> (Outcome, Duration) {
    match error {
        WriteError::Refused(why) | WriteError::Immutable(why) => (Outcome::Refused(why), Duration::ZERO),
        WriteError::Busy { message, after } => (Outcome::Failed(message), after),
        WriteError::Transient(why) => (Outcome::Failed(why), Duration::ZERO),
        WriteError::Conflict => {
            (Outcome::Failed("the object has changed in the meantime".to_owned()), Duration::ZERO)
        }
    }
}

/// The watch of a kind once it knows what is there, or why there is none.
async fn ground(site: &Site<'_>, kind: &Kind, known: Known<Served>) -> Ground {
    let resource = match known {
        Known::Present(served) => served.resource,
        Known::Absent(_) => {
            let why = format!(
                "the data plane does not serve {} of {}; install it there",
                kind.kind,
                kind.api_version()
            );
            return Ground::Absent(Outcome::Waiting(why));
        }
        Known::Unknown(why) => {
            let why = format!("whether the data plane has {} cannot be told: {why}", kind.kind);
            return Ground::Unknown(Outcome::Failed(why), Some(AGAIN));
        }
    };
    let followed = site.plane.follow(&resource, site.selector, Follow::Whole);
    followed.listed(site.plane.deadline).await;
    let why = match followed.state() {
        FollowState::Synced => return Ground::Ready(followed),
        FollowState::Listing => "it has not been listed yet".to_owned(),
        FollowState::NotInstalled => "the data plane does not serve it".to_owned(),
        FollowState::Denied { error } => return Ground::Denied(resource, not_followed(kind, &error)),
        FollowState::Failing { error } => error,
    };
    Ground::Unknown(Outcome::Failed(not_followed(kind, &why)), Some(AGAIN))
}

fn not_followed(kind: &Kind, why: &str) -> String {
    format!("{} cannot be followed: {why}", kind.kind)
}

/// When to look again at a kind that cannot be followed.
const AGAIN: Duration = Duration::from_secs(5);

/// Waits until the watches have told of what was written, so that the next look at them finds it.
async fn catch_up(grounds: &HashMap<Kind, Ground>, written: impl Iterator<Item = (Kind, String)>) {
    let mut newest: HashMap<Kind, u64> = HashMap::new();
    for (kind, version) in written {
        let version = version.parse::<u64>().unwrap_or_default();
        let newest = newest.entry(kind).or_default();
        *newest = version.max(*newest);
    }
    let mut waits = vec![];
    for (kind, version) in newest {
        if let Some(Ground::Ready(followed)) = grounds.get(&kind) {
            waits.push(followed.caught_up(version));
        }
    }
    join_all(waits).await;
}
