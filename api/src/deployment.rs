//! `Deployment`: an artifact in an environment.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    application::Application,
    bounds,
    common::{InventoryItem, PlaneRecord},
    deployable_artifact::{Dependencies, TemplateMetadata},
    endpoint::NetworkVisibilities,
    rules,
    unset::none_if_default,
};

/// An artifact in an environment: Kantor keeps it running on the environment's data plane.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "openchoreo.dev",
    version = "v1alpha1",
    kind = "Deployment",
    doc = "An artifact in an environment: Kantor keeps it running on the environment's data plane.",
    namespaced,
    status = "DeploymentStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(name = "Artifact", type_ = "string", json_path = ".spec.deploymentArtifactRef"),
    printcolumn(
        name = "Environment",
        type_ = "string",
        json_path = r".metadata.labels.openchoreo\.dev/environment"
    ),
    printcolumn(name = "Data Plane", type_ = "string", json_path = ".status.dataPlane.name"),
    printcolumn(name = "Image", type_ = "string", json_path = ".status.image", priority = 1)
)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentSpec {
    /// Name of the DeployableArtifact, of the same deployment track, that is deployed.
    #[schemars(length(min = 1, max = bounds::NAME))]
    pub deployment_artifact_ref: String,
    /// How many old versions the data plane keeps for a rollback; 10 if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub revision_history_limit: Option<i32>,
    /// What is configured differently from the artifact, in this environment only.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub configuration_overrides: Option<ConfigurationOverrides>,
}

/// What a Deployment configures differently from its artifact.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigurationOverrides {
    /// Changes of endpoint templates, matched by their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub endpoint_templates: Vec<EndpointTemplateOverride>,
    /// Kept for compatibility; empty.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub dependencies: Option<Dependencies>,
    /// Changes of the workload's configuration: each field that is set goes before the artifact's, lists of
    /// named entries entry by entry.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub application: Option<Application>,
}

/// Changes of one endpoint template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointTemplateOverride {
    /// Which template: its name.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub metadata: Option<TemplateMetadata>,
    /// What changes.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub spec: Option<EndpointOverride>,
}

/// What changes of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointOverride {
    /// Path of the application's API.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    #[x_kube(validation = rules::path())]
    pub base_path: Option<String>,
    /// Who may reach it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_visibilities: Option<NetworkVisibilities>,
}

/// What Kantor knows of a deployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentStatus {
    /// Generation of the object that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The artifact that this status is about, as it was then: an edit of the artifact has arrived when its generation is here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_artifact: Option<ObservedArtifact>,
    /// State of the deployment: `Ready` and `ArtifactResolved`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Image that runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Data plane that the workload is on, recorded before anything was written there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_plane: Option<PlaneRecord>,
    /// Namespace of the workload on the data plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Data planes that the workload was on before and that still have to be cleaned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cleaning: Vec<PlaneRecord>,
    /// Since when it moves from the data planes of `cleaning` to `dataPlane`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moving_since: Option<Time>,
    /// The deployment's Endpoints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<EndpointSummary>,
    /// Objects on the data plane.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inventory: Vec<InventoryItem>,
}

/// A DeployableArtifact as it was when it was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedArtifact {
    /// Name of the DeployableArtifact.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Its `metadata.generation`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
}

/// An Endpoint of a deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointSummary {
    /// Name of the Endpoint.
    pub name: String,
    /// Where it is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Status of its condition `Ready`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
}
