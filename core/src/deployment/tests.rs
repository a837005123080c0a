//! Objects of the control plane to render from, and what is asked of the result. The names and values are those that the
//! system Kantor takes over from is tested with.

#![allow(clippy::needless_pass_by_value, reason = "JSON that is written where it is needed")]

mod configuration;
mod endpoints;
mod images;
mod pods;
mod problems;
mod properties;
mod shared;
mod sources;
mod values;
mod workloads;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

const NAMESPACE: &str = "dp-test-organiza-my-project-test-environ-04bdf416";
const WORKLOAD: &str = "my-component-my-main-track-a43a18e7";
const REDIS: &str = "my-component-my-main-track-redis-config-group-b8ef9df9";
const MYSQL: &str = "my-component-my-main-track-mysql-config-group-e7d2f2be";

/// What a Deployment is rendered from.
#[derive(Clone)]
struct World {
    deployment: Deployment,
    project: Project,
    component: Component,
    track: DeploymentTrack,
    environment: Environment,
    data_plane: DataPlane,
    artifact: DeployableArtifact,
    build: Option<Build>,
    groups: BTreeMap<String, ConfigurationGroup>,
    secrets: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
    plane: PlaneParts,
    settings: Settings,
}

/// An object with its logical name and labels of its parents.
fn object<K: DeserializeOwned>(kind: &str, name: &str, spec: Value) -> K {
    let mut labels = json!({
        "openchoreo.dev/organization": "test-organization", "openchoreo.dev/name": name,
    });
    if kind == "Deployment" {
        for (level, parent) in [
            ("project", "my-project"),
            ("component", "my-component"),
            ("deployment-track", "my-main-track"),
            ("environment", "test-environment"),
        ] {
            labels[format!("openchoreo.dev/{level}")] = parent.into();
        }
    }
    let metadata = json!({
        "name": name, "namespace": "test-organization", "uid": format!("uid of {name}"), "labels": labels,
    });
    let object = json!({
        "apiVersion": "openchoreo.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec,
    });
    serde_json::from_value(object).unwrap()
}

impl World {
    /// A component of that type, whose artifact has that configuration.
    fn new(type_: &str, configuration: Value) -> Self {
        let artifact = json!({
            "targetArtifact": {"fromImageRef": {"tag": "my-image:latest"}}, "configuration": configuration,
        });
        Self {
            deployment: object(
                "Deployment",
                "my-deployment",
                json!({"deploymentArtifactRef": "my-artifact"}),
            ),
            project: object("Project", "my-project", json!({"deploymentPipelineRef": "default"})),
            component: object(
                "Component",
                "my-component",
                json!({"owner": {"projectName": "my-project"}, "type": type_}),
            ),
            track: object("DeploymentTrack", "my-main-track", json!({})),
            environment: object("Environment", "test-environment", json!({"dataPlaneRef": "plane-1"})),
            data_plane: object("DataPlane", "plane-1", json!({"kubernetesCluster": {"inCluster": {}}})),
            artifact: object("DeployableArtifact", "my-artifact", artifact),
            build: None,
            groups: BTreeMap::new(),
            secrets: BTreeMap::new(),
            plane: PlaneParts { cilium: true, secrets_store: true, autoscaling: true },
            // These paths are those of the system that Kantor takes over from, which knows no prefixes.
            settings: Settings { vault_path_prefix: String::new(), ..Settings::default() },
        }
    }

    /// A service with that application.
    fn service(application: Value) -> Self {
        Self::new("Service", json!({"application": application}))
    }

    /// A service with endpoints of these types and ports.
    fn listening(endpoints: &[(&str, &str, i32)]) -> Self {
        let templates: Vec<Value> =
            endpoints.iter().map(|(name, type_, port)| template(name, type_, *port)).collect();
        Self::new("Service", json!({"endpointTemplates": templates}))
    }

    /// With the configuration groups of Redis and MySQL.
    fn with_databases(self) -> Self {
        self.with_group("redis-config-group", database("redis", 6379))
            .with_group("mysql-config-group", database("mysql", 3306))
    }

    fn with_group(mut self, name: &str, spec: Value) -> Self {
        self.groups.insert(name.to_owned(), object("ConfigurationGroup", name, spec));
        self
    }

