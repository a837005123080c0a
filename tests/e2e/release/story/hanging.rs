//! Releases that go while their plane does not answer.

use serde_json::json;

use crate::release::support::{Theatre, config_map, home, start_operator};

/// A Release with an object on a plane that then stops answering.
async fn on_a_plane_that_hangs() -> (Theatre, kantor_testbed::snapshot::Snapshot) {
    let mut theatre = Box::pin(Theatre::open()).await;
    theatre.stage.operator.kill().unwrap();
    theatre.stage.operator.ended().await.unwrap();
    start_operator(&mut theatre.stage, &["--plane-timeout=2"]).await;
    let before = theatre.snapshot().await;
    theatre.create("first", &[("settings", config_map("settings", json!({"colour": "blue"})))]).await;
    theatre.ready("first").await;
    theatre.plane.cluster.pause().unwrap();
    (theatre, before)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plane_that_hangs_keeps_the_finalizer_and_is_named_until_it_is_back() {
    let (theatre, before) = on_a_plane_that_hangs().await;
    theatre.ask_to_delete("first").await;
    let names_plane = |message: &str| message.contains("data plane plane: it does not answer");
    let (reason, _) = theatre.finalizing("first", names_plane).await;
    assert_eq!(reason, "CleanupFailed");

    theatre.plane.cluster.resume().unwrap();
    theatre.until_gone("first").await;
    theatre.nothing_left(&before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orphaning_release_goes_without_its_plane_and_says_what_stays() {
    let (theatre, _) = on_a_plane_that_hangs().await;
    let mark = theatre.plane.proxy.mark();
    theatre.annotate("first", "openchoreo.dev/deletion-policy", "Orphan").await;
    theatre.ask_to_delete("first").await;
    theatre.until_gone("first").await;
    let note = theatre.event("first", "LeftBehind").await;
    for named in
        ["data plane plane", &format!("ConfigMap {}/settings", home()), &format!("Namespace {}", home())]
    {
        assert!(note.contains(named), "{note}");
    }

    theatre.plane.cluster.resume().unwrap();
    theatre.quiet().await;
    theatre.plane.proxy.assert_no_writes_since(mark);
    assert!(theatre.plane.get("v1/ConfigMap", &home(), "settings").await.is_some());
}
