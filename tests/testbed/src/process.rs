//! Child processes that never outlive us.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

use anyhow::{Context, Result, ensure};
use rustix::{
    io::retry_on_intr,
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid},
};

use crate::keeper;

/// The child waits for a line before it becomes the program: until the keeper knows the pid, our death (the end of
/// the pipe) ends it.
const WAIT_FOR_KEEPER: &str = r#"read -r _ && exec "$@" </dev/null"#;

/// A running child with its own process group and log file. Dropping it kills the group.
pub(crate) struct Process {
    name: String,
    log: PathBuf,
    child: Child,
    exit: Option<ExitStatus>,
}

impl Process {
    /// Starts `command` with its output appended to `log`.
    pub(crate) fn spawn(name: &str, command: &Command, log: PathBuf) -> Result<Self> {
        let output = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("open the log file {}", log.display()))?;
        let mut shell = Command::new("sh");
        shell.args(["-c", WAIT_FOR_KEEPER, name]).arg(command.get_program()).args(command.get_args());
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => shell.env(key, value),
                None => shell.env_remove(key),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            shell.current_dir(folder);
        }
        let child = shell
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(output.try_clone().context("duplicate a file handle")?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("start {name}"))?;
        let mut process = Self { name: name.to_owned(), log, child, exit: None };
        keeper::guard_process(process.child.id())?;
        let mut start = process.child.stdin.take().context("a child without its pipe")?;
        start.write_all(b"start\n").with_context(|| format!("start {name}"))?;
        Ok(process)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// How the process ended, if it did.
    pub(crate) fn exit(&mut self) -> Option<ExitStatus> {
        if self.exit.is_none()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            self.exit = Some(status);
            keeper::forget_process(self.child.id());
        }
        self.exit
    }

    /// Sends a signal to the process and all it started.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_child(&self.child);
        kill_process_group(pid, signal).with_context(|| format!("send {signal:?} to {}", self.name))
    }

    /// Stops the process in its tracks. When this returns, none of its threads runs any more: the signal alone takes a while
    /// to reach them on a busy machine, and they go on until then.
    pub(crate) fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        // Not taken, only looked at: how it ended is for `exit` to hear.
        let stopped_or_ended = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let this = WaitId::Pid(Pid::from_child(&self.child));
        let status = retry_on_intr(|| waitid(this.clone(), stopped_or_ended))
            .with_context(|| format!("wait for {} to stop", self.name))?;
        ensure!(status.is_some_and(|status| status.stopped()), "{} has ended", self.name);
        Ok(())
    }

    /// Lets a paused process go on.
    pub(crate) fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// The last lines that the process wrote.
    pub(crate) fn log_tail(&self) -> String {
        tail(&self.log)
    }

    fn end(&mut self) -> io::Result<()> {
        if self.exit().is_some() {
            return Ok(());
        }
        // SIGTERM would make kube-apiserver drain for a minute, and a stopped process would not even see it.
        kill_process_group(Pid::from_child(&self.child), Signal::KILL)?;
        keeper::forget_process(self.child.id());
        self.exit = Some(self.child.wait()?);
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(process = self.name, %error, "cannot end a process");
        }
    }
}

/// The last lines of a log file, for an error message.
pub(crate) fn tail(log: &Path) -> String {
    const LINES: usize = 25;
    let Ok(bytes) = fs::read(log) else {
        return format!("(no log at {})", log.display());
    };
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use std::{fs, process::Command};

    use super::Process;
    use crate::folder::Folder;

    /// `R`, `S`, `T`, … as the kernel tells it.
    fn state(process: &Process) -> char {
        let stat = fs::read_to_string(format!("/proc/{}/stat", process.pid())).unwrap();
        stat.rsplit(") ").next().unwrap().chars().next().unwrap()
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_paused_process_has_stopped_also_on_a_busy_machine_and_goes_on_when_it_is_resumed() {
        let folder = Folder::temporary("busy").unwrap();
        // More than there are processors: most of them wait for one, and so does the signal.
        let busy: Vec<Process> = (0..16)
            .map(|n| {
                let mut command = Command::new("sh");
                command.args(["-c", "while :; do :; done"]);
                Process::spawn("busy", &command, folder.path().join(n.to_string())).unwrap()
            })
            .collect();
        for process in &busy {
            process.pause().unwrap();
            assert_eq!(state(process), 'T');
            process.resume().unwrap();
            assert_ne!(state(process), 'T');
        }
        let mut ended = Process::spawn("true", &Command::new("true"), folder.path().join("true")).unwrap();
        while ended.exit().is_none() {
            std::thread::yield_now();
        }
        assert!(ended.pause().is_err());
    }
}
