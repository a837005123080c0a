//! What happens on data planes, brought to the objects of the control plane that it concerns.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use kantor_api::labels::plane;
use kantor_core::hierarchy::{Id, Kind, Need, Place};
use kube::ResourceExt;
use tokio_util::sync::CancellationToken;

use super::{Context, endpoint};
use crate::{
    controllers::shared::plane_namespaces::follow_namespaces,
    planes::{PlaneKey, RemoteChange},
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
    context.book.is_settled(key);
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
    let cause: Arc<str> = change.to_string().into();
    let label = |key: &str| change.labels.get(key).cloned().unwrap_or_default();
    if change.kind == "Gateway" && change.owner_uid().is_none() {
        return gateway_changed(context, change, &cause);
    }
    if let Some(uid) = change.owner_uid().filter(|_| change.kind == "EndpointSlice") {
        // Who answers behind a Service concerns those who lead there.
        return context.world.wake_children(uid, Kind::Endpoint, &cause);
    }
    if let Some(uid) = change.owner_uid() {
        context.world.wake_uid(uid, &cause);
    }
    let managed = label(plane::MANAGED_BY) == plane::MANAGED_BY_DEPLOYMENT_CONTROLLER;
    if is_namespace || (managed && change.owner_uid().is_none()) {
        wake_sharers(context, change, &cause);
    }
    if !is_namespace {
        return;
    }
    for (kind, name) in [(Kind::Environment, plane::ENVIRONMENT_NAME), (Kind::Project, plane::PROJECT_NAME)] {
        let need = Need {
            kind,
            namespace: change.plane.namespace.clone(),
            scope: vec![label(plane::ORGANIZATION_NAME)],
            name: label(name),
            passes_on: &[],
        };
        context.world.wake(&need, &cause);
    }
}

/// Wakes the Deployments that share a namespace and its isolation, and the Endpoints in it. What they recorded tells which
/// they are: labels on the plane may just have been changed.
fn wake_sharers(context: &Context, change: &RemoteChange, cause: &Arc<str>) {
    let namespace = change.namespace.as_ref().unwrap_or(&change.name).clone();
    let plane = (change.plane.namespace.clone(), change.plane.name.clone());
    context.world.wake_placed(&[Kind::Deployment, Kind::Endpoint], &Place { plane, namespace }, cause);
}

/// A gateway concerns all Endpoints of its plane, but not each time that it counts its routes anew.
fn gateway_changed(context: &Context, change: &RemoteChange, cause: &Arc<str>) {
    let Ok(plane) = context.planes.get(&change.plane) else { return };
    let namespace = change.namespace.as_deref();
    let found = endpoint::gateways(&plane).and_then(|gateways| gateways.get(namespace, &change.name));
    let generation = found.map(|gateway| (gateway.uid(), gateway.metadata.generation));
    if !context.gateways.changed(change, generation.as_ref()) {
        return;
    }
    let plane = (change.plane.namespace.as_str(), change.plane.name.as_str());
    context.world.wake_on_plane(Kind::Endpoint, plane, cause);
}

/// Plane, namespace and name of a gateway.
type GatewayKey = (PlaneKey, Option<String>, String);

/// UID and generation of an object.
type Generation = (Option<String>, Option<i64>);

/// What was last seen of the gateways of all planes.
#[derive(Default)]
pub struct GatewayBook(Mutex<HashMap<GatewayKey, Generation>>);

impl GatewayBook {
    /// Notes a gateway; tells whether it is another one, or is to be something else, than when it was last noted.
    fn changed(&self, change: &RemoteChange, now: Option<&Generation>) -> bool {
        let key = (change.plane.clone(), change.namespace.clone(), change.name.clone());
        let mut book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match now {
            Some(generation) => book.insert(key, generation.clone()),
            None => book.remove(&key),
        };
        before.as_ref() != now
    }
}
