//! Where the binaries come from. A script plays Go: nothing is built here.

mod download;

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use kantor_testbed::{CrdBundle, assets::Binary};
use rustix::process::Signal;

use crate::observe::{Background, is_empty, runs, stderr, stdout, testbed, wait_until};

/// A machine with its own cache, assets folder and PATH.
struct Machine {
    home: tempfile::TempDir,
}

/// Writes the file that `go build … -o FILE` asks for.
const BUILDS: &str = r#"
while [ "$1" != -o ]; do shift; done
echo "$3 $CGO_ENABLED" > "$2"
chmod +x "$2"
"#;

impl Machine {
    fn new() -> Self {
        let machine = Self { home: tempfile::tempdir().unwrap() };
        for folder in ["tmp", "bin", "assets", "cache/kantor"] {
            fs::create_dir_all(machine.path(folder)).unwrap();
        }
        // The shell and what the scripts need, but no Go.
        for tool in ["sh", "chmod", "sleep", "rm"] {
            machine.tool(tool);
        }
        machine
    }

    /// Puts a tool of this machine on the PATH.
    fn tool(&self, name: &str) {
        let real =
            ["/bin", "/usr/bin"].map(|folder| Path::new(folder).join(name)).into_iter().find(|p| p.exists());
        symlink(real.unwrap_or_else(|| panic!("{name} is not installed")), self.path("bin").join(name))
            .unwrap();
    }

    /// The CRD bundles of this machine, so that only binaries are missing.
    fn with_bundles(self) -> Self {
        let file = CrdBundle::ALL.map(|bundle| bundle.files().unwrap()).concat().pop().unwrap();
        let crds = file.parent().unwrap().parent().unwrap();
        symlink(crds, self.path("cache/kantor/crds")).unwrap();
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Installs a Go whose `go build` does `build`.
    fn go(&self, version: &str, build: &str) {
        let script = format!("[ \"$1\" = env ] && echo {version} && exit 0\n{build}");
        program(&self.path("bin/go"), &script);
    }

    fn assets(&self) -> Command {
        let mut command = testbed(&self.path("tmp"));
        command.arg("assets");
        command.env("XDG_CACHE_HOME", self.path("cache")).env("KUBEBUILDER_ASSETS", self.path("assets"));
        command.env("PATH", self.path("bin")).env_remove("KANTOR_ASSETS").env_remove("KANTOR_ASSETS_MIRROR");
        command
    }

    /// The folder of the built binaries.
    fn built(&self) -> PathBuf {
        let versions = fs::read_dir(self.path("cache/kantor/kube")).unwrap();
        let versions: Vec<_> = versions.map(|entry| entry.unwrap().path()).collect();
        assert_eq!(versions.len(), 1);
        versions.into_iter().next().unwrap()
    }
}

fn program(path: &Path, script: &str) {
    // Renamed into place: a script that runs right now cannot be overwritten.
    let partial = path.with_extension("new");
    fs::write(&partial, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&partial, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(partial, path).unwrap();
}

#[test]
fn missing_binaries_are_built_once_with_progress() {
    let machine = Machine::new().with_bundles();
    machine.go("go1.26.8", BUILDS);
    let first = machine.assets().output().unwrap();
    let said = stderr(&first);
    assert!(first.status.success(), "{said}");
    assert!(said.contains("about 12 minutes") && said.contains("build kubectl (5 of 6): done"), "{said}");
    let folder = stdout(&first).lines().last().unwrap().to_owned();
    assert_eq!(Path::new(&folder), machine.built());
    for binary in Binary::ALL {
        let text = fs::read_to_string(Path::new(&folder).join(binary.name())).unwrap();
        assert!(text.ends_with(" 0\n"), "built with cgo: {text}");
    }
    fs::remove_file(machine.path("bin/go")).unwrap();
    let second = machine.assets().output().unwrap();
    assert!(second.status.success(), "{}", stderr(&second));
    assert_eq!(stdout(&second), stdout(&first));
}

#[test]
fn a_partial_folder_of_assets_is_completed_from_the_cache() {
    let machine = Machine::new().with_bundles();
    machine.go("go1.26.8", BUILDS);
    let given = [Binary::Etcd, Binary::KubeApiserver, Binary::Kubectl];
    for binary in given {
        program(&machine.path("assets").join(binary.name()), "echo given");
    }
    // Not a program: it must not be taken for one.
    fs::write(machine.path("assets/kwok"), "text").unwrap();
    let output = machine.assets().output().unwrap();
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("(3 of 3)") && !said.contains("build etcd"), "{said}");
    let folder = PathBuf::from(stdout(&output).lines().last().unwrap());
    for binary in Binary::ALL {
        let text = fs::read_to_string(folder.join(binary.name())).unwrap();
        assert_eq!(text.contains("echo given"), given.contains(&binary), "{}: {text}", binary.name());
    }
}

#[test]
fn kubebuilder_assets_come_before_the_cache() {
    let machine = Machine::new().with_bundles();
    machine.go("go1.26.8", BUILDS);
    assert!(machine.assets().output().unwrap().status.success());
    for binary in Binary::ALL {
        program(&machine.path("assets").join(binary.name()), "echo given");
    }
    let output = machine.assets().output().unwrap();
    assert_eq!(stdout(&output).trim(), machine.path("assets").to_str().unwrap());

    // A relative folder is made absolute, an empty value is no folder.
    let output =
        machine.assets().env("KUBEBUILDER_ASSETS", "assets").current_dir(machine.path("")).output().unwrap();
    assert!(Path::new(stdout(&output).trim()).is_absolute(), "{}", stdout(&output));
    let output =
        machine.assets().env("KUBEBUILDER_ASSETS", "").current_dir(machine.path("assets")).output().unwrap();
    assert_eq!(stdout(&output).trim(), machine.built().to_str().unwrap());
}

#[test]
fn an_interrupted_build_leaves_no_half_binary() {
    let machine = Machine::new().with_bundles();
    let pid_file = machine.path("pid");
    let hangs = format!("{BUILDS}\necho $$ > {0}.new\n/bin/mv {0}.new {0}\nsleep 1000", pid_file.display());
    machine.go("go1.26.8", &hangs);
    let mut first = Background::start(machine.assets().stderr(Stdio::null()));
    wait_until("the build has written something", || pid_file.exists());
    let go: u32 = fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap();

    // Meanwhile a second process waits for the first, and says so.
    let mut second = Background::start(machine.assets().stderr(Stdio::piped()));
    let waiting = second.pid();
    wait_until("the second process waits for the lock", || {
        let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
        locks.lines().any(|line| line.contains("->") && line.contains(&format!(" {waiting} ")))
    });
    machine.go("go1.26.8", BUILDS);
    first.signal(Signal::KILL);
    first.exit();
    wait_until("Go is gone", || !runs(go));
    let (status, said) = (second.exit(), second.said());
    assert!(status.success(), "{said}");
    assert!(said.contains("another process fills"), "{said}");
    assert!(said.contains("build etcd (1 of 6)"), "the half binary was used: {said}");
    let names: Vec<_> = fs::read_dir(machine.built()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().contains("partial")), "{names:?}");
    wait_until("temporary folders are gone", || is_empty(&machine.path("tmp")));
}

