//! Nothing stays green that nobody looks at, and what was said is not said again.

use kantor_api::Deployment;
use kantor_testbed::proxy::Verb;

use super::*;
use crate::{
    deployment::support::{IMAGE, Shop, endpoint},
    observing::{Scraped, looks, until_looked_at, until_value},
};

/// A shop with a Deployment that runs.
async fn open() -> Shop {
    let shop = Shop::open().await;
    shop.artifact("cart", "cart", IMAGE, json!({"endpointTemplates": [endpoint("api", 8080)]})).await;
    shop.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    shop.ready("cart").await;
    shop
}

/// Waits until a condition of the DataPlane `plane` has this status and reason.
async fn says(stage: &Stage, type_: &str, status: &str, reason: &str) -> String {
    let what = format!("the plane says {type_}={status} {reason}");
    stage
        .until(&what, "acme/plane", |plane: Option<&DataPlane>| {
            let said = condition(plane?, type_)?;
            (said.0 == status && said.1 == reason).then_some(said.2)
        })
        .await
}

async fn environment_says(stage: &Stage, status: &str, reason: &str) -> String {
    stage
        .until(&format!("the environment says {status} {reason}"), "acme/dev", |e: Option<&Environment>| {
            let said = condition(e?, "Ready")?;
            (said.0 == status && said.1 == reason).then_some(said.2)
        })
        .await
}

