//! Deployment tracks.

use kantor_api::DeploymentTrack;
use kantor_core::lifecycle::{self, Profile};

use crate::controllers::shared::simple_kind::Member;

impl Member for DeploymentTrack {
    const PROFILE: &'static Profile = &lifecycle::DEPLOYMENT_TRACK;
}
