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

use super::support::{DeploymentFixture, IMAGE, endpoint, item, labelled, namespace};
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

/// A fixture whose Deployment `cart` is white and has nothing to do.
async fn white_cart(arguments: &[&str]) -> (DeploymentFixture, Deployment) {
    let fixture = DeploymentFixture::open_with(arguments).await;
    fixture.artifact("cart", "cart", IMAGE, json!({"application": colour("white")})).await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let deployment = fixture.ready("cart").await;
    fixture.quiet().await;
    (fixture, deployment)
}

async fn until_black(fixture: &DeploymentFixture, deployment: &Deployment) {
    fixture
        .workload("it is black", deployment, |workload| (colour_of(workload) == "black").then_some(()))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_not_known_yet_is_waited_for() {
    let fixture = DeploymentFixture::open().await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let message = fixture.wait_condition("cart", "Ready", "False", "ArtifactNotFound").await;
    assert!(message.contains("cart"), "{message}");
    fixture.wait_condition("cart", "ArtifactResolved", "False", "ArtifactNotFound").await;

    let of_track = [("project", "shop"), ("component", "cart"), ("deployment-track", "main")];
    let target = json!({"targetArtifact": {"fromBuildRef": {"name": "cart-7"}}});
    fixture
        .control
        .create::<DeployableArtifact>(&labelled("DeployableArtifact", "cart", &of_track, target))
        .await;
    let message = fixture.wait_condition("cart", "Ready", "False", "ArtifactBuildNotFound").await;
    assert!(message.contains("cart-7"), "{message}");

    let build = json!({"owner": {"projectName": "shop", "componentName": "cart"},
        "repository": {"url": "https://example.com/cart.git", "revision": {"branch": "main"}, "appPath": "."},
        "templateRef": {"name": "docker"}});
    // As the reference makes them: without the label of the track.
    fixture.control.create::<Build>(&labelled("Build", "cart-7", &of_track[..2], build)).await;
    let message = fixture.wait_condition("cart", "Ready", "False", "ImageNotBuilt").await;
    assert!(message.contains("cart-7"), "{message}");
    assert!(fixture.control.wait_exists::<Deployment>("acme/cart").await.status.unwrap().image.is_none());

    let builds: Api<Build> = Api::namespaced(fixture.control.client.clone(), "acme");
    let image = json!({"status": {"imageStatus": {"image": "registry.example.com:5000/shop-cart:7"}}});
    builds.patch_status("cart-7", &PatchParams::default(), &Patch::Merge(image)).await.unwrap();
    let deployment = fixture.ready("cart").await;
    let workload = fixture.live(&deployment, "Deployment").await;
    let image = &workload["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, "registry.example.com:5000/shop-cart:7");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_plane_is_said_and_what_comes_in_between_is_taken_together() {
    let fixture = DeploymentFixture::open_with(&[PATIENT]).await;
    let before = Snapshot::settled(&fixture.plane.client, &Options::default(), PATIENCE).await.unwrap();
    let configuration = json!({"endpointTemplates": [endpoint("api", 8080)], "application": colour("white")});
    fixture.artifact("cart", "cart", IMAGE, configuration).await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let deployment = fixture.ready("cart").await;

    let reply = StatusReply::new(500).message("the disk is full");
    let fault = fixture.plane.proxy.fault(Fault::when(applies()).then(Action::Status(reply)));
    fixture.configure("cart", colour("black")).await;
    let message = fixture.wait_condition("cart", "Ready", "False", "ApplyFailed").await;
    assert!(message.contains("the disk is full") && message.contains("Deployment"), "{message}");
    fault.remove();
    until_black(&fixture, &deployment).await;
    fixture.ready("cart").await;
    fixture.quiet().await;

    // A hundred edits while one write is under way are one more write, of the last of them.
    let mark = fixture.plane.proxy.mark();
    let held = fixture.plane.proxy.fault(Fault::when(applies().nth(1)).then(Action::HoldBefore));
    fixture.configure("cart", colour("0")).await;
    held.await_hit(PATIENCE).await.unwrap();
    for number in 1..=100 {
        fixture.configure("cart", colour(&number.to_string())).await;
    }
    fixture.until_seen("cart").await;
    held.release();
    fixture
        .workload("the last edit is there", &deployment, |workload| {
            (colour_of(workload) == "100").then_some(())
        })
        .await;
    fixture.ready("cart").await;
    fixture.quiet().await;
    let writes = fixture.plane.proxy.writes_since(mark).verb(Verb::Apply).resource("deployments");
    assert_eq!(writes.len(), 2, "{writes}");
    drop(held);

    // Deleted while a write is under way: what was written in the end goes, too.
    let held = fixture.plane.proxy.fault(Fault::when(applies().nth(1)).then(Action::HoldBefore));
    fixture.configure("cart", colour("last")).await;
    held.await_hit(PATIENCE).await.unwrap();
    fixture.control.delete::<Deployment>("acme/cart").await;
    held.release();
    fixture.control.until_gone::<Deployment>("acme/cart").await;
    let (home, name) = (namespace(&deployment), &item(&deployment, "Deployment").name);
    assert!(fixture.plane.get("apps/v1/Deployment", &home, name).await.is_none());
    // The same for one that is being made: nothing is there that could be looked up.
    let held = fixture.plane.proxy.fault(Fault::when(applies().nth(1)).then(Action::HoldAfter));
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    held.await_hit(PATIENCE).await.unwrap();
    fixture.control.delete::<Deployment>("acme/cart").await;
    held.release();
    fixture.control.until_gone::<Deployment>("acme/cart").await;
    fixture.control.delete::<Environment>("acme/dev").await;
    fixture.control.until_gone::<Environment>("acme/dev").await;
    assert_nothing_left(&before, &fixture.plane.client, PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plane_that_is_lost_in_the_middle_of_the_work_is_told_as_lost_and_as_nothing_else() {
    let (fixture, deployment) = white_cart(&[PATIENT]).await;

    let mark = fixture.control.proxy.mark();
    let hung = fixture.plane.proxy.fault(Fault::when(applies()).then(Action::Hang));
    fixture.configure("cart", colour("black")).await;
    hung.await_hit(PATIENCE).await.unwrap();
    let refused = fixture.plane.proxy.fault(Fault::when(Match::new()).then(Action::status(401)));
    fixture.wait_condition("cart", "Ready", "Unknown", "DataPlaneUnreachable").await;
    let told = fixture.control.proxy.writes_since(mark).resource("deployments/status");
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
    until_black(&fixture, &deployment).await;
    fixture.ready("cart").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plane_whose_namespaces_could_not_be_followed_for_a_while_goes_on_by_itself() {
    let (fixture, deployment) = white_cart(&[]).await;

    let follows = Match::new().verb(Verb::List).verb(Verb::Watch).resource("namespaces");
    let refused = fixture.plane.proxy.fault(Fault::when(follows).then(Action::status(403)));
    fixture.plane.proxy.cut_connections();
    refused.await_hit(PATIENCE).await.unwrap();
    let before = looks(&fixture.control, "deployment").await;
    fixture.configure("cart", colour("black")).await;
    until_looked_at(&fixture.control, "deployment", before).await;
    refused.remove();
    until_black(&fixture, &deployment).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_its_turn_is_deleted_without_one() {
    let mut fixture = DeploymentFixture::open().await;
    fixture.component("till", "Service").await;
    for name in ["cart", "till"] {
        fixture.artifact(name, name, IMAGE, json!({"application": colour("white")})).await;
        fixture.deploy(name, name, "dev", json!({"deploymentArtifactRef": name})).await;
        fixture.ready(name).await;
    }
    fixture.control.operator.kill().unwrap();
    fixture.control.operator.ended().await.unwrap();
    // One turn of each kind, which lasts longer than the test.
    start_operator(&mut fixture.control, &["--plane-concurrency=2", PATIENT]).await;
    fixture.control.operator.ready().await.unwrap();
    until_connected(&fixture.control).await;
    fixture.quiet().await;

    let held = fixture.plane.proxy.fault(Fault::when(applies().nth(1)).then(Action::HoldBefore));
    fixture.configure("cart", colour("black")).await;
    held.await_hit(PATIENCE).await.unwrap();
    fixture.configure("till", colour("black")).await;
    fixture.until_seen("till").await;
    fixture.delete("till").await;
    held.release();
    fixture.ready("cart").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_crash_say_why() {
    let fixture = DeploymentFixture::open().await;
    fixture.artifact("cart", "cart", IMAGE, json!({})).await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let deployment = fixture.ready("cart").await;
    let pods = fixture.plane.api("v1/Pod", &namespace(&deployment));
    let pod = pods.list(&ListParams::default()).await.unwrap().items.remove(0).metadata.name.unwrap();
    let waiting =
        json!({"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"});
    let status = json!({
        "conditions": [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "False"}],
        "containerStatuses": [{"name": "main", "image": IMAGE, "imageID": "", "ready": false, "restartCount": 7,
            "state": {"waiting": waiting}}],
    });
    fixture.plane.report("v1/Pod", &namespace(&deployment), &pod, status).await;
    let message = fixture
        .until("the crash is told", "cart", |found| {
            let (status, _, message) = condition(found, "Ready")?;
            (status == "False" && message.contains("CrashLoopBackOff")).then_some(message)
        })
        .await;
    assert!(message.contains(&pod) && message.contains("main"), "{message}");
    fixture
        .plane
        .api("v1/Pod", &namespace(&deployment))
        .delete(&pod, &DeleteParams::default())
        .await
        .unwrap();
    fixture.ready("cart").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_rivals_runs_and_nothing_is_done_under_paused_parents() {
    let fixture = DeploymentFixture::open().await;
    fixture.artifact("cart", "cart", IMAGE, json!({"application": colour("white")})).await;
    fixture.deploy("first", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let first = fixture.ready("first").await;
    fixture.deploy("second", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let message = fixture.wait_condition("second", "Ready", "False", "DuplicateDeployment").await;
    assert!(message.contains("first") && message.contains("main") && message.contains("dev"), "{message}");
    let uid = fixture.live(&first, "Deployment").await["metadata"]["uid"].clone();
    fixture.ready("first").await;
    assert_eq!(fixture.live(&first, "Deployment").await["metadata"]["uid"], uid);
    fixture.delete("first").await;
    let second = fixture.ready("second").await;
    let labels = fixture.live(&second, "Deployment").await["metadata"]["labels"].clone();
    assert_eq!(labels["deployment-name"], "second");
    assert_eq!(labels["openchoreo.dev/owner-uid"], second.metadata.uid.clone().unwrap());

    let pause = |value: Value| json!({"metadata": {"annotations": {"openchoreo.dev/paused": value}}});
    for (number, parent) in ["Project", "Component", "DeploymentTrack", "Environment", "DeployableArtifact"]
        .into_iter()
        .enumerate()
    {
        let patch = async |value: Value| match parent {
            "Project" => fixture.control.patch::<Project>("acme/shop", pause(value)).await,
            "Component" => fixture.control.patch::<Component>("acme/cart", pause(value)).await,
            "DeploymentTrack" => {
                fixture.control.patch::<DeploymentTrack>("acme/cart-main", pause(value)).await;
            }
            "Environment" => fixture.control.patch::<Environment>("acme/dev", pause(value)).await,
            _ => fixture.control.patch::<DeployableArtifact>("acme/cart", pause(value)).await,
        };
        patch("true".into()).await;
        let message = fixture.wait_condition("second", "Ready", "False", "ParentPaused").await;
        assert!(message.contains(parent), "{message}");
        fixture.quiet().await;
        let mark = fixture.plane.proxy.mark();
        let change = fixture.configure("cart", colour(&number.to_string()));
        looked_at(&fixture.control, &["deployment"], change).await;
        fixture.quiet().await;
        let calls = fixture.plane.asked_since(mark);
        assert!(calls.is_empty(), "under a paused {parent}: {calls}");
        patch(Value::Null).await;
        fixture
            .workload("the change arrives", &second, |workload| {
                (colour_of(workload) == &json!(number.to_string())).then_some(())
            })
            .await;
        fixture.ready("second").await;
    }

    // An environment that is being deleted waits for what runs there, and nothing new is started.
    fixture.control.delete::<Environment>("acme/dev").await;
    fixture.wait_condition("second", "Ready", "False", "ParentDeleting").await;
    fixture.live(&second, "Deployment").await;
    fixture.delete("second").await;
    fixture.control.until_gone::<Environment>("acme/dev").await;
}
