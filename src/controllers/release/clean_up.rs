//! Removing what a Release no longer wants, from recorded facts alone.

use std::collections::{BTreeSet, HashSet};

use kantor_api::{
    Release,
    common::{InventoryItem, PlaneRecord},
    conditions::{self, Statement, Status, reasons, types},
    data_plane::ReleasePolicy,
    labels,
    release::{ReleaseStatus, RemovingObjects, ResourceStatus},
};
use kantor_core::{
    changes::{object_key, shown},
    hierarchy::Kind,
    lifecycle::{self, RELEASE, Standing},
    release::{self, NamespaceStep, Recorded, SeenNamespace},
    tenancy,
};
use kube::{Resource, ResourceExt, runtime::events::EventType};

use super::{
    Context, WAITING, believed_status, hosts, now, owner_of,
    place::{SELECTOR, followed, site},
    some, status_of, tenant, write,
};
use crate::{
    apply::{Found, Remains, Site, Whose, WriteError},
    controllers::shared::{
        hostnames,
        plane_namespaces::follow_namespaces,
        plane_objects::{disbelieve, list_of},
        plane_records::key_of,
        targets::{Unreachable, data_plane_of, own_writer, reach_recorded},
    },
    planes::{self, Follow, Plane},
    runtime::{events, run::Action},
};

/// Cleans up after a Release that is being deleted.
pub(super) async fn finalize(release: &Release, context: &Context) -> Result<Action, WriteError> {
    let recorded = Recorded::of(&believed_status(release, None, context)).everything();
    if lifecycle::is_orphaning(release) {
        let_go(release, &recorded, context);
    } else {
        let (left, why) = remove_with_reasons(release, recorded, &[], context).await;
        if !left.is_empty() || !why.is_empty() {
            say(release, &why, context).await?;
            return Ok(Action::requeue(WAITING));
        }
    }
    hosts::let_go(release, &BTreeSet::new(), context).await?;
    let claims = hostnames::naming(&release.uid().unwrap_or_default(), context);
    if !claims.is_empty() {
        let text = format!("HostnameClaim {}, which others still serve", claims.join(", "));
        say(release, &[Why { text, failed: false }], context).await?;
        return Ok(Action::requeue(WAITING));
    }
    follow_only(release, &Recorded::default(), context);
    context.engine.forget(&owner_of(release));
    if let Some(finalizer) = RELEASE.finalizer {
        context.writer.remove_finalizer(release, finalizer).await?;
    }
    Ok(Action::await_change())
}

/// Removes objects, and the namespaces that were made for them and in which nothing of the Release `stays`; returns what is left of
/// them, and what is said about it.
pub(super) async fn remove(
    release: &Release,
    places: Vec<RemovingObjects>,
    stays: &[ResourceStatus],
    context: &Context,
) -> (Vec<RemovingObjects>, Vec<String>) {
    let (left, why) = remove_with_reasons(release, places, stays, context).await;
    (left, why.into_iter().map(|why| why.text).collect())
}

/// Why something is still there.
struct Why {
    text: String,
    failed: bool,
}

async fn remove_with_reasons(
    release: &Release,
    places: Vec<RemovingObjects>,
    stays: &[ResourceStatus],
    context: &Context,
) -> (Vec<RemovingObjects>, Vec<Why>) {
    let (mut left, mut why) = (vec![], vec![]);
    for place in places {
        let name = &place.data_plane.name;
        if !tenancy::may_be_on(&place.data_plane, &release.namespace().unwrap_or_default(), true) {
            disbelieve(release, &place.data_plane, context);
            continue;
        }
        let plane = match reach_recorded(&place.data_plane, context).await {
            Ok(plane) => plane,
            Err(Unreachable::GivenUp) => {
                let_go(release, &[place], context);
                continue;
            }
            Err(Unreachable::For(reason)) => {
                let count = place.objects.len() + place.namespaces.len();
                let text = format!("{count} objects on data plane {name}: {reason}");
                why.push(Why { text, failed: true });
                left.push(place);
                continue;
            }
        };
        let policy = data_plane_of(&place.data_plane, context);
        let policy = policy.as_ref().and_then(|plane| plane.spec.release_policy.as_ref());
        if !follow_namespaces(&plane).listed(plane.deadline).await {
            why.push(Why { text: list_of("Namespace", &plane), failed: false });
            left.push(place);
            continue;
        }
        let site = site(&plane, policy);
        let believed = believed(release, &plane, policy, &place, context);
        let remains = remove_from(release, &site, &believed, stays, &mut why, context).await;
        // With all that was recorded: it may be believed again.
        left.extend(remains.map(|remains| {
            let there: HashSet<_> = remains.objects.iter().map(object_key).collect();
            let objects =
                place.objects.into_iter().filter(|item| there.contains(&object_key(item))).collect();
            RemovingObjects { objects, ..remains }
        }));
    }
    (left, why)
}

