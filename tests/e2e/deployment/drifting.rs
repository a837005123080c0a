//! What somebody else changes or removes on the plane is brought back.

use kantor_api::{ConfigurationGroup, Deployment};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::support::{DeploymentFixture, IMAGE, endpoint, item, namespace};
use crate::acme::object;

/// A kind, the pointer to one of its fields, and what somebody makes of it.
type Drift = (&'static str, &'static str, Value);

fn drifts() -> Vec<(&'static str, Drift)> {
    vec![
        ("cart", ("v1/ConfigMap", "/data/greeting", json!("changed"))),
        ("cart", ("v1/Secret", "/data/password", json!("Z3Vlc3M="))),
        ("cart", ("secrets-store.csi.x-k8s.io/v1/SecretProviderClass", "/spec/provider", json!("azure"))),
        ("cart", ("v1/Service", "/spec/type", json!("NodePort"))),
        ("cart", ("apps/v1/Deployment", "/spec/template/spec/restartPolicy", Value::Null)),
        ("cart", ("apps/v1/Deployment", "/metadata/labels/component-name", json!("other"))),
        ("cart", ("autoscaling/v2/HorizontalPodAutoscaler", "/spec/maxReplicas", json!(50))),
        ("report", ("batch/v1/CronJob", "/spec/schedule", json!("* * * * *"))),
        ("report", ("batch/v1/CronJob", "/spec/suspend", json!(true))),
    ]
}

/// A merge patch that sets the field at `pointer`.
fn patch(pointer: &str, value: &Value) -> Value {
    pointer.rsplit('/').filter(|key| !key.is_empty()).fold(value.clone(), |inner, key| json!({key: inner}))
}

/// Changes a field and waits until it is as it was.
async fn change_and_await(
    fixture: &DeploymentFixture,
    (kind, namespace, name): (&str, &str, &str),
    field: &str,
    to: &Value,
) {
    let was = fixture.plane.get(kind, namespace, name).await.unwrap();
    let (uid, was) = (was["metadata"]["uid"].clone(), was.pointer(field).cloned());
    assert!(was.is_some() && was.as_ref() != Some(to), "{kind} {field}: {was:?}");
    fixture.plane.patch(kind, namespace, name, patch(field, to)).await;
    fixture
        .plane
        .until(&format!("{field} of {kind} is back"), (kind, namespace, name), |found| {
            (found?.pointer(field) == was.as_ref()).then_some(())
        })
        .await;
    assert_eq!(fixture.plane.get(kind, namespace, name).await.unwrap()["metadata"]["uid"], uid);
}

/// Deletes an object and waits until there is another in its place.
async fn delete_and_await(fixture: &DeploymentFixture, (kind, namespace, name): (&str, &str, &str)) {
    let uid = fixture.plane.get(kind, namespace, name).await.unwrap()["metadata"]["uid"].clone();
    fixture.plane.api(kind, namespace).delete(name, &DeleteParams::default()).await.unwrap();
    fixture
        .plane
        .until(&format!("{kind} is made anew"), (kind, namespace, name), |found| {
            (found?["metadata"]["uid"] != uid).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_is_repaired() {
    let fixture = DeploymentFixture::open().await;
    let value = |key: &str, value: Value| {
        let mut value = value;
        value["environment"] = json!("dev");
        json!({"key": key, "values": [value]})
    };
    let configurations = json!([
        value("greeting", json!({"value": "hi"})),
        value("token", json!({"vaultKey": "secret/data/acme/token"}))
    ]);
    let group = object("ConfigurationGroup", "words", json!({"configurations": configurations}));
    fixture.control.create::<ConfigurationGroup>(&group).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"password": "x"}, "metadata": {
        "name": "login", "namespace": "acme", "labels": {"openchoreo.dev/secret-kind": "application"}}});
    fixture
        .control
        .create::<k8s_openapi::api::core::v1::Secret>(&serde_json::from_value(secret).unwrap())
        .await;
    let application = json!({
        "env": [{"key": "PASSWORD", "valueFrom": {"secretRef": {"name": "login", "key": "password"}}}],
        "envFrom": [{"configurationGroupRef": {"name": "words"}}],
        "scaling": {"hpa": {"minReplicas": 1, "maxReplicas": 2}},
    });
    let configuration = json!({"endpointTemplates": [endpoint("api", 8080)], "application": application});
    fixture.artifact("cart", "cart", IMAGE, configuration).await;
    fixture.component("report", "ScheduledTask").await;
    let yearly = json!({"application": {"task": {"schedule": {"cron": "0 0 1 1 *"}}}});
    fixture.artifact("report", "report", IMAGE, yearly).await;
    for name in ["cart", "report"] {
        fixture.deploy(name, name, "dev", json!({"deploymentArtifactRef": name})).await;
    }
    let (cart, report) = (fixture.ready("cart").await, fixture.ready("report").await);
    let home = namespace(&cart);
    let name_of =
        |deployment: &Deployment, kind: &str| item(deployment, kind.rsplit('/').next().unwrap()).name.clone();
    for (whose, (kind, field, to)) in drifts() {
        let name = name_of(if whose == "cart" { &cart } else { &report }, kind);
        let place = (kind, home.as_str(), name.as_str());
        if to.is_null() {
            // A list is patched as a whole.
            let container = json!({"name": "main", "image": "evil:1"});
            let evil = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
            fixture.plane.patch(kind, &home, &name, evil).await;
            fixture
                .plane
                .until("the image is back", place, |found| {
                    let container = &found?["spec"]["template"]["spec"]["containers"][0];
                    (container["image"] == IMAGE && container["env"].as_array()?.len() == 3).then_some(())
                })
                .await;
        } else {
            change_and_await(&fixture, place, field, &to).await;
        }
        delete_and_await(&fixture, place).await;
    }
    let labels = "/metadata/labels/project-name";
    change_and_await(&fixture, ("v1/Namespace", "", &home), labels, &json!("other")).await;
    let policy = ("cilium.io/v2/CiliumNetworkPolicy", home.as_str(), "default-policy");
    change_and_await(&fixture, policy, "/spec/egress", &json!([])).await;
    delete_and_await(&fixture, policy).await;
    for name in ["cart", "report"] {
        fixture.ready(name).await;
    }
}
