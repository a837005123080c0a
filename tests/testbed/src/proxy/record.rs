//! What the proxy writes down of each request, and the readable form of it.

use std::{fmt, ops::Deref, time::Instant};

use hyper::body::Bytes;
use sha2::{Digest, Sha256};

use super::request::{Target, Verb};

/// One request as the proxy saw it.
#[derive(Clone, Debug)]
pub struct Record {
    /// Position in the order of arrival, from 0.
    pub seq: u64,
    /// When the request arrived.
    pub at: Instant,
    /// What was asked for. The name of a `create` is filled in from its body.
    pub target: Target,
    /// `User-Agent`.
    pub user_agent: Option<String>,
    /// Who asked.
    pub credential: Credential,
    /// `Impersonate-User`.
    pub impersonate: Option<String>,
    /// Copy of the body of a request that is not a read.
    pub body: RequestBody,
    /// Whether the request was passed on to the server.
    pub forwarded: bool,
    /// How it ended, or how far it has got.
    pub outcome: Outcome,
}

impl Record {
    /// What was done.
    pub fn verb(&self) -> Verb {
        self.target.verb
    }

    /// Plural resource name, empty for a plain path.
    pub fn resource(&self) -> &str {
        &self.target.resource
    }

    /// Name of the object, empty when the request has none.
    pub fn name(&self) -> &str {
        self.target.name.as_deref().unwrap_or_default()
    }

    /// Namespace of the object, empty when the request has none.
    pub fn namespace(&self) -> &str {
        self.target.namespace.as_deref().unwrap_or_default()
    }

    /// Whether the request may change what the cluster stores; see [`Target::is_write`].
    pub fn is_write(&self) -> bool {
        self.target.is_write()
    }

    /// The status code that the client was sent.
    pub fn code(&self) -> Option<u16> {
        match self.outcome {
            Outcome::Streaming(code)
            | Outcome::Closed(code)
            | Outcome::Answered(code)
            | Outcome::Made(code)
            | Outcome::BodyCut(code) => Some(code),
            _ => None,
        }
    }

    /// Whether the server answered with success, whatever became of the reply.
    pub fn committed(&self) -> bool {
        let answered = match self.outcome {
            Outcome::ReplyHeld(code)
            | Outcome::ReplyLost(code)
            | Outcome::BodyCut(code)
            | Outcome::Answered(code)
            | Outcome::Streaming(code)
            | Outcome::Closed(code) => Some(code),
            _ => None,
        };
        answered.is_some_and(|code| (200..300).contains(&code))
    }

    /// Whether this is a watch that is open now.
    pub fn is_open_watch(&self) -> bool {
        matches!(self.outcome, Outcome::Streaming(_))
    }

    /// Whether nothing more will happen to this request.
    pub fn is_over(&self) -> bool {
        !matches!(
            self.outcome,
            Outcome::Pending | Outcome::Held | Outcome::Hung | Outcome::ReplyHeld(_) | Outcome::Streaming(_)
        )
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {}", self.seq, self.target)?;
        if let Some(manager) = &self.target.field_manager {
            write!(f, " by {manager}")?;
        }
        if self.target.dry_run {
            f.write_str(" (dry run)")?;
        }
        write!(f, " → {}", self.outcome)
    }
}

/// How a request ended, or how far it has got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// On its way, no answer yet.
    Pending,
    /// Held by a rule before it is forwarded.
    Held,
    /// Left without an answer by a rule.
    Hung,
    /// Answered by the server with this code; the reply is held, and lost if the client goes now.
    ReplyHeld(u16),
    /// A watch that is open.
    Streaming(u16),
    /// A watch that was open and ended.
    Closed(u16),
    /// Answered by the server.
    Answered(u16),
    /// Answered by a rule, the server was not asked.
    Made(u16),
    /// Connection cut without a reply; the server was not asked, or had not answered yet.
    Reset,
    /// Reply cut in the middle of its body.
    BodyCut(u16),
    /// The server answered with this code, the client was not told.
    ReplyLost(u16),
    /// The client went away before it had an answer.
    ClientGone,
    /// The server could not be reached, or broke off; the connection was cut.
    ServerGone(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pending => f.write_str("no answer yet"),
            Self::Held => f.write_str("held"),
            Self::Hung => f.write_str("hung"),
            Self::ReplyHeld(code) => write!(f, "{code}, reply held"),
            Self::Streaming(code) => write!(f, "{code}, open"),
            Self::Closed(code) => write!(f, "{code}, closed"),
            Self::Answered(code) => write!(f, "{code}"),
            Self::Made(code) => write!(f, "{code}, made by a rule"),
            Self::Reset => f.write_str("reset"),
            Self::BodyCut(code) => write!(f, "{code}, body cut"),
            Self::ReplyLost(code) => write!(f, "{code}, reply lost"),
            Self::ClientGone => f.write_str("client gone"),
            Self::ServerGone(why) => write!(f, "server gone: {why}"),
        }
    }
}

