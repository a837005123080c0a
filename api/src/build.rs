//! `Build`: the making of an image. Kantor does not build; it reads the resulting image.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{bounds, unset::none_if_default};

/// The making of a container image, done by a builder outside Kantor. Artifacts refer to the image it results in.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "openchoreo.dev",
    version = "v1alpha1",
    kind = "Build",
    doc = "The making of a container image, done by a builder outside Kantor. Artifacts refer to the image it results in.",
    namespaced,
    status = "BuildStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(name = "Image", type_ = "string", json_path = ".status.imageStatus.image")
)]
#[serde(rename_all = "camelCase")]
pub struct BuildSpec {
    /// What is built.
    pub owner: ComponentOwner,
    /// Where the sources are.
    pub repository: BuildRepository,
    /// How it is built.
    pub template_ref: BuildTemplateRef,
}

/// A component, by its project and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentOwner {
    /// Name of the project.
    #[schemars(length(min = 1, max = bounds::NAME))]
    pub project_name: String,
    /// Name of the component.
    #[schemars(length(min = 1, max = bounds::NAME))]
    pub component_name: String,
}

/// The sources of a build.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuildRepository {
    /// Address of the repository.
    #[schemars(length(max = bounds::ADDRESS))]
    pub url: String,
    /// What is taken of it.
    pub revision: BuildRevision,
    /// Path of the component in the repository.
    pub app_path: String,
}

/// What is taken of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuildRevision {
    /// Branch.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub branch: Option<String>,
    /// Commit.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub commit: Option<String>,
}

/// A build template and its parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuildTemplateRef {
    /// Name of the template.
    pub name: String,
    /// Engine that runs it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub engine: Option<String>,
    /// Parameters of the template.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<BuildParameter>,
}

/// A parameter of a build template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuildParameter {
    /// Name of the parameter.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// What the builder says of a build.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuildStatus {
    /// State of the build, as the builder sets it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The image that was built, once it exists.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub image_status: Option<ImageStatus>,
}

/// The image that a build resulted in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageStatus {
    /// Reference of the image. An empty text means that there is none yet.
    #[schemars(length(max = 4096))]
    pub image: String,
}
