//! Deployable artifacts.

use kantor_api::DeployableArtifact;
use kantor_core::lifecycle::{self, Profile};

use crate::controllers::shared::simple_kind::Member;

impl Member for DeployableArtifact {
    const PROFILE: &'static Profile = &lifecycle::DEPLOYABLE_ARTIFACT;
}
