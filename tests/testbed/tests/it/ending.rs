//! Nothing outlives its owner, however the owner ends.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Stdio};

use kantor_testbed::{Cluster, assets::Binary};
use rustix::process::Signal;

use crate::observe::{Background, is_empty, pids_when_ready, runs, stderr, testbed, wait_until};

fn program(path: &Path, script: &str) {
    fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn up(tmp: &Path, session: &Path) -> Background {
    Background::start(testbed(tmp).args(["up", "--planes", "0", "--dir"]).arg(session).stderr(Stdio::null()))
}

#[tokio::test]
async fn a_dropped_cluster_leaves_no_process_and_no_folder() {
    let cluster = Cluster::start().await.unwrap();
    let processes = cluster.processes();
    let folder = cluster.folder().to_owned();
    assert_eq!(processes.len(), 2);
    assert!(processes.iter().all(|process| runs(process.pid)) && folder.is_dir());
    drop(cluster);
    assert!(!processes.iter().any(|process| runs(process.pid)), "{processes:?} still run");
    assert!(!folder.exists());
}

#[test]
fn the_kill_of_its_holder_leaves_no_process_and_no_folder() {
    let home = tempfile::tempdir().unwrap();
    let (tmp, session) = (home.path().join("tmp"), home.path().join("session"));
    fs::create_dir(&tmp).unwrap();
    let mut holder = up(&tmp, &session);
    let pids = pids_when_ready(&session);
    assert!(pids.iter().all(|pid| runs(*pid)) && !is_empty(&tmp));

    holder.signal(Signal::KILL);
    holder.exit();
    wait_until("all processes are gone", || !pids.iter().any(|pid| runs(*pid)));
    wait_until("all folders are gone", || is_empty(&tmp));

    // The killed holder could not remove its files: `down` does, and `up` is possible again.
    assert!(session.join("control-plane.kubeconfig").exists());
    let down = testbed(&tmp).args(["down", "--dir"]).arg(&session).output().unwrap();
    assert!(down.status.success(), "{}", stderr(&down));
    assert!(!session.exists());
}

#[test]
fn ctrl_c_during_the_start_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let (tmp, session) = (home.path().join("tmp"), home.path().join("session"));
    fs::create_dir(&tmp).unwrap();
    // A folder that was there before stays.
    fs::create_dir(&session).unwrap();
    let mut holder = up(&tmp, &session);
    wait_until("the first cluster has its folder", || !is_empty(&tmp));
    holder.signal(Signal::INT);
    assert!(!holder.exit().success());
    wait_until("all folders are gone", || is_empty(&tmp));
    assert!(is_empty(&session));
}

#[test]
fn a_process_that_dies_during_the_start_shows_its_last_words() {
    let home = tempfile::tempdir().unwrap();
    let (tmp, assets) = (home.path().join("tmp"), home.path().join("assets"));
    fs::create_dir(&tmp).unwrap();
    fs::create_dir(&assets).unwrap();
    program(&assets.join("kube-apiserver"), "echo my disk is full; exit 3");
    let output = testbed(&tmp)
        .env("KUBEBUILDER_ASSETS", &assets)
        .args(["up", "--planes", "0", "--dir"])
        .arg(home.path().join("session"))
        .output()
        .unwrap();
    assert!(!output.status.success());
    let said = stderr(&output);
    assert!(said.contains("kube-apiserver ended") && said.contains("my disk is full"), "{said}");
    wait_until("all folders are gone", || is_empty(&tmp));
}

#[test]
fn a_port_that_is_taken_meanwhile_is_replaced_by_another() {
    let home = tempfile::tempdir().unwrap();
    let (tmp, assets, session) =
        (home.path().join("tmp"), home.path().join("assets"), home.path().join("session"));
    fs::create_dir(&tmp).unwrap();
    fs::create_dir(&assets).unwrap();
    let real = Binary::KubeApiserver.path().unwrap();
    let once = home.path().join("once");
    let script = format!(
        r#"[ -e {once} ] && exec {real} "$@"
touch {once}
echo "failed to listen on 127.0.0.1: bind: address already in use"
exit 1"#,
        once = once.display(),
        real = real.display(),
    );
    program(&assets.join("kube-apiserver"), &script);
    let mut command = testbed(&tmp);
    command.env("KUBEBUILDER_ASSETS", &assets).args(["up", "--planes", "0", "--dir"]).arg(&session);
    let mut holder = Background::start(command.stderr(Stdio::null()));
    pids_when_ready(&session);
    assert!(once.exists());
    holder.signal(Signal::TERM);
    assert!(holder.exit().success());
}
