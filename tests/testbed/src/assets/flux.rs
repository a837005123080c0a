//! Flux's kustomize-controller, beside which Releases are measured: built like the Kubernetes binaries, on request only.

use std::path::PathBuf;

use anyhow::Result;

use super::{
    build::{Pin, Program},
    bundles,
};

/// The version that `assets/flux/go.mod` pins.
pub const VERSION: &str = "v1.9.5";
const MODULE: &str = "github.com/fluxcd/kustomize-controller";
const PIN: Pin = Pin {
    go_mod: include_str!("../../assets/flux/go.mod"),
    go_sum: include_str!("../../assets/flux/go.sum"),
};

/// The controller and the CRD of its kind.
#[derive(Clone, Debug)]
pub struct FluxAssets {
    /// The controller.
    pub program: PathBuf,
    /// The CRD of Kustomizations.
    pub crds: Vec<PathBuf>,
}

/// The controller, after building it where it is nowhere. Blocks; tells its progress on stderr.
pub fn flux() -> Result<FluxAssets> {
    let program = Program::stripped("kustomize-controller", &PIN, MODULE, "").provide("8 minutes")?;
    Ok(FluxAssets { program, crds: bundles::flux()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_the_crd_is_the_one_that_is_built() {
        assert_eq!(PIN.version(MODULE).unwrap(), VERSION);
    }
}
