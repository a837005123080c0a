//! What a cluster can do.

use std::time::Instant;

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Pod},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kantor_testbed::{
    Cluster,
    wait::{Seen, until},
};
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
};

use crate::observe::{LIMIT, shared_cluster};

const CONFIG: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: mine}, data: {cluster: one}}";

#[tokio::test]
async fn two_clusters_start_in_parallel_and_are_independent() {
    let (one, two) = tokio::try_join!(Cluster::start(), Cluster::builder().name("two").start()).unwrap();
    one.apply_yaml(CONFIG).await.unwrap();
    let there: Api<ConfigMap> = Api::default_namespaced(two.client());
    assert!(there.get_opt("mine").await.unwrap().is_none());
    assert_ne!(one.ca_pem(), two.ca_pem());
    let token_of_one_at_two = one.kubeconfig().at(two.url(), two.ca_pem()).client().await.unwrap();
    let refused = token_of_one_at_two.apiserver_version().await;
    // Anybody may ask for the version, but a wrong token is nobody.
    let Err(kube::Error::Api(status)) = refused else { panic!("{refused:?}") };
    assert_eq!(status.code, 401);
}

#[tokio::test]
async fn a_deployment_becomes_available_on_nodes_without_machines() {
    let cluster = shared_cluster().await;
    let yaml = r#"
apiVersion: v1
kind: Namespace
metadata: {name: web}
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
"#;
    cluster.apply_yaml(yaml).await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(cluster.client(), "web");
    until("three replicas are available", LIMIT, || async {
        let status = deployments.get_status("web").await?.status.unwrap_or_default();
        Ok(match status.available_replicas {
            Some(3) => Seen::Done(()),
            other => Seen::NotYet(format!("{other:?} available")),
        })
    })
    .await
    .unwrap();
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "web");
    for pod in pods.list(&ListParams::default()).await.unwrap() {
        assert!(pod.spec.unwrap().node_name.unwrap().starts_with("node-"));
    }
}

#[tokio::test]
async fn all_crd_bundles_are_served() {
    let client = shared_cluster().await.client();
    let crds =
        Api::<CustomResourceDefinition>::all(client.clone()).list(&ListParams::default()).await.unwrap();
    let mut names: Vec<_> = crds.iter().map(ResourceExt::name_any).collect();
    names.sort();
    for expected in [
        "httproutes.gateway.networking.k8s.io",
        "securitypolicies.gateway.envoyproxy.io",
        "ciliumnetworkpolicies.cilium.io",
        "secretproviderclasses.secrets-store.csi.x-k8s.io",
        "secretproviderclasspodstatuses.secrets-store.csi.x-k8s.io",
    ] {
        assert!(names.iter().any(|name| name == expected), "no {expected} in {names:?}");
    }
    for crd in crds {
        for version in crd.spec.versions.iter().filter(|version| version.served) {
            let gvk = GroupVersionKind::gvk(&crd.spec.group, &version.name, &crd.spec.names.kind);
            let resource = ApiResource::from_gvk_with_plural(&gvk, &crd.spec.names.plural);
            let objects = Api::<DynamicObject>::all_with(client.clone(), &resource);
            objects.list(&ListParams::default()).await.unwrap();
        }
    }
}

#[tokio::test]
async fn an_object_is_applied_together_with_its_crd_and_namespace() {
    let cluster = shared_cluster().await;
    // In the least helpful order.
    let yaml = "
apiVersion: testbed.test/v1
kind: Lamp
metadata: {name: desk, namespace: lamps}
spec: {watts: 5}
---
apiVersion: v1
kind: Namespace
metadata: {name: lamps}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lamps.testbed.test}
spec:
  group: testbed.test
  names: {kind: Lamp, plural: lamps, singular: lamp}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {watts: {type: integer}}}
";
    let applied = cluster.apply_yaml(yaml).await.unwrap();
    let lamp = applied.iter().find(|object| object.name_any() == "desk").unwrap();
    assert_eq!(lamp.data["spec"]["watts"], 5);
    assert!(lamp.uid().is_some());

    let typo = yaml.replace("spec: {watts: 5}", "spec: {wats: 5}");
    let start = Instant::now();
    let error = cluster.apply_yaml(&typo).await.unwrap_err();
    assert!(format!("{error:#}").contains("wats"), "{error:#}");
    assert!(start.elapsed().as_secs() < 30, "waited for a typo to go away");
}

#[tokio::test]
async fn an_object_for_a_missing_namespace_is_refused_at_once() {
    let yaml = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: nowhere}}";
    let cluster = shared_cluster().await;
    let start = Instant::now();
    let error = cluster.apply_yaml(yaml).await.unwrap_err();
    assert!(format!("{error:#}").contains("nowhere"), "{error:#}");
    assert!(start.elapsed().as_secs() < 30, "waited for a namespace that nobody makes");
}
