//! The operator as a process: probes, waiting for its kinds, ending.

use std::{fs, path::Path, process::Command};

use k8s_openapi::{
    api::core::v1::Namespace, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kantor_api::{Organization, organization::OrganizationSpec};
use kantor_testbed::{
    Cluster,
    proxy::{Action, Fault, Match, Proxy, Verb},
    wait::{self, Seen},
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::support::{OperatorFixture, PATIENCE, control_plane, is_ready, operator_with, own_control_plane};

#[tokio::test(flavor = "multi_thread")]
async fn without_its_custom_resources_the_operator_waits_and_says_so() {
    let control = OperatorFixture::on(own_control_plane().await).await;
    let body = wait::until("readiness names the missing kind", PATIENCE, || async {
        let (status, body) = control.operator.get("/readyz").await?;
        Ok(if status == 503 && body.contains("not installed") {
            Seen::Done(body)
        } else {
            Seen::NotYet(body)
        })
    })
    .await
    .unwrap();
    assert!(body.contains("organizations.openchoreo.dev"), "{body}");
    assert!(body.contains("kantor crds"), "{body}");
    assert_eq!(control.operator.get("/livez").await.unwrap().0, 200);

    control.control_plane.apply_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("crds")).await.unwrap();
    control.operator.ready().await.unwrap();
    let (status, metrics) = control.operator.get("/metrics").await.unwrap();
    assert_eq!(status, 200);
    assert!(metrics.contains("kantor_build_info"), "{metrics}");
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_in_flight_is_finished_before_the_operator_ends() {
    let control = OperatorFixture::start().await;
    let held = control
        .proxy
        .fault(Fault::when(Match::new().verb(Verb::Create).resource("namespaces")).then(Action::HoldBefore));
    control.create(&Organization::new("acme", OrganizationSpec {})).await;
    held.await_hit(PATIENCE).await.unwrap();

    control.operator.terminate().unwrap();
    wait::until("readiness says that it is ending", PATIENCE, || async {
        let (status, body) = control.operator.get("/readyz").await?;
        Ok(if status == 503 && body.contains("ending") { Seen::Done(()) } else { Seen::NotYet(body) })
    })
    .await
    .unwrap();
    assert_eq!(control.operator.get("/livez").await.unwrap().0, 200);

    held.release();
    let exit = control.operator.ended().await.unwrap();
    assert!(exit.success(), "{exit}\n{}", control.operator.log());
    control.until::<Namespace, ()>("the namespace was made", "acme", |ns| ns.map(|_| ())).await;
    control
        .until("the status was written", "acme", |o: Option<&Organization>| {
            o.filter(|o| is_ready(*o)).map(|_| ())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_does_not_end_is_given_up_after_a_while() {
    let control_plane = control_plane().await;
    let proxy = Proxy::start(&control_plane).unwrap();
    let operator = operator_with(&control_plane, &proxy, &["--shutdown-timeout=1s"]).await;
    operator.ready().await.unwrap();
    let held = proxy
        .fault(Fault::when(Match::new().verb(Verb::Create).resource("namespaces")).then(Action::HoldBefore));
    let organizations: Api<Organization> = Api::all(control_plane.client());
    let acme = Organization::new("acme", OrganizationSpec {});
    organizations.create(&PostParams::default(), &acme).await.unwrap();
    held.await_hit(PATIENCE).await.unwrap();
    operator.terminate().unwrap();
    let exit = operator.ended().await.unwrap();
    assert!(exit.success(), "{exit}\n{}", operator.log());
    assert!(operator.log().contains("given up"), "{}", operator.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_resources_that_are_too_old_are_refused_until_they_are_new() {
    let control_plane = own_control_plane().await;
    let crds = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
    control_plane.apply_dir(&crds).await.unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(control_plane.client());
    let name = "dataplanes.openchoreo.dev";
    let older = json!([
        {"op": "remove", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/releasePolicy"}
    ]);
    let older: Patch<()> = Patch::Json(serde_json::from_value(older).unwrap());
    definitions.patch(name, &PatchParams::default(), &older).await.unwrap();
    let control = OperatorFixture::on(control_plane).await;
    let body = wait::until("readiness names the old kind", PATIENCE, || async {
        let (status, body) = control.operator.get("/readyz").await?;
        let named = status == 503 && body.contains("older than this operator needs");
        Ok(if named { Seen::Done(body) } else { Seen::NotYet(body) })
    })
    .await
    .unwrap();
    assert!(body.contains(name) && body.contains("spec.releasePolicy"), "{body}");
    let writes = control.proxy.requests().writes();
    assert!(writes.is_empty(), "{writes}");
    let (success, versions, said) = kantor_at(&control.control_plane, &["version", "--cluster"]);
    assert!(success && versions.contains("dataplanes.openchoreo.dev: older"), "{versions}{said}");
    assert!(versions.contains("projects.openchoreo.dev: fits"), "{versions}");

    control.control_plane.apply_dir(&crds).await.unwrap();
    control.operator.ready().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_the_operator_at_once() {
    let control = OperatorFixture::start().await;
    let held = control
        .proxy
        .fault(Fault::when(Match::new().verb(Verb::Create).resource("namespaces")).then(Action::HoldBefore));
    control.create(&Organization::new("acme", OrganizationSpec {})).await;
    held.await_hit(PATIENCE).await.unwrap();
    control.operator.terminate().unwrap();
    wait::until("the first signal was taken", PATIENCE, || async {
        let log = control.operator.log();
        Ok(if log.contains("asked to end") { Seen::Done(()) } else { Seen::NotYet(log) })
    })
    .await
    .unwrap();
    control.operator.terminate().unwrap();
    let exit = control.operator.ended().await.unwrap();
    assert_eq!(exit.code(), Some(130));
}

/// Runs the command as a user would.
fn kantor(arguments: &[&str]) -> (bool, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_kantor")).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

/// Runs the command against a cluster.
fn kantor_at(cluster: &Cluster, arguments: &[&str]) -> (bool, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    fs::write(&file, cluster.kubeconfig().to_yaml()).unwrap();
    let file = file.to_str().unwrap();
    kantor(&[arguments, &["--kubeconfig", file]].concat())
}

#[test]
fn logs_have_colours_where_somebody_sees_them_or_wants_them() {
    let log = |arguments: &[&str]| {
        let whole = [&["controller", "--kubeconfig", "/does/not/exist"], arguments].concat();
        let (_, _, log) = kantor(&whole);
        assert!(log.contains("kantor starts"), "{log}");
        log.contains('\u{1b}')
    };
    assert!(!log(&[]), "this is a pipe");
    assert!(log(&["--log-color=always"]));
    assert!(!log(&["--log-color=never"]));
    assert!(!log(&["--log-color=always", "--log-format=json"]));
}

#[test]
fn bad_arguments_are_refused_with_what_was_expected() {
    for (arguments, expected) in [
        (
            &["controller", "--kubeconfig", "/does/not/exist"][..],
            "cannot read the kubeconfig /does/not/exist",
        ),
        (&["controller", "--listen", "nonsense"], "invalid socket address"),
        (&["controller", "--write-timeout", "0"], "from 1s to 10m"),
        (&["controller", "--log", "a=b=c"], "--log"),
        (&["controller", "--log-format", "xml"], "possible values: text, json"),
        (&["controller", "--context", "x"], "--kubeconfig"),
        (&["controller", "--controllers", "releases"], "expected one of organization"),
        (&["controller", "--watch-namespaces", "acme,Globex"], "lower-case"),
        (&["controller", "--lease-renewal", "20s"], "--lease-duration"),
        (&["controller", "--config", "/does/not/exist"], "cannot read the config file"),
        (&["config"], "check"),
        (&["nonsense"], "unrecognized subcommand"),
    ] {
        let (success, _, stderr) = kantor(arguments);
        assert!(!success, "{arguments:?}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
    }
}

#[test]
fn settings_are_shown_with_where_they_are_from() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kantor.yaml");
    std::fs::write(&file, "planeQps: 7\nplaneBurst: 8\ncontrollers: [release, deployment]\n").unwrap();
    let check = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_kantor"))
            .args(["config", "check", "--config", file.to_str().unwrap()])
            .args(arguments)
            .env("KANTOR_PLANE_BURST", "9")
            .env("KANTOR_PLANE_CONCURRENCY", "10")
            .output()
            .unwrap()
    };
    let output = check(&["--plane-concurrency=11"]);
    let shown = String::from_utf8(output.stdout).unwrap();
    let shown: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    for expected in [
        ["plane-qps", "file", "7"],
        ["plane-burst", "environment", "9"],
        ["plane-concurrency", "flag", "11"],
        ["plane-timeout", "default", "10s"],
        ["controllers", "file", "release,deployment"],
    ] {
        assert!(shown.contains(&expected.to_vec()), "{expected:?}: {shown:#?}");
    }
    std::fs::write(&file, "planeQPS: 7\n").unwrap();
    let output = check(&[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("it is written planeQps"), "{said}");
}

#[test]
fn the_version_names_what_was_built() {
    let (success, text, _) = kantor(&["version"]);
    assert!(
        success && text.contains(env!("CARGO_PKG_VERSION")) && text.contains("openchoreo.dev/v1alpha1"),
        "{text}"
    );
    let (success, json, _) = kantor(&["version", "--output", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(success && json["kantor"] == env!("CARGO_PKG_VERSION"), "{json}");
    // Of the library that decides it.
    assert_eq!(json["kubernetesApi"], "v1.36");
}

#[test]
fn shells_can_complete_the_command() {
    for shell in ["bash", "zsh", "fish"] {
        let (success, script, _) = kantor(&["completion", shell]);
        assert!(success && script.contains("plane-qps"), "{shell}: {script}");
    }
}

#[test]
fn the_definitions_are_printed_or_written_one_file_per_kind() {
    let (success, printed, _) = kantor(&["crds"]);
    assert!(success);
    assert_eq!(printed.matches("kind: CustomResourceDefinition").count(), 14);
    let folder = tempfile::tempdir().unwrap();
    let (success, ..) = kantor(&["crds", "--dir", folder.path().join("new").to_str().unwrap()]);
    assert!(success);
    let organization = folder.path().join("new/openchoreo.dev_organizations.yaml");
    assert!(printed.contains(&std::fs::read_to_string(organization).unwrap()));
}
