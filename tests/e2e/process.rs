//! The operator as a process: probes, waiting for its kinds, ending.

use std::{path::Path, process::Command};

use k8s_openapi::api::core::v1::Namespace;
use kantor_api::{Organization, organization::OrganizationSpec};
use kantor_testbed::{
    proxy::{Action, Fault, Match, Verb},
    wait::{self, Seen},
};

use crate::support::{PATIENCE, Stage, control_plane, is_ready};

#[tokio::test(flavor = "multi_thread")]
async fn without_its_custom_resources_the_operator_waits_and_says_so() {
    let stage = Stage::on(control_plane().await).await;
    let body = wait::until("readiness names the missing kind", PATIENCE, || async {
        let (status, body) = stage.operator.get("/readyz").await?;
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
    assert_eq!(stage.operator.get("/livez").await.unwrap().0, 200);

    stage.control_plane.apply_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("crds")).await.unwrap();
    stage.operator.ready().await.unwrap();
    let (status, metrics) = stage.operator.get("/metrics").await.unwrap();
    assert_eq!(status, 200);
    assert!(metrics.contains("kantor_build_info"), "{metrics}");
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_in_flight_is_finished_before_the_operator_ends() {
    let stage = Stage::start().await;
    let held = stage
        .proxy
        .fault(Fault::when(Match::new().verb(Verb::Create).resource("namespaces")).then(Action::HoldBefore));
    stage.create(&Organization::new("acme", OrganizationSpec {})).await;
    held.await_hit(PATIENCE).await.unwrap();

    stage.operator.terminate().unwrap();
    wait::until("readiness says that it is ending", PATIENCE, || async {
        let (status, body) = stage.operator.get("/readyz").await?;
        Ok(if status == 503 && body.contains("ending") { Seen::Done(()) } else { Seen::NotYet(body) })
    })
    .await
    .unwrap();
    assert_eq!(stage.operator.get("/livez").await.unwrap().0, 200);

    held.release();
    let exit = stage.operator.ended().await.unwrap();
    assert!(exit.success(), "{exit}\n{}", stage.operator.log());
    stage.until::<Namespace, ()>("the namespace was made", "acme", |ns| ns.map(|_| ())).await;
    stage
        .until("the status was written", "acme", |o: Option<&Organization>| {
            o.filter(|o| is_ready(*o)).map(|_| ())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_the_operator_at_once() {
    let stage = Stage::start().await;
    let held = stage
        .proxy
        .fault(Fault::when(Match::new().verb(Verb::Create).resource("namespaces")).then(Action::HoldBefore));
    stage.create(&Organization::new("acme", OrganizationSpec {})).await;
    held.await_hit(PATIENCE).await.unwrap();
    stage.operator.terminate().unwrap();
    wait::until("the first signal was taken", PATIENCE, || async {
        let log = stage.operator.log();
        Ok(if log.contains("asked to end") { Seen::Done(()) } else { Seen::NotYet(log) })
    })
    .await
    .unwrap();
    stage.operator.terminate().unwrap();
    let exit = stage.operator.ended().await.unwrap();
    assert_eq!(exit.code(), Some(130));
}

/// Runs the command as a user would.
fn kantor(arguments: &[&str]) -> (bool, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_kantor")).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[test]
fn bad_arguments_are_refused_with_what_was_expected() {
    for (arguments, expected) in [
        (
            &["controller", "--kubeconfig", "/does/not/exist"][..],
            "cannot read the kubeconfig /does/not/exist",
        ),
        (&["controller", "--listen", "nonsense"], "invalid socket address"),
        (&["controller", "--write-timeout", "0"], "1..=600"),
        (&["controller", "--log", "a=b=c"], "--log"),
        (&["controller", "--log-format", "xml"], "possible values: text, json"),
        (&["controller", "--context", "x"], "--kubeconfig"),
        (&["nonsense"], "unrecognized subcommand"),
    ] {
        let (success, _, stderr) = kantor(arguments);
        assert!(!success, "{arguments:?}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
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
