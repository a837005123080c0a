//! Building the binaries from pinned Go modules.

use std::{
    env::consts::{ARCH, OS},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use super::{
    Binary, KUBERNETES_VERSION,
    cache::{self, PARTIAL},
    command, download, go, is_program, made,
    progress::say,
};
use crate::folder::Folder;

/// A Go module of ours that pins a program and all it is made of.
pub(super) struct Pin {
    pub(super) go_mod: &'static str,
    pub(super) go_sum: &'static str,
}

impl Pin {
    /// The version of the module that this pins.
    pub(super) fn version(&self, module: &str) -> Result<&'static str> {
        let version = |line: &'static str| {
            let mut words = line.trim_start_matches("require ").split_whitespace();
            (words.next() == Some(module)).then(|| words.next()).flatten()
        };
        let versions = self.go_mod.lines().filter_map(version);
        versions
            .into_iter()
            .find(|word| word.starts_with('v'))
            .with_context(|| format!("{module} is not pinned"))
    }
}

/// How a program is built from its pin.
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) pin: &'static Pin,
    /// The module whose version is the program's.
    pub(super) module: &'static str,
    /// The program itself, where it is ours and not one of the module's dependencies.
    pub(super) main: Option<&'static str>,
    pub(super) package: String,
    pub(super) linker_flags: String,
}

const ETCD: Pin = Pin {
    go_mod: include_str!("../../assets/etcd/go.mod"),
    go_sum: include_str!("../../assets/etcd/go.sum"),
};
const KUBE: Pin = Pin {
    go_mod: include_str!("../../assets/kube/go.mod"),
    go_sum: include_str!("../../assets/kube/go.sum"),
};
const KWOK: Pin = Pin {
    go_mod: include_str!("../../assets/kwok/go.mod"),
    go_sum: include_str!("../../assets/kwok/go.sum"),
};

impl Binary {
    fn program(self) -> Program {
        Program {
            name: self.name(),
            pin: self.pin(),
            module: self.module(),
            main: None,
            package: self.package(),
            linker_flags: self.linker_flags(),
        }
    }

    const fn pin(self) -> &'static Pin {
        match self {
            Self::Etcd => &ETCD,
            Self::Kwok => &KWOK,
            Self::KubeApiserver | Self::KubeControllerManager | Self::KubeScheduler | Self::Kubectl => &KUBE,
        }
    }

    /// The version that is built, and downloaded.
    pub(super) fn version(self) -> Result<&'static str> {
        self.pin().version(self.module())
    }

    const fn module(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::Kwok => "sigs.k8s.io/kwok",
            Self::KubeApiserver | Self::KubeControllerManager | Self::KubeScheduler | Self::Kubectl => {
                "k8s.io/kubernetes"
            }
        }
    }

    fn package(self) -> String {
        match self {
            Self::Etcd => self.module().to_owned(),
            other => format!("{}/cmd/{}", other.module(), other.name()),
        }
    }

    fn linker_flags(self) -> String {
        match self {
            Self::Etcd | Self::Kwok => "-s -w".to_owned(),
            // Without these, the API server calls itself v0.0.0 and clients refuse to guess what it can do.
            _ => {
                const VERSION: &str = "k8s.io/component-base/version";
                let mut numbers = KUBERNETES_VERSION.trim_start_matches('v').split('.');
                let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
                format!(
                    "-s -w -X {VERSION}.gitVersion={KUBERNETES_VERSION} -X {VERSION}.gitMajor={major} -X {VERSION}.gitMinor={minor}"
                )
            }
        }
    }
}

/// Where this build of the binaries lives: another pin, flag or machine type is another folder.
pub(super) fn folder() -> Result<PathBuf> {
    let flags: Vec<_> = Binary::ALL.iter().map(|binary| binary.linker_flags()).collect();
    let pins = [&ETCD, &KUBE, &KWOK].into_iter().flat_map(|pin| [pin.go_mod, pin.go_sum]);
    let parts = pins.chain(flags.iter().map(String::as_str)).chain([OS, ARCH]);
    Ok(cache::root()?.join("kube").join(format!("{KUBERNETES_VERSION}-{}", cache::fingerprint(parts))))
}

