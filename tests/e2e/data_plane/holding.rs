//! Secrets that data planes use are held for as long as they are needed.

use k8s_openapi::api::core::v1::Namespace;
use kantor_api::{Deployment, Endpoint};
use kantor_testbed::snapshot::{Options, Snapshot, assert_nothing_left};

use super::*;
use crate::deployment::support::{IMAGE, Shop, endpoint};

/// Finalizer of Secrets that a data plane uses.
const HELD: &str = "openchoreo.dev/dataplane-secret";

async fn is_held(stage: &Stage, name: &str, held: bool) {
    stage
        .until(
            &format!("Secret {name} is held: {held}"),
            &format!("acme/{name}"),
            |secret: Option<&Secret>| {
                (secret?.finalizers().iter().any(|finalizer| finalizer == HELD) == held).then_some(())
            },
        )
        .await;
}

fn named(secret: &str) -> serde_json::Value {
    json!({"spec": {"kubernetesCluster": {"secretRef": {"name": secret}}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_held_while_a_data_plane_names_it() {
    let (mut stage, plane) = tokio::join!(acme(), plain_plane("plane"));
    let kubeconfig = plane_kubeconfig(&plane).await;
    register(&stage, "plane", &kubeconfig).await;
    plane_ready(&stage, "plane").await;
    is_held(&stage, "plane", true).await;
    for name in ["other", "unused"] {
        secret(&stage, name, &[("kubeconfig", &kubeconfig.to_yaml())]).await;
    }

    // The plane takes another one.
    stage.patch::<DataPlane>("acme/plane", named("other")).await;
    is_held(&stage, "other", true).await;
    is_held(&stage, "plane", false).await;
    is_held(&stage, "unused", false).await;
    plane_ready(&stage, "plane").await;

    // Deleted while it is needed it stays, also for the next operator, and the plane says why.
    stage.delete::<Secret>("acme/other").await;
    let told = |plane: Option<&DataPlane>| {
        condition(plane?, "Ready")
            .filter(|said| said.0 == "True" && said.2.contains("Secret other"))
            .map(drop)
    };
    stage.until("the plane says that its Secret is to go", "acme/plane", told).await;
    stage.until_quiet().await;
    let mark = stage.proxy.mark();
    stage.restart_operator().await;
    crate::observing::until_connected(&stage).await;
    stage.until_quiet().await;
    stage.proxy.assert_no_writes_since(mark);

    // Of two that name it, the last one lets go.
    stage.patch::<DataPlane>("acme/plane", named("plane")).await;
    stage.until_gone::<Secret>("acme/other").await;
    is_held(&stage, "plane", true).await;
    stage.create::<DataPlane>(&object("DataPlane", "twin", named("plane")["spec"].clone())).await;
    plane_ready(&stage, "twin").await;
    stage.delete::<DataPlane>("acme/plane").await;
    stage.until_gone::<DataPlane>("acme/plane").await;
    stage.until_quiet().await;
    is_held(&stage, "plane", true).await;
    stage.delete::<Secret>("acme/plane").await;
    // By force, while nobody looks.
    stage.operator.kill().unwrap();
    stage.operator.ended().await.unwrap();
    stage.patch::<DataPlane>("acme/twin", json!({"metadata": {"finalizers": null}})).await;
    stage.delete::<DataPlane>("acme/twin").await;
    stage.until_gone::<DataPlane>("acme/twin").await;
    is_held(&stage, "plane", true).await;
    crate::release::support::start_operator(&mut stage, &[]).await;
    stage.until_gone::<Secret>("acme/plane").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_organization_whose_namespace_is_deleted_is_cleaned_also_over_a_restart() {
    let mut shop = Shop::open().await;
    let before = Snapshot::settled(&shop.plane.client, &Options::default(), PATIENCE).await.unwrap();
    shop.artifact("cart", "cart", IMAGE, json!({"endpointTemplates": [endpoint("api", 8080)]})).await;
    shop.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    shop.ready("cart").await;
    let old = shop.stage.there::<Namespace>("acme").await.uid();

    shop.plane.proxy.refuse(true);
    plane_says(&shop.stage, "plane", "Unknown", "DataPlaneUnreachable").await;
    shop.stage.delete::<Namespace>("acme").await;
    shop.stage
        .until("the Deployment waits for the plane", "acme/cart", |found: Option<&Deployment>| {
            let said = condition(found?, "Finalizing")?;
            said.2.contains("data plane plane").then_some(())
        })
        .await;
    // Nothing but what is still needed holds the namespace.
    let secrets: Api<Secret> = Api::namespaced(shop.stage.client.clone(), "acme");
    wait::until("the Secret is being deleted or gone", PATIENCE, || async {
        let going = secrets.get_opt("plane").await?.is_none_or(|s| s.metadata.deletion_timestamp.is_some());
        Ok(if going { Seen::Done(()) } else { Seen::NotYet("it is there".to_owned()) })
    })
    .await
    .unwrap();
    shop.stage.restart_operator().await;
    shop.plane.proxy.refuse(false);
    shop.stage
        .until("the namespace is made anew", "acme", |found: Option<&Namespace>| {
            (found?.uid() != old).then_some(())
        })
        .await;
    assert_nothing_left(&before, &shop.plane.client, PATIENCE).await;
    let left: Vec<Endpoint> =
        Api::all(shop.stage.client.clone()).list(&ListParams::default()).await.unwrap().items;
    assert!(left.is_empty(), "{left:#?}");
}