/// What was recorded, as far as it is believed. What is not is known by its labels alone, and that is said.
fn believed(
    release: &Release,
    plane: &Plane,
    policy: Option<&ReleasePolicy>,
    recorded: &RemovingObjects,
    context: &Context,
) -> RemovingObjects {
    let organization = release.namespace().unwrap_or_default();
    let (tenant, namespaces) = (tenant(release, &organization), follow_namespaces(plane));
    let live = |name: &str| namespaces.get(None, name).map(|namespace| namespace.labels().clone());
    let believe = |item: &_| tenancy::believed(item, &recorded.data_plane, &tenant, policy, &live);
    let objects: Vec<_> = recorded.objects.iter().map(believe).collect();
    let is_labelled = |item: &InventoryItem| {
        followed(plane, item).is_none_or(|followed| followed.get(some(&item.namespace), &item.name).is_some())
    };
    let doubted = recorded.objects.iter().zip(&objects).filter(|(said, believed)| said.uid != believed.uid);
    let doubted: Vec<String> =
        doubted.filter(|(item, _)| !is_labelled(item)).map(|(item, _)| shown(item)).collect();
    if !doubted.is_empty() {
        let note = format!(
            "left alone unless it carries the label {} of this Release, since organization {organization} may not write there: {}",
            labels::RELEASE_UID,
            release::listed(&doubted)
        );
        events::publish(release, EventType::Warning, "Remove", reasons::LEFT_BEHIND, note, context);
    }
    RemovingObjects { objects, ..recorded.clone() }
}

async fn remove_from(
    release: &Release,
    site: &Site<'_>,
    place: &RemovingObjects,
    stays: &[ResourceStatus],
    why: &mut Vec<Why>,
    context: &Context,
) -> Option<RemovingObjects> {
    let removed = context.engine.remove(site, &owner_of(release), &place.objects).await;
    let mut there = HashSet::new();
    for done in removed {
        let (text, failed) = match done.remains {
            Remains::Nothing => continue,
            Remains::Waiting(text) => (text, false),
            Remains::Failed(text) => (text, true),
        };
        there.insert(object_key(&done.item));
        why.push(Why { text, failed });
    }
    let objects: Vec<_> =
        place.objects.iter().filter(|item| there.contains(&object_key(item))).cloned().collect();
    let mut namespaces = vec![];
    for name in &release::namespaces_to_leave(place, stays) {
        // Its own objects first: they would look like somebody's.
        if objects.iter().any(|item| item.namespace == *name) {
            namespaces.push(name.clone());
            continue;
        }
        let (text, failed) = match remove_namespace(release, site, &place.data_plane, name, context).await {
            Ok(true) => continue,
            Ok(false) => (format!("namespace {name} is being deleted"), false),
            Err(error) => (format!("namespace {name}: {error}"), true),
        };
        why.push(Why { text, failed });
        namespaces.push(name.clone());
    }
    let data_plane = place.data_plane.clone();
    let left = RemovingObjects { data_plane, objects, namespaces };
    (!left.objects.is_empty() || !left.namespaces.is_empty()).then_some(left)
}

