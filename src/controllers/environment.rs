//! Environments and projects: ready when what they refer to is, and rid of their namespaces on data planes before they go.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kantor_api::{
    DataPlane, Environment, Project,
    common::PlaneRecord,
    conditions::reasons,
    environment::{EnvironmentStatus, NamespaceRecord},
    labels,
};
use kube::{
    Resource, ResourceExt,
    runtime::{events::EventType, reflector::ObjectRef},
};
use serde_json::Value;

use super::{
    Context,
    data_plane::{self, Reach},
    member::{self, Cleanup, Member},
    remote::{follow_namespaces, namespaces_on},
    run::Action,
};
use crate::{
    apply::{Deletion, WriteError, Writer},
    core::{
        hierarchy::{Kind, logical_name, organization_of},
        lifecycle::{self, Profile, Standing},
        namespaces::{self, PlaneNamespace, RemovalStep},
        release,
    },
    planes::PlaneKey,
};

pub(super) async fn reconcile(
    environment: Arc<Environment>,
    context: Arc<Context>,
) -> Result<Action, WriteError> {
    let at_rest = environment.metadata.deletion_timestamp.is_none() && !lifecycle::is_paused(&*environment);
    let left = if at_rest { leave_former_planes(&environment, &context).await? } else { Cleanup::Done };
    let next = member::reconcile(environment, context).await?;
    Ok(if matches!(left, Cleanup::Waiting(_)) { Action::requeue(member::WAITING) } else { next })
}

/// Removes the namespaces on planes that the environment was on before, once no Deployment has anything there.
async fn leave_former_planes(environment: &Environment, context: &Context) -> Result<Cleanup, WriteError> {
    let Ok(current) = context.world.resolve(environment, Kind::DataPlane) else { return Ok(Cleanup::Done) };
    if let Some(why) = context.world.behind(Kind::Deployment) {
        return Err(WriteError::Transient(why));
    }
    let claimed = claimed(environment, context);
    let is_left = |record: &NamespaceRecord| {
        (&record.data_plane.namespace, &record.data_plane.name) != (&current.namespace, &current.name)
            && !claimed.iter().any(|claim| {
                claim.name == record.name && release::is_on(&claim.data_plane, &record.data_plane)
            })
    };
    remove_namespaces(environment, &[environment], is_left, context).await
}

/// The namespaces that Deployments of the environment use or are about to use, on this plane or a former one.
fn claimed(environment: &Environment, context: &Context) -> Vec<NamespaceRecord> {
    let stores = &context.world.stores;
    let deployments = context.world.children(environment, Kind::Deployment);
    let found = deployments
        .iter()
        .filter_map(|id| stores.deployments.get(&ObjectRef::new(&id.name).within(&id.namespace)));
    found
        .flat_map(|deployment| {
            let status = deployment.status.clone().unwrap_or_default();
            let project = deployment.labels().get(labels::PROJECT).cloned().unwrap_or_default();
            let planes = status.data_plane.into_iter().chain(status.cleaning);
            status.namespace.into_iter().flat_map(move |name| {
                let project = project.clone();
                planes.clone().map(move |data_plane| NamespaceRecord {
                    data_plane,
                    name: name.clone(),
                    project: project.clone(),
                })
            })
        })
        .collect()
}

impl Member for Environment {
    const PROFILE: &'static Profile = &lifecycle::ENVIRONMENT;

    fn standing(&self, context: &Context) -> Option<Standing> {
        let id = match context.world.resolve(self, Kind::DataPlane) {
            Ok(id) => id,
            Err(error) => return Some(Standing::unresolved(&error)),
        };
        let key = PlaneKey { namespace: id.namespace, name: id.name };
        Some(match data_plane::reach(&key, context) {
            Reach::Connected(_) => Standing::Ready {
                reason: Self::PROFILE.ready,
                message: format!("data plane {} is connected", key.name),
            },
            Reach::Unreachable(why) => Standing::Unknown {
                reason: reasons::DATA_PLANE_UNREACHABLE,
                message: format!("data plane {}: {why}", key.name),
            },
            Reach::NotYet if member::is_spoken_for(self) => return None,
            Reach::NotYet => Standing::Progressing {
                reason: reasons::DATA_PLANE_CONNECTING,
                message: format!("data plane {} is not connected yet", key.name),
            },
        })
    }

