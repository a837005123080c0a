//! How the objects of a Release are, and what it says of them.

use kantor_api::DataPlane;
use kantor_testbed::{
    Cluster,
    proxy::{Action, Fault, Match, Verb},
};
use serde_json::{Value, json};

use super::support::{Plane, ReleaseFixture, at_home, definition, deployment, entry, home, pods};
use crate::{
    acme::{acme, plane_ready},
    support::{PATIENCE, condition},
};

/// On a plane without controllers, so that nobody but the test says how objects are.
async fn without_controllers() -> ReleaseFixture {
    let plane = async { Plane::on(Cluster::builder().name("plane").share().await.unwrap()).await };
    let (control, plane) = tokio::join!(acme(), plane);
    ReleaseFixture::with(control, plane).await
}

/// Kind and name of what the Release has.
const JOB: (&str, &str) = ("batch/v1/Job", "once");
const DAEMON_SET: (&str, &str) = ("apps/v1/DaemonSet", "each");
const VOLUME: (&str, &str) = ("v1/PersistentVolumeClaim", "disk");
const CRON_JOB: (&str, &str) = ("batch/v1/CronJob", "yearly");
const WIDGET: (&str, &str) = ("example.com/v1/Widget", "widget");
const GADGET: (&str, &str) = ("example.com/v1/Gadget", "gadget");

