//! What is known of a plane, and how outcomes change it. Pure: time comes in as an argument.

use std::{fmt, time::Duration};

use jiff::Timestamp;

use crate::planes::Capabilities;

/// Failed probes in a row after which a plane counts as disconnected.
const PATIENCE: u32 = 3;
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LAST_RETRY: Duration = Duration::from_secs(30);
/// A plane that says too much says as much the next time; reading it all costs memory.
const EXCESS_RETRY: Duration = Duration::from_mins(5);

/// What is known of a plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlaneState {
    /// The first attempt is under way, or the first at another address.
    Connecting,
    /// It answers.
    Connected {
        /// Since when.
        since: Timestamp,
        /// When it answered last.
        last_contact: Timestamp,
        /// Version of the server, such as `v1.36.3`.
        server_version: String,
        /// UID of the namespace `kube-system`, which tells clusters apart.
        cluster_uid: String,
        /// Its optional parts.
        capabilities: Capabilities,
    },
    /// It does not answer, or not as it should; it is tried again.
    Disconnected {
        /// Since when.
        since: Timestamp,
        /// When it answered last, if ever.
        last_contact: Option<Timestamp>,
        /// Why, for programs.
        why: DisconnectReason,
        /// Why and what to do, for people. Free of secrets and of anything that changes from try to try.
        message: String,
    },
}

/// Why a plane is not connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DisconnectReason {
    /// The credentials are not accepted.
    Unauthorized,
    /// The credentials are accepted and may not do what is needed.
    Forbidden,
    /// Nothing answers: refused, unknown name, or silence.
    Unreachable,
    /// The server's certificate is not one to trust.
    TlsFailed,
    /// Something answers that is no Kubernetes API, or too old a one.
    NotKubernetes,
    /// The server answers with errors.
    Unhealthy,
    /// Another cluster than before answers.
    IdentityChanged {
        /// UID that the plane had.
        recorded: String,
        /// UID that answers now.
        found: String,
    },
    /// The access itself cannot be used.
    InvalidAccess,
    /// It says more than is kept of a plane.
    AnswerTooLarge,
}

impl DisconnectReason {
    /// One word for conditions and logs.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::Unreachable => "Unreachable",
            Self::TlsFailed => "TlsFailed",
            Self::NotKubernetes => "NotKubernetes",
            Self::Unhealthy => "Unhealthy",
            Self::IdentityChanged { .. } => "IdentityChanged",
            Self::InvalidAccess => "InvalidAccess",
            Self::AnswerTooLarge => "AnswerTooLarge",
        }
    }
}

impl fmt::Display for DisconnectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a cluster says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) server_version: String,
    pub(crate) cluster_uid: String,
    pub(crate) capabilities: Capabilities,
}

/// Why an attempt or a probe failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) why: DisconnectReason,
    pub(super) message: String,
}

/// Whether a plane stays connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Keep,
    Disconnect,
}

/// The state of one plane and what it takes to move it.
#[derive(Debug)]
pub(in crate::planes) struct Machine {
    state: PlaneState,
    /// When it answered last, before the first attempt.
    recorded_contact: Option<Timestamp>,
    /// The cluster that this plane is, once it is known. Survives everything but the connector's end.
    identity: Option<String>,
    /// Failed probes in a row while connected, failed attempts in a row otherwise.
    failures: u32,
}

impl Machine {
    /// A plane that was never tried. With an identity it will not take another cluster for it. `last_contact` is when it is
    /// known to have answered last.
    pub(in crate::planes) const fn new(identity: Option<String>, last_contact: Option<Timestamp>) -> Self {
        Self { state: PlaneState::Connecting, recorded_contact: last_contact, identity, failures: 0 }
    }

    /// When it answered last, if that is known.
    pub(super) const fn last_contact(&self) -> Option<Timestamp> {
        match &self.state {
            PlaneState::Connecting => self.recorded_contact,
            PlaneState::Connected { last_contact, .. } => Some(*last_contact),
            PlaneState::Disconnected { last_contact, .. } => *last_contact,
        }
    }

    pub(super) const fn state(&self) -> &PlaneState {
        &self.state
    }

    /// Whether it is away and was there before.
    pub(super) const fn was_lost(&self) -> bool {
        matches!(self.state, PlaneState::Disconnected { last_contact: Some(_), .. })
    }

    /// Whether it is connected and did not answer the last time.
    pub(super) const fn is_in_doubt(&self) -> bool {
        matches!(self.state, PlaneState::Connected { .. }) && self.failures > 0
    }

