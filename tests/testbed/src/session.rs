//! A fleet that other terminals can find: kubeconfigs and a state file in a folder.
//!
//! The process that holds the fleet holds a lock on the folder. So "does one run?" never depends on a pid that may
//! belong to somebody else by now, and a killed holder leaves no lock behind.

use std::{
    fs::{self, File, TryLockError},
    io::{ErrorKind, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde::{Deserialize, Serialize};

use crate::{Cluster, Fleet};

const STATE: &str = "state.json";
/// Where a fleet in the background writes what it has to say.
pub const LOG: &str = "testbed.log";

/// What a session's state file says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    /// The process that holds the fleet.
    pub pid: u32,
    /// True when all clusters are up.
    pub ready: bool,
    /// True if the folder was made for the session, and goes with it.
    made_folder: bool,
    /// The clusters, control plane first; empty during the start.
    pub clusters: Vec<ClusterState>,
    /// The files that the session writes, to be removed at its end.
    files: Vec<String>,
}

/// A cluster of a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClusterState {
    /// Its name.
    pub name: String,
    /// Its API server.
    pub url: String,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    /// Names and ids of its processes.
    pub processes: Vec<(String, u32)>,
}

/// The right to run a fleet in a folder. Dropping it removes the session's files.
pub struct Session {
    folder: PathBuf,
    state: State,
    _lock: File,
}

impl Session {
    /// Takes the folder, or says that a fleet runs there. `names` are the clusters to come.
    pub fn begin(folder: &Path, names: &[String], made_folder: bool) -> Result<Self> {
        let made_folder = make_folder(folder)? || made_folder;
        let lock = take(folder)?;
        // What a killed session left.
        if let Some(old) = read(folder)? {
            remove_files(folder, &old);
        }
        let files = names.iter().map(|name| kubeconfig_name(name)).chain([LOG.to_owned()]).collect();
        let state = State { pid: std::process::id(), ready: false, made_folder, clusters: Vec::new(), files };
        // Recorded before anything runs: `end` finds us during the start too, and a later session our files.
        write(folder, &state)?;
        let folder = folder.canonicalize().with_context(|| format!("find {}", folder.display()))?;
        Ok(Self { folder, state, _lock: lock })
    }

    /// Writes the kubeconfigs and says that the fleet is up.
    pub fn ready(&mut self, fleet: &Fleet) -> Result<&State> {
        self.state.clusters =
            fleet.clusters().map(|cluster| record(&self.folder, cluster)).collect::<Result<_>>()?;
        self.state.ready = true;
        write(&self.folder, &self.state)?;
        Ok(&self.state)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        remove_files(&self.folder, &self.state);
    }
}

/// The state of the session that runs in the folder, if one does.
pub fn running(folder: &Path) -> Result<Option<State>> {
    if !folder.is_dir() || lock(folder)?.is_some() {
        return Ok(None);
    }
    read(folder)
}

/// Says that a fleet runs in the folder, and what to do.
pub fn already_running(folder: &Path) -> String {
    format!(
        "a testbed runs in {0} already: use it (`kantor-testbed status --dir {0}`), end it (`kantor-testbed down \
         --dir {0}`), or choose another folder",
        folder.display()
    )
}

