//! What is said of an Endpoint was seen.

use kantor_api::Endpoint;
use kantor_testbed::proxy::{Action, Fault, Match, Verb};
use serde_json::{Value, json};

use super::{
    serving::LONGER_THAN_A_CALL,
    support::{Mall, name, open, template},
};
use crate::{
    deployment::support::Shop,
    observing::{looks, until_connected, until_looked_at},
    release::support::start_operator,
    support::PATIENCE,
};

fn public(base: &str) -> Value {
    json!([template("api", base, json!({"public": open(json!([]))}))])
}

#[tokio::test(flavor = "multi_thread")]
async fn of_an_endpoint_whose_plane_is_lost_in_the_middle_of_the_work_nothing_else_is_told() {
    let mall = Mall::with(Shop::open_with(&["--plane-timeout=10m"]).await).await;
    mall.deploy(public("/v1")).await;
    mall.ready(&name("api")).await;
    mall.shop.quiet().await;

    let applies = Match::new().verb(Verb::Apply).resource("httproutes");
    let hung = mall.shop.plane.proxy.fault(Fault::when(applies).then(Action::Hang));
    mall.edit(public("/v2")).await;
    hung.await_hit(PATIENCE).await.unwrap();
    let mark = mall.shop.stage.proxy.mark();
    let refused = mall.shop.plane.proxy.fault(Fault::when(Match::new()).then(Action::status(401)));
    mall.says(&name("api"), "Unknown", "DataPlaneUnreachable").await;
    let told = mall.shop.stage.proxy.writes_since(mark).resource("endpoints/status");
    for write in told.iter() {
        let status = write.body.json().unwrap()["status"].take();
        let conditions = status["conditions"].as_array().unwrap();
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
        assert_eq!(ready["reason"], "DataPlaneUnreachable", "{told}");
    }
    hung.remove();
    refused.remove();
    mall.ready(&name("api")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_is_not_guessed_while_the_gateways_are_not_known() {
    let mut mall = Mall::open().await;
    // Not where anybody would look for it.
    let gateways = mall.shop.plane.api("gateway.networking.k8s.io/v1/Gateway", "");
    for gateway in gateways.list(&kube::api::ListParams::default()).await.unwrap() {
        let (home, called) = (gateway.metadata.namespace.unwrap(), gateway.metadata.name.unwrap());
        let listeners = json!({"spec": {"listeners": [{"name": "odd", "protocol": "HTTP", "port": 8123,
            "allowedRoutes": {"namespaces": {"from": "All"}}}]}});
        mall.shop.plane.patch("gateway.networking.k8s.io/v1/Gateway", &home, &called, listeners).await;
    }
    mall.deploy(public("/v1")).await;
    mall.until("its address is told", &name("api"), |found| {
        let status = found.status.as_ref()?;
        status.address.as_ref()?.contains(":8123").then_some(())
    })
    .await;
    mall.ready(&name("api")).await;
    mall.shop.quiet().await;

    mall.shop.stage.operator.kill().unwrap();
    mall.shop.stage.operator.ended().await.unwrap();
    let lists = Match::new().verb(Verb::List).verb(Verb::Watch).resource("gateways").always();
    let failing = mall.shop.plane.proxy.fault(Fault::when(lists).then(Action::status(500)));
    let mark = mall.shop.stage.proxy.mark();
    start_operator(&mut mall.shop.stage, &["--plane-timeout=1s"]).await;
    mall.shop.stage.operator.ready().await.unwrap();
    until_connected(&mall.shop.stage).await;
    failing.await_hit(PATIENCE).await.unwrap();
    // The first look may have come before the plane did.
    let path = format!("acme/{}", name("api"));
    for touch in ["once", "twice"] {
        let before = looks(&mall.shop.stage, "endpoint").await;
        let touch = json!({"metadata": {"annotations": {"example.com/touched": touch}}});
        mall.shop.stage.patch::<Endpoint>(&path, touch).await;
        until_looked_at(&mall.shop.stage, "endpoint", before).await;
    }
    let told = mall.shop.stage.proxy.writes_since(mark).resource("endpoints/status");
    for write in told.iter() {
        let status = write.body.json().unwrap()["status"].take();
        assert!(status["address"].as_str().unwrap().contains(":8123"), "{status:#}");
    }
    drop(failing);
    mall.ready(&name("api")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_is_not_called_ready_before_the_gateways_are_known() {
    let mut mall = Mall::open().await;
    mall.shop.stage.operator.kill().unwrap();
    mall.shop.stage.operator.ended().await.unwrap();
    let lists = Match::new().verb(Verb::List).resource("gateways").always();
    let slow = mall.shop.plane.proxy.fault(Fault::when(lists).then(Action::Delay(LONGER_THAN_A_CALL)));
    let mark = mall.shop.stage.proxy.mark();
    start_operator(&mut mall.shop.stage, &[]).await;
    mall.deploy(public("/v1")).await;
    mall.ready(&name("api")).await;
    slow.await_hit(PATIENCE).await.unwrap();
    let told = mall.shop.stage.proxy.writes_since(mark).resource("endpoints/status");
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
