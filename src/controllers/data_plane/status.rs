//! What a DataPlane says of itself.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kantor_api::{
    DataPlane,
    conditions::{self, Statement, Status, reasons, types},
    data_plane::DataPlaneStatus,
};
use kantor_core::{lifecycle::Standing, renewal::Said};

use super::held;
use crate::{
    controllers::{
        Context,
        shared::connection::{key_of, overdue, reason_of_refusal, with_last_contact},
    },
    planes::{DisconnectReason, PlaneState, Refusal},
};

/// What is known of a plane.
#[derive(Default)]
pub(super) struct Known {
    /// Of its connection; none if there is none and none is tried.
    state: Option<PlaneState>,
    /// Why what its spec and Secrets say is not used.
    refusal: Option<Refusal>,
    /// That nothing is known of it for too long, and why.
    overdue: Option<String>,
    /// Whether that is because its Secrets cannot be read.
    unread: bool,
    /// A Secret that it needs and that is to be deleted.
    going: Option<String>,
}

impl Known {
    pub(super) fn of(plane: &DataPlane, context: &Context) -> Self {
        let key = key_of(plane);
        let (state, refusal) = (context.planes.state(&key), context.book.refusal(&key));
        let unsettled = matches!(state, None | Some(PlaneState::Connecting)) && refusal.is_none();
        let unread = context.book.unread(&key);
        Self {
            overdue: (unsettled && context.book.is_overdue(&key)).then(|| overdue(unread.clone())),
            unread: unread.is_some(),
            going: held::going(plane, context),
            state,
            refusal,
        }
    }

    /// Whether the first attempt to connect has not ended.
    pub(super) fn is_awaited(&self) -> bool {
        matches!(self.state, None | Some(PlaneState::Connecting))
            && self.refusal.is_none()
            && self.overdue.is_none()
    }

    /// How the plane stands.
    pub(super) fn standing(&self) -> Standing {
        if let Some(refusal) = &self.refusal {
            return Standing::Stalled { reason: reason_of_refusal(refusal), message: refusal.to_string() };
        }
        let (_, reason, mut message) = self.connection();
        match &self.state {
            None | Some(PlaneState::Connecting) if self.overdue.is_none() => {
                Standing::Progressing { reason, message }
            }
            Some(PlaneState::Connected { .. }) => {
                if let Some(secret) = &self.going {
                    let why = "is held until this DataPlane is deleted or names another one";
                    message = format!("{message}; Secret {secret} is to be deleted, and {why}");
                }
                Standing::Ready { reason, message }
            }
            Some(PlaneState::Disconnected { .. }) if reason != reasons::DATA_PLANE_UNREACHABLE => {
                Standing::Stalled { reason, message }
            }
            _ => Standing::Unknown { reason, message },
        }
    }

    /// Whether there is a connection, why not, and what is said of it.
    fn connection(&self) -> (Status, &'static str, String) {
        match (&self.state, &self.refusal, &self.overdue) {
            (Some(PlaneState::Connected { server_version, .. }), ..) => {
                let message = format!("connected to Kubernetes {server_version}");
                (Status::True, reasons::DATA_PLANE_CONNECTED, message)
            }
            (Some(PlaneState::Disconnected { why, message, last_contact, .. }), ..) => {
                (Status::False, reason_of(why), with_last_contact(message, *last_contact))
            }
            (None, Some(refusal), _) => (Status::False, reason_of_refusal(refusal), refusal.to_string()),
            (_, _, Some(why)) => {
                let reason =
                    if self.unread { reasons::SECRET_NOT_READABLE } else { reasons::DATA_PLANE_UNREACHABLE };
                (Status::False, reason, why.clone())
            }
            (None | Some(PlaneState::Connecting), ..) => {
                let message = "connecting for the first time".to_owned();
                (Status::False, reasons::DATA_PLANE_CONNECTING, message)
            }
        }
    }

    /// The whole status of a plane. It changes with the connection, not with each probe.
    pub(super) fn status(
        &self,
        before: DataPlaneStatus,
        expires: Option<Timestamp>,
        conditions: &[Condition],
        generation: Option<i64>,
        now: Timestamp,
    ) -> DataPlaneStatus {
        let mut status = DataPlaneStatus {
            observed_generation: generation,
            conditions: conditions.to_vec(),
            credentials_expire_time: expires.map(Time),
            ..before
        };
        if let Some(PlaneState::Connected { server_version, cluster_uid, capabilities, .. }) = &self.state {
            status.cluster_uid = Some(cluster_uid.clone());
            status.server_version = Some(server_version.clone());
            status.capabilities = capabilities.names();
        }
        let is_said = conditions::get(conditions, types::CONNECTED).is_some();
        // After a restart the first attempt tells whether what was said last still holds.
        if !(self.is_awaited() && is_said) {
            let (connected, reason, message) = self.connection();
            let said = Statement::new(types::CONNECTED, connected, reason, message);
            conditions::set(&mut status.conditions, said, generation, &Time(now));
        }
        status
    }

    /// Takes the time of the last contact into a status that is about to be written.
    pub(super) fn note_contact(&self, status: &mut DataPlaneStatus) {
        let contact = match &self.state {
            Some(PlaneState::Connected { last_contact, .. }) => Some(*last_contact),
            Some(PlaneState::Disconnected { last_contact, .. }) => *last_contact,
            None | Some(PlaneState::Connecting) => None,
        };
        if let Some(contact) = contact {
            status.last_contact_time = Some(Time(contact));
        }
    }
}

pub(super) fn say_renewal(conditions: &mut Vec<Condition>, said: Said, generation: Option<i64>, now: &Time) {
    match said {
        Said::Nothing => conditions.retain(|condition| condition.type_ != types::TOKEN_RENEWED),
        Said::Unchanged => {}
        Said::Now(statement) => conditions::set(conditions, statement, generation, now),
    }
}

const fn reason_of(why: &DisconnectReason) -> &'static str {
    match why {
        DisconnectReason::Unauthorized => reasons::CREDENTIALS_REJECTED,
        DisconnectReason::Forbidden => reasons::PERMISSION_DENIED,
        DisconnectReason::TlsFailed => reasons::TLS_FAILED,
        DisconnectReason::IdentityChanged { .. } => reasons::CLUSTER_CHANGED,
        DisconnectReason::InvalidAccess => reasons::KUBECONFIG_REFUSED,
        DisconnectReason::AnswerTooLarge => reasons::ANSWER_TOO_LARGE,
        DisconnectReason::Unreachable | DisconnectReason::NotKubernetes | DisconnectReason::Unhealthy => {
            reasons::DATA_PLANE_UNREACHABLE
        }
    }
}

#[cfg(test)]
mod tests;
