//! Clusters that tests use one after another.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kantor_testbed::{
    Cluster,
    snapshot::{Options, Snapshot},
    wait::{Seen, until},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;

use crate::observe::LIMIT;

/// What a test may leave: something that its finalizer keeps, a workload that runs, rights, an object among those of others.
const LEFT: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: web}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kept, namespace: web, finalizers: [example.com/kept]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "example.test/web:1"}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: web, labels: {rbac.authorization.k8s.io/aggregate-to-view: "true"}}
rules: [{apiGroups: [example.com], resources: [webs], verbs: [get]}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web, namespace: default}
"#;
const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: webs.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: webs, singular: web, kind: Web}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
";

async fn running_pods(cluster: &Cluster, count: usize) {
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "web");
    until("the pods run", LIMIT, || async {
        let pods = pods.list(&ListParams::default()).await?.items;
        let run = pods.iter().filter(|pod| {
            pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Running"))
        });
        let run = run.count();
        Ok(if run == count { Seen::Done(()) } else { Seen::NotYet(format!("{run} of {}", pods.len())) })
    })
    .await
    .unwrap();
}

async fn snapshot(cluster: &Cluster) -> Snapshot {
    Snapshot::settled(&cluster.client(), &Options::default(), LIMIT).await.unwrap()
}

#[tokio::test]
async fn whatever_one_test_does_the_next_one_finds_the_cluster_as_it_was() {
    let like = Cluster::builder().controllers(true).scheduler(true).nodes(1);
    let first = like.clone().name("first").share().await.unwrap();
    let (url, before) = (first.url().to_owned(), snapshot(&first).await);
    drop(first);

    for name in ["second", "third"] {
        let cluster = like.clone().name(name).share().await.unwrap();
        assert_eq!((cluster.name(), cluster.url()), (name, url.as_str()));
        let difference = before.diff(&snapshot(&cluster).await);
        assert!(difference.is_empty(), "{name}:\n{difference}");
        cluster.apply_yaml(LEFT).await.unwrap();
        running_pods(&cluster, 3).await;
        let kept: Api<ConfigMap> = Api::namespaced(cluster.client(), "web");
        kept.delete("kept", &DeleteParams::default()).await.unwrap();
        let authentication: Api<ConfigMap> = Api::namespaced(cluster.client(), "kube-system");
        let changed = Patch::Merge(json!({"data": {"changed": "yes"}}));
        let theirs = "extension-apiserver-authentication";
        authentication.patch(theirs, &PatchParams::default(), &changed).await.unwrap();
        let services: Api<Service> = Api::default_namespaced(cluster.client());
        services.delete("kubernetes", &DeleteParams::default()).await.unwrap();
    }
}

#[tokio::test]
async fn a_cluster_that_is_in_use_was_broken_or_serves_something_else_is_not_handed_out() {
    let mut used = vec![];
    let breaks: [fn(&Cluster); 2] = [Cluster::kill_apiserver, |cluster| cluster.pause().unwrap()];
    let like = || Cluster::builder().memory_mib(1000);
    for act in breaks {
        let cluster = like().share().await.unwrap();
        used.push(cluster.url().to_owned());
        act(&cluster);
    }
    let cluster = like().share().await.unwrap();
    assert!(!used.contains(&cluster.url().to_owned()));
    used.push(cluster.url().to_owned());
    cluster.apply_yaml(DEFINITION).await.unwrap();
    drop(cluster);
    let cluster = like().share().await.unwrap();
    assert!(!used.contains(&cluster.url().to_owned()));
    // Nor is one that somebody uses.
    assert_ne!(like().share().await.unwrap().url(), cluster.url());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_put_back_is_named() {
    let cluster = Cluster::builder().memory_mib(1001).share().await.unwrap();
    let client = cluster.client();
    // Somebody who does not stop.
    let writing = tokio::spawn(async move {
        let maps: Api<ConfigMap> = Api::default_namespaced(client);
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "again"}});
        loop {
            let _ = maps.patch("again", &PatchParams::apply("test"), &Patch::Apply(&map)).await;
        }
    });
    let left = tokio::task::spawn_blocking(move || cluster.give_back(Duration::from_secs(3))).await.unwrap();
    writing.abort();
    let left = format!("{:#}", left.unwrap_err());
    assert!(left.contains("/registry/configmaps/default/again"), "{left}");
}
