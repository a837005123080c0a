//! Releases on a plane that lets Kantor do what Deployments and Endpoints need, and no more.

use serde_json::json;

use super::support::{Plane, Theatre, at_home, config_map, home};
use crate::acme::{acme, plain_plane};

#[tokio::test(flavor = "multi_thread")]
async fn what_the_plane_does_not_allow_is_said_and_what_cannot_be_seen_is_left() {
    let plane = async { Plane::without_releases(plain_plane("plane").await).await };
    let (stage, plane) = tokio::join!(acme(), plane);
    let theatre = Theatre::with(stage, plane).await;
    let settings = ("settings", config_map("settings", json!({"colour": "blue"})));
    let spec = json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "cart"}}});
    let budget = ("budget", at_home("policy/v1/PodDisruptionBudget", "cart", json!({"spec": spec})));
    theatre.create("cart", &[settings, budget]).await;
    let message = theatre
        .until("the Release says what it lacks", "cart", |release| {
            let (status, _, message) = crate::support::condition(release, "Ready")?;
            (status == "False" && message.contains("grant the plane's role")).then_some(message)
        })
        .await;
    assert!(message.contains("PodDisruptionBudget"), "{message}");
    assert!(theatre.plane.get("v1/ConfigMap", &home(), "settings").await.is_some());

    let rules = json!([{"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"],
        "verbs": ["get", "list", "watch", "create", "patch", "delete"]}]);
    theatre.plane.cluster.allow_on_data_plane("budgets", rules).await.unwrap();
    theatre.ready("cart").await;

    // Its objects go. Whether there is anything else in the namespace cannot be told, so it stays.
    theatre.delete("cart").await;
    assert!(theatre.plane.get("v1/ConfigMap", &home(), "settings").await.is_none());
    assert!(theatre.plane.get("policy/v1/PodDisruptionBudget", &home(), "cart").await.is_none());
    let note = theatre.event("cart", "LeftBehind").await;
    assert!(note.contains(&home()) && note.contains("may hold"), "{note}");
    assert!(theatre.plane.get("v1/Namespace", "", &home()).await.is_some());
}
