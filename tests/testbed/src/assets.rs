//! What clusters are made of: the Kubernetes binaries, and the CRDs and kwok stages that Go modules carry.
//!
//! Each binary is looked for in `KUBEBUILDER_ASSETS` (the envtest convention), then in the cache
//! (`${XDG_CACHE_HOME:-$HOME/.cache}/kantor`). A missing binary is downloaded into the cache, if its project publishes it with
//! a checksum and `KANTOR_ASSETS=build` is not set, else built there from its Go module, once. The versions of both are those
//! of the modules in `assets/`.

mod build;
mod bundles;
mod cache;
mod command;
mod download;
mod flux;
mod go;
mod helm;
mod progress;
mod rules;
mod traffic;

use std::{
    env,
    os::unix::fs::PermissionsExt,
    path::{self, Path, PathBuf},
};

use anyhow::{Context, Result};
pub use bundles::CrdBundle;
pub(crate) use bundles::kwok_stages;
pub use flux::{FluxAssets, VERSION as FLUX_VERSION, flux};
pub use helm::helm;
pub(crate) use progress::say;
pub use rules::rules_checker;
pub use traffic::{Traffic, is_traffic_at_hand, traffic};

/// The Kubernetes version that clusters run.
pub const KUBERNETES_VERSION: &str = "v1.36.3";

/// A program that the testbed runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// The store of an API server.
    Etcd,
    /// The API server.
    KubeApiserver,
    /// Deployments, `ServiceAccount` tokens, garbage collection and so on.
    KubeControllerManager,
    /// Gives pods their nodes.
    KubeScheduler,
    /// The command line client, for people.
    Kubectl,
    /// Plays the kubelet: pods become ready without containers.
    Kwok,
}

impl Binary {
    /// All of them, in the order in which they are built.
    pub const ALL: [Self; 6] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::KubeScheduler,
        Self::Kubectl,
        Self::Kwok,
    ];

    /// The name of its file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::Kubectl => "kubectl",
            Self::Kwok => "kwok",
        }
    }

    /// The path of this binary, after downloading or building it where necessary. Blocks.
    pub fn path(self) -> Result<PathBuf> {
        provide(&[self])?.pop().context("one binary asked for, none provided")
    }

    fn found(self) -> Result<Option<PathBuf>> {
        let downloaded = download::is_allowed()?.then(download::folder).transpose()?;
        let cached: Vec<_> = [build::folder()?].into_iter().chain(downloaded).collect();
        found(self.name(), &cached)
    }
}

/// The program of this name in `KUBEBUILDER_ASSETS`, else in the first of the folders of the cache that holds it.
fn found(name: &str, cached: &[PathBuf]) -> Result<Option<PathBuf>> {
    // Absolute, because the programs are started in folders of their own; and an empty value is no folder.
    let assets = env::var_os("KUBEBUILDER_ASSETS").filter(|folder| !folder.is_empty());
    let assets = assets.map(path::absolute).transpose().context("find the folder KUBEBUILDER_ASSETS")?;
    let folders = assets.into_iter().chain(cached.iter().cloned());
    Ok(folders.map(|folder| folder.join(name)).find(|path| is_program(path)))
}

/// The program of this name, after having it made in `folder` if it is nowhere.
fn made(name: &str, folder: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let cached = [folder.to_owned()];
    if let Some(path) = found(name, &cached)? {
        return Ok(path);
    }
    let _writer = cache::Writer::of(folder)?;
    // While we waited for the folder, its former writer may have made what we need.
    if found(name, &cached)?.is_none() {
        make(folder)?;
    }
    found(name, &cached)?.with_context(|| format!("{name} vanished from the cache: start again"))
}

/// The paths of the given binaries, after downloading or building those that are nowhere. Blocks; tells its progress on
/// stderr.
pub fn provide(binaries: &[Binary]) -> Result<Vec<PathBuf>> {
    if binaries.iter().map(|binary| binary.found()).collect::<Result<Vec<_>>>()?.iter().any(Option::is_none) {
        build::make_missing(binaries)?;
    }
    let path = |binary: &Binary| {
        binary.found()?.with_context(|| format!("{} vanished from the cache: start again", binary.name()))
    };
    binaries.iter().map(path).collect()
}

/// What the assets are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Clusters: the demo and the benchmarks.
    Demo,
    /// All tests: clusters, Helm, the checker of alert rules, and a gateway where Envoy can be had.
    Test,
}

impl Purpose {
    /// Makes the assets available and returns a folder that holds the binaries of clusters. Blocks; tells its progress on
    /// stderr.
    pub fn provide(self) -> Result<PathBuf> {
        let folder = provide_all()?;
        match self {
            Self::Demo => return Ok(folder),
            Self::Test => {}
        }
        rules_checker()?;
        helm()?;
        // Only the tests of real traffic need these, and not every machine can have them.
        if let Err(error) = traffic() {
            say(&format!("{error:#}"));
            say("GOING ON WITHOUT ENVOY: the tests of real traffic will be skipped");
        }
        Ok(folder)
    }
}

/// The versions of everything that is tested with, by name.
pub fn versions() -> Result<Vec<(&'static str, &'static str)>> {
    let [envoy_gateway, envoy] = traffic::versions()?;
    Ok(vec![
        ("Kubernetes", KUBERNETES_VERSION),
        ("etcd", Binary::Etcd.version()?),
        ("Gateway API", CrdBundle::GatewayApi.version()),
        ("Envoy Gateway", envoy_gateway),
        ("Envoy", envoy),
        ("Cilium", CrdBundle::Cilium.version()),
        ("Secrets Store CSI driver", CrdBundle::SecretsStoreCsi.version()),
        ("Helm", helm::version()?),
    ])
}

/// Makes all that clusters are made of available and returns a folder that holds all binaries. Blocks.
pub fn provide_all() -> Result<PathBuf> {
    let paths = provide(&Binary::ALL)?;
    for bundle in CrdBundle::ALL {
        bundle.files()?;
    }
    kwok_stages()?;
    if let Some(folder) = common_folder(&paths) {
        return Ok(folder);
    }
    cache::folder_of_links(&paths)
}

fn common_folder(paths: &[PathBuf]) -> Option<PathBuf> {
    let first = paths.first()?.parent()?;
    paths.iter().all(|path| path.parent() == Some(first)).then(|| first.to_owned())
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
