//! An environment that moves to another plane.

use k8s_openapi::api::core::v1::Secret;
use kantor_api::{DataPlane, Deployment, Environment, Release};
use kantor_testbed::{
    proxy::{Action, Fault, Match, Verb},
    snapshot::{Options, Snapshot, assert_nothing_left},
};
use serde_json::{Value, json};

use super::support::{
    DeploymentFixture, IMAGE, Plane, endpoint, full_plane, item, move_to, namespace, settled_on,
};
use crate::{
    acme::{secret, wait_plane_condition},
    observing::{looks, until_looked_at},
    release::support::{config_map, release},
    support::{PATIENCE, condition, is_ready},
};

async fn snapshot(plane: &Plane) -> Snapshot {
    Snapshot::settled(&plane.client, &Options::default(), PATIENCE).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workload_moves_with_its_environment_and_leaves_the_old_plane_clean() {
    let (fixture, other) = tokio::join!(DeploymentFixture::open(), full_plane("other"));
    fixture.register("other", &other).await;
    let (here, there) = (snapshot(&fixture.plane).await, snapshot(&other).await);
    let configuration = json!({"endpointTemplates": [endpoint("api", 8080)],
        "application": {"fileMounts": [{"mountPath": "/etc/a", "value": "b"}]}});
    fixture.artifact("cart", "cart", IMAGE, configuration).await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let deployment = settled_on(&fixture, "plane").await;
    let (home, name) = (namespace(&deployment), item(&deployment, "Deployment").name.clone());

    // While it is not there yet, it goes on here.
    let applies = Match::new().verb(Verb::Apply).group("apps").resource("deployments");
    let held = other.proxy.fault(Fault::when(applies.nth(1)).then(Action::HoldBefore));
    move_to(&fixture, "other").await;
    held.await_hit(PATIENCE).await.unwrap();
    fixture.live(&deployment, "Deployment").await;
    fixture.live(&deployment, "Service").await;
    held.release();
    settled_on(&fixture, "other").await;
    other.wait_exists("apps/v1/Deployment", &home, &name).await;
    assert_nothing_left(&here, &fixture.plane.client, PATIENCE).await;

    // Back again, while the plane that it leaves does not answer.
    other.proxy.refuse(true);
    move_to(&fixture, "plane").await;
    fixture
        .plane
        .until("the workload is back", ("apps/v1/Deployment", &home, &name), |found| {
            (found?["status"]["readyReplicas"] == 1).then_some(())
        })
        .await;
    fixture
        .until("what is left is told", "cart", |found| {
            let (status, reason, message) = condition(found, "Ready")?;
            (status == "False" && reason == "CleaningUp" && message.contains("other")).then_some(())
        })
        .await;
    fixture.control.delete::<DataPlane>("acme/other").await;
    fixture
        .control
        .until("the plane says what it waits for", "acme/other", |found: Option<&DataPlane>| {
            let (status, _, message) = condition(found.unwrap(), "Finalizing")?;
            (status == "True" && message.contains("Deployment") && message.contains("cart")).then_some(())
        })
        .await;
    other.proxy.refuse(false);
    settled_on(&fixture, "plane").await;
    fixture.control.until_gone::<DataPlane>("acme/other").await;
    assert_nothing_left(&there, &other.client, PATIENCE).await;
    fixture.live(&fixture.ready("cart").await, "Deployment").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_deleted_after_a_move_goes_from_both_planes() {
    let (fixture, other) = tokio::join!(DeploymentFixture::open(), full_plane("other"));
    fixture.register("other", &other).await;
    let (here, there) = (snapshot(&fixture.plane).await, snapshot(&other).await);
    fixture.artifact("cart", "cart", IMAGE, json!({"endpointTemplates": [endpoint("api", 8080)]})).await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    settled_on(&fixture, "plane").await;
    fixture.plane.proxy.refuse(true);
    move_to(&fixture, "other").await;
    fixture
        .until("it is recorded", "cart", |found| {
            let status = found.status.as_ref()?;
            (status.data_plane.as_ref()?.name == "other" && status.cleaning.len() == 1).then_some(())
        })
        .await;
    fixture.control.delete::<Deployment>("acme/cart").await;
    fixture.control.delete::<Environment>("acme/dev").await;
    fixture
        .until("it waits for the plane", "cart", |found| {
            let (status, _, message) = condition(found, "Finalizing")?;
            (status == "True" && message.contains("data plane plane")).then_some(())
        })
        .await;
    fixture.plane.proxy.refuse(false);
    fixture.control.until_gone::<Deployment>("acme/cart").await;
    fixture.control.until_gone::<Environment>("acme/dev").await;
    assert_nothing_left(&here, &fixture.plane.client, PATIENCE).await;
    assert_nothing_left(&there, &other.client, PATIENCE).await;
}

/// A Release of the ConfigMap `kept` in the Deployment's namespace.
async fn keep_beside(fixture: &DeploymentFixture, home: &str) {
    let mut kept = config_map("kept", json!({"colour": "blue"}));
    kept["metadata"]["namespace"] = json!(home);
    fixture.control.create(&release("beside", &[("kept", kept)])).await;
    fixture.control.until_ready::<Release>("acme/beside").await;
}

/// Has the environment looked at once more.
async fn look_at_environment(fixture: &DeploymentFixture) {
    let before = looks(&fixture.control, "environment").await;
    let touch = json!({"metadata": {"annotations": {"touched": before.to_string()}}});
    fixture.control.patch::<Environment>("acme/dev", touch).await;
    until_looked_at(&fixture.control, "environment", before).await;
}

async fn is_kept(plane: &Plane, home: &str) {
    let found = plane.get("v1/ConfigMap", home, "kept").await.expect("the ConfigMap");
    assert!(found["metadata"]["deletionTimestamp"].is_null(), "{found:#}");
    let space = plane.get("v1/Namespace", "", home).await.expect("the namespace");
    assert!(space["metadata"]["deletionTimestamp"].is_null(), "{space:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_in_which_a_release_has_objects_is_not_left_behind_its_back() {
    let (fixture, other) = tokio::join!(DeploymentFixture::open(), full_plane("other"));
    fixture.register("other", &other).await;
    let here = snapshot(&fixture.plane).await;
    let policy = json!({"spec": {"releasePolicy": {"deniedKinds": ["ConfigMap"]}}});
    fixture.control.patch::<DataPlane>("acme/other", policy).await;
    fixture.artifact("cart", "cart", IMAGE, json!({})).await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let home = namespace(&settled_on(&fixture, "plane").await);
    keep_beside(&fixture, &home).await;

    move_to(&fixture, "other").await;
    settled_on(&fixture, "other").await;
    fixture
        .control
        .until("the Release is refused there", "acme/beside", |found: Option<&Release>| {
            let (_, reason, _) = condition(found?, "Ready")?;
            (reason == "PolicyViolation").then_some(())
        })
        .await;
    look_at_environment(&fixture).await;
    fixture.quiet().await;
    is_kept(&fixture.plane, &home).await;

    // With the Release the last reason is gone.
    fixture.control.delete::<Release>("acme/beside").await;
    fixture.control.until_gone::<Release>("acme/beside").await;
    assert_nothing_left(&here, &fixture.plane.client, PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_registered_under_another_name_is_not_left_and_the_old_name_can_go() {
    let fixture = DeploymentFixture::open().await;
    fixture.artifact("cart", "cart", IMAGE, json!({"endpointTemplates": [endpoint("api", 8080)]})).await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let home = namespace(&settled_on(&fixture, "plane").await);
    keep_beside(&fixture, &home).await;
    fixture.delete("cart").await;

    // The environment moves while nothing but the Release is there.
    fixture.register("new", &fixture.plane).await;
    move_to(&fixture, "new").await;
    fixture
        .control
        .until("the Release is on it", "acme/beside", |found: Option<&Release>| {
            let on = found?.status.as_ref()?.data_plane.as_ref()?;
            (on.name == "new" && is_ready(found?)).then_some(())
        })
        .await;
    look_at_environment(&fixture).await;
    fixture.quiet().await;
    is_kept(&fixture.plane, &home).await;

    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let deployment = settled_on(&fixture, "new").await;
    let uid = fixture.live(&deployment, "Deployment").await["metadata"]["uid"].clone();
    fixture.control.delete::<DataPlane>("acme/plane").await;
    fixture.control.until_gone::<DataPlane>("acme/plane").await;
    fixture.control.delete::<Secret>("acme/plane").await;
    fixture.control.until_gone::<Secret>("acme/plane").await;
    let environment: Environment = fixture.control.until_ready("acme/dev").await;
    let recorded = environment.status.unwrap().namespaces;
    assert!(!recorded.is_empty() && recorded.iter().all(|record| record.data_plane.name == "new"));
    assert_eq!(fixture.live(&settled_on(&fixture, "new").await, "Deployment").await["metadata"]["uid"], uid);
    is_kept(&fixture.plane, &home).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_took_over_a_name_is_not_cleaned_in_the_place_of_the_former_one() {
    let (fixture, other) = tokio::join!(DeploymentFixture::open(), full_plane("other"));
    fixture.artifact("cart", "cart", IMAGE, json!({})).await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let deployment = settled_on(&fixture, "plane").await;
    let (home, name) = (namespace(&deployment), item(&deployment, "Deployment").name.clone());
    fixture.control.delete::<DataPlane>("acme/plane").await;
    fixture
        .control
        .until("the plane says that it is used", "acme/plane", |plane: Option<&DataPlane>| {
            condition(plane?, "Stalled").filter(|said| said.1 == "InUse").map(|_| ())
        })
        .await;
    let free = |value: Value| json!({"metadata": {"finalizers": value}});
    fixture.control.patch::<DataPlane>("acme/plane", free(Value::Null)).await;
    fixture.control.until_gone::<DataPlane>("acme/plane").await;
    fixture.control.delete::<Secret>("acme/plane").await;
    fixture.control.until_gone::<Secret>("acme/plane").await;
    fixture.register("plane", &other).await;

    // It goes on there, and what was before is waited for.
    other.wait_exists("apps/v1/Deployment", &home, &name).await;
    let told = |found: &Deployment, type_: &str| {
        let (_, _, message) = condition(found, type_)?;
        message.contains("another cluster").then_some(())
    };
    fixture.until("it says so", "cart", |found| told(found, "Ready")).await;
    fixture.control.delete::<Deployment>("acme/cart").await;
    fixture.until("it waits", "cart", |found| told(found, "Finalizing")).await;
    other.gone("apps/v1/Deployment", &home, &name).await;
    fixture.until("it still waits", "cart", |found| told(found, "Finalizing")).await;
    fixture.live(&deployment, "Deployment").await;

    // Registered again, under whatever name, the former cluster is cleaned.
    secret(&fixture.control, "again", &[("kubeconfig", &fixture.plane.kubeconfig.to_yaml())]).await;
    let spec = json!({"kubernetesCluster": {"secretRef": {"name": "again"}}});
    fixture.control.create::<DataPlane>(&crate::acme::object("DataPlane", "again", spec)).await;
    fixture.control.until_gone::<Deployment>("acme/cart").await;
    fixture.plane.gone("apps/v1/Deployment", &home, &name).await;
    wait_plane_condition(&fixture.control, "plane", "True", "DataPlaneConnected").await;
}
