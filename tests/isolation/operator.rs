//! The operator in memory: what its controllers read, decide and write, one request at a time. Decisions are those of the operator;
//! between any two requests anything may happen.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use kantor_api::{
    Deployment, Environment, Release, annotations,
    common::{InventoryItem, PlaneRecord},
    data_plane::{PodSecurity, ReleasePolicy},
    environment::NamespaceRecord,
    labels::{self, plane as plane_labels},
    release::{ReleaseStatus, RemovingObjects, ResourceStatus},
};
use kantor_core::{
    changes::{self, ObjectView, Owner, Removal, STAGES, Step, Wanted, stage},
    namespaces::{self, NamespaceOwner, PlaneNamespace, RemovalStep},
    release::{self, NamespaceStep, Recorded, Rendered, SeenNamespace},
    tenancy::{self, Asked, Tenant},
};
use kube::{ResourceExt, api::DynamicObject};

use crate::{
    Fault,
    objects::{self, WIDGETS},
    plane::{Failure, Plane, item_key, key_of, namespace_key},
};

/// The control plane, the data planes, and what the operator has seen of them.
#[derive(Default)]
pub struct World {
    pub fault: Fault,
    pub planes: [Plane; 2],
    /// What watches have told of the planes.
    pub views: [Plane; 2],
    pub releases: BTreeMap<String, Release>,
    pub deployments: BTreeMap<String, Deployment>,
    pub environments: BTreeMap<(String, String), Environment>,
    pub version: u64,
    /// What happened, for people who replay a history.
    pub log: Vec<String>,
}

pub type Shared = Rc<RefCell<World>>;

/// Something else may happen here.
async fn pause() {
    struct Once(bool);
    impl Future for Once {
        type Output = ();

        fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
        }
    }
    Once(false).await;
}

/// What is recorded of a data plane of an organization.
pub fn record_of(organization: &str, index: usize) -> PlaneRecord {
    PlaneRecord {
        namespace: organization.to_owned(),
        name: format!("p{index}"),
        cluster_uid: Some(format!("c{index}")),
    }
}

fn index_of(record: &PlaneRecord) -> usize {
    usize::from(record.cluster_uid.as_deref() == Some("c1"))
}

impl World {
    pub fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    /// The watches of a plane have told of everything.
    pub fn catch_up(&mut self, index: usize) {
        let written = std::mem::take(&mut self.planes[index].log);
        self.log.extend(written.into_iter().map(|line| format!("    plane {index}: {line}")));
        self.views[index] = self.planes[index].clone();
    }

    fn plane_of(&self, organization: &str, environment: &str) -> Option<usize> {
        let found = self.environments.get(&(organization.to_owned(), environment.to_owned()))?;
        Some(usize::from(found.spec.data_plane_ref.as_deref() == Some("p1")))
    }

    fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }
}

/// Brings one object to what it shall be, as the engine does. Returns its UID, or nothing if it is not there as it shall be.
async fn settle(
    world: &Shared,
    index: usize,
    owner: &Owner,
    (wanted, recorded): (&Wanted, Option<&str>),
    is_followed: fn(&DynamicObject) -> bool,
) -> Option<String> {
    let key = key_of(&wanted.object);
    let live = {
        let world = world.borrow();
        if !world.planes[index].answers || !world.planes[index].is_served(&key.0) {
            return None;
        }
        world.views[index].get(&key).filter(|object| is_followed(object)).cloned()
    };
    let mut step = changes::step(owner, wanted, live.as_ref(), recorded, |_| false);
    if step == Step::Create {
        pause().await;
        let is_judged = !world.borrow().is(Fault::LooksAtNamespacesOnce);
        let labels = labels_in(world, index, &key.2);
        if is_judged && labels.is_some_and(|labels| tenancy::is_of_another(&labels, &owner.organization)) {
            return None;
        }
        let made = write(world, index, |plane| plane.create(body(wanted), &owner.organization));
        match made {
            Some(Ok(made)) => return made.uid(),
            Some(Err(Failure::Conflict)) => {
                let found = world.borrow().planes[index].get(&key).cloned();
                step = changes::step(owner, wanted, found.as_ref(), recorded, |_| false);
            }
            _ => return None,
        }
    }
    match step {
        Step::Nothing => live.and_then(|live| live.uid()),
        Step::Update { uid, taken_over, .. } => {
            let world_is = |fault| world.borrow().is(fault);
            let taken_over = taken_over.filter(|_| !world_is(Fault::AdoptsWithoutVersion));
            pause().await;
            let preconditions = (uid.as_deref(), taken_over.as_deref());
            let written =
                write(world, index, |plane| plane.update(body(wanted), preconditions, &owner.organization));
            written?.ok()?.uid()
        }
        Step::Refuse(why) => {
            objects::tells_of_others(&owner.organization, &why, &mut world.borrow_mut().planes[index]);
            None
        }
        Step::Create | Step::AwaitEnd => None,
    }
}

