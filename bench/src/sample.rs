//! The objects that are measured with: one organization and project, an environment per plane, and components that each
//! have a track, an artifact with a public endpoint, and a Deployment.

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};

pub(crate) const ORGANIZATION: &str = "acme";
const PROJECT: &str = "shop";
const GROUP: &str = "openchoreo.dev/v1alpha1";

/// Name of the plane with this number, of its DataPlane and of its Secret.
pub(crate) fn plane(number: usize) -> String {
    format!("plane-{}", number + 1)
}

/// Name of the environment on the plane with this number.
pub(crate) fn environment(number: usize) -> String {
    format!("stage-{}", number + 1)
}

/// Name of the component with this number, and of its Deployment.
pub(crate) fn component(number: usize) -> String {
    format!("app-{number:04}")
}

pub(crate) fn organization() -> DynamicObject {
    object(json!({"apiVersion": GROUP, "kind": "Organization", "metadata": {
        "name": ORGANIZATION, "labels": {"openchoreo.dev/name": ORGANIZATION}}, "spec": {}}))
}

/// A kubeconfig for Kantor.
pub(crate) fn secret(name: &str, kubeconfig: &str) -> DynamicObject {
    object(
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": ORGANIZATION},
        "stringData": {"kubeconfig": kubeconfig}}),
    )
}

/// A DataPlane whose Secret has the name `secret`.
pub(crate) fn data_plane(name: &str, secret: &str) -> DynamicObject {
    let gateway = json!({"publicVirtualHost": format!("{name}.example.com"),
        "organizationVirtualHost": format!("{name}.internal")});
    ours(
        "DataPlane",
        name,
        &[],
        json!({"kubernetesCluster": {"secretRef": {"name": secret}}, "gateway": gateway}),
    )
}

/// Environments, pipeline and project.
pub(crate) fn frame(planes: usize) -> Vec<DynamicObject> {
    let stage = |number: usize| {
        let spec = json!({"dataPlaneRef": plane(number), "isProduction": false,
            "gateway": {"dnsPrefix": environment(number)}});
        ours("Environment", &environment(number), &[], spec)
    };
    let mut objects: Vec<DynamicObject> = (0..planes).map(stage).collect();
    let paths = json!([{"sourceEnvironmentRef": environment(0), "targetEnvironmentRefs": []}]);
    objects.push(ours("DeploymentPipeline", "default", &[], json!({"promotionPaths": paths})));
    objects.push(ours("Project", PROJECT, &[], json!({"deploymentPipelineRef": "default"})));
    objects
}

/// Component, track and artifact with this number.
pub(crate) fn parts(number: usize) -> [DynamicObject; 3] {
    let name = component(number);
    let owner = json!({"owner": {"projectName": PROJECT}, "type": "Service"});
    let template = json!({"metadata": {"name": "api"}, "spec": {
        "type": "HTTP",
        "backendRef": {"type": "componentRef", "basePath": "/", "componentRef": {"port": 8080}},
        "networkVisibilities": {"public": {"enable": true}},
    }});
    let configuration = json!({
        "endpointTemplates": [template],
        "application": {
            "args": ["-listen=:8080"],
            "env": [{"key": "LOG_LEVEL", "value": "info"}],
            "resourceLimits": {"cpu": "100m", "memory": "64Mi"},
            "probes": {"readinessProbe": {"httpGet": {"path": "/health", "port": 8080}}},
        },
    });
    let image = json!({"fromImageRef": {"tag": "registry.example.com/app:1.0"}});
    [
        ours("Component", &name, &[("project", PROJECT)], owner),
        ours("DeploymentTrack", &format!("{name}-main"), &track(&name, "main"), json!({})),
        ours(
            "DeployableArtifact",
            &name,
            &belonging(&name),
            json!({"targetArtifact": image, "configuration": configuration}),
        ),
    ]
}

