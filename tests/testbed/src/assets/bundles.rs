//! YAML that Go modules carry: CRD bundles and kwok stages, copied once into the cache.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use super::{
    cache::{self, PARTIAL},
    go,
};

/// Custom resources that a data plane may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrdBundle {
    /// Gateway API, standard channel.
    GatewayApi,
    /// Envoy Gateway's policies and extensions, as it needs them itself.
    EnvoyGateway,
    /// Those of them that its users write for their routes. What is left out is two thirds of the bundle, and the larger
    /// part of the time that a server needs for it.
    EnvoyPolicies,
    /// `CiliumNetworkPolicy`.
    Cilium,
    /// Secrets Store CSI driver: `SecretProviderClass` and its pod status.
    SecretsStoreCsi,
}

impl CrdBundle {
    /// All that a plane with everything has.
    pub const ALL: [Self; 4] = [Self::GatewayApi, Self::EnvoyGateway, Self::Cilium, Self::SecretsStoreCsi];
    /// All of which the operator makes objects.
    pub const USED: [Self; 4] = [Self::GatewayApi, Self::EnvoyPolicies, Self::Cilium, Self::SecretsStoreCsi];

    const fn source(self) -> &'static Source {
        match self {
            Self::GatewayApi => &GATEWAY_API,
            Self::EnvoyGateway | Self::EnvoyPolicies => &ENVOY_GATEWAY,
            Self::Cilium => &CILIUM,
            Self::SecretsStoreCsi => &SECRETS_STORE_CSI,
        }
    }

    /// The version of the project whose CRDs these are.
    pub const fn version(self) -> &'static str {
        self.source().version
    }

    /// The bundle's CRD files, after downloading its Go module where necessary. Blocks.
    pub fn files(self) -> Result<Vec<PathBuf>> {
        let mut files = self.source().files()?;
        if self == Self::EnvoyPolicies {
            let is_policy = |file: &PathBuf| {
                let name = file.file_stem().unwrap_or_default().to_string_lossy();
                name.rsplit('_').next().is_some_and(|plural| ENVOY_POLICIES.contains(&plural))
            };
            files.retain(is_policy);
            ensure!(files.len() == ENVOY_POLICIES.len(), "Envoy Gateway lacks some of {ENVOY_POLICIES:?}");
        }
        Ok(files)
    }
}

const ENVOY_POLICIES: [&str; 4] =
    ["backends", "backendtrafficpolicies", "httproutefilters", "securitypolicies"];

/// The kwok stages that make nodes and pods ready, and those that make labelled pods fail. Blocks.
pub(crate) fn kwok_stages() -> Result<Vec<PathBuf>> {
    KWOK_STAGES.files()
}

/// The CRD of Flux's Kustomizations. Blocks.
pub(super) fn flux() -> Result<Vec<PathBuf>> {
    FLUX.files()
}

/// Files of a Go module. The checksum is the one that the Go checksum database holds for this version.
struct Source {
    module: &'static str,
    version: &'static str,
    sum: &'static str,
    folders: &'static [&'static str],
    /// Takes only files whose name holds this, and none whose name holds `skip`.
    only: &'static str,
    skip: &'static str,
}

