//! `DeployableArtifact`: an image and how it is configured, ready to be deployed anywhere.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{application::Application, bounds, endpoint::EndpointSpec, rules, unset::none_if_default};

/// An image and how it is configured, ready to be deployed to any environment.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "openchoreo.dev",
    version = "v1alpha1",
    kind = "DeployableArtifact",
    doc = "An image and how it is configured, ready to be deployed to any environment.",
    namespaced,
    status = "DeployableArtifactStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(name = "Build", type_ = "string", json_path = ".spec.targetArtifact.fromBuildRef.name"),
    printcolumn(name = "Tag", type_ = "string", json_path = ".spec.targetArtifact.fromImageRef.tag")
)]
#[serde(rename_all = "camelCase")]
pub struct DeployableArtifactSpec {
    /// The image.
    pub target_artifact: TargetArtifact,
    /// How it is configured.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub configuration: Option<Configuration>,
}

/// An image: what a Build resulted in, or a tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "(has(self.fromBuildRef) && ((has(self.fromBuildRef.name) && self.fromBuildRef.name != '') || (has(self.fromBuildRef.gitRevision) && self.fromBuildRef.gitRevision != ''))) != (has(self.fromImageRef) && has(self.fromImageRef.tag) && self.fromImageRef.tag != '')"
    ).message("set exactly one of fromBuildRef.name and fromImageRef.tag"),
    validation = Rule::new(
        "!has(self.fromBuildRef) || !has(self.fromBuildRef.gitRevision) || self.fromBuildRef.gitRevision == '' || (has(self.fromBuildRef.name) && self.fromBuildRef.name != '')"
    ).message("fromBuildRef.gitRevision alone is not supported; set fromBuildRef.name"),
)]
pub struct TargetArtifact {
    /// The image that a Build resulted in.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub from_build_ref: Option<FromBuildRef>,
    /// An image by its tag.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub from_image_ref: Option<FromImageRef>,
}

/// A Build.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FromBuildRef {
    /// Name of the Build.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = bounds::NAME))]
    pub name: Option<String>,
    /// Revision of the sources; for people.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = 1024))]
    pub git_revision: Option<String>,
}

/// An image by its tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct FromImageRef {
    /// A whole image reference, or only its tag. The repository of a tag is that of the Component's annotation
    /// `openchoreo.dev/image-repository`, else `<registry prefix>/<project>-<component>`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = 1024))]
    #[x_kube(validation = rules::image())]
    pub tag: Option<String>,
    /// Kept for compatibility; not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_version_validation: Option<bool>,
}

/// How an image is configured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Configuration {
    /// Endpoints that each Deployment of the artifact gets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub endpoint_templates: Vec<EndpointTemplate>,
    /// Kept for compatibility; empty.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub dependencies: Option<Dependencies>,
    /// How the workload is configured.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub application: Option<Application>,
}

/// A placeholder without fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Dependencies {}

/// An endpoint that each Deployment gets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointTemplate {
    /// Name, labels and annotations of the Endpoint.
    pub metadata: TemplateMetadata,
    /// The Endpoint.
    pub spec: EndpointSpec,
}

/// Metadata of an endpoint template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateMetadata {
    /// Logical name of the Endpoint; tells the templates of one artifact apart.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = 63))]
    pub name: Option<String>,
    /// Kept for compatibility; Endpoints are made in the namespace of their Deployment.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = bounds::NAME))]
    pub namespace: Option<String>,
    /// Kept for compatibility; Endpoints carry the labels of their Deployment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// `openchoreo.dev/display-name` and `openchoreo.dev/description` are copied to the Endpoint.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Kept for compatibility; not read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 1024)))]
    pub finalizers: Vec<String>,
}

/// What Kantor knows of an artifact.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeployableArtifactStatus {
    /// Generation of the object that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// State of the artifact: `Ready`, `Available`, and `Finalizing` while it is being deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}
