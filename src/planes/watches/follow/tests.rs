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
use crate::planes::{PlaneKey, ServedKinds, subscribers::Subscribers};

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
        let followed = config_maps(surroundings(client, kinds_seen, &closed, PATIENCE * 60));
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

/// What is not known yet is not in trouble, even if it was before: the server takes its time, and answers.
#[tokio::test]
async fn a_list_after_one_that_failed_is_waited_for() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let answer = move |request: Request<Body>| {
        let (reply, replied) = oneshot::channel::<(u16, Value)>();
        tell.send((request.uri().to_string(), reply)).unwrap();
        async move {
            // A request that is not answered is under way for ever.
            let Ok((code, body)) = replied.await else { std::future::pending().await };
            let body = Body::from(body.to_string().into_bytes());
            Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
        }
    };
    let page = |name: &str, next: &str| {
        let item = json!({"metadata": {"name": name, "namespace": "ns", "resourceVersion": "1"}});
        json!({"apiVersion": "v1", "kind": "ConfigMapList", "items": [item],
            "metadata": {"resourceVersion": "1", "continue": next}})
    };
    let mut asked = async || timeout(PATIENCE, told.recv()).await.unwrap().unwrap();
    let (client, closed) = (Client::new(tower::service_fn(answer), "default"), CancellationToken::new());
    let (_kinds, kinds_seen) = watch::channel(Arc::default());
    let followed = config_maps(surroundings(client, kinds_seen, &closed, Duration::from_millis(1)));

    let (_, first) = asked().await;
    first.send((500, json!({"kind": "Status", "status": "Failure", "code": 500}))).unwrap();
    let (_, second) = asked().await;
    assert!(!followed.listed(Duration::ZERO).await, "of one that fails nobody knows when it will succeed");
    second.send((200, page("a", "more"))).unwrap();
    let (uri, last) = asked().await;
    assert!(uri.contains("continue=more"), "{uri}");
    let listed = followed.listed(Duration::ZERO);
    tokio::pin!(listed);
    // One that is not waited for ends before the clock gets here, however slow the machine is.
    assert!(timeout(Duration::from_millis(10), &mut listed).await.is_err(), "it is under way");
    last.send((200, page("b", ""))).unwrap();
    assert!(listed.await && followed.all().len() == 2);
    closed.cancel();
}
