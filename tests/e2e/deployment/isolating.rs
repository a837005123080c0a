//! Nothing runs without the isolation of its namespace, nor in a namespace of somebody else.

use kantor_testbed::{
    Cluster, CrdBundle,
    proxy::{Action, Fault, Mark, Match, Records, Verb},
};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::support::{DeploymentFixture, IMAGE, Plane, endpoint, item};
use crate::{acme::acme, observing::looked_at, release::support::home, support::PATIENCE};

const CORE: &str = "networking.k8s.io/v1/NetworkPolicy";
const CILIUM: &str = "cilium.io/v2/CiliumNetworkPolicy";
const DEFINITION: &str = "ciliumnetworkpolicies.cilium.io";
const NAME: &str = "default-policy";

/// A fixture on a plane that runs pods, without Cilium.
async fn without_cilium() -> DeploymentFixture {
    let cluster = Cluster::builder().name("plane").controllers(true).scheduler(true).nodes(1).share();
    let (control, cluster) = Box::pin(async { tokio::join!(acme(), cluster) }).await;
    let fixture = DeploymentFixture { control, plane: Plane::without_releases(cluster.unwrap()).await };
    fixture.seed().await;
    fixture
}

/// Writes of the operator into the namespace since `mark` that landed, and of the namespace itself.
fn landed(fixture: &DeploymentFixture, mark: Mark) -> Records {
    fixture.plane.proxy.writes_since(mark).filter(|write| {
        write.committed()
            && (write.namespace() == home() || (write.resource() == "namespaces" && write.name() == home()))
    })
}

async fn deploy(fixture: &DeploymentFixture) {
    fixture.artifact("cart", "cart", IMAGE, json!({"endpointTemplates": [endpoint("api", 8080)]})).await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_runs_before_its_namespace_is_isolated_and_the_form_follows_the_plane() {
    let fixture = without_cilium().await;
    let policies = Match::new().verb(Verb::Apply).resource("networkpolicies");
    let refused = fixture.plane.proxy.fault(Fault::when(policies).then(Action::status(403)));
    let mark = fixture.plane.proxy.mark();
    deploy(&fixture).await;
    refused.await_hit(PATIENCE).await.unwrap();
    let message = fixture.wait_condition("cart", "Ready", "False", "ApplyRefused").await;
    assert!(message.contains("NetworkPolicy"), "{message}");
    // Looked at again, it still does not run.
    let touch = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/touched": "yes"}}});
    let touching = fixture.control.patch::<kantor_api::Deployment>("acme/cart", touch);
    looked_at(&fixture.control, &["deployment"], touching).await;
    let asked = fixture
        .plane
        .proxy
        .writes_since(mark)
        .filter(|write| !["namespaces", "networkpolicies"].contains(&write.resource()));
    assert!(asked.is_empty(), "{asked}");
    assert!(fixture.plane.get(CORE, &home(), NAME).await.is_none());
    refused.remove();
    let deployment = fixture.ready("cart").await;
    assert_eq!(item(&deployment, "Deployment").namespace, home());
    let policy = fixture.plane.get(CORE, &home(), NAME).await.expect("no isolation");
    assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));

    // Cilium comes: its own form, and not both, which would let less through than either.
    let definition = CrdBundle::Cilium.files().unwrap();
    let definition = std::fs::read_to_string(&definition[0]).unwrap();
    fixture.plane.cluster.apply_yaml(&definition).await.unwrap();
    fixture.plane.wait_exists(CILIUM, &home(), NAME).await;
    fixture.plane.gone(CORE, &home(), NAME).await;
    fixture.ready("cart").await;

    // And goes: there is no moment without isolation that lasts.
    let definitions = fixture.plane.api("apiextensions.k8s.io/v1/CustomResourceDefinition", "");
    definitions.delete(DEFINITION, &DeleteParams::default()).await.unwrap();
    fixture.plane.wait_exists(CORE, &home(), NAME).await;
    fixture.ready("cart").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_of_another_organization_is_refused_and_nothing_is_written_there() {
    let fixture = DeploymentFixture::open().await;
    let of = |organization: Value| json!({"metadata": {"name": home(), "labels": {"organization-name": organization}}});
    fixture.plane.create("v1/Namespace", "", of("globex".into())).await;
    let before = fixture.plane.get("v1/Namespace", "", &home()).await.unwrap();
    let mark = fixture.plane.proxy.mark();
    deploy(&fixture).await;
    let message = fixture.wait_condition("cart", "Ready", "False", "NamespaceConflict").await;
    assert!(message.contains(&home()) && !message.contains("globex"), "{message}");
    fixture.wait_condition("cart", "Stalled", "True", "NamespaceConflict").await;
    let touch = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/touched": "yes"}}});
    let touching = fixture.control.patch::<kantor_api::Deployment>("acme/cart", touch);
    looked_at(&fixture.control, &["deployment"], touching).await;
    fixture.quiet().await;
    assert!(landed(&fixture, mark).is_empty(), "{}", landed(&fixture, mark));
    assert_eq!(fixture.plane.get("v1/Namespace", "", &home()).await.unwrap(), before);

    // It is given up.
    fixture.plane.patch("v1/Namespace", "", &home(), of("acme".into())).await;
    fixture.ready("cart").await;
    // Somebody else takes it while the Deployment runs there: nothing is written there any more.
    fixture.quiet().await;
    let mark = fixture.plane.proxy.mark();
    fixture.plane.patch("v1/Namespace", "", &home(), of("globex".into())).await;
    fixture.wait_condition("cart", "Ready", "False", "NamespaceConflict").await;
    let image = json!({"targetArtifact": {"fromImageRef": {"tag": "registry.example.com/cart:2"}}});
    looked_at(&fixture.control, &["deployment"], fixture.edit_artifact("cart", image)).await;
    fixture.quiet().await;
    assert!(landed(&fixture, mark).is_empty(), "{}", landed(&fixture, mark));
}