/// The Deployment with this number, on one of `planes`.
pub(crate) fn deployment(number: usize, planes: usize) -> DynamicObject {
    let (name, environment) = (component(number), environment(number % planes.max(1)));
    let mut labels = belonging(&name).to_vec();
    labels.push(("environment", &environment));
    ours("Deployment", &name, &labels, json!({"deploymentArtifactRef": name}))
}

/// A Release of these objects on the plane with this number.
pub(crate) fn release(name: &str, component: &str, plane: usize, objects: &[Value]) -> DynamicObject {
    let environment = environment(plane);
    let resources: Vec<Value> =
        objects.iter().map(|object| json!({"id": object["metadata"]["name"], "object": object})).collect();
    let labels = [("project", PROJECT), ("component", component), ("environment", environment.as_str())];
    let owner = json!({"projectName": PROJECT, "componentName": component});
    ours(
        "Release",
        name,
        &labels,
        json!({"owner": owner, "environmentName": environment, "resources": resources}),
    )
}

fn track<'a>(component: &'a str, name: &'a str) -> [(&'a str, &'a str); 3] {
    [("project", PROJECT), ("component", component), ("name", name)]
}

fn belonging(component: &str) -> [(&str, &str); 3] {
    [("project", PROJECT), ("component", component), ("deployment-track", "main")]
}

/// An object of the organization. The label `name` is its name unless the labels say otherwise.
fn ours(kind: &str, name: &str, labels: &[(&str, &str)], spec: Value) -> DynamicObject {
    let mut value = json!({"apiVersion": GROUP, "kind": kind, "metadata": {
        "name": name, "namespace": ORGANIZATION,
        "labels": {"openchoreo.dev/organization": ORGANIZATION, "openchoreo.dev/name": name}}});
    for (key, label) in labels {
        value["metadata"]["labels"][format!("openchoreo.dev/{key}")] = json!(label);
    }
    value["spec"] = spec;
    object(value)
}

pub(crate) fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).expect("it has metadata")
}

/// The resource of `apps/v1/Deployment` or `v1/Service`; plurals as Kubernetes makes them by rule.
pub(crate) fn resource(kind: &str) -> ApiResource {
    let (version, kind) = kind.rsplit_once('/').unwrap_or(("v1", kind));
    let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// The resource of a kind of Kantor.
pub(crate) fn our_resource(kind: &str) -> ApiResource {
    resource(&format!("{GROUP}/{kind}"))
}

/// The resource of an object.
pub(crate) fn resource_of(object: &DynamicObject) -> ApiResource {
    let types = object.types.clone().unwrap_or_default();
    resource(&format!("{}/{}", types.api_version, types.kind))
}

/// The API of an object's kind, where the object is.
pub(crate) fn api_of(client: &Client, object: &DynamicObject) -> Api<DynamicObject> {
    match object.metadata.namespace.as_deref() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource_of(object)),
        None => Api::all_with(client.clone(), &resource_of(object)),
    }
}

/// The API of a kind of Kantor's in the organization.
pub(crate) fn our_api(client: &Client, kind: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), ORGANIZATION, &our_resource(kind))
}

/// The API of a kind in all namespaces.
pub(crate) fn all(client: &Client, kind: &str) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &resource(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_group_version_and_name() {
        let plural = |kind: &str| {
            let found = resource(kind);
            (found.group, found.version, found.plural)
        };
        assert_eq!(plural("v1/Service"), (String::new(), "v1".into(), "services".into()));
        let route = plural("gateway.networking.k8s.io/v1/HTTPRoute");
        assert_eq!(route, ("gateway.networking.k8s.io".into(), "v1".into(), "httproutes".into()));
        assert_eq!(resource_of(&deployment(0, 2)).group, "openchoreo.dev");
    }

    #[test]
    fn deployments_are_spread_over_the_environments() {
        let environment =
            |number| deployment(number, 2).metadata.labels.unwrap()["openchoreo.dev/environment"].clone();
        assert_eq!([0, 1, 2].map(environment), ["stage-1", "stage-2", "stage-1"]);
    }
}