    fn with_secret(mut self, name: &str, values: &[(&str, &str)]) -> Self {
        let values = values.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()));
        self.secrets.insert(name.to_owned(), values.collect());
        self
    }

    fn overridden(mut self, overrides: Value) -> Self {
        self.deployment.spec.configuration_overrides = Some(serde_json::from_value(overrides).unwrap());
        self
    }

    fn on_plane(mut self, spec: Value) -> Self {
        let mut all = json!({"kubernetesCluster": {"inCluster": {}}});
        all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        self.data_plane = object("DataPlane", "plane-1", all);
        self
    }

    fn inputs(&self) -> Inputs<'_> {
        Inputs {
            deployment: &self.deployment,
            project: &self.project,
            component: &self.component,
            track: &self.track,
            environment: &self.environment,
            data_plane: &self.data_plane,
            artifact: &self.artifact,
            build: self.build.as_ref(),
            groups: self.groups.iter().map(|(name, group)| (name.clone(), group)).collect(),
            secrets: self.secrets.clone(),
            plane: self.plane,
            settings: &self.settings,
        }
    }

    fn render(&self) -> Rendered {
        render(&self.inputs()).unwrap()
    }

    fn problems(&self) -> Vec<(&'static str, String)> {
        render(&self.inputs()).unwrap_err().into_iter().map(|p| (p.reason, p.message)).collect()
    }

    /// The only problem.
    fn problem(&self) -> (&'static str, String) {
        let [problem] = self.problems().try_into().unwrap();
        problem
    }

    /// The container, with the pod's volumes beside it.
    fn container(&self) -> (Value, Vec<Value>) {
        let rendered = self.render();
        let workload = rendered.own.iter().find(|object| item(object) == rendered.workload).unwrap();
        let spec =
            workload.data["spec"].pointer("/jobTemplate/spec").unwrap_or_else(|| &workload.data["spec"]);
        let pod = &spec["template"]["spec"];
        let [container] = pod["containers"].as_array().unwrap().as_slice() else { panic!("{pod}") };
        (container.clone(), pod["volumes"].as_array().cloned().unwrap_or_default())
    }
}

impl Rendered {
    /// The objects of a kind, by name.
    fn of_kind(&self, kind: &str) -> BTreeMap<String, Value> {
        let objects = self.own.iter().filter(|object| object.types.as_ref().unwrap().kind == kind);
        objects.map(|object| (object.name_any(), serde_json::to_value(object).unwrap())).collect()
    }

    /// The only object of a kind.
    fn one(&self, kind: &str) -> Value {
        let [(_, object)] = Vec::from_iter(self.of_kind(kind)).try_into().unwrap();
        object
    }
}

fn template(name: &str, type_: &str, port: i32) -> Value {
    let backend = json!({"type": "componentRef", "componentRef": {"port": port}});
    json!({"metadata": {"name": name}, "spec": {"type": type_, "backendRef": backend}})
}

/// Host and port, plain, and a password in the vault: for the environment and for another.
fn database(name: &str, port: i32) -> Value {
    let plain = |key: &str, test: String, production: &str| {
        json!({"key": key, "values": [
            {"environment": "production", "value": production},
            {"environment": "test-environment", "value": test},
        ]})
    };
    json!({"configurations": [
        plain("host", format!("{name}-dev.test.com"), "prod.test.com"),
        plain("port", port.to_string(), "1"),
        {"key": "password", "values": [
            {"environment": "test-environment", "vaultKey": format!("secret/test/{name}/password")},
            {"environment": "production", "vaultKey": format!("secret/production/{name}/password")},
        ]},
    ]})
}

/// A reference to a key of a configuration group.
fn from_group(group: &str, key: &str) -> Value {
    json!({"configurationGroupRef": {"name": group, "key": key}})
}

fn from_secret(secret: &str, key: &str) -> Value {
    json!({"secretRef": {"name": secret, "key": key}})
}

fn workload_labels(type_: &str) -> Value {
    json!({
        "organization-name": "test-organization",
        "project-name": "my-project",
        "environment-name": "test-environment",
        "component-name": "my-component",
        "component-type": type_,
        "deployment-track-name": "my-main-track",
        "deployment-name": "my-deployment",
        "managed-by": "choreo-deployment-controller",
        "belong-to": "user-workloads",
    })
}

/// The same on objects of the Deployment.
fn own_labels(type_: &str) -> Value {
    let mut labels = workload_labels(type_);
    labels["openchoreo.dev/owner-uid"] = "uid of my-deployment".into();
    labels
}
