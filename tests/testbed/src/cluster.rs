//! A real cluster: child processes in a folder of their own, gone when the value is dropped.
//!
//! ```text
//! etcd ←(unix socket)─ kube-apiserver ←─ kube-controller-manager, kube-scheduler, kwok (on request)
//! ```

mod access;
mod builder;
mod components;
mod faults;
mod files;
mod nodes;
mod roles;
mod shared;
mod store;

use std::{fmt, path::Path, sync::atomic::AtomicBool};

pub use access::ServiceAccountAccess;
use anyhow::Result;
pub use builder::ClusterBuilder;
use components::Components;
pub(crate) use components::POD_RANGE;
use files::Files;
use kube::{Client, Config, api::DynamicObject};
pub use shared::SharedCluster;

use crate::{
    apply,
    certificates::{Authority, Identity},
    kubeconfig::KubeconfigSpec,
};

/// A running cluster. Dropping it ends its processes and removes its folder.
pub struct Cluster {
    // Fields are dropped in this order: the processes end before their folder goes.
    components: Components,
    files: Files,
    kubeconfig: KubeconfigSpec,
    config: Config,
    roles: roles::Roles,
    /// Whether a test has paused or killed a process of it.
    is_broken: AtomicBool,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("name", &self.name())
            .field("url", &self.url())
            .finish_non_exhaustive()
    }
}

/// A process of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningProcess {
    /// The program's name.
    pub name: String,
    /// Its process id.
    pub pid: u32,
}

impl Cluster {
    /// A plain cluster: etcd and an API server, with no controllers.
    pub async fn start() -> Result<Self> {
        Self::builder().start().await
    }

    /// A cluster with more to it.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder::default()
    }

    /// The name given to the builder.
    pub fn name(&self) -> &str {
        &self.kubeconfig.name
    }

    /// The API server's address, `https://127.0.0.1:PORT`.
    pub fn url(&self) -> &str {
        &self.kubeconfig.server
    }

    /// The authority that signed the API server's certificate, PEM.
    pub fn ca_pem(&self) -> &str {
        &self.kubeconfig.ca_pem
    }

    /// The authority whose client certificates the API server accepts, PEM.
    pub fn client_ca_pem(&self) -> &str {
        &self.kubeconfig.ca_pem
    }

    /// The cluster's authority, to issue more identities.
    pub fn ca(&self) -> &Authority {
        &self.files.authority
    }

    /// The client certificate whose holder may name users in `X-Remote-User`, `X-Remote-Group` and
    /// `X-Remote-Extra-…` headers.
    pub fn front_proxy_identity(&self) -> &Identity {
        &self.files.front_proxy
    }

    /// The folder with the cluster's data and log files.
    pub fn folder(&self) -> &Path {
        self.files.folder()
    }

    /// A new client that may do everything. Call it within the tokio runtime that shall drive it.
    ///
    /// Not one client for all callers: it would die with the runtime of its maker, and tests that share a cluster
    /// have a runtime each.
    pub fn client(&self) -> Client {
        Client::try_from(self.config.clone()).expect("the settings made a client at the start")
    }

    /// The administrator's kubeconfig, with a token.
    pub fn kubeconfig(&self) -> KubeconfigSpec {
        self.kubeconfig.clone()
    }

    /// What runs now.
    pub fn processes(&self) -> Vec<RunningProcess> {
        self.components.running()
    }

    /// Applies all documents of `text`; see [`apply::apply_yaml`].
    pub async fn apply_yaml(&self, text: &str) -> Result<Vec<DynamicObject>> {
        apply::apply_yaml(&self.client(), text).await
    }

    /// Applies a YAML file.
    pub async fn apply_file(&self, path: impl AsRef<Path>) -> Result<Vec<DynamicObject>> {
        apply::apply_file(&self.client(), path.as_ref()).await
    }

    /// Applies the YAML files of a folder.
    pub async fn apply_dir(&self, folder: impl AsRef<Path>) -> Result<Vec<DynamicObject>> {
        apply::apply_dir(&self.client(), folder.as_ref()).await
    }
}
