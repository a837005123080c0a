//! Programs that make the assets, run with their output at hand.

use std::{
    ffi::OsStr,
    fs,
    process::{Command, ExitStatus},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, anyhow};

use super::progress::Step;
use crate::{
    folder::Folder,
    process::{self, Process},
};

/// Runs a command to its end, telling its progress under `title`; an error shows the end of its output.
pub(super) fn run(command: &Command, title: String) -> Result<String> {
    let (status, output) = attempt(command, title)?;
    if status.success() {
        return Ok(output);
    }
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let words: Vec<_> = words.map(OsStr::to_string_lossy).collect();
    Err(anyhow!("`{}` failed ({status}):\n{output}", words.join(" ")))
}

/// Runs a command to its end, telling its progress under `title`, and returns its output: the end of it, if it failed.
pub(super) fn attempt(command: &Command, title: String) -> Result<(ExitStatus, String)> {
    let folder = Folder::temporary("run")?;
    let log = folder.path().join("output");
    let program = command.get_program().to_string_lossy();
    let mut step = Step::start(title);
    let status = wait(Process::spawn(&program, command, log.clone())?, &mut step);
    step.done(if status.success() { "done" } else { "failed" });
    let output = if status.success() {
        fs::read_to_string(&log).with_context(|| format!("read what {program} wrote"))?
    } else {
        process::tail(&log)
    };
    Ok((status, output))
}

fn wait(mut process: Process, step: &mut Step) -> ExitStatus {
    loop {
        if let Some(status) = process.exit() {
            return status;
        }
        step.tick();
        thread::sleep(Duration::from_millis(100));
    }
}
