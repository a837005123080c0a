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
    deployment::support::Shop,
    endpoint::support::{HTTP_ROUTE, Mall, name, open, template},
    release::support::start_operator,
    support::{Stage, TestObject},
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
    let mall = Mall::open().await;
    mall.deploy(json!([template("api", "/v1", json!({"public": open(json!([]))}))])).await;
    let endpoint = mall.ready(&name("api")).await;
    let deployment = mall.shop.ready("cart").await;
    let workload = mall.shop.live(&deployment, "Deployment").await;
    let routes = mall.objects(HTTP_ROUTE, &endpoint).await;
    mall.shop.stage.operator.kill().unwrap();
    mall.shop.stage.operator.ended().await.unwrap();

    let Mall { stand_in, shop: Shop { stage: lost, plane } } = mall;
    let mut stage = Stage::start().await;
    stage.operator.kill().unwrap();
    stage.operator.ended().await.unwrap();
    let (from, to) = (lost.client.clone(), stage.client.clone());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "acme"}});
    stage.create::<Namespace>(&serde_json::from_value(namespace).unwrap()).await;
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
    start_operator(&mut stage, &[]).await;

    let mall = Mall { stand_in, shop: Shop { stage, plane } };
    let again = mall.ready(&name("api")).await;
    let deployment = mall.shop.ready("cart").await;
    assert_ne!(again.uid(), endpoint.uid());
    let now = mall.shop.live(&deployment, "Deployment").await;
    assert_eq!(now["spec"], workload["spec"], "its pods stay");
    assert_eq!(uids(&[now]), uids(&[workload]));
    assert_eq!(uids(&mall.objects(HTTP_ROUTE, &again).await), uids(&routes));
    assert_eq!(mall.claims().await.len(), 1);
    // Nobody has to be told twice.
    let done = json!({"metadata": {"annotations": {"openchoreo.dev/adopt": null}}});
    mall.shop.stage.patch::<Deployment>("acme/cart", done).await;
    mall.ready(&name("api")).await;
    mall.shop.ready("cart").await;
}
