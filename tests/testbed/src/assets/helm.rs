//! Helm, built like the Kubernetes binaries, for the charts.

use std::{
    env::consts::{ARCH, OS},
    path::PathBuf,
};

use anyhow::Result;

use super::{
    build::{Pin, Program},
    cache,
    progress::say,
    traffic::provide,
};

const NAME: &str = "helm";
const VERSION: &str = "v4.3.1";
const PIN: Pin = Pin {
    go_mod: include_str!("../../assets/helm/go.mod"),
    go_sum: include_str!("../../assets/helm/go.sum"),
};

/// The path of Helm, after building it where necessary. Blocks; tells its progress on stderr.
pub fn helm() -> Result<PathBuf> {
    let parts = cache::fingerprint([PIN.go_mod, PIN.go_sum, OS, ARCH]);
    let folder = cache::root()?.join(NAME).join(format!("{VERSION}-{parts}"));
    provide(NAME, &folder, |folder| {
        say(&format!("building {NAME} into {}", folder.display()));
        say("the first build takes about 4 minutes, once");
        let program = Program {
            name: NAME,
            pin: &PIN,
            main: None,
            package: "helm.sh/helm/v4/cmd/helm".to_owned(),
            linker_flags: "-s -w".to_owned(),
        };
        program.build(folder, "")
    })
}
