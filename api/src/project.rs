//! `Project`: a group of components that are delivered together.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds;

/// A group of components that are delivered along one pipeline.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "openchoreo.dev",
    version = "v1alpha1",
    kind = "Project",
    doc = "A group of components that are delivered along one pipeline.",
    namespaced,
    status = "ProjectStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "proj",
    shortname = "projs",
    printcolumn(name = "Pipeline", type_ = "string", json_path = ".spec.deploymentPipelineRef")
)]
#[serde(rename_all = "camelCase")]
pub struct ProjectSpec {
    /// Name of the DeploymentPipeline, in the same namespace, that says in which order the project's components
    /// are promoted from environment to environment.
    #[schemars(length(min = 1, max = bounds::NAME))]
    pub deployment_pipeline_ref: String,
}

/// What Kantor knows of a project.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectStatus {
    /// Generation of the object that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// State of the project: `Ready`, `Created`, and `Finalizing` while it is being deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}