/// Who a request says it is. Tokens are kept as a digest only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// Neither token nor client certificate.
    None,
    /// `Authorization` header, as a digest.
    Token([u8; 32]),
    /// Client certificate.
    Certificate {
        /// Common name.
        user: String,
        /// Organizations.
        groups: Vec<String>,
    },
    /// Client certificate that the cluster's client CA did not sign, or that is expired.
    RejectedCertificate,
}

impl Credential {
    pub(super) fn of_header(authorization: &[u8]) -> Self {
        Self::Token(Sha256::digest(authorization).into())
    }

    /// Whether this is the given bearer token.
    pub fn is_token(&self, token: &str) -> bool {
        *self == Self::of_header(format!("Bearer {token}").as_bytes())
    }
}

/// Copy of what a request carried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestBody {
    /// The bytes, at most [`super::BODY_LIMIT`] of them; none for reads and for bodies dropped to bound memory.
    pub bytes: Bytes,
    /// Whether there was more.
    pub truncated: bool,
}

impl RequestBody {
    /// The body as JSON, which server-side apply by kube's client is too.
    pub fn json(&self) -> Option<serde_json::Value> {
        serde_json::from_slice(&self.bytes).ok()
    }

    /// Whether the bytes contain `text`.
    pub fn contains(&self, text: &str) -> bool {
        text.is_empty() || self.bytes.windows(text.len()).any(|window| window == text.as_bytes())
    }
}

/// A list of requests, in order of arrival, that prints one per line.
#[derive(Clone, Debug, Default)]
pub struct Records(pub Vec<Record>);

impl Records {
    /// Those that `wanted` accepts.
    #[must_use]
    pub fn filter(self, wanted: impl FnMut(&Record) -> bool) -> Self {
        let mut wanted = wanted;
        Self(self.0.into_iter().filter(|record| wanted(record)).collect())
    }

    /// Those that may change what the cluster stores; see [`Target::is_write`].
    #[must_use]
    pub fn writes(self) -> Self {
        self.filter(Record::is_write)
    }

    /// Those with this verb.
    #[must_use]
    pub fn verb(self, verb: Verb) -> Self {
        self.filter(|record| record.verb() == verb)
    }

    /// Those of this resource, named as in RBAC: `pods`, `pods/status`, `pods/*`.
    #[must_use]
    pub fn resource(self, resource: &str) -> Self {
        self.filter(|record| record.target.is_of(resource))
    }

    /// Those not of this resource, named as in RBAC.
    #[must_use]
    pub fn without(self, resource: &str) -> Self {
        self.filter(|record| !record.target.is_of(resource))
    }

    /// Those in this namespace.
    #[must_use]
    pub fn namespace(self, namespace: &str) -> Self {
        self.filter(|record| record.namespace() == namespace)
    }

    /// Those about the object of this name.
    #[must_use]
    pub fn name(self, name: &str) -> Self {
        self.filter(|record| record.name() == name)
    }
}

impl Deref for Records {
    type Target = [Record];

    fn deref(&self) -> &[Record] {
        &self.0
    }
}

impl IntoIterator for Records {
    type Item = Record;
    type IntoIter = std::vec::IntoIter<Record>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl fmt::Display for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("  (no requests)");
        }
        for (index, record) in self.0.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            write!(f, "{end}  {record}")?;
        }
        Ok(())
    }
}