/// Ends the session in the folder, waits until its processes are gone and removes its files. False if none ran.
pub async fn end(folder: &Path) -> Result<bool> {
    const POLITE: Duration = Duration::from_secs(20);
    const LIMIT: Duration = Duration::from_secs(40);
    let started = Instant::now();
    let mut state = None;
    let mut signal = Signal::TERM;
    while folder.is_dir() {
        if let Some(_lock) = lock(folder)? {
            // Its holder is gone. Files are left only if it was killed.
            if let Some(left) = read(folder)? {
                remove_files(folder, &left);
            }
            break;
        }
        if let Some(found) = read(folder)? {
            if state.is_none() || (started.elapsed() > POLITE && signal == Signal::TERM) {
                if state.is_some() {
                    signal = Signal::KILL;
                }
                // The lock is held, so the pid is the holder's.
                if let Some(pid) = i32::try_from(found.pid).ok().and_then(Pid::from_raw) {
                    kill_process(pid, signal).with_context(|| format!("end the process {}", found.pid))?;
                }
            }
            state = Some(found);
        }
        if started.elapsed() > LIMIT {
            bail!("the testbed in {} does not end: look at the process in its state file", folder.display());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let Some(state) = state else { return Ok(false) };
    wait_until_gone(&state).await;
    Ok(true)
}

/// After a kill, the keeper ends the processes a moment later than their holder.
async fn wait_until_gone(state: &State) {
    let started = Instant::now();
    let pids = state.clusters.iter().flat_map(|cluster| &cluster.processes);
    let pids: Vec<_> = pids.filter_map(|(_, pid)| i32::try_from(*pid).ok().and_then(Pid::from_raw)).collect();
    while started.elapsed() < Duration::from_secs(10)
        && pids.iter().any(|pid| test_kill_process(*pid).is_ok())
    {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn make_folder(folder: &Path) -> Result<bool> {
    if folder.is_dir() {
        return Ok(false);
    }
    fs::create_dir_all(folder)
        .with_context(|| format!("make {}: choose another folder with --dir", folder.display()))?;
    Ok(true)
}

/// A look by `running` holds the lock for a moment: only one that stays means that a fleet runs.
fn take(folder: &Path) -> Result<File> {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(1) {
        if let Some(lock) = lock(folder)? {
            return Ok(lock);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    bail!("{}", already_running(folder))
}

/// The folder itself is locked: a lock file that comes and goes could be locked twice.
fn lock(folder: &Path) -> Result<Option<File>> {
    let file = File::open(folder).with_context(|| format!("open {}", folder.display()))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("lock {}", folder.display()));
        }
    }
    // The folder may have been removed and made again since it was opened.
    let same =
        fs::metadata(folder).is_ok_and(|now| file.metadata().is_ok_and(|ours| ours.ino() == now.ino()));
    Ok(same.then_some(file))
}

fn kubeconfig_name(cluster: &str) -> String {
    format!("{cluster}.kubeconfig")
}

fn record(folder: &Path, cluster: &Cluster) -> Result<ClusterState> {
    let kubeconfig = folder.join(kubeconfig_name(cluster.name()));
    write_private(&kubeconfig, &cluster.kubeconfig().to_yaml())?;
    Ok(ClusterState {
        name: cluster.name().to_owned(),
        url: cluster.url().to_owned(),
        kubeconfig,
        processes: cluster.processes().into_iter().map(|process| (process.name, process.pid)).collect(),
    })
}

fn read(folder: &Path) -> Result<Option<State>> {
    let path = folder.join(STATE);
    let text = match fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.with_context(|| format!("read {}", path.display()))?,
    };
    let state = serde_json::from_slice(&text)
        .with_context(|| format!("{} is no state file of this version: remove it", path.display()))?;
    Ok(Some(state))
}

/// Replaces the state file at once: a reader sees the old state or the new one.
fn write(folder: &Path, state: &State) -> Result<()> {
    let partial = folder.join(".state.partial");
    write_private(&partial, &serde_json::to_string_pretty(state)?)?;
    fs::rename(&partial, folder.join(STATE))
        .with_context(|| format!("write the state file in {}", folder.display()))
}

/// Writes a file that only this user can read: it may hold a token.
pub fn write_private(path: &Path, text: &str) -> Result<()> {
    let mut options = File::options();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("write {}", path.display()))?;
    file.write_all(text.as_bytes()).with_context(|| format!("write {}", path.display()))
}

fn remove_files(folder: &Path, state: &State) {
    let names = state.files.iter().map(String::as_str).chain([".state.partial", STATE]);
    for name in names {
        match fs::remove_file(folder.join(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::warn!(file = name, %error, "cannot remove a file of the testbed");
            }
            _ => {}
        }
    }
    if state.made_folder {
        // Not if somebody put files of their own there.
        let _ = fs::remove_dir(folder);
    }
}
