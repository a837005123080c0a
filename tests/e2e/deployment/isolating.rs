//! Nothing runs without the isolation of its namespace, nor in a namespace of somebody else.

use kantor_testbed::{
    Cluster, CrdBundle,
    proxy::{Action, Fault, Mark, Match, Records, Verb},
};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::support::{IMAGE, Plane, Shop, endpoint, item};
use crate::{acme::acme, observing::looked_at, release::support::home, support::PATIENCE};

const CORE: &str = "networking.k8s.io/v1/NetworkPolicy";
const CILIUM: &str = "cilium.io/v2/CiliumNetworkPolicy";
const DEFINITION: &str = "ciliumnetworkpolicies.cilium.io";
const NAME: &str = "default-policy";

/// A shop on a plane that runs pods, without Cilium.
async fn without_cilium() -> Shop {
    let cluster = Cluster::builder().name("plane").controllers(true).scheduler(true).nodes(1).share();
    let (stage, cluster) = Box::pin(async { tokio::join!(acme(), cluster) }).await;
    let shop = Shop { stage, plane: Plane::without_releases(cluster.unwrap()).await };
    shop.furnish().await;
    shop
}

/// Writes of the operator into the namespace since `mark` that landed, and of the namespace itself.
fn landed(shop: &Shop, mark: Mark) -> Records {
    shop.plane.proxy.writes_since(mark).filter(|write| {
        write.committed()
            && (write.namespace() == home() || (write.resource() == "namespaces" && write.name() == home()))
    })
}

async fn deploy(shop: &Shop) {
    shop.artifact("cart", "cart", IMAGE, json!({"endpointTemplates": [endpoint("api", 8080)]})).await;
    shop.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_runs_before_its_namespace_is_isolated_and_the_form_follows_the_plane() {
    let shop = without_cilium().await;
    let policies = Match::new().verb(Verb::Apply).resource("networkpolicies");
    let refused = shop.plane.proxy.fault(Fault::when(policies).then(Action::status(403)));
    let mark = shop.plane.proxy.mark();
    deploy(&shop).await;
    refused.await_hit(PATIENCE).await.unwrap();
    let message = shop.says("cart", "Ready", "False", "ApplyRefused").await;
    assert!(message.contains("NetworkPolicy"), "{message}");
    // Looked at again, it still does not run.
    let touch = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/touched": "yes"}}});
    let touching = shop.stage.patch::<kantor_api::Deployment>("acme/cart", touch);
    looked_at(&shop.stage, &["deployment"], touching).await;
    let asked = shop
        .plane
        .proxy
        .writes_since(mark)
        .filter(|write| !["namespaces", "networkpolicies"].contains(&write.resource()));
    assert!(asked.is_empty(), "{asked}");
    assert!(shop.plane.get(CORE, &home(), NAME).await.is_none());
    refused.remove();
    let deployment = shop.ready("cart").await;
    assert_eq!(item(&deployment, "Deployment").namespace, home());
    let policy = shop.plane.get(CORE, &home(), NAME).await.expect("no isolation");
    assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));

    // Cilium comes: its own form, and not both, which would let less through than either.
    let definition = CrdBundle::Cilium.files().unwrap();
    let definition = std::fs::read_to_string(&definition[0]).unwrap();
    shop.plane.cluster.apply_yaml(&definition).await.unwrap();
    shop.plane.there(CILIUM, &home(), NAME).await;
    shop.plane.gone(CORE, &home(), NAME).await;
    shop.ready("cart").await;

    // And goes: there is no moment without isolation that lasts.
    let definitions = shop.plane.api("apiextensions.k8s.io/v1/CustomResourceDefinition", "");
    definitions.delete(DEFINITION, &DeleteParams::default()).await.unwrap();
    shop.plane.there(CORE, &home(), NAME).await;
    shop.ready("cart").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_of_another_organization_is_refused_and_nothing_is_written_there() {
    let shop = Shop::open().await;
    let of = |organization: Value| json!({"metadata": {"name": home(), "labels": {"organization-name": organization}}});
    shop.plane.create("v1/Namespace", "", of("globex".into())).await;
    let before = shop.plane.get("v1/Namespace", "", &home()).await.unwrap();
    let mark = shop.plane.proxy.mark();
    deploy(&shop).await;
    let message = shop.says("cart", "Ready", "False", "NamespaceConflict").await;
    assert!(message.contains(&home()) && !message.contains("globex"), "{message}");
    shop.says("cart", "Stalled", "True", "NamespaceConflict").await;
    let touch = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/touched": "yes"}}});
    let touching = shop.stage.patch::<kantor_api::Deployment>("acme/cart", touch);
    looked_at(&shop.stage, &["deployment"], touching).await;
    shop.quiet().await;
    assert!(landed(&shop, mark).is_empty(), "{}", landed(&shop, mark));
    assert_eq!(shop.plane.get("v1/Namespace", "", &home()).await.unwrap(), before);

    // It is given up.
    shop.plane.patch("v1/Namespace", "", &home(), of("acme".into())).await;
    shop.ready("cart").await;
    // Somebody else takes it while the Deployment runs there: nothing is written there any more.
    shop.quiet().await;
    let mark = shop.plane.proxy.mark();
    shop.plane.patch("v1/Namespace", "", &home(), of("globex".into())).await;
    shop.says("cart", "Ready", "False", "NamespaceConflict").await;
    let image = json!({"targetArtifact": {"fromImageRef": {"tag": "registry.example.com/cart:2"}}});
    looked_at(&shop.stage, &["deployment"], shop.edit_artifact("cart", image)).await;
    shop.quiet().await;
    assert!(landed(&shop, mark).is_empty(), "{}", landed(&shop, mark));
}
