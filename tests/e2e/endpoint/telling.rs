//! What is said of an Endpoint was seen.

use kantor_api::Endpoint;
use kantor_testbed::proxy::{Action, Fault, Match, Verb};
use serde_json::{Value, json};

use super::{
    serving::LONGER_THAN_A_CALL,
    support::{EndpointFixture, name, open, template},
};
use crate::{
    deployment::support::DeploymentFixture,
    observing::{looks, until_connected, until_looked_at},
    release::support::start_operator,
    support::PATIENCE,
};

fn public(base: &str) -> Value {
    json!([template("api", base, json!({"public": open(json!([]))}))])
}

#[tokio::test(flavor = "multi_thread")]
async fn of_an_endpoint_whose_plane_is_lost_in_the_middle_of_the_work_nothing_else_is_told() {
    let fixture = EndpointFixture::with(DeploymentFixture::open_with(&["--plane-timeout=10m"]).await).await;
    fixture.deploy(public("/v1")).await;
    fixture.ready(&name("api")).await;
    fixture.deployment.quiet().await;

    let applies = Match::new().verb(Verb::Apply).resource("httproutes");
    let hung = fixture.deployment.plane.proxy.fault(Fault::when(applies).then(Action::Hang));
    fixture.edit(public("/v2")).await;
    hung.await_hit(PATIENCE).await.unwrap();
    let mark = fixture.deployment.control.proxy.mark();
    let refused = fixture.deployment.plane.proxy.fault(Fault::when(Match::new()).then(Action::status(401)));
    fixture.wait_condition(&name("api"), "Unknown", "DataPlaneUnreachable").await;
    let told = fixture.deployment.control.proxy.writes_since(mark).resource("endpoints/status");
    for write in told.iter() {
        let status = write.body.json().unwrap()["status"].take();
        let conditions = status["conditions"].as_array().unwrap();
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
        assert_eq!(ready["reason"], "DataPlaneUnreachable", "{told}");
    }
    hung.remove();
    refused.remove();
    fixture.ready(&name("api")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_is_not_guessed_while_the_gateways_are_not_known() {
    let mut fixture = EndpointFixture::open().await;
    // Not where anybody would look for it.
    let gateways = fixture.deployment.plane.api("gateway.networking.k8s.io/v1/Gateway", "");
    for gateway in gateways.list(&kube::api::ListParams::default()).await.unwrap() {
        let (home, called) = (gateway.metadata.namespace.unwrap(), gateway.metadata.name.unwrap());
        let listeners = json!({"spec": {"listeners": [{"name": "odd", "protocol": "HTTP", "port": 8123,
            "allowedRoutes": {"namespaces": {"from": "All"}}}]}});
        fixture
            .deployment
            .plane
            .patch("gateway.networking.k8s.io/v1/Gateway", &home, &called, listeners)
            .await;
    }
    fixture.deploy(public("/v1")).await;
    fixture
        .until("its address is told", &name("api"), |found| {
            let status = found.status.as_ref()?;
            status.address.as_ref()?.contains(":8123").then_some(())
        })
        .await;
    fixture.ready(&name("api")).await;
    fixture.deployment.quiet().await;

    fixture.deployment.control.operator.kill().unwrap();
    fixture.deployment.control.operator.ended().await.unwrap();
    let lists = Match::new().verb(Verb::List).verb(Verb::Watch).resource("gateways").always();
    let failing = fixture.deployment.plane.proxy.fault(Fault::when(lists).then(Action::status(500)));
    let mark = fixture.deployment.control.proxy.mark();
    start_operator(&mut fixture.deployment.control, &["--plane-timeout=1s"]).await;
    fixture.deployment.control.operator.ready().await.unwrap();
    until_connected(&fixture.deployment.control).await;
    failing.await_hit(PATIENCE).await.unwrap();
    // The first look may have come before the plane did.
    let path = format!("acme/{}", name("api"));
    for touch in ["once", "twice"] {
        let before = looks(&fixture.deployment.control, "endpoint").await;
        let touch = json!({"metadata": {"annotations": {"example.com/touched": touch}}});
        fixture.deployment.control.patch::<Endpoint>(&path, touch).await;
        until_looked_at(&fixture.deployment.control, "endpoint", before).await;
    }
    let told = fixture.deployment.control.proxy.writes_since(mark).resource("endpoints/status");
    for write in told.iter() {
        let status = write.body.json().unwrap()["status"].take();
        assert!(status["address"].as_str().unwrap().contains(":8123"), "{status:#}");
    }
    drop(failing);
    fixture.ready(&name("api")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_is_not_called_ready_before_the_gateways_are_known() {
    let mut fixture = EndpointFixture::open().await;
    fixture.deployment.control.operator.kill().unwrap();
    fixture.deployment.control.operator.ended().await.unwrap();
    let lists = Match::new().verb(Verb::List).resource("gateways").always();
    let slow =
        fixture.deployment.plane.proxy.fault(Fault::when(lists).then(Action::Delay(LONGER_THAN_A_CALL)));
    let mark = fixture.deployment.control.proxy.mark();
    start_operator(&mut fixture.deployment.control, &[]).await;
    fixture.deploy(public("/v1")).await;
    fixture.ready(&name("api")).await;
    slow.await_hit(PATIENCE).await.unwrap();
    let told = fixture.deployment.control.proxy.writes_since(mark).resource("endpoints/status");
    let ready: Vec<Value> = told
        .iter()
        .map(|write| write.body.json().unwrap()["status"].take())
        .filter(|status| {
            let mut conditions = status["conditions"].as_array().into_iter().flatten();
            conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
        })
        .collect();
    assert!(!ready.is_empty(), "{told}");
    assert!(ready.iter().all(|status| status["address"].is_string()), "{ready:#?}");
}
