use std::convert::Infallible;

use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::*;
use crate::planes::{
    PlaneKey, ServedKinds,
    room::{Limits, Room},
    subscribers::Subscribers,
};

const PATIENCE: Duration = Duration::from_mins(1);

/// A client of a server that answers every request with this code and tells of each.
fn refusing(code: u16) -> (Client, mpsc::UnboundedReceiver<()>) {
    let (tell, told) = mpsc::unbounded_channel();
    let service = tower::service_fn(move |_: Request<Body>| {
        tell.send(()).unwrap();
        let status = format!(r#"{{"kind": "Status", "status": "Failure", "code": {code}}}"#);
        let answer = Response::builder().status(code).body(Body::from(status.into_bytes())).unwrap();
        std::future::ready(Ok::<_, Infallible>(answer))
    });
    (Client::new(service, "default"), told)
}

fn surroundings(
    client: Client,
    kinds: watch::Receiver<Arc<ServedKinds>>,
    closed: &CancellationToken,
    first_retry: Duration,
    limits: Limits,
) -> Surroundings {
    Surroundings {
        plane: PlaneKey { namespace: "acme".to_owned(), name: "plane".to_owned() },
        client,
        tasks: TaskTracker::new(),
        closed: closed.clone(),
        changes: Subscribers::default(),
        kinds,
        first_retry,
        metrics: Arc::default(),
        room: Room::new(limits),
    }
}

fn config_maps(surroundings: Surroundings) -> Arc<Followed> {
    start(&ApiResource::erase::<ConfigMap>(&()), "", Follow::Whole, surroundings)
}

#[tokio::test]
async fn what_was_refused_is_asked_for_again_when_the_served_kinds_change() {
    for code in [404, 403] {
        let (client, mut asked) = refusing(code);
        let (kinds, kinds_seen) = watch::channel(Arc::default());
        let closed = CancellationToken::new();
        // A retry that is longer than this test: nothing is asked for again by itself.
        let followed =
            config_maps(surroundings(client, kinds_seen, &closed, PATIENCE * 60, Limits::default()));
        for _ in 1..4 {
            timeout(PATIENCE, asked.recv()).await.unwrap().unwrap();
            let refused = |state: &FollowState| *state != FollowState::Listing;
            timeout(PATIENCE, followed.state.subscribe().wait_for(refused)).await.unwrap().unwrap();
            assert_eq!(followed.state() == FollowState::NotInstalled, code == 404, "{:?}", followed.state());
            kinds.send(Arc::default()).unwrap();
        }
        closed.cancel();
        assert!(followed.ended() && !followed.synced().await);
    }
}

type Asked = (String, oneshot::Sender<(u16, String)>);

/// A server whose answers are given by the test.
struct Server {
    asked: mpsc::UnboundedReceiver<Asked>,
    closed: CancellationToken,
    room: Arc<Room>,
    followed: Arc<Followed>,
    _kinds: watch::Sender<Arc<ServedKinds>>,
}

impl Server {
    /// One that is asked for ConfigMaps.
    fn new(first_retry: Duration, limits: Limits) -> Self {
        let (tell, asked) = mpsc::unbounded_channel();
        let answer = move |request: Request<Body>| {
            let (reply, replied) = oneshot::channel::<(u16, String)>();
            tell.send((request.uri().to_string(), reply)).ok();
            async move {
                // A request that is not answered is under way for ever.
                let Ok((code, body)) = replied.await else { std::future::pending().await };
                let body = Body::from(body.into_bytes());
                Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
            }
        };
        let (client, closed) = (Client::new(tower::service_fn(answer), "default"), CancellationToken::new());
        let (kinds, kinds_seen) = watch::channel(Arc::default());
        let surroundings = surroundings(client, kinds_seen, &closed, first_retry, limits);
        let room = surroundings.room.clone();
        Self { asked, closed, room, followed: config_maps(surroundings), _kinds: kinds }
    }

    /// The next request.
    async fn asked(&mut self) -> Asked {
        timeout(PATIENCE, self.asked.recv()).await.unwrap().unwrap()
    }

    /// Answers the next request; tells what it was.
    async fn answer(&mut self, code: u16, body: impl ToString) -> String {
        let (uri, reply) = self.asked().await;
        reply.send((code, body.to_string())).unwrap();
        uri
    }

    async fn is(&self, state: impl Fn(&FollowState) -> bool) {
        timeout(PATIENCE, self.followed.states().wait_for(|now| state(now))).await.unwrap().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.closed.cancel();
    }
}

fn config(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "ns", "resourceVersion": "8"}})
}

fn page(names: &[&str], next: &str) -> Value {
    let items: Vec<Value> = names.iter().map(|name| config(name)).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMapList", "items": items,
        "metadata": {"resourceVersion": "7", "continue": next}})
}

fn busy(seconds: u32) -> Value {
    json!({"kind": "Status", "code": 429, "details": {"retryAfterSeconds": seconds}})
}

