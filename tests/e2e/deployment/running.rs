//! A plane is left when what has moved runs on the other one.

use kantor_api::Environment;
use serde_json::json;

use super::support::{DeploymentFixture, IMAGE, Plane, full_plane, item, move_to, namespace, settled_on};
use crate::{
    endpoint::support::{EndpointFixture, HTTP_ROUTE, name, open, template},
    gateway,
    support::{condition, is_ready},
};

/// Whether pods may be started on the nodes of a plane.
async fn schedulable(plane: &Plane, is_schedulable: bool) {
    for node in ["node-1", "node-2"] {
        plane.patch("v1/Node", "", node, json!({"spec": {"unschedulable": !is_schedulable}})).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workload_stays_on_its_plane_with_all_its_replicas_until_it_runs_on_the_other() {
    let (fixture, other) = tokio::join!(DeploymentFixture::open(), full_plane("other"));
    fixture.register("other", &other).await;
    let scaling = json!({"scaling": {"hpa": {"minReplicas": 2, "maxReplicas": 9}}});
    fixture.artifact("cart", "cart", IMAGE, json!({"application": scaling})).await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let deployment = settled_on(&fixture, "plane").await;
    let (home, name) = (namespace(&deployment), item(&deployment, "Deployment").name.clone());
    let workload = ("apps/v1/Deployment", &*home, &*name);
    // It is made with as many as it has at least, and ready with no fewer.
    let live = fixture.live(&deployment, "Deployment").await;
    assert_eq!((&live["spec"]["replicas"], &live["status"]["availableReplicas"]), (&json!(2), &json!(2)));

    // Somebody has scaled it, and nobody on the other plane can run.
    fixture.plane.patch(workload.0, &home, &name, json!({"spec": {"replicas": 5}})).await;
    fixture
        .plane
        .until("five run", workload, |found| (found?["status"]["readyReplicas"] == 5).then_some(()))
        .await;
    fixture.ready("cart").await;
    schedulable(&other, false).await;
    move_to(&fixture, "other").await;
    other.until("it is made there", workload, |found| (found?["spec"]["replicas"] == 5).then_some(())).await;
    let message = fixture
        .until("both planes are told", "cart", |found| {
            let (status, _, message) = condition(found, "Ready")?;
            let told = message.starts_with("moving") && message.contains("chedul");
            let cleaning = &found.status.as_ref()?.cleaning;
            (status == "False" && told && cleaning.len() == 1).then_some(message)
        })
        .await;
    assert!(message.contains("plane") && message.contains("other"), "{message}");
    let old = fixture.plane.wait_exists(workload.0, &home, &name).await;
    assert_eq!(old["status"]["readyReplicas"], 5);

    schedulable(&other, true).await;
    settled_on(&fixture, "other").await;
    fixture.plane.gone(workload.0, &home, &name).await;
    assert_eq!(other.wait_exists(workload.0, &home, &name).await["status"]["readyReplicas"], 5);
    // How many there are is others' from then on.
    other.patch(workload.0, &home, &name, json!({"spec": {"replicas": 3}})).await;
    fixture.configure("cart", json!({"env": [{"key": "COLOUR", "value": "red"}]})).await;
    other
        .until("the edit arrives", workload, |found| {
            let found = found?;
            let env = &found["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"];
            (env == "red").then(|| assert_eq!(found["spec"]["replicas"], 3))
        })
        .await;
    settled_on(&fixture, "other").await;
    assert_eq!(other.wait_exists(workload.0, &home, &name).await["spec"]["replicas"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plane_is_left_after_the_deadline_of_a_move_also_without_a_workload_that_runs() {
    let (fixture, other) = tokio::join!(DeploymentFixture::open(), full_plane("other"));
    fixture.register("other", &other).await;
    fixture.artifact("cart", "cart", IMAGE, json!({})).await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let deployment = settled_on(&fixture, "plane").await;
    let (home, name) = (namespace(&deployment), item(&deployment, "Deployment").name.clone());
    schedulable(&other, false).await;
    let deadline = |text: &str| json!({"metadata": {"annotations": {"openchoreo.dev/move-deadline": text}}});
    fixture.control.patch::<Environment>("acme/dev", deadline("soon")).await;
    move_to(&fixture, "other").await;
    fixture
        .until("the deadline is told to be none", "cart", |found| {
            let (_, _, message) = condition(found, "Ready")?;
            (message.contains("move-deadline") && message.contains("soon")).then_some(())
        })
        .await;
    fixture.plane.wait_exists("apps/v1/Deployment", &home, &name).await;
    fixture.control.patch::<Environment>("acme/dev", deadline("1s")).await;
    fixture.plane.gone("apps/v1/Deployment", &home, &name).await;
    fixture
        .until("nothing is left to clean", "cart", |found| {
            let status = found.status.as_ref()?;
            (status.cleaning.is_empty() && !is_ready(found)).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_routes_stay_until_the_new_ones_are_accepted_and_lead_to_a_workload_that_runs() {
    let fixture = EndpointFixture::open().await;
    fixture.deploy(json!([template("api", "/v1", json!({"public": open(json!([]))}))])).await;
    let endpoint = fixture.ready(&name("api")).await;
    let deployed = &fixture.deployment;
    let other = full_plane("other").await;
    gateway::gateways(&other).await;
    let there = gateway::FakeGateway::on(&other);
    gateway::at_work(&other).await;
    deployed.register("other", &other).await;
    fixture.configure("other", "dev").await;
    let deployment = deployed.ready("cart").await;
    let (home, workload) = (namespace(&deployment), item(&deployment, "Deployment").name.clone());
    let both_are_there = async || {
        deployed.plane.wait_exists("apps/v1/Deployment", &home, &workload).await;
        assert_eq!(fixture.names(HTTP_ROUTE, &endpoint).await.len(), 1);
    };
    let claims = fixture.claims().await;

    // The new gateway does not accept the route.
    there.refuse(true).await;
    move_to(deployed, "other").await;
    fixture.wait_condition(&name("api"), "False", "RouteNotAccepted").await;
    let message = deployed.wait_condition("cart", "Ready", "False", "Moving").await;
    assert!(message.contains(&name("api")), "{message}");
    both_are_there().await;
    // What its old routes have is not given to anybody meanwhile.
    for claim in claims {
        assert!(fixture.claims().await.contains(&claim), "{claim:?}");
    }
    there.refuse(false).await;
    settled_on(deployed, "other").await;
    assert_eq!(fixture.names(HTTP_ROUTE, &endpoint).await, [""; 0]);
    deployed.plane.gone("apps/v1/Deployment", &home, &workload).await;

    // Back again, to where nobody can run.
    schedulable(&deployed.plane, false).await;
    move_to(deployed, "plane").await;
    fixture.wait_condition(&name("api"), "False", "BackendNotReady").await;
    let routes = other.api(HTTP_ROUTE, &home);
    assert_eq!(routes.list(&kube::api::ListParams::default()).await.unwrap().items.len(), 1);
    other.wait_exists("apps/v1/Deployment", &home, &workload).await;
    schedulable(&deployed.plane, true).await;
    settled_on(deployed, "plane").await;
    assert_eq!(routes.list(&kube::api::ListParams::default()).await.unwrap().items.len(), 0);
}
