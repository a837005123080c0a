//! The `kantor-testbed` command.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};

use kantor_testbed::assets::Binary;

use crate::observe::{is_empty, pids_when_ready, runs, stderr, stdout, testbed};

/// Ends a detached testbed that a failing test would leave behind.
struct Down<'a>(&'a Path, &'a Path);

impl Drop for Down<'_> {
    fn drop(&mut self) {
        let _ = testbed(self.0).args(["down", "--dir"]).arg(self.1).output();
    }
}

#[test]
fn a_detached_testbed_is_seen_by_status_and_ended_by_down() {
    let home = tempfile::tempdir().unwrap();
    let (tmp, session) = (home.path().join("tmp"), home.path().join("session"));
    fs::create_dir(&tmp).unwrap();
    let run = |arguments: &[&str]| -> Output {
        testbed(&tmp).args(arguments).arg("--dir").arg(&session).output().unwrap()
    };
    let _down = Down(&tmp, &session);
    let up = run(&["up", "--planes", "1", "--nodes", "1", "--detach"]);
    assert!(up.status.success(), "{}", stderr(&up));
    let pids = pids_when_ready(&session);
    assert!(pids.iter().all(|pid| runs(*pid)));
    for name in ["control-plane", "plane-1"] {
        assert!(stdout(&up).contains(name) && stderr(&up).contains(&format!("{name} is ready")), "{up:?}");
        let mode = fs::metadata(session.join(format!("{name}.kubeconfig"))).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let nodes = Command::new(Binary::Kubectl.path().unwrap())
        .arg("--kubeconfig")
        .arg(session.join("plane-1.kubeconfig"))
        .args(["get", "nodes", "-o", "name"])
        .output()
        .unwrap();
    assert_eq!(stdout(&nodes), "node/node-1\n", "{}", stderr(&nodes));

    let status = run(&["status"]);
    assert!(status.status.success() && stdout(&status).contains("plane-1 answers"), "{status:?}");
    for second in [run(&["up"]), run(&["up", "--detach"])] {
        assert!(!second.status.success());
        assert!(stderr(&second).contains("a testbed runs in"), "{}", stderr(&second));
    }
    assert!(runs(pids[0]), "a second `up` ended the first");

    let down = run(&["down"]);
    assert!(down.status.success(), "{}", stderr(&down));
    assert!(!pids.iter().any(|pid| runs(*pid)));
    assert!(is_empty(&tmp) && !session.exists());
    assert!(run(&["down"]).status.success(), "a second `down` is no error");
    let status = run(&["status"]);
    assert!(!status.status.success() && stderr(&status).contains("nothing runs"), "{status:?}");
}

#[test]
fn down_keeps_a_folder_and_files_that_are_not_its_own() {
    let home = tempfile::tempdir().unwrap();
    let (tmp, session) = (home.path().join("tmp"), home.path().join("session"));
    fs::create_dir(&tmp).unwrap();
    fs::create_dir(&session).unwrap();
    fs::write(session.join("notes.kubeconfig"), "mine").unwrap();
    let run = |arguments: &[&str]| testbed(&tmp).args(arguments).arg("--dir").arg(&session).output().unwrap();
    let _down = Down(&tmp, &session);
    let up = run(&["up", "--planes", "0", "--detach"]);
    assert!(up.status.success(), "{}", stderr(&up));
    assert!(run(&["down"]).status.success());
    let left: Vec<_> = fs::read_dir(&session).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["notes.kubeconfig"]);
}
