//! Planes that say more than anybody can keep.

use std::{fs, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kantor::planes::{Follow, Plane, PlaneState};
use kantor_testbed::{
    proxy::{Action, Fault, FaultHandle, Match, Verb},
    wait::{self, Seen},
};
use kube::{Api, api::ApiResource};
use serde_json::json;

use crate::support::{PATIENCE, Stage, soon};

/// More than is read of an answer or a line, with what waits in buffers, and as often as it is tried with smaller pages.
const MOST_SENT: u64 = 96 << 20;
/// More than is read of one answer to a call, with what waits in buffers, and less than all calls together may read.
const MOST_SENT_TO_A_CALL: u64 = 48 << 20;
/// More than the process may grow, with everything that other tests do meanwhile.
const MOST_GROWTH: u64 = 512 << 20;

/// What the process holds in memory.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() << 10
}

/// Waits until the plane says that it was told too much, while neither what is sent nor the process grows beyond all bounds.
async fn told_too_much(stage: &Stage, fault: &FaultHandle, most_sent: u64) -> String {
    let before = resident();
    wait::until("the plane says that it says too much", PATIENCE, || async {
        let (sent, grown) = (fault.sent(), resident().saturating_sub(before));
        assert!(sent <= most_sent, "{sent} bytes were read");
        assert!(grown <= MOST_GROWTH, "the process has grown by {grown} bytes");
        Ok(match stage.planes.state(&stage.key) {
            Some(PlaneState::Disconnected { why, message, .. }) if why.as_str() == "AnswerTooLarge" => {
                Seen::Done(message)
            }
            other => Seen::NotYet(format!("{other:?}, {sent} bytes sent")),
        })
    })
    .await
    .unwrap()
}

fn follow(plane: &Plane) {
    plane.follow(&ApiResource::erase::<ConfigMap>(&()), "", Follow::Whole);
}

fn config_maps(verb: Verb) -> Match {
    Match::new().verb(verb).resource("configmaps")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_without_end_ends_the_connection() {
    let (stage, plane) = Stage::connected("hostile-list").await;
    let endless = Action::Endless(r#"{"kind": "ConfigMapList", "items": [{"data": {"a": ""#.to_owned());
    let fault = stage.proxy.fault(Fault::when(config_maps(Verb::List)).then(endless));
    follow(&plane);
    let message = told_too_much(&stage, &fault, MOST_SENT).await;
    assert!(message.contains("ConfigMap") && message.contains("MiB"), "{message}");
    assert!(plane.cancelled().is_cancelled());
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_without_end_end_the_connection() {
    let (stage, plane) = Stage::connected("hostile-pages").await;
    let text = "x".repeat(100 << 10);
    let page = move |record: &kantor_testbed::proxy::Record| {
        let items: Vec<_> = (0..100)
            .map(|n| {
                let name = format!("c-{}-{n}", record.seq);
                json!({"metadata": {"name": name, "namespace": "ns", "resourceVersion": "1"}, "data": {"a": text}})
            })
            .collect();
        json!({"kind": "ConfigMapList", "apiVersion": "v1", "items": items,
            "metadata": {"resourceVersion": "1", "continue": "more"}})
    };
    let fault = stage.proxy.fault(Fault::when(config_maps(Verb::List)).then(Action::answer(page)));
    follow(&plane);
    told_too_much(&stage, &fault, 0).await;
    assert!(fault.hits() <= 20, "{} pages of 10 MB were read", fault.hits());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_line_without_end_ends_the_connection() {
    let (stage, plane) = Stage::connected("hostile-line").await;
    let endless = Action::Endless(r#"{"type": "ADDED", "object": {"data": {"a": ""#.to_owned());
    let fault = stage.proxy.fault(Fault::when(config_maps(Verb::Watch)).then(endless));
    follow(&plane);
    told_too_much(&stage, &fault, MOST_SENT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_end_to_a_call_or_to_discovery_ends_the_connection() {
    let (stage, plane) = Stage::connected("hostile-call").await;
    let endless = || Action::Endless(r#"{"kind": "ConfigMap", "data": {"a": ""#.to_owned());
    let fault = stage.proxy.fault(Fault::when(config_maps(Verb::Get)).then(endless()));
    let configs: Api<ConfigMap> = Api::namespaced(plane.calls(), &stage.namespace);
    soon(configs.get("x")).await.unwrap_err();
    assert!(fault.sent() <= MOST_SENT_TO_A_CALL, "{}", fault.sent());
    told_too_much(&stage, &fault, MOST_SENT_TO_A_CALL).await;
    fault.remove();

    let stage = Stage::new("hostile-discovery").await;
    let fault = stage.proxy.fault(Fault::when(Match::new().path("/apis")).then(endless()));
    stage.want(&stage.cluster.kubeconfig());
    told_too_much(&stage, &fault, MOST_SENT_TO_A_CALL).await;
    // It is not asked again in a hurry.
    let hits = fault.hits();
    assert!(hits <= 1, "{hits}");
    fault.await_hits(2, Duration::from_secs(3)).await.unwrap_err();
}
