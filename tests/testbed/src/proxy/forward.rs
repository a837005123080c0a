//! One request on its way: read, recorded, broken where a rule says so, forwarded, answered.

use std::{error::Error, sync::Arc};

use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::{
    HeaderMap, Request, Response,
    body::{Bytes, Incoming},
    header::{self, HeaderName, HeaderValue},
    http::{request, response},
};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::{Client, connect::HttpConnector};

use super::{
    Shared,
    answer::{json_body, json_response, status_response},
    body::{endless, half_of, name_in, read_prefix},
    fault::{Action, StatusReply},
    log::Entry,
    record::{Credential, Outcome, Record, RequestBody},
    request::{Target, Verb},
    rules::{HoldEnd, Rule},
    serve::Cut,
    tls::Identity,
    watching,
};

pub(super) type BoxError = Box<dyn Error + Send + Sync>;
pub(super) type Body = UnsyncBoxBody<Bytes, BoxError>;
pub(super) type ReplyClient = Client<HttpsConnector<HttpConnector>, Body>;

const REMOTE_USER: HeaderName = HeaderName::from_static("x-remote-user");
const REMOTE_GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const IDENTITY_PREFIX: &str = "x-remote-";
/// Headers about one hop only; hyper writes its own.
const PER_HOP: [HeaderName; 6] = [
    header::CONNECTION,
    header::HOST,
    header::EXPECT,
    header::TE,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

/// What all requests of one connection share.
pub(super) struct Connection {
    pub(super) shared: Arc<Shared>,
    pub(super) identity: Identity,
    pub(super) cut: Cut,
}

/// How a request leaves its way before the end.
enum Exit {
    Answer(Response<Body>),
    Cut(Outcome),
}

/// Takes one request to its answer; an error makes hyper close the connection without one.
pub(super) async fn answer(
    connection: Arc<Connection>,
    request: Request<Incoming>,
) -> Result<Response<Body>, BoxError> {
    let (head, body) = request.into_parts();
    let (record, body) = connection.describe(&head, body).await?;
    let (record, entry) = connection.shared.log.open(record, connection.cut.clone());
    let rules = connection.shared.rules.choose(&record);
    match Box::pin(connection.pass(head, body, record, &entry, &rules)).await {
        Ok(Passed::Reply(response)) => Ok(response),
        Ok(Passed::Watch(reply, record)) => {
            Ok(watching::stream(connection.shared.clone(), reply, *record, entry))
        }
        Err(Exit::Answer(response)) => {
            entry.set(Outcome::Made(response.status().as_u16()));
            Ok(response)
        }
        Err(Exit::Cut(outcome)) => {
            connection.cut.cut();
            entry.set(outcome);
            Err("cut by a rule".into())
        }
    }
}

/// What came of a request that was forwarded.
enum Passed {
    Reply(Response<Body>),
    Watch(Response<Incoming>, Box<Record>),
}

impl Connection {
    async fn pass(
        &self,
        head: request::Parts,
        body: Body,
        record: Record,
        entry: &Entry,
        rules: &[Arc<Rule>],
    ) -> Result<Passed, Exit> {
        for rule in rules {
            self.before(rule, &record, entry).await?;
        }
        if record.credential == Credential::RejectedCertificate {
            return Err(Exit::Answer(status_response(&StatusReply::new(401), &record.target)));
        }
        let is_watch = record.verb() == Verb::Watch;
        let is_read = is_watch || rules.iter().any(|rule| matches!(rule.fault.action, Action::Rewrite(_)));
        entry.forwarded();
        let reply = self.ask(head, body, is_read).await;
        let (mut head, body) =
            reply.map_err(|error| Exit::Cut(Outcome::ServerGone(chain(&error))))?.into_parts();
        head.headers.remove(header::CONNECTION);
        let code = head.status.as_u16();
        let mut cut_body = false;
        for rule in rules {
            match rule.fault.action {
                Action::HoldAfter => {
                    entry.set(Outcome::ReplyHeld(code));
                    if rule.hold().await == HoldEnd::Removed {
                        return Err(Exit::Cut(Outcome::ReplyLost(code)));
                    }
                }
                Action::LoseReply => {
                    entry.set(Outcome::ReplyLost(code));
                    rule.hit();
                    return Err(Exit::Cut(Outcome::ReplyLost(code)));
                }
                Action::CutBody => {
                    entry.set(Outcome::BodyCut(code));
                    rule.hit();
                    cut_body = true;
                }
                _ => {}
            }
        }
        if cut_body {
            return Ok(Passed::Reply(Response::from_parts(head, half_of(body))));
        }
        if is_watch && head.status.is_success() {
            return Ok(Passed::Watch(Response::from_parts(head, body), Box::new(record)));
        }
        let body = rewritten(&mut head, body, rules).await?;
        entry.set(Outcome::Answered(code));
        Ok(Passed::Reply(Response::from_parts(head, body)))
    }

    /// What a rule does before the server is asked.
    async fn before(&self, rule: &Arc<Rule>, record: &Record, entry: &Entry) -> Result<(), Exit> {
        match &rule.fault.action {
            Action::Delay(delay) => {
                rule.hit();
                // Ended rules let go at once; time-outs are no errors here.
                let _ = tokio::time::timeout(*delay, rule.removed()).await;
                Ok(())
            }
            Action::HoldBefore => {
                entry.set(Outcome::Held);
                if rule.hold().await == HoldEnd::Removed {
                    return Err(Exit::Cut(Outcome::Reset));
                }
                entry.set(Outcome::Pending);
                Ok(())
            }
            Action::Hang => {
                entry.set(Outcome::Hung);
                rule.hit();
                rule.removed().await;
                Err(Exit::Cut(Outcome::Reset))
            }
            Action::Refuse => {
                entry.set(Outcome::Reset);
                self.shared.rules.refuse_for(rule);
                rule.hit();
                Err(Exit::Cut(Outcome::Reset))
            }
            Action::Reset => {
                entry.set(Outcome::Reset);
                rule.hit();
                Err(Exit::Cut(Outcome::Reset))
            }
            Action::Status(reply) => {
                entry.set(Outcome::Made(reply.code));
                rule.hit();
                Err(Exit::Answer(status_response(reply, &record.target)))
            }
            Action::Answer(answer) => {
                entry.set(Outcome::Made(200));
                let body = json_body(&(answer.0)(record));
                rule.hit();
                Err(Exit::Answer(json_response(body)))
            }
            Action::Endless(start) => {
                entry.set(Outcome::Made(200));
                rule.hit();
                Err(Exit::Answer(json_response(endless(start, rule.clone()))))
            }
            _ => Ok(()),
        }
    }

    /// Asks the server, as the one whom the client's certificate names or with the client's own token.
    async fn ask(
        &self,
        head: request::Parts,
        body: Body,
        is_read: bool,
    ) -> Result<Response<Incoming>, hyper_util::client::legacy::Error> {
        let clients = &self.shared.clients;
        let mut request = Request::from_parts(head, body);
        *request.uri_mut() = self.shared.at_server(request.uri());
        let headers = request.headers_mut();
        strip(headers);
        if is_read {
            // What is compressed could not be read on the way.
            headers.remove(header::ACCEPT_ENCODING);
        }
        if let (Identity::Verified { user, groups }, Some(client)) = (&self.identity, &clients.front_proxy) {
            if let Ok(user) = HeaderValue::from_str(user) {
                headers.insert(REMOTE_USER, user);
            }
            for group in groups.iter().filter_map(|group| HeaderValue::from_str(group).ok()) {
                headers.append(REMOTE_GROUP, group);
            }
            return client.request(request).await;
        }
        clients.plain.request(request).await
    }

    /// Writes down what is asked. The body of a request that is not a read is read first, up to the limit.
    async fn describe(&self, head: &request::Parts, body: Incoming) -> Result<(Record, Body), BoxError> {
        let text = |name| head.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let mut target = Target::parse(&head.method, &head.uri, text(header::CONTENT_TYPE));
        let (kept, body) = if target.verb.is_read() {
            (RequestBody::default(), body.map_err(Into::into).boxed_unsync())
        } else {
            read_prefix(body).await?
        };
        if target.verb == Verb::Create && target.name.is_none() {
            target.name = name_in(&kept.bytes);
        }
        let authorization = head.headers.get(header::AUTHORIZATION);
        let credential = match (&self.identity, authorization) {
            (Identity::Verified { user, groups }, _) => {
                Credential::Certificate { user: user.clone(), groups: groups.clone() }
            }
            (_, Some(value)) => Credential::of_header(value.as_bytes()),
            (Identity::Rejected, None) => Credential::RejectedCertificate,
            (Identity::None, None) => Credential::None,
        };
        let record = Record {
            seq: 0,
            at: std::time::Instant::now(),
            target,
            user_agent: text(header::USER_AGENT).map(ToOwned::to_owned),
            credential,
            impersonate: text(HeaderName::from_static("impersonate-user")).map(ToOwned::to_owned),
            body: kept,
            forwarded: false,
            outcome: Outcome::Pending,
        };
        Ok((record, body))
    }
}

/// The body of an answer as rules change it.
async fn rewritten(head: &mut response::Parts, body: Incoming, rules: &[Arc<Rule>]) -> Result<Body, Exit> {
    let changing: Vec<&Arc<Rule>> =
        rules.iter().filter(|rule| matches!(rule.fault.action, Action::Rewrite(_))).collect();
    if changing.is_empty() {
        return Ok(body.map_err(Into::into).boxed_unsync());
    }
    let gone = |error: hyper::Error| Exit::Cut(Outcome::ServerGone(chain(&error)));
    let bytes = body.collect().await.map_err(gone)?.to_bytes();
    let Ok(mut value) = serde_json::from_slice(&bytes) else {
        return Ok(Full::new(bytes).map_err(|never| match never {}).boxed_unsync());
    };
    for rule in changing {
        if let Action::Rewrite(change) = &rule.fault.action {
            (change.0)(&mut value);
            rule.hit();
        }
    }
    head.headers.remove(header::CONTENT_LENGTH);
    Ok(json_body(&value))
}

/// Removes what is about one hop only, and every identity that the client claims in headers: the server would believe
/// it on a front-proxy connection.
fn strip(headers: &mut HeaderMap) {
    for name in PER_HOP {
        headers.remove(name);
    }
    let claimed: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with(IDENTITY_PREFIX)).cloned().collect();
    for name in claimed {
        headers.remove(name);
    }
}

/// An error with its causes, on one line.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
