//! Kantor's API: the custom resources of group `openchoreo.dev`, version `v1alpha1`, and the words and names
//! that go with them. Types only: usable without the operator.

pub mod annotations;
pub mod application;
pub mod bounds;
pub mod build;
pub mod common;
pub mod component;
pub mod conditions;
pub mod configuration_group;
pub mod data_plane;
pub mod deployable_artifact;
pub mod deployment;
pub mod deployment_pipeline;
pub mod deployment_track;
pub mod endpoint;
pub mod endpoint_policy;
pub mod environment;
pub mod finalizers;
pub mod hostname_claim;
pub mod labels;
pub mod managers;
pub mod names;
pub mod organization;
pub mod project;
pub mod release;
mod rules;
pub mod schema;
mod unset;
pub mod vocabulary;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

pub use self::{
    build::Build, component::Component, configuration_group::ConfigurationGroup, data_plane::DataPlane,
    deployable_artifact::DeployableArtifact, deployment::Deployment, deployment_pipeline::DeploymentPipeline,
    deployment_track::DeploymentTrack, endpoint::Endpoint, environment::Environment,
    hostname_claim::HostnameClaim, organization::Organization, project::Project, release::Release,
};

/// API group of all kinds.
pub const GROUP: &str = "openchoreo.dev";

/// API version of all kinds.
pub const VERSION: &str = "v1alpha1";

/// The definitions of all kinds, in the order in which an object graph is built.
pub fn crds() -> Vec<CustomResourceDefinition> {
    [
        Organization::crd(),
        DataPlane::crd(),
        Environment::crd(),
        DeploymentPipeline::crd(),
        Project::crd(),
        Component::crd(),
        DeploymentTrack::crd(),
        Build::crd(),
        ConfigurationGroup::crd(),
        DeployableArtifact::crd(),
        Deployment::crd(),
        Endpoint::crd(),
        Release::crd(),
        HostnameClaim::crd(),
    ]
    .into_iter()
    .map(schema::complete)
    .collect()
}
