//! Workloads that were there before Kantor, as the reference made them.

use kantor_api::Deployment;
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams};
use serde_json::{Value, json};

use super::support::{DeploymentFixture, IMAGE, endpoint, item, namespace};
use crate::release::support::resource;

/// Writes an object as the reference does: whole, and in its own name.
async fn write(
    fixture: &DeploymentFixture,
    kind: &str,
    namespace: &str,
    name: &str,
    labels: &Value,
    spec: &Value,
) -> Value {
    let resource = resource(kind);
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": resource.api_version, "kind": resource.kind,
        "metadata": {"name": name, "labels": labels}, "spec": spec,
    }))
    .unwrap();
    let params = PostParams { field_manager: Some("manager".into()), ..PostParams::default() };
    let made = fixture.plane.api(kind, namespace).create(&params, &object).await.unwrap();
    serde_json::to_value(made).unwrap()
}

/// What the reference had for what Kantor has: the same names and labels, without Kantor's own marks.
fn former(live: &Value) -> (String, Value, Value) {
    let mut labels = live["metadata"]["labels"].clone();
    labels.as_object_mut().unwrap().remove("openchoreo.dev/owner-uid");
    let mut spec = live["spec"].clone();
    for given in ["clusterIP", "clusterIPs"] {
        spec.as_object_mut().unwrap().remove(given);
    }
    (live["metadata"]["name"].as_str().unwrap().to_owned(), labels, spec)
}

fn env(workload: &Value) -> Vec<&str> {
    let env = workload["spec"]["template"]["spec"]["containers"][0]["env"].as_array();
    env.into_iter().flatten().filter_map(|variable| variable["name"].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn workloads_of_the_reference_are_taken_over_and_go_on_running() {
    let fixture = DeploymentFixture::open().await;
    fixture.component("site", "WebApplication").await;
    let variables = json!([{"key": "COLOUR", "value": "blue"}, {"key": "SHAPE", "value": "round"}]);
    let mut found: Vec<(&str, Deployment, Value, Value)> = vec![];
    for name in ["cart", "site"] {
        let configuration =
            json!({"endpointTemplates": [endpoint("api", 8080)], "application": {"env": variables}});
        fixture.artifact(name, name, IMAGE, configuration).await;
        fixture.deploy(name, name, "dev", json!({"deploymentArtifactRef": name})).await;
        let deployment = fixture.ready(name).await;
        let workload = fixture.live(&deployment, "Deployment").await;
        let service = fixture.live(&deployment, "Service").await;
        found.push((name, deployment, workload, service));
    }
    let home = namespace(&found[0].1);
    let labels = fixture.plane.get("v1/Namespace", "", &home).await.unwrap()["metadata"]["labels"].clone();
    for name in ["cart", "site"] {
        fixture.delete(name).await;
    }
    fixture.plane.api("v1/Namespace", "").delete(&home, &DeleteParams::default()).await.unwrap();
    fixture.plane.gone("v1/Namespace", "", &home).await;
    fixture.quiet().await;

    // From here on the plane is as the reference left it.
    let mut labels = labels;
    labels.as_object_mut().unwrap().retain(|key, _| !key.contains('/'));
    assert_eq!(labels.as_object().unwrap().len(), 5, "{labels}");
    let former_namespace = write(&fixture, "v1/Namespace", "", &home, &labels, &json!({})).await;
    let mut made = vec![];
    for (name, _, workload, service) in &found {
        let (workload_name, labels, mut spec) = former(workload);
        assert_eq!(labels.as_object().unwrap().len(), 9, "{labels}");
        if *name == "site" {
            let variables = &mut spec["template"]["spec"]["containers"][0]["env"];
            variables.as_array_mut().unwrap().push(json!({"name": "EXTRA", "value": "by hand"}));
        }
        let workload = write(&fixture, "apps/v1/Deployment", &home, &workload_name, &labels, &spec).await;
        let (service_name, labels, spec) = former(service);
        let service = write(&fixture, "v1/Service", &home, &service_name, &labels, &spec).await;
        made.push((workload, service));
    }

    for (n, name) in ["cart", "site"].into_iter().enumerate() {
        fixture.deploy(name, name, "dev", json!({"deploymentArtifactRef": name})).await;
        let deployment = fixture.ready(name).await;
        assert_eq!(item(&deployment, "Deployment").name, item(&found[n].1, "Deployment").name);
        let workload = fixture.live(&deployment, "Deployment").await;
        let service = fixture.live(&deployment, "Service").await;
        assert_eq!(service["metadata"]["uid"], made[n].1["metadata"]["uid"]);
        assert_eq!(workload["metadata"]["uid"], made[n].0["metadata"]["uid"]);
        assert_eq!(service["metadata"]["labels"]["openchoreo.dev/owner-uid"], json!(deployment.metadata.uid));
        if name == "cart" {
            // Not the generation: Kubernetes counts annotations of a Deployment, too.
            assert_eq!(workload["spec"], made[n].0["spec"], "the pods were restarted for nothing");
            let sets = fixture.plane.api("apps/v1/ReplicaSet", &home);
            let sets = sets.list(&ListParams::default().labels("component-name=cart")).await.unwrap().items;
            assert_eq!(sets.len(), 1, "{sets:#?}");
        } else {
            assert_eq!(env(&workload), ["COLOUR", "SHAPE"], "what nobody asks for goes");
            let mut rest = made[n].0["spec"]["template"].clone();
            let variables = &mut rest["spec"]["containers"][0]["env"];
            variables.as_array_mut().unwrap().retain(|variable| variable["name"] != "EXTRA");
            assert_eq!(workload["spec"]["template"], rest, "only where it differs");
        }
        // What is dropped later goes as well, whoever wrote it first.
        fixture.configure(name, json!({"env": [{"key": "COLOUR", "value": "blue"}]})).await;
        fixture
            .workload("a variable is dropped", &deployment, |workload| {
                (env(workload) == ["COLOUR"]).then_some(())
            })
            .await;
    }
    let namespace = fixture.plane.get("v1/Namespace", "", &home).await.unwrap();
    assert_eq!(namespace["metadata"]["uid"], former_namespace["metadata"]["uid"]);
    for name in ["cart", "site"] {
        fixture.ready(name).await;
        fixture.delete(name).await;
    }
    for (workload, service) in &made {
        for (kind, object) in [("apps/v1/Deployment", workload), ("v1/Service", service)] {
            let left = fixture.plane.get(kind, &home, object["metadata"]["name"].as_str().unwrap()).await;
            assert!(left.is_none(), "{left:#?}");
        }
    }
}
