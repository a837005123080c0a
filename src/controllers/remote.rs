//! What happens on data planes, brought to the objects of the control plane that it concerns.

use std::sync::Arc;

use kantor_api::labels::plane;
use kube::{
    ResourceExt,
    core::{ApiResource, DynamicObject},
};
use tokio_util::sync::CancellationToken;

use super::{Context, environment::key_of};
use crate::{
    core::{
        hierarchy::{Id, Kind, Need},
        namespaces::PlaneNamespace,
    },
    planes::{Follow, Followed, Plane, PlaneKey, RemoteChange},
};

/// Wakes whom a change of a plane's connection, or of an object on a plane, concerns. Ends with `stop`.
pub(super) async fn run(context: Arc<Context>, stop: CancellationToken) {
    let mut connections = context.planes.changes();
    let mut objects = context.planes.remote_changes();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            Some(key) = connections.recv() => connection_changed(&context, &key),
            Some(change) = objects.recv() => object_changed(&context, &change),
            else => return,
        }
    }
}

fn connection_changed(context: &Arc<Context>, key: &PlaneKey) {
    let id = Id::new(Kind::DataPlane, key.namespace.clone(), key.name.clone());
    context.world.wake_concerned(&id);
    let Ok(plane) = context.planes.get(key) else { return };
    let followed = follow_namespaces(&plane);
    if !followed.is_synced() {
        // What is there, and what is not, is known only then.
        let world = context.world.clone();
        tokio::spawn(async move {
            if followed.synced().await {
                world.wake_concerned(&id);
            }
        });
    }
}

/// An object concerns its owner, or those who share it; a namespace, its environment and its project.
fn object_changed(context: &Context, change: &RemoteChange) {
    let is_namespace = change.kind == "Namespace" && change.group.is_empty();
    let label = |key: &str| change.labels.get(key).cloned().unwrap_or_default();
    if let Some(uid) = change.owner_uid() {
        context.world.wake_uid(uid);
    }
    let managed = label(plane::MANAGED_BY) == plane::MANAGED_BY_DEPLOYMENT_CONTROLLER;
    if is_namespace || (managed && change.owner_uid().is_none()) {
        wake_sharers(context, change);
    }
    if !is_namespace {
        return;
    }
    for (kind, name) in [(Kind::Environment, plane::ENVIRONMENT_NAME), (Kind::Project, plane::PROJECT_NAME)] {
        context.world.wake(&Need {
            kind,
            namespace: change.plane.namespace.clone(),
            scope: vec![label(plane::ORGANIZATION_NAME)],
            name: label(name),
            passes_on: &[],
        });
    }
}

/// Wakes the Deployments that share a namespace and its isolation. What they recorded tells which they are: labels on the
/// plane may just have been changed.
fn wake_sharers(context: &Context, change: &RemoteChange) {
    let namespace = change.namespace.as_ref().unwrap_or(&change.name);
    for deployment in context.world.stores.deployments.state() {
        let Some(status) = &deployment.status else { continue };
        let there = status.data_plane.as_ref().is_some_and(|on| key_of(on) == change.plane)
            && status.namespace.as_ref() == Some(namespace);
        if let Some(uid) = deployment.metadata.uid.as_ref().filter(|_| there) {
            context.world.wake_uid(uid);
        }
    }
}

/// All namespaces: whose they are decides what Releases may put there.
pub(super) fn follow_namespaces(plane: &Plane) -> Arc<Followed> {
    let resource: ApiResource = Kind::Namespace.resource();
    plane.follow(&resource, "", Follow::Metadata)
}

/// The namespaces of ours on a plane, if they are known at the moment.
pub(super) fn namespaces_on(plane: &Plane) -> Option<Vec<PlaneNamespace>> {
    let followed = follow_namespaces(plane);
    if !followed.is_synced() {
        return None;
    }
    let ours = |namespace: &Arc<DynamicObject>| {
        let manager = namespace.labels().get(plane::MANAGED_BY);
        manager.is_some_and(|manager| manager == plane::MANAGED_BY_DEPLOYMENT_CONTROLLER)
    };
    let seen = followed.all().into_iter().filter(ours).map(|namespace| PlaneNamespace {
        name: namespace.name_any(),
        uid: namespace.uid(),
        labels: namespace.labels().clone(),
        deleting: namespace.metadata.deletion_timestamp.is_some(),
    });
    Some(seen.collect())
}
