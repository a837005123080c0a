//! helm and kubectl, and what they print.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::OnceLock,
};

use kantor_testbed::{
    Cluster,
    assets::{self, Binary},
};
use serde_json::Value;
use tempfile::NamedTempFile;

/// A path of the project.
pub fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn helm_program() -> &'static Path {
    static HELM: OnceLock<PathBuf> = OnceLock::new();
    HELM.get_or_init(|| assets::helm().unwrap())
}

fn kubectl_program() -> &'static Path {
    static KUBECTL: OnceLock<PathBuf> = OnceLock::new();
    KUBECTL.get_or_init(|| assets::provide(&[Binary::Kubectl]).unwrap().swap_remove(0))
}

/// Runs helm.
pub fn helm<S: AsRef<str>>(arguments: &[S]) -> Output {
    let home = tempfile::tempdir().unwrap();
    Command::new(helm_program())
        .args(arguments.iter().map(AsRef::as_ref))
        // Nobody's own repositories and plugins.
        .env("HELM_CONFIG_HOME", home.path())
        .env("HELM_CACHE_HOME", home.path())
        .env("HELM_DATA_HOME", home.path())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// What helm prints, if all is well.
pub fn helm_prints<S: AsRef<str>>(arguments: &[S]) -> String {
    let arguments: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
    good(&format!("helm {}", arguments.join(" ")), &helm(&arguments))
}

/// The objects of the chart kantor in namespace `kantor-system`, with further arguments of `helm template`.
pub fn render(arguments: &[String]) -> Vec<Value> {
    let chart = project("charts/kantor").display().to_string();
    let fixed = ["template", "kantor", &chart, "--namespace", "kantor-system"];
    let all: Vec<&str> = fixed.into_iter().chain(arguments.iter().map(String::as_str)).collect();
    documents(&helm_prints(&all))
}

/// What a program printed, if it went well.
#[track_caller]
pub fn good(what: &str, output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{what}:\n{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// The YAML documents of a text.
pub fn documents(text: &str) -> Vec<Value> {
    let all: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    all.into_iter().filter(|document| !document.is_null()).collect()
}

/// The one object of a kind and a name.
#[track_caller]
pub fn the<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let found = objects.iter().find(|o| o["kind"] == kind && o["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}"))
}

/// kubectl and helm on one cluster, as its administrator.
pub struct Administrator(NamedTempFile);

impl Administrator {
    pub fn of(cluster: &Cluster) -> Self {
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(cluster.kubeconfig().to_yaml().as_bytes()).unwrap();
        Self(file)
    }

    pub fn kubectl(&self, arguments: &[&str], input: &str) -> Output {
        let mut child = Command::new(kubectl_program())
            .arg("--kubeconfig")
            .arg(self.0.path())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    /// Server-side applies documents; unknown fields are errors, and so is what the namespace only warns of.
    #[track_caller]
    pub fn apply(&self, text: &str, further: &[&str]) -> String {
        let arguments = ["apply", "--server-side", "--validate=strict", "--warnings-as-errors", "-f", "-"];
        let all: Vec<&str> = arguments.into_iter().chain(further.iter().copied()).collect();
        good("kubectl apply", &self.kubectl(&all, text))
    }

    #[track_caller]
    pub fn helm(&self, arguments: &[&str]) -> String {
        let kubeconfig = self.0.path().display().to_string();
        let all: Vec<&str> = arguments.iter().copied().chain(["--kubeconfig", &kubeconfig]).collect();
        helm_prints(&all)
    }
}

/// `kubectl kustomize` of a folder.
pub fn kustomize(folder: &str) -> String {
    let output = Command::new(kubectl_program()).arg("kustomize").arg(project(folder)).output().unwrap();
    good("kubectl kustomize", &output)
}

/// Says that a test is skipped, where people see it: what is printed by macros is shown of failed tests only.
pub fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}
