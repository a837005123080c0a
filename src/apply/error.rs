//! Why a write did not happen, by what is to be done about it.

use std::time::Duration;

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
    /// It may work when tried again.
    #[error("{0}")]
    Transient(String),
}

impl WriteError {
    /// What an error of the API means for a write. The text is shown to users: it names what the server said,
    /// never what was sent.
    pub fn of(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => match status.code {
                409 => Self::Conflict,
                400 | 403 | 404 | 405 | 413 | 415 | 422 => Self::Refused(status.message),
                _ => Self::Transient(format!("the API server answered {}: {}", status.code, status.message)),
            },
            other => Self::Transient(format!("the API server could not be asked: {}", root_cause(&other))),
        }
    }

    /// The server did not answer within `deadline`.
    pub fn timed_out(deadline: Duration) -> Self {
        Self::Transient(format!("the API server did not answer within {} s", deadline.as_secs()))
    }
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
    use kube::core::Status;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(409, WriteError::Conflict)]
    #[case(403, WriteError::Refused("why".into()))]
    #[case(422, WriteError::Refused("why".into()))]
    #[case(404, WriteError::Refused("why".into()))]
    #[case(429, WriteError::Transient("the API server answered 429: why".into()))]
    #[case(500, WriteError::Transient("the API server answered 500: why".into()))]
    #[case(401, WriteError::Transient("the API server answered 401: why".into()))]
    fn answers_are_classed_by_what_to_do(#[case] code: u16, #[case] expected: WriteError) {
        let status = Status { code, message: "why".into(), ..Status::default() };
        assert_eq!(WriteError::of(kube::Error::Api(Box::new(status))), expected);
    }
}
