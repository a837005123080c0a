//! A test in networks of its own.

use std::{
    env,
    ffi::OsStr,
    fs,
    future::Future,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    assets::{self, say},
    folder::Folder,
    process::Process,
};

/// Set for the process inside: the folder that it shares with the one outside.
const INSIDE: &str = "KANTOR_TRAFFIC_INSIDE";
/// Set to `1` where a test that cannot run shall fail.
const REQUIRE: &str = "KANTOR_REQUIRE_TRAFFIC";
/// Written inside when the body has ended well.
const DONE: &str = "done";
/// A test that takes longer hangs.
const LIMIT: Duration = Duration::from_mins(20);
/// A user of its own who is root there, and so may make networks and mounts; nothing of it is seen outside.
const NAMESPACES: [&str; 4] = ["--user", "--map-root-user", "--net", "--mount"];

/// Runs `body` in a network of its own, by running the test with this full name (`module::name`) once more in it.
///
/// Where this machine cannot do that, or Envoy cannot be had, the test is skipped with a line on stderr; it fails
/// instead if `KANTOR_REQUIRE_TRAFFIC=1` is set.
pub fn isolated<F: Future<Output = Result<()>>>(test: &str, body: impl FnOnce() -> F) -> Result<()> {
    if let Some(folder) = env::var_os(INSIDE) {
        let runtime = tokio::runtime::Runtime::new().context("start a runtime")?;
        runtime.block_on(async { Box::pin(body()).await })?;
        return fs::write(Path::new(&folder).join(DONE), "").context("tell the process outside");
    }
    if let Err(missing) = possible() {
        if required() {
            return Err(missing.context(format!("{test} has to run, because {REQUIRE}=1 is set")));
        }
        say(&format!("SKIPPED: {test}: {missing:#}"));
        return Ok(());
    }
    run_inside(test)
}

/// A new folder, in that of the process outside: only from there can it be removed, because of the mounts in it.
/// Refuses to go on outside: the addresses and ports would be those of the machine.
pub(super) fn folder() -> Result<PathBuf> {
    let folder = env::var_os(INSIDE)
        .context("gateways need networks of their own: run the test within `gateway::isolated`")?;
    let folder = tempfile::Builder::new().prefix("gateway-").tempdir_in(folder).context("make a folder")?;
    Ok(folder.keep())
}

/// Whether it is a failure if gateways cannot run here.
pub fn required() -> bool {
    env::var_os(REQUIRE).is_some_and(|value| value == "1")
}

/// Whether gateways can run here; otherwise, what is missing.
pub fn possible() -> Result<()> {
    runs("ip", &["-Version"]).context("`ip` (iproute2) is missing")?;
    runs("chroot", &["--version"]).context("`chroot` (coreutils) is missing")?;
    let arguments: Vec<_> = NAMESPACES.into_iter().chain(["ip", "link", "set", "lo", "up"]).collect();
    runs("unshare", &arguments).context(
        "`unshare` (util-linux) cannot make namespaces here: the system has to allow user namespaces to this user",
    )?;
    assets::traffic().map(drop)
}

fn runs(program: &str, arguments: &[&str]) -> Result<()> {
    let output = match Command::new(program).args(arguments).stdin(Stdio::null()).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => bail!("{program} is not on the PATH"),
        output => output.with_context(|| format!("run {program}"))?,
    };
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {}: {}", arguments.join(" "), said.trim());
    Ok(())
}

fn run_inside(test: &str) -> Result<()> {
    let folder = Folder::temporary("traffic")?;
    let log = folder.path().join("output");
    let mut process = Process::spawn("test", &command(test, folder.path())?, log.clone())?;
    let started = Instant::now();
    let status = loop {
        if let Some(status) = process.exit() {
            break status;
        }
        ensure!(
            started.elapsed() < LIMIT,
            "{test} did not end in {} minutes:\n{}",
            LIMIT.as_secs() / 60,
            output(&log)
        );
        thread::sleep(Duration::from_millis(50));
    };
    ensure!(status.success(), "{test} failed in its network ({status}):\n{}", output(&log));
    // Without this, a wrong name would be a test that passes without having run.
    ensure!(folder.path().join(DONE).exists(), "there is no test {test:?}:\n{}", output(&log));
    Ok(())
}

/// Runs this program once more, with these arguments, in a network of its own. What it prints is printed.
pub fn again(arguments: &[&OsStr]) -> Result<()> {
    let folder = Folder::temporary("traffic")?;
    let status = inside(folder.path())?.args(arguments).status().context("run unshare")?;
    ensure!(status.success(), "it failed in its network ({status})");
    Ok(())
}

fn command(test: &str, folder: &Path) -> Result<Command> {
    let mut command = inside(folder)?;
    command.args([test, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"]);
    Ok(command)
}

/// This program in a network of its own.
fn inside(folder: &Path) -> Result<Command> {
    let this = env::current_exe().context("find this program")?;
    let mut command = Command::new("unshare");
    command
        .args(NAMESPACES)
        .args(["sh", "-c", r#"ip link set lo up && exec "$@""#, "inside"])
        .arg(this)
        .env(INSIDE, folder);
    Ok(command)
}

fn output(log: &Path) -> String {
    fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}
