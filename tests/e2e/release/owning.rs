//! Whose an object is: nothing of others is overwritten or deleted.

use kantor_api::{DataPlane, Release};
use kantor_testbed::proxy::{Record, Verb};
use kube::ResourceExt;
use serde_json::json;

use super::support::{Theatre, config_map, entry, home, release};
use crate::{
    acme::plane_ready,
    deployment::support::{IMAGE, Shop, namespace},
    support::condition,
};

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_others_are_left_alone_until_they_may_be_taken_over() {
    let theatre = Theatre::open().await;
    let plane = &theatre.plane;
    theatre.create("first", &[("own", config_map("own", json!({})))]).await;
    theatre.ready("first").await;
    let foreign =
        json!({"metadata": {"name": "theirs", "namespace": home()}, "data": {"by": "them", "x": "y"}});
    plane.create("v1/ConfigMap", &home(), foreign).await;
    let untouched = plane.get("v1/ConfigMap", &home(), "theirs").await.unwrap();

    // Nobody's whom Kantor knows.
    let resources =
        [("own", config_map("own", json!({}))), ("theirs", config_map("theirs", json!({"by": "us"})))];
    theatre.edit("first", &resources).await;
    let message = theatre.says("first", "Applied", "False", "ApplyRefused").await;
    assert!(message.contains("theirs") && message.contains("openchoreo.dev/adopt"), "{message}");
    assert_eq!(plane.get("v1/ConfigMap", &home(), "theirs").await.unwrap(), untouched);
    // Not deleted either, when it is no longer wanted.
    theatre.edit("first", &resources[..1]).await;
    theatre.ready("first").await;
    theatre.quiet().await;
    assert_eq!(plane.get("v1/ConfigMap", &home(), "theirs").await.unwrap(), untouched);

    theatre.edit("first", &resources).await;
    theatre.says("first", "Applied", "False", "ApplyRefused").await;
    theatre.annotate("first", "openchoreo.dev/adopt", "true").await;
    let release = theatre.ready("first").await;
    let taken = plane.get("v1/ConfigMap", &home(), "theirs").await.unwrap();
    assert_eq!(taken["metadata"]["uid"], untouched["metadata"]["uid"]);
    assert_eq!(taken["data"], json!({"by": "us", "x": "y"}));
    assert_eq!(entry(&release, "theirs").uid.as_deref(), taken["metadata"]["uid"].as_str());

    // Another Release's.
    theatre.quiet().await;
    let mark = plane.proxy.mark();
    let taken = plane.get("v1/ConfigMap", &home(), "theirs").await.unwrap();
    theatre.create("second", &[("it", config_map("theirs", json!({"by": "second"})))]).await;
    let message = theatre.says("second", "Applied", "False", "ApplyRefused").await;
    assert!(message.contains("theirs") && message.contains("Release acme/first"), "{message}");
    theatre.delete("second").await;
    theatre.quiet().await;
    assert_eq!(plane.get("v1/ConfigMap", &home(), "theirs").await.unwrap(), taken);
    let deletions = plane.proxy.since(mark).verb(Verb::Delete);
    assert!(deletions.is_empty(), "{deletions}");
    theatre.ready("first").await;
}

/// What the Deployments of a project share, and a Release that wants it as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_and_a_deployment_do_not_take_each_others_objects() {
    let shop = Shop::open().await;
    shop.artifact("cart", "cart", IMAGE, json!({})).await;
    shop.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let deployment = shop.ready("cart").await;
    let namespace = namespace(&deployment);
    let policy = json!({"spec": {"releasePolicy": {"namespaceLabels": ["project-name"],
        "allowedKinds": ["*", "*.cilium.io"]}}});
    shop.stage.patch::<DataPlane>("acme/plane", policy).await;
    plane_ready(&shop.stage, "plane").await;
    let shared = [
        ("v1/Namespace", "", namespace.as_str()),
        ("cilium.io/v2/CiliumNetworkPolicy", &namespace, "default-policy"),
    ];
    let now = async || {
        let mut found = vec![];
        for (kind, namespace, name) in shared {
            found.push(shop.plane.get(kind, namespace, name).await.unwrap());
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
    let mut greedy = release("greedy", &[("namespace", ours), ("policy", open)]);
    greedy.annotations_mut().insert("openchoreo.dev/adopt".to_owned(), "true".to_owned());
    let mark = shop.plane.proxy.mark();
    shop.stage.create(&greedy).await;
    let message = shop
        .stage
        .until("it is refused", "acme/greedy", |found: Option<&Release>| {
            let (_, reason, message) = condition(found?, "Ready")?;
            (reason == "ApplyRefused").then_some(message)
        })
        .await;
    assert!(message.contains("belongs to a Deployment") && message.contains("default-policy"), "{message}");
    shop.quiet().await;
    let writes = shop.plane.proxy.writes_since(mark);
    assert!(writes.len() <= 10, "{writes}");
    let landed = writes.filter(Record::committed);
    assert!(landed.is_empty(), "{landed}");
    assert_eq!(now().await, before);
    shop.stage.delete::<Release>("acme/greedy").await;
    shop.stage.until_gone::<Release>("acme/greedy").await;
    assert_eq!(now().await, before);
    shop.ready("cart").await;
}
