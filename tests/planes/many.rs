use std::net::{Ipv4Addr, TcpStream};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kantor::planes::{DisconnectReason, Follow, NotConnected, PlaneState};
use kantor_testbed::wait::{self, Seen};
use kube::api::ApiResource;

use crate::support::{PATIENCE, Stage, access, key, soon, whoami};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_a_plane_that_is_forgotten() {
    let (stage, plane) = Stage::connected("forgotten").await;
    let configs = plane.follow(&ApiResource::erase::<ConfigMap>(&()), "", Follow::Whole);
    let secrets = plane.follow(&ApiResource::erase::<Secret>(&()), "", Follow::Metadata);
    assert!(soon(configs.synced()).await && soon(secrets.synced()).await);
    for kind in ["configmaps", "secrets", "customresourcedefinitions"] {
        stage.request(|record| record.resource() == kind && record.is_open_watch()).await;
    }
    let mut changes = stage.planes.changes();

    soon(stage.planes.forget(&stage.key)).await;
    assert_eq!(stage.planes.get(&stage.key).unwrap_err(), NotConnected::NotWanted(stage.key.clone()));
    assert_eq!(stage.planes.state(&stage.key), None);
    assert_eq!(soon(changes.recv()).await.unwrap(), stage.key);
    assert!(plane.cancelled().is_cancelled() && configs.ended() && secrets.ended());
    assert_eq!(stage.registry.tasks.len(), 0, "no task is left");
    wait::until("the proxy has no open request", PATIENCE, || async {
        let open = stage.proxy.requests().filter(|record| !record.is_over());
        Ok(if open.is_empty() { Seen::Done(()) } else { Seen::NotYet(open.to_string()) })
    })
    .await
    .unwrap();
    let mark = stage.proxy.mark();
    // Who still holds it gets an error at once; nothing is sent.
    whoami(&plane.calls()).await.unwrap_err();
    whoami(&plane.watches()).await.unwrap_err();
    let late = plane.follow(&ApiResource::erase::<ConfigMap>(&()), "late", Follow::Whole);
    assert!(!soon(late.synced()).await);
    stage.proxy.assert_no_requests_since(mark);
    // Forgetting what is not there does nothing, and the plane can come back.
    soon(stage.planes.forget(&stage.key)).await;
    stage.want(&stage.cluster.kubeconfig());
    whoami(&stage.plane().await.calls()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plane_that_is_forgotten_and_wanted_at_once_is_connected() {
    let (stage, first) = Stage::connected("at-once").await;
    for _ in 0..20 {
        drop(stage.planes.forget(&stage.key));
        stage.want(&stage.cluster.kubeconfig());
    }
    stage.plane().await;
    assert!(first.cancelled().is_cancelled());
    // The ends of the earlier ones do not take the last one away.
    wait::until("only the last is left", PATIENCE, || async {
        let left = stage.registry.tasks.len();
        Ok(if left == 1 { Seen::Done(()) } else { Seen::NotYet(format!("{left} connectors")) })
    })
    .await
    .unwrap();
    whoami(&stage.planes.get(&stage.key).unwrap().calls()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_dead_planes_do_not_keep_a_living_one_from_working() {
    const DEAD: usize = 500;
    let stage = Stage::new("living").await;
    // Of the ports that no system hands out: a free one of the others may be another test's the next moment.
    let closed = |port: &u16| TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).is_err();
    let ports: Vec<u16> = (2..200).filter(closed).take(20).collect();
    let dead: Vec<_> = (0..DEAD).map(|n| key(&format!("dead-{n}"))).collect();
    for (n, key) in dead.iter().enumerate() {
        let server = format!("https://127.0.0.1:{}", ports[n % ports.len()]);
        stage.planes.want(key, access(&stage.cluster.kubeconfig().at(server, stage.proxy.ca_pem())));
    }
    stage.want(&stage.cluster.kubeconfig());
    let plane = stage.plane().await;
    for _ in 0..50 {
        whoami(&plane.calls()).await.unwrap();
    }
    for key in &dead {
        stage.registry.lost(key, &DisconnectReason::Unreachable).await;
    }
    let Some(PlaneState::Connected { since, .. }) = stage.planes.state(&stage.key) else { panic!() };
    assert!(!plane.cancelled().is_cancelled(), "connected since {since}, and never lost");
    let ending: Vec<_> = dead.iter().map(|key| stage.planes.forget(key)).collect();
    soon(futures::future::join_all(ending)).await;
    assert_eq!(stage.registry.tasks.len(), 1, "only the living one is left");
    whoami(&plane.calls()).await.unwrap();
}
