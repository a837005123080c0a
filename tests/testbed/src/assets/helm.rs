//! Helm, built like the Kubernetes binaries, for the charts.

use std::path::PathBuf;

use anyhow::Result;

use super::build::{Pin, Program};

const PIN: Pin = Pin {
    go_mod: include_str!("../../assets/helm/go.mod"),
    go_sum: include_str!("../../assets/helm/go.sum"),
};

/// The path of Helm, after building it where necessary. Blocks; tells its progress on stderr.
pub fn helm() -> Result<PathBuf> {
    program().provide("4 minutes")
}

fn program() -> Program {
    Program::stripped("helm", &PIN, "helm.sh/helm/v4", "/cmd/helm")
}

/// The version of Helm.
pub(super) fn version() -> Result<&'static str> {
    PIN.version(program().module)
}
