//! Listing one kind and watching it, until something fails.
//!
//! kube's own watcher tells of a failure, and not when the watch stands again: what is known would count as behind until
//! something changes, or everything had to be listed anew after each refusal. A server that sheds watches would then get a
//! list for each.

use std::{fmt, pin::pin, time::Duration};

use futures::StreamExt;
use kube::{
    Api, Resource, ResourceExt,
    api::{ListParams, WatchParams},
    core::{Status, WatchEvent},
    runtime::watcher::Event,
};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout};

use super::sync;
use crate::client::decode::PAGE;

/// How long the server keeps a watch open that tells nothing.
const WATCH_SECONDS: u32 = 290;
/// One that is silent for longer is broken: the server would have ended it.
const SILENCE: Duration = Duration::from_secs(295);
/// A watch that ends sooner has failed, whatever the server says.
const SHORTEST: Duration = Duration::from_secs(1);

/// What is told while a kind is followed.
#[derive(Clone, Debug)]
pub(super) enum Told<K> {
    /// Something is there, has changed or has gone.
    Event(Event<K>),
    /// The watch stands: whatever changes from now on is told.
    Watching,
}

/// Why a kind is no longer followed.
#[derive(Debug)]
pub(super) struct Failure {
    cause: Cause,
    /// For how long the watch had stood.
    pub(super) stood: Duration,
}

#[derive(Debug)]
enum Cause {
    /// The server refused.
    Refused(Box<Status>),
    /// It could not be asked, or did not answer.
    Unanswered(kube::Error),
    /// It ended the watch at once.
    Ended,
    /// A list, or an object, has no version.
    NoVersion,
}

impl From<kube::Error> for Cause {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused(status),
            other => Self::Unanswered(other),
        }
    }
}

impl Failure {
    fn code(&self) -> Option<u16> {
        match &self.cause {
            Cause::Refused(status) => Some(status.code),
            _ => None,
        }
    }

