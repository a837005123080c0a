//! Environments and projects: ready when what they refer to is, and rid of their namespaces on data planes before they go.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kantor_api::{
    DataPlane, Deployment, Environment, Release,
    common::PlaneRecord,
    conditions::reasons,
    environment::{EnvironmentStatus, NamespaceRecord},
    labels,
};
use kantor_core::{
    hierarchy::{Id, Kind, logical_name, organization_of},
    lifecycle::{self, Profile, Standing},
    namespaces::{self},
    release,
};
use kube::{ResourceExt, runtime::reflector::ObjectRef};
use serde_json::Value;

use super::{
    Context,
    shared::{
        connection::Reach,
        simple_kind::{self, Cleanup, Member},
        targets::data_plane_of,
    },
};
use crate::{
    apply::WriteError,
    controllers::shared::{
        connection,
        plane_namespaces::{remove_namespaces, seen_on},
        plane_records::record_of,
    },
    planes::PlaneKey,
    runtime::{run::Action, status},
};

pub(super) async fn reconcile(
    environment: Arc<Environment>,
    context: Arc<Context>,
) -> Result<Action, WriteError> {
    let at_rest = environment.metadata.deletion_timestamp.is_none() && !lifecycle::is_paused(&*environment);
    let left = if at_rest { leave_former_planes(&environment, &context).await? } else { Cleanup::Done };
    let next = simple_kind::reconcile(environment, context).await?;
    Ok(if matches!(left, Cleanup::Waiting(_)) { Action::requeue(simple_kind::WAITING) } else { next })
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
        Some(match (connection::reach(&key, context), context.book.refusal(&key)) {
            // The connection that there is cannot be made anew.
            (Reach::Connected(_), Some(refusal)) => Standing::Stalled {
                reason: connection::reason_of_refusal(&refusal),
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
            (Reach::NotYet, _) if status::is_spoken_for(self) => return None,
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