fn body(wanted: &Wanted) -> DynamicObject {
    let mut body = wanted.object.clone();
    body.annotations_mut().insert(annotations::INTENT_HASH.to_owned(), wanted.hash.clone());
    body
}

/// Writes to a plane, if it answers, and waits for the watch.
fn write<T>(
    world: &Shared,
    index: usize,
    write: impl FnOnce(&mut Plane) -> Result<T, Failure>,
) -> Option<Result<T, Failure>> {
    let mut world = world.borrow_mut();
    if !world.planes[index].answers {
        return None;
    }
    let done = write(&mut world.planes[index]);
    world.catch_up(index);
    Some(done)
}

/// Removes one object, as the engine does. True when nothing of the owner is left of it.
async fn remove(
    world: &Shared,
    index: usize,
    owner: &Owner,
    item: &InventoryItem,
    is_followed: fn(&DynamicObject) -> bool,
) -> bool {
    let key = item_key(item);
    let live = {
        let world = world.borrow();
        if !world.planes[index].answers {
            return false;
        }
        if !world.planes[index].is_served(&key.0) {
            return world.is(Fault::TakesUnservedForAbsent);
        }
        world.views[index].get(&key).filter(|object| is_followed(object)).cloned()
    };
    let live = match live {
        Some(live) => live,
        None => match world.borrow().planes[index].get(&key).cloned() {
            Some(live) => live,
            None => return true,
        },
    };
    match changes::removal(owner, &ObjectView::of(&live), item.uid.as_deref()) {
        Removal::Leave => true,
        Removal::AwaitEnd { .. } => false,
        Removal::Delete { uid, version } => {
            pause().await;
            let preconditions = (uid.as_deref(), version.as_deref());
            let deleted = write(world, index, |plane| plane.delete(&key, preconditions, &owner.organization));
            deleted == Some(Ok(true))
        }
    }
}

// Releases

fn is_of_releases(object: &DynamicObject) -> bool {
    object.labels().get(labels::MANAGED_BY).is_some_and(|by| by == labels::MANAGED_BY_RELEASE_CONTROLLER)
}

fn release_owner(release: &Release) -> Owner {
    Owner {
        uid: release.uid().unwrap_or_default(),
        label: labels::RELEASE_UID,
        organization: release.namespace().unwrap_or_default(),
        adopt: release.annotations().get(annotations::ADOPT).is_some_and(|value| value == "true"),
        ..Owner::default()
    }
}

/// The policy of all planes: some namespaces are open to everybody.
fn policy() -> ReleasePolicy {
    ReleasePolicy {
        namespaces: vec!["open-*".to_owned()],
        allowed_kinds: vec!["ConfigMap".to_owned(), "Namespace".to_owned(), "Widget.example.com".to_owned()],
        ..ReleasePolicy::default()
    }
}

fn write_release(world: &Shared, seen: &Release, status: ReleaseStatus) -> Option<Release> {
    let mut world = world.borrow_mut();
    let version = world.next_version();
    let now = world.releases.get_mut(&seen.name_any())?;
    if now.metadata.resource_version != seen.metadata.resource_version || now.uid() != seen.uid() {
        return None;
    }
    now.status = Some(status);
    now.metadata.resource_version = Some(version);
    Some(now.clone())
}

