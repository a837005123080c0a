//! Starting a cluster, step by step.

use std::{
    collections::BTreeSet,
    fs,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError, atomic::AtomicBool},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt, future::try_join3, stream};
use k8s_openapi::api::{core::v1::Namespace, rbac::v1::ClusterRole};
use kube::{Api, Client};

use super::{
    Cluster,
    components::{Components, Programs},
    files::{Files, KUBECONFIG, STAGES},
    nodes,
    roles::Roles,
};
use crate::{
    apply,
    assets::{self, Binary, CrdBundle},
    kubeconfig::{Auth, KubeconfigSpec},
    wait::{Seen, until},
};

/// Generous: a machine with few cores may start several clusters at once.
const START: Duration = Duration::from_mins(2);

/// What a new cluster shall have. Make one with [`Cluster::builder`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterBuilder {
    pub(super) name: String,
    controllers: bool,
    scheduler: bool,
    nodes: usize,
    crds: Vec<CrdBundle>,
    manifests: Option<PathBuf>,
    memory_mib: u32,
    /// Whether etcd can be asked for what it holds.
    pub(super) store: bool,
}

impl Default for ClusterBuilder {
    fn default() -> Self {
        Self {
            name: "cluster".to_owned(),
            controllers: false,
            scheduler: false,
            nodes: 0,
            crds: Vec::new(),
            manifests: None,
            memory_mib: 1024,
            store: false,
        }
    }
}

impl ClusterBuilder {
    /// Names the cluster in folders, kubeconfigs and messages: lower-case letters, digits and dashes.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How much memory each program may take before it collects its garbage as often as it takes: one that is short of it
    /// does little else.
    #[must_use]
    pub fn memory_mib(mut self, memory: u32) -> Self {
        self.memory_mib = memory;
        self
    }

    /// With kube-controller-manager: Deployments get pods, namespaces get deleted, and so on.
    #[must_use]
    pub fn controllers(mut self, wanted: bool) -> Self {
        self.controllers = wanted;
        self
    }

    /// With kube-scheduler.
    #[must_use]
    pub fn scheduler(mut self, wanted: bool) -> Self {
        self.scheduler = wanted;
        self
    }

    /// With this many nodes, on which kwok makes pods ready.
    #[must_use]
    pub fn nodes(mut self, count: usize) -> Self {
        self.nodes = count;
        self
    }

    /// With these CRDs.
    #[must_use]
    pub fn crds(mut self, bundles: &[CrdBundle]) -> Self {
        self.crds = bundles.to_vec();
        self
    }

    /// With what the YAML files of a folder say.
    #[must_use]
    pub fn manifests(mut self, folder: impl AsRef<Path>) -> Self {
        self.manifests = Some(folder.as_ref().to_owned());
        self
    }

    /// Starts the cluster and returns when it is ready. Whatever goes wrong, nothing is left behind.
    pub async fn start(self) -> Result<Cluster> {
        let name = self.name.clone();
        // Boxed: the future holds every step of the start.
        Box::pin(self.start_here()).await.with_context(|| format!("cannot start the cluster {name}"))
    }

    async fn start_here(self) -> Result<Cluster> {
        ensure!(
            !self.name.is_empty()
                && self.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'),
            "the name {:?} of a cluster may have lower-case letters, digits and dashes only",
            self.name
        );
        ensure!(
            self.nodes == 0 || self.controllers,
            "nodes keep their not-ready taint without the node-lifecycle controller: add .controllers(true)"
        );
        let materials = self.clone();
        let (crds, stages) = tokio::task::spawn_blocking(move || materials.read_crds_and_stages()).await??;
        let cluster = self.start_apiserver().await?;
        let client = cluster.client();
        if self.nodes > 0 {
            cluster.files.write(STAGES, &stages)?;
        }
        for binary in self.binaries().into_iter().skip(2) {
            cluster.components.start(binary, &cluster.files)?;
        }
        try_join3(install(&client, &crds), self.add_nodes(&cluster, &client), self.begun(&cluster, &client))
            .await?;
        if let Some(folder) = &self.manifests {
            cluster.apply_dir(folder).await?;
        }
        cluster.components.check()?;
        Ok(cluster)
    }

    async fn add_nodes(&self, cluster: &Cluster, client: &Client) -> Result<()> {
        if self.nodes == 0 {
            return Ok(());
        }
        nodes::create(client, self.nodes).await?;
        until(&format!("{} nodes are ready", self.nodes), START, || async {
            cluster.components.check()?;
            nodes::ready(client, self.nodes).await
        })
        .await
    }

    /// Returns when kube-controller-manager is at work. Among the first things that it does is to fill roles that are made of
    /// others, which would be a change to those who compare before and after.
    async fn begun(&self, cluster: &Cluster, client: &Client) -> Result<()> {
        if !self.controllers {
            return Ok(());
        }
        let roles: Api<ClusterRole> = Api::all(client.clone());
        until("the roles made of others are filled", START, || async {
            cluster.components.check()?;
            for name in ["admin", "edit", "view"] {
                if roles.get(name).await?.rules.is_none_or(|rules| rules.is_empty()) {
                    return Ok(Seen::NotYet(format!("{name} is empty")));
                }
            }
            Ok(Seen::Done(()))
        })
        .await
    }

