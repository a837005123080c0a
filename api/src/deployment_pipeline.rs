//! `DeploymentPipeline`: in which order environments follow each other.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds;

/// The order in which a project's components are promoted from environment to environment.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "openchoreo.dev",
    version = "v1alpha1",
    kind = "DeploymentPipeline",
    doc = "The order in which a project's components are promoted from environment to environment.",
    namespaced,
    status = "DeploymentPipelineStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "deppipe",
    shortname = "deppipes"
)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentPipelineSpec {
    /// From which environment a component may go on to which others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub promotion_paths: Vec<PromotionPath>,
}

/// One step of a pipeline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromotionPath {
    /// Environment that a component comes from.
    #[schemars(length(min = 1, max = bounds::NAME))]
    pub source_environment_ref: String,
    /// Environments that it may go on to.
    #[schemars(length(max = 32))]
    pub target_environment_refs: Vec<TargetEnvironment>,
}

/// An environment that a component may be promoted to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetEnvironment {
    /// Name of the environment.
    #[schemars(length(min = 1, max = bounds::NAME))]
    pub name: String,
    /// Somebody has to approve the promotion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requires_approval: Option<bool>,
    /// The approval has to be given by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_manual_approval_required: Option<bool>,
}

/// What Kantor knows of a pipeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentPipelineStatus {
    /// Generation of the object that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// State of the pipeline: `Ready` and `Available`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}
