//! Releases that wait for a host that somebody else holds.

use kantor_api::Release;
use serde_json::{Value, json};

use super::{
    neighbours::{home_of_mallory, mallory, mallory_says, release_of_mallory},
    support::{ReleaseFixture, home, release},
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
    let fixture = ReleaseFixture::open().await;
    let (control, plane) = (&fixture.control, &fixture.plane);
    let policy = json!({"allowedKinds": ["*", "*.networking.k8s.io"]});
    fixture.allow(policy.clone()).await;
    mallory(control, &plane.kubeconfig.to_yaml(), policy).await;

    let of_acme = |name: &str| release(name, &[("0", ingress(name, &home(), "shop.brand.example"))]);
    control.create(&patient(of_acme("first"), "0s")).await;
    plane.wait_exists(INGRESS, &home(), "first").await;
    control.create(&patient(of_acme("second"), "1s")).await;
    let message = fixture.wait_condition("second", "Ready", "False", "HostnameWithheld").await;
    assert!(message.contains("shop.brand.example by acme/first"), "{message}");
    until_at_rest(control, plane).await;
    fixture.delete("first").await;
    plane.wait_exists(INGRESS, &home(), "second").await;

    // The claim in its way is of another name, and of another organization.
    let all = ingress("all", &home_of_mallory(), "*.brand.example");
    control.create(&patient(release_of_mallory("all", &[all]), "0s")).await;
    mallory_says(control, "all", "HostnameConflict").await;
    fixture.delete("second").await;
    plane.wait_exists(INGRESS, &home_of_mallory(), "all").await;
}
