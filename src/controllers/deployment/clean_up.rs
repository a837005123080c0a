//! Removing what a Deployment no longer has, from recorded facts alone.

use std::time::Instant;

use kantor_api::{Deployment, common::InventoryItem};
use kantor_core::{
    deployment::{self, Rendered},
    known::Known,
    lifecycle::{self, DEPLOYMENT, DeletionStep, Standing},
    namespaces::shared_owner,
    release::listed,
};
use kube::ResourceExt;

use super::{SHARED, owner_of, say, status_of};
use crate::{
    apply::WriteError,
    controllers::{
        Context,
        shared::{
            plane_objects::{self, OwnedKind, site},
            simple_kind,
            targets::Place,
        },
    },
    planes::{Follow, Kind},
    runtime::run::Action,
};

/// Kinds of the objects that Deployments have on planes.
pub(super) const KINDS: &[OwnedKind] = &[
    ("", &["v1"], "ConfigMap"),
    ("", &["v1"], "Secret"),
    ("", &["v1"], "Service"),
    ("apps", &["v1"], "Deployment"),
    ("autoscaling", &["v2"], "HorizontalPodAutoscaler"),
    ("batch", &["v1"], "CronJob"),
    ("batch", &["v1"], "Job"),
    ("secrets-store.csi.x-k8s.io", &["v1"], "SecretProviderClass"),
];

/// The forms of isolation: group, version, kind.
pub(super) const ISOLATION_FORMS: [(&str, &str, &str); 2] =
    [("networking.k8s.io", "v1", "NetworkPolicy"), ("cilium.io", "v2", "CiliumNetworkPolicy")];

/// Removes the isolation of the other form, which is there when a plane got or lost Cilium since: the two together let
/// less through than either.
pub(super) async fn remove_other_isolation(
    organization: &str,
    place: &Place,
    rendered: &Rendered,
    context: &Context,
) -> Vec<String> {
    let is_rendered = |kind: &str| {
        rendered.shared.iter().any(|object| object.types.as_ref().is_some_and(|types| types.kind == kind))
    };
    let (mut items, mut left) = (vec![], vec![]);
    for (group, version, kind) in ISOLATION_FORMS.into_iter().filter(|(.., kind)| !is_rendered(kind)) {
        let served = match place.plane.known(&Kind::new(group, version, kind)) {
            Known::Present(served) => served,
            Known::Absent(_) => continue,
            Known::Unknown(why) => {
                left.push(format!(
                    "data plane {} to tell whether it has any {kind}: {why}",
                    place.plane.key.name
                ));
                continue;
            }
        };
        let followed = place.plane.follow(&served.resource, SHARED, Follow::Whole);
        if !followed.listed(place.plane.deadline).await {
            left.push(plane_objects::list_of(kind, &place.plane));
            continue;
        }
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
    let keeper = shared_owner(organization, false);
    left.extend(plane_objects::remove(&site(&place.plane, SHARED), &keeper, &items, context).await);
    left
}

/// Cleans up after a Deployment that is being deleted: first the ways in, then the workload.
pub(super) async fn finalize(deployment: &Deployment, context: &Context) -> Result<Action, WriteError> {
    let before = status_of(deployment);
    match simple_kind::remove_children(deployment, &DEPLOYMENT, context).await? {
        DeletionStep::Done => {}
        DeletionStep::Delete { message, .. } | DeletionStep::InUse { message } => {
            let standing = Standing::Finalizing { message, in_use: false };
            say(deployment, before, standing, None, context).await?;
            return Ok(Action::requeue(simple_kind::WAITING));
        }
    }
    let started = Instant::now();
    let (plane, inventory) = (before.data_plane.as_ref(), &before.inventory);
    let waiting = if lifecycle::is_orphaning(deployment) {
        plane_objects::let_go(deployment, plane, &before.cleaning, inventory, context);
        vec![]
    } else {
        plane_objects::clean_planes(deployment, KINDS, plane, &before.cleaning, inventory, context).await
    };
    if !waiting.is_empty() {
        let message = format!("waiting for {}", listed(&waiting));
        say(deployment, before, Standing::Finalizing { message, in_use: false }, None, context).await?;
        return Ok(Action::requeue(simple_kind::WAITING));
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
