//! Releases on a plane that lets Kantor do what Deployments and Endpoints need, and no more.

use kantor_api::Release;
use serde_json::{Value, json};

use super::support::{Plane, ReleaseFixture, at_home, config_map, entry, home};
use crate::{
    acme::{acme, acme_with, plain_plane},
    support::condition,
};

#[tokio::test(flavor = "multi_thread")]
async fn what_the_plane_does_not_allow_is_said_and_what_cannot_be_seen_is_left() {
    let plane = async { Plane::without_releases(plain_plane("plane").await).await };
    let (control, plane) = tokio::join!(acme(), plane);
    let fixture = ReleaseFixture::with(control, plane).await;
    let settings = ("settings", config_map("settings", json!({"colour": "blue"})));
    let spec = json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "cart"}}});
    let budget = ("budget", at_home("policy/v1/PodDisruptionBudget", "cart", json!({"spec": spec})));
    fixture.create("cart", &[settings, budget]).await;
    let message = fixture
        .until("the Release says what it lacks", "cart", |release| {
            let (status, _, message) = crate::support::condition(release, "Ready")?;
            (status == "False" && message.contains("grant the plane's role")).then_some(message)
        })
        .await;
    assert!(message.contains("PodDisruptionBudget"), "{message}");
    assert!(fixture.plane.get("v1/ConfigMap", &home(), "settings").await.is_some());

    let rules = json!([{"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"],
        "verbs": ["get", "list", "watch", "create", "patch", "delete"]}]);
    fixture.plane.cluster.allow_on_data_plane("budgets", rules).await.unwrap();
    fixture.ready("cart").await;

    // Its objects go. Whether there is anything else in the namespace cannot be told, so it stays.
    fixture.delete("cart").await;
    assert!(fixture.plane.get("v1/ConfigMap", &home(), "settings").await.is_none());
    assert!(fixture.plane.get("policy/v1/PodDisruptionBudget", &home(), "cart").await.is_none());
    let note = fixture.event("cart", "LeftBehind").await;
    assert!(note.contains(&home()) && note.contains("may hold"), "{note}");
    assert!(fixture.plane.get("v1/Namespace", "", &home()).await.is_some());
}

/// A Deployment that is no Deployment, a ConfigMap with a number in it, and a kind that the account may not list.
fn refused() -> [(&'static str, Value); 3] {
    let spec = json!({"replicaz": 1, "selector": {"matchLabels": {"app": "x"}}});
    [
        ("app", at_home("apps/v1/Deployment", "x", json!({"spec": spec}))),
        ("settings", config_map("x", json!({"number": 1}))),
        ("budget", budget()),
    ]
}

fn budget() -> Value {
    let spec = json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "x"}}});
    at_home("policy/v1/PodDisruptionBudget", "x", json!({"spec": spec}))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_may_not_be_listed_is_refused_at_once_and_keeps_its_release_from_nothing() {
    let plane = async { Plane::without_releases(plain_plane("plane").await).await };
    // Who waits for a call to be given up waits for longer than this test.
    let (control, plane) = tokio::join!(acme_with(&["--plane-timeout=10m"]), plane);
    let fixture = ReleaseFixture::with(control, plane).await;

    // All is refused, and all of it is told.
    fixture.create("cart", &refused()).await;
    let message = fixture.wait_condition("cart", "Ready", "False", "ApplyRefused").await;
    assert!(message.starts_with("3 of 3 objects"), "{message}");
    for kind in ["Deployment", "ConfigMap", "PodDisruptionBudget"] {
        assert!(message.contains(&format!("{kind} {}/x", home())), "{message}");
    }
    fixture.wait_condition("cart", "Stalled", "True", "ApplyRefused").await;
    // So it is after an edit.
    let good = ("settings", config_map("x", json!({"number": "1"})));
    fixture.edit("cart", &[good.clone(), ("budget", budget())]).await;
    let message = fixture.wait_condition("cart", "Ready", "False", "ApplyRefused").await;
    assert!(message.starts_with("1 of 2 objects") && message.contains("PodDisruptionBudget"), "{message}");
    // What was never sent has not to be removed: without it all is well.
    fixture.edit("cart", &[good]).await;
    fixture.ready("cart").await;
    fixture.delete("cart").await;

    fixture.create("cart", &refused()).await;
    fixture.wait_condition("cart", "Ready", "False", "ApplyRefused").await;
    fixture.delete("cart").await;
    assert!(fixture.plane.get("v1/ConfigMap", &home(), "x").await.is_none());

    // From when it may have been sent on, it is looked for.
    fixture.create("cart", &[("budget", budget())]).await;
    fixture.wait_condition("cart", "Ready", "False", "ApplyRefused").await;
    let rules = json!([{"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"],
        "verbs": ["get", "list", "watch", "create", "patch", "delete"]}]);
    fixture.plane.cluster.allow_on_data_plane("budgets", rules).await.unwrap();
    let release = fixture.ready("cart").await;
    assert!(entry(&release, "budget").uid.is_some());
    let role = fixture.plane.api("rbac.authorization.k8s.io/v1/ClusterRole", "");
    role.delete("budgets", &kube::api::DeleteParams::default()).await.unwrap();
    fixture.control.delete::<Release>("acme/cart").await;
    // Either its end was seen before the right had gone, or it is said why it is not known.
    let left = fixture
        .control
        .until("it is gone, or says why not", "acme/cart", |release: Option<&Release>| {
            let Some(release) = release else { return Some(false) };
            let (_, _, message) = condition(release, "Finalizing")?;
            message.contains("PodDisruptionBudget").then_some(true)
        })
        .await;
    if left {
        let rules = json!([{"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"],
            "verbs": ["get", "delete"]}]);
        fixture.plane.cluster.allow_on_data_plane("budgets", rules).await.unwrap();
        fixture.until_gone("cart").await;
    }
    assert!(fixture.plane.get("policy/v1/PodDisruptionBudget", &home(), "x").await.is_none());
}
