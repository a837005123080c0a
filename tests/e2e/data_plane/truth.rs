//! Nothing stays green that nobody looks at, and what was said is not said again.

use kantor_api::Deployment;
use kantor_testbed::proxy::Verb;

use super::*;
use crate::{
    deployment::support::{DeploymentFixture, IMAGE, endpoint},
    observing::{Scraped, looks, until_looked_at, until_value},
};

/// A fixture with a Deployment that runs.
async fn open() -> DeploymentFixture {
    let fixture = DeploymentFixture::open().await;
    fixture.artifact("cart", "cart", IMAGE, json!({"endpointTemplates": [endpoint("api", 8080)]})).await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    fixture.ready("cart").await;
    fixture
}

/// Waits until a condition of the DataPlane `plane` has this status and reason.
async fn wait_condition(control: &OperatorFixture, type_: &str, status: &str, reason: &str) -> String {
    let what = format!("the plane says {type_}={status} {reason}");
    control
        .until(&what, "acme/plane", |plane: Option<&DataPlane>| {
            let said = condition(plane?, type_)?;
            (said.0 == status && said.1 == reason).then_some(said.2)
        })
        .await
}

async fn wait_environment_condition(control: &OperatorFixture, status: &str, reason: &str) -> String {
    control
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
    let mut fixture = open().await;
    let reads = Match::new().verb(Verb::Get).resource("secrets").name("plane");
    let refused = fixture.control.proxy.fault(Fault::when(reads).then(Action::status(403)));
    fixture.control.restart_operator().await;
    refused.await_hit(PATIENCE).await.unwrap();
    let message = fixture.wait_condition("cart", "Ready", "Unknown", "DataPlaneUnreachable").await;
    assert!(message.contains("Secret plane"), "{message}");
    let message = wait_condition(&fixture.control, "Ready", "False", "SecretNotReadable").await;
    assert!(message.contains("fault injected: 403") && message.contains("Secret plane"), "{message}");
    wait_condition(&fixture.control, "Connected", "False", "SecretNotReadable").await;
    wait_environment_condition(&fixture.control, "Unknown", "DataPlaneUnreachable").await;
    // One that is new says so as well.
    let spec = json!({"kubernetesCluster": {"secretRef": {"name": "plane"}}});
    fixture.control.create::<DataPlane>(&object("DataPlane", "twin", spec)).await;
    wait_plane_condition(&fixture.control, "twin", "False", "SecretNotReadable").await;

    // When it may be read again, all goes on by itself.
    refused.remove();
    plane_ready(&fixture.control, "plane").await;
    plane_ready(&fixture.control, "twin").await;
    fixture.ready("cart").await;
    wait_environment_condition(&fixture.control, "True", "EnvironmentReady").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_data_plane_is_looked_at_also_over_a_restart() {
    let mut fixture = open().await;
    let deployment = fixture.ready("cart").await;
    fixture.control.patch::<DataPlane>("acme/plane", pause("true".into())).await;
    wait_condition(&fixture.control, "Stalled", "True", "Paused").await;
    fixture.control.restart_operator().await;
    fixture.configure("cart", json!({"args": ["--late"]})).await;
    fixture
        .workload("the change arrives", &deployment, |workload| {
            (workload["spec"]["template"]["spec"]["containers"][0]["args"][0] == "--late").then_some(())
        })
        .await;
    fixture.ready("cart").await;

    // What is lost meanwhile is told.
    fixture.plane.proxy.refuse(true);
    wait_condition(&fixture.control, "Connected", "False", "DataPlaneUnreachable").await;
    wait_condition(&fixture.control, "Ready", "Unknown", "DataPlaneUnreachable").await;
    wait_condition(&fixture.control, "Stalled", "True", "Paused").await;
    fixture.wait_condition("cart", "Ready", "Unknown", "DataPlaneUnreachable").await;
    fixture.plane.proxy.refuse(false);
    wait_condition(&fixture.control, "Ready", "True", "DataPlaneConnected").await;
    fixture.ready("cart").await;
    fixture.control.patch::<DataPlane>("acme/plane", pause(serde_json::Value::Null)).await;
    plane_ready(&fixture.control, "plane").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_while_a_plane_is_away_writes_nothing() {
    let mut fixture = open().await;
    fixture.plane.proxy.refuse(true);
    let message = fixture.wait_condition("cart", "Ready", "Unknown", "DataPlaneUnreachable").await;
    assert!(message.contains("last answered at"), "{message}");
    wait_plane_condition(&fixture.control, "plane", "Unknown", "DataPlaneUnreachable").await;
    wait_environment_condition(&fixture.control, "Unknown", "DataPlaneUnreachable").await;
    let endpoints: Api<kantor_api::Endpoint> = Api::namespaced(fixture.control.client.clone(), "acme");
    let path = format!("acme/{}", endpoints.list(&ListParams::default()).await.unwrap().items[0].name_any());
    fixture
        .control
        .until("the Endpoint says so", &path, |found: Option<&kantor_api::Endpoint>| {
            condition(found?, "Ready").filter(|said| said.1 == "DataPlaneUnreachable").map(drop)
        })
        .await;
    fixture.control.until_quiet().await;

    let mark = fixture.control.proxy.mark();
    fixture.control.restart_operator().await;
    let lost = [("data_plane", "acme/plane")];
    until_value(&fixture.control, "kantor_plane_disconnects_total", &lost, |count| count > 0.0).await;
    // It knows that the plane is away, and looks at each of them with that.
    for controller in ["data-plane", "environment", "deployment", "endpoint"] {
        let before = looks(&fixture.control, controller).await;
        let touch = json!({"metadata": {"annotations": {"touched": before.to_string()}}});
        match controller {
            "data-plane" => fixture.control.patch::<DataPlane>("acme/plane", touch).await,
            "environment" => fixture.control.patch::<Environment>("acme/dev", touch).await,
            "deployment" => fixture.control.patch::<Deployment>("acme/cart", touch).await,
            _ => fixture.control.patch::<kantor_api::Endpoint>(&path, touch).await,
        }
        until_looked_at(&fixture.control, controller, before).await;
    }
    fixture.control.proxy.assert_no_writes_since(mark);
    fixture.plane.proxy.refuse(false);
    fixture.ready("cart").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_says_what_its_data_plane_lacks() {
    let fixture = open().await;
    let let_go = json!({"metadata": {"finalizers": null}});
    fixture.control.delete::<Secret>("acme/plane").await;
    fixture.control.patch::<Secret>("acme/plane", let_go).await;
    wait_plane_condition(&fixture.control, "plane", "False", "SecretNotFound").await;
    let message = wait_environment_condition(&fixture.control, "False", "SecretNotFound").await;
    assert!(message.contains("data plane plane") && message.contains("Secret plane"), "{message}");
    // The connection is there: what runs is seen to run.
    fixture.ready("cart").await;
    secret(&fixture.control, "plane", &[("kubeconfig", &fixture.plane.kubeconfig.to_yaml())]).await;
    wait_environment_condition(&fixture.control, "True", "EnvironmentReady").await;
    plane_ready(&fixture.control, "plane").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_contact_is_the_last_one_that_was_known_when_something_was_said() {
    let (control, plane) = tokio::join!(acme(), plain_plane("plane"));
    register(&control, "plane", &plane_kubeconfig(&plane).await).await;
    let seconds =
        |plane: &DataPlane| plane.status.as_ref().unwrap().last_contact_time.as_ref().unwrap().0.as_second();
    let first = seconds(&plane_ready(&control, "plane").await);
    control.until_quiet().await;
    let mark = control.proxy.mark();
    // It is asked each second.
    let later = i32::try_from(first % 1_000_000_000).unwrap() + 2;
    let name = "kantor_plane_last_contact_timestamp_seconds";
    until_value(&control, name, &[("data_plane", "acme/plane")], |at| at % 1e9 > f64::from(later)).await;
    control.proxy.assert_no_writes_since(mark);
    assert_eq!(Scraped::of(&control).await.values(name).count(), 1);

    let policy = json!({"spec": {"releasePolicy": {"deniedKinds": ["Lease"]}}});
    control.patch::<DataPlane>("acme/plane", policy).await;
    let generation = control.wait_exists::<DataPlane>("acme/plane").await.metadata.generation;
    let now = control
        .until("it is said of the new generation", "acme/plane", |plane: Option<&DataPlane>| {
            let plane = plane?;
            (plane.status.as_ref()?.observed_generation == generation).then(|| seconds(plane))
        })
        .await;
    assert!(now >= first + 2, "{first} {now}");
}
