//! Two clusters that all tests share, and for each test a registry and a proxy of its own.

use std::{
    sync::{Arc, OnceLock},
    thread,
    time::Duration,
};

use k8s_openapi::api::{
    authentication::v1::SelfSubjectReview,
    core::v1::{ConfigMap, Namespace},
    rbac::v1::PolicyRule,
};
use kantor::{
    planes::{
        Access, AddressPolicy, Auth, DisconnectReason, NotConnected, Plane, PlaneKey, PlaneOptions,
        PlaneState, Planes, RemoteAccess,
    },
    telemetry::metrics::Metrics,
};
use kantor_testbed::{
    Cluster, ClusterBuilder, CrdBundle, KubeconfigSpec, ServiceAccountAccess, kubeconfig,
    proxy::{Proxy, Record, Verb},
    wait::{self, Seen},
};
use kube::{
    Api, Client, Config,
    api::{ObjectMeta, PostParams},
};
use secrecy::SecretString;
use tokio::runtime::Runtime;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

/// How long anything may take. It only passes when something is broken.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Waits for what must come soon.
pub async fn soon<F: IntoFuture>(coming: F) -> F::Output {
    tokio::time::timeout(PATIENCE, coming).await.expect("this must not take so long")
}

/// A cluster together with the runtime that started it: the runtime of a test ends with the test.
struct Shared(Cluster, #[expect(dead_code, reason = "held, because the cluster was made in it")] Runtime);

/// A cluster without any custom resources but those that tests add.
pub fn bare() -> &'static Cluster {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    &SHARED.get_or_init(|| start(Cluster::builder().name("bare"))).0
}

/// A cluster with all optional parts that the testbed has.
pub fn full() -> &'static Cluster {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    &SHARED.get_or_init(|| start(Cluster::builder().name("full").crds(&CrdBundle::USED))).0
}

fn start(builder: ClusterBuilder) -> Shared {
    // A thread of its own: a runtime cannot be entered from within the test's.
    let started = thread::spawn(|| {
        let runtime = Runtime::new()?;
        let cluster = runtime.block_on(builder.start())?;
        anyhow::Ok(Shared(cluster, runtime))
    });
    started.join().expect("no panic").unwrap_or_else(|error| panic!("cannot start a cluster: {error:#}"))
}

/// Probes often, and patiently enough for a machine that is busy with other tests.
pub fn options() -> PlaneOptions {
    PlaneOptions {
        probe_interval: Duration::from_millis(500),
        probe_timeout: Duration::from_secs(3),
        connect_timeout: Duration::from_secs(3),
        attempt_timeout: Duration::from_secs(10),
        addresses: AddressPolicy { allow_loopback: true },
        ..PlaneOptions::default()
    }
}

pub fn key(name: &str) -> PlaneKey {
    PlaneKey { namespace: "acme".to_owned(), name: name.to_owned() }
}

/// A registry whose connectors end with the test.
pub struct Registry {
    pub planes: Planes,
    pub tasks: TaskTracker,
    _stop: DropGuard,
}

impl Registry {
    pub fn new(options: PlaneOptions, own: Option<Config>) -> Self {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let planes = Planes::new(options, own, Metrics::default(), &tasks, &stop);
        Self { planes, tasks, _stop: stop.drop_guard() }
    }

    /// Waits until `seen` holds for the state of a plane.
    pub async fn until<T>(
        &self,
        key: &PlaneKey,
        what: &str,
        seen: impl Fn(Option<&PlaneState>) -> Option<T>,
    ) -> T {
        wait::until(what, PATIENCE, || async {
            let state = self.planes.state(key);
            Ok(seen(state.as_ref()).map_or_else(|| Seen::NotYet(format!("{state:?}")), Seen::Done))
        })
        .await
        .unwrap()
    }

    pub async fn connected(&self, key: &PlaneKey) -> Arc<Plane> {
        self.until(key, "the plane is connected", |_| self.planes.get(key).ok()).await
    }

    /// Waits until the plane is not connected for this reason; returns the message.
    pub async fn lost(&self, key: &PlaneKey, reason: &DisconnectReason) -> String {
        let message = self
            .until(key, &format!("the plane is {reason}"), |state| match state {
                Some(PlaneState::Disconnected { why, message, .. }) if why == reason => Some(message.clone()),
                _ => None,
            })
            .await;
        assert!(matches!(self.planes.get(key), Err(NotConnected::Disconnected { .. })));
        message
    }
}

/// A proxy before a cluster, and a registry.
pub struct Stage {
    // The connectors end before what they talk to.
    pub registry: Registry,
    pub planes: Planes,
    pub key: PlaneKey,
    pub proxy: Proxy,
    pub cluster: &'static Cluster,
    pub namespace: String,
}

