//! What somebody else changes is brought back by watches that all Releases share; what is theirs is left to them.

use std::sync::{Arc, Mutex};

use futures::{StreamExt, pin_mut};
use kantor_testbed::{
    proxy::{Action, Fault, Match, Record, Records, Verb},
    wait::{self, Seen},
};
use kube::{
    ResourceExt,
    api::{DeleteParams, PatchParams, WatchEvent, WatchParams},
};
use serde_json::{Value, json};

use super::support::{Plane, ReleaseFixture, at_home, config_map, deployment, home};
use crate::{
    observing::{looked_at, until_connected},
    support::PATIENCE,
};

fn some_of_each(suffix: &str) -> [(&'static str, Value); 4] {
    let name = |name: &str| format!("{name}{suffix}");
    let port = json!({"spec": {"selector": {"app": "app"}, "ports": [{"port": 80}]}});
    [
        ("settings", config_map(&name("settings"), json!({"colour": "blue", "size": "1"}))),
        ("secret", at_home("v1/Secret", &name("secret"), json!({"stringData": {"password": "one"}}))),
        ("service", at_home("v1/Service", &name("app"), port)),
        ("app", deployment(&name("app"), 0, "nginx:1")),
    ]
}

/// The watches of the objects of Releases that are open.
fn open_watches(plane: &Plane) -> Records {
    plane.proxy.requests().verb(Verb::Watch).filter(|record| {
        record.is_open_watch()
            && ["configmaps", "secrets", "services", "deployments"].contains(&record.resource())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn drift_of_every_kind_is_repaired_through_one_watch_per_kind() {
    let fixture = ReleaseFixture::open().await;
    let plane = &fixture.plane;
    fixture.create("first", &some_of_each("")).await;
    fixture.ready("first").await;
    fixture.quiet().await;
    assert_eq!(open_watches(plane).len(), 4, "{}", open_watches(plane));

    // Nothing changed, nothing asked.
    let mark = plane.proxy.mark();
    fixture.touch("first").await;
    assert!(plane.asked_since(mark).is_empty(), "{}", plane.asked_since(mark));

    // A changed field, a removed one, one in a list, and one of an object's own.
    let settings = ("v1/ConfigMap", "settings");
    let label = |key: &str| format!("/metadata/labels/openchoreo.dev~1{key}");
    let release_uid = label("release-uid");
    let managed_by = label("managed-by");
    let drifts: [((&str, &str), Value, &str); 6] = [
        (settings, json!({"data": {"colour": "red"}}), "/data/colour"),
        (settings, json!({"data": {"size": null}}), "/data/size"),
        (("v1/Secret", "secret"), json!({"stringData": {"password": "two"}}), "/data/password"),
        (("v1/Service", "app"), json!({"spec": {"selector": {"app": "else"}}}), "/spec/selector/app"),
        (settings, json!({"metadata": {"labels": {"openchoreo.dev/release-uid": null}}}), &release_uid),
        (settings, json!({"metadata": {"labels": null}}), &managed_by),
    ];
    for ((kind, name), patch, field) in drifts {
        let good = plane.get(kind, &home(), name).await.unwrap();
        plane.patch(kind, &home(), name, patch).await;
        let what = format!("{field} of {name} is back");
        plane
            .until(&what, (kind, &home(), name), |found| {
                (found?.pointer(field)? == good.pointer(field)?).then_some(())
            })
            .await;
    }
    let images =
        json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "evil"}]);
    let images = kube::api::Patch::<()>::Json(serde_json::from_value(images).unwrap());
    plane.api("apps/v1/Deployment", &home()).patch("app", &PatchParams::default(), &images).await.unwrap();
    plane
        .until("the image is back", ("apps/v1/Deployment", &home(), "app"), |found| {
            (found?["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:1").then_some(())
        })
        .await;
    let uid = plane.get("v1/ConfigMap", &home(), "settings").await.unwrap()["metadata"]["uid"].clone();
    plane.api("v1/ConfigMap", &home()).delete("settings", &DeleteParams::default()).await.unwrap();
    plane
        .until("the object is back", ("v1/ConfigMap", &home(), "settings"), |found| {
            (found?["metadata"]["uid"] != uid).then_some(())
        })
        .await;
    // The first of them is told with its object and field.
    fixture.event("first", "DriftRepaired").await;
    let notes = fixture.events("first", "DriftRepaired").await;
    let told = |note: &String| {
        ["ConfigMap", "settings", "colour", "changed by somebody else"].iter().all(|part| note.contains(part))
    };
    assert!(notes.iter().any(told), "{notes:#?}");
    fixture.ready("first").await;

    // What is not ours is not touched.
    fixture.quiet().await;
    let mark = plane.proxy.mark();
    let theirs = json!({"metadata": {"labels": {"theirs": "yes"}}, "data": {"theirs": "yes"}});
    looked_at(&fixture.control, &["release"], plane.patch("v1/ConfigMap", &home(), "settings", theirs)).await;
    fixture.quiet().await;
    plane.proxy.assert_no_writes_since(mark);

    // Another Release of the same kinds needs no watch of its own.
    let mark = plane.proxy.mark();
    fixture.create("second", &some_of_each("-2")).await;
    fixture.ready("second").await;
    fixture.quiet().await;
    let reads = plane.proxy.since(mark).filter(|r| matches!(r.verb(), Verb::List | Verb::Watch));
    assert!(reads.is_empty(), "{reads}");
    fixture.delete("first").await;
    fixture.quiet().await;
    assert_eq!(open_watches(plane).len(), 4, "{}", open_watches(plane));
    // The last one takes the watches along, also when it has to let go twice.
    let again = Match::new().verb(Verb::Patch).resource("releases").name("second").nth(1);
    let again = fixture.control.proxy.fault(Fault::when(again).then(Action::status(500)));
    fixture.delete("second").await;
    assert_eq!(again.hits(), 1);
    wait::until("no watch is left", PATIENCE, || async {
        let open = open_watches(plane);
        Ok(if open.is_empty() { Seen::Done(()) } else { Seen::NotYet(open.to_string()) })
    })
    .await
    .unwrap_or_else(|error| panic!("{error:#}\n{}", fixture.control.operator.log()));
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_belong_to_the_autoscaler_of_the_release() {
    let fixture = ReleaseFixture::open().await;
    let plane = &fixture.plane;
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "app"});
    let autoscaler = at_home(
        "autoscaling/v2/HorizontalPodAutoscaler",
        "app",
        json!({"spec": {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 9}}),
    );
    let app = ("apps/v1/Deployment", &*home(), "app");
    let replicas = |count: u64| {
        move |found: Option<&Value>| (found?["spec"]["replicas"] == count).then(|| found.cloned()).flatten()
    };
    fixture.create("shop", &[("app", deployment("app", 3, "nginx:1"))]).await;
    fixture.wait_condition("shop", "Applied", "True", "ResourcesApplied").await;
    // Without an autoscaler they are the Release's.
    plane.patch("apps/v1/Deployment", &home(), "app", json!({"spec": {"replicas": 5}})).await;
    fixture.event("shop", "DriftRepaired").await;
    plane.until("replicas are brought back", app, replicas(3)).await;

    // With one they stay as they are, and then as it sets them.
    let history = Arc::new(Mutex::new(vec![]));
    let watch = watch_replicas(plane, history.clone()).await;
    fixture.edit("shop", &[("app", deployment("app", 3, "nginx:1")), ("scaler", autoscaler.clone())]).await;
    fixture.wait_condition("shop", "Applied", "True", "ResourcesApplied").await;
    plane.until("replicas stay", app, replicas(3)).await;
    looked_at(
        &fixture.control,
        &["release"],
        plane.patch("apps/v1/Deployment", &home(), "app", json!({"spec": {"replicas": 6}})),
    )
    .await;
    fixture.quiet().await;
    plane.until("replicas are the autoscaler's", app, replicas(6)).await;
    fixture.edit("shop", &[("app", deployment("app", 4, "nginx:2")), ("scaler", autoscaler)]).await;
    plane
        .until("the image is new", app, |found| {
            let found = found?;
            assert_eq!(found["spec"]["replicas"], 6);
            (found["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:2").then_some(())
        })
        .await;
    fixture.quiet().await;
    plane.until("replicas are the autoscaler's", app, replicas(6)).await;
    watch.abort();
    let mut history = history.lock().unwrap().clone();
    history.dedup();
    assert_eq!(history, [3, 6], "never anything else in between");
    // Without the autoscaler they are the Release's again.
    fixture.edit("shop", &[("app", deployment("app", 4, "nginx:2"))]).await;
    plane.until("replicas are the Release's", app, replicas(4)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_keeps_otherwise_is_not_sent_again_and_again() {
    let mut fixture = ReleaseFixture::open().await;
    // Values that servers write in another form, and fields that they add.
    let mut app = deployment("app", 0, "nginx");
    app["metadata"]["creationTimestamp"] = json!(null);
    let container = &mut app["spec"]["template"]["spec"]["containers"][0];
    container["resources"] =
        json!({"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": 0.5}});
    container["env"] = json!([{"name": "EMPTY", "value": ""}, {"name": "FULL", "value": "x"}]);
    container["ports"] = json!([{"containerPort": 80}]);
    let port = json!({"spec": {"selector": {"app": "app"}, "ports": [{"port": 80, "targetPort": 8080}]}});
    let resources = [
        ("app", app),
        ("service", at_home("v1/Service", "app", port)),
        ("secret", at_home("v1/Secret", "app", json!({"stringData": {"a": "b"}, "data": {"c": "ZA=="}}))),
        // It comes back in another time zone.
        (
            "lease",
            at_home(
                "coordination.k8s.io/v1/Lease",
                "app",
                json!({"spec": {"renewTime": "2026-01-01T01:00:00.000000+01:00"}}),
            ),
        ),
    ];
    let mark = fixture.plane.proxy.mark();
    fixture.create("shop", &resources).await;
    fixture.ready("shop").await;
    fixture.quiet().await;
    // What was refused because it is there already changed nothing.
    let applied =
        |mark| fixture.plane.proxy.since(mark).verb(Verb::Apply).name("app").filter(Record::committed);
    assert_eq!(applied(mark).len(), resources.len(), "each once:\n{}", applied(mark));
    let mark = fixture.plane.proxy.mark();
    fixture.touch("shop").await;
    assert!(fixture.plane.asked_since(mark).is_empty(), "{}", fixture.plane.asked_since(mark));

    // An operator that begins anew asks only where it cannot see that it is right.
    fixture.control.restart_operator().await;
    until_connected(&fixture.control).await;
    fixture.quiet().await;
    fixture.touch("shop").await;
    let applied = fixture.plane.proxy.writes_since(mark);
    assert!(applied.iter().all(|write| write.resource() == "leases"), "{applied}");
    assert!(applied.len() <= 1, "{applied}");
}

/// Notes the replicas of Deployment `app` at each change from now on.
async fn watch_replicas(plane: &Plane, history: Arc<Mutex<Vec<u64>>>) -> tokio::task::JoinHandle<()> {
    let api = plane.api("apps/v1/Deployment", &home());
    let now = api.get("app").await.unwrap();
    history.lock().unwrap().push(now.data["spec"]["replicas"].as_u64().unwrap());
    let params = WatchParams::default().fields("metadata.name=app");
    let events = api.watch(&params, &now.resource_version().unwrap()).await.unwrap();
    tokio::spawn(async move {
        pin_mut!(events);
        while let Some(event) = events.next().await {
            if let WatchEvent::Modified(app) = event.unwrap() {
                history.lock().unwrap().push(app.data["spec"]["replicas"].as_u64().unwrap());
            }
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_release_is_left_as_it_is_until_it_goes_on() {
    let fixture = ReleaseFixture::open().await;
    let before = fixture.snapshot().await;
    let plane = &fixture.plane;
    fixture.create("shop", &[("it", config_map("it", json!({"colour": "blue"})))]).await;
    fixture.ready("shop").await;
    fixture.annotate("shop", "openchoreo.dev/paused", "true").await;
    fixture.wait_condition("shop", "Reconciling", "False", "Paused").await;
    fixture.quiet().await;
    let mark = plane.proxy.mark();
    looked_at(
        &fixture.control,
        &["release"],
        fixture.edit("shop", &[("other", config_map("other", json!({})))]),
    )
    .await;
    looked_at(
        &fixture.control,
        &["release"],
        plane.patch("v1/ConfigMap", &home(), "it", json!({"data": {"colour": "red"}})),
    )
    .await;
    fixture.quiet().await;
    assert!(plane.asked_since(mark).is_empty(), "{}", plane.asked_since(mark));
    assert_eq!(plane.get("v1/ConfigMap", &home(), "it").await.unwrap()["data"]["colour"], "red");
    // Also while it is being deleted.
    looked_at(&fixture.control, &["release"], fixture.ask_to_delete("shop")).await;
    fixture.quiet().await;
    assert!(plane.asked_since(mark).is_empty(), "{}", plane.asked_since(mark));
    let resume = json!({"metadata": {"annotations": {"openchoreo.dev/paused": null}}});
    fixture.control.patch::<kantor_api::Release>("acme/shop", resume).await;
    fixture.until_gone("shop").await;
    fixture.nothing_left(&before).await;
}
