//! Environments and projects: ready when what they refer to is, and rid of their namespaces on data planes before they go.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kantor_api::{
    DataPlane, Deployment, Environment, Project, Release,
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
    place::{Registered, data_plane_of, registered},
    remote::{follow_namespaces, namespaces_on},
    run::Action,
};
use crate::{
    apply::{Deletion, WriteError, Writer},
    core::{
        hierarchy::{Id, Kind, logical_name, organization_of},
        lifecycle::{self, Profile, Standing},
        namespaces::{self, PlaneNamespace, RemovalStep},
        release, tenancy,
    },
    planes::{Plane, PlaneKey},
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

/// Removes the namespaces on planes that the environment was on before, once nobody has anything there.
async fn leave_former_planes(environment: &Environment, context: &Context) -> Result<Cleanup, WriteError> {
    let Some(current) = current_plane(environment, context) else { return Ok(Cleanup::Done) };
    let current = record_of(&current);
    // What is on a plane that is no longer registered has to wait until it is again.
    let is_left = |record: &NamespaceRecord| {
        data_plane_of(&record.data_plane, context).is_some_and(|plane| {
            let cluster_uid = record.data_plane.cluster_uid.clone().or_else(|| record_of(&plane).cluster_uid);
            namespaces::has_left(&PlaneRecord { cluster_uid, ..record.data_plane.clone() }, &current)
        })
    };
    let mut recorded = environment.status.iter().flat_map(|status| &status.namespaces);
    if !recorded.any(is_left) {
        return Ok(Cleanup::Done);
    }
    if let Some(why) = [Kind::Deployment, Kind::Release].iter().find_map(|kind| context.world.behind(*kind)) {
        return Err(WriteError::Transient(why));
    }
    let organization = environment.namespace().unwrap_or_default();
    let user = |record: &NamespaceRecord| user_of(record, &organization, context);
    remove_namespaces(environment, &[environment], is_left, user, context).await
}

/// The DataPlane that an environment refers to.
fn current_plane(environment: &Environment, context: &Context) -> Option<Arc<DataPlane>> {
    let id = context.world.resolve(environment, Kind::DataPlane).ok()?;
    context.world.stores.data_planes.get(&ObjectRef::new(&id.name).within(&id.namespace))
}

/// All data planes that an object can be on, of its own organization, or of the platform team if it `falls_back` on that. They are
/// looked at where what its status records cannot be believed.
pub(super) fn possible_planes<K: Resource>(
    object: &K,
    falls_back: bool,
    context: &Context,
) -> Vec<PlaneRecord> {
    let organization = object.namespace().unwrap_or_default();
    let all = context.world.stores.data_planes.state();
    let records = all.iter().map(|plane| record_of(plane));
    records.filter(|record| tenancy::may_be_on(record, &organization, falls_back)).collect()
}

/// Who has something in a namespace of a data plane, as they have recorded themselves: nothing of it is removed behind their
/// backs.
///
/// Of this organization: others may write into their status what they like. And whatever environment they are in now: a
/// Deployment that is moved to another one may be about to make the namespace.
fn user_of(record: &NamespaceRecord, organization: &str, context: &Context) -> Option<String> {
    let NamespaceRecord { data_plane, name, .. } = record;
    let stores = &context.world.stores;
    let claims = |found: &Deployment| {
        found.metadata.namespace.as_deref() == Some(organization)
            && found.status.as_ref().is_some_and(|status| namespaces::is_claimed_by(status, data_plane, name))
    };
    if let Some(found) = stores.deployments.find(claims) {
        return Some(format!("Deployment {}", found.name_any()));
    }
    let uses = |found: &Release| release::has_objects_in(found, organization, data_plane, name);
    stores.releases.find(uses).map(|found| format!("Release {}", found.name_any()))
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

/// What is to be recorded of the namespaces of an environment.
fn recorded_now(environment: &Environment, context: &Context) -> Vec<NamespaceRecord> {
    let before = environment.status.as_ref().map(|status| &*status.namespaces).unwrap_or_default();
    let current = current_plane(environment, context).map(|plane| record_of(&plane));
    namespaces::record(
        before,
        &claimed(environment, context),
        current.as_ref(),
        &organization_of(environment),
        &logical_name(environment),
        &|plane| seen_on(plane, context),
    )
}

/// The other environments that live and have the name of this one.
fn twins_of(environment: &Environment, context: &Context) -> Vec<Arc<Environment>> {
    let stores = &context.world.stores;
    let twins = context.world.twins(environment);
    let found = |id: &Id| stores.environments.get(&ObjectRef::new(&id.name).within(&id.namespace));
    twins.iter().filter_map(found).collect()
}

impl Member for Environment {
    const PROFILE: &'static Profile = &lifecycle::ENVIRONMENT;
    const OBSERVED: bool = true;

    fn standing(&self, context: &Context) -> Option<Standing> {
        let id = match context.world.resolve(self, Kind::DataPlane) {
            Ok(id) => id,
            Err(error) => return Some(Standing::unresolved(&error)),
        };
        let key = PlaneKey { namespace: id.namespace, name: id.name };
        Some(match (data_plane::reach(&key, context), context.book.refusal(&key)) {
            // The connection that there is cannot be made anew.
            (Reach::Connected(_), Some(refusal)) => Standing::Stalled {
                reason: data_plane::reason_of_refusal(&refusal),
                message: format!(
                    "data plane {}: {refusal}; it is connected until the next restart",
                    key.name
                ),
            },
            (Reach::Connected(_), None) => Standing::Ready {
                reason: Self::PROFILE.ready,
                message: format!("data plane {} is connected", key.name),
            },
            (Reach::Unreachable(why), _) => Standing::Unknown {
                reason: reasons::DATA_PLANE_UNREACHABLE,
                message: format!("data plane {}: {why}", key.name),
            },
            (Reach::NotYet, _) if member::is_spoken_for(self) => return None,
            (Reach::NotYet, _) => Standing::Progressing {
                reason: reasons::DATA_PLANE_CONNECTING,
                message: format!("data plane {} is not connected yet", key.name),
            },
        })
    }

    async fn clean_up(&self, context: &Context) -> Result<Cleanup, WriteError> {
        // What another one of the name has recorded is its own as well.
        let twins = twins_of(self, context);
        let is_shared = |record: &NamespaceRecord| {
            let status = twins.iter().filter_map(|twin| twin.status.as_ref());
            status.flat_map(|status| &status.namespaces).any(|other| {
                other.name == record.name && release::is_on(&other.data_plane, &record.data_plane)
            })
        };
        let organization = self.namespace().unwrap_or_default();
        let user = |record: &NamespaceRecord| user_of(record, &organization, context);
        // With those that are seen to be its own: one may have been made since the status was written.
        let status =
            EnvironmentStatus { namespaces: recorded_now(self, context), ..EnvironmentStatus::default() };
        let now = Environment { status: Some(status), ..self.clone() };
        remove_namespaces(self, &[&now], |record| !is_shared(record), user, context).await
    }

    fn status(&self, context: &Context, conditions: &[Condition]) -> Value {
        let status = EnvironmentStatus {
            observed_generation: self.metadata.generation,
            conditions: conditions.to_vec(),
            namespaces: recorded_now(self, context),
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
        if !context.world.twins(self).is_empty() {
            // The namespaces are recorded under the name that both have, and in use by the other one.
            return Ok(Cleanup::Done);
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
        remove_namespaces(self, &environments, |record| record.project == name, |_| None, context).await
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
    namespaces_on(&*connected(plane, context)?)
}

/// The recorded data plane, if it is connected and the cluster that was recorded.
fn connected(plane: &PlaneRecord, context: &Context) -> Option<Arc<Plane>> {
    let registered = data_plane_of(plane, context)?;
    let connected = context.planes.get(&data_plane::key_of(&registered)).ok()?;
    plane.cluster_uid.as_deref().is_none_or(|uid| uid == connected.cluster_uid).then_some(connected)
}

/// Removes the recorded namespaces of `environments` that `wanted` accepts and nobody uses.
async fn remove_namespaces<K>(
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
        member::publish(object, EventType::Warning, "Finalize", reasons::LEFT_BEHIND, note, context);
    }
    Ok(Cleanup::Done)
}
