//! Deployment pipelines.

use kantor_api::DeploymentPipeline;
use kantor_core::{
    hierarchy::Kind,
    lifecycle::{self, Profile},
};

use crate::controllers::shared::simple_kind::Member;

impl Member for DeploymentPipeline {
    const PROFILE: &'static Profile = &lifecycle::DEPLOYMENT_PIPELINE;

    /// A pipeline without environments is a pipeline.
    fn needs(&self) -> &'static [Kind] {
        if self.spec.promotion_paths.is_empty() { &[] } else { Self::PROFILE.needs }
    }
}
