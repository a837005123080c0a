//! `Organization`: the tenant.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A tenant. It gets a namespace of its own name, in which all its other objects live.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "openchoreo.dev",
    version = "v1alpha1",
    kind = "Organization",
    doc = "A tenant. It gets a namespace of its own name, in which all its other objects live.",
    status = "OrganizationStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "org",
    shortname = "orgs",
    validation = Rule::new("self.metadata.name.size() <= 63 && !self.metadata.name.contains('.')")
        .message("metadata.name becomes a namespace: at most 63 characters, without dots"),
    printcolumn(name = "Namespace", type_ = "string", json_path = ".status.namespace")
)]
#[serde(rename_all = "camelCase")]
pub struct OrganizationSpec {}

/// What Kantor knows of an organization.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrganizationStatus {
    /// Generation of the object that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// State of the organization: `Ready`, and `Deleting` while it is being deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The organization's namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}
