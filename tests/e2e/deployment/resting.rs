//! Nothing to do costs nothing.

use kantor_api::{Component, DeployableArtifact, Deployment, Environment, Project, Release};
use kantor_testbed::wait::{self, Seen};
use serde_json::json;

use super::support::{DeploymentFixture, IMAGE, endpoint};
use crate::{
    endpoint::support::{EndpointFixture, name, open, template},
    observing::{looked_at, looks, until_at_rest, until_connected, until_looked_at},
    release::support::{config_map, release},
    support::PATIENCE,
};

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_nothing_costs_no_call_to_the_plane_and_no_write_to_the_control_plane() {
    let mut fixture = DeploymentFixture::open().await;
    let application = json!({
        "env": [{"key": "COLOUR", "value": "blue"}],
        "fileMounts": [{"mountPath": "/etc/a", "value": "b"}],
        "resourceLimits": {"cpu": "1000m", "memory": "1024Mi"},
        "probes": {"livenessProbe": {"tcpSocket": {"port": 8080}}},
        "scaling": {"hpa": {"minReplicas": 1, "maxReplicas": 2}},
    });
    let configuration = json!({"endpointTemplates": [endpoint("api", 8080)], "application": application});
    fixture.artifact("cart", "cart", IMAGE, configuration).await;
    fixture.component("report", "ScheduledTask").await;
    let hourly = json!({"application": {"task": {"schedule": {"cron": "0 0 1 1 *"}}}});
    fixture.artifact("report", "report", IMAGE, hourly).await;
    for name in ["cart", "report"] {
        fixture.deploy(name, name, "dev", json!({"deploymentArtifactRef": name})).await;
        fixture.ready(name).await;
    }
    fixture.quiet().await;

    // Other annotations of a Deployment are its Endpoints' as well.
    let touch = |value: &str| json!({"metadata": {"annotations": {"kubectl.kubernetes.io/touched": value}}});
    let touch_all = async |fixture: &DeploymentFixture, value: &str| {
        let control = &fixture.control;
        looked_at(control, &["deployment"], control.patch::<Deployment>("acme/cart", touch(value))).await;
        looked_at(control, &["deployment"], control.patch::<Deployment>("acme/report", touch(value))).await;
        let artifact = control.patch::<DeployableArtifact>("acme/cart", touch(value));
        looked_at(control, &["deployable-artifact", "deployment"], artifact).await;
        let environment = control.patch::<Environment>("acme/dev", touch(value));
        looked_at(control, &["environment", "deployment"], environment).await;
        looked_at(control, &["component"], control.patch::<Component>("acme/cart", touch(value))).await;
        looked_at(control, &["project"], control.patch::<Project>("acme/shop", touch(value))).await;
        fixture.quiet().await;
    };
    let (here, there) = (fixture.control.proxy.mark(), fixture.plane.proxy.mark());
    touch_all(&fixture, "once").await;
    fixture.control.proxy.assert_no_writes_since(here);
    let asked = fixture.plane.asked_since(there);
    assert!(asked.is_empty(), "{asked}");

    let (here, there) = (fixture.control.proxy.mark(), fixture.plane.proxy.mark());
    fixture.control.restart_operator().await;
    until_connected(&fixture.control).await;
    fixture.quiet().await;
    // It may have looked before it knew all; now it does.
    touch_all(&fixture, "twice").await;
    fixture.control.proxy.assert_no_writes_since(here);
    let calls = fixture.plane.calls_since(there);
    assert!(calls.is_empty(), "{calls}");
    fixture.configure("cart", json!({"env": [{"key": "COLOUR", "value": "red"}]})).await;
    let deployment = fixture.ready("cart").await;
    fixture
        .workload("it still works", &deployment, |workload| {
            let env = &workload["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"];
            (env == "red").then_some(())
        })
        .await;
    let writes = fixture.plane.calls_since(there).writes();
    assert_eq!(writes.len(), 1, "one change, one write: {writes}");
}

/// A Deployment with a way in, and a Release beside it, all of them ready.
async fn settled(arguments: &[&str]) -> EndpointFixture {
    let fixture = EndpointFixture::with(DeploymentFixture::open_with(arguments).await).await;
    fixture.deploy(json!([template("api", "/v1", json!({"public": open(json!([]))}))])).await;
    fixture.ready(&name("api")).await;
    let mut extras = release("extras", &[("settings", config_map("settings", json!({"colour": "blue"})))]);
    extras.spec.interval = Some("1s".to_owned());
    fixture.deployment.control.create(&extras).await;
    fixture.deployment.control.until_ready::<Release>("acme/extras").await;
    fixture
}

/// Objects are looked at every second though nothing was heard of them: that costs no request.
#[tokio::test(flavor = "multi_thread")]
async fn looking_again_though_nothing_was_heard_costs_no_request() {
    const LOOKS: f64 = 8.0;
    let fixture = settled(&["--resync-interval=1s"]).await;
    let (control, plane) = (&fixture.deployment.control, &fixture.deployment.plane);
    let all = ["organization", "data-plane", "environment", "project", "component", "deployment-track"];
    let all = all.into_iter().chain(["deployable-artifact", "deployment", "hostname-claim", "release"]);
    let all: Vec<&str> = all.chain(["endpoint"]).collect();
    // What a plane serves is asked once more some seconds after it was found, on a busy machine later: a round without any
    // request has to come.
    wait::until("a round of looks without a request", PATIENCE, || async {
        let (here, there) = (control.proxy.mark(), plane.proxy.mark());
        let mut before = vec![];
        for controller in &all {
            before.push((*controller, looks(control, controller).await));
        }
        // There is at least one object of each, and more than one of some.
        for (controller, before) in before {
            until_looked_at(control, controller, before + LOOKS).await;
        }
        let (requests, asked) = (control.proxy.since(here), plane.all_since(there));
        let free = requests.is_empty() && asked.is_empty();
        Ok(if free { Seen::Done(()) } else { Seen::NotYet(format!("{requests}\n{asked}")) })
    })
    .await
    .unwrap();
}

/// What is settled is looked at when something happens, and else as seldom as `--resync-interval` says.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_settled_is_left_alone() {
    let fixture = settled(&[]).await;
    let never = json!({"spec": {"interval": "0s"}});
    fixture.deployment.control.patch::<Release>("acme/extras", never).await;
    fixture.deployment.control.until_ready::<Release>("acme/extras").await;
    until_at_rest(&fixture.deployment.control, &fixture.deployment.plane).await;
}
