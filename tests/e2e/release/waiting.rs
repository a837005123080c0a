//! Releases that wait for a host that somebody else holds.

use kantor_api::Release;
use serde_json::{Value, json};

use super::{
    neighbours::{home_of_mallory, mallory, mallory_says, release_of_mallory},
    support::{Theatre, home, release},
};
use crate::observing::until_at_rest;

const INGRESS: &str = "networking.k8s.io/v1/Ingress";

/// A route for a host.
fn ingress(name: &str, namespace: &str, host: &str) -> Value {
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    let paths = json!([{"path": "/", "pathType": "Prefix", "backend": backend}]);
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"rules": [{"host": host, "http": {"paths": paths}}]}})
}

/// The Release, looked at again by itself if it is progressing, and never if it is not.
fn patient(mut release: Release, progressing: &str) -> Release {
    release.spec.interval = Some("0s".to_owned());
    release.spec.progressing_interval = Some(progressing.to_owned());
    release
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_waits_for_a_host_looks_when_the_claim_in_its_way_goes_and_not_before() {
    let theatre = Theatre::open().await;
    let (stage, plane) = (&theatre.stage, &theatre.plane);
    let policy = json!({"allowedKinds": ["*", "*.networking.k8s.io"]});
    theatre.allow(policy.clone()).await;
    mallory(stage, &plane.kubeconfig.to_yaml(), policy).await;

    let of_acme = |name: &str| release(name, &[("0", ingress(name, &home(), "shop.brand.example"))]);
    stage.create(&patient(of_acme("first"), "0s")).await;
    plane.there(INGRESS, &home(), "first").await;
    stage.create(&patient(of_acme("second"), "1s")).await;
    let message = theatre.says("second", "Ready", "False", "HostnameWithheld").await;
    assert!(message.contains("shop.brand.example by acme/first"), "{message}");
    until_at_rest(stage, plane).await;
    theatre.delete("first").await;
    plane.there(INGRESS, &home(), "second").await;

    // The claim in its way is of another name, and of another organization.
    let all = ingress("all", &home_of_mallory(), "*.brand.example");
    stage.create(&patient(release_of_mallory("all", &[all]), "0s")).await;
    mallory_says(stage, "all", "HostnameConflict").await;
    theatre.delete("second").await;
    plane.there(INGRESS, &home_of_mallory(), "all").await;
}
