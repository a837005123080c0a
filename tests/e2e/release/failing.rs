//! Objects that the plane does not take, now or at all.

use std::time::Duration;

use kantor_testbed::proxy::{Action, Fault, Match, Record, Verb};
use kube::api::DeleteParams;
use serde_json::json;

use super::support::{ReleaseFixture, at_home, config_map, definition, deployment, entry, home, pods};
use crate::support::{PATIENCE, condition};

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_fail_hold_up_nobody_and_are_tried_again_in_their_time() {
    let fixture = ReleaseFixture::open().await;
    let plane = &fixture.plane;
    // Their namespace is there, so that they are the first thing to fail.
    fixture.create("other", &[("it", config_map("other", json!({})))]).await;
    fixture.ready("other").await;
    let apply = |name: &str| Match::new().verb(Verb::Apply).resource("configmaps").name(name);
    let busy = Fault::when(apply("busy").times(2)).then(Action::too_many_requests(3));
    let busy = plane.proxy.fault(busy);
    let broken = plane.proxy.fault(Fault::when(apply("broken")).then(Action::status(500)));
    let mark = plane.proxy.mark();
    let port = json!({"spec": {"selector": {"app": "app"}, "ports": [{"port": 80}]}});
    fixture
        .create(
            "shop",
            &[
                ("refused", config_map("Not_A_Name", json!({}))),
                ("typo", at_home("v1/ConfigMap", "typo", json!({"date": {"colour": "blue"}}))),
                ("busy", config_map("busy", json!({}))),
                ("broken", config_map("broken", json!({}))),
                ("settings", config_map("settings", json!({}))),
                ("service", at_home("v1/Service", "app", port)),
                ("app", deployment("app", 0, "nginx")),
            ],
        )
        .await;

    // What comes after them is there, and each tells what it lacks.
    let release = fixture
        .until("all is said", "shop", |release| {
            let status = release.status.as_ref()?;
            let failing = status.resources.iter().filter(|entry| entry.apply_error.is_some()).count();
            (failing == 4).then(|| release.clone())
        })
        .await;
    for (kind, name) in [("v1/ConfigMap", "settings"), ("v1/Service", "app"), ("apps/v1/Deployment", "app")] {
        plane.wait_exists(kind, &home(), name).await;
    }
    for id in ["settings", "service", "app"] {
        assert_eq!(entry(&release, id).apply_error, None);
    }
    let told = |id| entry(&release, id).apply_error.clone().unwrap();
    assert!(told("refused").contains("Not_A_Name"), "{}", told("refused"));
    assert!(told("typo").contains("date"), "{}", told("typo"));
    assert!(told("busy").contains("429"), "{}", told("busy"));
    assert!(told("broken").contains("500"), "{}", told("broken"));
    let (status, reason, message) = condition(&release, "Applied").unwrap();
    assert_eq!((&*status, &*reason), ("False", "ApplyRefused"));
    assert!(message.starts_with("2 of 7 objects") && message.contains("Not_A_Name"), "{message}");
    // A mistake in the manifest does not mend by itself.
    assert_eq!(condition(&release, "Stalled").unwrap().0, "True");

    // The one that the server sent away comes back when it was told to, however often its Release is looked at.
    for touch in ["1", "2", "3"] {
        fixture.annotate("shop", "touched", touch).await;
    }
    plane.wait_exists("v1/ConfigMap", &home(), "busy").await;
    let tries = plane.proxy.since(mark).verb(Verb::Apply).name("busy");
    assert_eq!(tries.len(), 3, "{tries}");
    for pair in tries.windows(2) {
        assert!(pair[1].at - pair[0].at >= Duration::from_secs(3), "{tries}");
    }
    assert_eq!(busy.hits(), 2);

    // The one that fails is tried a few times, and heals.
    broken.await_hits(3, PATIENCE).await.unwrap();
    let hits = broken.hits();
    drop(broken);
    plane.wait_exists("v1/ConfigMap", &home(), "broken").await;
    let tries = plane.proxy.since(mark).verb(Verb::Apply).name("broken");
    assert!(tries.len() as u64 <= hits + 2, "{tries}");
    let healed = fixture
        .until("all but one are applied", "shop", |release| {
            let status = release.status.as_ref()?;
            let failing: Vec<_> =
                status.resources.iter().filter(|entry| entry.apply_error.is_some()).map(|e| &*e.id).collect();
            (failing == ["refused", "typo"]).then(|| release.clone())
        })
        .await;
    for id in ["busy", "broken"] {
        assert!(entry(&healed, id).uid.is_some());
    }
    // What was applied was applied once.
    for (resource, name) in [("configmaps", "settings"), ("services", "app"), ("deployments", "app")] {
        let applied = plane.proxy.since(mark).verb(Verb::Apply).resource(resource).name(name);
        let applied = applied.filter(Record::committed);
        assert_eq!(applied.len(), 1, "{applied}");
    }
    fixture.delete("shop").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_cannot_be_made_is_told_and_tried_again() {
    let fixture = ReleaseFixture::open().await;
    let fault = Match::new().verb(Verb::Create).resource("namespaces");
    let fault = fixture.plane.proxy.fault(Fault::when(fault).then(Action::status(403)));
    fixture.create("shop", &[("it", config_map("it", json!({})))]).await;
    let message = fixture
        .until("it says so", "shop", |release| {
            let (status, reason, message) = condition(release, "Applied")?;
            (status == "False" && reason == "ApplyRefused").then_some(message)
        })
        .await;
    assert!(message.contains(&home()) && message.contains("403"), "{message}");
    drop(fault);
    fixture.ready("shop").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_whose_kind_is_not_installed_waits_for_it() {
    let fixture = ReleaseFixture::open().await;
    let before = fixture.snapshot().await;
    let plane = &fixture.plane;
    let widget = at_home("example.com/v1/Widget", "widget", json!({"spec": {"size": 1}}));
    fixture.create("shop", &[("widget", widget), ("map", config_map("map", json!({})))]).await;
    let message = fixture.wait_condition("shop", "Applied", "False", "ApplyWaiting").await;
    assert!(message.contains("Widget") && message.contains("example.com/v1"), "{message}");
    plane.wait_exists("v1/ConfigMap", &home(), "map").await;

    plane.create("apiextensions.k8s.io/v1/CustomResourceDefinition", "", definition("Widget")).await;
    // Nobody touches the Release.
    let release = fixture.ready("shop").await;
    let live = plane.wait_exists("example.com/v1/Widget", &home(), "widget").await;
    assert_eq!(live["spec"]["size"], 1);
    assert_eq!(entry(&release, "widget").uid.as_deref(), live["metadata"]["uid"].as_str());

    // With the kind its objects go: there is nothing left to clean up.
    let definitions = "apiextensions.k8s.io/v1/CustomResourceDefinition";
    plane.api(definitions, "").delete("widgets.example.com", &DeleteParams::default()).await.unwrap();
    plane.gone(definitions, "", "widgets.example.com").await;
    fixture.wait_condition("shop", "Applied", "False", "ApplyWaiting").await;
    fixture.delete("shop").await;
    fixture.nothing_left(&before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_cannot_be_changed_are_made_anew_only_when_asked_for() {
    let fixture = ReleaseFixture::open().await;
    let plane = &fixture.plane;
    let job = |image: &str| {
        let mut template = pods("job", image);
        template["spec"]["restartPolicy"] = json!("Never");
        at_home("batch/v1/Job", "job", json!({"spec": {"template": template}}))
    };
    let app = |label: &str| {
        let mut app = deployment("app", 0, "nginx");
        app["spec"]["selector"]["matchLabels"]["app"] = json!(label);
        app["spec"]["template"]["metadata"]["labels"]["app"] = json!(label);
        app
    };
    fixture.create("shop", &[("job", job("busybox:1")), ("app", app("one"))]).await;
    fixture.wait_condition("shop", "Applied", "True", "ResourcesApplied").await;
    let uid = |value: serde_json::Value| value["metadata"]["uid"].as_str().unwrap().to_owned();
    let old = [
        uid(plane.wait_exists("batch/v1/Job", &home(), "job").await),
        uid(plane.wait_exists("apps/v1/Deployment", &home(), "app").await),
    ];

    fixture.edit("shop", &[("job", job("busybox:2")), ("app", app("two"))]).await;
    let message = fixture.wait_condition("shop", "Applied", "False", "ApplyRefused").await;
    for part in ["immutable", "openchoreo.dev/replace", "Job", "Deployment"] {
        assert!(message.contains(part), "{message}");
    }
    fixture.wait_condition("shop", "Stalled", "True", "ApplyRefused").await;
    assert_eq!(uid(plane.wait_exists("batch/v1/Job", &home(), "job").await), old[0]);
    assert_eq!(uid(plane.wait_exists("apps/v1/Deployment", &home(), "app").await), old[1]);

    fixture.annotate("shop", "openchoreo.dev/replace", "true").await;
    fixture.wait_condition("shop", "Applied", "True", "ResourcesApplied").await;
    let job = plane.wait_exists("batch/v1/Job", &home(), "job").await;
    assert_eq!(job["spec"]["template"]["spec"]["containers"][0]["image"], "busybox:2");
    let app = plane.wait_exists("apps/v1/Deployment", &home(), "app").await;
    assert_eq!(app["spec"]["selector"]["matchLabels"]["app"], "two");
    assert_ne!(uid(job), old[0]);
    assert_ne!(uid(app), old[1]);
}