#[test]
fn a_failed_build_shows_the_end_of_its_output_and_leaves_nothing() {
    let machine = Machine::new();
    machine.go("go1.26.8", &format!("{BUILDS}\necho undefined: everything\nexit 1"));
    let output = machine.assets().output().unwrap();
    assert!(!output.status.success());
    let said = stderr(&output);
    assert!(said.contains("cannot build etcd") && said.contains("undefined: everything"), "{said}");
    assert!(!machine.built().join("etcd").exists());
}

#[test]
fn without_go_the_error_says_how_to_get_it() {
    let machine = Machine::new();
    let output = machine.assets().output().unwrap();
    assert!(!output.status.success());
    let said = stderr(&output);
    assert!(
        said.contains("Go is not installed: install Go 1.26") && said.contains("KUBEBUILDER_ASSETS"),
        "{said}"
    );
}

#[test]
fn an_old_go_is_named_with_what_is_needed() {
    let machine = Machine::new();
    machine.go("go1.24.3", BUILDS);
    let output = machine.assets().output().unwrap();
    assert!(!output.status.success());
    let said = stderr(&output);
    assert!(said.contains("found go1.24.3, need >= 1.26"), "{said}");
}

#[test]
fn a_module_with_another_checksum_is_refused() {
    let machine = Machine::new();
    let download = r#"if [ "$1" = mod ]; then
echo go: downloading something
echo '{"Dir": "/", "Sum": "h1:else="}'
exit 0
fi"#;
    machine.go("go1.26.8", &format!("{download}\n{BUILDS}"));
    let output = machine.assets().output().unwrap();
    assert!(!output.status.success());
    let said = stderr(&output);
    assert!(said.contains("sigs.k8s.io/gateway-api v1.6.1 has the checksum h1:else="), "{said}");
    let left = fs::read_dir(machine.path("cache/kantor/crds")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [".lock"]);
}
