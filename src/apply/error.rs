//! Why a write did not happen, by what is to be done about it.

use std::{fmt::Write as _, time::Duration};

use kube::core::Status;
use thiserror::Error;

/// Why a write did not happen.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WriteError {
    /// The object has changed, or exists, since it was read. The change wakes its owner again.
    #[error("the object has changed in the meantime")]
    Conflict,
    /// The API server will refuse it each time, until something changes.
    #[error("{0}")]
    Refused(String),
    /// The object has fields that cannot be changed once it exists.
    #[error("{0}")]
    Immutable(String),
    /// The API server has too much to do and asks to come back later.
    #[error("{message}")]
    Busy {
        /// What it said.
        message: String,
        /// When to come back.
        after: Duration,
    },
    /// It may work when tried again.
    #[error("{0}")]
    Transient(String),
}

impl WriteError {
    /// What an error of the API means for a write. The text is shown to users: it names what the server said,
    /// never what was sent.
    pub fn of(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(&status, status.message.clone()),
            other => Self::Transient(format!("the API server could not be asked: {}", root_cause(&other))),
        }
    }

    /// As [`WriteError::of`], for objects whose values must not be seen: where what the server says may quote them, only who
    /// refused it and the fields that are complained about are named.
    pub fn of_secret(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if !is_free_of_values(&status) => {
                let fields: Vec<&str> =
                    status.details.iter().flat_map(|d| &d.causes).map(|cause| cause.field.as_str()).collect();
                let reason =
                    if status.reason.is_empty() { "no reason given" } else { status.reason.as_str() };
                let mut message = format!("the API server refused it: {reason} ({})", status.code);
                if !fields.is_empty() {
                    let _ = write!(message, ", fields {}", fields.join(", "));
                }
                if let Some(policy) = admission(&status.message) {
                    let _ = write!(message, ", {policy}; why is not repeated, since it may quote the Secret");
                }
                Self::of_status(&status, message)
            }
            other => Self::of(other),
        }
    }

    fn of_status(status: &Status, message: String) -> Self {
        let message = shortened(message);
        match status.code {
            409 => Self::Conflict,
            // Another object has the name by now: the UID that was sent is not its own.
            422 if concerns(status, "metadata.uid") => Self::Conflict,
            422 if is_immutable(&status.message) => Self::Immutable(message),
            400 | 403 | 404 | 405 | 413 | 415 | 422 => Self::Refused(message),
            429 | 503 => {
                let after = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
                let message = format!("the API server answered {}: {message}", status.code);
                match (status.code, after) {
                    (503, 0) => Self::Transient(message),
                    (_, after) => Self::Busy { message, after: Duration::from_secs(after.max(1).into()) },
                }
            }
            500 if is_misfit(&status.message) => Self::Refused(message),
            code => Self::Transient(format!("the API server answered {code}: {message}")),
        }
    }

    /// Whether the server says that an object does not have the fields that its kind has.
    pub(super) fn is_misfit(&self) -> bool {
        matches!(self, Self::Refused(message) if is_misfit(message))
    }

    /// The server did not answer within `deadline`.
    pub fn timed_out(deadline: Duration) -> Self {
        Self::Transient(format!("the API server did not answer within {} s", deadline.as_secs()))
    }
}

/// Whether the server speaks in words of Kubernetes itself that name nothing of an object but its name: a right, a quota or a
/// namespace that is missing or going.
fn is_free_of_values(status: &Status) -> bool {
    const WORDS: &[&str] = &[
        "User \"",
        "unable to create new content in namespace ",
        "exceeded quota: ",
        "failed quota: ",
        "status unknown for quota: ",
    ];
    match status.code {
        403 => {
            let why = status.message.split_once(" is forbidden: ").map(|(_, why)| why);
            why.is_some_and(|why| WORDS.iter().any(|words| why.starts_with(words)))
        }
        404 => true,
        _ => false,
    }
}

/// Which webhook or policy refused an object, without what it says of it.
fn admission(message: &str) -> Option<&str> {
    let said = message.split_once(" is forbidden: ").map_or(message, |(_, why)| why);
    let is_admission =
        ["admission webhook \"", "ValidatingAdmissionPolicy '"].iter().any(|by| said.starts_with(by));
    let end = said.find(" denied ").filter(|_| is_admission)?;
    Some(&said[..end + " denied".len()])
}

/// Whether the server complains about `field`.
fn concerns(status: &Status, field: &str) -> bool {
    status.details.iter().flat_map(|details| &details.causes).any(|cause| cause.field == field)
}

/// The words with which Kubernetes refuses to change a field. There is no code for it.
fn is_immutable(message: &str) -> bool {
    const WORDS: &[&str] =
        &["immutable", "Forbidden: updates to", "cannot change roleRef", "may not change once set"];
    WORDS.iter().any(|words| message.contains(words))
}

/// Whether server-side apply says that an object does not have the fields, or the values, that its kind has. It has no
/// code for it.
fn is_misfit(message: &str) -> bool {
    const WORDS: &[&str] = &["failed to create typed patch object", "failed to convert new object"];
    WORDS.iter().any(|words| message.starts_with(words))
}

/// Messages of the server repeat what they are about at any length; this goes into a status.
fn shortened(mut message: String) -> String {
    const LONGEST: usize = 1024;
    if message.len() > LONGEST {
        message.truncate(message.floor_char_boundary(LONGEST));
        message.push('…');
    }
    message
}

