//! Holds the Secrets that DataPlanes name: without them a plane cannot be reached after a restart, and what is on it not be
//! removed.

use std::{collections::HashSet, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Secret;
use kantor_api::{DataPlane, finalizers};
use kantor_core::{hierarchy::Kind, lifecycle};
use kube::{Api, ResourceExt, api::ListParams, core::PartialObjectMeta, runtime::reflector::ObjectRef};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::READ;
use crate::{apply::WriteError, controllers::Context, planes::secret_names};

/// When to try again what could not be let go of.
const AGAIN: Duration = Duration::from_secs(10);

/// Puts the finalizer on the Secrets that a plane names; tells whether any was changed: that wakes the plane again.
pub(super) async fn hold(plane: &DataPlane, context: &Context) -> Result<bool, WriteError> {
    let ours = plane.finalizers().iter().any(|finalizer| finalizer == finalizers::DATA_PLANE);
    if !ours || lifecycle::is_paused(plane) {
        return Ok(false);
    }
    let mut changed = false;
    for secret in named(plane, context) {
        // What is being deleted takes no more finalizers.
        if is_held(&secret) || secret.metadata.deletion_timestamp.is_some() {
            continue;
        }
        if !context.writer.has_written_since(&*secret) {
            context.writer.add_finalizer(&*secret, finalizers::SECRET).await?;
        }
        changed = true;
    }
    Ok(changed)
}

/// A Secret that a plane names and that is to be deleted.
pub(super) fn going(plane: &DataPlane, context: &Context) -> Option<String> {
    let mut named = named(plane, context);
    named.find(|secret| secret.metadata.deletion_timestamp.is_some()).map(|secret| secret.name_any())
}

/// The Secrets that a plane names, as far as they exist.
fn named(plane: &DataPlane, context: &Context) -> impl Iterator<Item = Arc<PartialObjectMeta<Secret>>> {
    let namespace = plane.namespace().unwrap_or_default();
    let secrets = context.world.stores.secrets.clone();
    secret_names(&plane.spec.kubernetes_cluster)
        .into_iter()
        .filter_map(move |name| secrets.get(&ObjectRef::new(&name).within(&namespace)))
}

fn is_held(secret: &PartialObjectMeta<Secret>) -> bool {
    secret.finalizers().iter().any(|finalizer| finalizer == finalizers::SECRET)
}

/// Lets go of the Secrets that no DataPlane names any more, until `stop`.
pub(in crate::controllers) async fn run(context: Arc<Context>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        let wait = match let_go(&context).await {
            Ok(()) => context.resync,
            Err(error) => {
                warn!(%error, "Secrets that no DataPlane names are still held; trying again");
                AGAIN
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = context.book.secrets_freed() => {}
            () = sleep(wait) => {}
        }
    }
}

async fn let_go(context: &Context) -> Result<(), WriteError> {
    let stores = &context.world.stores;
    if let Some(why) = [Kind::DataPlane, Kind::Secret].iter().find_map(|kind| context.world.behind(*kind)) {
        return Err(WriteError::Transient(why));
    }
    let known: HashSet<(String, String)> =
        stores.data_planes.state().iter().flat_map(|plane| names_of(plane)).collect();
    for secret in stores.secrets.state().iter().filter(|secret| is_held(secret)) {
        let (namespace, name) = (secret.namespace().unwrap_or_default(), secret.name_any());
        let key = (namespace.clone(), name);
        if known.contains(&key) {
            continue;
        }
        // One that is not looked after here may name it all the same.
        let planes: Api<DataPlane> = Api::namespaced(context.client.clone(), &namespace);
        let all = timeout(READ, planes.list(&ListParams::default())).await;
        let all = all.map_err(|_| WriteError::timed_out(READ))?.map_err(WriteError::of)?;
        if !all.items.iter().flat_map(names_of).any(|named| named == key) {
            context.writer.remove_finalizer(&**secret, finalizers::SECRET).await?;
        }
    }
    Ok(())
}

/// Namespace and name of each Secret that a plane names.
fn names_of(plane: &DataPlane) -> Vec<(String, String)> {
    let namespace = plane.namespace().unwrap_or_default();
    let names = secret_names(&plane.spec.kubernetes_cluster).into_iter();
    names.map(|name| (namespace.clone(), name)).collect()
}
