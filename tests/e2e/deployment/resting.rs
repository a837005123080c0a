//! Nothing to do costs nothing.

use kantor_api::{Component, DeployableArtifact, Deployment, Environment, Project};
use serde_json::json;

use super::support::{IMAGE, Shop, endpoint};
use crate::observing::until_connected;

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_nothing_costs_no_call_to_the_plane_and_no_write_to_the_control_plane() {
    let mut shop = Shop::open().await;
    let application = json!({
        "env": [{"key": "COLOUR", "value": "blue"}],
        "fileMounts": [{"mountPath": "/etc/a", "value": "b"}],
        "resourceLimits": {"cpu": "1000m", "memory": "1024Mi"},
        "probes": {"livenessProbe": {"tcpSocket": {"port": 8080}}},
        "scaling": {"hpa": {"minReplicas": 1, "maxReplicas": 2}},
    });
    let configuration = json!({"endpointTemplates": [endpoint("api", 8080)], "application": application});
    shop.artifact("cart", "cart", IMAGE, configuration).await;
    shop.component("report", "ScheduledTask").await;
    let hourly = json!({"application": {"task": {"schedule": {"cron": "0 0 1 1 *"}}}});
    shop.artifact("report", "report", IMAGE, hourly).await;
    for name in ["cart", "report"] {
        shop.deploy(name, name, "dev", json!({"deploymentArtifactRef": name})).await;
        shop.ready(name).await;
    }
    shop.quiet().await;

    let (here, there) = (shop.stage.proxy.mark(), shop.plane.proxy.mark());
    // Other annotations of a Deployment are its Endpoints' as well.
    let touch = || json!({"metadata": {"annotations": {"kubectl.kubernetes.io/touched": "yes"}}});
    shop.stage.patch::<Deployment>("acme/cart", touch()).await;
    shop.stage.patch::<Deployment>("acme/report", touch()).await;
    shop.stage.patch::<DeployableArtifact>("acme/cart", touch()).await;
    shop.stage.patch::<Environment>("acme/dev", touch()).await;
    shop.stage.patch::<Component>("acme/cart", touch()).await;
    shop.stage.patch::<Project>("acme/shop", touch()).await;
    shop.quiet().await;
    shop.stage.proxy.assert_no_writes_since(here);
    let calls = shop.plane.calls_since(there);
    assert!(calls.is_empty(), "{calls}");

    let (here, there) = (shop.stage.proxy.mark(), shop.plane.proxy.mark());
    shop.stage.restart_operator().await;
    until_connected(&shop.stage).await;
    shop.quiet().await;
    shop.stage.proxy.assert_no_writes_since(here);
    let calls = shop.plane.calls_since(there);
    assert!(calls.is_empty(), "{calls}");
    shop.configure("cart", json!({"env": [{"key": "COLOUR", "value": "red"}]})).await;
    let deployment = shop.ready("cart").await;
    shop.workload("it still works", &deployment, |workload| {
        let env = &workload["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"];
        (env == "red").then_some(())
    })
    .await;
    let writes = shop.plane.calls_since(there).writes();
    assert_eq!(writes.len(), 1, "one change, one write: {writes}");
}
