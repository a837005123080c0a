//! Rules that break things: which requests, and what happens to them.
//!
//! ```no_run
//! # use kantor_testbed::proxy::{Action, Fault, Match, Proxy, Verb};
//! # fn example(proxy: &Proxy) {
//! let second = Match::new().verb(Verb::Apply).resource("deployments").nth(2);
//! let fault = proxy.fault(Fault::when(second).then(Action::LoseReply));
//! # }
//! ```

use std::{fmt, sync::Arc, time::Duration};

use serde_json::Value;

use super::{
    matching::{Match, Predicate},
    record::Record,
};

/// What happens to a request, or to the events of a watch.
#[derive(Clone)]
pub enum Action {
    /// Forward it this much later.
    Delay(Duration),
    /// Never answer, never forward; the connection is cut when the rule ends.
    Hang,
    /// From the first hit until the rule ends: cut all connections and reset new ones.
    Refuse,
    /// Cut the connection with a TCP reset, without asking the server.
    Reset,
    /// Send the head and half of the body (of its first piece where the length is not known), then cut.
    CutBody,
    /// Answer without asking the server.
    Status(StatusReply),
    /// Answer 200 without asking the server, with what the test makes of the request.
    Answer(Answerer),
    /// Answer 200 without asking the server: this text, and then `x` without end and without a line break. For a list this is
    /// a body without end, for a watch a line without end. It is cut when the rule ends.
    Endless(String),
    /// Forward, and change the answer of the server, if it is JSON and not that of a watch.
    Rewrite(Rewriter),
    /// Forward, let the server commit, then cut instead of replying.
    LoseReply,
    /// Hold before forwarding, until [`FaultHandle::release`](super::FaultHandle::release); a rule that ends cuts the
    /// connection instead, so that what was held is never forwarded.
    HoldBefore,
    /// Forward, let the server commit, hold the reply until
    /// [`FaultHandle::release`](super::FaultHandle::release); a rule that ends cuts the connection instead.
    HoldAfter,
    /// Drop the events of matching watches, open or new, for which the predicate holds. The counts of [`Match`] count
    /// such events here.
    HideEvents(EventPredicate),
    /// Hold back the events of matching watches, open or new, for this long after they came; order is kept. The counts of
    /// [`Match`] count events here.
    DelayEvents(Duration),
    /// End the matching watches that are open now, as the server does at its time-out; later ones are left alone.
    CutWatch,
    /// Send an `ERROR` event with code 410 on the matching watches that are open now, and end them; later ones are left
    /// alone.
    ExpireWatch,
}

impl Action {
    /// Answers with a Kubernetes `Status` of this code and its usual reason.
    pub fn status(code: u16) -> Self {
        Self::Status(StatusReply::new(code))
    }

    /// Answers 429 and asks to come back after `seconds`.
    pub fn too_many_requests(seconds: u32) -> Self {
        Self::Status(StatusReply::new(429).retry_after(seconds))
    }

    /// Answers 200 with what `answer` makes of the request.
    pub fn answer(answer: impl Fn(&Record) -> Value + Send + Sync + 'static) -> Self {
        Self::Answer(Answerer(Arc::new(answer)))
    }

    /// Changes the answer of the server.
    pub fn rewrite(change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        Self::Rewrite(Rewriter(Arc::new(change)))
    }

    /// Leaves a group out of what the server says that it serves, for answers to `/apis`: as a server does that has just started.
    pub fn without_group(group: impl Into<String>) -> Self {
        let group = group.into();
        Self::rewrite(move |answer| {
            for (list, name) in [("items", "/metadata/name"), ("groups", "/name")] {
                if let Some(groups) = answer.get_mut(list).and_then(Value::as_array_mut) {
                    groups.retain(|found| found.pointer(name).and_then(Value::as_str) != Some(&group));
                }
            }
        })
    }

    /// Drops the events for which `predicate` holds.
    pub fn hide_events(predicate: impl Fn(&WatchEvent) -> bool + Send + Sync + 'static) -> Self {
        Self::HideEvents(EventPredicate(Arc::new(predicate)))
    }

    /// Drops the events of the object with this name.
    pub fn hide_events_of(name: impl Into<String>) -> Self {
        let name = name.into();
        Self::hide_events(move |event| event.name() == name)
    }
}

/// The answer of [`Action::Status`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusReply {
    pub(super) code: u16,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) retry_after: Option<u32>,
}

impl StatusReply {
    /// An answer of this code with the reason that the apiserver gives for it.
    pub fn new(code: u16) -> Self {
        let reason = match code {
            400 => "BadRequest",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            405 => "MethodNotAllowed",
            409 => "Conflict",
            410 => "Expired",
            413 => "RequestEntityTooLarge",
            415 => "UnsupportedMediaType",
            422 => "Invalid",
            429 => "TooManyRequests",
            500 => "InternalError",
            503 => "ServiceUnavailable",
            504 => "Timeout",
            _ => "",
        };
        Self {
            code,
            reason: reason.to_owned(),
            message: format!("fault injected: {code}"),
            retry_after: None,
        }
    }

    /// Another machine-readable reason, such as `AlreadyExists` for 409.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = reason.into();
        self
    }

    /// Another message.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// `Retry-After` in seconds, in the header and in the body.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

/// Makes an answer.
#[derive(Clone)]
pub struct Answerer(pub(super) Arc<dyn Fn(&Record) -> Value + Send + Sync>);

/// Changes an answer.
#[derive(Clone)]
pub struct Rewriter(pub(super) Arc<dyn Fn(&mut Value) + Send + Sync>);

/// Chooses watch events.
#[derive(Clone)]
pub struct EventPredicate(pub(super) Predicate<WatchEvent>);

impl fmt::Debug for EventPredicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventPredicate")
    }
}

/// One event of a watch.
#[derive(Clone, Debug, serde::Deserialize)]
pub struct WatchEvent {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The object.
    pub object: Value,
}

impl WatchEvent {
    /// Name of the object, empty when it has none (bookmarks, errors).
    pub fn name(&self) -> &str {
        self.object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
    }

    /// Namespace of the object, empty when it has none.
    pub fn namespace(&self) -> &str {
        self.object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default()
    }
}

/// A rule: which requests, and what happens to them. Added with [`super::Proxy::fault`].
///
/// When several rules choose one request all of them act, in the order they were added: delays and holds add up, the
/// first that answers or cuts ends it.
#[derive(Clone)]
pub struct Fault {
    pub(super) when: Match,
    pub(super) action: Action,
}

impl Fault {
    /// Starts a rule; [`FaultWhen::then`] completes it.
    pub fn when(when: Match) -> FaultWhen {
        FaultWhen(when)
    }
}

/// A rule that lacks its action.
#[derive(Clone)]
pub struct FaultWhen(Match);

impl FaultWhen {
    /// Says what happens.
    pub fn then(self, action: Action) -> Fault {
        Fault { when: self.0, action }
    }
}
