//! Deleting leaves nothing, in any order, and ends.

use kantor_api::{Component, Deployment, DeploymentTrack, Endpoint, Project};
use kantor_testbed::{
    proxy::{Action, Fault, Match, Verb},
    snapshot::{Options, Snapshot, assert_nothing_left},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PatchParams},
};
use serde_json::json;

use super::support::{EndpointFixture, HTTP_ROUTE, name, oauth2, open, template};
use crate::{
    observing::{looks, until_looked_at},
    support::{PATIENCE, condition},
};

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_goes_with_all_it_had_also_after_its_parents() {
    let fixture = EndpointFixture::open().await;
    let plane =
        Snapshot::settled(&fixture.deployment.plane.client, &Options::default(), PATIENCE).await.unwrap();
    let guarded =
        json!({"public": open(json!([oauth2(json!([{"target": "/a", "method": "GET", "scopes": ["a"]}]))]))});
    fixture.deploy(json!([template("api", "/v1", guarded)])).await;
    let endpoint = fixture.ready(&name("api")).await;
    // Its parents are gone by force: what was recorded is enough.
    let nobody = json!({"metadata": {"finalizers": null, "ownerReferences": null}});
    fixture.deployment.control.operator.kill().unwrap();
    fixture.deployment.control.operator.ended().await.unwrap();
    let client = fixture.deployment.control.client.clone();
    let endpoints: Api<Endpoint> = Api::namespaced(client.clone(), "acme");
    endpoints
        .patch(
            &name("api"),
            &PatchParams::default(),
            &kube::api::Patch::Merge(json!({"metadata": {"ownerReferences": null}})),
        )
        .await
        .unwrap();
    macro_rules! force {
        ($($kind:ident: $name:literal),+) => {$(
            let api: Api<$kind> = Api::namespaced(client.clone(), "acme");
            api.patch($name, &PatchParams::default(), &kube::api::Patch::Merge(nobody.clone())).await.unwrap();
            api.delete($name, &DeleteParams::default()).await.unwrap();
        )+};
    }
    let home = endpoint.status.clone().unwrap().namespace.unwrap();
    force!(Deployment: "cart", DeploymentTrack: "cart-main", Component: "cart", Project: "shop");
    endpoints.delete(&name("api"), &DeleteParams::default()).await.unwrap();
    let mut fixture = fixture;
    crate::release::support::start_operator(&mut fixture.deployment.control, &[]).await;
    fixture.deployment.control.until_gone::<Endpoint>(&format!("acme/{}", name("api"))).await;
    for kind in [HTTP_ROUTE, super::support::SECURITY_POLICY, super::support::FILTER] {
        assert_eq!(fixture.names(kind, &endpoint).await, [""; 0]);
    }
    assert_eq!(fixture.claims().await, []);
    // What was the Deployment's, which nobody cleans up after it was forced away, goes with the namespace.
    fixture.deployment.plane.api("v1/Namespace", "").delete(&home, &DeleteParams::default()).await.unwrap();
    assert_nothing_left(&plane, &fixture.deployment.plane.client, PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_an_endpoint_that_goes_with_its_deployment_nothing_else_is_said() {
    let fixture = EndpointFixture::open().await;
    fixture.deploy(json!([template("api", "/v1", json!({"public": open(json!([]))}))])).await;
    fixture.ready(&name("api")).await;
    fixture.deployment.quiet().await;
    let control = &fixture.deployment.control;
    let mark = control.proxy.mark();
    let before = looks(control, "endpoint").await;
    let deletions = Match::new().verb(Verb::Delete).group("openchoreo.dev").resource("endpoints");
    let held = control.proxy.fault(Fault::when(deletions).then(Action::HoldBefore));
    control.delete::<Deployment>("acme/cart").await;
    held.await_hit(PATIENCE).await.unwrap();
    until_looked_at(control, "endpoint", before).await;
    held.release();
    control.until_gone::<Deployment>("acme/cart").await;
    let told = control.proxy.writes_since(mark).filter(|write| write.body.contains("ParentDeleting"));
    assert!(told.is_empty(), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plane_that_hangs_keeps_the_endpoint_and_its_hosts_until_it_is_back_or_it_is_let_go() {
    let fixture = EndpointFixture::open().await;
    let mut own = template("api", "/v1", json!({"public": open(json!([]))}));
    own["spec"]["hostnames"] = json!(["shop.acme.example"]);
    fixture.deploy(json!([own])).await;
    let endpoint = fixture.ready(&name("api")).await;
    let hanging = fixture.deployment.plane.proxy.fault(Fault::when(Match::new()).then(Action::Hang));
    fixture.deployment.control.delete::<Deployment>("acme/cart").await;
    fixture
        .until("it says what it waits for", &name("api"), |found| {
            let (status, _, message) = condition(found, "Finalizing")?;
            (status == "True" && message.contains("data plane plane")).then_some(())
        })
        .await;
    // Nobody gets the host while the route may still be there.
    assert!(fixture.claims().await.iter().any(|(host, _)| host == "shop.acme.example"));
    hanging.remove();
    fixture.deployment.control.until_gone::<Deployment>("acme/cart").await;
    assert_eq!(fixture.names(HTTP_ROUTE, &endpoint).await, [""; 0]);
    assert_eq!(fixture.claims().await, []);

    let mut own = template("api", "/v1", json!({"public": open(json!([]))}));
    own["spec"]["hostnames"] = json!(["shop.acme.example"]);
    fixture.edit(json!([own])).await;
    fixture.deployment.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let endpoint = fixture.ready(&name("api")).await;
    let hanging = fixture.deployment.plane.proxy.fault(Fault::when(Match::new()).then(Action::Hang));
    hanging.await_hit(PATIENCE).await.unwrap();
    let orphan = json!({"metadata": {"annotations": {"openchoreo.dev/deletion-policy": "Orphan"}}});
    fixture.deployment.control.patch::<Deployment>("acme/cart", orphan.clone()).await;
    fixture.deployment.control.patch::<Endpoint>(&format!("acme/{}", name("api")), orphan).await;
    fixture.deployment.control.delete::<Deployment>("acme/cart").await;
    fixture.deployment.control.until_gone::<Deployment>("acme/cart").await;
    hanging.remove();
    assert_eq!(fixture.names(HTTP_ROUTE, &endpoint).await.len(), 2);
    assert_eq!(fixture.claims().await, []);
    drop(endpoint.uid());
}