fn one_of_each() -> [(&'static str, Value); 6] {
    let mut once = pods("once", "busybox");
    once["spec"]["restartPolicy"] = json!("Never");
    let cron = json!({"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": once}}});
    let daemons = json!({"selector": {"matchLabels": {"app": "each"}}, "template": pods("each", "nginx")});
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let spec = |(kind, name): (&str, &str), spec: Value| at_home(kind, name, json!({"spec": spec}));
    [
        ("job", spec(JOB, json!({"template": once}))),
        ("daemons", spec(DAEMON_SET, daemons)),
        ("disk", spec(VOLUME, claim)),
        ("cron", spec(CRON_JOB, cron)),
        ("widget", spec(WIDGET, json!({}))),
        ("gadget", spec(GADGET, json!({}))),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_read_off_each_kind_and_off_the_checks_of_the_plane() {
    let fixture = without_controllers().await;
    let plane = &fixture.plane;
    for kind in ["Widget", "Gadget"] {
        plane.create("apiextensions.k8s.io/v1/CustomResourceDefinition", "", definition(kind)).await;
    }
    let check = json!({
        "group": "example.com", "kind": "Gadget",
        "healthy": "has(status.phase) && status.phase == 'Up'",
        "degraded": "has(status.phase) && status.phase == 'Broken'",
        "message": "'it is ' + status.phase",
    });
    fixture.control.patch::<DataPlane>("acme/plane", json!({"spec": {"healthChecks": [check]}})).await;
    plane_ready(&fixture.control, "plane").await;

    fixture.create("shop", &one_of_each()).await;
    let healths = async |expected: [(&str, &str); 6]| {
        fixture
            .until(&format!("health is {expected:?}"), "shop", |release| {
                let told = |id: &str| {
                    let resources = &release.status.as_ref()?.resources;
                    resources.iter().find(|entry| entry.id == id)?.health_status.clone()
                };
                let all = expected.iter().all(|(id, health)| told(id).as_deref() == Some(*health));
                all.then(|| release.clone())
            })
            .await
    };
    let (going, well, bad) = ("Progressing", "Healthy", "Degraded");
    healths([
        ("job", going),
        ("daemons", going),
        ("disk", going),
        // Its first run is a year away.
        ("cron", well),
        // Nothing speaks against it.
        ("widget", well),
        ("gadget", going),
    ])
    .await;
    fixture.wait_condition("shop", "Applied", "True", "ResourcesApplied").await;
    fixture.wait_condition("shop", "Healthy", "False", "ResourceHealthProgressing").await;
    fixture.wait_condition("shop", "Ready", "False", "ResourceHealthProgressing").await;
    fixture.event("shop", "ResourceHealthProgressing").await;

    let report = async |(kind, name): (&str, &str), status| plane.report(kind, &home(), name, status).await;
    let time = "2026-01-01T00:00:00Z";
    let done = |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": time, "lastTransitionTime": time});
    report(
        JOB,
        json!({"startTime": time, "completionTime": time, "succeeded": 1,
            "conditions": [done("SuccessCriteriaMet"), done("Complete")]}),
    )
    .await;
    report(
        DAEMON_SET,
        json!({"observedGeneration": 1, "desiredNumberScheduled": 2, "currentNumberScheduled": 2,
            "numberMisscheduled": 0, "numberReady": 2, "updatedNumberScheduled": 2, "numberAvailable": 2}),
    )
    .await;
    report(VOLUME, json!({"phase": "Bound"})).await;
    report(GADGET, json!({"phase": "Up"})).await;
    let ready = |status: &str, reason: &str| json!({"conditions": [{"type": "Ready", "status": status, "reason": reason}]});
    report(WIDGET, ready("False", "Winding")).await;
    // A run is no trouble.
    report(CRON_JOB, json!({"active": [{"name": "yearly-1"}]})).await;
    let release = healths([
        ("job", well),
        ("daemons", well),
        ("disk", well),
        ("cron", well),
        ("widget", going),
        ("gadget", well),
    ])
    .await;
    assert!(entry(&release, "widget").message.as_deref().unwrap().contains("Winding"), "{release:#?}");
    report(WIDGET, ready("True", "Wound")).await;
    let release = fixture.ready("shop").await;
    assert_eq!(condition(&release, "Healthy").unwrap().0, "True");
    fixture.event("shop", "ResourcesActive").await;
    let row = table(&fixture).await;
    for (column, cell) in
        [("Environment", "dev"), ("Data Plane", "plane"), ("Ready", "True"), ("Reason", "ResourcesActive")]
    {
        assert_eq!(row[column], cell, "{row:#}");
    }

    report(GADGET, json!({"phase": "Broken"})).await;
    report(VOLUME, json!({"phase": "Lost"})).await;
    let release = healths([
        ("job", well),
        ("daemons", well),
        ("disk", bad),
        ("cron", well),
        ("widget", well),
        ("gadget", bad),
    ])
    .await;
    assert_eq!(entry(&release, "gadget").message.as_deref(), Some("it is Broken"));
    let message = fixture.wait_condition("shop", "Healthy", "False", "ResourceHealthDegraded").await;
    assert!(message.contains("2 of 6") && message.contains("it is Broken"), "{message}");
    fixture.wait_condition("shop", "Stalled", "True", "ResourceHealthDegraded").await;
    let note = fixture.event("shop", "ResourceHealthDegraded").await;
    // Which of the two is seen first is chance; one of them is named with what is wrong with it.
    let named = note.contains("gadget: it is Broken") || note.contains("PersistentVolumeClaim");
    assert!(named && note.contains("of 6 objects degraded"), "{note}");
}

/// What `kubectl get` shows of Release `shop`, by column.
async fn table(fixture: &ReleaseFixture) -> Value {
    let request = http::Request::get("/apis/openchoreo.dev/v1alpha1/namespaces/acme/releases/shop")
        .header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(vec![])
        .unwrap();
    let table: Value = fixture.control.client.request(request).await.unwrap();
    let columns = table["columnDefinitions"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap());
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    columns.zip(cells).map(|(name, cell)| (name.to_owned(), cell.clone())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_spec_is_never_called_ready_by_the_health_of_the_old_one() {
    let fixture = without_controllers().await;
    let plane = &fixture.plane;
    let up = |generation: i64| {
        json!({"observedGeneration": generation, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1,
        "availableReplicas": 1, "conditions": [
            {"type": "Available", "status": "True"},
            {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
        ]})
    };
    fixture.create("shop", &[("app", deployment("app", 1, "nginx:1"))]).await;
    plane.wait_exists("apps/v1/Deployment", &home(), "app").await;
    plane.report("apps/v1/Deployment", &home(), "app", up(1)).await;
    fixture.ready("shop").await;

    // Its controller has not looked at the new template yet.
    let mark = fixture.control.proxy.mark();
    fixture.edit("shop", &[("app", deployment("app", 1, "nginx:2"))]).await;
    fixture.wait_condition("shop", "Ready", "False", "ResourceHealthProgressing").await;
    fixture.quiet().await;
    never_ready(&fixture.statuses_since(mark, "shop"), 2);
    plane.report("apps/v1/Deployment", &home(), "app", up(2)).await;
    fixture.ready("shop").await;

    // Nor has the watch told of it.
    let mark = fixture.control.proxy.mark();
    let blind = Fault::when(Match::new().verb(Verb::Watch).resource("deployments"));
    let blind = plane.proxy.fault(blind.then(Action::hide_events_of("app")));
    fixture.edit("shop", &[("app", deployment("app", 1, "nginx:3"))]).await;
    blind.await_hit(PATIENCE).await.unwrap();
    fixture.wait_condition("shop", "Ready", "False", "ResourceHealthProgressing").await;
    fixture.touch("shop").await;
    never_ready(&fixture.statuses_since(mark, "shop"), 3);
    drop(blind);
    plane.report("apps/v1/Deployment", &home(), "app", up(3)).await;
    let release = fixture.ready("shop").await;
    assert_eq!(entry(&release, "app").status.as_ref().unwrap()["observedGeneration"], 3);
}

#[track_caller]
fn never_ready(statuses: &[Value], generation: i64) {
    assert!(statuses.iter().any(|status| status["observedGeneration"] == generation));
    for status in statuses.iter().filter(|status| status["observedGeneration"] == generation) {
        let conditions = status["conditions"].as_array().unwrap();
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
        assert_ne!(ready["status"], "True", "{statuses:#?}");
    }
}
