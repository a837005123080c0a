//! Deleting, in any order.

use k8s_openapi::api::events::v1::Event;
use kantor_api::{Deployment, Endpoint, Environment};
use kantor_testbed::{
    proxy::{Action, Fault, Match, Verb},
    snapshot::{Options, Snapshot, assert_nothing_left},
    wait::{self, Seen},
};
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, ListParams},
};
use serde_json::{Value, json};

use super::support::{IMAGE, Shop, endpoint, item, namespace};
use crate::{
    acme::{object, plane_says, secret},
    release::support::{resource, start_operator},
    support::{PATIENCE, condition},
};

/// Kind and name of an object of the organization.
type Thing = (&'static str, &'static str);

/// Everything that stands between an organization and a workload, and what the workload uses. Orders begin with each of
/// the first seven.
const ALL: [Thing; 12] = [
    ("Deployment", "cart"),
    ENDPOINT,
    ("DeployableArtifact", "cart"),
    ("Component", "cart"),
    ("Environment", "dev"),
    ("DataPlane", "plane"),
    KUBECONFIG,
    ("DeploymentTrack", "cart-main"),
    ("Project", "shop"),
    ("DeploymentPipeline", "default"),
    ("ConfigurationGroup", "words"),
    ("Secret", "login"),
];

/// Made by the Deployment.
const ENDPOINT: Thing = ("Endpoint", "cart-api-3b762108");
/// The way to the plane.
const KUBECONFIG: Thing = ("Secret", "plane");

