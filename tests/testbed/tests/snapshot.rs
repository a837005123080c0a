//! Snapshots of a real cluster: what they see and what they overlook.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, which may fail by panic")]

use std::{sync::LazyLock, time::Duration};

use futures::FutureExt;
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        coordination::v1::Lease,
        core::v1::{ConfigMap, Event, Namespace, Secret, Service},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kantor_testbed::{
    Cluster,
    proxy::{Proxy, Record},
    snapshot::{Options, Snapshot, assert_nothing_left, nothing_left},
};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
    runtime::{conditions::is_crd_established, wait::await_condition},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::{runtime::Runtime, sync::Mutex};

const SOON: Duration = Duration::from_secs(20);

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
/// One cluster, and one test at a time: a snapshot is of everything.
static CLUSTER: Mutex<Option<Cluster>> = Mutex::const_new(None);

#[test]
fn an_added_a_changed_and_a_removed_object_are_named() {
    run(async |cluster| {
        let client = cluster.client();
        let configs: Api<ConfigMap> = Api::default_namespaced(client.clone());
        for name in ["changed", "removed", "same"] {
            create(&configs, json!({"metadata": {"name": name}, "data": {"a": "1"}})).await;
        }
        let before = take(&client).await;
        create(&configs, json!({"metadata": {"name": "added"}})).await;
        merge(&configs, "changed", json!({"data": {"a": "2"}})).await;
        delete(&configs, "removed").await;
        let diff = before.diff(&take(&client).await);
        let expected = concat!(
            "  + ConfigMap default/added\n",
            "  - ConfigMap default/removed\n",
            "  ~ ConfigMap default/changed\n",
            "      data.a: \"1\" → \"2\"\n",
        );
        assert_eq!(diff.to_string(), expected);
        assert_eq!(before.get("", "ConfigMap", "default", "same").unwrap()["data"]["a"], "1");
        for name in ["changed", "added", "same"] {
            delete(&configs, name).await;
        }
    });
}

#[test]
fn a_custom_object_that_only_an_older_version_serves_is_seen() {
    run(async |cluster| {
        let client = cluster.client();
        let before = take(&client).await;
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        // The group's preferred version is v1, which serves no Gadget.
        for (kind, version) in [("Widget", "v1"), ("Gadget", "v1alpha1")] {
            let plural = format!("{}s", kind.to_lowercase());
            let name = format!("{plural}.snapshot.test");
            let schema =
                json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
            let versions = json!([{"name": version, "served": true, "storage": true, "schema": schema}]);
            let names = json!({"kind": kind, "plural": plural});
            let spec = json!({"group": "snapshot.test", "names": names, "scope": "Namespaced", "versions": versions});
            create(&crds, json!({"metadata": {"name": name}, "spec": spec})).await;
            await_condition(crds.clone(), &name, is_crd_established()).await.unwrap();
        }
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("snapshot.test", "v1alpha1", "Gadget"));
        let gadgets: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &kind);
        let gadget =
            json!({"apiVersion": "snapshot.test/v1alpha1", "kind": "Gadget", "metadata": {"name": "left"}});
        // A kind that was just established may still answer 404.
        let create = async || gadgets.create(&PostParams::default(), &from(gadget.clone())).await.is_ok();
        eventually("the kind is served", create).await;
        let sees_it = async || match Snapshot::take(&client, &Options::default()).await {
            Ok(after) => before.diff(&after).to_string().contains("  + Gadget.snapshot.test default/left\n"),
            Err(_) => false,
        };
        eventually("the snapshot sees the leftover", sees_it).await;
        let left = nothing_left(&before, &client, Duration::from_secs(2)).await.unwrap_err().to_string();
        assert!(
            left.contains("+ CustomResourceDefinition.apiextensions.k8s.io widgets.snapshot.test"),
            "{left}"
        );
        assert!(!left.contains("APIService"), "{left}");
        delete(&crds, "widgets.snapshot.test").await;
        delete(&crds, "gadgets.snapshot.test").await;
        assert_nothing_left(&before, &client, SOON).await;
    });
}

#[test]
fn what_a_cluster_writes_by_itself_is_no_difference() {
    run(async |cluster| {
        let client = cluster.client();
        let configs: Api<ConfigMap> = Api::default_namespaced(client.clone());
        create(&configs, json!({"metadata": {"name": "rewritten"}, "data": {"a": "1"}})).await;
        let before = take(&client).await;
        merge(&configs, "rewritten", json!({"data": {"a": "2"}})).await;
        merge(&configs, "rewritten", json!({"data": {"a": "1"}})).await;
        let leases: Api<Lease> = Api::default_namespaced(client.clone());
        create(&leases, json!({"metadata": {"name": "noise"}})).await;
        create(&configs, json!({"metadata": {"name": "kube-root-ca.crt"}})).await;
        let events: Api<Event> = Api::default_namespaced(client.clone());
        let about = json!({"kind": "ConfigMap", "namespace": "default", "name": "rewritten"});
        create(&events, json!({"metadata": {"name": "noise"}, "involvedObject": about})).await;
        let after = take(&client).await;
        assert!(before.diff(&after).is_empty(), "{}", before.diff(&after));
        delete(&configs, "rewritten").await;
        create(&configs, json!({"metadata": {"name": "rewritten"}, "data": {"a": "1"}})).await;
        let diff = before.diff(&take(&client).await).to_string();
        assert!(diff.contains("~ ConfigMap default/rewritten\n      metadata.uid: "), "{diff}");
        delete(&configs, "rewritten").await;
        delete(&configs, "kube-root-ca.crt").await;
        delete(&leases, "noise").await;
    });
}

