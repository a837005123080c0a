//! Whose an object is: nothing of others is overwritten or deleted.

use kantor_api::{DataPlane, Release};
use kantor_testbed::proxy::{Record, Verb};
use kube::ResourceExt;
use serde_json::json;

use super::support::{ReleaseFixture, config_map, entry, home, release};
use crate::{
    acme::plane_ready,
    deployment::support::{DeploymentFixture, IMAGE, namespace},
    support::condition,
};

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_others_are_left_alone_until_they_may_be_taken_over() {
    let fixture = ReleaseFixture::open().await;
    let plane = &fixture.plane;
    fixture.create("first", &[("own", config_map("own", json!({})))]).await;
    fixture.ready("first").await;
    let foreign =
        json!({"metadata": {"name": "theirs", "namespace": home()}, "data": {"by": "them", "x": "y"}});
    plane.create("v1/ConfigMap", &home(), foreign).await;
    let untouched = plane.get("v1/ConfigMap", &home(), "theirs").await.unwrap();

    // Nobody's whom Kantor knows.
    let resources =
        [("own", config_map("own", json!({}))), ("theirs", config_map("theirs", json!({"by": "us"})))];
    fixture.edit("first", &resources).await;
    let message = fixture.wait_condition("first", "Applied", "False", "ApplyRefused").await;
    assert!(message.contains("theirs") && message.contains("openchoreo.dev/adopt"), "{message}");
    assert_eq!(plane.get("v1/ConfigMap", &home(), "theirs").await.unwrap(), untouched);
    // Not deleted either, when it is no longer wanted.
    fixture.edit("first", &resources[..1]).await;
    fixture.ready("first").await;
    fixture.quiet().await;
    assert_eq!(plane.get("v1/ConfigMap", &home(), "theirs").await.unwrap(), untouched);

    fixture.edit("first", &resources).await;
    fixture.wait_condition("first", "Applied", "False", "ApplyRefused").await;
    fixture.annotate("first", "openchoreo.dev/adopt", "true").await;
    let release = fixture.ready("first").await;
    let taken = plane.get("v1/ConfigMap", &home(), "theirs").await.unwrap();
    assert_eq!(taken["metadata"]["uid"], untouched["metadata"]["uid"]);
    assert_eq!(taken["data"], json!({"by": "us", "x": "y"}));
    assert_eq!(entry(&release, "theirs").uid.as_deref(), taken["metadata"]["uid"].as_str());

    // Another Release's.
    fixture.quiet().await;
    let mark = plane.proxy.mark();
    let taken = plane.get("v1/ConfigMap", &home(), "theirs").await.unwrap();
    fixture.create("second", &[("it", config_map("theirs", json!({"by": "second"})))]).await;
    let message = fixture.wait_condition("second", "Applied", "False", "ApplyRefused").await;
    assert!(message.contains("theirs") && message.contains("Release acme/first"), "{message}");
    fixture.delete("second").await;
    fixture.quiet().await;
    assert_eq!(plane.get("v1/ConfigMap", &home(), "theirs").await.unwrap(), taken);
    let deletions = plane.proxy.since(mark).verb(Verb::Delete);
    assert!(deletions.is_empty(), "{deletions}");
    fixture.ready("first").await;
}

/// What the Deployments of a project share, and a Release that wants it as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_and_a_deployment_do_not_take_each_others_objects() {
    let fixture = DeploymentFixture::open().await;
    fixture.artifact("cart", "cart", IMAGE, json!({})).await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let deployment = fixture.ready("cart").await;
    let namespace = namespace(&deployment);
    let policy = json!({"spec": {"releasePolicy": {"namespaceLabels": ["project-name"],
        "allowedKinds": ["*", "*.cilium.io"]}}});
    fixture.control.patch::<DataPlane>("acme/plane", policy).await;
    plane_ready(&fixture.control, "plane").await;
    let shared = [
        ("v1/Namespace", "", namespace.as_str()),
        ("cilium.io/v2/CiliumNetworkPolicy", &namespace, "default-policy"),
    ];
    let now = async || {
        let mut found = vec![];
        for (kind, namespace, name) in shared {
            found.push(fixture.plane.get(kind, namespace, name).await.unwrap());
        }
        found
    };
    let before = now().await;
    let level = &before[0]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"];
    assert_eq!(level, "baseline");

    let ours = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": namespace, "labels": {"project-name": "x"}}});
    let open = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNetworkPolicy",
        "metadata": {"name": "default-policy", "namespace": namespace},
        "spec": {"endpointSelector": {}, "egress": [{"toEntities": ["all"]}]}});
    // The objects in a Namespace wait for it where a Release brings it; alone, they are refused by themselves.
    let mark = fixture.plane.proxy.mark();
    for (name, objects, refused) in [
        ("greedy", vec![("namespace", ours), ("policy", open.clone())], "Namespace dp-acme-shop-dev"),
        ("open", vec![("policy", open)], "default-policy"),
    ] {
        let mut greedy = release(name, &objects);
        greedy.annotations_mut().insert("openchoreo.dev/adopt".to_owned(), "true".to_owned());
        fixture.control.create(&greedy).await;
        let message = fixture
            .control
            .until("it is refused", &format!("acme/{name}"), |found: Option<&Release>| {
                let (_, reason, message) = condition(found?, "Ready")?;
                (reason == "ApplyRefused").then_some(message)
            })
            .await;
        assert!(message.contains("belongs to a Deployment") && message.contains(refused), "{message}");
    }
    fixture.quiet().await;
    let writes = fixture.plane.proxy.writes_since(mark);
    assert!(writes.len() <= 10, "{writes}");
    let landed = writes.filter(Record::committed);
    assert!(landed.is_empty(), "{landed}");
    assert_eq!(now().await, before);
    for name in ["acme/greedy", "acme/open"] {
        fixture.control.delete::<Release>(name).await;
        fixture.control.until_gone::<Release>(name).await;
    }
    assert_eq!(now().await, before);
    fixture.ready("cart").await;
}