impl Stage {
    /// A stage on the bare cluster. The name is that of the plane and of a namespace on it.
    pub async fn new(name: &str) -> Self {
        Self::on(bare(), name, options()).await
    }

    pub async fn on(cluster: &'static Cluster, name: &str, options: PlaneOptions) -> Self {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        let namespaces: Api<Namespace> = Api::all(cluster.client());
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        let registry = Registry::new(options, None);
        let proxy = Proxy::start(cluster).unwrap();
        Self {
            planes: registry.planes.clone(),
            registry,
            key: key(name),
            proxy,
            cluster,
            namespace: name.to_owned(),
        }
    }

    /// The stage with its plane connected as the administrator.
    pub async fn connected(name: &str) -> (Self, Arc<Plane>) {
        let stage = Self::new(name).await;
        stage.want(&stage.cluster.kubeconfig());
        let plane = stage.plane().await;
        (stage, plane)
    }

    /// The identity of `spec`, through the proxy.
    pub fn access(&self, spec: &KubeconfigSpec) -> Access {
        access(&spec.at(self.proxy.url(), self.proxy.ca_pem()))
    }

    pub fn want(&self, spec: &KubeconfigSpec) {
        self.planes.want(&self.key, self.access(spec));
    }

    pub async fn plane(&self) -> Arc<Plane> {
        self.registry.connected(&self.key).await
    }

    pub async fn lost(&self, reason: DisconnectReason) -> String {
        self.registry.lost(&self.key, &reason).await
    }

    /// ConfigMaps of the namespace, straight from the cluster and not seen by the proxy.
    pub fn direct(&self) -> Api<ConfigMap> {
        Api::namespaced(self.cluster.client(), &self.namespace)
    }

    /// Waits for a request.
    pub async fn request(&self, wanted: impl Fn(&Record) -> bool) -> Record {
        self.proxy.await_request(wanted, PATIENCE).await.unwrap()
    }

    /// A new token of an account that may do everything, and nobody else's.
    pub async fn fresh_token(&self, account: &str) -> KubeconfigSpec {
        let all = Some(vec!["*".to_owned()]);
        let rule = PolicyRule {
            api_groups: all.clone(),
            resources: all.clone(),
            verbs: vec!["*".to_owned()],
            ..PolicyRule::default()
        };
        let paths =
            PolicyRule { non_resource_urls: all, verbs: vec!["*".to_owned()], ..PolicyRule::default() };
        let account = ServiceAccountAccess::new(&self.namespace, account).cluster_wide(&[rule, paths]);
        self.cluster.service_account_kubeconfig(&account).await.unwrap()
    }

    /// A new client certificate of an administrator with this name.
    pub fn fresh_certificate(&self, user: &str) -> KubeconfigSpec {
        self.cluster.client_certificate_kubeconfig(user, &["system:masters"]).unwrap()
    }
}

pub fn access(spec: &KubeconfigSpec) -> Access {
    let auth = match &spec.auth {
        kubeconfig::Auth::Token(token) => Auth::Token(SecretString::from(token.clone())),
        kubeconfig::Auth::ClientCertificate(identity) => Auth::ClientCertificate {
            certificate_pem: SecretString::from(identity.certificate_pem.clone()),
            key_pem: SecretString::from(identity.key_pem.clone()),
        },
        kubeconfig::Auth::Anonymous => panic!("planes are not entered without credentials"),
    };
    Access::Remote(RemoteAccess {
        server: spec.server.parse().unwrap(),
        tls_server_name: None,
        ca_pem: Some(spec.ca_pem.clone()),
        auth,
    })
}

pub fn token(spec: &KubeconfigSpec) -> &str {
    let kubeconfig::Auth::Token(token) = &spec.auth else { panic!("no token") };
    token
}

/// Who the server takes a client for.
pub async fn whoami(client: &Client) -> kube::Result<String> {
    let review =
        Api::all(client.clone()).create(&PostParams::default(), &SelfSubjectReview::default()).await?;
    Ok(review.status.and_then(|status| status.user_info?.username).unwrap_or_default())
}

pub fn config_map(name: &str, labels: &[(&str, &str)]) -> ConfigMap {
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() },
        ..ConfigMap::default()
    }
}

/// Whether a request is the connector's probe.
pub fn is_probe(record: &Record) -> bool {
    record.verb() == Verb::Get && record.resource() == "namespaces" && record.name() == "kube-system"
}

/// Whether a request reads one object, other than for the connector: that one probes, and asks what the server serves
/// whenever its definitions change, at times that no test knows.
pub fn reads_an_object(record: &Record) -> bool {
    record.verb() == Verb::Get && !record.resource().is_empty() && !is_probe(record)
}
