//! `HostnameClaim`: who holds a host name.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{bounds, rules};

/// Who holds a host name. Kantor makes claims for the host names of Endpoints, and of routes that Releases bring; that two
/// objects cannot have one name is what makes a claim exclusive.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "openchoreo.dev",
    version = "v1alpha1",
    kind = "HostnameClaim",
    doc = "Who holds a host name. Kantor makes claims for the host names of Endpoints, and of routes that Releases bring; that two objects cannot have one name is what makes a claim exclusive.",
    status = "HostnameClaimStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "hnc",
    printcolumn(name = "Hostname", type_ = "string", json_path = ".spec.hostname"),
    printcolumn(name = "Path", type_ = "string", json_path = ".spec.pathPrefix"),
    printcolumn(name = "Organization", type_ = "string", json_path = ".spec.organization"),
    printcolumn(name = "Holder", type_ = "string", json_path = ".spec.holder.name")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.clusterUID) == has(oldSelf.clusterUID)").message("clusterUID cannot be changed"),
    validation = Rule::new("has(self.pathPrefix) == has(oldSelf.pathPrefix)").message("pathPrefix cannot be changed"),
)]
pub struct HostnameClaimSpec {
    /// The host name, in lower case, without a dot at its end; internationalised names in their ASCII form.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = rules::hostname())]
    #[x_kube(validation = rules::normal_hostname())]
    #[x_kube(validation = Rule::new("self == oldSelf").message("hostname cannot be changed; make a new claim"))]
    pub hostname: String,
    /// On hosts that data planes provide for everybody: the part of the host that is claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    #[x_kube(validation = rules::path())]
    #[x_kube(validation = Rule::new("self == oldSelf").message("pathPrefix cannot be changed; make a new claim"))]
    pub path_prefix: Option<String>,
    /// On hosts that data planes provide for everybody: the cluster that the claim is about.
    #[serde(rename = "clusterUID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("clusterUID cannot be changed; make a new claim"))]
    pub cluster_uid: Option<String>,
    /// The organization that holds the name.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("a name changes its organization only by deleting the claim"))]
    pub organization: String,
    /// The Endpoint or Release, of the organization, that uses the name.
    pub holder: ClaimHolder,
}

/// An Endpoint or a Release that uses a host name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimHolder {
    /// Its namespace.
    #[schemars(length(min = 1, max = bounds::NAME))]
    pub namespace: String,
    /// Its name.
    #[schemars(length(min = 1, max = bounds::NAME))]
    pub name: String,
    /// Its UID: another one of the same name is not the holder.
    #[schemars(length(min = 1, max = bounds::NAME))]
    pub uid: String,
}

/// What Kantor knows of a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostnameClaimStatus {
    /// Generation of the object that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// State of the claim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Endpoints of the organization that wait for the name, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Waiter>,
}

/// An Endpoint that waits for a host name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Waiter {
    /// Namespace of the Endpoint.
    pub namespace: String,
    /// Name of the Endpoint.
    pub name: String,
    /// UID of the Endpoint.
    pub uid: String,
}