    /// An attempt found a cluster. Disconnect means that it is the wrong one.
    pub(super) fn found(&mut self, now: Timestamp, facts: &Facts) -> Verdict {
        if let Err(failure) = self.identify(&facts.cluster_uid) {
            self.disconnect(now, failure);
            return Verdict::Disconnect;
        }
        self.identity = Some(facts.cluster_uid.clone());
        self.failures = 0;
        self.state = PlaneState::Connected {
            since: now,
            last_contact: now,
            server_version: facts.server_version.clone(),
            cluster_uid: facts.cluster_uid.clone(),
            capabilities: facts.capabilities.clone(),
        };
        Verdict::Keep
    }

    /// A probe of the connected plane was answered by the cluster `uid`.
    pub(super) fn answered(&mut self, now: Timestamp, uid: &str) -> Verdict {
        if let Err(failure) = self.identify(uid) {
            self.disconnect(now, failure);
            return Verdict::Disconnect;
        }
        self.failures = 0;
        if let PlaneState::Connected { last_contact, .. } = &mut self.state {
            *last_contact = now;
        }
        Verdict::Keep
    }

    /// The connected plane has other optional parts, or another version. Tells whether that is news.
    pub(super) fn refreshed(&mut self, version: &str, parts: &Capabilities) -> bool {
        let PlaneState::Connected { server_version, capabilities, .. } = &mut self.state else {
            return false;
        };
        if server_version == version && capabilities == parts {
            return false;
        }
        version.clone_into(server_version);
        capabilities.clone_from(parts);
        true
    }

    /// An attempt or a probe failed.
    pub(super) fn failed(&mut self, now: Timestamp, failure: Failure) -> Verdict {
        // Credentials that were refused are refused the next time too, and so is an access that cannot be used;
        // anything else may be a moment's trouble.
        let certain = matches!(
            failure.why,
            DisconnectReason::Unauthorized
                | DisconnectReason::InvalidAccess
                | DisconnectReason::AnswerTooLarge
        );
        if matches!(self.state, PlaneState::Connected { .. }) && !certain && self.failures + 1 < PATIENCE {
            self.failures += 1;
            return Verdict::Keep;
        }
        self.disconnect(now, failure);
        Verdict::Disconnect
    }

    /// The plane was given another server or authority; what was known of it no longer counts.
    pub(super) fn left(&mut self) {
        self.state = PlaneState::Connecting;
        self.recorded_contact = None;
        self.failures = 0;
    }

    /// Whatever failed before failed with another access.
    pub(super) fn begin_anew(&mut self) {
        self.failures = 0;
    }

    /// How long to wait for the next attempt or probe. `random` is from 0 to 1: the wait varies by it, so that many
    /// planes do not move in step.
    pub(super) fn wait(&self, interval: Duration, random: f64) -> Duration {
        let longest = match &self.state {
            PlaneState::Connecting => return Duration::ZERO,
            PlaneState::Connected { .. } if self.failures == 0 => interval,
            // In doubt: soon certain.
            PlaneState::Connected { .. } => interval / 5,
            // Another cluster does not turn back into the right one by asking often.
            PlaneState::Disconnected { why: DisconnectReason::IdentityChanged { .. }, .. } => LAST_RETRY,
            PlaneState::Disconnected { why: DisconnectReason::AnswerTooLarge, .. } => EXCESS_RETRY,
            PlaneState::Disconnected { .. } => {
                FIRST_RETRY.saturating_mul(1 << self.failures.saturating_sub(1).min(16)).min(LAST_RETRY)
            }
        };
        longest.mul_f64(random.clamp(0.0, 1.0).mul_add(0.25, 0.75))
    }

    fn identify(&self, found: &str) -> Result<(), Failure> {
        match &self.identity {
            Some(recorded) if recorded != found => Err(Failure {
                why: DisconnectReason::IdentityChanged {
                    recorded: recorded.clone(),
                    found: found.to_owned(),
                },
                message: format!(
                    "another cluster answers (kube-system has UID {found}, it was {recorded}): correct the address, \
                     or delete the DataPlane and register the new cluster"
                ),
            }),
            _ => Ok(()),
        }
    }

    fn disconnect(&mut self, now: Timestamp, Failure { why, message }: Failure) {
        let last_contact = self.last_contact();
        let since = match &self.state {
            PlaneState::Connecting => now,
            PlaneState::Connected { .. } => {
                self.failures = 0;
                now
            }
            PlaneState::Disconnected { since, .. } => *since,
        };
        self.failures = self.failures.saturating_add(1);
        self.state = PlaneState::Disconnected { since, last_contact, why, message };
    }
}

/// Whether two states differ in the time of the last contact only, which is not worth telling.
pub(super) fn same_but_for_contact(old: &PlaneState, new: &PlaneState) -> bool {
    let mut old = old.clone();
    if let (PlaneState::Connected { last_contact: old, .. }, PlaneState::Connected { last_contact, .. }) =
        (&mut old, new)
    {
        *old = *last_contact;
    }
    old == *new
}

#[cfg(test)]
mod tests;