const GATEWAY_API: Source = Source {
    module: "sigs.k8s.io/gateway-api",
    version: "v1.6.1",
    sum: "h1:mock6phZbI6rvZerwrVNk7hVNymQgHo+6sJ81Ia7ftY=",
    folders: &["config/crd/standard"],
    only: "",
    // An admission policy against downgrades, not a CRD.
    skip: "_vap_",
};
const ENVOY_GATEWAY: Source = Source {
    module: "github.com/envoyproxy/gateway",
    version: "v1.9.1",
    sum: "h1:vAVp6/AlBXJ1aOhp1mxL7fNEzVEfjADUguUhm2wzxQY=",
    folders: &["charts/gateway-helm/charts/crds/crds/generated"],
    only: "",
    skip: "kustomization",
};
const CILIUM: Source = Source {
    module: "github.com/cilium/cilium",
    version: "v1.20.2",
    sum: "h1:dqiEGIcXc+gqCLYG/l7VCFJ8GHyb4HUrwbZOpkX5dL8=",
    folders: &["pkg/k8s/apis/cilium.io/client/crds/v2"],
    only: "ciliumnetworkpolicies",
    skip: "kustomization",
};
const SECRETS_STORE_CSI: Source = Source {
    module: "sigs.k8s.io/secrets-store-csi-driver",
    version: "v1.6.1",
    sum: "h1:u/RFkwkq41ErK/1IXKkXQUDia8R0mZYB2q8VrFjoI8c=",
    folders: &["config/crd/bases"],
    only: "secretproviderclass",
    skip: "kustomization",
};
const KWOK_STAGES: Source = Source {
    module: "sigs.k8s.io/kwok",
    version: "v0.8.0",
    sum: "h1:OTIOTwgROqPMovcTwxICx2eYQ4AwLpSx5EpjbDKF4SQ=",
    folders: &[
        "kustomize/stage/node/fast",
        "kustomize/stage/node/heartbeat-with-lease",
        "kustomize/stage/pod/fast",
        "kustomize/stage/pod/chaos",
    ],
    only: "",
    skip: "kustomization",
};
const FLUX: Source = Source {
    module: "github.com/fluxcd/kustomize-controller",
    version: super::flux::VERSION,
    sum: "h1:/XY2zy3K7fntyppEXIHG7oRMzmfgIt50eJzUfaPX1Kc=",
    folders: &["config/crd/bases"],
    only: "",
    skip: "kustomization.yaml",
};

impl Source {
    fn files(&self) -> Result<Vec<PathBuf>> {
        let folder = self.cache_folder()?;
        if !folder.is_dir() {
            self.fill(&folder)?;
        }
        yaml_files(&folder)
    }

    /// Another selection of files is another folder, so that an old cache never lacks a file.
    fn cache_folder(&self) -> Result<PathBuf> {
        let selection = [self.sum, self.only, self.skip].into_iter().chain(self.folders.iter().copied());
        let module = self.module.replace('/', "+");
        let name = format!("{module}-{}-{}", self.version, cache::fingerprint(selection));
        Ok(cache::root()?.join("crds").join(name))
    }

    fn fill(&self, folder: &Path) -> Result<()> {
        let crds = folder.parent().context("a cache folder without a parent")?;
        let _writer = cache::Writer::of(crds)?;
        if folder.is_dir() {
            return Ok(());
        }
        let module = go::module(self.module, self.version, self.sum)?;
        let partial = crds.join(format!("{PARTIAL}{}", self.version));
        fs::create_dir(&partial).with_context(|| format!("make {}", partial.display()))?;
        for source in self.folders {
            self.copy(&module.dir.join(source), &partial, &source.replace('/', "-"))?;
        }
        fs::rename(&partial, folder).with_context(|| format!("make {}", folder.display()))
    }

    fn copy(&self, from: &Path, to: &Path, prefix: &str) -> Result<()> {
        let files = yaml_files(from)?;
        let name = |file: &PathBuf| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let wanted = |file: &PathBuf| name(file).contains(self.only) && !name(file).contains(self.skip);
        let wanted: Vec<_> = files.into_iter().filter(wanted).collect();
        ensure!(!wanted.is_empty(), "{} {} has no YAML in {}", self.module, self.version, from.display());
        for file in wanted {
            // Not fs::copy: the module cache is read-only, and the copy would be too.
            let target = to.join(format!("{prefix}-{}", name(&file)));
            let text = fs::read(&file).with_context(|| format!("read {}", file.display()))?;
            fs::write(&target, text).with_context(|| format!("write {}", target.display()))?;
        }
        Ok(())
    }
}

fn yaml_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    Ok(files)
}