    /// When the server asks to come back, if it does.
    pub(super) fn asked(&self) -> Option<Duration> {
        let Cause::Refused(status) = &self.cause else { return None };
        let seconds = status.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// Whether the server has only just begun to serve the kind.
    pub(super) fn is_start_of_kind(&self) -> bool {
        matches!(&self.cause, Cause::Refused(status) if status.message.contains("storage is (re)initializing"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            // By the code: for a group that does not exist the server answers with a page, not with a reason.
            Cause::Refused(status) if status.code == 404 => f.write_str(sync::NOT_INSTALLED),
            Cause::Refused(status) => write!(f, "{} ({})", status.message, status.code),
            Cause::Unanswered(error) => error.fmt(f),
            Cause::Ended => f.write_str("the API server ends the watch at once"),
            Cause::NoVersion => f.write_str("the API server tells no resourceVersion"),
        }
    }
}

/// One kind in one place.
pub(super) struct Watching<K> {
    api: Api<K>,
    labels: Option<String>,
    /// Where the watch goes on; none if everything has to be listed first.
    version: Option<String>,
}

impl<K> Watching<K>
where
    K: Resource + Clone + fmt::Debug + DeserializeOwned + Send + 'static,
{
    pub(super) fn new(api: Api<K>, labels: Option<String>) -> Self {
        Self { api, labels, version: None }
    }

    /// Lists, unless the watch only has to go on, and watches until something fails.
    pub(super) async fn run(&mut self, mut tell: impl FnMut(Told<K>)) -> Failure {
        let mut stood = Duration::ZERO;
        let cause = match self.follow(&mut tell, &mut stood).await {
            Err(cause) => cause,
            Ok(never) => match never {},
        };
        let failure = Failure { cause, stood };
        // A server that has too much to do is not asked for more than it was; and nothing was missed of a watch that it ended.
        if !(failure.code() == Some(429) || matches!(failure.cause, Cause::Ended)) {
            self.version = None;
        }
        failure
    }

    async fn follow(
        &mut self,
        tell: &mut impl FnMut(Told<K>),
        stood: &mut Duration,
    ) -> Result<std::convert::Infallible, Cause> {
        if self.version.is_none() {
            self.version = Some(self.list(tell).await?);
        }
        let params = WatchParams { label_selector: self.labels.clone(), ..WatchParams::default() };
        let params = params.timeout(WATCH_SECONDS);
        loop {
            let version = self.version.as_deref().unwrap_or_default();
            let mut events = pin!(self.api.watch(&params, version).await?);
            let begun = Instant::now();
            tell(Told::Watching);
            // At its end, and when it is silent for too long, it is begun again where it was.
            while let Ok(Some(event)) = timeout(SILENCE, events.next()).await {
                *stood = begun.elapsed();
                let (version, event) = match event? {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                        (object.resource_version(), Some(Event::Apply(object)))
                    }
                    WatchEvent::Deleted(object) => (object.resource_version(), Some(Event::Delete(object))),
                    WatchEvent::Bookmark(bookmark) => (Some(bookmark.metadata.resource_version), None),
                    WatchEvent::Error(status) => return Err(Cause::Refused(Box::new(*status))),
                };
                self.version = Some(version.filter(|version| !version.is_empty()).ok_or(Cause::NoVersion)?);
                if let Some(event) = event {
                    tell(Told::Event(event));
                }
            }
            *stood = begun.elapsed();
            if *stood < SHORTEST {
                return Err(Cause::Ended);
            }
        }
    }

    /// Lists everything; returns the version from which to watch.
    async fn list(&self, tell: &mut impl FnMut(Told<K>)) -> Result<String, Cause> {
        tell(Told::Event(Event::Init));
        let mut params =
            ListParams { label_selector: self.labels.clone(), ..ListParams::default() }.limit(PAGE);
        loop {
            let page = self.api.list(&params).await?;
            for object in page.items {
                tell(Told::Event(Event::InitApply(object)));
            }
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                let version = page.metadata.resource_version.filter(|version| !version.is_empty());
                let version = version.ok_or(Cause::NoVersion)?;
                tell(Told::Event(Event::InitDone));
                return Ok(version);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use k8s_openapi::api::core::v1::Namespace;
    use kube::{Client, client::Body};
    use serde_json::{Value, json};
    use tower::{BoxError, service_fn};

    use super::*;

    enum Answer {
        Lines(Vec<Value>),
        /// With a Status.
        Refused(Value),
    }

    use Answer::{Lines, Refused};

    /// A server that answers one request after the other, and notes what it was asked for.
    fn server(answers: Vec<Answer>) -> (Client, Arc<Mutex<Vec<String>>>) {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (note, answers) = (asked.clone(), Arc::new(Mutex::new(answers.into_iter())));
        let service = service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let watched = query.split('&').find_map(|part| part.strip_prefix("resourceVersion="));
            let is_watch = query.contains("watch=true");
            let token = query.split('&').find_map(|part| part.strip_prefix("continue="));
            note.lock().unwrap().push(match (is_watch, token) {
                (true, _) => format!("watch {}", watched.unwrap_or_default()),
                (false, Some(token)) => format!("list {token}"),
                (false, None) => "list".to_owned(),
            });
            let answer = answers.lock().unwrap().next();
            async move {
                match answer {
                    None => std::future::pending().await,
                    // As the control plane's client has it.
                    Some(Refused(status)) => {
                        Err(BoxError::from(kube::Error::Api(serde_json::from_value(status)?)))
                    }
                    Some(Lines(lines)) => {
                        let body: Vec<u8> =
                            lines.iter().flat_map(|l| format!("{l}\n").into_bytes()).collect();
                        Ok(Response::new(Body::from(body)))
                    }
                }
            }
        });
        (Client::new(service, "default"), asked)
    }

    fn namespace(name: &str, version: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "resourceVersion": version}})
    }

    fn page(items: &[Value], version: &str, token: &str) -> Answer {
        Lines(vec![json!({"apiVersion": "v1", "kind": "NamespaceList", "items": items,
            "metadata": {"resourceVersion": version, "continue": token}})])
    }

    fn refused(code: u16, after: u32) -> Answer {
        Refused(
            json!({"kind": "Status", "code": code, "message": "why", "reason": "", "details": {"retryAfterSeconds": after}}),
        )
    }

    fn words(told: &Told<Namespace>) -> String {
        match told {
            Told::Watching => "watching".to_owned(),
            Told::Event(Event::Init) => "begin".to_owned(),
            Told::Event(Event::InitDone) => "end".to_owned(),
            Told::Event(Event::InitApply(object)) => format!("listed {}", object.name_any()),
            Told::Event(Event::Apply(object)) => format!("changed {}", object.name_any()),
            Told::Event(Event::Delete(object)) => format!("gone {}", object.name_any()),
        }
    }

    /// Follows until so many failures; what was told, how the failures are described, and what was asked for.
    async fn follow(answers: Vec<Answer>, failures: usize) -> (Vec<String>, Vec<Failure>, Vec<String>) {
        let (client, asked) = server(answers);
        let mut watching: Watching<Namespace> = Watching::new(Api::all(client), None);
        let (mut told, mut failed) = (vec![], vec![]);
        for _ in 0..failures {
            failed.push(watching.run(|this| told.push(words(&this))).await);
        }
        let asked = asked.lock().unwrap().clone();
        (told, failed, asked)
    }

    #[tokio::test]
    async fn all_pages_of_a_list_are_told_and_then_what_changes() {
        let event = |kind: &str, object: Value| json!({"type": kind, "object": object});
        let events = vec![
            event("ADDED", namespace("c", "8")),
            event("DELETED", namespace("a", "9")),
            event("BOOKMARK", namespace("", "12")),
            event("ERROR", json!({"kind": "Status", "code": 410, "message": "too old"})),
        ];
        let answers = vec![
            page(&[namespace("a", "1")], "", "more"),
            page(&[namespace("b", "2")], "7", ""),
            Lines(events),
            page(&[], "20", ""),
            refused(500, 0),
        ];
        let (told, failed, asked) = follow(answers, 2).await;
        let first = ["begin", "listed a", "listed b", "end", "watching", "changed c", "gone a"];
        assert_eq!(told, [&first[..], &["begin", "end"]].concat());
        assert_eq!(
            asked,
            ["list", "list more", "watch 7", "list", "watch 20"],
            "what is too old is listed anew"
        );
        assert_eq!(failed[0].to_string(), "too old (410)");
    }

    #[tokio::test]
    async fn a_server_that_has_too_much_to_do_is_not_asked_for_a_list_as_well() {
        let answers = vec![
            page(&[namespace("a", "1")], "7", ""),
            refused(429, 3),
            refused(429, 0),
            Lines(vec![json!({"type": "BOOKMARK", "object": namespace("", "12")})]),
            refused(503, 0),
            page(&[], "30", ""),
            refused(429, 0),
        ];
        let (told, failed, asked) = follow(answers, 5).await;
        let expected = ["list", "watch 7", "watch 7", "watch 7", "watch 12", "list", "watch 30"];
        assert_eq!(asked, expected);
        assert_eq!(failed[0].asked(), Some(Duration::from_secs(3)));
        assert_eq!((failed[1].asked(), failed[1].stood), (None, Duration::ZERO));
        assert_eq!(told.iter().filter(|told| *told == "watching").count(), 1, "one stood: {told:?}");
    }

    #[tokio::test]
    async fn a_list_that_is_refused_is_made_anew() {
        let answers =
            vec![refused(429, 1), refused(404, 0), page(&[], "7", ""), refused(403, 0), refused(403, 0)];
        let (told, failed, asked) = follow(answers, 4).await;
        assert_eq!(asked, ["list", "list", "list", "watch 7", "list"]);
        assert_eq!(told, ["begin", "begin", "begin", "end", "begin"]);
        assert!(failed[1].to_string().contains("kantor crds"), "{}", failed[1]);
    }
}
