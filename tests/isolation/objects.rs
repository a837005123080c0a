//! Who takes part, and the objects that they want.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kantor_api::{
    Deployment,
    labels::{self, plane as plane_labels},
};
use kantor_core::tenancy::Tenant;
use kube::{
    ResourceExt,
    api::{DynamicObject, TypeMeta},
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::plane::Plane;

/// The group that a plane does not serve at times.
pub const WIDGETS: &str = "example.com";

/// Two organizations whose namespaces have the same generated names, and the word that stands in the names of their objects.
pub const ORGANIZATIONS: [(&str, &str, &str); 2] = [("acme", "one-two", "red"), ("acme-one", "two", "blue")];

/// An organization with its only project.
pub fn tenant<'a>(organization: &'a str, environment: &'a str) -> Tenant<'a> {
    let project = if organization == ORGANIZATIONS[0].0 { ORGANIZATIONS[0].1 } else { ORGANIZATIONS[1].1 };
    Tenant { organization, project, environment }
}

/// Notes a message to one organization that names an object of the other one.
pub fn tells_of_others(organization: &str, message: &str, plane: &mut Plane) {
    let other = ORGANIZATIONS.iter().find(|(name, ..)| *name != organization);
    if let Some((.., word)) = other.filter(|(.., word)| message.contains(word)) {
        plane.violations.push(format!("{organization} is told of {word}: {message}"));
    }
}

pub fn some_time() -> Time {
    Time(jiff::Timestamp::UNIX_EPOCH)
}

pub fn dynamic(object: &impl Serialize) -> DynamicObject {
    let value = serde_json::to_value(object).unwrap();
    serde_json::from_value(value).unwrap()
}

pub fn object(api_version: &str, kind: &str, metadata: ObjectMeta, data: Value) -> DynamicObject {
    let types = TypeMeta { api_version: api_version.to_owned(), kind: kind.to_owned() };
    DynamicObject { types: Some(types), metadata, data }
}

fn shared_labels(tenant: &Tenant<'_>) -> Vec<(String, String)> {
    [
        (plane_labels::ORGANIZATION_NAME, tenant.organization),
        (plane_labels::PROJECT_NAME, tenant.project),
        (plane_labels::ENVIRONMENT_NAME, tenant.environment),
        (plane_labels::MANAGED_BY, plane_labels::MANAGED_BY_DEPLOYMENT_CONTROLLER),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .to_vec()
}

/// The namespace of Deployments, and its isolation.
pub fn shared(tenant: &Tenant<'_>, namespace: &str) -> [DynamicObject; 2] {
    let labels = Some(shared_labels(tenant).into_iter().collect());
    let metadata = |name: &str, within: Option<&str>| ObjectMeta {
        name: Some(name.to_owned()),
        namespace: within.map(ToOwned::to_owned),
        labels: labels.clone(),
        ..ObjectMeta::default()
    };
    [
        object("v1", "Namespace", metadata(namespace, None), json!({})),
        object(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            metadata("default-policy", Some(namespace)),
            json!({}),
        ),
    ]
}

/// The objects of a Deployment.
pub fn own(tenant: &Tenant<'_>, namespace: &str, deployment: &Deployment) -> Vec<DynamicObject> {
    let mut labels = shared_labels(tenant);
    labels.push((labels::OWNER_UID.to_owned(), deployment.uid().unwrap_or_default()));
    let metadata = ObjectMeta {
        name: Some(deployment.name_any()),
        namespace: Some(namespace.to_owned()),
        labels: Some(labels.into_iter().collect()),
        ..ObjectMeta::default()
    };
    vec![
        object("v1", "ConfigMap", metadata.clone(), json!({"data": {"a": "b"}})),
        object("example.com/v1", "Widget", metadata, json!({"spec": {}})),
    ]
}
