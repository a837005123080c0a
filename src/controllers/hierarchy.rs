//! The members of the hierarchy that live in the control plane alone.

use kantor_api::{Component, DeployableArtifact, DeploymentPipeline, DeploymentTrack};

use super::member::Member;
use crate::core::{
    hierarchy::Kind,
    lifecycle::{self, Profile},
};

impl Member for DeploymentPipeline {
    const PROFILE: &'static Profile = &lifecycle::DEPLOYMENT_PIPELINE;

    /// A pipeline without environments is a pipeline.
    fn needs(&self) -> &'static [Kind] {
        if self.spec.promotion_paths.is_empty() { &[] } else { Self::PROFILE.needs }
    }
}

impl Member for Component {
    const PROFILE: &'static Profile = &lifecycle::COMPONENT;
}

impl Member for DeploymentTrack {
    const PROFILE: &'static Profile = &lifecycle::DEPLOYMENT_TRACK;
}

impl Member for DeployableArtifact {
    const PROFILE: &'static Profile = &lifecycle::DEPLOYABLE_ARTIFACT;
}
