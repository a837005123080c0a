//! Secrets that data planes use are held for as long as they are needed.

use k8s_openapi::api::core::v1::Namespace;
use kantor_api::{Deployment, Endpoint};
use kantor_testbed::snapshot::{Options, Snapshot, assert_nothing_left};

use super::*;
use crate::deployment::support::{DeploymentFixture, IMAGE, endpoint};

/// Finalizer of Secrets that a data plane uses.
const HELD: &str = "openchoreo.dev/dataplane-secret";

async fn is_held(control: &OperatorFixture, name: &str, held: bool) {
    control
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
    let (mut control, plane) = tokio::join!(acme(), plain_plane("plane"));
    let kubeconfig = plane_kubeconfig(&plane).await;
    register(&control, "plane", &kubeconfig).await;
    plane_ready(&control, "plane").await;
    is_held(&control, "plane", true).await;
    for name in ["other", "unused"] {
        secret(&control, name, &[("kubeconfig", &kubeconfig.to_yaml())]).await;
    }

    // The plane takes another one.
    control.patch::<DataPlane>("acme/plane", named("other")).await;
    is_held(&control, "other", true).await;
    is_held(&control, "plane", false).await;
    is_held(&control, "unused", false).await;
    plane_ready(&control, "plane").await;

    // Deleted while it is needed it stays, also for the next operator, and the plane says why.
    control.delete::<Secret>("acme/other").await;
    let told = |plane: Option<&DataPlane>| {
        condition(plane?, "Ready")
            .filter(|said| said.0 == "True" && said.2.contains("Secret other"))
            .map(drop)
    };
    control.until("the plane says that its Secret is to go", "acme/plane", told).await;
    control.until_quiet().await;
    let mark = control.proxy.mark();
    control.restart_operator().await;
    crate::observing::until_connected(&control).await;
    control.until_quiet().await;
    control.proxy.assert_no_writes_since(mark);

    // Of two that name it, the last one lets go.
    control.patch::<DataPlane>("acme/plane", named("plane")).await;
    control.until_gone::<Secret>("acme/other").await;
    is_held(&control, "plane", true).await;
    control.create::<DataPlane>(&object("DataPlane", "twin", named("plane")["spec"].clone())).await;
    plane_ready(&control, "twin").await;
    control.delete::<DataPlane>("acme/plane").await;
    control.until_gone::<DataPlane>("acme/plane").await;
    control.until_quiet().await;
    is_held(&control, "plane", true).await;
    control.delete::<Secret>("acme/plane").await;
    // By force, while nobody looks.
    control.operator.kill().unwrap();
    control.operator.ended().await.unwrap();
    control.patch::<DataPlane>("acme/twin", json!({"metadata": {"finalizers": null}})).await;
    control.delete::<DataPlane>("acme/twin").await;
    control.until_gone::<DataPlane>("acme/twin").await;
    is_held(&control, "plane", true).await;
    crate::release::support::start_operator(&mut control, &[]).await;
    control.until_gone::<Secret>("acme/plane").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_organization_whose_namespace_is_deleted_is_cleaned_also_over_a_restart() {
    let mut fixture = DeploymentFixture::open().await;
    let before = Snapshot::settled(&fixture.plane.client, &Options::default(), PATIENCE).await.unwrap();
    fixture.artifact("cart", "cart", IMAGE, json!({"endpointTemplates": [endpoint("api", 8080)]})).await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    fixture.ready("cart").await;
    let old = fixture.control.wait_exists::<Namespace>("acme").await.uid();

    fixture.plane.proxy.refuse(true);
    wait_plane_condition(&fixture.control, "plane", "Unknown", "DataPlaneUnreachable").await;
    fixture.control.delete::<Namespace>("acme").await;
    fixture
        .control
        .until("the Deployment waits for the plane", "acme/cart", |found: Option<&Deployment>| {
            let said = condition(found?, "Finalizing")?;
            said.2.contains("data plane plane").then_some(())
        })
        .await;
    // Nothing but what is still needed holds the namespace.
    let secrets: Api<Secret> = Api::namespaced(fixture.control.client.clone(), "acme");
    wait::until("the Secret is being deleted or gone", PATIENCE, || async {
        let going = secrets.get_opt("plane").await?.is_none_or(|s| s.metadata.deletion_timestamp.is_some());
        Ok(if going { Seen::Done(()) } else { Seen::NotYet("it is there".to_owned()) })
    })
    .await
    .unwrap();
    fixture.control.restart_operator().await;
    fixture.plane.proxy.refuse(false);
    fixture
        .control
        .until("the namespace is made anew", "acme", |found: Option<&Namespace>| {
            (found?.uid() != old).then_some(())
        })
        .await;
    assert_nothing_left(&before, &fixture.plane.client, PATIENCE).await;
    let left: Vec<Endpoint> =
        Api::all(fixture.control.client.clone()).list(&ListParams::default()).await.unwrap().items;
    assert!(left.is_empty(), "{left:#?}");
}
