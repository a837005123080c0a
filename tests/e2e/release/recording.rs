//! What is recorded before it is made is removed, whatever happens in between.

use kantor_api::Release;
use kantor_testbed::proxy::{Action, Fault, Match, Verb};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

use super::support::{Theatre, at_home, config_map, entry, home, release};
use crate::support::PATIENCE;

/// A name that no ConfigMap can have.
const BAD: &str = "Not_A_Name";

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_named_before_they_are_made_and_go_although_another_one_fails() {
    let mut theatre = Theatre::open().await;
    let before = theatre.snapshot().await;
    let resources =
        [("good", config_map("good", json!({}))), ("bad", config_map(BAD, json!({"colour": "blue"})))];

    // Nothing has been written, and everything that may be is known.
    let first = theatre.plane.proxy.fault(Fault::when(Match::new().writes().nth(1)).then(Action::HoldBefore));
    theatre.create("held", &resources).await;
    first.await_hit(PATIENCE).await.unwrap();
    let status = theatre.stage.there::<Release>("acme/held").await.status.unwrap();
    assert_eq!(status.data_plane.unwrap().name, "plane");
    let names: Vec<_> =
        status.resources.iter().map(|entry| (&*entry.id, &*entry.kind, &*entry.name)).collect();
    assert_eq!(names, [("good", "ConfigMap", "good"), ("bad", "ConfigMap", BAD)]);
    assert_eq!(status.namespaces, [home()]);
    assert_eq!(theatre.plane.get("v1/Namespace", "", &home()).await, None);
    first.release();

    // Deleted while one object is refused, the other one goes.
    theatre.plane.there("v1/ConfigMap", &home(), "good").await;
    theatre.says("held", "Applied", "False", "ApplyRefused").await;
    theatre.delete("held").await;
    theatre.nothing_left(&before).await;

    // Edited while one object is refused, the other one goes.
    theatre.create("edited", &resources).await;
    theatre.says("edited", "Applied", "False", "ApplyRefused").await;
    theatre.plane.there("v1/ConfigMap", &home(), "good").await;
    theatre.edit("edited", &[("other", config_map("other", json!({})))]).await;
    theatre.plane.gone("v1/ConfigMap", &home(), "good").await;
    theatre.ready("edited").await;
    theatre.delete("edited").await;
    theatre.nothing_left(&before).await;

    // Made by an operator that died before it knew.
    let made = Match::new().verb(Verb::Apply).name("good").nth(1);
    let made = theatre.plane.proxy.fault(Fault::when(made).then(Action::HoldAfter));
    theatre.create("crashed", &resources).await;
    made.await_hit(PATIENCE).await.unwrap();
    theatre.ask_to_delete("crashed").await;
    theatre.stage.restart_operator().await;
    theatre.until_gone("crashed").await;
    theatre.nothing_left(&before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_object_under_the_same_id_takes_the_place_of_the_first() {
    let theatre = Theatre::open().await;
    let before = theatre.snapshot().await;
    let plane = &theatre.plane;
    theatre.create("shop", &[("thing", config_map("old", json!({"a": "b"})))]).await;
    theatre.ready("shop").await;

    // Another name: the new one is there before the old one goes.
    let mark = plane.proxy.mark();
    theatre.edit("shop", &[("thing", config_map("new", json!({"a": "b"})))]).await;
    plane.gone("v1/ConfigMap", &home(), "old").await;
    let release = theatre.ready("shop").await;
    let new = plane.there("v1/ConfigMap", &home(), "new").await;
    let told = entry(&release, "thing");
    assert_eq!((&*told.name, told.uid.as_deref()), ("new", new["metadata"]["uid"].as_str()));
    assert_eq!(release.status.unwrap().removing, []);
    let writes = plane.proxy.writes_since(mark);
    let seq = |verb, name: &str| writes.clone().verb(verb).name(name).first().unwrap().seq;
    assert!(seq(Verb::Apply, "new") < seq(Verb::Delete, "old"), "{writes}");

    // Another kind.
    let secret = at_home("v1/Secret", "new", json!({"stringData": {"password": "hunter2"}}));
    theatre.edit("shop", &[("thing", secret.clone())]).await;
    plane.gone("v1/ConfigMap", &home(), "new").await;
    let release = theatre.ready("shop").await;
    let live = plane.there("v1/Secret", &home(), "new").await;
    let told = entry(&release, "thing");
    assert_eq!((&*told.kind, told.uid.as_deref()), ("Secret", live["metadata"]["uid"].as_str()));

    // Another id for the same object: it stays.
    theatre.edit("shop", &[("other", secret)]).await;
    let release = theatre.ready("shop").await;
    assert_eq!(entry(&release, "other").uid.as_deref(), live["metadata"]["uid"].as_str());
    let live = plane.there("v1/Secret", &home(), "new").await;
    assert_eq!(live["metadata"]["labels"]["openchoreo.dev/release-resource-id"], "other");
    theatre.delete("shop").await;
    theatre.nothing_left(&before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_and_names_may_be_long_and_odd_but_not_the_same() {
    let theatre = Theatre::open().await;
    let before = theatre.snapshot().await;
    let releases: Api<Release> = Api::namespaced(theatre.stage.client.clone(), "acme");

    let twice = release("twice", &[("a", config_map("x", json!({}))), ("a", config_map("y", json!({})))]);
    let refused = releases.create(&PostParams::default(), &twice).await.unwrap_err().to_string();
    assert!(refused.contains("Duplicate value"), "{refused}");

    let mark = theatre.plane.proxy.mark();
    let one = config_map("one", json!({"by": "first"}));
    theatre.create("same", &[("here", one.clone()), ("there", one), ("x", config_map("x", json!({})))]).await;
    let message = theatre.says("same", "Applied", "False", "InvalidResource").await;
    for part in ["ConfigMap", "one", "here", "there"] {
        assert!(message.contains(part), "{message}");
    }
    theatre.says("same", "Ready", "False", "InvalidResource").await;
    theatre.quiet().await;
    theatre.plane.proxy.assert_no_writes_since(mark);
    theatre.delete("same").await;

    let name = "r".repeat(200);
    let odd = |end: &str| format!("{}{end}", "ä ö/<id>&".repeat(30).chars().take(199).collect::<String>());
    let (a, b) = (odd("1"), odd("2"));
    let mut long = release(&name, &[(&a, config_map("a", json!({}))), (&b, config_map("b", json!({})))]);
    // Not for a label of the Release itself.
    long.metadata.labels = None;
    theatre.stage.create(&long).await;
    let release = theatre.ready(&name).await;
    let mut values = vec![];
    for (id, name) in [(&a, "a"), (&b, "b")] {
        assert_eq!(entry(&release, id).name, name);
        let live = theatre.plane.there("v1/ConfigMap", &home(), name).await;
        assert_eq!(live["metadata"]["annotations"]["openchoreo.dev/release-resource-id"], **id);
        values.push(live["metadata"]["labels"]["openchoreo.dev/release-resource-id"].clone());
    }
    assert_ne!(values[0], values[1]);
    // Found by its labels all the same: it is kept, and goes.
    theatre.plane.api("v1/ConfigMap", &home()).delete("a", &DeleteParams::default()).await.unwrap();
    let uid = entry(&release, &a).uid.clone();
    theatre
        .plane
        .until("the object is back", ("v1/ConfigMap", &home(), "a"), |found| {
            (found?["metadata"]["uid"].as_str() != uid.as_deref()).then_some(())
        })
        .await;
    theatre.delete(&name).await;
    theatre.nothing_left(&before).await;
}
