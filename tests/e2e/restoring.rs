//! A control plane that is lost, and made anew from a backup of its objects.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kantor_api::{
    Component, DataPlane, DeployableArtifact, Deployment, DeploymentPipeline, DeploymentTrack, Environment,
    Organization, Project,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    deployment::support::DeploymentFixture,
    endpoint::support::{EndpointFixture, HTTP_ROUTE, name, open, template},
    release::support::start_operator,
    support::{OperatorFixture, TestObject},
};

/// What a backup has of a kind: neither what the server adds, nor the status.
async fn saved<K: TestObject>(client: &Client) -> (ApiResource, Vec<DynamicObject>) {
    let resource = ApiResource::erase::<K>(&());
    let all: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut objects = all.list(&ListParams::default()).await.unwrap().items;
    for object in &mut objects {
        let meta = &mut object.metadata;
        (meta.uid, meta.resource_version, meta.creation_timestamp) = (None, None, None);
        (meta.generation, meta.managed_fields) = (None, None);
        object.data["status"] = Value::Null;
    }
    (resource, objects)
}

async fn restore(client: &Client, (resource, objects): (ApiResource, Vec<DynamicObject>)) {
    for object in objects {
        let api: Api<DynamicObject> = match object.namespace() {
            Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        api.create(&PostParams::default(), &object).await.unwrap();
    }
}

fn uids(objects: &[Value]) -> BTreeSet<String> {
    objects.iter().map(|object| object["metadata"]["uid"].to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_restored_takes_over_what_runs_if_it_is_told_to() {
    let fixture = EndpointFixture::open().await;
    fixture.deploy(json!([template("api", "/v1", json!({"public": open(json!([]))}))])).await;
    let endpoint = fixture.ready(&name("api")).await;
    let deployment = fixture.deployment.ready("cart").await;
    let workload = fixture.deployment.live(&deployment, "Deployment").await;
    let routes = fixture.objects(HTTP_ROUTE, &endpoint).await;
    fixture.deployment.control.operator.kill().unwrap();
    fixture.deployment.control.operator.ended().await.unwrap();

    let EndpointFixture { fake_gateway, deployment: DeploymentFixture { control: lost, plane } } = fixture;
    let mut control = OperatorFixture::start().await;
    control.operator.kill().unwrap();
    control.operator.ended().await.unwrap();
    let (from, to) = (lost.client.clone(), control.client.clone());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "acme"}});
    control.create::<Namespace>(&serde_json::from_value(namespace).unwrap()).await;
    let (resource, mut secrets) = saved::<Secret>(&from).await;
    secrets.retain(|secret| secret.namespace().as_deref() == Some("acme"));
    restore(&to, (resource, secrets)).await;
    restore(&to, saved::<Organization>(&from).await).await;
    restore(&to, saved::<DataPlane>(&from).await).await;
    restore(&to, saved::<DeploymentPipeline>(&from).await).await;
    restore(&to, saved::<Environment>(&from).await).await;
    restore(&to, saved::<Project>(&from).await).await;
    restore(&to, saved::<Component>(&from).await).await;
    restore(&to, saved::<DeploymentTrack>(&from).await).await;
    restore(&to, saved::<DeployableArtifact>(&from).await).await;
    let (resource, mut deployments) = saved::<Deployment>(&from).await;
    for deployment in &mut deployments {
        deployment.annotations_mut().insert("openchoreo.dev/adopt".to_owned(), "true".to_owned());
    }
    restore(&to, (resource, deployments)).await;
    drop(lost);
    start_operator(&mut control, &[]).await;

    let fixture = EndpointFixture { fake_gateway, deployment: DeploymentFixture { control, plane } };
    let again = fixture.ready(&name("api")).await;
    let deployment = fixture.deployment.ready("cart").await;
    assert_ne!(again.uid(), endpoint.uid());
    let now = fixture.deployment.live(&deployment, "Deployment").await;
    assert_eq!(now["spec"], workload["spec"], "its pods stay");
    assert_eq!(uids(&[now]), uids(&[workload]));
    assert_eq!(uids(&fixture.objects(HTTP_ROUTE, &again).await), uids(&routes));
    assert_eq!(fixture.claims().await.len(), 1);
    // Nobody has to be told twice.
    let done = json!({"metadata": {"annotations": {"openchoreo.dev/adopt": null}}});
    fixture.deployment.control.patch::<Deployment>("acme/cart", done).await;
    fixture.ready(&name("api")).await;
    fixture.deployment.ready("cart").await;
}
