//! Flux's kustomize-controller, beside which Releases are measured: built like the Kubernetes binaries, on request only.

use std::{
    env::consts::{ARCH, OS},
    path::PathBuf,
};

use anyhow::Result;

use super::{
    build::{Pin, Program},
    bundles, cache,
    progress::say,
    traffic::provide,
};

/// The version that `assets/flux/go.mod` pins.
pub const VERSION: &str = "v1.9.6";
const NAME: &str = "kustomize-controller";
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
    let build = cache::fingerprint([PIN.go_mod, PIN.go_sum, OS, ARCH]);
    let folder = cache::root()?.join(NAME).join(format!("{VERSION}-{build}"));
    let program = provide(NAME, &folder, |folder| {
        say(&format!("building {NAME} into {}", folder.display()));
        say("the first build takes about 8 minutes, once");
        let program = Program {
            name: NAME,
            pin: &PIN,
            main: None,
            package: "github.com/fluxcd/kustomize-controller".to_owned(),
            linker_flags: "-s -w".to_owned(),
        };
        program.build(folder, "")
    })?;
    Ok(FluxAssets { program, crds: bundles::flux()? })
}
