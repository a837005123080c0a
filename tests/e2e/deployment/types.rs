//! What becomes of each type of component.

use kantor_api::Component;
use serde_json::json;

use super::support::{IMAGE, Shop, endpoint, item, kinds, namespace};

#[tokio::test(flavor = "multi_thread")]
async fn each_type_of_component_becomes_its_workload() {
    let shop = Shop::open().await;
    shop.component("site", "WebApplication").await;
    shop.component("worker", "Service").await;
    shop.component("report", "ScheduledTask").await;
    shop.component("import", "ManualTask").await;
    let ways_in = json!({"endpointTemplates": [endpoint("api", 8080)]});
    let hourly =
        json!({"application": {"task": {"schedule": {"cron": "0 * * * *", "timezone": "Europe/Berlin"}}}});
    for (component, configuration) in [
        ("cart", ways_in.clone()),
        ("site", ways_in),
        ("worker", json!({})),
        ("report", hourly),
        ("import", json!({})),
    ] {
        shop.artifact(component, component, IMAGE, configuration).await;
        shop.deploy(component, component, "dev", json!({"deploymentArtifactRef": component})).await;
    }

    for component in ["cart", "site"] {
        let deployment = shop.ready(component).await;
        assert_eq!(kinds(&deployment), ["Deployment", "Service"]);
        let service = shop.live(&deployment, "Service").await;
        assert_eq!(service["spec"]["ports"][0]["port"], 8080);
        let pods =
            shop.live(&deployment, "Deployment").await["spec"]["template"]["metadata"]["labels"].clone();
        assert_eq!(service["spec"]["selector"], pods);
    }
    assert_eq!(kinds(&shop.ready("worker").await), ["Deployment"], "no ports, no Service");

    let report = shop.ready("report").await;
    assert_eq!(kinds(&report), ["CronJob"]);
    let cron_job = shop.live(&report, "CronJob").await;
    assert_eq!(
        (cron_job["spec"]["schedule"].as_str(), cron_job["spec"]["timeZone"].as_str()),
        (Some("0 * * * *"), Some("Europe/Berlin"))
    );

    let import = shop.ready("import").await;
    assert_eq!(kinds(&import), ["Job"]);
    let job = shop.live(&import, "Job").await;
    // Kubernetes says that enough pods have succeeded before it has counted them.
    let status = &job["status"];
    let uncounted = status["uncountedTerminatedPods"]["succeeded"].as_array().map_or(0, Vec::len);
    let succeeded = status["succeeded"].as_u64().unwrap_or_default() + u64::try_from(uncounted).unwrap();
    assert_eq!(succeeded, 1, "ready means that it ran: {job:#?}");
    let uid = job["metadata"]["uid"].clone();

    // A run that is over is not run again by a look at it; another image is another run.
    shop.edit_artifact(
        "import",
        json!({"targetArtifact": {"fromImageRef": {"tag": "registry.example.com/cart:2"}}}),
    )
    .await;
    shop.plane
        .until(
            "the task runs anew",
            ("batch/v1/Job", &namespace(&import), &item(&import, "Job").name),
            |job| (job?["metadata"]["uid"] != uid).then_some(()),
        )
        .await;
    let job = shop.live(&shop.ready("import").await, "Job").await;
    assert_eq!(job["spec"]["template"]["spec"]["containers"][0]["image"], "registry.example.com/cart:2");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_run_says_so_and_a_type_that_changes_changes_the_workload() {
    let shop = Shop::open().await;
    shop.component("mainframe", "Batch").await;
    shop.artifact("mainframe", "mainframe", IMAGE, json!({})).await;
    shop.deploy("mainframe", "mainframe", "dev", json!({"deploymentArtifactRef": "mainframe"})).await;
    let message = shop.says("mainframe", "Ready", "False", "UnsupportedComponentType").await;
    assert!(message.contains("Batch") && message.contains("ScheduledTask"), "{message}");
    shop.says("mainframe", "Stalled", "True", "UnsupportedComponentType").await;

    let scaling = json!({"endpointTemplates": [endpoint("api", 8080)],
        "application": {"scaling": {"s2z": {"maxReplicas": 3}}}});
    shop.artifact("cart", "cart", IMAGE, scaling).await;
    shop.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let message = shop.says("cart", "Ready", "False", "UnsupportedScaling").await;
    assert!(message.contains("s2z"), "{message}");
    shop.says("cart", "Stalled", "True", "UnsupportedScaling").await;

    shop.configure("cart", json!({"scaling": null})).await;
    let service = shop.ready("cart").await;
    assert_eq!(kinds(&service), ["Deployment", "Service"]);

    // Both have to change; in between nothing runs wrongly, and what ran goes on.
    shop.stage.patch::<Component>("acme/cart", json!({"spec": {"type": "ScheduledTask"}})).await;
    shop.says("cart", "Ready", "False", "InvalidConfiguration").await;
    shop.live(&service, "Deployment").await;
    shop.configure("cart", json!({"task": {"schedule": {"cron": "*/5 * * * *"}}})).await;
    let home = namespace(&service);
    shop.plane.gone("apps/v1/Deployment", &home, &item(&service, "Deployment").name).await;
    shop.plane.gone("v1/Service", &home, &item(&service, "Service").name).await;
    let task = shop
        .until("cart is a task", "cart", |found| {
            (found.status.as_ref()?.inventory.len() == 1).then(|| found.clone())
        })
        .await;
    assert_eq!(kinds(&task), ["CronJob"]);
    shop.live(&shop.ready("cart").await, "CronJob").await;
}
