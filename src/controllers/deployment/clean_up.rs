//! Removing what a Deployment no longer has, from recorded facts alone.

use std::{collections::HashMap, sync::Arc, time::Instant};

use kantor_api::{
    Deployment,
    common::{InventoryItem, PlaneRecord},
    conditions::reasons,
};
use kube::{ResourceExt, runtime::controller::Action, runtime::events::EventType};

use super::{OWNED, SHARED, owner_of, say, shared_owner, site, status_of};
use crate::{
    apply::{Remains, Site, WriteError},
    controllers::{
        Context, member,
        place::{Place, Unreachable, reach_recorded},
    },
    core::{
        changes::{Owner, object_key, shown},
        deployment::{self, Rendered},
        lifecycle::{self, DEPLOYMENT, DeletionStep, Standing},
        release::listed,
    },
    planes::{Follow, Followed, Kind, Plane, Serving},
};

/// Kinds of the objects that Deployments have on planes.
const KINDS: &[(&str, &str, &str)] = &[
    ("", "v1", "ConfigMap"),
    ("", "v1", "Secret"),
    ("", "v1", "Service"),
    ("apps", "v1", "Deployment"),
    ("autoscaling", "v2", "HorizontalPodAutoscaler"),
    ("batch", "v1", "CronJob"),
    ("batch", "v1", "Job"),
    ("secrets-store.csi.x-k8s.io", "v1", "SecretProviderClass"),
];

/// The watch of a kind on a plane, if the plane serves it.
pub(super) fn followed(plane: &Plane, group: &str, version: &str, kind: &str) -> Option<Arc<Followed>> {
    match plane.serving(&Kind::new(group, version, kind)) {
        Serving::Served { resource, .. } => Some(plane.follow(&resource, OWNED, Follow::Whole)),
        Serving::Not | Serving::Unknown => None,
    }
}

/// All objects on a plane that belong to the Deployment with this UID. The error says what is not known.
pub(super) async fn owned(plane: &Plane, uid: &str) -> Result<Vec<InventoryItem>, String> {
    sync_all(plane).await;
    let mut found = vec![];
    for (group, version, kind) in KINDS {
        let Some(followed) = followed(plane, group, version, kind) else { continue };
        if !followed.is_synced() {
            return Err(format!("the list of every {kind} on data plane {}", plane.key.name));
        }
        found.extend(followed.owned_by(uid).into_iter().map(|object| InventoryItem {
            group: (*group).to_owned(),
            version: (*version).to_owned(),
            kind: (*kind).to_owned(),
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            uid: object.uid(),
        }));
    }
    Ok(found)
}

/// Removes the isolation of the other form, which is there when a plane got or lost Cilium since: the two together let
/// less through than either.
pub(super) async fn remove_other_isolation(
    place: &Place,
    rendered: &Rendered,
    context: &Context,
) -> Vec<String> {
    const FORMS: [(&str, &str, &str); 2] =
        [("networking.k8s.io", "v1", "NetworkPolicy"), ("cilium.io", "v2", "CiliumNetworkPolicy")];
    let is_rendered = |kind: &str| {
        rendered.shared.iter().any(|object| object.types.as_ref().is_some_and(|types| types.kind == kind))
    };
    let mut items = vec![];
    for (group, version, kind) in FORMS.into_iter().filter(|(.., kind)| !is_rendered(kind)) {
        let Serving::Served { resource, .. } = place.plane.serving(&Kind::new(group, version, kind)) else {
            continue;
        };
        let followed = place.plane.follow(&resource, SHARED, Follow::Whole);
        let _ = tokio::time::timeout(place.plane.deadline, followed.synced()).await;
        let found = followed.get(Some(&rendered.namespace), deployment::ISOLATION);
        items.extend(found.map(|found| InventoryItem {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            namespace: rendered.namespace.clone(),
            name: found.name_any(),
            uid: found.uid(),
        }));
    }
    remove(&site(&place.plane, SHARED), &shared_owner(false), &items, context).await
}

