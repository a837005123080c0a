//! An environment that moves to another plane.

use k8s_openapi::api::core::v1::Secret;
use kantor_api::{DataPlane, Deployment, Environment, Release};
use kantor_testbed::{
    proxy::{Action, Fault, Match, Verb},
    snapshot::{Options, Snapshot, assert_nothing_left},
};
use serde_json::{Value, json};

use super::support::{IMAGE, Plane, Shop, endpoint, full_plane, item, move_to, namespace, settled_on};
use crate::{
    acme::{plane_says, secret},
    observing::{looks, until_looked_at},
    release::support::{config_map, release},
    support::{PATIENCE, condition, is_ready},
};

async fn snapshot(plane: &Plane) -> Snapshot {
    Snapshot::settled(&plane.client, &Options::default(), PATIENCE).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workload_moves_with_its_environment_and_leaves_the_old_plane_clean() {
    let (shop, other) = tokio::join!(Shop::open(), full_plane("other"));
    shop.register("other", &other).await;
    let (here, there) = (snapshot(&shop.plane).await, snapshot(&other).await);
    let configuration = json!({"endpointTemplates": [endpoint("api", 8080)],
        "application": {"fileMounts": [{"mountPath": "/etc/a", "value": "b"}]}});
    shop.artifact("cart", "cart", IMAGE, configuration).await;
    shop.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let deployment = settled_on(&shop, "plane").await;
    let (home, name) = (namespace(&deployment), item(&deployment, "Deployment").name.clone());

    // While it is not there yet, it goes on here.
    let applies = Match::new().verb(Verb::Apply).group("apps").resource("deployments");
    let held = other.proxy.fault(Fault::when(applies.nth(1)).then(Action::HoldBefore));
    move_to(&shop, "other").await;
    held.await_hit(PATIENCE).await.unwrap();
    shop.live(&deployment, "Deployment").await;
    shop.live(&deployment, "Service").await;
    held.release();
    settled_on(&shop, "other").await;
    other.there("apps/v1/Deployment", &home, &name).await;
    assert_nothing_left(&here, &shop.plane.client, PATIENCE).await;

    // Back again, while the plane that it leaves does not answer.
    other.proxy.refuse(true);
    move_to(&shop, "plane").await;
    shop.plane
        .until("the workload is back", ("apps/v1/Deployment", &home, &name), |found| {
            (found?["status"]["readyReplicas"] == 1).then_some(())
        })
        .await;
    shop.until("what is left is told", "cart", |found| {
        let (status, reason, message) = condition(found, "Ready")?;
        (status == "False" && reason == "CleaningUp" && message.contains("other")).then_some(())
    })
    .await;
    shop.stage.delete::<DataPlane>("acme/other").await;
    shop.stage
        .until("the plane says what it waits for", "acme/other", |found: Option<&DataPlane>| {
            let (status, _, message) = condition(found.unwrap(), "Finalizing")?;
            (status == "True" && message.contains("Deployment") && message.contains("cart")).then_some(())
        })
        .await;
    other.proxy.refuse(false);
    settled_on(&shop, "plane").await;
    shop.stage.until_gone::<DataPlane>("acme/other").await;
    assert_nothing_left(&there, &other.client, PATIENCE).await;
    shop.live(&shop.ready("cart").await, "Deployment").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_deleted_after_a_move_goes_from_both_planes() {
    let (shop, other) = tokio::join!(Shop::open(), full_plane("other"));
    shop.register("other", &other).await;
    let (here, there) = (snapshot(&shop.plane).await, snapshot(&other).await);
    shop.artifact("cart", "cart", IMAGE, json!({"endpointTemplates": [endpoint("api", 8080)]})).await;
    shop.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    settled_on(&shop, "plane").await;
    shop.plane.proxy.refuse(true);
    move_to(&shop, "other").await;
    shop.until("it is recorded", "cart", |found| {
        let status = found.status.as_ref()?;
        (status.data_plane.as_ref()?.name == "other" && status.cleaning.len() == 1).then_some(())
    })
    .await;
    shop.stage.delete::<Deployment>("acme/cart").await;
    shop.stage.delete::<Environment>("acme/dev").await;
    shop.until("it waits for the plane", "cart", |found| {
        let (status, _, message) = condition(found, "Finalizing")?;
        (status == "True" && message.contains("data plane plane")).then_some(())
    })
    .await;
    shop.plane.proxy.refuse(false);
    shop.stage.until_gone::<Deployment>("acme/cart").await;
    shop.stage.until_gone::<Environment>("acme/dev").await;
    assert_nothing_left(&here, &shop.plane.client, PATIENCE).await;
    assert_nothing_left(&there, &other.client, PATIENCE).await;
}

/// A Release of the ConfigMap `kept` in the Deployment's namespace.
async fn keep_beside(shop: &Shop, home: &str) {
    let mut kept = config_map("kept", json!({"colour": "blue"}));
    kept["metadata"]["namespace"] = json!(home);
    shop.stage.create(&release("beside", &[("kept", kept)])).await;
    shop.stage.until_ready::<Release>("acme/beside").await;
}

/// Has the environment looked at once more.
async fn look_at_environment(shop: &Shop) {
    let before = looks(&shop.stage, "environment").await;
    let touch = json!({"metadata": {"annotations": {"touched": before.to_string()}}});
    shop.stage.patch::<Environment>("acme/dev", touch).await;
    until_looked_at(&shop.stage, "environment", before).await;
}

async fn is_kept(plane: &Plane, home: &str) {
    let found = plane.get("v1/ConfigMap", home, "kept").await.expect("the ConfigMap");
    assert!(found["metadata"]["deletionTimestamp"].is_null(), "{found:#}");
    let space = plane.get("v1/Namespace", "", home).await.expect("the namespace");
    assert!(space["metadata"]["deletionTimestamp"].is_null(), "{space:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_in_which_a_release_has_objects_is_not_left_behind_its_back() {
    let (shop, other) = tokio::join!(Shop::open(), full_plane("other"));
    shop.register("other", &other).await;
    let here = snapshot(&shop.plane).await;
    let policy = json!({"spec": {"releasePolicy": {"deniedKinds": ["ConfigMap"]}}});
    shop.stage.patch::<DataPlane>("acme/other", policy).await;
    shop.artifact("cart", "cart", IMAGE, json!({})).await;
    shop.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let home = namespace(&settled_on(&shop, "plane").await);
    keep_beside(&shop, &home).await;

    move_to(&shop, "other").await;
    settled_on(&shop, "other").await;
    shop.stage
        .until("the Release is refused there", "acme/beside", |found: Option<&Release>| {
            let (_, reason, _) = condition(found?, "Ready")?;
            (reason == "PolicyViolation").then_some(())
        })
        .await;
    look_at_environment(&shop).await;
    shop.quiet().await;
    is_kept(&shop.plane, &home).await;

    // With the Release the last reason is gone.
    shop.stage.delete::<Release>("acme/beside").await;
    shop.stage.until_gone::<Release>("acme/beside").await;
    assert_nothing_left(&here, &shop.plane.client, PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_registered_under_another_name_is_not_left_and_the_old_name_can_go() {
    let shop = Shop::open().await;
    shop.artifact("cart", "cart", IMAGE, json!({"endpointTemplates": [endpoint("api", 8080)]})).await;
    shop.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let home = namespace(&settled_on(&shop, "plane").await);
    keep_beside(&shop, &home).await;
    shop.delete("cart").await;

    // The environment moves while nothing but the Release is there.
    shop.register("new", &shop.plane).await;
    move_to(&shop, "new").await;
    shop.stage
        .until("the Release is on it", "acme/beside", |found: Option<&Release>| {
            let on = found?.status.as_ref()?.data_plane.as_ref()?;
            (on.name == "new" && is_ready(found?)).then_some(())
        })
        .await;
    look_at_environment(&shop).await;
    shop.quiet().await;
    is_kept(&shop.plane, &home).await;

    shop.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let deployment = settled_on(&shop, "new").await;
    let uid = shop.live(&deployment, "Deployment").await["metadata"]["uid"].clone();
    shop.stage.delete::<DataPlane>("acme/plane").await;
    shop.stage.until_gone::<DataPlane>("acme/plane").await;
    shop.stage.delete::<Secret>("acme/plane").await;
    shop.stage.until_gone::<Secret>("acme/plane").await;
    let environment: Environment = shop.stage.until_ready("acme/dev").await;
    let recorded = environment.status.unwrap().namespaces;
    assert!(!recorded.is_empty() && recorded.iter().all(|record| record.data_plane.name == "new"));
    assert_eq!(shop.live(&settled_on(&shop, "new").await, "Deployment").await["metadata"]["uid"], uid);
    is_kept(&shop.plane, &home).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_took_over_a_name_is_not_cleaned_in_the_place_of_the_former_one() {
    let (shop, other) = tokio::join!(Shop::open(), full_plane("other"));
    shop.artifact("cart", "cart", IMAGE, json!({})).await;
    shop.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let deployment = settled_on(&shop, "plane").await;
    let (home, name) = (namespace(&deployment), item(&deployment, "Deployment").name.clone());
    shop.stage.delete::<DataPlane>("acme/plane").await;
    shop.stage
        .until("the plane says that it is used", "acme/plane", |plane: Option<&DataPlane>| {
            condition(plane?, "Stalled").filter(|said| said.1 == "InUse").map(|_| ())
        })
        .await;
    let free = |value: Value| json!({"metadata": {"finalizers": value}});
    shop.stage.patch::<DataPlane>("acme/plane", free(Value::Null)).await;
    shop.stage.until_gone::<DataPlane>("acme/plane").await;
    shop.stage.delete::<Secret>("acme/plane").await;
    shop.stage.until_gone::<Secret>("acme/plane").await;
    shop.register("plane", &other).await;

    // It goes on there, and what was before is waited for.
    other.there("apps/v1/Deployment", &home, &name).await;
    let told = |found: &Deployment, type_: &str| {
        let (_, _, message) = condition(found, type_)?;
        message.contains("another cluster").then_some(())
    };
    shop.until("it says so", "cart", |found| told(found, "Ready")).await;
    shop.stage.delete::<Deployment>("acme/cart").await;
    shop.until("it waits", "cart", |found| told(found, "Finalizing")).await;
    other.gone("apps/v1/Deployment", &home, &name).await;
    shop.until("it still waits", "cart", |found| told(found, "Finalizing")).await;
    shop.live(&deployment, "Deployment").await;

    // Registered again, under whatever name, the former cluster is cleaned.
    secret(&shop.stage, "again", &[("kubeconfig", &shop.plane.kubeconfig.to_yaml())]).await;
    let spec = json!({"kubernetesCluster": {"secretRef": {"name": "again"}}});
    shop.stage.create::<DataPlane>(&crate::acme::object("DataPlane", "again", spec)).await;
    shop.stage.until_gone::<Deployment>("acme/cart").await;
    shop.plane.gone("apps/v1/Deployment", &home, &name).await;
    plane_says(&shop.stage, "plane", "True", "DataPlaneConnected").await;
}
