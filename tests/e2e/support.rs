//! A control plane with the custom resources, and the operator behind a proxy that sees each of its requests.

use std::{fmt::Debug, path::Path, time::Duration};

use kantor_testbed::{
    Cluster, KubeconfigSpec, Operator, SharedCluster,
    proxy::Proxy,
    wait::{self, Seen},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};

/// How long anything may take. It only passes when something is broken.
pub const PATIENCE: Duration = Duration::from_mins(4);

/// The operator on its control plane.
pub struct OperatorFixture {
    // The operator ends before what it talks to.
    pub operator: Operator,
    pub proxy: Proxy,
    pub control_plane: SharedCluster,
    pub client: Client,
}

impl OperatorFixture {
    /// A control plane with the custom resources and an operator that is ready.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// As [`OperatorFixture::start`], with further arguments of the operator.
    pub async fn start_with(arguments: &[&str]) -> Self {
        let control_plane = control_plane().await;
        let control = Self::on_with(control_plane, arguments).await;
        control.operator.ready().await.unwrap();
        control
    }

    /// An operator on a control plane as it is.
    pub async fn on(control_plane: SharedCluster) -> Self {
        Self::on_with(control_plane, &[]).await
    }

    async fn on_with(control_plane: SharedCluster, arguments: &[&str]) -> Self {
        let client = control_plane.client();
        let proxy = Proxy::start(&control_plane).unwrap();
        let operator = operator_with(&control_plane, &proxy, arguments).await;
        Self { operator, proxy, control_plane, client }
    }

    /// Kills the operator and starts another one.
    pub async fn restart_operator(&mut self) {
        self.operator.kill().unwrap();
        self.operator.ended().await.unwrap();
        self.operator = operator_with(&self.control_plane, &self.proxy, &[]).await;
        self.operator.ready().await.unwrap();
    }

    pub async fn create<K: TestObject>(&self, object: &K) -> K {
        let mut value = serde_json::to_value(object).unwrap();
        value["apiVersion"] = K::api_version(&()).into();
        value["kind"] = K::kind(&()).into();
        let path = object.namespace().map(|ns| format!("{ns}/")).unwrap_or_default() + &object.name_any();
        let created = self.api::<K>(&path).0.create(&PostParams::default(), &typed(value)).await.unwrap();
        typed(serde_json::to_value(created).unwrap())
    }

    /// Changes an object by a merge patch.
    pub async fn patch<K: TestObject>(&self, path: &str, patch: serde_json::Value) {
        let (api, name) = self.api::<K>(path);
        api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub async fn delete<K: TestObject>(&self, path: &str) {
        let (api, name) = self.api::<K>(path);
        api.delete(&name, &DeleteParams::default()).await.unwrap();
    }

    /// The API of `namespace/name`, or of `name` for kinds without a namespace, and the name.
    fn api<K: TestObject>(&self, path: &str) -> (Api<DynamicObject>, String) {
        let resource = ApiResource::erase::<K>(&());
        match path.split_once('/') {
            Some((namespace, name)) => {
                (Api::namespaced_with(self.client.clone(), namespace, &resource), name.to_owned())
            }
            None => (Api::all_with(self.client.clone(), &resource), path.to_owned()),
        }
    }

    /// Waits until `seen` holds for the object at `name` or `namespace/name`, or for its absence.
    pub async fn until<K: TestObject, T>(
        &self,
        what: &str,
        name: &str,
        seen: impl Fn(Option<&K>) -> Option<T>,
    ) -> T {
        let (api, name) = self.api::<K>(name);
        wait::until(what, PATIENCE, || async {
            let object = api.get_opt(&name).await?;
            let object: Option<K> = object.map(|object| typed(serde_json::to_value(object).unwrap()));
            Ok(seen(object.as_ref()).map_or_else(|| Seen::NotYet(format!("{object:#?}")), Seen::Done))
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", self.operator.log()))
    }

    /// The object, once it is there.
    pub async fn wait_exists<K: TestObject>(&self, name: &str) -> K {
        self.until(&format!("{name} is there"), name, |object: Option<&K>| object.cloned()).await
    }

    /// Waits until the object is ready as it now is.
    pub async fn until_ready<K: TestObject>(&self, name: &str) -> K {
        let ready = |object: Option<&K>| object.filter(|object| is_ready(*object)).cloned();
        self.until(&format!("{name} is ready"), name, ready).await
    }

    pub async fn until_gone<K: TestObject>(&self, name: &str) {
        let what = format!("{name} is gone");
        self.until::<K, ()>(&what, name, |object| object.is_none().then_some(())).await;
    }

    /// Waits until the operator has nothing more to do.
    pub async fn until_quiet(&self) {
        self.proxy.await_quiet(Duration::from_secs(1), PATIENCE).await.unwrap();
    }
}

fn typed<K: DeserializeOwned>(value: serde_json::Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// What the tests ask of a kind.
pub trait TestObject: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned {}

impl<K> TestObject for K where K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned {}

/// A control plane with the custom resources and the controllers of Kubernetes: namespaces are really deleted.
pub async fn control_plane() -> SharedCluster {
    let definitions = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
    Cluster::builder().name("control-plane").controllers(true).manifests(definitions).share().await.unwrap()
}

/// A control plane of the test's own, without the custom resources.
pub async fn own_control_plane() -> SharedCluster {
    Cluster::builder().name("control-plane").controllers(true).start().await.unwrap().into()
}

/// A kubeconfig for Kantor to a plane: its account there has the rights that it is shipped with.
pub async fn plane_kubeconfig(plane: &Cluster) -> KubeconfigSpec {
    plane.data_plane_kubeconfig().await.unwrap()
}

/// An operator with further arguments.
pub async fn operator_with(control_plane: &Cluster, proxy: &Proxy, arguments: &[&str]) -> Operator {
    let kubeconfig = control_plane.operator_kubeconfig().await.unwrap().at(proxy.url(), proxy.ca_pem());
    let unsaid = !arguments.iter().any(|argument| argument.starts_with("--log="));
    Operator::start(
        Path::new(env!("CARGO_BIN_EXE_kantor")),
        &kubeconfig,
        ["--allow-loopback-planes", "--plane-probe-interval=1"]
            .into_iter()
            .chain(arguments.iter().copied())
            .chain(unsaid.then_some("--log=debug,kube=info,hyper=info,tower=info")),
    )
    .await
    .unwrap()
}

/// Status, reason and message of a condition, as text.
pub fn condition<K: TestObject>(object: &K, type_: &str) -> Option<(String, String, String)> {
    let value = serde_json::to_value(object).unwrap();
    let conditions = value["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|c| c["type"] == type_)?;
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    Some((text("status"), text("reason"), text("message")))
}

/// Whether the condition `Ready` is true, for the object as it now is.
pub fn is_ready<K: TestObject>(object: &K) -> bool {
    let value = serde_json::to_value(object).unwrap();
    value["status"]["observedGeneration"].as_i64() == object.meta().generation
        && condition(object, "Ready").is_some_and(|(status, ..)| status == "True")
        && object.meta().deletion_timestamp.is_none()
        && !object.finalizers().is_empty()
}