/// Downloads or builds those of the binaries that are nowhere, one process at a time.
pub(super) fn make_missing(binaries: &[Binary]) -> Result<()> {
    let _writer = cache::Writer::of(&folder()?)?;
    // While we waited for the folder, its former writer may have built what we need.
    let mut missing = Vec::new();
    for binary in binaries {
        if binary.found()?.is_none() {
            missing.push(*binary);
        }
    }
    if download::is_allowed()? && !missing.is_empty() {
        missing = download::fetch(&missing)?;
    }
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = missing.iter().map(|binary| binary.name()).collect();
    say(&format!("building {} into {}", names.join(", "), folder()?.display()));
    if missing.contains(&Binary::KubeApiserver) {
        say(
            "the first build takes about 12 minutes, once; set KUBEBUILDER_ASSETS to use binaries that you have",
        );
    }
    let folder = folder()?;
    for (done, binary) in missing.iter().enumerate() {
        let place = format!(" ({} of {})", done + 1, missing.len());
        binary.program().build(&folder, &place)?;
    }
    Ok(())
}

impl Program {
    /// A package of a module's dependencies, without what only debuggers need.
    pub(super) fn stripped(
        name: &'static str,
        pin: &'static Pin,
        module: &'static str,
        package: &str,
    ) -> Self {
        let package = format!("{module}{package}");
        Self { name, pin, module, main: None, package, linker_flags: "-s -w".to_owned() }
    }

    /// The program, after building it where it is nowhere, which takes about so long. Each has a folder of its own in the
    /// cache: a new version of one rebuilds nothing else.
    pub(super) fn provide(&self, takes: &str) -> Result<PathBuf> {
        made(self.name, &self.folder()?, |folder| {
            say(&format!("building {} into {}", self.name, folder.display()));
            say(&format!("the first build takes about {takes}, once"));
            self.build(folder, "")
        })
    }

    /// Where this build of the program lives.
    pub(super) fn folder(&self) -> Result<PathBuf> {
        let version = self.pin.version(self.module)?;
        let parts = [self.pin.go_mod, self.pin.go_sum].into_iter().chain(self.main).chain([OS, ARCH]);
        let build = format!("{version}-{}", cache::fingerprint(parts));
        Ok(cache::root()?.join(self.name).join(build))
    }

    /// Builds the program into `folder`, of which the caller is the writer.
    pub(super) fn build(&self, folder: &Path, place: &str) -> Result<()> {
        let source = Folder::temporary("build")?;
        fs::write(source.path().join("go.mod"), self.pin.go_mod)?;
        fs::write(source.path().join("go.sum"), self.pin.go_sum)?;
        if let Some(main) = self.main {
            fs::write(source.path().join("main.go"), main)?;
        }
        go::check(source.path())?;

        let partial = folder.join(format!("{PARTIAL}{}", self.name));
        let mut command = go::command(source.path());
        command
            .args(["build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags"])
            .args([self.linker_flags.as_str(), "-o"])
            .arg(&partial)
            .arg(&self.package);
        command::run(&command, format!("build {}{place}", self.name))
            .with_context(|| format!("cannot build {}", self.name))?;
        ensure!(is_program(&partial), "Go built {} but wrote no program", self.name);
        // Readers look for the final name only, and a rename shows all of the file or none of it.
        fs::rename(&partial, folder.join(self.name)).with_context(|| format!("move {} in place", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_that_clusters_say_is_the_one_that_is_built() {
        assert_eq!(Binary::KubeApiserver.version().unwrap(), KUBERNETES_VERSION);
    }

    #[test]
    fn a_version_is_that_of_the_module_and_not_of_one_with_a_longer_name() {
        let pin = Pin { go_mod: "require (\n\ta.b/c/d v2.0.0\n\ta.b/c v1.0.0 // indirect\n)\n", go_sum: "" };
        assert_eq!(pin.version("a.b/c").unwrap(), "v1.0.0");
        assert!(pin.version("a.b").is_err());
    }
}
