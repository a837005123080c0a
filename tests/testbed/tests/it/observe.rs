//! Looking at processes, folders and the command from outside.

use std::{
    fs,
    io::Read,
    path::Path,
    process::{Child, Command, ExitStatus, Output, Stdio},
    time::{Duration, Instant},
};

use kantor_testbed::{Cluster, CrdBundle};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::sync::OnceCell;

/// Long enough for a loaded machine: a passing test never waits for it.
pub const LIMIT: Duration = Duration::from_secs(90);

/// A cluster with everything, shared by the tests that only add objects of their own. The keeper ends it.
pub async fn shared_cluster() -> &'static Cluster {
    static SHARED: OnceCell<Cluster> = OnceCell::const_new();
    let start = || {
        let builder = Cluster::builder().name("shared").controllers(true).scheduler(true);
        builder.nodes(2).crds(&CrdBundle::ALL).start()
    };
    SHARED.get_or_try_init(start).await.unwrap()
}

/// The `kantor-testbed` command with its temporary files in `tmp`.
pub fn testbed(tmp: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kantor-testbed"));
    command.env("TMPDIR", tmp);
    command
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits for a condition outside of tokio.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LIMIT, "waited {} s until {what}", LIMIT.as_secs());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A command in the background that a failing test does not leave behind.
pub struct Background(Child);

impl Background {
    pub fn start(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::null()).spawn().unwrap())
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// How it ended, once it did.
    pub fn exit(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("the process ends", || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// What it said on stderr, once it ended; for a command with a pipe there.
    pub fn said(&mut self) -> String {
        let mut text = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// True if the process runs. A dead one that nobody has reaped yet does not run.
pub fn runs(pid: u32) -> bool {
    if let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) {
        return !stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'));
    }
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).unwrap();
    !Path::new("/proc/self/stat").exists() && test_kill_process(pid).is_ok()
}

pub fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

/// The pids in a session's state file, once everything is up: the holder's first.
pub fn pids_when_ready(session: &Path) -> Vec<u32> {
    let mut pids = Vec::new();
    wait_until("the state file says ready", || {
        let Ok(text) = fs::read(session.join("state.json")) else { return false };
        let Ok(state) = serde_json::from_slice::<serde_json::Value>(&text) else { return false };
        let processes =
            state["clusters"].as_array().unwrap().iter().flat_map(|c| c["processes"].as_array().unwrap());
        pids = [&state["pid"]].into_iter().chain(processes.map(|p| &p[1])).map(pid).collect();
        state["ready"] == true
    });
    assert!(pids.len() > 1, "no clusters in the state file");
    pids
}

fn pid(value: &serde_json::Value) -> u32 {
    u32::try_from(value.as_u64().unwrap()).unwrap()
}
