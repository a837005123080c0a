//! Tokens of data planes that end: when they are renewed, and what is said about it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kantor_api::conditions::{Statement, Status, reasons, types};

use super::registration::Account;

/// From when to when a token is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// When it was issued.
    pub issued: Timestamp,
    /// When it ends.
    pub expires: Timestamp,
}

impl Life {
    /// When a third of it is left: early enough for many tries, late enough to be rare.
    pub fn due(&self) -> Timestamp {
        self.issued + self.whole() * 2 / 3
    }

    /// How long to ask for: as long as this one.
    pub fn seconds(&self) -> i64 {
        self.whole().as_secs()
    }

    /// How long until it is due.
    pub fn wait(&self, now: Timestamp) -> Duration {
        Duration::try_from(self.due().duration_since(now)).unwrap_or_default()
    }

    fn whole(&self) -> SignedDuration {
        self.expires.duration_since(self.issued)
    }
}

/// What a token says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// Whose it is, `system:serviceaccount:<namespace>:<name>` for ServiceAccounts.
    pub subject: Option<String>,
    /// When it was issued.
    pub issued: Option<Timestamp>,
    /// When it ends.
    pub expires: Option<Timestamp>,
}

/// What is to be done about a data plane's token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nobody asks for it to be renewed.
    NotAsked,
    /// It cannot be renewed, and why.
    Impossible(&'static str),
    /// It is renewed when it is due.
    Planned {
        /// Whose token it is. The token says so itself: a token of somebody else is never asked for.
        account: Account,
        /// How long it lives.
        life: Life,
    },
}

/// Whether a token that says this about itself is renewed; nothing for credentials that are no token, or none that says
/// anything.
pub fn plan(asked: bool, claims: Option<&Claims>) -> Plan {
    if !asked {
        return Plan::NotAsked;
    }
    let Some(claims) = claims else {
        return Plan::Impossible(
            "only tokens of ServiceAccounts are renewed; put one into the Secret, or take the annotation away",
        );
    };
    let Some(account) = claims.subject.as_deref().and_then(account_of) else {
        return Plan::Impossible("the token is not one of a ServiceAccount; put one into the Secret");
    };
    match (claims.issued, claims.expires) {
        (_, None) => Plan::Impossible("the token has no end"),
        (Some(issued), Some(expires)) if issued < expires => {
            Plan::Planned { account, life: Life { issued, expires } }
        }
        _ => Plan::Impossible("the token does not say when it was issued"),
    }
}

fn account_of(subject: &str) -> Option<Account> {
    let (namespace, name) = subject.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let is_name = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b))
    };
    (is_name(namespace) && is_name(name))
        .then(|| Account { namespace: namespace.to_owned(), name: name.to_owned() })
}

/// What becomes of the condition [`types::TOKEN_RENEWED`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// There is none.
    Nothing,
    /// It stays as it is.
    Unchanged,
    /// It says this.
    Now(Statement),
}

/// What is said of a plan, by what came of the last try to carry it out.
pub fn said(plan: &Plan, failure: Option<&str>, now: Timestamp) -> Said {
    let statement = |status, reason, message: String| {
        Said::Now(Statement::new(types::TOKEN_RENEWED, status, reason, message))
    };
    match (plan, failure) {
        (Plan::NotAsked, _) => Said::Nothing,
        (Plan::Impossible(why), _) => {
            statement(Status::False, reasons::TOKEN_NOT_RENEWABLE, (*why).to_owned())
        }
        (Plan::Planned { life, .. }, Some(failure)) => statement(
            Status::False,
            reasons::TOKEN_RENEWAL_FAILED,
            format!("{failure}; it is tried again; the token ends at {:.0}", life.expires),
        ),
        // It is being tried, for the first time or after a restart: its end will tell.
        (Plan::Planned { life, .. }, None) if life.due() <= now => Said::Unchanged,
        (Plan::Planned { life, .. }, None) => statement(
            Status::True,
            reasons::TOKEN_RENEWAL_PLANNED,
            format!("the token ends at {:.0} and is renewed at {:.0}", life.expires, life.due()),
        ),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    const LIFE: (i64, i64) = (1000, 4000);

    fn life() -> Life {
        Life { issued: at(LIFE.0), expires: at(LIFE.1) }
    }

    #[rstest]
    #[case(1000, 2000)]
    #[case(2999, 1)]
    #[case(3000, 0)]
    #[case(5000, 0)]
    fn it_is_due_when_a_third_is_left(#[case] now: i64, #[case] wait: u64) {
        assert_eq!(life().due(), at(3000));
        assert_eq!(life().wait(at(now)), Duration::from_secs(wait));
        assert_eq!(life().seconds(), 3000);
    }

    fn claims(subject: &str, issued: Option<i64>, expires: Option<i64>) -> Claims {
        Claims { subject: Some(subject.to_owned()), issued: issued.map(at), expires: expires.map(at) }
    }

    #[test]
    fn a_service_account_token_with_an_end_is_renewed_if_that_is_asked_for() {
        let claims = claims("system:serviceaccount:kantor-system:kantor", Some(1000), Some(4000));
        let account = Account { namespace: "kantor-system".to_owned(), name: "kantor".to_owned() };
        assert_eq!(plan(true, Some(&claims)), Plan::Planned { account, life: life() });
        assert_eq!(plan(false, Some(&claims)), Plan::NotAsked);
    }

    #[rstest]
    #[case(None, "only tokens")]
    #[case(Some(claims("admin", Some(1000), Some(4000))), "not one of a ServiceAccount")]
    #[case(Some(claims("system:serviceaccount:a", Some(1000), Some(4000))), "not one of a ServiceAccount")]
    #[case(
        Some(claims("system:serviceaccount:a:b/token?x", Some(1000), Some(4000))),
        "not one of a ServiceAccount"
    )]
    #[case(Some(claims("system:serviceaccount:a:b", Some(1000), None)), "no end")]
    #[case(Some(claims("system:serviceaccount:a:b", None, Some(4000))), "when it was issued")]
    #[case(Some(claims("system:serviceaccount:a:b", Some(4000), Some(4000))), "when it was issued")]
    fn what_cannot_be_renewed_says_why(#[case] claims: Option<Claims>, #[case] why: &str) {
        let Plan::Impossible(said) = plan(true, claims.as_ref()) else { panic!("renewed") };
        assert!(said.contains(why), "{said}");
        assert_eq!(plan(false, claims.as_ref()), Plan::NotAsked);
    }

    #[test]
    fn a_failure_is_said_until_a_new_token_is_there() {
        let account = Account { namespace: "a".to_owned(), name: "b".to_owned() };
        let plan = Plan::Planned { account, life: life() };
        let said_at = |second, failure| match said(&plan, failure, at(second)) {
            Said::Now(statement) => (statement.status, statement.reason, statement.message),
            other => panic!("{other:?}"),
        };
        let (status, reason, message) = said_at(2999, None);
        assert_eq!((status, reason), (Status::True, reasons::TOKEN_RENEWAL_PLANNED));
        assert!(message.contains("1970-01-01T00:50:00Z"), "{message}");
        let (status, reason, message) = said_at(3001, Some("forbidden"));
        assert_eq!((status, reason), (Status::False, reasons::TOKEN_RENEWAL_FAILED));
        assert!(message.contains("forbidden") && message.contains("1970-01-01T01:06:40Z"), "{message}");
        assert_eq!(said(&plan, None, at(3000)), Said::Unchanged, "it is being tried");
        assert_eq!(said(&Plan::NotAsked, Some("forbidden"), at(3000)), Said::Nothing);
    }
}
