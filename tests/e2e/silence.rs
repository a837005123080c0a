//! A control plane that takes requests and says nothing, or asks to be left alone.

use k8s_openapi::api::core::v1::Secret;
use kantor_api::Deployment;
use kantor_testbed::proxy::{Action, Fault, Match, Proxy, Record, Verb};
use serde_json::json;

use crate::{
    acme::{acme_with, object, plain_plane, plane_ready, register},
    support::{OperatorFixture, PATIENCE},
};

/// How long the operators here wait for an answer.
const SHORT: &str = "--read-timeout=2s";

fn deployments(verb: Verb) -> Match {
    Match::new().verb(verb).group("openchoreo.dev").resource("deployments")
}

/// Ends the watch of Deployments in such a way that everything has to be listed anew.
async fn expire(control: &OperatorFixture) {
    let is_open = |record: &Record| record.resource() == "deployments" && record.is_open_watch();
    control.proxy.await_request(is_open, PATIENCE).await.unwrap();
    let expired = control.proxy.fault(Fault::when(deployments(Verb::Watch)).then(Action::ExpireWatch));
    expired.await_hit(PATIENCE).await.unwrap();
}

/// Makes a Deployment and waits until something is said of it.
async fn is_noticed(control: &OperatorFixture, name: &str) {
    control.create::<Deployment>(&object("Deployment", name, json!({"deploymentArtifactRef": "none"}))).await;
    control
        .until("the Deployment is noticed", &format!("acme/{name}"), |found: Option<&Deployment>| {
            found?.status.as_ref().filter(|status| !status.conditions.is_empty()).map(drop)
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_never_answered_is_made_again() {
    let control = acme_with(&[SHORT]).await;
    let silent = control.proxy.fault(Fault::when(deployments(Verb::List).times(1)).then(Action::Hang));
    expire(&control).await;
    silent.await_hit(PATIENCE).await.unwrap();
    is_noticed(&control, "new").await;
    // The same of a watch that is never begun.
    let silent = control.proxy.fault(Fault::when(deployments(Verb::Watch).times(1)).then(Action::Hang));
    let expiring = Fault::when(deployments(Verb::Watch)).then(Action::ExpireWatch);
    let expired = control.proxy.fault(expiring);
    expired.await_hit(PATIENCE).await.unwrap();
    silent.await_hit(PATIENCE).await.unwrap();
    is_noticed(&control, "newer").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_whose_read_is_never_answered_is_read_again() {
    let (control, plane) = tokio::join!(acme_with(&[SHORT]), plain_plane("plane"));
    let proxy = Proxy::start(&plane).unwrap();
    let kubeconfig = async || {
        let kubeconfig = plane.fresh_data_plane_kubeconfig().await.unwrap();
        kubeconfig.at(proxy.url(), proxy.ca_pem())
    };
    register(&control, "plane", &kubeconfig().await).await;
    plane_ready(&control, "plane").await;
    let reads = Match::new().verb(Verb::Get).resource("secrets").name("plane");
    let silent = control.proxy.fault(Fault::when(reads.times(1)).then(Action::Hang));
    let rotated = kubeconfig().await;
    let kantor_testbed::Auth::Token(token) = &rotated.auth else { panic!("a token") };
    let data = json!({"data": null, "stringData": {"kubeconfig": rotated.to_yaml()}});
    control.patch::<Secret>("acme/plane", data).await;
    silent.await_hit(PATIENCE).await.unwrap();
    proxy.await_request(|record| record.credential.is_token(token), PATIENCE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_sheds_watches_is_not_asked_for_lists_instead() {
    let control = acme_with(&[]).await;
    control.until_quiet().await;
    let shed = control.proxy.fault(Fault::when(deployments(Verb::Watch)).then(Action::too_many_requests(1)));
    let mark = control.proxy.mark();
    expire(&control).await;
    shed.await_hits(4, PATIENCE).await.unwrap();
    let asked = control.proxy.since(mark).filter(|record| record.resource() == "deployments");
    let of = |verb| asked.clone().filter(|record| record.verb() == verb);
    assert_eq!(of(Verb::List).len(), 1, "{asked}");
    // At least as far apart as it asked for.
    let watches: Vec<Record> = of(Verb::Watch).into_iter().collect();
    for pair in watches.windows(2) {
        let apart = pair[1].at.duration_since(pair[0].at);
        assert!(apart.as_millis() >= 990, "{apart:?}: {asked}");
    }
    drop(shed);
    is_noticed(&control, "new").await;
}
