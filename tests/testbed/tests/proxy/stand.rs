//! What every test here stands on: one cluster for all, a proxy and a namespace for each.

use std::{collections::BTreeMap, future::Future, sync::LazyLock, time::Duration};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kantor_testbed::{
    Cluster, KubeconfigSpec,
    proxy::{Action, Fault, FaultHandle, Match, Proxy},
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use tokio::{runtime::Runtime, sync::OnceCell};

/// More than anything here takes.
pub const SOON: Duration = Duration::from_secs(20);

/// One runtime for all tests, because the cluster lives on it.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();

/// Runs a test.
pub fn run(test: impl Future<Output = ()>) {
    RUNTIME.block_on(async { tokio::time::timeout(SOON * 3, test).await.expect("the test hangs") });
}

/// The cluster of all tests.
pub async fn cluster() -> &'static Cluster {
    CLUSTER.get_or_init(|| async { Cluster::start().await.unwrap() }).await
}

/// A proxy before the cluster, and a namespace.
pub struct Stand {
    pub cluster: &'static Cluster,
    pub proxy: Proxy,
    /// The administrator, through the proxy.
    pub client: Client,
    /// ConfigMaps of the namespace, through the proxy.
    pub configs: Api<ConfigMap>,
    /// The same straight from the cluster, not seen by the proxy.
    pub direct: Api<ConfigMap>,
    pub namespace: String,
}

impl Stand {
    pub async fn new(namespace: &str) -> Self {
        let cluster = cluster().await;
        let proxy = Proxy::start(cluster).unwrap();
        let metadata = ObjectMeta { name: Some(namespace.to_owned()), ..ObjectMeta::default() };
        let object = Namespace { metadata, ..Namespace::default() };
        Api::all(cluster.client()).create(&PostParams::default(), &object).await.unwrap();
        let client = through(&proxy, &cluster.kubeconfig()).await;
        Self {
            cluster,
            configs: Api::namespaced(client.clone(), namespace),
            direct: Api::namespaced(cluster.client(), namespace),
            client,
            proxy,
            namespace: namespace.to_owned(),
        }
    }

    /// Adds a rule about the ConfigMaps of the namespace.
    pub fn fault(&self, action: Action) -> FaultHandle {
        self.proxy.fault(Fault::when(self.configs_match()).then(action))
    }

    pub fn configs_match(&self) -> Match {
        Match::new().resource("configmaps").namespace(&self.namespace)
    }

    /// Creates a ConfigMap through the proxy.
    pub async fn create(&self, name: &str) -> kube::Result<ConfigMap> {
        self.configs.create(&PostParams::default(), &config(name, "1")).await
    }

    /// Whether the cluster has the ConfigMap.
    pub async fn has(&self, name: &str) -> bool {
        self.direct.get_opt(name).await.unwrap().is_some()
    }
}

pub fn config(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([("key".to_owned(), value.to_owned())])),
        ..ConfigMap::default()
    }
}

/// A client through the proxy that does not try again by itself, which kube's default does for 429, 503 and 504.
pub async fn through(proxy: &Proxy, spec: &KubeconfigSpec) -> Client {
    let mut config = spec.at(proxy.url(), proxy.ca_pem()).to_config().await.unwrap();
    config.default_retry = false;
    config.headers.push((hyper::header::USER_AGENT, hyper::header::HeaderValue::from_static("proxy-test/1")));
    Client::try_from(config).unwrap()
}

/// An error with its causes.
pub fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
