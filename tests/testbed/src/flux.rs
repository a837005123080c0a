//! Flux's kustomize-controller as a child process, to measure beside.

use std::{fs, process::Command};

use anyhow::{Context, Result};

use crate::{KubeconfigSpec, assets::FluxAssets, folder::Folder, process::Process};

/// A running controller. Dropping it kills it.
pub struct Flux {
    process: Process,
    // Goes last: the process has its log in it.
    _folder: Folder,
}

impl Flux {
    /// Starts the controller against the cluster of `kubeconfig`, with its own default limits.
    pub fn start(assets: &FluxAssets, kubeconfig: &KubeconfigSpec) -> Result<Self> {
        let folder = Folder::temporary("flux")?;
        let file = folder.path().join("kubeconfig");
        fs::write(&file, kubeconfig.to_yaml()).context("write the controller's kubeconfig")?;
        let mut command = Command::new(&assets.program);
        command
            .env("KUBECONFIG", file)
            .env("RUNTIME_NAMESPACE", "flux-system")
            // It unpacks artifacts there.
            .env("TMPDIR", folder.path())
            .args(["--metrics-addr=0", "--health-addr=0", "--enable-leader-election=false"])
            .args(["--watch-all-namespaces=true", "--log-level=error"]);
        let process = Process::spawn("kustomize-controller", &command, folder.path().join("flux.log"))?;
        Ok(Self { process, _folder: folder })
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The last lines that it wrote.
    pub fn log_tail(&self) -> String {
        self.process.log_tail()
    }
}