#[test]
fn values_of_secrets_are_not_shown() {
    run(async |cluster| {
        let client = cluster.client();
        let secrets: Api<Secret> = Api::default_namespaced(client.clone());
        create(&secrets, json!({"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}})).await;
        let before = take(&client).await;
        merge(&secrets, "s", json!({"stringData": {"password": "hunter3", "more": "hunter4"}})).await;
        let after = take(&client).await;
        let diff = before.diff(&after);
        let expected = "  ~ Secret default/s\n      data.more: added\n      data.password: changed\n";
        assert_eq!(diff.to_string(), expected);
        // Base64 of "hunter".
        assert!(!format!("{diff:?} {before:?} {after:?}").contains("aHVudGVy"));
        delete(&secrets, "s").await;
    });
}

#[test]
fn nothing_left_waits_for_what_is_going_and_names_what_stays() {
    run(async |cluster| {
        let client = cluster.client();
        let before = take(&client).await;
        let configs: Api<ConfigMap> = Api::default_namespaced(client.clone());
        let namespaces: Api<Namespace> = Api::all(client.clone());
        create(&configs, json!({"metadata": {"name": "going", "finalizers": ["snapshot.test/wait"]}})).await;
        configs.delete("going", &DeleteParams::default()).await.unwrap();
        let short = Duration::from_secs(2);
        let failure =
            std::panic::AssertUnwindSafe(assert_nothing_left(&before, &client, short)).catch_unwind().await;
        let text = failure.unwrap_err().downcast_ref::<String>().unwrap().clone();
        assert!(text.contains("  + ConfigMap default/going\n"), "{text}");
        let proxy = Proxy::start(cluster).unwrap();
        let watched = cluster.kubeconfig().at(proxy.url(), proxy.ca_pem()).client().await.unwrap();
        let ((), ()) = tokio::join!(assert_nothing_left(&before, &watched, SOON), async {
            let looked_again = |_: &Record| proxy.requests().resource("configmaps").len() > 1;
            proxy.await_request(looked_again, SOON).await.unwrap();
            merge(&configs, "going", json!({"metadata": {"finalizers": null}})).await;
        });
        create(&namespaces, json!({"metadata": {"name": "ignored"}})).await;
        let options = Options::default().ignore_namespace("ignored");
        let other = Snapshot::take(&client, &options).await.unwrap();
        assert!(before.diff(&other).is_empty(), "{}", before.diff(&other));
    });
}

#[test]
fn a_cluster_at_work_is_as_before_once_its_work_is_deleted() {
    RUNTIME.block_on(async {
        let cluster = Cluster::builder().controllers(true).scheduler(true).nodes(1).start().await.unwrap();
        let client = cluster.client();
        let options = Options::default();
        let before = Snapshot::settled(&client, &options, SOON * 2).await.unwrap();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        create(&namespaces, json!({"metadata": {"name": "work"}})).await;
        let labels = json!({"app": "web"});
        let containers = json!([{"name": "c", "image": "i"}]);
        let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
        let spec = json!({"replicas": 2, "selector": {"matchLabels": labels}, "template": template});
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), "work");
        create(&deployments, json!({"metadata": {"name": "web"}, "spec": spec})).await;
        let services: Api<Service> = Api::namespaced(client.clone(), "work");
        let spec = json!({"selector": labels, "ports": [{"port": 80}]});
        create(&services, json!({"metadata": {"name": "web"}, "spec": spec})).await;
        let ready = async || {
            let status = deployments.get("web").await.unwrap().status;
            status.and_then(|status| status.ready_replicas) == Some(2)
        };
        eventually("the pods are ready", ready).await;
        let diff = before.diff(&Snapshot::take(&client, &options).await.unwrap());
        let added: Vec<&str> = diff.added.iter().map(|key| key.kind.as_str()).collect();
        for kind in ["Namespace", "Deployment", "ReplicaSet", "Pod", "Service", "EndpointSlice"] {
            assert!(added.contains(&kind), "{kind} not seen:\n{diff}");
        }
        assert!(!added.contains(&"ServiceAccount") && !added.contains(&"ConfigMap"), "{diff}");
        assert!(diff.removed.is_empty() && diff.changed.is_empty(), "{diff}");
        delete(&namespaces, "work").await;
        assert_nothing_left(&before, &client, SOON * 2).await;
    });
}

/// Runs a test with the cluster to itself.
fn run(test: impl AsyncFnOnce(&Cluster)) {
    RUNTIME.block_on(async {
        let mut cluster = CLUSTER.lock().await;
        if cluster.is_none() {
            let started = Cluster::start().await.unwrap();
            Snapshot::settled(&started.client(), &Options::default(), SOON).await.unwrap();
            *cluster = Some(started);
        }
        let cluster = cluster.as_ref().unwrap();
        tokio::time::timeout(SOON * 3, test(cluster)).await.expect("the test hangs");
    });
}

async fn take(client: &Client) -> Snapshot {
    Snapshot::take(client, &Options::default()).await.unwrap()
}

async fn create<K>(api: &Api<K>, object: Value)
where
    K: Clone + std::fmt::Debug + serde::Serialize + DeserializeOwned,
{
    api.create(&PostParams::default(), &from(object)).await.unwrap();
}

async fn merge<K>(api: &Api<K>, name: &str, patch: Value)
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn delete<K>(api: &Api<K>, name: &str)
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    api.delete(name, &DeleteParams::default()).await.unwrap();
}

fn from<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

async fn eventually(what: &str, mut look: impl AsyncFnMut() -> bool) {
    let start = std::time::Instant::now();
    while !look().await {
        assert!(start.elapsed() < SOON, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
