//! What is said of a workload is what was seen of it as it now is.

use kantor_testbed::proxy::{Action, Fault, Match, Verb};
use serde_json::json;

use super::support::{DeploymentFixture, IMAGE, item};
use crate::{observing::looked_at, support::PATIENCE};

const NEXT: &str = "registry.example.com/cart:2";

#[tokio::test(flavor = "multi_thread")]
async fn a_new_image_is_never_called_ready_by_the_health_of_the_old_one() {
    let fixture = DeploymentFixture::open().await;
    fixture.artifact("cart", "cart", IMAGE, json!({})).await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let deployment = fixture.ready("cart").await;
    let workload = item(&deployment, "Deployment").clone();
    fixture.quiet().await;

    // The watch does not tell of the change.
    let watches = Match::new().verb(Verb::Watch).group("apps").resource("deployments");
    let hidden = Action::hide_events_of(&workload.name);
    let blind = fixture.plane.proxy.fault(Fault::when(watches).then(hidden));
    let mark = fixture.control.proxy.mark();
    fixture.edit_artifact("cart", json!({"targetArtifact": {"fromImageRef": {"tag": NEXT}}})).await;
    blind.await_hit(PATIENCE).await.unwrap();
    fixture
        .until("it says that the image is new", "cart", |found| {
            (found.status.as_ref()?.image.as_deref() == Some(NEXT)).then_some(())
        })
        .await;
    let touch = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/touched": "yes"}}});
    let touching = fixture.control.patch::<kantor_api::Deployment>("acme/cart", touch);
    looked_at(&fixture.control, &["deployment"], touching).await;
    let told = fixture.control.proxy.writes_since(mark).resource("deployments/status");
    for write in told.iter() {
        let status = write.body.json().unwrap()["status"].take();
        let ready =
            status["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Ready").unwrap().clone();
        assert!(status["image"] != NEXT || ready["status"] != "True", "{status:#}");
    }
    assert!(!told.is_empty());

    // It sees again: the next event of the workload tells of all.
    blind.remove();
    let event = json!({"metadata": {"annotations": {"example.com/seen": "yes"}}});
    fixture.plane.patch("apps/v1/Deployment", &workload.namespace, &workload.name, event).await;
    fixture
        .until("it is ready with the new image", "cart", |found| {
            let is_new = found.status.as_ref()?.image.as_deref() == Some(NEXT);
            (is_new && crate::support::is_ready(found)).then_some(())
        })
        .await;
}
