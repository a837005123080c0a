//! An environment that moves to another plane.

use kantor_api::{DataPlane, Deployment, Environment};
use kantor_testbed::{
    proxy::{Action, Fault, Match, Verb},
    snapshot::{Options, Snapshot, assert_nothing_left},
};
use serde_json::json;

use super::support::{IMAGE, Plane, Shop, endpoint, full_plane, item, namespace};
use crate::support::{PATIENCE, condition, is_ready};

async fn snapshot(plane: &Plane) -> Snapshot {
    Snapshot::settled(&plane.client, &Options::default(), PATIENCE).await.unwrap()
}

async fn move_to(shop: &Shop, plane: &str) {
    shop.stage.patch::<Environment>("acme/dev", json!({"spec": {"dataPlaneRef": plane}})).await;
}

/// Waits until the Deployment is ready on a plane and nothing is left to clean.
async fn settled_on(shop: &Shop, plane: &str) -> Deployment {
    shop.until(&format!("it is on {plane}"), "cart", |found| {
        let status = found.status.as_ref()?;
        let there = status.data_plane.as_ref()?.name == plane && status.cleaning.is_empty();
        (there && is_ready(found)).then(|| found.clone())
    })
    .await
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
