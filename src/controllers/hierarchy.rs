//! The members of the hierarchy that live in the control plane alone.

use kantor_api::{Component, DeployableArtifact, DeploymentPipeline, DeploymentTrack};

use super::member::Member;
use crate::core::lifecycle::{self, Profile};

impl Member for DeploymentPipeline {
    const PROFILE: &'static Profile = &lifecycle::DEPLOYMENT_PIPELINE;

    fn standing(&self, context: &super::Context) -> Option<lifecycle::Standing> {
        let profile = Self::PROFILE;
        // A pipeline without environments is a pipeline.
        let needs = if self.spec.promotion_paths.is_empty() { &[] } else { profile.needs };
        Some(match context.world.unresolved(self, needs) {
            Some(error) => lifecycle::Standing::unresolved(&error),
            None => lifecycle::Standing::Ready { reason: profile.ready, message: "ready".to_owned() },
        })
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
