//! Watch streams: newline-delimited events, passed on one by one so that a rule can take each.

use std::sync::Arc;

use http_body_util::{BodyExt, StreamBody};
use hyper::{
    Response,
    body::{Bytes, Frame, Incoming},
    header,
};
use tokio::{sync::mpsc, time::Instant};

use super::{
    Shared,
    answer::expired_event,
    fault::{Action, WatchEvent},
    forward::{Body, BoxError},
    log::Entry,
    record::{Outcome, Record},
    rules::Rule,
};

/// An event longer than this is passed on unread; the store of a cluster takes objects of at most 1.5 MiB.
const EVENT_LIMIT: usize = 16 << 20;

/// The reply to a watch. Its record stays open until the stream ends or the client goes.
pub(super) fn stream(
    shared: Arc<Shared>,
    reply: Response<Incoming>,
    record: Record,
    entry: Entry,
) -> Response<Body> {
    let (head, server) = reply.into_parts();
    let content_type = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    // Reachable before it is called open, so that whoever saw it open can end it.
    let ends = shared.rules.watch_opened(&record);
    entry.set(Outcome::Streaming(head.status.as_u16()));
    let events = Events {
        shared,
        server,
        record,
        _entry: entry,
        ends,
        is_json: content_type.is_some_and(|kind| kind.starts_with("application/json")),
        read: Vec::new(),
        came: Instant::now(),
        over: false,
    };
    let stream = futures::stream::unfold(events, |mut events| async { Some((events.next().await?, events)) });
    Response::from_parts(head, StreamBody::new(stream).boxed_unsync())
}

struct Events {
    shared: Arc<Shared>,
    server: Incoming,
    record: Record,
    /// Closes the record when the stream is dropped.
    _entry: Entry,
    ends: mpsc::UnboundedReceiver<Arc<Rule>>,
    /// Other encodings (protobuf) are passed on as they come.
    is_json: bool,
    /// What was read of the server and not yet passed on.
    read: Vec<u8>,
    /// When the last of it came.
    came: Instant,
    over: bool,
}

type Piece = Result<Frame<Bytes>, BoxError>;

/// What to do with one event.
enum Verdict {
    Pass,
    Hide,
    End(Arc<Rule>),
}

impl Events {
    async fn next(&mut self) -> Option<Piece> {
        if self.over {
            return None;
        }
        loop {
            while let Some(event) = self.take_event() {
                match self.judge(&event).await {
                    Verdict::Pass => return Some(Ok(Frame::data(event))),
                    Verdict::Hide => {}
                    Verdict::End(rule) => return self.end(&rule),
                }
            }
            let frame = tokio::select! {
                biased;
                Some(rule) = self.ends.recv() => return self.end(&rule),
                frame = self.server.frame() => frame,
            };
            match frame {
                Some(Ok(frame)) => {
                    self.came = Instant::now();
                    self.read.extend_from_slice(&frame.into_data().unwrap_or_default());
                }
                Some(Err(error)) => return Some(Err(error.into())),
                None => {
                    self.over = true;
                    let rest = std::mem::take(&mut self.read);
                    return (!rest.is_empty()).then(|| Ok(Frame::data(rest.into())));
                }
            }
        }
    }

    /// The next whole event, with its newline.
    fn take_event(&mut self) -> Option<Bytes> {
        let end = if self.is_json && self.read.len() <= EVENT_LIMIT {
            self.read.iter().position(|byte| *byte == b'\n')? + 1
        } else {
            self.read.len()
        };
        (end > 0).then(|| self.read.drain(..end).collect::<Vec<_>>().into())
    }

    async fn judge(&mut self, bytes: &[u8]) -> Verdict {
        let rules = self.shared.rules.for_events_of(&self.record);
        if rules.is_empty() {
            return Verdict::Pass;
        }
        let Ok(event) = serde_json::from_slice::<WatchEvent>(bytes) else { return Verdict::Pass };
        for rule in rules {
            match &rule.fault.action {
                Action::HideEvents(chosen) if (chosen.0)(&event) && rule.count() => {
                    rule.hit();
                    return Verdict::Hide;
                }
                Action::DelayEvents(delay) if rule.count() => {
                    rule.hit();
                    tokio::select! {
                        () = tokio::time::sleep_until(self.came + *delay) => {}
                        () = rule.removed() => {}
                        Some(end) = self.ends.recv() => return Verdict::End(end),
                    }
                }
                _ => {}
            }
        }
        Verdict::Pass
    }

    fn end(&mut self, rule: &Rule) -> Option<Piece> {
        self.over = true;
        rule.hit();
        matches!(rule.fault.action, Action::ExpireWatch).then(|| Ok(Frame::data(expired_event())))
    }
}
