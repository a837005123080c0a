//! Releases that go while their plane does not answer.

use serde_json::json;

use crate::release::support::{ReleaseFixture, config_map, home, start_operator};

/// A Release with an object on a plane that then stops answering.
async fn on_a_plane_that_hangs() -> (ReleaseFixture, kantor_testbed::snapshot::Snapshot) {
    let mut fixture = Box::pin(ReleaseFixture::open()).await;
    fixture.control.operator.kill().unwrap();
    fixture.control.operator.ended().await.unwrap();
    start_operator(&mut fixture.control, &["--plane-timeout=2"]).await;
    let before = fixture.snapshot().await;
    fixture.create("first", &[("settings", config_map("settings", json!({"colour": "blue"})))]).await;
    fixture.ready("first").await;
    fixture.plane.cluster.pause().unwrap();
    (fixture, before)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plane_that_hangs_keeps_the_finalizer_and_is_named_until_it_is_back() {
    let (fixture, before) = on_a_plane_that_hangs().await;
    fixture.ask_to_delete("first").await;
    let names_plane = |message: &str| message.contains("data plane plane: it does not answer");
    let (reason, _) = fixture.finalizing("first", names_plane).await;
    assert_eq!(reason, "CleanupFailed");

    fixture.plane.cluster.resume().unwrap();
    fixture.until_gone("first").await;
    fixture.nothing_left(&before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orphaning_release_goes_without_its_plane_and_says_what_stays() {
    let (fixture, _) = on_a_plane_that_hangs().await;
    let mark = fixture.plane.proxy.mark();
    fixture.annotate("first", "openchoreo.dev/deletion-policy", "Orphan").await;
    fixture.ask_to_delete("first").await;
    fixture.until_gone("first").await;
    let note = fixture.event("first", "LeftBehind").await;
    for named in
        ["data plane plane", &format!("ConfigMap {}/settings", home()), &format!("Namespace {}", home())]
    {
        assert!(note.contains(named), "{note}");
    }

    fixture.plane.cluster.resume().unwrap();
    fixture.quiet().await;
    fixture.plane.proxy.assert_no_writes_since(mark);
    assert!(fixture.plane.get("v1/ConfigMap", &home(), "settings").await.is_some());
}
