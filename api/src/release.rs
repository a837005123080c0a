//! `Release`: any objects, kept on the data plane of an environment.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    bounds,
    build::ComponentOwner,
    common::{InventoryItem, PlaneRecord},
    rules,
    unset::none_if_default,
};

/// Any Kubernetes objects, kept on the data plane of an environment exactly as they are written here.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "openchoreo.dev",
    version = "v1alpha1",
    kind = "Release",
    doc = "Any Kubernetes objects, kept on the data plane of an environment exactly as they are written here.",
    namespaced,
    status = "ReleaseStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(name = "Environment", type_ = "string", json_path = ".spec.environmentName"),
    printcolumn(name = "Data Plane", type_ = "string", json_path = ".status.dataPlane.name")
)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseSpec {
    /// Component that the objects belong to. It cannot be changed: make a new Release instead.
    #[x_kube(validation = Rule::new("self == oldSelf").message("owner cannot be changed; make a new Release"))]
    pub owner: ComponentOwner,
    /// Name of the Environment whose data plane gets the objects.
    #[schemars(length(min = 1, max = bounds::NAME))]
    pub environment_name: String,
    /// The objects, each under an id of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::RESOURCES))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["id".into()]))]
    pub resources: Vec<ReleaseResource>,
    /// How often a healthy Release is looked at again; `5m` if not set, `0s` for never, at the latest after a year.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = rules::duration())]
    pub interval: Option<String>,
    /// How often a Release is looked at again while it is not healthy; `10s` if not set, `0s` for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = rules::duration())]
    pub progressing_interval: Option<String>,
}

/// One object of a Release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseResource {
    /// Name of the object within the Release.
    #[schemars(length(min = 1, max = bounds::NAME))]
    pub id: String,
    /// The object.
    #[schemars(schema_with = "crate::schema::any_object")]
    pub object: Value,
}

/// What Kantor knows of a release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseStatus {
    /// Generation of the object that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// State of the release: `Ready`, `Applied`, `Healthy`, and `Finalizing` while it is being deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Data plane that the objects are on, recorded before anything was written there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_plane: Option<PlaneRecord>,
    /// State of each object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ResourceStatus>,
    /// Namespaces that were made for the objects, recorded before they were. They go with the last object, if nobody
    /// else put anything there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Objects that are no longer part of the Release and still have to be removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removing: Vec<RemovingObjects>,
}

/// Objects of one data plane that still have to be removed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemovingObjects {
    /// Data plane that they are on.
    pub data_plane: PlaneRecord,
    /// The objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<InventoryItem>,
    /// Namespaces that were made for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
}

/// State of one object of a Release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceStatus {
    /// Name of the object within the Release.
    #[schemars(length(min = 1))]
    pub id: String,
    /// API group; empty for the core group.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub group: Option<String>,
    /// API version.
    #[schemars(length(min = 1))]
    pub version: String,
    /// Kind.
    #[schemars(length(min = 1))]
    pub kind: String,
    /// Name.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Namespace; empty for objects without one.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub namespace: Option<String>,
    /// UID, once the object exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Nothing was ever sent for this object, since its kind may not be listed on the data plane: there is nothing to remove.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_sent: bool,
    /// Health: `Unknown`, `Progressing`, `Healthy`, `Suspended` or `Degraded`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub health_status: Option<String>,
    /// Why it is not healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Why the data plane refused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apply_error: Option<String>,
    /// The object's own `status`, left out when it is too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_value")]
    pub status: Option<Value>,
    /// When `status` or `healthStatus` last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_observed_time: Option<Time>,
}
