//! Where the objects of a Deployment are, what they are called, and whose they are.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kantor_api::{
    Component, Deployment, DeploymentTrack, Environment, Project,
    labels::{self, plane},
    names::{self, NameKind},
};
use kube_core::{DynamicObject, ResourceExt, TypeMeta};
use serde_json::Value;

use super::Inputs;
use crate::{
    hierarchy::{logical_name, organization_of},
    release::label_value,
};

/// The namespace of a project in an environment, on the environment's data plane.
pub fn namespace_of(project: &Project, environment: &Environment) -> String {
    let parts = ["dp", &organization_of(project), &logical_name(project), &logical_name(environment)];
    names::generate(NameKind::Namespace, &parts)
}

/// Labels of what all Deployments of a project share in an environment.
fn shared_labels(project: &Project, environment: &Environment) -> BTreeMap<String, String> {
    let shared = [
        (plane::ORGANIZATION_NAME, organization_of(project)),
        (plane::PROJECT_NAME, logical_name(project)),
        (plane::ENVIRONMENT_NAME, logical_name(environment)),
        (plane::MANAGED_BY, plane::MANAGED_BY_DEPLOYMENT_CONTROLLER.to_owned()),
        (plane::BELONG_TO, plane::BELONG_TO_USER_WORKLOADS.to_owned()),
    ];
    shared.map(valid_label).into()
}

/// Labels of a workload, and of what belongs to it.
pub(crate) fn workload_labels(
    project: &Project,
    component: &Component,
    track: &DeploymentTrack,
    environment: &Environment,
    deployment: &Deployment,
) -> BTreeMap<String, String> {
    let mut labels = shared_labels(project, environment);
    let further = [
        (plane::COMPONENT_NAME, logical_name(component)),
        (plane::COMPONENT_TYPE, component.spec.type_.clone()),
        (plane::DEPLOYMENT_TRACK_NAME, logical_name(track)),
        (plane::DEPLOYMENT_NAME, logical_name(deployment)),
    ];
    labels.extend(further.map(valid_label));
    labels
}

/// Name of the Service of a workload.
pub(crate) fn service_of(component: &Component, track: &DeploymentTrack) -> String {
    names::generate(NameKind::Service, &[&component.name_any(), &track.name_any()])
}

fn valid_label((key, value): (&str, String)) -> (String, String) {
    (key.to_owned(), label_value(&value))
}

/// Where the objects of a Deployment are, what they are called, and whose they are.
pub(super) struct Place {
    /// Their namespace.
    pub namespace: String,
    /// Logical name of the environment.
    pub environment: String,
    /// Labels of what all Deployments in the namespace share.
    pub shared_labels: BTreeMap<String, String>,
    /// Labels of the workload and of its pods. Selectors are made of them, which cannot be changed, and they are those
    /// of the workloads that are there already: nothing may be added.
    pub workload_labels: BTreeMap<String, String>,
    owner: String,
    component: String,
    track: String,
}

impl Place {
    pub fn of(inputs: &Inputs<'_>) -> Self {
        let Inputs { project, component, track, environment, deployment, .. } = inputs;
        Self {
            namespace: namespace_of(project, environment),
            environment: logical_name(*environment),
            shared_labels: shared_labels(project, environment),
            workload_labels: workload_labels(project, component, track, environment, deployment),
            owner: inputs.deployment.uid().unwrap_or_default(),
            component: inputs.component.name_any(),
            track: inputs.track.name_any(),
        }
    }

    /// Name of the workload, or of what goes with it.
    pub fn name(&self, kind: NameKind) -> String {
        names::generate(kind, &[&self.component, &self.track])
    }

    /// Name of an object that is one of several, told apart by `part`.
    pub fn name_of(&self, part: &str) -> String {
        names::generate(NameKind::Object, &[&self.component, &self.track, part])
    }

    /// An object of the Deployment. Whose it is stands on the object itself and not on its pods: a label more in the
    /// template would restart all of them when a workload is taken over.
    pub fn own(&self, api_version: &str, kind: &str, name: String, body: Value) -> DynamicObject {
        let mut labels = self.workload_labels.clone();
        labels.insert(labels::OWNER_UID.to_owned(), self.owner.clone());
        let namespace = Some(self.namespace.clone());
        object(
            api_version,
            kind,
            ObjectMeta { name: Some(name), namespace, labels: Some(labels), ..Default::default() },
            body,
        )
    }

    /// An object that the Deployments in the namespace share, or the namespace itself.
    pub fn shared(&self, api_version: &str, kind: &str, name: Option<&str>, body: Value) -> DynamicObject {
        let namespace = name.map(|_| self.namespace.clone());
        let name = Some(name.map_or_else(|| self.namespace.clone(), ToOwned::to_owned));
        let labels = Some(self.shared_labels.clone());
        object(api_version, kind, ObjectMeta { name, namespace, labels, ..Default::default() }, body)
    }
}

pub(crate) fn object(api_version: &str, kind: &str, metadata: ObjectMeta, data: Value) -> DynamicObject {
    let types = TypeMeta { api_version: api_version.to_owned(), kind: kind.to_owned() };
    DynamicObject { types: Some(types), metadata, data }
}