fn labels_in(world: &Shared, index: usize, namespace: &str) -> Option<BTreeMap<String, String>> {
    world.borrow().views[index].get(&namespace_key(namespace)).map(|found| found.labels().clone())
}

fn rendered(world: &Shared, release: &Release, index: usize) -> Option<Vec<Rendered>> {
    let organization = release.namespace()?;
    let rendered = release::render(release).ok()?;
    let items: Vec<InventoryItem> = rendered.iter().map(Rendered::item).collect();
    let asked: Vec<Asked<'_>> = rendered
        .iter()
        .zip(&items)
        .map(|(rendered, item)| Asked {
            group: &item.group,
            kind: &item.kind,
            namespaced: !item.namespace.is_empty(),
            namespace: &item.namespace,
            name: &item.name,
            labels: rendered.wanted.object.labels(),
        })
        .collect();
    let live = |name: &str| labels_in(world, index, name);
    let tenant = objects::tenant(&organization, &release.spec.environment_name);
    let refusals = tenancy::refusals(&tenant, Some(&policy()), &asked, &live);
    for why in refusals.iter().flatten() {
        objects::tells_of_others(&organization, why, &mut world.borrow_mut().planes[index]);
    }
    let is_judged = !world.borrow().is(Fault::JudgesNoRelease);
    if is_judged && refusals.iter().any(Option::is_some) {
        return None;
    }
    let as_kept = |rendered: Rendered| rendered.with_organization(&organization);
    Some(rendered.into_iter().map(as_kept).collect())
}

pub async fn reconcile_release(world: Shared, name: String) {
    let Some(release) = world.borrow().releases.get(&name).cloned() else { return };
    let organization = release.namespace().unwrap_or_default();
    let target = world.borrow().plane_of(&organization, &release.spec.environment_name);
    if release.metadata.deletion_timestamp.is_some() {
        return finalize_release(world, release).await;
    }
    let Some(index) = target else { return };
    if !world.borrow().planes[index].answers {
        return;
    }
    let here = record_of(&organization, index);
    let mut before = release.status.clone().unwrap_or_default();
    if !world.borrow().is(Fault::ForgetsWhatForgedPlanesHeld) {
        let planes = [here.clone(), record_of(&organization, 1 - index)];
        before = release::as_believed(before, &organization, &planes);
    }
    let Some(rendered) = rendered(&world, &release, index) else { return };
    let live = |name: &str| labels_in(&world, index, name);
    let to_make = release::namespaces_to_make(&before, &here, &rendered, &live);
    let recorded = release::record(&before, &here, &rendered, to_make, |_| true);
    let mut written = release;
    if release::adds_to(&before, &recorded) && !world.borrow().is(Fault::RecordsAfterwards) {
        pause().await;
        let Some(done) = write_release(&world, &written, with_record(&before, &recorded)) else { return };
        written = done;
    }
    let release = written;
    let mut unmade = BTreeSet::new();
    for namespace in &recorded.namespaces {
        if let Some(labels) = labels_in(&world, index, namespace) {
            let is_anybodys = world.borrow().is(Fault::LooksAtNamespacesOnce);
            if tenancy::is_of_another(&labels, &organization) && !is_anybodys {
                unmade.insert(namespace.clone());
            }
            continue;
        }
        let made = release::targeted_namespace(&release, namespace, PodSecurity::None);
        pause().await;
        let made = write(&world, index, |plane| plane.create(objects::dynamic(&made), &organization));
        let is_there = match made {
            Some(Ok(_)) => true,
            Some(Err(Failure::Conflict)) => {
                let world = world.borrow();
                let found = world.planes[index].get(&namespace_key(namespace));
                world.is(Fault::LooksAtNamespacesOnce)
                    || found.is_some_and(|found| tenancy::is_of(found.labels(), &organization))
            }
            _ => false,
        };
        if !is_there {
            unmade.insert(namespace.clone());
        }
    }
    let owner = release_owner(&release);
    let mut uids: BTreeMap<usize, String> = BTreeMap::new();
    for step in 0..STAGES {
        for (i, (rendered, entry)) in rendered.iter().zip(&recorded.resources).enumerate() {
            let item = rendered.item();
            if stage(&item.group, &item.kind) != step || unmade.contains(&item.namespace) {
                continue;
            }
            let placed = (&rendered.wanted, entry.uid.as_deref());
            if let Some(uid) = settle(&world, index, &owner, placed, is_of_releases).await {
                uids.insert(i, uid);
            } else if item.kind == "Namespace" && !world.borrow().is(Fault::LooksAtNamespacesOnce) {
                unmade.insert(item.name);
            }
        }
    }
    let mut resources = recorded.resources.clone();
    for (i, uid) in &uids {
        resources[*i].uid = Some(uid.clone());
    }
    let mut removing = recorded.removing.clone();
    if uids.len() == rendered.len() {
        removing = remove_places(&world, &release, removing, &recorded.resources).await;
    }
    pause().await;
    let recorded = Recorded { resources, removing, ..recorded };
    write_release(&world, &release, with_record(&before, &recorded));
}

