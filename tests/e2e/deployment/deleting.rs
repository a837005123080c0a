//! Deleting, in any order.

use k8s_openapi::api::events::v1::Event;
use kantor_api::{Deployment, Environment};
use kantor_testbed::{
    proxy::{Action, Fault, Match},
    snapshot::{Options, Snapshot, assert_nothing_left},
    wait::{self, Seen},
};
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, ListParams},
};
use serde_json::{Value, json};

use super::support::{IMAGE, Shop, endpoint, item, namespace};
use crate::{acme::object, release::support::resource, support::PATIENCE};

/// Everything that stands between an organization and a workload, and what the workload uses.
const ALL: [(&str, &str); 10] = [
    ("Deployment", "cart"),
    ("DeployableArtifact", "cart"),
    ("DeploymentTrack", "cart-main"),
    ("Component", "cart"),
    ("Project", "shop"),
    ("DeploymentPipeline", "default"),
    ("ConfigurationGroup", "words"),
    ("Secret", "login"),
    ("Environment", "dev"),
    ("DataPlane", "plane"),
];

/// Orders in which deletions are asked for; what an order does not name follows in the order of [`ALL`].
const ORDERS: [&[&str]; 4] = [
    &[],
    &["DataPlane", "Environment", "Project", "Component", "DeployableArtifact"],
    &["Secret", "ConfigurationGroup", "DeployableArtifact", "Project", "DataPlane"],
    &["Component", "Environment", "Deployment"],
];

fn api(shop: &Shop, kind: &str) -> Api<DynamicObject> {
    let kind =
        if kind == "Secret" { "v1/Secret".to_owned() } else { format!("openchoreo.dev/v1alpha1/{kind}") };
    Api::namespaced_with(shop.stage.client.clone(), "acme", &resource(&kind))
}

async fn furnish(shop: &Shop) {
    shop.furnish().await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"password": "x"}, "metadata": {
        "name": "login", "namespace": "acme", "labels": {"openchoreo.dev/secret-kind": "application"}}});
    shop.stage.create::<k8s_openapi::api::core::v1::Secret>(&serde_json::from_value(secret).unwrap()).await;
    let words = json!({"configurations": [{"key": "hi", "values": [{"environment": "dev", "value": "x"}]}]});
    shop.stage.create::<kantor_api::ConfigurationGroup>(&object("ConfigurationGroup", "words", words)).await;
    let application = json!({
        "env": [{"key": "PASSWORD", "valueFrom": {"secretRef": {"name": "login", "key": "password"}}}],
        "envFrom": [{"configurationGroupRef": {"name": "words"}}],
        "scaling": {"hpa": {"minReplicas": 1, "maxReplicas": 2}},
    });
    let configuration = json!({"endpointTemplates": [endpoint("api", 8080)], "application": application});
    shop.artifact("cart", "cart", IMAGE, configuration).await;
    shop.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    shop.ready("cart").await;
}

/// Asks for all deletions, `first` before the others.
async fn delete_all(shop: &Shop, first: &[&str]) {
    let rest = ALL.iter().map(|(kind, _)| *kind).filter(|kind| !first.contains(kind));
    for kind in first.iter().copied().chain(rest) {
        let name = ALL.iter().find(|(known, _)| *known == kind).unwrap().1;
        match api(shop, kind).delete(name, &DeleteParams::default()).await {
            // What its parent took along.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            deleted => drop(deleted.unwrap()),
        }
    }
}

async fn all_gone(shop: &Shop) {
    for (kind, name) in ALL {
        let api = api(shop, kind);
        let what = format!("{kind} {name} is gone");
        let gone = wait::until(&what, PATIENCE, || async {
            let found = api.get_opt(name).await?;
            Ok(if found.is_none() { Seen::Done(()) } else { Seen::NotYet(format!("{found:#?}")) })
        });
        gone.await.unwrap_or_else(|error| panic!("{error:#}\n{}", shop.stage.operator.log()));
    }
    // The way to the plane goes last: without it nothing could have been cleaned.
    api(shop, "Secret").delete("plane", &DeleteParams::default()).await.unwrap();
}

async fn snapshots(shop: &Shop) -> [Snapshot; 2] {
    let options = Options::default();
    [
        Snapshot::settled(&shop.stage.client, &options, PATIENCE).await.unwrap(),
        Snapshot::settled(&shop.plane.client, &options, PATIENCE).await.unwrap(),
    ]
}