/// What is not known yet is not in trouble, even if it was before: the server takes its time, and answers.
#[tokio::test]
async fn a_list_after_one_that_failed_is_waited_for() {
    let mut server = Server::new(Duration::from_millis(1), Limits::default());
    server.answer(500, busy(0)).await;
    let (_, second) = server.asked().await;
    let followed = server.followed.clone();
    assert!(!followed.listed(Duration::ZERO).await, "of one that fails nobody knows when it will succeed");
    second.send((200, page(&["a"], "more").to_string())).unwrap();
    let (uri, last) = server.asked().await;
    assert!(uri.contains("continue=more"), "{uri}");
    let listed = followed.listed(Duration::ZERO);
    tokio::pin!(listed);
    // One that is not waited for ends before the clock gets here, however slow the machine is.
    assert!(timeout(Duration::from_millis(10), &mut listed).await.is_err(), "it is under way");
    last.send((200, page(&["b"], "").to_string())).unwrap();
    assert!(listed.await && followed.all().len() == 2);
}

#[tokio::test]
async fn who_has_patience_waits_for_a_list_that_fails_at_first() {
    let mut server = Server::new(Duration::from_millis(1), Limits::default());
    server.answer(500, busy(0)).await;
    server.is(|state| matches!(state, FollowState::Failing { .. })).await;
    let followed = server.followed.clone();
    let patient = followed.listed(PATIENCE);
    tokio::pin!(patient);
    assert!(futures::poll!(&mut patient).is_pending(), "it has patience");
    let (answered, listed) = tokio::join!(server.answer(200, page(&["a"], "")), patient);
    assert!(listed, "{answered}");
}

#[tokio::test]
async fn a_watch_that_is_refused_goes_on_where_it_was_and_waits_longer_each_time() {
    let first = Duration::from_millis(20);
    let mut server = Server::new(first, Limits::default());
    server.answer(200, page(&["a"], "")).await;
    let mut last = None;
    for n in 0..5_u32 {
        let uri = server.answer(429, busy(0)).await;
        assert!(uri.contains("watch=") && uri.contains("resourceVersion=7"), "no list: {uri}");
        let now = Instant::now();
        if let Some(last) = last.replace(now) {
            // Lower bounds only: a busy machine makes waits longer, never shorter. What is seen late makes one look shorter.
            let (waited, bound) = (now - last, first * 2_u32.pow(n - 1) / 2);
            assert!(waited >= bound, "{n}: {waited:?} < {bound:?}");
        }
        server.is(|state| matches!(state, FollowState::Failing { error } if error.contains("429"))).await;
    }
    assert_eq!(server.followed.all().len(), 1, "what was listed is still known");
    // The server names the type first.
    let missed = format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", config("b"));
    let uri = server.answer(200, missed).await;
    assert!(uri.contains("resourceVersion=7"), "{uri}");
    let (uri, _open) = server.asked().await;
    assert!(uri.contains("watch=") && uri.contains("resourceVersion=8"), "from what was told last: {uri}");
    assert_eq!(server.followed.all().len(), 2);
}

#[tokio::test]
async fn a_server_gets_the_time_that_it_asks_for() {
    let mut server = Server::new(Duration::from_millis(1), Limits::default());
    server.answer(200, page(&[], "")).await;
    server.answer(429, busy(1)).await;
    let asked = Instant::now();
    server.answer(410, json!({"kind": "Status", "code": 410})).await;
    assert!(asked.elapsed() >= Duration::from_millis(900), "{:?}", asked.elapsed());
    let uri = server.answer(200, page(&[], "")).await;
    assert!(!uri.contains("watch="), "a version that is too old makes it list again: {uri}");
}

#[tokio::test]
async fn more_objects_than_may_be_kept_are_not_read() {
    let mut server = Server::new(PATIENCE, Limits { objects: 3, ..Limits::default() });
    for names in [["a", "b"], ["c", "d"]] {
        server.answer(200, page(&names, "more")).await;
    }
    let excess = timeout(PATIENCE, server.room.until_exceeded()).await.unwrap();
    assert!(excess.to_string().contains("more than 3 objects"), "{excess}");
    assert!(server.asked.try_recv().is_err(), "nothing more is asked for");
}

#[tokio::test]
async fn pages_that_are_too_long_are_asked_for_with_fewer_objects() {
    let mut server = Server::new(Duration::from_millis(1), Limits { answer: 4 << 10, ..Limits::default() });
    let large = |length: usize| {
        let mut page = page(&["a"], "");
        page["items"][0]["data"] = json!({"text": "x".repeat(length)});
        page
    };
    for limit in ["limit=100", "limit=10"] {
        let uri = server.answer(200, large(5000)).await;
        assert!(uri.ends_with(limit), "{uri}");
    }
    assert!(server.answer(200, large(3000)).await.ends_with("limit=1"));
    server.is(|state| *state == FollowState::Synced).await;
    // One object that is longer than any can be is no object.
    server.answer(410, busy(0)).await;
    assert!(server.answer(200, large(5000)).await.ends_with("limit=1"));
    let excess = timeout(PATIENCE, server.room.until_exceeded()).await.unwrap();
    assert!(excess.to_string().contains("ConfigMap"), "{excess}");
}
