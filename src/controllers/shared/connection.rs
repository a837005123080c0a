//! Whether a data plane can be used now.

use std::sync::Arc;

use jiff::Timestamp;
use kantor_api::{DataPlane, conditions::reasons};
use kube::ResourceExt;

use crate::{
    controllers::{Context, shared::credentials_cache::OVERDUE},
    planes::{Plane, PlaneKey, PlaneState, Refusal, RefusalKind},
};

/// Why a plane is not connected, and when it last was.
pub(crate) fn with_last_contact(message: &str, last_contact: Option<Timestamp>) -> String {
    let seen = last_contact.map(|at| format!("; last answered at {at:.0}")).unwrap_or_default();
    format!("{message}{seen}")
}

/// What is said when nothing is known of a plane for too long.
pub(crate) fn overdue(unread: Option<String>) -> String {
    unread.unwrap_or_else(|| {
        format!("there is no connection, and no attempt to make one has ended, for {} s", OVERDUE.as_secs())
    })
}

/// The reason of a refusal.
pub(crate) const fn reason_of_refusal(refusal: &Refusal) -> &'static str {
    match refusal.kind {
        RefusalKind::Refused => reasons::KUBECONFIG_REFUSED,
        RefusalKind::SecretMissing => reasons::SECRET_NOT_FOUND,
        RefusalKind::SecretUnreadable => reasons::SECRET_NOT_READABLE,
    }
}

/// The plane's key.
pub(crate) fn key_of(plane: &DataPlane) -> PlaneKey {
    PlaneKey { namespace: plane.namespace().unwrap_or_default(), name: plane.name_any() }
}

/// Whether a plane can be used now.
pub(crate) enum Reach {
    /// It can.
    Connected(Arc<Plane>),
    /// It cannot, and why.
    Unreachable(String),
    /// The first attempt to connect has not ended: what was said last may still hold.
    NotYet,
}

/// Whether the plane can be used now.
pub(crate) fn reach(key: &PlaneKey, context: &Context) -> Reach {
    match (context.planes.state(key), context.book.refusal(key)) {
        (Some(PlaneState::Connected { .. }), _) => {
            context.planes.get(key).map_or(Reach::NotYet, Reach::Connected)
        }
        (Some(PlaneState::Disconnected { message, last_contact, .. }), _) => {
            Reach::Unreachable(with_last_contact(&message, last_contact))
        }
        (None, Some(refusal)) => Reach::Unreachable(refusal.to_string()),
        (None | Some(PlaneState::Connecting), _) if context.book.is_overdue(key) => {
            Reach::Unreachable(overdue(context.book.unread(key)))
        }
        (None | Some(PlaneState::Connecting), _) => Reach::NotYet,
    }
}
