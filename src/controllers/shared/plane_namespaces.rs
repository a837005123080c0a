//! Namespaces on data planes: known, and removed.

use std::sync::Arc;

use kantor_api::{
    Environment, common::PlaneRecord, conditions::reasons, environment::NamespaceRecord, labels::plane,
};
use kantor_core::{
    hierarchy::{Kind, logical_name, organization_of},
    lifecycle,
    namespaces::{self, PlaneNamespace, RemovalStep},
    tenancy,
};
use kube::{
    Resource, ResourceExt,
    core::{ApiResource, DynamicObject},
    runtime::events::EventType,
};

use crate::{
    apply::{Deletion, WriteError, Writer},
    controllers::{
        Context,
        shared::{
            connection,
            simple_kind::Cleanup,
            targets::{Registered, data_plane_of, registered},
        },
    },
    planes::{Follow, Followed, Plane},
    runtime::events,
};

/// All namespaces: whose they are decides what Releases may put there.
pub(crate) fn follow_namespaces(plane: &Plane) -> Arc<Followed> {
    let resource: ApiResource = Kind::Namespace.resource();
    plane.follow(&resource, "", Follow::Metadata)
}

/// The namespaces of ours on a plane, if they are known at the moment.
pub(crate) fn namespaces_on(plane: &Plane) -> Option<Vec<PlaneNamespace>> {
    let followed = follow_namespaces(plane);
    if !followed.is_synced() {
        return None;
    }
    let ours = |namespace: &DynamicObject| {
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

/// The namespaces of ours on a data plane, if they are known at the moment and it is the cluster that was recorded.
pub(crate) fn seen_on(plane: &PlaneRecord, context: &Context) -> Option<Vec<PlaneNamespace>> {
    namespaces_on(&*connected(plane, context)?)
}

/// The recorded data plane, if it is connected and the cluster that was recorded.
fn connected(plane: &PlaneRecord, context: &Context) -> Option<Arc<Plane>> {
    let registered = data_plane_of(plane, context)?;
    let connected = context.planes.get(&connection::key_of(&registered)).ok()?;
    plane.cluster_uid.as_deref().is_none_or(|uid| uid == connected.cluster_uid).then_some(connected)
}

/// Removes the recorded namespaces of `environments` that `wanted` accepts and nobody uses.
pub(crate) async fn remove_namespaces<K>(
    object: &K,
    environments: &[&Environment],
    wanted: impl Fn(&NamespaceRecord) -> bool,
    user: impl Fn(&NamespaceRecord) -> Option<String>,
    context: &Context,
) -> Result<Cleanup, WriteError>
where
    K: Resource<DynamicType = ()> + Sync,
{
    let (mut waiting, mut left) = (vec![], vec![]);
    for environment in environments {
        let (organization, name) = (organization_of(*environment), logical_name(*environment));
        let recorded = environment.status.iter().flat_map(|status| &status.namespaces);
        for record in recorded.filter(|record| wanted(record)) {
            let shown = format!("namespace {} on data plane {}", record.name, record.data_plane.name);
            if !tenancy::may_be_on(&record.data_plane, &organization, false) {
                left.push(format!("{shown}, which is not of this organization"));
                continue;
            }
            if let Some(user) = user(record) {
                if lifecycle::is_orphaning(object) {
                    left.push(shown);
                } else {
                    waiting.push(format!("{shown}, in which {user} still has objects,"));
                }
                continue;
            }
            let seen = seen_on(&record.data_plane, context);
            match namespaces::removal_step(record, &organization, &name, seen.as_deref()) {
                RemovalStep::Gone => {}
                RemovalStep::AwaitEnd => waiting.push(shown),
                RemovalStep::Delete { uid } => {
                    if let Some(plane) = connected(&record.data_plane, context) {
                        let writer = Writer::to_plane(&plane, None);
                        let deleted =
                            writer.delete(&Kind::Namespace.resource(), "", &record.name, uid).await?;
                        if let Deletion::Pending { version } = deleted {
                            // The next look comes soon, and would not know that it is going.
                            follow_namespaces(&plane).caught_up(version).await;
                        }
                    }
                    waiting.push(shown);
                }
                RemovalStep::Unreachable if lifecycle::is_orphaning(object) => left.push(shown),
                RemovalStep::Unreachable => match registered(&record.data_plane, context).await {
                    Registered::As(_) => waiting.push(format!("{shown}, which does not answer,")),
                    Registered::Unknown(why) => waiting.push(format!("{shown} ({why})")),
                    Registered::Not => left.push(shown),
                },
            }
        }
    }
    if !waiting.is_empty() {
        return Ok(Cleanup::Waiting(format!("waiting for {} to be deleted", waiting.join(", "))));
    }
    if !left.is_empty() {
        let note = format!("left behind: {}", left.join(", "));
        events::publish(object, EventType::Warning, "Finalize", reasons::LEFT_BEHIND, note, context);
    }
    Ok(Cleanup::Done)
}