    /// In the order of their start; the first two are the plain cluster.
    fn binaries(&self) -> Vec<Binary> {
        let optional = [
            (self.controllers, Binary::KubeControllerManager),
            (self.scheduler, Binary::KubeScheduler),
            (self.nodes > 0, Binary::Kwok),
        ];
        let optional = optional.into_iter().filter_map(|(wanted, binary)| wanted.then_some(binary));
        [Binary::Etcd, Binary::KubeApiserver].into_iter().chain(optional).collect()
    }

    fn read_crds_and_stages(&self) -> Result<(Vec<String>, String)> {
        let mut crds = Vec::new();
        for bundle in &self.crds {
            for file in bundle.files()? {
                crds.push(fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?);
            }
        }
        let mut stages = String::new();
        if self.nodes > 0 {
            for file in assets::kwok_stages()? {
                stages.push_str("---\n");
                stages.push_str(
                    &fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?,
                );
                stages.push('\n');
            }
        }
        Ok((crds, stages))
    }

    /// etcd and the API server. Another process may take the port between our choice and the server's start: then
    /// all begins anew with another one.
    async fn start_apiserver(&self) -> Result<Cluster> {
        const ATTEMPTS: usize = 5;
        for _ in 0..ATTEMPTS {
            let cluster = self.spawn_apiserver().await?;
            match ready(&cluster.components, &cluster.client()).await {
                Ok(()) => return Ok(cluster),
                Err(error) if format!("{error:#}").contains("address already in use") => {}
                Err(error) => return Err(error),
            }
        }
        bail!("{ATTEMPTS} ports in a row were taken by other processes: end some of them and try again")
    }

    async fn spawn_apiserver(&self) -> Result<Cluster> {
        let binaries = self.binaries();
        let wanted = binaries.clone();
        let paths = tokio::task::spawn_blocking(move || assets::provide(&wanted)).await??;
        let files = Files::create(&self.name)?;
        let port = free_port()?;
        let kubeconfig = KubeconfigSpec {
            name: self.name.clone(),
            server: format!("https://127.0.0.1:{port}"),
            ca_pem: files.authority.pem(),
            auth: Auth::Token(files.admin_token.clone()),
        };
        files.write(KUBECONFIG, &kubeconfig.to_yaml())?;
        let config = kubeconfig.to_config().await?;
        let components = Components::new(
            Programs::new(&binaries, paths),
            port,
            self.controllers,
            self.memory_mib,
            self.store,
        );
        let cluster = Cluster {
            components,
            files,
            kubeconfig,
            config,
            roles: Roles::default(),
            is_broken: AtomicBool::new(false),
        };
        cluster.components.start(Binary::Etcd, &cluster.files)?;
        cluster.components.start(Binary::KubeApiserver, &cluster.files)?;
        Ok(cluster)
    }
}

async fn install(client: &Client, crds: &[String]) -> Result<()> {
    const AT_ONCE: usize = 4;
    let installs = stream::iter(crds).map(|text| apply::apply_yaml(client, text)).buffer_unordered(AT_ONCE);
    installs.try_collect::<Vec<_>>().await?;
    Ok(())
}

/// Returns when the API server says so and the default namespace exists.
pub(super) async fn ready(components: &Components, client: &Client) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    until("the API server is ready", START, || async {
        components.check()?;
        let request = http_get("/readyz")?;
        if let Err(error) = client.request_text(request).await {
            return Ok(Seen::NotYet(error.to_string()));
        }
        Ok(match namespaces.get_opt("default").await {
            Ok(Some(_)) => Seen::Done(()),
            Ok(None) => Seen::NotYet("no default namespace".to_owned()),
            Err(error) => Seen::NotYet(error.to_string()),
        })
    })
    .await
}

fn http_get(path: &str) -> Result<hyper::Request<Vec<u8>>> {
    Ok(hyper::Request::get(path).body(Vec::new())?)
}

/// A port that is free now and that no other cluster of this process was given.
///
/// Below the range from which systems take the ports of outgoing connections: those could take the port of an API
/// server that is being restarted, and a client that tries a closed port of that range may connect to itself.
fn free_port() -> Result<u16> {
    const FIRST: u16 = 18_000;
    const COUNT: u16 = 12_000;
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..1000 {
        let mut random = [0; 2];
        getrandom::fill(&mut random).map_err(|error| anyhow::anyhow!("no random numbers: {error}"))?;
        let port = FIRST + u16::from_ne_bytes(random) % COUNT;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() && given.insert(port) {
            return Ok(port);
        }
    }
    bail!("no free port from {FIRST} to {}: end what listens there", FIRST + COUNT)
}
