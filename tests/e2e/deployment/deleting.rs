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

use super::support::{DeploymentFixture, IMAGE, endpoint, item, namespace};
use crate::{
    acme::{object, secret, wait_plane_condition},
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

fn api(fixture: &DeploymentFixture, kind: &str) -> Api<DynamicObject> {
    let kind =
        if kind == "Secret" { "v1/Secret".to_owned() } else { format!("openchoreo.dev/v1alpha1/{kind}") };
    Api::namespaced_with(fixture.control.client.clone(), "acme", &resource(&kind))
}

async fn seed(fixture: &DeploymentFixture) {
    fixture.seed().await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"password": "x"}, "metadata": {
        "name": "login", "namespace": "acme", "labels": {"openchoreo.dev/secret-kind": "application"}}});
    fixture
        .control
        .create::<k8s_openapi::api::core::v1::Secret>(&serde_json::from_value(secret).unwrap())
        .await;
    let words = json!({"configurations": [{"key": "hi", "values": [{"environment": "dev", "value": "x"}]}]});
    fixture
        .control
        .create::<kantor_api::ConfigurationGroup>(&object("ConfigurationGroup", "words", words))
        .await;
    let application = json!({
        "env": [{"key": "PASSWORD", "valueFrom": {"secretRef": {"name": "login", "key": "password"}}}],
        "envFrom": [{"configurationGroupRef": {"name": "words"}}],
        "scaling": {"hpa": {"minReplicas": 1, "maxReplicas": 2}},
    });
    let configuration = json!({"endpointTemplates": [endpoint("api", 8080)], "application": application});
    fixture.artifact("cart", "cart", IMAGE, configuration).await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    fixture.ready("cart").await;
}

/// Asks for deletions in this order.
async fn delete(fixture: &DeploymentFixture, order: &[Thing]) {
    for (kind, name) in order {
        match api(fixture, kind).delete(name, &DeleteParams::default()).await {
            // What its parent took along.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            deleted => drop(deleted.unwrap()),
        }
    }
}

/// Waits until all that was deleted has gone.
async fn gone(fixture: &DeploymentFixture, order: &[Thing]) {
    for (kind, name) in order {
        let api = api(fixture, kind);
        let what = format!("{kind} {name} is gone after {order:?}");
        let gone = wait::until(&what, PATIENCE, || async {
            let found = api.get_opt(name).await?;
            Ok(if found.is_none() { Seen::Done(()) } else { Seen::NotYet(format!("{found:#?}")) })
        });
        gone.await.unwrap_or_else(|error| panic!("{error:#}\n{}", fixture.control.operator.log()));
    }
}

async fn snapshots(fixture: &DeploymentFixture) -> [Snapshot; 2] {
    let options = Options::default();
    [
        Snapshot::settled(&fixture.control.client, &options, PATIENCE).await.unwrap(),
        Snapshot::settled(&fixture.plane.client, &options, PATIENCE).await.unwrap(),
    ]
}

async fn nothing_left(fixture: &DeploymentFixture, [here, there]: &[Snapshot; 2]) {
    assert_nothing_left(there, &fixture.plane.client, PATIENCE).await;
    assert_nothing_left(here, &fixture.control.client, PATIENCE).await;
}

