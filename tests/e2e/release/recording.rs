//! What is recorded before it is made is removed, whatever happens in between.

use kantor_api::Release;
use kantor_testbed::proxy::{Action, Fault, Match, Verb};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

use super::support::{ReleaseFixture, at_home, config_map, entry, home, release};
use crate::support::PATIENCE;

/// A name that no ConfigMap can have.
const BAD: &str = "Not_A_Name";

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_named_before_they_are_made_and_go_although_another_one_fails() {
    let mut fixture = ReleaseFixture::open().await;
    let before = fixture.snapshot().await;
    let resources =
        [("good", config_map("good", json!({}))), ("bad", config_map(BAD, json!({"colour": "blue"})))];

    // Nothing has been written, and everything that may be is known.
    let first = fixture.plane.proxy.fault(Fault::when(Match::new().writes().nth(1)).then(Action::HoldBefore));
    fixture.create("held", &resources).await;
    first.await_hit(PATIENCE).await.unwrap();
    let status = fixture.control.wait_exists::<Release>("acme/held").await.status.unwrap();
    assert_eq!(status.data_plane.unwrap().name, "plane");
    let names: Vec<_> =
        status.resources.iter().map(|entry| (&*entry.id, &*entry.kind, &*entry.name)).collect();
    assert_eq!(names, [("good", "ConfigMap", "good"), ("bad", "ConfigMap", BAD)]);
    assert_eq!(status.namespaces, [home()]);
    assert_eq!(fixture.plane.get("v1/Namespace", "", &home()).await, None);
    first.release();

    // Deleted while one object is refused, the other one goes.
    fixture.plane.wait_exists("v1/ConfigMap", &home(), "good").await;
    fixture.wait_condition("held", "Applied", "False", "ApplyRefused").await;
    fixture.delete("held").await;
    fixture.nothing_left(&before).await;

    // Edited while one object is refused, the other one goes.
    fixture.create("edited", &resources).await;
    fixture.wait_condition("edited", "Applied", "False", "ApplyRefused").await;
    fixture.plane.wait_exists("v1/ConfigMap", &home(), "good").await;
    fixture.edit("edited", &[("other", config_map("other", json!({})))]).await;
    fixture.plane.gone("v1/ConfigMap", &home(), "good").await;
    fixture.ready("edited").await;
    fixture.delete("edited").await;
    fixture.nothing_left(&before).await;

    // Made by an operator that died before it knew.
    let made = Match::new().verb(Verb::Apply).name("good").nth(1);
    let made = fixture.plane.proxy.fault(Fault::when(made).then(Action::HoldAfter));
    fixture.create("crashed", &resources).await;
    made.await_hit(PATIENCE).await.unwrap();
    fixture.ask_to_delete("crashed").await;
    fixture.control.restart_operator().await;
    fixture.until_gone("crashed").await;
    fixture.nothing_left(&before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_object_under_the_same_id_takes_the_place_of_the_first() {
    let fixture = ReleaseFixture::open().await;
    let before = fixture.snapshot().await;
    let plane = &fixture.plane;
    fixture.create("shop", &[("thing", config_map("old", json!({"a": "b"})))]).await;
    fixture.ready("shop").await;

    // Another name: the new one is there before the old one goes.
    let mark = plane.proxy.mark();
    fixture.edit("shop", &[("thing", config_map("new", json!({"a": "b"})))]).await;
    plane.gone("v1/ConfigMap", &home(), "old").await;
    let release = fixture.ready("shop").await;
    let new = plane.wait_exists("v1/ConfigMap", &home(), "new").await;
    let told = entry(&release, "thing");
    assert_eq!((&*told.name, told.uid.as_deref()), ("new", new["metadata"]["uid"].as_str()));
    assert_eq!(release.status.unwrap().removing, []);
    let writes = plane.proxy.writes_since(mark);
    let seq = |verb, name: &str| writes.clone().verb(verb).name(name).first().unwrap().seq;
    assert!(seq(Verb::Apply, "new") < seq(Verb::Delete, "old"), "{writes}");

    // Another kind.
    let secret = at_home("v1/Secret", "new", json!({"stringData": {"password": "hunter2"}}));
    fixture.edit("shop", &[("thing", secret.clone())]).await;
    plane.gone("v1/ConfigMap", &home(), "new").await;
    let release = fixture.ready("shop").await;
    let live = plane.wait_exists("v1/Secret", &home(), "new").await;
    let told = entry(&release, "thing");
    assert_eq!((&*told.kind, told.uid.as_deref()), ("Secret", live["metadata"]["uid"].as_str()));

    // Another id for the same object: it stays.
    fixture.edit("shop", &[("other", secret)]).await;
    let release = fixture.ready("shop").await;
    assert_eq!(entry(&release, "other").uid.as_deref(), live["metadata"]["uid"].as_str());
    let live = plane.wait_exists("v1/Secret", &home(), "new").await;
    assert_eq!(live["metadata"]["labels"]["openchoreo.dev/release-resource-id"], "other");
    fixture.delete("shop").await;
    fixture.nothing_left(&before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_and_names_may_be_long_and_odd_but_not_the_same() {
    let fixture = ReleaseFixture::open().await;
    let before = fixture.snapshot().await;
    let releases: Api<Release> = Api::namespaced(fixture.control.client.clone(), "acme");

    let twice = release("twice", &[("a", config_map("x", json!({}))), ("a", config_map("y", json!({})))]);
    let refused = releases.create(&PostParams::default(), &twice).await.unwrap_err().to_string();
    assert!(refused.contains("Duplicate value"), "{refused}");

    let mark = fixture.plane.proxy.mark();
    let one = config_map("one", json!({"by": "first"}));
    fixture.create("same", &[("here", one.clone()), ("there", one), ("x", config_map("x", json!({})))]).await;
    let message = fixture.wait_condition("same", "Applied", "False", "InvalidResource").await;
    for part in ["ConfigMap", "one", "here", "there"] {
        assert!(message.contains(part), "{message}");
    }
    fixture.wait_condition("same", "Ready", "False", "InvalidResource").await;
    fixture.quiet().await;
    fixture.plane.proxy.assert_no_writes_since(mark);
    fixture.delete("same").await;

    let name = "r".repeat(200);
    let odd = |end: &str| format!("{}{end}", "ä ö/<id>&".repeat(30).chars().take(199).collect::<String>());
    let (a, b) = (odd("1"), odd("2"));
    let mut long = release(&name, &[(&a, config_map("a", json!({}))), (&b, config_map("b", json!({})))]);
    // Not for a label of the Release itself.
    long.metadata.labels = None;
    fixture.control.create(&long).await;
    let release = fixture.ready(&name).await;
    let mut values = vec![];
    for (id, name) in [(&a, "a"), (&b, "b")] {
        assert_eq!(entry(&release, id).name, name);
        let live = fixture.plane.wait_exists("v1/ConfigMap", &home(), name).await;
        assert_eq!(live["metadata"]["annotations"]["openchoreo.dev/release-resource-id"], **id);
        values.push(live["metadata"]["labels"]["openchoreo.dev/release-resource-id"].clone());
    }
    assert_ne!(values[0], values[1]);
    // Found by its labels all the same: it is kept, and goes.
    fixture.plane.api("v1/ConfigMap", &home()).delete("a", &DeleteParams::default()).await.unwrap();
    let uid = entry(&release, &a).uid.clone();
    fixture
        .plane
        .until("the object is back", ("v1/ConfigMap", &home(), "a"), |found| {
            (found?["metadata"]["uid"].as_str() != uid.as_deref()).then_some(())
        })
        .await;
    fixture.delete(&name).await;
    fixture.nothing_left(&before).await;
}
