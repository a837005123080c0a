//! The subcommands.

use std::{
    fs::{self, File},
    io::{Read, Write, stderr, stdout},
    path::Path,
    process::{Child, Command, ExitCode, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use kantor_testbed::{
    CrdBundle, Fleet,
    assets::{self, Binary},
    fleet::FleetSize,
    session::{self, ClusterState, Session, State},
};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use crate::Up;

/// A line for the person at the terminal; results go to stdout.
pub(crate) fn say(line: &str) {
    let _ = writeln!(stderr(), "kantor-testbed: {line}");
}

pub(crate) async fn assets(purpose: assets::Purpose) -> Result<ExitCode> {
    let folder = tokio::task::spawn_blocking(move || purpose.provide()).await??;
    writeln!(stdout(), "{}", folder.display())?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn up(up: Up) -> Result<ExitCode> {
    if up.detach {
        return detach(&up).await;
    }
    if up.background.is_some() {
        // Away from the terminal: its end must not end us. Fails only for a process group leader, which we are not.
        rustix::process::setsid().context("leave the terminal")?;
    }
    let mut end = EndSignals::listen()?;
    let size = FleetSize { planes: up.planes, nodes: up.nodes, crds: CrdBundle::ALL.to_vec() };
    let mut session = Session::begin(&up.place.dir, &size.names(), up.background.unwrap_or(false))?;
    let fleet = tokio::select! {
        fleet = Fleet::start(&size, &|line| say(line)) => fleet?,
        () = end.received() => {
            say("ended during the start; nothing is left");
            return Ok(ExitCode::FAILURE);
        }
    };
    let state = session.ready(&fleet)?;
    show(state)?;
    say("everything is up; end it with Ctrl-C here or `kantor-testbed down` elsewhere");
    end.received().await;
    say("ending");
    drop(fleet);
    drop(session);
    Ok(ExitCode::SUCCESS)
}

/// Ctrl-C, `down`, or the end of the terminal. Made once per command: a signal between two listeners would be lost.
struct EndSignals([tokio::signal::unix::Signal; 3]);

impl EndSignals {
    fn listen() -> Result<Self> {
        let listen = |kind| signal(kind).context("listen to signals");
        Ok(Self([
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
            listen(SignalKind::hangup())?,
        ]))
    }

    async fn received(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

/// For a command that listens once, from its start to its end.
pub(crate) async fn asked_to_end() {
    match EndSignals::listen() {
        Ok(mut end) => end.received().await,
        // Without listeners the signals end us at once, and the keeper does the rest.
        Err(_) => std::future::pending().await,
    }
}

/// Runs `up` in a process of its own, shows its progress, and returns when it is up.
async fn detach(up: &Up) -> Result<ExitCode> {
    let mut end = EndSignals::listen()?;
    let folder = &up.place.dir;
    if session::running(folder)?.is_some() {
        bail!("{}", session::already_running(folder));
    }
    let made_folder = !folder.is_dir();
    fs::create_dir_all(folder).with_context(|| format!("make {}: choose another --dir", folder.display()))?;
    let path = folder.join(session::LOG);
    let log = File::create(&path).with_context(|| format!("write {}", path.display()))?;
    let mut progress = File::open(&path).with_context(|| format!("read {}", path.display()))?;
    let mut child = Command::new(std::env::current_exe().context("find this program")?)
        .arg("up")
        .args(["--planes", &up.planes.to_string(), "--nodes", &up.nodes.to_string()])
        .arg("--dir")
        .arg(folder)
        .args(["--background", &made_folder.to_string()])
        .stdin(Stdio::null())
        // Its table would come too late: ours is printed from the state file.
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .context("start the process that stays")?;
    let state = tokio::select! {
        state = follow(folder, &mut child, &mut progress) => state?,
        () = end.received() => {
            if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                kill_process(pid, Signal::TERM).context("end the process in the background")?;
            }
            child.wait().context("wait for the process in the background")?;
            return Ok(ExitCode::FAILURE);
        }
    };
    show(&state)?;
    say(&format!("end it with `kantor-testbed down --dir {}`", folder.display()));
    Ok(ExitCode::SUCCESS)
}

/// Copies the child's progress to our terminal until it is up.
async fn follow(folder: &Path, child: &mut Child, progress: &mut File) -> Result<State> {
    loop {
        let ended = child.try_wait().context("watch the process in the background")?;
        let mut text = String::new();
        progress.read_to_string(&mut text).context("read the log")?;
        let _ = stderr().write_all(text.as_bytes());
        if let Some(status) = ended {
            bail!("the process in the background ended ({status}); what it said is above");
        }
        if let Some(state) = session::running(folder)?
            && state.ready
            && state.pid == child.id()
        {
            return Ok(state);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

pub(crate) async fn down(folder: &Path) -> Result<ExitCode> {
    if session::end(folder).await? {
        say("ended; nothing is left");
    } else {
        say(&format!("nothing runs in {}", folder.display()));
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn status(folder: &Path) -> Result<ExitCode> {
    let Some(state) = session::running(folder)? else {
        say(&format!("nothing runs in {}; start with `kantor-testbed up`", folder.display()));
        return Ok(ExitCode::FAILURE);
    };
    if !state.ready {
        say(&format!("the process {} is still starting the clusters", state.pid));
        return Ok(ExitCode::FAILURE);
    }
    show(&state)?;
    let mut code = ExitCode::SUCCESS;
    for cluster in &state.clusters {
        match health(cluster).await {
            Ok(()) => writeln!(stdout(), "{} answers", cluster.name)?,
            Err(error) => {
                code = ExitCode::FAILURE;
                writeln!(stdout(), "{} does not answer: {error:#}", cluster.name)?;
            }
        }
    }
    Ok(code)
}

async fn health(cluster: &ClusterState) -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(5);
    let kubeconfig = Kubeconfig::read_from(&cluster.kubeconfig).context("read the kubeconfig")?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.proxy_url = None;
    let client = Client::try_from(config)?;
    tokio::time::timeout(PATIENCE, client.apiserver_version()).await.context("no answer in 5 s")??;
    Ok(())
}

/// What runs where, and how to look at it.
fn show(state: &State) -> Result<()> {
    let processes = |cluster: &ClusterState| {
        let list: Vec<_> = cluster.processes.iter().map(|(name, pid)| format!("{name} {pid}")).collect();
        list.join(", ")
    };
    let mut rows = vec![["NAME", "URL", "KUBECONFIG", "PROCESSES"].map(ToOwned::to_owned)];
    rows.extend(state.clusters.iter().map(|cluster| {
        [
            cluster.name.clone(),
            cluster.url.clone(),
            cluster.kubeconfig.display().to_string(),
            processes(cluster),
        ]
    }));
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or_default();
    let (name, url, kubeconfig) = (width(0), width(1), width(2));
    let mut out = stdout().lock();
    for row in &rows {
        writeln!(out, "{:name$}  {:url$}  {:kubeconfig$}  {}", row[0], row[1], row[2], row[3])?;
    }
    if let Some(cluster) = state.clusters.last() {
        let kubectl = Binary::Kubectl.path()?;
        writeln!(out, "\n{} --kubeconfig {} get nodes", kubectl.display(), cluster.kubeconfig.display())?;
    }
    Ok(())
}
