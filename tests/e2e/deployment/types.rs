//! What becomes of each type of component.

use kantor_api::Component;
use serde_json::json;

use super::support::{DeploymentFixture, IMAGE, endpoint, item, kinds, namespace};

#[tokio::test(flavor = "multi_thread")]
async fn each_type_of_component_becomes_its_workload() {
    let fixture = DeploymentFixture::open().await;
    fixture.component("site", "WebApplication").await;
    fixture.component("worker", "Service").await;
    fixture.component("report", "ScheduledTask").await;
    fixture.component("import", "ManualTask").await;
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
        fixture.artifact(component, component, IMAGE, configuration).await;
        fixture.deploy(component, component, "dev", json!({"deploymentArtifactRef": component})).await;
    }

    for component in ["cart", "site"] {
        let deployment = fixture.ready(component).await;
        assert_eq!(kinds(&deployment), ["Deployment", "Service"]);
        let service = fixture.live(&deployment, "Service").await;
        assert_eq!(service["spec"]["ports"][0]["port"], 8080);
        let pods =
            fixture.live(&deployment, "Deployment").await["spec"]["template"]["metadata"]["labels"].clone();
        assert_eq!(service["spec"]["selector"], pods);
    }
    assert_eq!(kinds(&fixture.ready("worker").await), ["Deployment"], "no ports, no Service");

    let report = fixture.ready("report").await;
    assert_eq!(kinds(&report), ["CronJob"]);
    let cron_job = fixture.live(&report, "CronJob").await;
    assert_eq!(
        (cron_job["spec"]["schedule"].as_str(), cron_job["spec"]["timeZone"].as_str()),
        (Some("0 * * * *"), Some("Europe/Berlin"))
    );

    let import = fixture.ready("import").await;
    assert_eq!(kinds(&import), ["Job"]);
    let job = fixture.live(&import, "Job").await;
    // Kubernetes says that enough pods have succeeded before it has counted them.
    let status = &job["status"];
    let uncounted = status["uncountedTerminatedPods"]["succeeded"].as_array().map_or(0, Vec::len);
    let succeeded = status["succeeded"].as_u64().unwrap_or_default() + u64::try_from(uncounted).unwrap();
    assert_eq!(succeeded, 1, "ready means that it ran: {job:#?}");
    let uid = job["metadata"]["uid"].clone();

    // A run that is over is not run again by a look at it; another image is another run.
    fixture
        .edit_artifact(
            "import",
            json!({"targetArtifact": {"fromImageRef": {"tag": "registry.example.com/cart:2"}}}),
        )
        .await;
    fixture
        .plane
        .until(
            "the task runs anew",
            ("batch/v1/Job", &namespace(&import), &item(&import, "Job").name),
            |job| (job?["metadata"]["uid"] != uid).then_some(()),
        )
        .await;
    let job = fixture.live(&fixture.ready("import").await, "Job").await;
    assert_eq!(job["spec"]["template"]["spec"]["containers"][0]["image"], "registry.example.com/cart:2");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_run_says_so_and_a_type_that_changes_changes_the_workload() {
    let fixture = DeploymentFixture::open().await;
    fixture.component("mainframe", "Batch").await;
    fixture.artifact("mainframe", "mainframe", IMAGE, json!({})).await;
    fixture.deploy("mainframe", "mainframe", "dev", json!({"deploymentArtifactRef": "mainframe"})).await;
    let message = fixture.wait_condition("mainframe", "Ready", "False", "UnsupportedComponentType").await;
    assert!(message.contains("Batch") && message.contains("ScheduledTask"), "{message}");
    fixture.wait_condition("mainframe", "Stalled", "True", "UnsupportedComponentType").await;

    let scaling = json!({"endpointTemplates": [endpoint("api", 8080)],
        "application": {"scaling": {"s2z": {"maxReplicas": 3}}}});
    fixture.artifact("cart", "cart", IMAGE, scaling).await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let message = fixture.wait_condition("cart", "Ready", "False", "UnsupportedScaling").await;
    assert!(message.contains("s2z"), "{message}");
    fixture.wait_condition("cart", "Stalled", "True", "UnsupportedScaling").await;

    fixture.configure("cart", json!({"scaling": null})).await;
    let service = fixture.ready("cart").await;
    assert_eq!(kinds(&service), ["Deployment", "Service"]);

    // Both have to change; in between nothing runs wrongly, and what ran goes on.
    fixture.control.patch::<Component>("acme/cart", json!({"spec": {"type": "ScheduledTask"}})).await;
    fixture.wait_condition("cart", "Ready", "False", "InvalidConfiguration").await;
    fixture.live(&service, "Deployment").await;
    fixture.configure("cart", json!({"task": {"schedule": {"cron": "*/5 * * * *"}}})).await;
    let home = namespace(&service);
    fixture.plane.gone("apps/v1/Deployment", &home, &item(&service, "Deployment").name).await;
    fixture.plane.gone("v1/Service", &home, &item(&service, "Service").name).await;
    let task = fixture
        .until("cart is a task", "cart", |found| {
            (found.status.as_ref()?.inventory.len() == 1).then(|| found.clone())
        })
        .await;
    assert_eq!(kinds(&task), ["CronJob"]);
    fixture.live(&fixture.ready("cart").await, "CronJob").await;
}