/// Orders in which deletions are asked for: each of seven first, and three times whatever comes first. The rest is by
/// chance, but the same each time.
fn orders() -> Vec<Vec<Thing>> {
    let mut seed = 7_u64;
    let mut random = || {
        // Knuth's.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
    let mut order = |first: Option<&Thing>| {
        let mut order = ALL.to_vec();
        order.sort_by_cached_key(|thing| if Some(thing) == first { 0 } else { 1 + random() });
        order
    };
    let firsts: Vec<_> = ALL[..7].iter().map(Some).chain([None; 3]).collect();
    firsts.into_iter().map(&mut order).collect()
}

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

/// Asks for deletions in this order.
async fn delete(shop: &Shop, order: &[Thing]) {
    for (kind, name) in order {
        match api(shop, kind).delete(name, &DeleteParams::default()).await {
            // What its parent took along.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            deleted => drop(deleted.unwrap()),
        }
    }
}

/// Waits until all that was deleted has gone.
async fn gone(shop: &Shop, order: &[Thing]) {
    for (kind, name) in order {
        let api = api(shop, kind);
        let what = format!("{kind} {name} is gone after {order:?}");
        let gone = wait::until(&what, PATIENCE, || async {
            let found = api.get_opt(name).await?;
            Ok(if found.is_none() { Seen::Done(()) } else { Seen::NotYet(format!("{found:#?}")) })
        });
        gone.await.unwrap_or_else(|error| panic!("{error:#}\n{}", shop.stage.operator.log()));
    }
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

/// Waits until the Deployment that is being deleted says what it waits for in words that `told` accepts.
async fn waits_for(shop: &Shop, what: &str, told: impl Fn(&str) -> bool) {
    shop.until(&format!("it says that it waits for {what}"), "cart", |found| {
        let (status, _, message) = condition(found, "Finalizing")?;
        (status == "True" && message.starts_with("waiting for") && told(&message)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deletions_in_any_order_leave_nothing() {
    let shop = Shop::empty().await;
    let before = snapshots(&shop).await;
    for order in orders() {
        furnish(&shop).await;
        delete(&shop, &order).await;
        gone(&shop, &order).await;
        nothing_left(&shop, &before).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deletions_while_the_plane_hangs_are_done_when_it_is_back() {
    let mut shop = Shop::empty().await;
    shop.stage.operator.kill().unwrap();
    shop.stage.operator.ended().await.unwrap();
    start_operator(&mut shop.stage, &["--plane-timeout=2"]).await;
    let before = snapshots(&shop).await;
    // Each costs the time until the operator looks again: one per beginning is enough.
    for order in orders().into_iter().take(7) {
        furnish(&shop).await;
        let hanging = shop.plane.proxy.fault(Fault::when(Match::new()).then(Action::Hang));
        delete(&shop, &order).await;
        waits_for(&shop, "the plane", |message| !message.contains("Endpoint")).await;
        hanging.remove();
        gone(&shop, &order).await;
        nothing_left(&shop, &before).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_kubeconfig_a_plane_is_kept_until_a_restart_and_then_waited_for() {
    let mut shop = Shop::empty().await;
    let before = snapshots(&shop).await;
    furnish(&shop).await;
    let deployment = shop.ready("cart").await;
    delete(&shop, &[KUBECONFIG]).await;
    // It is held while it is needed: somebody lets go of it by force.
    let freed = json!({"metadata": {"finalizers": null}});
    shop.stage.patch::<k8s_openapi::api::core::v1::Secret>("acme/plane", freed).await;
    let message = plane_says(&shop.stage, "plane", "False", "SecretNotFound").await;
    assert!(message.contains("Secret plane"), "{message}");
    // The connection is there.
    shop.configure("cart", json!({"args": ["--late"]})).await;
    shop.workload("the change arrives", &deployment, |workload| {
        (workload["spec"]["template"]["spec"]["containers"][0]["args"][0] == "--late").then_some(())
    })
    .await;
    shop.ready("cart").await;

    // And then it is not.
    shop.stage.restart_operator().await;
    let message = shop.says("cart", "Ready", "Unknown", "DataPlaneUnreachable").await;
    assert!(message.contains("Secret plane does not exist"), "{message}");
    shop.stage
        .until("the environment says so as well", "acme/dev", |found: Option<&Environment>| {
            let (status, reason, message) = condition(found?, "Ready")?;
            (status == "Unknown" && reason == "DataPlaneUnreachable" && message.contains("Secret plane"))
                .then_some(())
        })
        .await;
    let mark = shop.plane.proxy.mark();
    delete(&shop, &ALL).await;
    waits_for(&shop, "the kubeconfig", |message| message.contains("Secret plane does not exist")).await;
    for kind in ["Environment", "DataPlane"] {
        let name = ALL.iter().find(|(known, _)| *known == kind).unwrap().1;
        let found = api(&shop, kind).get(name).await.unwrap();
        assert!(
            found.metadata.deletion_timestamp.is_some() && found.metadata.finalizers.is_some(),
            "{found:#?}"
        );
    }
    shop.live(&deployment, "Deployment").await;
    shop.plane.proxy.assert_no_requests_since(mark);

    secret(&shop.stage, "plane", &[("kubeconfig", &shop.plane.kubeconfig.to_yaml())]).await;
    let rest: Vec<Thing> = ALL.into_iter().filter(|thing| *thing != KUBECONFIG).collect();
    gone(&shop, &rest).await;
    delete(&shop, &[KUBECONFIG]).await;
    nothing_left(&shop, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_is_made_anew_unless_its_deployment_goes() {
    let shop = Shop::empty().await;
    furnish(&shop).await;
    let deployment = shop.ready("cart").await;
    let endpoints = api(&shop, "Endpoint");
    let uid = endpoints.get(ENDPOINT.1).await.unwrap().metadata.uid;
    delete(&shop, &[ENDPOINT]).await;
    shop.stage
        .until(
            "it is made anew and looked at",
            &format!("acme/{}", ENDPOINT.1),
            |found: Option<&Endpoint>| {
                let found = found?;
                let looked_at = found.status.as_ref()?.observed_generation == found.metadata.generation;
                (found.metadata.uid != uid && looked_at).then_some(())
            },
        )
        .await;
    shop.quiet().await;

    // The ways in go first; until then everything runs.
    let held = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
    let path = format!("acme/{}", ENDPOINT.1);
    shop.stage.patch::<Endpoint>(&path, held(json!(["example.com/hold"]))).await;
    let mark = shop.stage.proxy.mark();
    delete(&shop, &[ALL[0]]).await;
    waits_for(&shop, "the Endpoint", |message| message.contains(ENDPOINT.1)).await;
    for kind in ["Deployment", "Service", "ConfigMap", "Secret", "HorizontalPodAutoscaler"] {
        assert!(shop.live(&deployment, kind).await["metadata"]["deletionTimestamp"].is_null());
    }
    shop.stage.patch::<Endpoint>(&path, held(Value::Null)).await;
    shop.stage.until_gone::<Deployment>("acme/cart").await;
    let made = shop.stage.proxy.writes_since(mark).resource("endpoints").verb(Verb::Apply);
    assert!(made.is_empty(), "{made}");
    assert!(endpoints.get_opt(ENDPOINT.1).await.unwrap().is_none());
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