fn with_record(before: &ReleaseStatus, recorded: &Recorded) -> ReleaseStatus {
    let Recorded { data_plane, resources, namespaces, removing } = recorded.clone();
    ReleaseStatus { data_plane, resources, namespaces, removing, ..before.clone() }
}

async fn finalize_release(world: Shared, release: Release) {
    let organization = release.namespace().unwrap_or_default();
    let mut status = release.status.clone().unwrap_or_default();
    if !world.borrow().is(Fault::ForgetsWhatForgedPlanesHeld) {
        let planes = [record_of(&organization, 0), record_of(&organization, 1)];
        status = release::as_believed(status, &organization, &planes);
    }
    let left = remove_places(&world, &release, Recorded::of(&status).everything(), &[]).await;
    if left.is_empty() || world.borrow().is(Fault::LetsGoOfWhatIsLeft) {
        pause().await;
        let mut world = world.borrow_mut();
        if world.releases.get(&release.name_any()).is_some_and(|now| now.uid() == release.uid()) {
            world.releases.remove(&release.name_any());
        }
    }
}

async fn remove_places(
    world: &Shared,
    release: &Release,
    places: Vec<RemovingObjects>,
    stays: &[ResourceStatus],
) -> Vec<RemovingObjects> {
    let organization = release.namespace().unwrap_or_default();
    let mut left = vec![];
    for place in places {
        if !tenancy::may_be_on(&place.data_plane, &organization, true) {
            continue;
        }
        let index = index_of(&place.data_plane);
        if !world.borrow().planes[index].answers {
            if !world.borrow().is(Fault::TakesSilenceForAbsence) {
                left.push(place);
            }
            continue;
        }
        let tenant = objects::tenant(&organization, &release.spec.environment_name);
        let remains = remove_from(world, index, release, &place, (&tenant, stays)).await;
        if !remains.objects.is_empty() || !remains.namespaces.is_empty() {
            left.push(remains);
        }
    }
    left
}

