//! Deploying, repairing, changing, removing.

use kantor_testbed::snapshot::{Options, Snapshot, assert_nothing_left};
use serde_json::json;

use super::support::{DeploymentFixture, endpoint};
use crate::support::PATIENCE;

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_runs_is_kept_and_goes_without_a_trace() {
    let fixture = DeploymentFixture::open().await;
    let before = Snapshot::settled(&fixture.plane.client, &Options::default(), PATIENCE).await.unwrap();
    let configuration = json!({
        "endpointTemplates": [endpoint("api", 8080)],
        "application": {"env": [{"key": "COLOUR", "value": "blue"}], "fileMounts": [{"mountPath": "/etc/a", "value": "b"}]},
    });
    fixture.artifact("cart", "cart-1", "registry.example.com/cart:1", configuration).await;
    fixture.deploy("cart-dev", "cart", "dev", json!({"deploymentArtifactRef": "cart-1"})).await;
    let deployment = fixture.ready("cart-dev").await;
    let status = deployment.status.unwrap();
    assert_eq!(status.image.as_deref(), Some("registry.example.com/cart:1"));
    let namespace = status.namespace.unwrap();
    let workload = status.inventory.iter().find(|item| item.kind == "Deployment").unwrap().clone();
    let live = fixture.plane.get("apps/v1/Deployment", &namespace, &workload.name).await.unwrap();
    assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], "registry.example.com/cart:1");

    let grace = json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 5}}}});
    fixture.plane.patch("apps/v1/Deployment", &namespace, &workload.name, grace).await;
    let label = json!({"metadata": {"labels": {"component-name": "other"}}});
    fixture.plane.patch("apps/v1/Deployment", &namespace, &workload.name, label).await;
    fixture
        .plane
        .until("the label is back", ("apps/v1/Deployment", &namespace, &workload.name), |found| {
            (found?["metadata"]["labels"]["component-name"] == "cart").then_some(())
        })
        .await;
    // What Kantor does not set is left as somebody else has set it.
    let live = fixture.plane.get("apps/v1/Deployment", &namespace, &workload.name).await.unwrap();
    assert_eq!(live["spec"]["template"]["spec"]["terminationGracePeriodSeconds"], 5);

    fixture.delete("cart-dev").await;
    fixture.control.delete::<kantor_api::Environment>("acme/dev").await;
    fixture.control.until_gone::<kantor_api::Environment>("acme/dev").await;
    assert_nothing_left(&before, &fixture.plane.client, PATIENCE).await;
}
