//! What goes wrong, what is said about it, and that it heals.

use kantor_api::{Build, Component, DeployableArtifact, Deployment, DeploymentTrack, Environment, Project};
use kantor_testbed::{
    proxy::{Action, Fault, Match, StatusReply, Verb},
    snapshot::{Options, Snapshot, assert_nothing_left},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::support::{IMAGE, Shop, endpoint, item, labelled, namespace};
use crate::{
    observing::{looked_at, looks, until_connected, until_looked_at},
    release::support::start_operator,
    support::{PATIENCE, condition},
};

/// Applies of workloads.
fn applies() -> Match {
    Match::new().verb(Verb::Apply).group("apps").resource("deployments")
}

fn colour(colour: &str) -> Value {
    json!({"env": [{"key": "COLOUR", "value": colour}]})
}

fn colour_of(workload: &Value) -> &Value {
    &workload["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"]
}

/// A plane that holds a call for as long as a test takes is not given up.
const PATIENT: &str = "--plane-timeout=10m";

/// A shop whose Deployment `cart` is white and has nothing to do.
async fn white_cart(arguments: &[&str]) -> (Shop, Deployment) {
    let shop = Shop::open_with(arguments).await;
    shop.artifact("cart", "cart", IMAGE, json!({"application": colour("white")})).await;
    shop.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let deployment = shop.ready("cart").await;
    shop.quiet().await;
    (shop, deployment)
}

async fn until_black(shop: &Shop, deployment: &Deployment) {
    shop.workload("it is black", deployment, |workload| (colour_of(workload) == "black").then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_not_known_yet_is_waited_for() {
    let shop = Shop::open().await;
    shop.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let message = shop.says("cart", "Ready", "False", "ArtifactNotFound").await;
    assert!(message.contains("cart"), "{message}");
    shop.says("cart", "ArtifactResolved", "False", "ArtifactNotFound").await;

    let of_track = [("project", "shop"), ("component", "cart"), ("deployment-track", "main")];
    let target = json!({"targetArtifact": {"fromBuildRef": {"name": "cart-7"}}});
    shop.stage.create::<DeployableArtifact>(&labelled("DeployableArtifact", "cart", &of_track, target)).await;
    let message = shop.says("cart", "Ready", "False", "ArtifactBuildNotFound").await;
    assert!(message.contains("cart-7"), "{message}");

    let build = json!({"owner": {"projectName": "shop", "componentName": "cart"},
        "repository": {"url": "https://example.com/cart.git", "revision": {"branch": "main"}, "appPath": "."},
        "templateRef": {"name": "docker"}});
    // As the reference makes them: without the label of the track.
    shop.stage.create::<Build>(&labelled("Build", "cart-7", &of_track[..2], build)).await;
    let message = shop.says("cart", "Ready", "False", "ImageNotBuilt").await;
    assert!(message.contains("cart-7"), "{message}");
    assert!(shop.stage.there::<Deployment>("acme/cart").await.status.unwrap().image.is_none());

    let builds: Api<Build> = Api::namespaced(shop.stage.client.clone(), "acme");
    let image = json!({"status": {"imageStatus": {"image": "registry.example.com:5000/shop-cart:7"}}});
    builds.patch_status("cart-7", &PatchParams::default(), &Patch::Merge(image)).await.unwrap();
    let deployment = shop.ready("cart").await;
    let workload = shop.live(&deployment, "Deployment").await;
    let image = &workload["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, "registry.example.com:5000/shop-cart:7");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_plane_is_said_and_what_comes_in_between_is_taken_together() {
    let shop = Shop::open_with(&[PATIENT]).await;
    let before = Snapshot::settled(&shop.plane.client, &Options::default(), PATIENCE).await.unwrap();
    let configuration = json!({"endpointTemplates": [endpoint("api", 8080)], "application": colour("white")});
    shop.artifact("cart", "cart", IMAGE, configuration).await;
    shop.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let deployment = shop.ready("cart").await;

    let reply = StatusReply::new(500).message("the disk is full");
    let fault = shop.plane.proxy.fault(Fault::when(applies()).then(Action::Status(reply)));
    shop.configure("cart", colour("black")).await;
    let message = shop.says("cart", "Ready", "False", "ApplyFailed").await;
    assert!(message.contains("the disk is full") && message.contains("Deployment"), "{message}");
    fault.remove();
    until_black(&shop, &deployment).await;
    shop.ready("cart").await;
    shop.quiet().await;

    // A hundred edits while one write is under way are one more write, of the last of them.
    let mark = shop.plane.proxy.mark();
    let held = shop.plane.proxy.fault(Fault::when(applies().nth(1)).then(Action::HoldBefore));
    shop.configure("cart", colour("0")).await;
    held.await_hit(PATIENCE).await.unwrap();
    for number in 1..=100 {
        shop.configure("cart", colour(&number.to_string())).await;
    }
    shop.until_seen("cart").await;
    held.release();
    shop.workload("the last edit is there", &deployment, |workload| {
        (colour_of(workload) == "100").then_some(())
    })
    .await;
    shop.ready("cart").await;
    shop.quiet().await;
    let writes = shop.plane.proxy.writes_since(mark).verb(Verb::Apply).resource("deployments");
    assert_eq!(writes.len(), 2, "{writes}");
    drop(held);

    // Deleted while a write is under way: what was written in the end goes, too.
    let held = shop.plane.proxy.fault(Fault::when(applies().nth(1)).then(Action::HoldBefore));
    shop.configure("cart", colour("last")).await;
    held.await_hit(PATIENCE).await.unwrap();
    shop.stage.delete::<Deployment>("acme/cart").await;
    held.release();
    shop.stage.until_gone::<Deployment>("acme/cart").await;
    let (home, name) = (namespace(&deployment), &item(&deployment, "Deployment").name);
    assert!(shop.plane.get("apps/v1/Deployment", &home, name).await.is_none());
    // The same for one that is being made: nothing is there that could be looked up.
    let held = shop.plane.proxy.fault(Fault::when(applies().nth(1)).then(Action::HoldAfter));
    shop.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    held.await_hit(PATIENCE).await.unwrap();
    shop.stage.delete::<Deployment>("acme/cart").await;
    held.release();
    shop.stage.until_gone::<Deployment>("acme/cart").await;
    shop.stage.delete::<Environment>("acme/dev").await;
    shop.stage.until_gone::<Environment>("acme/dev").await;
    assert_nothing_left(&before, &shop.plane.client, PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plane_that_is_lost_in_the_middle_of_the_work_is_told_as_lost_and_as_nothing_else() {
    let (shop, deployment) = white_cart(&[PATIENT]).await;

    let mark = shop.stage.proxy.mark();
    let hung = shop.plane.proxy.fault(Fault::when(applies()).then(Action::Hang));
    shop.configure("cart", colour("black")).await;
    hung.await_hit(PATIENCE).await.unwrap();
    let refused = shop.plane.proxy.fault(Fault::when(Match::new()).then(Action::status(401)));
    shop.says("cart", "Ready", "Unknown", "DataPlaneUnreachable").await;
    let told = shop.stage.proxy.writes_since(mark).resource("deployments/status");
    for write in told.iter() {
        let status = write.body.json().unwrap()["status"].take();
        let conditions = status["conditions"].as_array().unwrap();
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
        // That the change has not arrived is known before why.
        let is_late = ready["message"].as_str().unwrap().starts_with("a change has not arrived yet");
        assert!(ready["reason"] == "DataPlaneUnreachable" || is_late, "{told}");
        assert_ne!(ready["status"], "True", "{told}");
    }

    hung.remove();
    refused.remove();
    until_black(&shop, &deployment).await;
    shop.ready("cart").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plane_whose_namespaces_could_not_be_followed_for_a_while_goes_on_by_itself() {
    let (shop, deployment) = white_cart(&[]).await;

    let follows = Match::new().verb(Verb::List).verb(Verb::Watch).resource("namespaces");
    let refused = shop.plane.proxy.fault(Fault::when(follows).then(Action::status(403)));
    shop.plane.proxy.cut_connections();
    refused.await_hit(PATIENCE).await.unwrap();
    let before = looks(&shop.stage, "deployment").await;
    shop.configure("cart", colour("black")).await;
    until_looked_at(&shop.stage, "deployment", before).await;
    refused.remove();
    until_black(&shop, &deployment).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_its_turn_is_deleted_without_one() {
    let mut shop = Shop::open().await;
    shop.component("till", "Service").await;
    for name in ["cart", "till"] {
        shop.artifact(name, name, IMAGE, json!({"application": colour("white")})).await;
        shop.deploy(name, name, "dev", json!({"deploymentArtifactRef": name})).await;
        shop.ready(name).await;
    }
    shop.stage.operator.kill().unwrap();
    shop.stage.operator.ended().await.unwrap();
    // One turn of each kind, which lasts longer than the test.
    start_operator(&mut shop.stage, &["--plane-concurrency=2", PATIENT]).await;
    shop.stage.operator.ready().await.unwrap();
    until_connected(&shop.stage).await;
    shop.quiet().await;

    let held = shop.plane.proxy.fault(Fault::when(applies().nth(1)).then(Action::HoldBefore));
    shop.configure("cart", colour("black")).await;
    held.await_hit(PATIENCE).await.unwrap();
    shop.configure("till", colour("black")).await;
    shop.until_seen("till").await;
    shop.delete("till").await;
    held.release();
    shop.ready("cart").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_crash_say_why() {
    let shop = Shop::open().await;
    shop.artifact("cart", "cart", IMAGE, json!({})).await;
    shop.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let deployment = shop.ready("cart").await;
    let pods = shop.plane.api("v1/Pod", &namespace(&deployment));
    let pod = pods.list(&ListParams::default()).await.unwrap().items.remove(0).metadata.name.unwrap();
    let waiting =
        json!({"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"});
    let status = json!({
        "conditions": [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "False"}],
        "containerStatuses": [{"name": "main", "image": IMAGE, "imageID": "", "ready": false, "restartCount": 7,
            "state": {"waiting": waiting}}],
    });
    shop.plane.report("v1/Pod", &namespace(&deployment), &pod, status).await;
    let message = shop
        .until("the crash is told", "cart", |found| {
            let (status, _, message) = condition(found, "Ready")?;
            (status == "False" && message.contains("CrashLoopBackOff")).then_some(message)
        })
        .await;
    assert!(message.contains(&pod) && message.contains("main"), "{message}");
    shop.plane.api("v1/Pod", &namespace(&deployment)).delete(&pod, &DeleteParams::default()).await.unwrap();
    shop.ready("cart").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_rivals_runs_and_nothing_is_done_under_paused_parents() {
    let shop = Shop::open().await;
    shop.artifact("cart", "cart", IMAGE, json!({"application": colour("white")})).await;
    shop.deploy("first", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let first = shop.ready("first").await;
    shop.deploy("second", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let message = shop.says("second", "Ready", "False", "DuplicateDeployment").await;
    assert!(message.contains("first") && message.contains("main") && message.contains("dev"), "{message}");
    let uid = shop.live(&first, "Deployment").await["metadata"]["uid"].clone();
    shop.ready("first").await;
    assert_eq!(shop.live(&first, "Deployment").await["metadata"]["uid"], uid);
    shop.delete("first").await;
    let second = shop.ready("second").await;
    let labels = shop.live(&second, "Deployment").await["metadata"]["labels"].clone();
    assert_eq!(labels["deployment-name"], "second");
    assert_eq!(labels["openchoreo.dev/owner-uid"], second.metadata.uid.clone().unwrap());

    let pause = |value: Value| json!({"metadata": {"annotations": {"openchoreo.dev/paused": value}}});
    for (number, parent) in ["Project", "Component", "DeploymentTrack", "Environment", "DeployableArtifact"]
        .into_iter()
        .enumerate()
    {
        let patch = async |value: Value| match parent {
            "Project" => shop.stage.patch::<Project>("acme/shop", pause(value)).await,
            "Component" => shop.stage.patch::<Component>("acme/cart", pause(value)).await,
            "DeploymentTrack" => shop.stage.patch::<DeploymentTrack>("acme/cart-main", pause(value)).await,
            "Environment" => shop.stage.patch::<Environment>("acme/dev", pause(value)).await,
            _ => shop.stage.patch::<DeployableArtifact>("acme/cart", pause(value)).await,
        };
        patch("true".into()).await;
        let message = shop.says("second", "Ready", "False", "ParentPaused").await;
        assert!(message.contains(parent), "{message}");
        shop.quiet().await;
        let mark = shop.plane.proxy.mark();
        let change = shop.configure("cart", colour(&number.to_string()));
        looked_at(&shop.stage, &["deployment"], change).await;
        shop.quiet().await;
        let calls = shop.plane.asked_since(mark);
        assert!(calls.is_empty(), "under a paused {parent}: {calls}");
        patch(Value::Null).await;
        shop.workload("the change arrives", &second, |workload| {
            (colour_of(workload) == &json!(number.to_string())).then_some(())
        })
        .await;
        shop.ready("second").await;
    }

    // An environment that is being deleted waits for what runs there, and nothing new is started.
    shop.stage.delete::<Environment>("acme/dev").await;
    shop.says("second", "Ready", "False", "ParentDeleting").await;
    shop.live(&second, "Deployment").await;
    shop.delete("second").await;
    shop.stage.until_gone::<Environment>("acme/dev").await;
}
