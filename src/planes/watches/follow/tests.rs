use std::convert::Infallible;

use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, client::Body};
use tokio::{sync::mpsc, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::*;
use crate::planes::{PlaneKey, subscribers::Subscribers};

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

#[tokio::test]
async fn what_was_refused_is_asked_for_again_when_the_served_kinds_change() {
    for code in [404, 403] {
        let (client, mut asked) = refusing(code);
        let (kinds, kinds_seen) = watch::channel(Arc::default());
        let closed = CancellationToken::new();
        let surroundings = Surroundings {
            plane: PlaneKey { namespace: "acme".to_owned(), name: "plane".to_owned() },
            client,
            tasks: TaskTracker::new(),
            closed: closed.clone(),
            changes: Subscribers::default(),
            kinds: kinds_seen,
            // Longer than this test: nothing is asked for again by itself.
            first_retry: PATIENCE * 60,
            metrics: Arc::default(),
        };
        let followed = start(&ApiResource::erase::<ConfigMap>(&()), "", Follow::Whole, surroundings);
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