/// Removes objects; tells what is still there, and why.
pub(super) async fn remove(
    site: &Site<'_>,
    owner: &Owner,
    items: &[InventoryItem],
    context: &Context,
) -> Vec<String> {
    if items.is_empty() {
        return vec![];
    }
    let removed = context.engine.remove(site, owner, items).await;
    let left = removed.into_iter().filter_map(|removed| match removed.remains {
        Remains::Nothing => None,
        Remains::Waiting(why) | Remains::Failed(why) => Some(why),
    });
    left.collect()
}

/// Removes everything of a Deployment from a plane: what carries its UID, and what was recorded. The error says what is
/// still there.
pub(super) async fn clean_plane(
    deployment: &Deployment,
    record: &PlaneRecord,
    inventory: &[InventoryItem],
    context: &Context,
) -> Result<(), String> {
    let plane = match reach_recorded(record, context) {
        Ok(plane) => plane,
        Err(Unreachable::GivenUp) => {
            let note = format!("left behind on data plane {}, which is no longer registered", record.name);
            member::publish(deployment, EventType::Warning, "Finalize", reasons::LEFT_BEHIND, note, context)
                .await;
            return Ok(());
        }
        Err(Unreachable::For(why)) => return Err(format!("data plane {}: {why}", record.name)),
    };
    let owner = owner_of(deployment, None);
    let there = owned(&plane, &owner.uid).await?;
    let mut items: HashMap<_, InventoryItem> =
        inventory.iter().map(|item| (object_key(item), item.clone())).collect();
    items.extend(there.into_iter().map(|item| (object_key(&item), item)));
    let items: Vec<InventoryItem> = items.into_values().collect();
    let left = remove(&site(&plane, OWNED), &owner, &items, context).await;
    if left.is_empty() { Ok(()) } else { Err(listed(&left)) }
}

/// Waits until the watches of a plane know what is there.
async fn sync_all(plane: &Plane) {
    let follows: Vec<_> =
        KINDS.iter().filter_map(|(group, version, kind)| followed(plane, group, version, kind)).collect();
    let all = futures::future::join_all(follows.iter().map(|followed| followed.synced()));
    let _ = tokio::time::timeout(plane.deadline, all).await;
}

/// Cleans up after a Deployment that is being deleted: first the ways in, then the workload.
pub(super) async fn finalize(deployment: &Deployment, context: &Context) -> Result<Action, WriteError> {
    let before = status_of(deployment);
    match member::remove_children(deployment, &DEPLOYMENT, context).await? {
        DeletionStep::Done => {}
        DeletionStep::Delete { message, .. } | DeletionStep::InUse { message } => {
            let standing = Standing::Finalizing { message, in_use: false };
            say(deployment, before, standing, None, context).await?;
            return Ok(Action::requeue(member::WAITING));
        }
    }
    let started = Instant::now();
    let mut waiting = vec![];
    if lifecycle::is_orphaning(deployment) {
        let_go(deployment, context).await;
    } else {
        for plane in before.data_plane.iter().chain(&before.cleaning) {
            // What was recorded is on the current plane.
            let current = before.data_plane.as_ref() == Some(plane);
            let inventory: &[InventoryItem] = if current { &before.inventory } else { &[] };
            waiting.extend(clean_plane(deployment, plane, inventory, context).await.err());
        }
    }
    if !waiting.is_empty() {
        let message = format!("waiting for {}", listed(&waiting));
        say(deployment, before, Standing::Finalizing { message, in_use: false }, None, context).await?;
        return Ok(Action::requeue(member::WAITING));
    }
    if let Some(plane) = &before.data_plane {
        let plane = format!("{}/{}", plane.namespace, plane.name);
        context.metrics.deployed("remove", "success", &plane, started.elapsed());
    }
    context.engine.forget(&owner_of(deployment, None));
    if let Some(finalizer) = DEPLOYMENT.finalizer {
        context.writer.remove_finalizer(deployment, finalizer).await?;
    }
    Ok(Action::await_change())
}

/// Tells what stays behind.
async fn let_go(deployment: &Deployment, context: &Context) {
    let status = status_of(deployment);
    let Some(plane) = &status.data_plane else { return };
    let objects: Vec<String> = status.inventory.iter().map(shown).collect();
    let note = format!("left behind on data plane {}: {}", plane.name, listed(&objects));
    member::publish(deployment, EventType::Warning, "Finalize", reasons::LEFT_BEHIND, note, context).await;
}
