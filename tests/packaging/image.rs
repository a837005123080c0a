//! The image, really built: by `make image-test`, from a static program.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use kantor_testbed::{
    Cluster,
    wait::{self, Seen},
};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{good, project, skipped};

const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";

/// The static program, if there is one; without it there is nothing to test.
fn static_program() -> Option<PathBuf> {
    let program = env::var_os("KANTOR_STATIC_BINARY").map(PathBuf::from);
    if program.is_none() {
        skipped("the image is not built here; `make image-test` does");
    }
    program
}

/// buildah, which needs no daemon, with a store of its own.
struct Buildah(TempDir);

impl Buildah {
    fn run(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("buildah");
        command.args(["--storage-driver", "vfs", "--root"]).arg(self.0.path().join("root"));
        command.arg("--runroot").arg(self.0.path().join("run")).args(arguments);
        good(&format!("{command:?}"), &command.output().unwrap()).trim().to_owned()
    }
}

/// The image's files, in a folder of their own.
fn unpacked(buildah: &Buildah, program: &Path) -> TempDir {
    let context = tempfile::tempdir().unwrap();
    fs::copy(program, context.path().join("kantor")).unwrap();
    fs::create_dir_all(context.path().join(CERTIFICATES).parent().unwrap()).unwrap();
    // The authorities of this machine are of no matter here.
    fs::write(context.path().join(CERTIFICATES), "").unwrap();
    let file = project("Dockerfile").display().to_string();
    let folder = context.path().display().to_string();
    let built = ["bud", "--isolation", "chroot", "--build-arg", "FROM=prebuilt", "--tag", "kantor", "--file"];
    buildah.run(&[&built[..], &[&file, &folder]].concat());
    let container = buildah.run(&["from", "kantor"]);
    let mounted = buildah.run(&["mount", &container]);
    let root = tempfile::tempdir().unwrap();
    // A copy: whoever runs in it must not be able to change the image.
    let copied = Command::new("cp").arg("-a").arg(format!("{mounted}/.")).arg(root.path()).output().unwrap();
    good("copy the image", &copied);
    buildah.run(&["umount", &container]);
    root
}

fn files(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.strip_prefix(root).unwrap().display().to_string());
            }
        }
    }
    found
}

/// The program in the image, as the user that the image names.
fn inside(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("chroot");
    command.arg("--userspec=65532:65532").arg(root).arg("/kantor").args(arguments);
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn the_image_holds_a_program_that_needs_nothing_else() {
    let Some(program) = static_program() else { return };
    let buildah = Buildah(tempfile::tempdir().unwrap());
    let root = unpacked(&buildah, &program);
    assert_eq!(files(root.path()), BTreeSet::from([CERTIFICATES.to_owned(), "kantor".to_owned()]));
    let image: Value = serde_json::from_str(&buildah.run(&["inspect", "--type", "image", "kantor"])).unwrap();
    let config = &image["OCIv1"]["config"];
    assert_eq!(config["User"], "65532:65532");
    assert_eq!(config["Entrypoint"], serde_json::json!(["/kantor"]));
    assert_eq!(config["Cmd"], serde_json::json!(["controller"]));

    let version = good("kantor --version", &inside(root.path(), &["--version"]).output().unwrap());
    assert!(version.contains(kantor::VERSION), "{version}");
    runs_as_operator(root.path()).await;
}

/// It finds a server by its name, without the libraries that a static program may look for, and trusts it.
async fn runs_as_operator(root: &Path) {
    let control_plane = Cluster::builder().name("control-plane").start().await.unwrap();
    control_plane.apply_dir(project("crds")).await.unwrap();
    let kubeconfig = control_plane.operator_kubeconfig().await.unwrap();
    let by_name = kubeconfig.server.replace("127.0.0.1", "localhost");
    let kubeconfig = kubeconfig.at(by_name, control_plane.ca_pem());
    // What each container is given.
    fs::create_dir(root.join("dev")).unwrap();
    for (device, number) in [("random", "8"), ("urandom", "9")] {
        let mut mknod = Command::new("mknod");
        mknod.args(["-m", "444"]).arg(root.join("dev").join(device)).args(["c", "1", number]);
        good("mknod", &mknod.output().unwrap());
    }
    fs::write(root.join("etc/hosts"), "127.0.0.1 localhost\n").unwrap();
    fs::write(root.join("kubeconfig"), kubeconfig.to_yaml()).unwrap();
    let log = tempfile::NamedTempFile::new().unwrap();
    let arguments =
        ["controller", "--kubeconfig=/kubeconfig", "--listen=127.0.0.1:0", "--leader-elect=false"];
    let mut operator =
        inside(root, &arguments).stdout(Stdio::null()).stderr(log.reopen().unwrap()).spawn().unwrap();
    let followed = wait::until("it follows all kinds", Duration::from_mins(2), || async {
        let said = fs::read_to_string(log.path())?;
        anyhow::ensure!(!said.contains("panicked"), "{said}");
        Ok(if said.matches("following").count() >= 16 { Seen::Done(()) } else { Seen::NotYet(said) })
    })
    .await;
    operator.kill().unwrap();
    operator.wait().unwrap();
    followed.unwrap();
}
