use k8s_openapi::api::core::v1::ConfigMap;
use std::time::Duration;

use kantor::planes::{Follow, FollowState, PlaneOptions, RemoteChange};
use kantor_testbed::{
    KubeconfigSpec,
    proxy::{Action, Credential, Fault, Match, Proxy, Record, Verb},
};
use kube::{
    Api,
    api::{ApiResource, PostParams},
};
use tokio::sync::mpsc;

use crate::support::{PATIENCE, Stage, access, bare, config_map, is_probe, options, soon, token, whoami};

/// Exchanges the credentials of a plane under load: calls under way, calls all the time, a watch open.
async fn rotate(stage: &Stage, old: &KubeconfigSpec, new: &KubeconfigSpec, is_new: impl Fn(&Record) -> bool) {
    stage.want(old);
    let plane = stage.plane().await;
    let mut told = stage.planes.remote_changes();
    let followed = plane.follow(
        &ApiResource::erase::<ConfigMap>(&()),
        &format!("stage={}", stage.namespace),
        Follow::Whole,
    );
    assert!(soon(followed.synced()).await);
    let watch = stage.request(|r| r.resource() == "configmaps" && r.is_open_watch()).await;
    let crd_watch = stage.request(|r| r.resource() == "customresourcedefinitions" && r.is_open_watch()).await;

    // One call is at the server when the credentials change, and others are made all the time.
    let held = stage.proxy.fault(
        Fault::when(Match::new().verb(Verb::Get).resource("configmaps").name("held")).then(Action::HoldAfter),
    );
    let configs: Api<ConfigMap> = Api::namespaced(plane.calls(), &stage.namespace);
    let in_flight = tokio::spawn({
        let configs = configs.clone();
        async move { configs.get_opt("held").await }
    });
    held.await_hit(PATIENCE).await.unwrap();
    let (stop, mut stopped) = mpsc::channel::<()>(1);
    let load = tokio::spawn({
        let configs = configs.clone();
        async move {
            let mut calls = 0;
            while stopped.try_recv() == Err(mpsc::error::TryRecvError::Empty) {
                configs.get_opt("other").await.expect("no call fails while credentials change");
                calls += 1;
            }
            calls
        }
    });
    stage.request(|r| r.name() == "other").await;

    let mark = stage.proxy.mark();
    stage.want(new);
    // The next call is made with them, and so are all calls after the first such one.
    let first = stage.proxy.await_request_since(mark, &is_new, PATIENCE).await.unwrap();
    for _ in 0..20 {
        configs.get_opt("after").await.unwrap();
    }
    let later = stage.proxy.requests().filter(|r| r.name() == "after");
    assert_eq!(later.len(), 20);
    assert!(later.iter().all(|r| r.seq > first.seq && is_new(r)), "{later}");
    held.release();
    assert!(soon(in_flight).await.unwrap().unwrap().is_none(), "the call under way was answered");
    stop.send(()).await.unwrap();
    assert!(soon(load).await.unwrap() > 0);

    // The watches are the same ones, still open, and tell of what happens.
    stage
        .direct()
        .create(&PostParams::default(), &config_map("seen", &[("stage", &stage.namespace)]))
        .await
        .unwrap();
    let change: RemoteChange = soon(told.recv()).await.unwrap();
    assert_eq!((change.name.as_str(), followed.state()), ("seen", FollowState::Synced));
    let since = stage.proxy.since(mark);
    assert!(since.iter().all(|r| !matches!(r.verb(), Verb::List | Verb::Watch)), "no relist:\n{since}");
    for seq in [watch.seq, crd_watch.seq] {
        let record = stage.request(|r| r.seq == seq).await;
        assert!(record.is_open_watch(), "{record}");
    }
    // When one of them ends, as they do after some minutes, the next is asked for with the new credentials.
    let mark = stage.proxy.mark();
    let follows = Match::new().verb(Verb::Watch).resource("configmaps");
    let cut = stage.proxy.fault(Fault::when(follows).then(Action::CutWatch));
    cut.await_hit(PATIENCE).await.unwrap();
    let is_next = |r: &Record| r.verb() == Verb::Watch && r.resource() == "configmaps";
    let next = stage.proxy.await_request_since(mark, is_next, PATIENCE).await.unwrap();
    assert!(is_new(&next), "{next}");
    assert!(!plane.cancelled().is_cancelled());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_token_is_used_by_the_next_call_and_no_watch_or_call_notices() {
    let stage = Stage::new("token-rotation").await;
    let (old, new) = (stage.fresh_token("old").await, stage.fresh_token("new").await);
    rotate(&stage, &old, &new, |record| record.credential.is_token(token(&new))).await;
    let user = whoami(&stage.plane().await.calls()).await.unwrap();
    assert!(user.ends_with(":new"), "{user}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_client_certificate_is_used_by_the_next_call_and_no_watch_or_call_notices() {
    let stage = Stage::new("certificate-rotation").await;
    let (old, new) = (stage.fresh_certificate("old-cert"), stage.fresh_certificate("new-cert"));
    rotate(
        &stage,
        &old,
        &new,
        |record| matches!(&record.credential, Credential::Certificate { user, .. } if user == "new-cert"),
    )
    .await;
    let plane = stage.plane().await;
    assert_eq!(whoami(&plane.calls()).await.unwrap(), "new-cert");
    // Nor does a list that comes later use a connection that was opened with the old one.
    let client = plane.watches();
    assert_eq!(whoami(&client).await.unwrap(), "new-cert");
    let mark = stage.proxy.mark();
    stage.want(&old);
    let is_old =
        |r: &Record| matches!(&r.credential, Credential::Certificate { user, .. } if user == "old-cert");
    stage.proxy.await_request_since(mark, is_old, PATIENCE).await.unwrap();
    assert_eq!(whoami(&client).await.unwrap(), "old-cert");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_can_take_the_place_of_a_certificate_and_the_other_way_round() {
    let stage = Stage::new("kinds-of-credentials").await;
    let certificate = stage.fresh_certificate("by-cert");
    let token_spec = stage.fresh_token("by-token").await;
    stage.want(&certificate);
    let plane = stage.plane().await;
    let is_token = |r: &Record| r.credential.is_token(token(&token_spec));
    for _ in 0..2 {
        assert_eq!(whoami(&plane.calls()).await.unwrap(), "by-cert");
        let mark = stage.proxy.mark();
        stage.want(&token_spec);
        stage.proxy.await_request_since(mark, is_token, PATIENCE).await.unwrap();
        assert!(whoami(&plane.calls()).await.unwrap().ends_with(":by-token"));
        let mark = stage.proxy.mark();
        stage.want(&certificate);
        stage.proxy.await_request_since(mark, |r| !is_token(r), PATIENCE).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_access_again_changes_nothing() {
    // No probe comes by itself during this test.
    let slow = PlaneOptions { probe_interval: Duration::from_hours(1), ..options() };
    let stage = Stage::on(bare(), "same-again", slow).await;
    stage.want(&stage.cluster.kubeconfig());
    let plane = stage.plane().await;
    let mut changes = stage.planes.changes();
    let mark = stage.proxy.mark();
    for _ in 0..20 {
        stage.want(&stage.cluster.kubeconfig());
        whoami(&plane.calls()).await.unwrap();
    }
    let probes = stage.proxy.since(mark).filter(is_probe);
    assert!(probes.is_empty(), "{probes}");
    assert!(!plane.cancelled().is_cancelled());
    assert!(changes.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_server_or_authority_reconnects() {
    let (stage, first) = Stage::connected("moved").await;
    let admin = stage.cluster.kubeconfig();
    let second_proxy = Proxy::start(stage.cluster).unwrap();
    stage.planes.want(&stage.key, access(&admin.at(second_proxy.url(), second_proxy.ca_pem())));
    soon(first.cancelled().cancelled()).await;
    let second = stage.plane().await;
    assert_eq!(second.cluster_uid, first.cluster_uid);
    whoami(&first.calls()).await.expect_err("the old connection is closed");
    whoami(&second.calls()).await.unwrap();
    assert!(!second_proxy.requests().is_empty());
    stage.request(|r| r.resource() == "customresourcedefinitions" && r.is_over()).await;
    // The same address with an authority more.
    let both = format!("{}{}", second_proxy.ca_pem(), stage.proxy.ca_pem());
    stage.planes.want(&stage.key, access(&admin.at(second_proxy.url(), both)));
    soon(second.cancelled().cancelled()).await;
    stage.plane().await;
}
