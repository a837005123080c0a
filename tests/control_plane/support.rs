//! A real control plane that tests share. They keep apart by the names of their objects.

use std::{fmt::Debug, sync::OnceLock, thread};

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope, api::core::v1::Namespace};
use kantor_testbed::{Cluster, ClusterBuilder};
use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams, PostParams},
    core::Request,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// Owner of the fields that the tests set.
pub const FIELD_MANAGER: &str = "control-plane-test";

/// A cluster together with the runtime that started it: the runtime of a test ends with the test.
struct Shared(Cluster, #[expect(dead_code, reason = "held, because the cluster was made in it")] Runtime);

/// The control plane of the API's tests, started by the first one that asks. Nobody reconciles here: what a test
/// writes stays as it is. Tests that run the operator take a cluster of their own.
pub fn cluster() -> &'static Cluster {
    static SHARED: OnceLock<Result<Shared, String>> = OnceLock::new();
    match SHARED.get_or_init(|| start(Cluster::builder().name("api"))) {
        Ok(shared) => &shared.0,
        Err(error) => panic!("cannot start a control plane: {error}"),
    }
}

/// Starts a control plane with Kantor's CRDs. Nobody drops a static: the testbed's keeper ends the cluster with
/// this process.
fn start(builder: ClusterBuilder) -> Result<Shared, String> {
    let started = thread::spawn(|| {
        let runtime = Runtime::new()?;
        let cluster = runtime.block_on(async {
            let cluster = builder.start().await?;
            let crds: Vec<_> = kantor_api::crds().iter().map(|crd| json!(crd).to_string()).collect();
            cluster.apply_yaml(&crds.join("\n---\n")).await?;
            anyhow::Ok(cluster)
        })?;
        anyhow::Ok(Shared(cluster, runtime))
    });
    // A thread of its own: a runtime cannot be entered from within the test's.
    started.join().expect("no panic").map_err(|error| format!("{error:#}"))
}

/// A client for the calling test: a client must not outlive the runtime that it was made in.
pub async fn client() -> Client {
    cluster().kubeconfig().client().await.expect("a client of the control plane")
}

/// Makes sure that a namespace exists.
pub async fn namespace(client: &Client, name: &str) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let params = PatchParams::apply(FIELD_MANAGER);
    namespaces.patch(name, &params, &Patch::Apply(&object)).await.expect("a namespace");
}

/// The API of a kind in a namespace of the test's own.
pub async fn api_in<K>(name: &str) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let client = client().await;
    namespace(&client, name).await;
    Api::namespaced(client, name)
}

/// The API of a kind without namespaces.
pub async fn cluster_api<K>() -> Api<K>
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope>,
{
    Api::all(client().await)
}

/// The documents of a YAML text.
pub fn documents(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).expect("the YAML can be read")
}

/// The name of an object.
pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().expect("an object has a name")
}

/// Applies an object and its status, refusing unknown fields, and reads it back.
pub async fn apply<K>(api: &Api<K>, object: &Value) -> kube::Result<K>
where
    K: Clone + Debug + Serialize + DeserializeOwned,
{
    let params = PatchParams::apply(FIELD_MANAGER).force().validation_strict();
    let mut without_status = object.clone();
    let status = without_status.as_object_mut().and_then(|fields| fields.remove("status"));
    api.patch(name(object), &params, &Patch::Apply(&without_status)).await?;
    if let Some(status) = status {
        let status = json!({
            "apiVersion": object["apiVersion"], "kind": object["kind"],
            "metadata": {"name": name(object)}, "status": status,
        });
        api.patch_status(name(object), &params, &Patch::Apply(&status)).await?;
    }
    api.get(name(object)).await
}

/// Sends an object as it is, as clients without Kantor's types do: with nulls, empty texts and all.
pub async fn create<K>(api: &Api<K>, object: &Value) -> kube::Result<K>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    create_with(api, object, &PostParams::default()).await
}

/// [`create`] that stores nothing.
pub async fn try_to_create<K>(api: &Api<K>, object: &Value) -> kube::Result<K>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    create_with(api, object, &PostParams { dry_run: true, ..PostParams::default() }).await
}

async fn create_with<K>(api: &Api<K>, object: &Value, params: &PostParams) -> kube::Result<K>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let body = object.to_string().into_bytes();
    let request = Request::new(api.resource_url()).create(params, body).expect("a valid request");
    api.clone().into_client().request(request).await
}

/// Replaces the status of an object, as [`create`] sends objects.
pub async fn replace_status<K>(api: &Api<K>, object: &Value) -> kube::Result<K>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let body = object.to_string().into_bytes();
    let request = Request::new(api.resource_url())
        .replace_subresource("status", name(object), &PostParams::default(), body)
        .expect("a valid request");
    api.clone().into_client().request(request).await
}
