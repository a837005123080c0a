//! A plane without a cluster, for tests: its answers are made by the test.

use std::{convert::Infallible, sync::Arc, time::Duration};

use http::{Request, Response};
use kube::{Client, client::Body};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Access, Auth, Capabilities, Plane, PlaneKey, PlaneOptions, RemoteAccess, ServedKinds,
    client::Connection,
    connector::{Defined, Ever, Facts},
    plane::Session,
    subscribers::Subscribers,
    watches::Surroundings,
};
use crate::telemetry::metrics::PlaneMetrics;

/// Where definitions are listed.
pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A client of a server that answers so, by path. Watches are open and silent.
pub(crate) fn client(answer: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static) -> Client {
    let answer = Arc::new(answer);
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = answer.clone();
        async move {
            if request.uri().query().is_some_and(|query| query.contains("watch=")) {
                std::future::pending::<()>().await;
            }
            let (code, body) = answer(request.uri().path());
            let body = Body::from(body.to_string().into_bytes());
            Ok::<_, Infallible>(Response::builder().status(code).body(body).expect("an answer"))
        }
    });
    Client::new(service, "default")
}

/// A list of objects with these names.
pub(crate) fn list(names: &[&str]) -> (u16, Value) {
    let item = |name: &&str| json!({"metadata": {"name": name, "resourceVersion": "1", "uid": name}});
    let items: Vec<Value> = names.iter().map(item).collect();
    (200, json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items}))
}

/// An answer that refuses.
pub(crate) fn refusal(code: u16) -> (u16, Value) {
    (code, json!({"kind": "Status", "status": "Failure", "code": code, "message": "no"}))
}

/// What a plane says that it serves: kinds as `group/version/Kind`, all with a namespace, and groups that do not answer.
pub(crate) fn discovery(kinds: &[&str], stale: &[&str]) -> Arc<ServedKinds> {
    let served = kinds.iter().map(|kind| {
        let [group, version, kind] = kind.split('/').collect::<Vec<_>>().try_into().expect("three parts");
        json!({"metadata": {"name": group}, "versions": [{"version": version, "resources": [{
            "resource": format!("{}s", kind.to_lowercase()), "scope": "Namespaced",
            "responseKind": {"group": group, "version": version, "kind": kind}}]}]})
    });
    let stale = stale.iter().map(
        |group| json!({"metadata": {"name": group}, "versions": [{"version": "v1", "freshness": "Stale"}]}),
    );
    let items: Vec<Value> = served.chain(stale).collect();
    let answer = json!({"kind": "APIGroupDiscoveryList", "items": items}).to_string();
    ServedKinds::read(&[answer.as_bytes()]).expect("discovery")
}

/// A plane that serves this and answers so, once it has tried to list its definitions.
pub(crate) async fn plane(
    kinds: Arc<ServedKinds>,
    answer: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static,
) -> Plane {
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    let access = Access::Remote(RemoteAccess {
        server: http::Uri::from_static("https://10.0.0.1:6443"),
        tls_server_name: None,
        ca_pem: None,
        auth: Auth::Token(SecretString::from("token")),
    });
    let metrics = Arc::new(PlaneMetrics::default());
    let settings = PlaneOptions::default().client_settings();
    let mut connection =
        Connection::open(&access, None, &settings, &metrics, &tasks, &stop).expect("nothing is dialled");
    let client = client(answer);
    connection.calls = client.clone();
    connection.watches = client.clone();
    let key = PlaneKey { namespace: "acme".to_owned(), name: "plane".to_owned() };
    let (sender, kinds) = watch::channel(kinds);
    let surroundings = Surroundings {
        plane: key.clone(),
        client: connection.watches.clone(),
        tasks: tasks.clone(),
        closed: connection.closed.child_token(),
        changes: Subscribers::default(),
        kinds: kinds.clone(),
        first_retry: Duration::from_hours(1),
        metrics: metrics.clone(),
        room: connection.room.clone(),
    };
    let defined = Arc::new(Defined::follow(surroundings, true, Arc::<Ever>::default()));
    defined.listed().await;
    let served = kinds.borrow().clone();
    defined.read(&client, &served, Duration::from_secs(5)).await;
    let facts = Facts {
        server_version: "v1.36.3".to_owned(),
        cluster_uid: "uid".to_owned(),
        capabilities: Capabilities::default(),
    };
    let session = Session::new(&connection, tasks, Subscribers::default(), kinds, defined, 2, metrics);
    // The plane lives as long as the test.
    std::mem::forget((connection, sender));
    Plane::new(key, 1, facts, Duration::from_millis(50), session)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::poll;
    use kantor_core::known::Known;

    use super::*;
    use crate::planes::Kind;

    /// The answer to whoever lists definitions: one whose names have never been accepted, in this version.
    fn never_accepted(version: usize) -> (u16, Value) {
        let conditions = json!([
            {"type": "NamesAccepted", "status": "False", "reason": "KindConflict"},
            {"type": "Established", "status": "False", "reason": "NotAccepted"},
        ]);
        let metadata =
            json!({"name": "widgets.example.com", "resourceVersion": version.to_string(), "uid": "uid"});
        let definition = json!({"metadata": metadata, "status": {"conditions": conditions}});
        let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": [definition]});
        (200, list)
    }

    #[tokio::test]
    async fn a_definition_that_was_never_accepted_keeps_nobody_waiting() {
        let widget = Kind::new("example.com", "v1", "Widget");
        let never = plane(discovery(&[], &[]), |_| never_accepted(1)).await;
        assert!(matches!(never.known(&widget), Known::Absent(_)), "{:?}", never.known(&widget));
        assert_eq!(never.unseen(), Ok(vec![]));

        // Read in another version than the watch has told of: it may have become another one.
        let asked = AtomicUsize::new(0);
        let changed = move |_: &str| never_accepted(asked.fetch_add(1, Ordering::Relaxed));
        let changed = plane(discovery(&[], &[]), changed).await;
        assert!(matches!(changed.known(&widget), Known::Unknown(_)), "{:?}", changed.known(&widget));
        assert_eq!(changed.unseen(), Ok(vec!["example.com".to_owned()]));

        // Not read at all.
        let asked = AtomicUsize::new(0);
        let refused = move |_: &str| {
            if asked.fetch_add(1, Ordering::Relaxed) == 0 { never_accepted(1) } else { refusal(500) }
        };
        let refused = plane(discovery(&[], &[]), refused).await;
        assert!(matches!(refused.known(&widget), Known::Unknown(_)), "{:?}", refused.known(&widget));
    }

    #[tokio::test]
    async fn slots_and_turns_of_one_plane_are_no_other_planes() {
        let of = || plane(discovery(&[], &[]), |_| list(&[]));
        let (one, other) = (of().await, of().await);
        let _slots = [one.slots().acquire_owned().await, one.slots().acquire_owned().await];
        assert!(one.slots().try_acquire_owned().is_err());
        assert!(other.slots().try_acquire_owned().is_ok());
        let _turn = one.turn("Deployment").await;
        assert!(poll!(Box::pin(one.turn("Deployment"))).is_pending());
        assert!(poll!(Box::pin(other.turn("Deployment"))).is_ready());
    }
}