async fn remove_from(
    world: &Shared,
    index: usize,
    release: &Release,
    place: &RemovingObjects,
    (tenant, stays): (&Tenant<'_>, &[ResourceStatus]),
) -> RemovingObjects {
    let owner = release_owner(release);
    let believe = |item: &InventoryItem| {
        let live = |name: &str| labels_in(world, index, name);
        if world.borrow().is(Fault::BelievesRecordedUids) {
            return item.clone();
        }
        tenancy::believed(item, &place.data_plane, tenant, Some(&policy()), &live)
    };
    let mut objects = vec![];
    let mut blocked = false;
    for step in (0..STAGES).rev() {
        for item in place.objects.iter().filter(|item| stage(&item.group, &item.kind) == step) {
            if blocked || !remove(world, index, &owner, &believe(item), is_of_releases).await {
                objects.push(item.clone());
            }
        }
        blocked = !objects.is_empty();
    }
    let candidates = release::namespaces_to_leave(place, stays);
    let mut namespaces = vec![];
    for name in candidates {
        let in_use = objects.iter().any(|item| item.namespace == name);
        if in_use || !remove_namespace(world, index, release, &place.data_plane, &name) {
            namespaces.push(name);
        }
    }
    RemovingObjects { data_plane: place.data_plane.clone(), objects, namespaces }
}

/// Removes a namespace that was made for Releases, if nobody has anything there. True when there is nothing left to do.
fn remove_namespace(
    world: &Shared,
    index: usize,
    release: &Release,
    record: &PlaneRecord,
    name: &str,
) -> bool {
    let organization = release.namespace().unwrap_or_default();
    let uid = release.metadata.uid.as_deref();
    let step = {
        let world = world.borrow();
        let is_careless = world.is(Fault::BelievesStatusOfOthers);
        let needed = world.releases.values().any(|other| {
            let of = if is_careless { other.namespace().unwrap_or_default() } else { organization.clone() };
            release::is_needed_by(other, uid, &of, record, name)
        });
        let seen = world.views[index].get(&namespace_key(name));
        let view = seen.map(|seen| SeenNamespace {
            labels: seen.labels(),
            uid: seen.metadata.uid.as_deref(),
            deleting: seen.metadata.deletion_timestamp.is_some(),
        });
        release::namespace_step(view, &organization, needed)
    };
    match step {
        NamespaceStep::Leave => true,
        NamespaceStep::AwaitEnd => false,
        NamespaceStep::DeleteIfEmpty(uid) => {
            match inside(&world.borrow(), index, name) {
                Inside::Objects => return true,
                Inside::Unknown => return false,
                Inside::Nothing => {}
            }
            // Nothing is put between this look and the deletion: Kubernetes has no way to delete a namespace on condition that it is
            // empty.
            let key = namespace_key(name);
            write(world, index, |plane| plane.delete(&key, (uid.as_deref(), None), &organization));
            false
        }
    }
}

enum Inside {
    Nothing,
    Objects,
    Unknown,
}

/// What is in a namespace, as far as it can be seen.
fn inside(world: &World, index: usize, namespace: &str) -> Inside {
    let plane = &world.planes[index];
    if plane.objects.keys().any(|key| key.2 == namespace && plane.is_served(&key.0)) {
        Inside::Objects
    } else if plane.unserved.is_empty() {
        Inside::Nothing
    } else if world.is(Fault::LeavesWhatItCannotLookInto) {
        Inside::Objects
    } else {
        Inside::Unknown
    }
}

// Deployments

fn is_of_deployments(object: &DynamicObject) -> bool {
    object.labels().contains_key(labels::OWNER_UID)
}

fn is_shared(object: &DynamicObject) -> bool {
    let by = object.labels().get(plane_labels::MANAGED_BY);
    by.is_some_and(|by| by == plane_labels::MANAGED_BY_DEPLOYMENT_CONTROLLER)
}

fn deployment_owner(deployment: &Deployment) -> Owner {
    Owner {
        uid: deployment.uid().unwrap_or_default(),
        label: labels::OWNER_UID,
        organization: deployment.namespace().unwrap_or_default(),
        replace: true,
        ..Owner::default()
    }
}

fn write_deployment(
    world: &Shared,
    seen: &Deployment,
    change: impl FnOnce(&mut Deployment),
) -> Option<Deployment> {
    let mut world = world.borrow_mut();
    let version = world.next_version();
    let now = world.deployments.get_mut(&seen.name_any())?;
    if now.metadata.resource_version != seen.metadata.resource_version || now.uid() != seen.uid() {
        return None;
    }
    change(now);
    now.metadata.resource_version = Some(version);
    Some(now.clone())
}

fn environment_of(deployment: &Deployment) -> String {
    deployment.labels().get(labels::ENVIRONMENT).cloned().unwrap_or_default()
}

pub async fn reconcile_deployment(world: Shared, name: String) {
    let Some(deployment) = world.borrow().deployments.get(&name).cloned() else { return };
    let organization = deployment.namespace().unwrap_or_default();
    let environment = environment_of(&deployment);
    let target = world.borrow().plane_of(&organization, &environment);
    if deployment.metadata.deletion_timestamp.is_some() {
        return finalize_deployment(world, deployment).await;
    }
    let found = world.borrow().environments.get(&(organization.clone(), environment.clone())).cloned();
    let (Some(index), Some(found)) = (target, found) else { return };
    if !world.borrow().planes[index].answers || found.metadata.deletion_timestamp.is_some() {
        return;
    }
    let tenant = objects::tenant(&organization, &environment);
    let namespace = tenancy::own_namespace(&tenant);
    let labels = labels_in(&world, index, &namespace);
    let of = namespaces::owner_of(labels.as_ref(), &organization, tenant.project, &environment);
    if of == NamespaceOwner::Other {
        return;
    }
    let here = record_of(&organization, index);
    let before = deployment.status.clone().unwrap_or_default();
    let mut recorded = before.clone();
    if let Some(old) = before.data_plane.clone().filter(|old| !release::is_on(old, &here)) {
        recorded.cleaning.push(old);
    }
    recorded.cleaning.retain(|known| !release::is_on(known, &here));
    recorded.data_plane = Some(here.clone());
    recorded.namespace = Some(namespace.clone());
    let noted = found.status.iter().flat_map(|status| &status.namespaces);
    let is_noted =
        noted.into_iter().any(|record| record.name == namespace && release::is_on(&record.data_plane, &here));
    let mut written = deployment;
    if recorded != before {
        pause().await;
        let status = recorded.clone();
        let Some(done) = write_deployment(&world, &written, |now| now.status = Some(status)) else { return };
        written = done;
    }
    if !is_noted && !world.borrow().is(Fault::DoesNotWaitForTheEnvironment) {
        return;
    }
    let deployment = written;
    let keeper = namespaces::shared_owner(&organization, of == NamespaceOwner::Organization);
    let [shared_namespace, isolation] = objects::shared(&tenant, &namespace);
    let in_place =
        settle(&world, index, &keeper, (&Wanted::new(shared_namespace), None), is_shared).await.is_some();
    if !in_place && !world.borrow().is(Fault::IsolatesBeforeItHasTheNamespace) {
        return;
    }
    let isolated = settle(&world, index, &keeper, (&Wanted::new(isolation), None), is_shared).await.is_some();
    if !isolated || !in_place {
        return;
    }
    let owner = deployment_owner(&deployment);
    let own = objects::own(&tenant, &namespace, &deployment);
    let mut inventory = vec![];
    for object in own {
        let wanted = Wanted::new(object);
        let Some(uid) = settle(&world, index, &owner, (&wanted, None), is_of_deployments).await else {
            return;
        };
        inventory.push(InventoryItem { uid: Some(uid), ..wanted.item() });
    }
    let wanted: BTreeSet<_> = inventory.iter().map(item_key).collect();
    for item in owned(&world, index, &owner.uid).unwrap_or_default() {
        if !wanted.contains(&item_key(&item)) {
            remove(&world, index, &owner, &item, is_of_deployments).await;
        }
    }
    let mut status = recorded;
    let mut cleaning = vec![];
    for former in std::mem::take(&mut status.cleaning) {
        if !clean_plane(&world, &deployment, &former, &[]).await {
            cleaning.push(former);
        }
    }
    pause().await;
    status.cleaning = cleaning;
    status.inventory = inventory;
    write_deployment(&world, &deployment, |now| now.status = Some(status));
}

/// The objects of an owner on a plane; nothing if a kind of them is not known.
fn owned(world: &Shared, index: usize, uid: &str) -> Option<Vec<InventoryItem>> {
    let world = world.borrow();
    let plane = &world.planes[index];
    if !plane.is_served(WIDGETS) && !world.is(Fault::TakesUnservedForAbsent) {
        return None;
    }
    let view = &world.views[index];
    let is_own = |object: &&DynamicObject| {
        let (group, _, _) = changes::identity(object);
        plane.is_served(&group) && object.labels().get(labels::OWNER_UID).is_some_and(|of| of == uid)
    };
    let found = view.objects.values().map(|stored| &stored.object).filter(is_own);
    Some(
        found
            .map(|object| InventoryItem { uid: object.uid(), ..Wanted::new(object.clone()).item() })
            .collect(),
    )
}

async fn clean_plane(
    world: &Shared,
    deployment: &Deployment,
    record: &PlaneRecord,
    inventory: &[InventoryItem],
) -> bool {
    let owner = deployment_owner(deployment);
    if !tenancy::may_be_on(record, &owner.organization, false) {
        return true;
    }
    let index = index_of(record);
    if !world.borrow().planes[index].answers {
        return world.borrow().is(Fault::TakesSilenceForAbsence);
    }
    let Some(there) = owned(world, index, &owner.uid) else { return false };
    let is_own = |item: &InventoryItem| {
        labels_in(world, index, &item.namespace)
            .is_some_and(|labels| labels.get(plane_labels::ORGANIZATION_NAME) == Some(&owner.organization))
    };
    let mut items: BTreeMap<_, InventoryItem> = inventory
        .iter()
        .map(|item| {
            let believed = world.borrow().is(Fault::BelievesRecordedUids) || is_own(item);
            (item_key(item), InventoryItem { uid: item.uid.clone().filter(|_| believed), ..item.clone() })
        })
        .collect();
    items.extend(there.into_iter().map(|item| (item_key(&item), item)));
    let mut is_clean = true;
    for item in items.values() {
        is_clean &= remove(world, index, &owner, item, is_of_deployments).await;
    }
    is_clean
}

async fn finalize_deployment(world: Shared, deployment: Deployment) {
    let organization = deployment.namespace().unwrap_or_default();
    let status = deployment.status.clone().unwrap_or_default();
    let forged = status.data_plane.iter().any(|plane| !tenancy::may_be_on(plane, &organization, false));
    let forgets = world.borrow().is(Fault::ForgetsWhatForgedPlanesHeld);
    let all = [record_of(&organization, 0), record_of(&organization, 1)];
    let possible: &[PlaneRecord] = if forged && !forgets { &all } else { &[] };
    let mut is_clean = true;
    for plane in status.data_plane.iter().chain(&status.cleaning).chain(possible) {
        let inventory: &[_] = if status.data_plane.as_ref() == Some(plane) { &status.inventory } else { &[] };
        is_clean &= clean_plane(&world, &deployment, plane, inventory).await;
    }
    if is_clean || world.borrow().is(Fault::LetsGoOfWhatIsLeft) {
        pause().await;
        let mut world = world.borrow_mut();
        if world.deployments.get(&deployment.name_any()).is_some_and(|now| now.uid() == deployment.uid()) {
            world.deployments.remove(&deployment.name_any());
        }
    }
}

// Environments

fn seen_on(world: &World, record: &PlaneRecord) -> Option<Vec<PlaneNamespace>> {
    let index = index_of(record);
    if !world.planes[index].answers {
        return None;
    }
    let found = world.views[index]
        .objects
        .iter()
        .filter(|(key, stored)| key.1 == "Namespace" && is_shared(&stored.object));
    let seen = found.map(|(key, stored)| PlaneNamespace {
        name: key.3.clone(),
        uid: stored.object.uid(),
        labels: stored.object.labels().clone(),
        deleting: stored.object.metadata.deletion_timestamp.is_some(),
    });
    Some(seen.collect())
}

fn is_used(world: &World, record: &NamespaceRecord, organization: &str) -> bool {
    let claims = |found: &Deployment| {
        found.namespace().as_deref() == Some(organization)
            && found
                .status
                .as_ref()
                .is_some_and(|status| namespaces::is_claimed_by(status, &record.data_plane, &record.name))
    };
    let careless = world.is(Fault::BelievesStatusOfOthers);
    let uses = |found: &Release| {
        let of = if careless { found.namespace().unwrap_or_default() } else { organization.to_owned() };
        release::has_objects_in(found, &of, &record.data_plane, &record.name)
    };
    world.deployments.values().any(claims) || world.releases.values().any(uses)
}

pub async fn reconcile_environment(world: Shared, id: (String, String)) {
    let Some(environment) = world.borrow().environments.get(&id).cloned() else { return };
    let (organization, name) = &id;
    let index = usize::from(environment.spec.data_plane_ref.as_deref() == Some("p1"));
    let current = record_of(organization, index);
    let before = environment.status.clone().unwrap_or_default();
    let is_going = environment.metadata.deletion_timestamp.is_some();
    if is_going {
        let mut world = world.borrow_mut();
        let children = world.deployments.values_mut().filter(|found| {
            found.namespace().as_ref() == Some(organization) && environment_of(found) == *name
        });
        let mut has_children = false;
        for child in children {
            child.metadata.deletion_timestamp = Some(objects::some_time());
            has_children = true;
        }
        if has_children {
            return;
        }
    }
    let mut waiting = false;
    let records = if is_going { recorded_now(&world.borrow(), &environment, &id) } else { before.namespaces };
    for record in &records {
        let is_wanted = is_going || namespaces::has_left(&record.data_plane, &current);
        if !is_wanted || !tenancy::may_be_on(&record.data_plane, organization, false) {
            continue;
        }
        let step = {
            let world = world.borrow();
            if is_used(&world, record, organization) {
                waiting = true;
                continue;
            }
            let seen = seen_on(&world, &record.data_plane);
            namespaces::removal_step(record, organization, name, seen.as_deref())
        };
        match step {
            RemovalStep::Gone => {}
            RemovalStep::AwaitEnd => waiting = true,
            RemovalStep::Unreachable => waiting |= !world.borrow().is(Fault::TakesSilenceForAbsence),
            RemovalStep::Delete { uid } => {
                waiting = true;
                pause().await;
                let key = namespace_key(&record.name);
                let at = index_of(&record.data_plane);
                write(&world, at, |plane| plane.delete(&key, (uid.as_deref(), None), organization));
            }
        }
    }
    pause().await;
    let mut world = world.borrow_mut();
    if is_going {
        if !waiting {
            world.environments.remove(&id);
        }
        return;
    }
    let recorded = recorded_now(&world, &environment, &id);
    let version = world.next_version();
    if let Some(now) = world.environments.get_mut(&id)
        && now.metadata.resource_version == environment.metadata.resource_version
    {
        now.status.get_or_insert_default().namespaces = recorded;
        now.metadata.resource_version = Some(version);
    }
}

/// What is to be recorded of the namespaces of an environment.
fn recorded_now(
    world: &World,
    environment: &Environment,
    (organization, name): &(String, String),
) -> Vec<NamespaceRecord> {
    let index = usize::from(environment.spec.data_plane_ref.as_deref() == Some("p1"));
    let before = environment.status.clone().unwrap_or_default();
    let children = world
        .deployments
        .values()
        .filter(|found| found.namespace().as_ref() == Some(organization) && environment_of(found) == *name);
    let claimed: Vec<NamespaceRecord> = children
        .flat_map(|deployment| {
            let status = deployment.status.clone().unwrap_or_default();
            let planes: Vec<PlaneRecord> = status.data_plane.into_iter().chain(status.cleaning).collect();
            let project = objects::tenant(organization, name).project.to_owned();
            status.namespace.into_iter().flat_map(move |name| {
                let project = project.clone();
                planes.clone().into_iter().map(move |data_plane| NamespaceRecord {
                    data_plane,
                    name: name.clone(),
                    project: project.clone(),
                })
            })
        })
        .collect();
    let current = record_of(organization, index);
    let sight = |plane: &PlaneRecord| seen_on(world, plane);
    namespaces::record(&before.namespaces, &claimed, Some(&current), organization, name, &sight)
}
