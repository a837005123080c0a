//! Applying, repairing, editing, removing.

use serde_json::json;

use super::support::{Theatre, config_map, entry, home};

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_applied_kept_and_removed_without_a_trace() {
    let theatre = Theatre::open().await;
    let before = theatre.snapshot().await;
    theatre.create("first", &[("settings", config_map("settings", json!({"colour": "blue"})))]).await;
    let release = theatre.ready("first").await;
    let settings = theatre.plane.get("v1/ConfigMap", &home(), "settings").await.unwrap();
    assert_eq!(settings["data"]["colour"], "blue");
    assert_eq!(entry(&release, "settings").uid.as_deref(), settings["metadata"]["uid"].as_str());

    // Nothing to do is nothing asked.
    theatre.quiet().await;
    let mark = theatre.plane.proxy.mark();
    theatre.touch("first").await;
    let asked = theatre.plane.asked_since(mark);
    assert!(asked.is_empty(), "{asked}");

    // Drift is repaired.
    theatre.plane.patch("v1/ConfigMap", &home(), "settings", json!({"data": {"colour": "red"}})).await;
    theatre
        .plane
        .until("the colour is back", ("v1/ConfigMap", &home(), "settings"), |found| {
            (found?["data"]["colour"] == "blue").then_some(())
        })
        .await;

    theatre.delete("first").await;
    theatre.nothing_left(&before).await;
}