/// Waits until the Deployment that is being deleted says what it waits for in words that `told` accepts.
async fn waits_for(fixture: &DeploymentFixture, what: &str, told: impl Fn(&str) -> bool) {
    fixture
        .until(&format!("it says that it waits for {what}"), "cart", |found| {
            let (status, _, message) = condition(found, "Finalizing")?;
            (status == "True" && message.starts_with("waiting for") && told(&message)).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deletions_in_any_order_leave_nothing() {
    let fixture = DeploymentFixture::empty().await;
    let before = snapshots(&fixture).await;
    for order in orders() {
        seed(&fixture).await;
        delete(&fixture, &order).await;
        gone(&fixture, &order).await;
        nothing_left(&fixture, &before).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deletions_while_the_plane_hangs_are_done_when_it_is_back() {
    let mut fixture = DeploymentFixture::empty().await;
    fixture.control.operator.kill().unwrap();
    fixture.control.operator.ended().await.unwrap();
    start_operator(&mut fixture.control, &["--plane-timeout=2"]).await;
    let before = snapshots(&fixture).await;
    // Each costs the time until the operator looks again: one per beginning is enough.
    for order in orders().into_iter().take(7) {
        seed(&fixture).await;
        let hanging = fixture.plane.proxy.fault(Fault::when(Match::new()).then(Action::Hang));
        delete(&fixture, &order).await;
        waits_for(&fixture, "the plane", |message| !message.contains("Endpoint")).await;
        hanging.remove();
        gone(&fixture, &order).await;
        nothing_left(&fixture, &before).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_kubeconfig_a_plane_is_kept_until_a_restart_and_then_waited_for() {
    let mut fixture = DeploymentFixture::empty().await;
    let before = snapshots(&fixture).await;
    seed(&fixture).await;
    let deployment = fixture.ready("cart").await;
    delete(&fixture, &[KUBECONFIG]).await;
    // It is held while it is needed: somebody lets go of it by force.
    let freed = json!({"metadata": {"finalizers": null}});
    fixture.control.patch::<k8s_openapi::api::core::v1::Secret>("acme/plane", freed).await;
    let message = wait_plane_condition(&fixture.control, "plane", "False", "SecretNotFound").await;
    assert!(message.contains("Secret plane"), "{message}");
    // The connection is there.
    fixture.configure("cart", json!({"args": ["--late"]})).await;
    fixture
        .workload("the change arrives", &deployment, |workload| {
            (workload["spec"]["template"]["spec"]["containers"][0]["args"][0] == "--late").then_some(())
        })
        .await;
    fixture.ready("cart").await;

    // And then it is not.
    fixture.control.restart_operator().await;
    let message = fixture.wait_condition("cart", "Ready", "Unknown", "DataPlaneUnreachable").await;
    assert!(message.contains("Secret plane does not exist"), "{message}");
    fixture
        .control
        .until("the environment says so as well", "acme/dev", |found: Option<&Environment>| {
            let (status, reason, message) = condition(found?, "Ready")?;
            (status == "Unknown" && reason == "DataPlaneUnreachable" && message.contains("Secret plane"))
                .then_some(())
        })
        .await;
    let mark = fixture.plane.proxy.mark();
    delete(&fixture, &ALL).await;
    waits_for(&fixture, "the kubeconfig", |message| message.contains("Secret plane does not exist")).await;
    for kind in ["Environment", "DataPlane"] {
        let name = ALL.iter().find(|(known, _)| *known == kind).unwrap().1;
        let found = api(&fixture, kind).get(name).await.unwrap();
        assert!(
            found.metadata.deletion_timestamp.is_some() && found.metadata.finalizers.is_some(),
            "{found:#?}"
        );
    }
    fixture.live(&deployment, "Deployment").await;
    fixture.plane.proxy.assert_no_requests_since(mark);

    secret(&fixture.control, "plane", &[("kubeconfig", &fixture.plane.kubeconfig.to_yaml())]).await;
    let rest: Vec<Thing> = ALL.into_iter().filter(|thing| *thing != KUBECONFIG).collect();
    gone(&fixture, &rest).await;
    delete(&fixture, &[KUBECONFIG]).await;
    nothing_left(&fixture, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_is_made_anew_unless_its_deployment_goes() {
    let fixture = DeploymentFixture::empty().await;
    seed(&fixture).await;
    let deployment = fixture.ready("cart").await;
    let endpoints = api(&fixture, "Endpoint");
    let uid = endpoints.get(ENDPOINT.1).await.unwrap().metadata.uid;
    delete(&fixture, &[ENDPOINT]).await;
    fixture
        .control
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
    fixture.quiet().await;

    // The ways in go first; until then everything runs.
    let held = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
    let path = format!("acme/{}", ENDPOINT.1);
    fixture.control.patch::<Endpoint>(&path, held(json!(["example.com/hold"]))).await;
    let mark = fixture.control.proxy.mark();
    delete(&fixture, &[ALL[0]]).await;
    waits_for(&fixture, "the Endpoint", |message| message.contains(ENDPOINT.1)).await;
    for kind in ["Deployment", "Service", "ConfigMap", "Secret", "HorizontalPodAutoscaler"] {
        assert!(fixture.live(&deployment, kind).await["metadata"]["deletionTimestamp"].is_null());
    }
    fixture.control.patch::<Endpoint>(&path, held(Value::Null)).await;
    fixture.control.until_gone::<Deployment>("acme/cart").await;
    let made = fixture.control.proxy.writes_since(mark).resource("endpoints").verb(Verb::Apply);
    assert!(made.is_empty(), "{made}");
    assert!(endpoints.get_opt(ENDPOINT.1).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_shared_stays_for_the_others_and_what_is_let_go_stays_with_an_event() {
    let fixture = DeploymentFixture::open().await;
    let before = Snapshot::settled(&fixture.plane.client, &Options::default(), PATIENCE).await.unwrap();
    fixture.component("site", "WebApplication").await;
    for name in ["cart", "site"] {
        let env = json!({"application": {"env": [{"key": "COLOUR", "value": "blue"}]}});
        fixture.artifact(name, name, IMAGE, env).await;
        fixture.deploy(name, name, "dev", json!({"deploymentArtifactRef": name})).await;
    }
    let cart = fixture.ready("cart").await;
    let site = fixture.ready("site").await;
    let home = namespace(&cart);
    assert_eq!(home, namespace(&site));
    // Others may say more about the namespace.
    let more =
        json!({"metadata": {"labels": {"istio-injection": "enabled"}, "annotations": {"team": "blue"}}});
    fixture.plane.patch("v1/Namespace", "", &home, more).await;
    let policies = fixture.plane.api("cilium.io/v2/CiliumNetworkPolicy", &home);
    let shared = async || {
        let namespace = fixture.plane.get("v1/Namespace", "", &home).await.unwrap();
        let policies = policies.list(&ListParams::default()).await.unwrap().items;
        assert_eq!(policies.len(), 1, "{policies:#?}");
        let labels = &namespace["metadata"]["labels"];
        assert_eq!(labels["istio-injection"], "enabled");
        assert_eq!(namespace["metadata"]["annotations"]["team"], "blue");
        assert_eq!(labels["organization-name"], "acme");
        (namespace["metadata"]["uid"].clone(), policies[0].metadata.uid.clone())
    };
    let first = shared().await;
    fixture.configure("cart", json!({"env": [{"key": "COLOUR", "value": "red"}]})).await;
    fixture
        .workload("it is red", &cart, |workload| {
            (workload["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] == "red").then_some(())
        })
        .await;
    // Broken and repaired: only what is Kantor's.
    let broken = json!({"metadata": {"labels": {"project-name": "other"}}});
    fixture.plane.patch("v1/Namespace", "", &home, broken).await;
    fixture
        .plane
        .until("the label is back", ("v1/Namespace", "", &home), |found| {
            (found?["metadata"]["labels"]["project-name"] == "shop").then_some(())
        })
        .await;
    fixture.delete("cart").await;
    assert_eq!(shared().await, first);
    fixture.live(&fixture.ready("site").await, "Deployment").await;

    let policy =
        |value: Value| json!({"metadata": {"annotations": {"openchoreo.dev/deletion-policy": value}}});
    fixture.control.patch::<Deployment>("acme/site", policy("Orphan".into())).await;
    fixture.delete("site").await;
    fixture.live(&site, "Deployment").await;
    assert_eq!(shared().await, first);
    let events: Api<Event> = Api::namespaced(fixture.control.client.clone(), "acme");
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
    fixture.control.delete::<Environment>("acme/dev").await;
    fixture.control.until_gone::<Environment>("acme/dev").await;
    assert_nothing_left(&before, &fixture.plane.client, PATIENCE).await;
}