    async fn clean_up(&self, context: &Context) -> Result<Cleanup, WriteError> {
        remove_namespaces(self, &[self], |_| true, context).await
    }

    fn status(&self, context: &Context, conditions: &[Condition]) -> Value {
        let before = self.status.clone().unwrap_or_default();
        let current = context.world.resolve(self, Kind::DataPlane).ok().and_then(|id| {
            let plane =
                context.world.stores.data_planes.get(&ObjectRef::new(&id.name).within(&id.namespace))?;
            Some(record_of(&plane))
        });
        let namespaces = namespaces::record(
            &before.namespaces,
            &claimed(self, context),
            current.as_ref(),
            &organization_of(self),
            &logical_name(self),
            &|plane| seen_on(plane, context),
        );
        let status = EnvironmentStatus {
            observed_generation: self.metadata.generation,
            conditions: conditions.to_vec(),
            namespaces,
        };
        serde_json::to_value(status).unwrap_or_default()
    }
}

impl Member for Project {
    const PROFILE: &'static Profile = &lifecycle::PROJECT;

    async fn clean_up(&self, context: &Context) -> Result<Cleanup, WriteError> {
        if let Some(why) = context.world.behind(Kind::Environment) {
            return Err(WriteError::Transient(why));
        }
        let name = logical_name(self);
        let stores = &context.world.stores;
        let environments: Vec<_> = context
            .world
            .beside(self, Kind::Organization, Kind::Environment)
            .iter()
            .filter_map(|id| stores.environments.get(&ObjectRef::new(&id.name).within(&id.namespace)))
            .collect();
        let environments: Vec<&Environment> = environments.iter().map(|environment| &**environment).collect();
        remove_namespaces(self, &environments, |record| record.project == name, context).await
    }
}

/// What is recorded of a data plane.
pub(super) fn record_of(plane: &DataPlane) -> PlaneRecord {
    PlaneRecord {
        namespace: plane.namespace().unwrap_or_default(),
        name: plane.name_any(),
        cluster_uid: plane.status.as_ref().and_then(|status| status.cluster_uid.clone()),
    }
}

/// The key of a recorded data plane.
pub(super) fn key_of(plane: &PlaneRecord) -> PlaneKey {
    PlaneKey { namespace: plane.namespace.clone(), name: plane.name.clone() }
}

/// The namespaces of ours on a data plane, if they are known at the moment and it is the cluster that was recorded.
fn seen_on(plane: &PlaneRecord, context: &Context) -> Option<Vec<PlaneNamespace>> {
    let connected = context.planes.get(&key_of(plane)).ok()?;
    let same = plane.cluster_uid.as_deref().is_none_or(|uid| uid == connected.cluster_uid);
    if same { namespaces_on(&connected) } else { None }
}

/// Removes the recorded namespaces of `environments` that `wanted` accepts.
async fn remove_namespaces<K>(
    object: &K,
    environments: &[&Environment],
    wanted: impl Fn(&NamespaceRecord) -> bool,
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
            let seen = seen_on(&record.data_plane, context);
            match namespaces::removal_step(record, &organization, &name, seen.as_deref()) {
                RemovalStep::Gone => {}
                RemovalStep::AwaitEnd => waiting.push(shown),
                RemovalStep::Delete { uid } => {
                    if let Ok(plane) = context.planes.get(&key_of(&record.data_plane)) {
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
                RemovalStep::Unreachable if given_up(object, record, context) => left.push(shown),
                RemovalStep::Unreachable => waiting.push(format!("{shown}, which does not answer")),
            }
        }
    }
    if !waiting.is_empty() {
        return Ok(Cleanup::Waiting(format!("waiting for {} to be deleted", waiting.join(", "))));
    }
    if !left.is_empty() {
        let note = format!("left behind: {}", left.join(", "));
        member::publish(object, EventType::Warning, "Finalize", reasons::LEFT_BEHIND, note, context);
    }
    Ok(Cleanup::Done)
}

/// Whether nobody will ever remove the namespace through us: the user lets go, or the data plane is no longer registered.
fn given_up(object: &impl ResourceExt, record: &NamespaceRecord, context: &Context) -> bool {
    let plane = ObjectRef::new(&record.data_plane.name).within(&record.data_plane.namespace);
    lifecycle::is_orphaning(object)
        || (context.world.behind(Kind::DataPlane).is_none()
            && context.world.stores.data_planes.get(&plane).is_none())
}
