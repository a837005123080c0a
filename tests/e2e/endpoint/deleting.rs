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

use super::support::{HTTP_ROUTE, Mall, name, oauth2, open, template};
use crate::{
    observing::{looks, until_looked_at},
    support::{PATIENCE, condition},
};

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_goes_with_all_it_had_also_after_its_parents() {
    let mall = Mall::open().await;
    let plane = Snapshot::settled(&mall.shop.plane.client, &Options::default(), PATIENCE).await.unwrap();
    let guarded =
        json!({"public": open(json!([oauth2(json!([{"target": "/a", "method": "GET", "scopes": ["a"]}]))]))});
    mall.deploy(json!([template("api", "/v1", guarded)])).await;
    let endpoint = mall.ready(&name("api")).await;
    // Its parents are gone by force: what was recorded is enough.
    let nobody = json!({"metadata": {"finalizers": null, "ownerReferences": null}});
    mall.shop.stage.operator.kill().unwrap();
    mall.shop.stage.operator.ended().await.unwrap();
    let client = mall.shop.stage.client.clone();
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
    let mut mall = mall;
    crate::release::support::start_operator(&mut mall.shop.stage, &[]).await;
    mall.shop.stage.until_gone::<Endpoint>(&format!("acme/{}", name("api"))).await;
    for kind in [HTTP_ROUTE, super::support::SECURITY_POLICY, super::support::FILTER] {
        assert_eq!(mall.names(kind, &endpoint).await, [""; 0]);
    }
    assert_eq!(mall.claims().await, []);
    // What was the Deployment's, which nobody cleans up after it was forced away, goes with the namespace.
    mall.shop.plane.api("v1/Namespace", "").delete(&home, &DeleteParams::default()).await.unwrap();
    assert_nothing_left(&plane, &mall.shop.plane.client, PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_an_endpoint_that_goes_with_its_deployment_nothing_else_is_said() {
    let mall = Mall::open().await;
    mall.deploy(json!([template("api", "/v1", json!({"public": open(json!([]))}))])).await;
    mall.ready(&name("api")).await;
    mall.shop.quiet().await;
    let stage = &mall.shop.stage;
    let mark = stage.proxy.mark();
    let before = looks(stage, "endpoint").await;
    let deletions = Match::new().verb(Verb::Delete).group("openchoreo.dev").resource("endpoints");
    let held = stage.proxy.fault(Fault::when(deletions).then(Action::HoldBefore));
    stage.delete::<Deployment>("acme/cart").await;
    held.await_hit(PATIENCE).await.unwrap();
    until_looked_at(stage, "endpoint", before).await;
    held.release();
    stage.until_gone::<Deployment>("acme/cart").await;
    let told = stage.proxy.writes_since(mark).filter(|write| write.body.contains("ParentDeleting"));
    assert!(told.is_empty(), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plane_that_hangs_keeps_the_endpoint_and_its_hosts_until_it_is_back_or_it_is_let_go() {
    let mall = Mall::open().await;
    let mut own = template("api", "/v1", json!({"public": open(json!([]))}));
    own["spec"]["hostnames"] = json!(["shop.acme.example"]);
    mall.deploy(json!([own])).await;
    let endpoint = mall.ready(&name("api")).await;
    let hanging = mall.shop.plane.proxy.fault(Fault::when(Match::new()).then(Action::Hang));
    mall.shop.stage.delete::<Deployment>("acme/cart").await;
    mall.until("it says what it waits for", &name("api"), |found| {
        let (status, _, message) = condition(found, "Finalizing")?;
        (status == "True" && message.contains("data plane plane")).then_some(())
    })
    .await;
    // Nobody gets the host while the route may still be there.
    assert!(mall.claims().await.iter().any(|(host, _)| host == "shop.acme.example"));
    hanging.remove();
    mall.shop.stage.until_gone::<Deployment>("acme/cart").await;
    assert_eq!(mall.names(HTTP_ROUTE, &endpoint).await, [""; 0]);
    assert_eq!(mall.claims().await, []);

    let mut own = template("api", "/v1", json!({"public": open(json!([]))}));
    own["spec"]["hostnames"] = json!(["shop.acme.example"]);
    mall.edit(json!([own])).await;
    mall.shop.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let endpoint = mall.ready(&name("api")).await;
    let hanging = mall.shop.plane.proxy.fault(Fault::when(Match::new()).then(Action::Hang));
    hanging.await_hit(PATIENCE).await.unwrap();
    let orphan = json!({"metadata": {"annotations": {"openchoreo.dev/deletion-policy": "Orphan"}}});
    mall.shop.stage.patch::<Deployment>("acme/cart", orphan.clone()).await;
    mall.shop.stage.patch::<Endpoint>(&format!("acme/{}", name("api")), orphan).await;
    mall.shop.stage.delete::<Deployment>("acme/cart").await;
    mall.shop.stage.until_gone::<Deployment>("acme/cart").await;
    hanging.remove();
    assert_eq!(mall.names(HTTP_ROUTE, &endpoint).await.len(), 2);
    assert_eq!(mall.claims().await, []);
    drop(endpoint.uid());
}