/// Removes a namespace that was made for Releases, unless somebody else put something there. True when there is nothing
/// left to do.
async fn remove_namespace(
    release: &Release,
    site: &Site<'_>,
    record: &PlaneRecord,
    name: &str,
    context: &Context,
) -> Result<bool, WriteError> {
    let followed = follow_namespaces(site.plane);
    if !followed.is_synced() {
        return Ok(false);
    }
    let organization = release.namespace().unwrap_or_default();
    let uid = release.metadata.uid.as_deref();
    let needs = |other: &Release| release::is_needed_by(other, uid, &organization, record, name);
    let needed = context.world.stores.releases.find(needs).is_some();
    let seen = followed.get(None, name);
    let view = seen.as_ref().map(|seen| SeenNamespace {
        labels: seen.labels(),
        uid: seen.metadata.uid.as_deref(),
        deleting: seen.metadata.deletion_timestamp.is_some(),
    });
    match release::namespace_step(view, &organization, needed) {
        NamespaceStep::Leave => Ok(true),
        NamespaceStep::AwaitEnd => Ok(false),
        NamespaceStep::DeleteIfEmpty(uid) => {
            match context.engine.something_in(site, name).await? {
                None => {}
                // Its own Release sees to it.
                Some(Found { whose: Whose::Kept, .. }) => return Ok(true),
                Some(Found { whose: Whose::Going, .. }) => return Ok(false),
                // Not to know is not to know that there is nothing.
                Some(Found { what, whose: Whose::Unserved }) => {
                    return Err(WriteError::Transient(format!("it may hold {what}")));
                }
                Some(Found { what, whose }) => {
                    let holds = if whose == Whose::Unseen { "may hold" } else { "holds" };
                    let note = format!("left behind: namespace {name}, which {holds} {what}");
                    let reason = reasons::LEFT_BEHIND;
                    events::publish(release, EventType::Warning, "Remove", reason, note, context);
                    return Ok(true);
                }
            }
            own_writer(site.plane).delete(&Kind::Namespace.resource(), "", name, uid).await?;
            Ok(false)
        }
    }
}

/// Tells what stays behind.
fn let_go(release: &Release, places: &[RemovingObjects], context: &Context) {
    for place in places {
        let objects = place.objects.iter().map(shown);
        let namespaces = place.namespaces.iter().map(|name| format!("Namespace {name}"));
        let all: Vec<String> = objects.chain(namespaces).collect();
        events::leave_behind(release, &place.data_plane.name, &all, context);
    }
}

/// Says what a deletion waits for. A failure stays said until it is over.
async fn say(release: &Release, why: &[Why], context: &Context) -> Result<(), WriteError> {
    let texts: Vec<String> = why.iter().map(|why| why.text.clone()).collect();
    let message = release::listed(&texts);
    let failed = why.iter().any(|why| why.failed);
    let reason = if failed { reasons::CLEANUP_FAILED } else { reasons::CLEANUP_IN_PROGRESS };
    let before = status_of(release);
    let (generation, now) = (release.meta().generation, now());
    let standing = Standing::Finalizing { message: message.clone(), in_use: false };
    let mut conditions = lifecycle::conditions_of(&RELEASE, &standing, &before.conditions, generation, &now);
    let finalizing = Statement::new(types::FINALIZING, Status::True, reason, message);
    conditions::set(&mut conditions, finalizing, generation, &now);
    let after =
        ReleaseStatus { observed_generation: generation, conditions: conditions.clone(), ..before.clone() };
    if before != after {
        write(release, after, context).await?;
        events::announce(release, &before.conditions, &conditions, context);
    }
    Ok(())
}

/// Ends the watches of kinds that no Release has objects of any more.
pub(super) fn follow_only(release: &Release, recorded: &Recorded, context: &Context) {
    let uid = release.uid().unwrap_or_default();
    let everything = recorded.mentioned();
    let mut planes: HashSet<_> = everything.iter().map(|place| key_of(&place.data_plane)).collect();
    let before = Recorded::of(&status_of(release)).mentioned();
    planes.extend(before.iter().map(|place| key_of(&place.data_plane)));
    for key in planes {
        let kinds_in = |places: &[RemovingObjects]| -> HashSet<_> {
            let here = places.iter().filter(|place| key_of(&place.data_plane) == key);
            here.flat_map(|place| &place.objects).map(planes::Kind::of).collect()
        };
        let (kinds, had) = (kinds_in(&everything), kinds_in(&before));
        let free = context.releases.set(&key, &uid, &kinds, &had);
        let Ok(plane) = context.planes.get(&key) else { continue };
        for kind in free {
            if let Some(served) = plane.known(&kind).if_present() {
                plane.unfollow(&served.resource, SELECTOR, Follow::Whole);
            }
        }
    }
}