async fn nothing_left(shop: &Shop, [here, there]: &[Snapshot; 2]) {
    assert_nothing_left(there, &shop.plane.client, PATIENCE).await;
    assert_nothing_left(here, &shop.stage.client, PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deletions_in_any_order_leave_nothing() {
    let shop = Shop::empty().await;
    let before = snapshots(&shop).await;
    for order in ORDERS {
        furnish(&shop).await;
        delete_all(&shop, order).await;
        all_gone(&shop).await;
        nothing_left(&shop, &before).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deletions_while_the_plane_hangs_are_done_when_it_is_back() {
    let shop = Shop::empty().await;
    let before = snapshots(&shop).await;
    for order in ORDERS {
        furnish(&shop).await;
        let hanging = shop.plane.proxy.fault(Fault::when(Match::new()).then(Action::Hang));
        delete_all(&shop, order).await;
        shop.until("it says what it waits for", "cart", |found| {
            let (status, _, message) = crate::support::condition(found, "Finalizing")?;
            (status == "True" && message.contains("waiting for")).then_some(())
        })
        .await;
        hanging.remove();
        all_gone(&shop).await;
        nothing_left(&shop, &before).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_shared_stays_for_the_others_and_what_is_let_go_stays_with_an_event() {
    let shop = Shop::open().await;
    let before = Snapshot::settled(&shop.plane.client, &Options::default(), PATIENCE).await.unwrap();
    shop.component("site", "WebApplication").await;
    for name in ["cart", "site"] {
        let env = json!({"application": {"env": [{"key": "COLOUR", "value": "blue"}]}});
        shop.artifact(name, name, IMAGE, env).await;
        shop.deploy(name, name, "dev", json!({"deploymentArtifactRef": name})).await;
    }
    let cart = shop.ready("cart").await;
    let site = shop.ready("site").await;
    let home = namespace(&cart);
    assert_eq!(home, namespace(&site));
    // Others may say more about the namespace.
    let more =
        json!({"metadata": {"labels": {"istio-injection": "enabled"}, "annotations": {"team": "blue"}}});
    shop.plane.patch("v1/Namespace", "", &home, more).await;
    let policies = shop.plane.api("cilium.io/v2/CiliumNetworkPolicy", &home);
    let shared = async || {
        let namespace = shop.plane.get("v1/Namespace", "", &home).await.unwrap();
        let policies = policies.list(&ListParams::default()).await.unwrap().items;
        assert_eq!(policies.len(), 1, "{policies:#?}");
        let labels = &namespace["metadata"]["labels"];
        assert_eq!(labels["istio-injection"], "enabled");
        assert_eq!(namespace["metadata"]["annotations"]["team"], "blue");
        assert_eq!(labels["organization-name"], "acme");
        (namespace["metadata"]["uid"].clone(), policies[0].metadata.uid.clone())
    };
    let first = shared().await;
    shop.configure("cart", json!({"env": [{"key": "COLOUR", "value": "red"}]})).await;
    shop.workload("it is red", &cart, |workload| {
        (workload["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] == "red").then_some(())
    })
    .await;
    // Broken and repaired: only what is Kantor's.
    let broken = json!({"metadata": {"labels": {"project-name": "other"}}});
    shop.plane.patch("v1/Namespace", "", &home, broken).await;
    shop.plane
        .until("the label is back", ("v1/Namespace", "", &home), |found| {
            (found?["metadata"]["labels"]["project-name"] == "shop").then_some(())
        })
        .await;
    shop.delete("cart").await;
    assert_eq!(shared().await, first);
    shop.live(&shop.ready("site").await, "Deployment").await;

    let policy =
        |value: Value| json!({"metadata": {"annotations": {"openchoreo.dev/deletion-policy": value}}});
    shop.stage.patch::<Deployment>("acme/site", policy("Orphan".into())).await;
    shop.delete("site").await;
    shop.live(&site, "Deployment").await;
    assert_eq!(shared().await, first);
    let events: Api<Event> = Api::namespaced(shop.stage.client.clone(), "acme");
    let about = ListParams::default().fields("reason=LeftBehind,regarding.name=site");
    let note = wait::until("an Event tells what stays", PATIENCE, || async {
        let found = events.list(&about).await?.items;
        Ok(found
            .into_iter()
            .find_map(|event| event.note)
            .map_or_else(|| Seen::NotYet(String::new()), Seen::Done))
    })
    .await
    .unwrap();
    assert!(note.contains(&item(&site, "Deployment").name), "{note}");

    // The namespace is the environment's: it goes with all that is in it.
    shop.stage.delete::<Environment>("acme/dev").await;
    shop.stage.until_gone::<Environment>("acme/dev").await;
    assert_nothing_left(&before, &shop.plane.client, PATIENCE).await;
}
