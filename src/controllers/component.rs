//! Components.

use kantor_api::Component;
use kantor_core::lifecycle::{self, Profile};

use crate::controllers::shared::simple_kind::Member;

impl Member for Component {
    const PROFILE: &'static Profile = &lifecycle::COMPONENT;
}