fn pause(value: serde_json::Value) -> serde_json::Value {
    json!({"metadata": {"annotations": {"openchoreo.dev/paused": value}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_that_may_not_be_read_leaves_nothing_green_after_a_restart() {
    let mut shop = open().await;
    let reads = Match::new().verb(Verb::Get).resource("secrets").name("plane");
    let refused = shop.stage.proxy.fault(Fault::when(reads).then(Action::status(403)));
    shop.stage.restart_operator().await;
    refused.await_hit(PATIENCE).await.unwrap();
    let message = shop.says("cart", "Ready", "Unknown", "DataPlaneUnreachable").await;
    assert!(message.contains("Secret plane"), "{message}");
    let message = says(&shop.stage, "Ready", "False", "SecretNotReadable").await;
    assert!(message.contains("fault injected: 403") && message.contains("Secret plane"), "{message}");
    says(&shop.stage, "Connected", "False", "SecretNotReadable").await;
    environment_says(&shop.stage, "Unknown", "DataPlaneUnreachable").await;
    // One that is new says so as well.
    let spec = json!({"kubernetesCluster": {"secretRef": {"name": "plane"}}});
    shop.stage.create::<DataPlane>(&object("DataPlane", "twin", spec)).await;
    plane_says(&shop.stage, "twin", "False", "SecretNotReadable").await;

    // When it may be read again, all goes on by itself.
    refused.remove();
    plane_ready(&shop.stage, "plane").await;
    plane_ready(&shop.stage, "twin").await;
    shop.ready("cart").await;
    environment_says(&shop.stage, "True", "EnvironmentReady").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_data_plane_is_looked_at_also_over_a_restart() {
    let mut shop = open().await;
    let deployment = shop.ready("cart").await;
    shop.stage.patch::<DataPlane>("acme/plane", pause("true".into())).await;
    says(&shop.stage, "Stalled", "True", "Paused").await;
    shop.stage.restart_operator().await;
    shop.configure("cart", json!({"args": ["--late"]})).await;
    shop.workload("the change arrives", &deployment, |workload| {
        (workload["spec"]["template"]["spec"]["containers"][0]["args"][0] == "--late").then_some(())
    })
    .await;
    shop.ready("cart").await;

    // What is lost meanwhile is told.
    shop.plane.proxy.refuse(true);
    says(&shop.stage, "Connected", "False", "DataPlaneUnreachable").await;
    says(&shop.stage, "Ready", "Unknown", "DataPlaneUnreachable").await;
    says(&shop.stage, "Stalled", "True", "Paused").await;
    shop.says("cart", "Ready", "Unknown", "DataPlaneUnreachable").await;
    shop.plane.proxy.refuse(false);
    says(&shop.stage, "Ready", "True", "DataPlaneConnected").await;
    shop.ready("cart").await;
    shop.stage.patch::<DataPlane>("acme/plane", pause(serde_json::Value::Null)).await;
    plane_ready(&shop.stage, "plane").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_while_a_plane_is_away_writes_nothing() {
    let mut shop = open().await;
    shop.plane.proxy.refuse(true);
    let message = shop.says("cart", "Ready", "Unknown", "DataPlaneUnreachable").await;
    assert!(message.contains("last answered at"), "{message}");
    plane_says(&shop.stage, "plane", "Unknown", "DataPlaneUnreachable").await;
    environment_says(&shop.stage, "Unknown", "DataPlaneUnreachable").await;
    let endpoints: Api<kantor_api::Endpoint> = Api::namespaced(shop.stage.client.clone(), "acme");
    let path = format!("acme/{}", endpoints.list(&ListParams::default()).await.unwrap().items[0].name_any());
    shop.stage
        .until("the Endpoint says so", &path, |found: Option<&kantor_api::Endpoint>| {
            condition(found?, "Ready").filter(|said| said.1 == "DataPlaneUnreachable").map(drop)
        })
        .await;
    shop.stage.until_quiet().await;

    let mark = shop.stage.proxy.mark();
    shop.stage.restart_operator().await;
    let lost = [("data_plane", "acme/plane")];
    until_value(&shop.stage, "kantor_plane_disconnects_total", &lost, |count| count > 0.0).await;
    // It knows that the plane is away, and looks at each of them with that.
    for controller in ["data-plane", "environment", "deployment", "endpoint"] {
        let before = looks(&shop.stage, controller).await;
        let touch = json!({"metadata": {"annotations": {"touched": before.to_string()}}});
        match controller {
            "data-plane" => shop.stage.patch::<DataPlane>("acme/plane", touch).await,
            "environment" => shop.stage.patch::<Environment>("acme/dev", touch).await,
            "deployment" => shop.stage.patch::<Deployment>("acme/cart", touch).await,
            _ => shop.stage.patch::<kantor_api::Endpoint>(&path, touch).await,
        }
        until_looked_at(&shop.stage, controller, before).await;
    }
    shop.stage.proxy.assert_no_writes_since(mark);
    shop.plane.proxy.refuse(false);
    shop.ready("cart").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_says_what_its_data_plane_lacks() {
    let shop = open().await;
    let let_go = json!({"metadata": {"finalizers": null}});
    shop.stage.delete::<Secret>("acme/plane").await;
    shop.stage.patch::<Secret>("acme/plane", let_go).await;
    plane_says(&shop.stage, "plane", "False", "SecretNotFound").await;
    let message = environment_says(&shop.stage, "False", "SecretNotFound").await;
    assert!(message.contains("data plane plane") && message.contains("Secret plane"), "{message}");
    // The connection is there: what runs is seen to run.
    shop.ready("cart").await;
    secret(&shop.stage, "plane", &[("kubeconfig", &shop.plane.kubeconfig.to_yaml())]).await;
    environment_says(&shop.stage, "True", "EnvironmentReady").await;
    plane_ready(&shop.stage, "plane").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_contact_is_the_last_one_that_was_known_when_something_was_said() {
    let (stage, plane) = tokio::join!(acme(), plain_plane("plane"));
    register(&stage, "plane", &plane_kubeconfig(&plane).await).await;
    let seconds =
        |plane: &DataPlane| plane.status.as_ref().unwrap().last_contact_time.as_ref().unwrap().0.as_second();
    let first = seconds(&plane_ready(&stage, "plane").await);
    stage.until_quiet().await;
    let mark = stage.proxy.mark();
    // It is asked each second.
    let later = i32::try_from(first % 1_000_000_000).unwrap() + 2;
    let name = "kantor_plane_last_contact_timestamp_seconds";
    until_value(&stage, name, &[("data_plane", "acme/plane")], |at| at % 1e9 > f64::from(later)).await;
    stage.proxy.assert_no_writes_since(mark);
    assert_eq!(Scraped::of(&stage).await.values(name).count(), 1);

    let policy = json!({"spec": {"releasePolicy": {"deniedKinds": ["Lease"]}}});
    stage.patch::<DataPlane>("acme/plane", policy).await;
    let generation = stage.there::<DataPlane>("acme/plane").await.metadata.generation;
    let now = stage
        .until("it is said of the new generation", "acme/plane", |plane: Option<&DataPlane>| {
            let plane = plane?;
            (plane.status.as_ref()?.observed_generation == generation).then(|| seconds(plane))
        })
        .await;
    assert!(now >= first + 2, "{first} {now}");
}
