//! The keeper: a small shell child that outlives us and ends what we started.
//!
//! Drop alone is not enough: a test process that is killed, aborts, or holds a cluster in a `static` drops
//! nothing. The keeper reads from a pipe whose only writer is this process; when the pipe ends, we are gone, and
//! the keeper kills the guarded processes and removes the guarded folders.

use std::{
    io::{self, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context, Result, ensure};

static KEEPER: Mutex<Option<Child>> = Mutex::new(None);

/// Has the process group of `pid` killed when this process ends.
pub(crate) fn guard_process(pid: u32) -> Result<()> {
    tell(&format!("guard-process {pid}"))
}

/// The process is being ended by us. Call this before reaping it: a reaped pid may belong to somebody else.
pub(crate) fn forget_process(pid: u32) {
    forget(&format!("forget-process {pid}"));
}

/// Has the folder removed when this process ends. Only for folders that this process made.
pub(crate) fn guard_folder(folder: &Path) -> Result<()> {
    tell(&format!("guard-folder {}", one_line(folder)?))
}

/// The folder is gone, or stays on purpose.
pub(crate) fn forget_folder(folder: &Path) {
    if let Ok(path) = one_line(folder) {
        forget(&format!("forget-folder {path}"));
    }
}

fn one_line(folder: &Path) -> Result<&str> {
    let path = folder.to_str().context("a temporary folder needs a UTF-8 path: set TMPDIR to one")?;
    ensure!(
        folder.is_absolute(),
        "the temporary folder {path} is not absolute: set TMPDIR to an absolute path"
    );
    ensure!(
        !path.contains('\n'),
        "the temporary folder's path holds a line break: set TMPDIR to another one"
    );
    Ok(path)
}

fn tell(line: &str) -> Result<()> {
    let mut keeper = lock();
    if keeper.is_none() {
        *keeper = Some(start().context("start `sh`, which ends the testbed's processes when this one dies")?);
    }
    write_line(&mut keeper, line).context("the shell that guards the testbed's processes has been ended")
}

/// Forgetting is advice: if the keeper is gone there is nothing left that could act on the old entry.
fn forget(line: &str) {
    if let Err(error) = write_line(&mut lock(), line) {
        tracing::debug!(%error, line, "the keeper is gone");
    }
}

fn lock() -> MutexGuard<'static, Option<Child>> {
    KEEPER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write_line(keeper: &mut Option<Child>, line: &str) -> io::Result<()> {
    let Some(pipe) = keeper.as_mut().and_then(|child| child.stdin.as_mut()) else {
        return Ok(());
    };
    // One write, so that a kill of this process never leaves half a line.
    pipe.write_all(format!("{line}\n").as_bytes())
}

fn start() -> io::Result<Child> {
    Command::new("sh")
        .args(["-c", include_str!("keeper.sh")])
        // A group of its own: Ctrl-C at the terminal reaches us, not the keeper.
        .process_group(0)
        .current_dir("/")
        .stdin(Stdio::piped())
        // Not the test's own pipes: whoever reads them would wait for the keeper.
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}
