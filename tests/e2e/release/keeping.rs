//! Applying, repairing, editing, removing.

use serde_json::json;

use super::support::{ReleaseFixture, config_map, entry, home};

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_applied_kept_and_removed_without_a_trace() {
    let fixture = ReleaseFixture::open().await;
    let before = fixture.snapshot().await;
    fixture.create("first", &[("settings", config_map("settings", json!({"colour": "blue"})))]).await;
    let release = fixture.ready("first").await;
    let settings = fixture.plane.get("v1/ConfigMap", &home(), "settings").await.unwrap();
    assert_eq!(settings["data"]["colour"], "blue");
    assert_eq!(entry(&release, "settings").uid.as_deref(), settings["metadata"]["uid"].as_str());

    // Nothing to do is nothing asked.
    fixture.quiet().await;
    let mark = fixture.plane.proxy.mark();
    fixture.touch("first").await;
    let asked = fixture.plane.asked_since(mark);
    assert!(asked.is_empty(), "{asked}");

    // Drift is repaired.
    fixture.plane.patch("v1/ConfigMap", &home(), "settings", json!({"data": {"colour": "red"}})).await;
    fixture
        .plane
        .until("the colour is back", ("v1/ConfigMap", &home(), "settings"), |found| {
            (found?["data"]["colour"] == "blue").then_some(())
        })
        .await;

    fixture.delete("first").await;
    fixture.nothing_left(&before).await;
}
