//! `DeploymentTrack`: a line of versions of a component.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::unset::none_if_default;

/// A line of versions of a component, usually a branch. Builds, artifacts and deployments belong to one.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "openchoreo.dev",
    version = "v1alpha1",
    kind = "DeploymentTrack",
    doc = "A line of versions of a component, usually a branch. Builds, artifacts and deployments belong to one.",
    namespaced,
    status = "DeploymentTrackStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "deptrack",
    shortname = "deptracks",
    printcolumn(name = "Project", type_ = "string", json_path = r".metadata.labels.openchoreo\.dev/project"),
    printcolumn(
        name = "Component",
        type_ = "string",
        json_path = r".metadata.labels.openchoreo\.dev/component"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentTrackSpec {
    /// Deploy new builds by themselves. Kept for compatibility; not acted on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_deploy: Option<bool>,
    /// How the track's builds are made. Kept for compatibility; Kantor does not build.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_template_spec: Option<BuildTemplate>,
}

/// How builds of a track are made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuildTemplate {
    /// Branch of the source repository.
    pub branch: String,
    /// Path of the component in the repository.
    pub path: String,
    /// With what it is built.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_configuration: Option<BuildConfiguration>,
}

/// With what a component is built: Docker or a buildpack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!(has(self.docker) && has(self.buildpack))", "set docker or buildpack, not both"))]
pub struct BuildConfiguration {
    /// Build with a Dockerfile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub docker: Option<DockerBuild>,
    /// Build with a buildpack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buildpack: Option<BuildpackBuild>,
}

/// A build with a Dockerfile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DockerBuild {
    /// Folder that is sent to the builder.
    pub context: String,
    /// Path of the Dockerfile.
    pub dockerfile_path: String,
}

/// A build with a buildpack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuildpackBuild {
    /// Name of the buildpack.
    pub name: String,
    /// Version of the buildpack.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub version: Option<String>,
}

/// What Kantor knows of a deployment track.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentTrackStatus {
    /// Generation of the object that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// State of the track: `Ready`, `Available`, and `Finalizing` while it is being deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}
