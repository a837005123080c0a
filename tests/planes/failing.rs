use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kantor::planes::{DisconnectReason, NotConnected, PlaneOptions, PlaneState};
use kantor_testbed::{
    KubeconfigSpec,
    kubeconfig::Auth,
    proxy::{Action, Fault, Match, Verb},
    wait::{self, Seen},
};
use kube::Api;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinSet,
};

use crate::support::{PATIENCE, Stage, access, bare, is_probe, key, options, soon, token, whoami};

#[tokio::test(flavor = "multi_thread")]
async fn revoked_credentials_end_the_connection_at_once_and_new_ones_bring_it_back_at_once() {
    // Neither probes nor attempts come by themselves during this test.
    let slow = PlaneOptions { probe_interval: Duration::from_hours(1), ..options() };
    let stage = Stage::on(bare(), "revoked", slow).await;
    let (old, new) = (stage.fresh_token("old").await, stage.fresh_token("new").await);
    stage.want(&old);
    let plane = stage.plane().await;
    let revoked = token(&old).to_owned();
    let refusal = Match::new().that(move |record| record.credential.is_token(&revoked));
    let _revoked = stage.proxy.fault(Fault::when(refusal).then(Action::status(401)));
    let mark = stage.proxy.mark();
    // A controller's call is answered 401: that alone makes the connector look.
    whoami(&plane.calls()).await.unwrap_err();
    let message = stage.lost(DisconnectReason::Unauthorized).await;
    assert!(message.contains("Secret"), "{message}");
    assert!(plane.cancelled().is_cancelled());
    let probes = stage.proxy.since(mark).filter(is_probe);
    assert_eq!(probes.iter().filter(|probe| probe.code() == Some(401)).count(), 1, "{probes}");
    let Some(PlaneState::Disconnected { last_contact, .. }) = stage.planes.state(&stage.key) else {
        panic!()
    };
    assert!(last_contact.is_some());

    // Let the wait between attempts grow, then see that new credentials do not wait for its end.
    let attempts = |stage: &Stage| stage.proxy.since(mark).filter(|r| r.target.path == "/version").len();
    wait::until("some attempts failed", PATIENCE, || async {
        let count = attempts(&stage);
        Ok(if count >= 4 { Seen::Done(()) } else { Seen::NotYet(count.to_string()) })
    })
    .await
    .unwrap();
    let before = stage.proxy.mark();
    let last = stage.proxy.since(mark).last().unwrap().at;
    stage.want(&new);
    stage.plane().await;
    let since = stage.proxy.since(before);
    assert!(since.iter().all(|record| record.credential.is_token(token(&new))), "{since}");
    // After the fourth attempt the wait is at least this long.
    assert!(since[0].at - last < Duration::from_secs(6), "it did not wait for its turn");
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_are_refused_again_and_again_are_not_tried_in_a_hurry() {
    let stage = Stage::new("hurry").await;
    let wrong =
        |n: u32| KubeconfigSpec { auth: Auth::Token(format!("wrong-{n}")), ..stage.cluster.kubeconfig() };
    stage.want(&wrong(0));
    stage.lost(DisconnectReason::Unauthorized).await;
    let mark = stage.proxy.mark();
    stage.want(&wrong(1));
    // At once with the new credentials, then after half a second and after another.
    let of = |n: u32| move |r: &kantor_testbed::proxy::Record| r.credential.is_token(&format!("wrong-{n}"));
    let first = stage.proxy.await_request_since(mark, of(1), PATIENCE).await.unwrap();
    let second =
        stage.proxy.await_request_since(mark, |r| of(1)(r) && r.seq > first.seq, PATIENCE).await.unwrap();
    let third =
        stage.proxy.await_request_since(mark, |r| of(1)(r) && r.seq > second.seq, PATIENCE).await.unwrap();
    // Lower bounds only: a busy machine makes waits longer, never shorter.
    assert!(second.at - first.at >= Duration::from_millis(370));
    assert!(third.at - second.at >= Duration::from_millis(740));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plane_that_refuses_connections_is_lost_and_found_again() {
    let (stage, plane) = Stage::connected("refuses").await;
    let mut changes = stage.planes.changes();
    stage.proxy.refuse(true);
    let message = stage.lost(DisconnectReason::Unreachable).await;
    assert!(message.contains("check its address"), "{message}");
    assert!(plane.cancelled().is_cancelled());
    assert_eq!(soon(changes.recv()).await.unwrap(), stage.key);
    stage.proxy.refuse(false);
    let again = stage.plane().await;
    assert_eq!(soon(changes.recv()).await.unwrap(), stage.key);
    whoami(&again.calls()).await.unwrap();
    whoami(&plane.calls()).await.expect_err("a plane that was lost stays lost for those who hold it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plane_that_hangs_is_lost_and_found_again_and_its_calls_end() {
    let quick = PlaneOptions { probe_timeout: Duration::from_secs(1), ..options() };
    let stage = Stage::on(bare(), "hangs", quick).await;
    stage.want(&stage.cluster.kubeconfig());
    let plane = stage.plane().await;
    let hang = stage.proxy.fault(Fault::when(Match::new()).then(Action::Hang));
    let call = tokio::spawn({
        let client = plane.calls();
        async move { whoami(&client).await }
    });
    let message = stage.lost(DisconnectReason::Unreachable).await;
    assert!(message.contains("in time"), "{message}");
    // The call would have hung for the time-out of the connection; it ends with the plane.
    soon(call).await.unwrap().unwrap_err();
    hang.remove();
    whoami(&stage.plane().await.calls()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_black_hole_is_noticed_and_recovers_when_it_answers() {
    // The time-out of the connection, not that of the attempt, ends it.
    let quick =
        PlaneOptions { connect_timeout: Duration::from_secs(1), attempt_timeout: PATIENCE * 10, ..options() };
    let stage = Stage::on(bare(), "black-hole", quick).await;
    // The system accepts the connection, and nobody ever answers.
    let hole = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = hole.local_addr().unwrap();
    let spec = stage.cluster.kubeconfig().at(format!("https://{address}"), stage.proxy.ca_pem());
    stage.planes.want(&stage.key, access(&spec));
    let message = stage.lost(DisconnectReason::Unreachable).await;
    assert!(message.contains("in time"), "{message}");
    let upstream = stage.proxy.url().trim_start_matches("https://").to_owned();
    let (_open, mut closed) = oneshot::channel::<()>();
    tokio::spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                _ = &mut closed => return,
                accepted = hole.accept() => {
                    let (mut client, _) = accepted.unwrap();
                    let upstream = upstream.clone();
                    connections.spawn(async move {
                        let mut server = TcpStream::connect(&upstream).await.unwrap();
                        copy_bidirectional(&mut client, &mut server).await.ok();
                    });
                }
            }
        }
    });
    whoami(&stage.plane().await.calls()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn whether_a_plane_is_connected_is_answered_without_asking_anyone() {
    let stage = Stage::new("no-dialling").await;
    let _hang = stage.proxy.fault(Fault::when(Match::new()).then(Action::Hang));
    assert!(matches!(stage.planes.get(&stage.key), Err(NotConnected::NotWanted(_))));
    stage.want(&stage.cluster.kubeconfig());
    stage.request(|_| true).await;
    let mark = stage.proxy.mark();
    // The attempt hangs; each answer is there at once, from a function that cannot wait.
    for _ in 0..10_000 {
        assert!(matches!(stage.planes.get(&stage.key), Err(NotConnected::Connecting(_))));
    }
    stage.proxy.assert_no_requests_since(mark);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plane_that_hangs_does_not_hold_up_another() {
    let (slow, plane) = Stage::connected("hangs-alone").await;
    let key = key("goes-on");
    let proxy = kantor_testbed::proxy::Proxy::start(bare()).unwrap();
    slow.planes.want(&key, access(&bare().kubeconfig().at(proxy.url(), proxy.ca_pem())));
    let healthy = slow.registry.connected(&key).await;

    // More calls than the plane takes at a time, and more than its burst.
    let calls = Match::new().resource("configmaps");
    let hang = slow.proxy.fault(Fault::when(calls).then(Action::Hang));
    let hanging: Api<ConfigMap> = Api::namespaced(plane.calls(), "default");
    let mut stuck = JoinSet::new();
    for _ in 0..300 {
        let hanging = hanging.clone();
        stuck.spawn(async move { hanging.get_opt("x").await });
    }
    hang.await_hits(32, PATIENCE).await.unwrap();
    let configs: Api<ConfigMap> = Api::namespaced(healthy.calls(), "default");
    for _ in 0..50 {
        configs.get_opt("x").await.unwrap();
    }
    assert_eq!(proxy.requests().verb(Verb::Get).resource("configmaps").len(), 50);
    assert!(stuck.try_join_next().is_none(), "all calls of the other plane still hang");
    // No more of them than allowed have been sent, and they do not keep the connector from probing.
    assert_eq!(hang.hits(), 32);
    let mark = slow.proxy.mark();
    slow.proxy.await_request_since(mark, |r| is_probe(r) && r.code() == Some(200), PATIENCE).await.unwrap();
    assert!(slow.planes.get(&slow.key).is_ok());
}