/// The innermost error: the layers above it only say that something below failed.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use kube::core::response::{StatusCause, StatusDetails};
    use rstest::rstest;

    use super::*;

    fn details(causes: Vec<StatusCause>) -> StatusDetails {
        let none = String::new;
        StatusDetails {
            name: none(),
            group: none(),
            kind: none(),
            uid: none(),
            causes,
            retry_after_seconds: 0,
        }
    }

    fn of(status: Status) -> WriteError {
        WriteError::of(kube::Error::Api(Box::new(status)))
    }

    #[rstest]
    #[case(409, WriteError::Conflict)]
    #[case(403, WriteError::Refused("why".into()))]
    #[case(422, WriteError::Refused("why".into()))]
    #[case(404, WriteError::Refused("why".into()))]
    #[case(429, WriteError::Busy { message: "the API server answered 429: why".into(), after: Duration::from_secs(1) })]
    #[case(503, WriteError::Transient("the API server answered 503: why".into()))]
    #[case(500, WriteError::Transient("the API server answered 500: why".into()))]
    #[case(401, WriteError::Transient("the API server answered 401: why".into()))]
    fn answers_are_classed_by_what_to_do(#[case] code: u16, #[case] expected: WriteError) {
        let status = Status { code, message: "why".into(), ..Status::default() };
        assert_eq!(of(status), expected);
    }

    #[rstest]
    #[case("Job.batch \"a\" is invalid: spec.template: Invalid value: {}: field is immutable")]
    #[case(
        "StatefulSet.apps \"a\" is invalid: spec: Forbidden: updates to statefulset spec for fields other than …"
    )]
    #[case(
        "RoleBinding.rbac.authorization.k8s.io \"a\" is invalid: roleRef: Invalid value: {}: cannot change roleRef"
    )]
    #[case("Service \"a\" is invalid: spec.clusterIPs[0]: Invalid value: []: may not change once set")]
    fn fields_that_cannot_change_are_told_from_other_refusals(#[case] message: &str) {
        let status = Status { code: 422, message: message.into(), ..Status::default() };
        assert_eq!(of(status), WriteError::Immutable(message.into()));
    }

    #[rstest]
    #[case(
        "failed to create typed patch object (a; v1, Kind=ConfigMap): .date: field not declared in schema"
    )]
    #[case("failed to convert new object (a; coordination.k8s.io/v1, Kind=Lease) to proper version: …")]
    fn objects_that_do_not_fit_their_kind_are_refused(#[case] message: &str) {
        let status = Status { code: 500, message: message.into(), ..Status::default() };
        assert_eq!(of(status.clone()), WriteError::Refused(message.into()));
        assert!(of(status).is_misfit());
    }

    #[test]
    fn the_time_that_the_server_asks_for_is_kept() {
        let details = StatusDetails { retry_after_seconds: 7, ..details(vec![]) };
        for code in [429, 503] {
            let status = Status { code, details: Some(details.clone()), ..Status::default() };
            assert!(matches!(of(status), WriteError::Busy { after, .. } if after == Duration::from_secs(7)));
        }
    }

    #[test]
    fn an_object_that_was_made_anew_is_a_conflict() {
        let cause =
            StatusCause { reason: String::new(), message: String::new(), field: "metadata.uid".into() };
        let details = details(vec![cause]);
        let status = Status {
            code: 422,
            message: "field is immutable".into(),
            details: Some(details),
            ..Status::default()
        };
        assert_eq!(of(status), WriteError::Conflict);
    }

    #[test]
    fn what_the_server_quotes_of_a_secret_is_left_out() {
        let cause = StatusCause { reason: String::new(), message: "hunter2".into(), field: "data.a".into() };
        let details = details(vec![cause]);
        let status = Status {
            code: 422,
            reason: "Invalid".into(),
            message: "expected string, got hunter2".into(),
            details: Some(details),
            ..Status::default()
        };
        let said = WriteError::of_secret(kube::Error::Api(Box::new(status))).to_string();
        assert_eq!(said, "the API server refused it: Invalid (422), fields data.a");
    }

    #[rstest]
    #[case(
        403,
        "secrets \"a\" is forbidden: User \"system:serviceaccount:b:c\" cannot patch resource \"secrets\""
    )]
    #[case(
        403,
        "secrets \"a\" is forbidden: unable to create new content in namespace b because it is being terminated"
    )]
    #[case(
        403,
        "secrets \"a\" is forbidden: exceeded quota: q, requested: secrets=1, used: secrets=1, limited: secrets=1"
    )]
    #[case(404, "namespaces \"b\" not found")]
    fn why_a_secret_is_refused_is_said(#[case] code: u16, #[case] message: &str) {
        let status = Status { code, message: message.into(), ..Status::default() };
        let error = WriteError::of_secret(kube::Error::Api(Box::new(status)));
        assert_eq!(error, WriteError::Refused(message.into()));
    }

    #[rstest]
    #[case(
        "secrets \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: hunter2 is forbidden: User \"",
        "ValidatingAdmissionPolicy 'p' with binding 'b' denied"
    )]
    #[case(
        "admission webhook \"w.example.com\" denied the request: hunter2",
        "admission webhook \"w.example.com\" denied"
    )]
    #[case("hunter2: admission webhook \"w\" denied the request", "")]
    fn who_refuses_a_secret_is_said_without_what_may_quote_it(#[case] message: &str, #[case] by: &str) {
        let status =
            Status { code: 403, reason: "Forbidden".into(), message: message.into(), ..Status::default() };
        let said = WriteError::of_secret(kube::Error::Api(Box::new(status))).to_string();
        assert!(said.contains("Forbidden (403)") && said.contains(by), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let status = Status { code: 422, message: "ä".repeat(2000), ..Status::default() };
        let WriteError::Refused(message) = of(status) else { panic!("refused") };
        assert!(message.len() < 1100 && message.ends_with('…'));
    }
}
