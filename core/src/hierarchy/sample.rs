//! Objects for tests, as users write them, and the plainest catalog of them.

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kantor_api::{
    Build, Component, ConfigurationGroup, DataPlane, DeployableArtifact, Deployment, DeploymentPipeline,
    DeploymentTrack, Endpoint, Environment, HostnameClaim, Organization, Project, Release,
};
use kube_core::PartialObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Catalog, Described, Facts, Id, KeyRef, Kind, Need};

/// Labels of parents, from the organization down.
const LEVELS: [&str; 6] =
    ["organization", "project", "component", "deployment-track", "environment", "deployment"];

/// An object, as JSON.
#[derive(Clone, Debug)]
pub struct Sample {
    kind: Kind,
    value: Value,
}

impl Sample {
    /// An object of that kind with the least spec; `path` is `namespace/name`, or the name alone.
    pub fn new(kind: Kind, path: &str) -> Self {
        let resource = kind.resource();
        let (namespace, name) = path.split_once('/').map_or((None, path), |(ns, name)| (Some(ns), name));
        let spec = match kind {
            Kind::DataPlane => json!({"kubernetesCluster": {"inCluster": {}}}),
            Kind::DeploymentPipeline => json!({"promotionPaths": []}),
            Kind::Project => json!({"deploymentPipelineRef": "default"}),
            Kind::Component => json!({"owner": {"projectName": ""}, "type": "Service"}),
            Kind::Build => json!({
                "owner": {"projectName": "", "componentName": ""},
                "repository": {"url": "https://example.com", "revision": {}, "appPath": "/"},
                "templateRef": {"name": "docker"},
            }),
            Kind::ConfigurationGroup => json!({"configurations": []}),
            Kind::DeployableArtifact => json!({"targetArtifact": {}}),
            Kind::Deployment => json!({"deploymentArtifactRef": "1"}),
            Kind::Endpoint => json!({"type": "HTTP", "backendRef": {"type": "componentRef"}}),
            Kind::Release => json!({
                "owner": {"projectName": "shop", "componentName": "greeter"},
                "environmentName": "dev", "resources": [],
            }),
            _ => json!({}),
        };
        let metadata = json!({
            "name": name, "namespace": namespace, "uid": format!("uid of {kind} {path}"),
            "generation": 1, "resourceVersion": "1", "labels": {}, "annotations": {},
        });
        let value = json!({
            "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec,
        });
        Self { kind, value }
    }

    /// Labels that name its parents, from the organization down.
    pub fn below(self, parents: &[&str]) -> Self {
        LEVELS.iter().zip(parents).fold(self, |sample, (level, name)| sample.label(level, name))
    }

    /// The label with its logical name.
    pub fn named(self, name: &str) -> Self {
        self.label("name", name)
    }

    /// A label `openchoreo.dev/<key>`.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.value["metadata"]["labels"][format!("openchoreo.dev/{key}")] = value.into();
        self
    }

    /// Without the label `openchoreo.dev/<key>`.
    pub fn without(mut self, key: &str) -> Self {
        let labels = self.value["metadata"]["labels"].as_object_mut().unwrap();
        labels.remove(&format!("openchoreo.dev/{key}")).unwrap();
        self
    }

    /// A field, by its path with dots. What is missing on the way is made.
    pub fn set(mut self, path: &str, value: impl Into<Value>) -> Self {
        let field = path.split('.').fold(&mut self.value, |value, key| &mut value[key]);
        *field = value.into();
        self
    }

    /// It is being deleted.
    pub fn deleted(self) -> Self {
        self.set("metadata.deletionTimestamp", "2030-01-01T00:00:00Z")
    }

    pub fn id(&self) -> Id {
        self.facts().id
    }

    pub fn facts(&self) -> Facts {
        match self.kind {
            Kind::Organization => self.read::<Organization>(),
            Kind::DataPlane => self.read::<DataPlane>(),
            Kind::Environment => self.read::<Environment>(),
            Kind::DeploymentPipeline => self.read::<DeploymentPipeline>(),
            Kind::Project => self.read::<Project>(),
            Kind::Component => self.read::<Component>(),
            Kind::DeploymentTrack => self.read::<DeploymentTrack>(),
            Kind::Build => self.read::<Build>(),
            Kind::ConfigurationGroup => self.read::<ConfigurationGroup>(),
            Kind::DeployableArtifact => self.read::<DeployableArtifact>(),
            Kind::Deployment => self.read::<Deployment>(),
            Kind::Endpoint => self.read::<Endpoint>(),
            Kind::Release => self.read::<Release>(),
            Kind::Namespace => self.read::<PartialObjectMeta<Namespace>>(),
            Kind::HostnameClaim => self.read::<HostnameClaim>(),
            Kind::Secret => self.read::<PartialObjectMeta<Secret>>(),
        }
    }

    fn read<K: Described + DeserializeOwned>(&self) -> Facts {
        serde_json::from_value::<K>(self.value.clone())
            .unwrap_or_else(|e| panic!("{e}: {}", self.value))
            .facts()
    }
}

/// A catalog that looks at each object in turn.
#[derive(Default)]
pub struct Shelf(pub Vec<Facts>);

impl<'a> FromIterator<&'a Sample> for Shelf {
    fn from_iter<I: IntoIterator<Item = &'a Sample>>(samples: I) -> Self {
        Self(samples.into_iter().map(Sample::facts).collect())
    }
}

impl Shelf {
    fn ids(&self, wanted: impl Fn(&Facts) -> bool) -> Vec<Id> {
        let mut ids: Vec<Id> = self.0.iter().filter(|facts| wanted(facts)).map(|f| f.id.clone()).collect();
        ids.sort();
        ids
    }
}

impl Catalog for Shelf {
    fn found(&self, key: KeyRef<'_>) -> Vec<Id> {
        self.ids(|facts| facts.keys().iter().any(|own| own.borrowed() == key))
    }

    fn referring(&self, key: KeyRef<'_>) -> Vec<Id> {
        self.ids(|facts| facts.needs.iter().flat_map(Need::keys).any(|k| k == key))
    }

    fn facts(&self, id: &Id) -> Option<&Facts> {
        self.0.iter().find(|facts| facts.id == *id)
    }
}
