//! Whose an object is: nothing of others is overwritten or deleted.

use kantor_testbed::proxy::Verb;
use serde_json::json;

use super::support::{Theatre, config_map, entry, home};

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_others_are_left_alone_until_they_may_be_taken_over() {
    let theatre = Theatre::open().await;
    let plane = &theatre.plane;
    theatre.create("first", &[("own", config_map("own", json!({})))]).await;
    theatre.ready("first").await;
    let foreign =
        json!({"metadata": {"name": "theirs", "namespace": home()}, "data": {"by": "them", "x": "y"}});
    plane.create("v1/ConfigMap", &home(), foreign).await;
    let untouched = plane.get("v1/ConfigMap", &home(), "theirs").await.unwrap();

    // Nobody's whom Kantor knows.
    let resources =
        [("own", config_map("own", json!({}))), ("theirs", config_map("theirs", json!({"by": "us"})))];
    theatre.edit("first", &resources).await;
    let message = theatre.says("first", "Applied", "False", "ApplyRefused").await;
    assert!(message.contains("theirs") && message.contains("openchoreo.dev/adopt"), "{message}");
    assert_eq!(plane.get("v1/ConfigMap", &home(), "theirs").await.unwrap(), untouched);
    // Not deleted either, when it is no longer wanted.
    theatre.edit("first", &resources[..1]).await;
    theatre.ready("first").await;
    theatre.quiet().await;
    assert_eq!(plane.get("v1/ConfigMap", &home(), "theirs").await.unwrap(), untouched);

    theatre.edit("first", &resources).await;
    theatre.says("first", "Applied", "False", "ApplyRefused").await;
    theatre.annotate("first", "openchoreo.dev/adopt", "true").await;
    let release = theatre.ready("first").await;
    let taken = plane.get("v1/ConfigMap", &home(), "theirs").await.unwrap();
    assert_eq!(taken["metadata"]["uid"], untouched["metadata"]["uid"]);
    assert_eq!(taken["data"], json!({"by": "us", "x": "y"}));
    assert_eq!(entry(&release, "theirs").uid.as_deref(), taken["metadata"]["uid"].as_str());

    // Another Release's.
    theatre.quiet().await;
    let mark = plane.proxy.mark();
    let taken = plane.get("v1/ConfigMap", &home(), "theirs").await.unwrap();
    theatre.create("second", &[("it", config_map("theirs", json!({"by": "second"})))]).await;
    let message = theatre.says("second", "Applied", "False", "ApplyRefused").await;
    assert!(message.contains("theirs") && message.contains("Release acme/first"), "{message}");
    theatre.delete("second").await;
    theatre.quiet().await;
    assert_eq!(plane.get("v1/ConfigMap", &home(), "theirs").await.unwrap(), taken);
    let deletions = plane.proxy.since(mark).verb(Verb::Delete);
    assert!(deletions.is_empty(), "{deletions}");
    theatre.ready("first").await;
}
