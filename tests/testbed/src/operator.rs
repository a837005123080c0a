//! The operator under test: the shipped binary as a child process.

use std::{
    ffi::OsString,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, StatusCode, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use rustix::process::Signal;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::{
    KubeconfigSpec,
    folder::Folder,
    process::Process,
    wait::{self, Seen},
};

/// How long the operator may take to start, to become ready, to end.
const PATIENCE: Duration = Duration::from_mins(1);

/// A running operator. Dropping it kills it.
pub struct Operator {
    process: Mutex<Process>,
    log: PathBuf,
    address: SocketAddr,
    // Goes last: the process has its log in it.
    _folder: Folder,
}

impl Operator {
    /// Starts `program`, the `kantor` binary, against the control plane of `kubeconfig`, with further arguments of
    /// `kantor controller`. Returns when it serves its probes; see [`Operator::ready`].
    pub async fn start<A: Into<OsString>>(
        program: &Path,
        kubeconfig: &KubeconfigSpec,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Self> {
        let folder = Folder::temporary("operator")?;
        let file = folder.path().join("kubeconfig");
        fs::write(&file, kubeconfig.to_yaml()).context("write the operator's kubeconfig")?;
        let log = folder.path().join("operator.log");
        let mut command = Command::new(program);
        // Whoever comes after one that was killed would have to wait for the end of its lease. An argument goes before it.
        command.env("KANTOR_LEADER_ELECT", "false");
        command
            .args(["controller", "--listen", "127.0.0.1:0", "--log-format", "json", "--kubeconfig"])
            .arg(file);
        command.args(arguments.into_iter().map(Into::into));
        let mut process = Process::spawn("kantor", &command, log.clone())?;
        let address = wait::until("the operator listens", PATIENCE, || {
            let seen = match (listening(&log), process.exit()) {
                (Some(address), _) => Ok(Seen::Done(address)),
                (None, Some(status)) => {
                    Err(anyhow::anyhow!("the operator ended with {status}:\n{}", process.log_tail()))
                }
                (None, None) => Ok(Seen::NotYet(process.log_tail())),
            };
            std::future::ready(seen)
        })
        .await?;
        Ok(Self { process: Mutex::new(process), log, address, _folder: folder })
    }

    /// Waits until the operator says that it is ready.
    pub async fn ready(&self) -> Result<()> {
        wait::until("the operator is ready", PATIENCE, || async {
            let (status, body) = self.get("/readyz").await?;
            Ok(if status == StatusCode::OK { Seen::Done(()) } else { Seen::NotYet(body) })
        })
        .await
    }

    /// Gets `path` from the operator's server.
    pub async fn get(&self, path: &str) -> Result<(StatusCode, String)> {
        self.send(Method::GET, path, "").await
    }

    /// Puts `body` to `path` of the operator's server.
    pub async fn put(&self, path: &str, body: &str) -> Result<(StatusCode, String)> {
        self.send(Method::PUT, path, body).await
    }

    async fn send(&self, method: Method, path: &str, body: &str) -> Result<(StatusCode, String)> {
        let stream = TcpStream::connect(self.address).await.context("connect to the operator")?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.address.to_string())
            .body(Full::new(Bytes::copy_from_slice(body.as_bytes())))?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.lock().pid()
    }

    /// Where it serves its probes and metrics.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Everything that it has logged, one JSON object per line.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Asks it to end (SIGTERM).
    pub fn terminate(&self) -> Result<()> {
        self.lock().signal(Signal::TERM)
    }

    /// Kills it (SIGKILL).
    pub fn kill(&self) -> Result<()> {
        self.lock().signal(Signal::KILL)
    }

    /// Makes it hang (SIGSTOP).
    pub fn pause(&self) -> Result<()> {
        self.lock().pause()
    }

    /// Lets it go on (SIGCONT).
    pub fn resume(&self) -> Result<()> {
        self.lock().resume()
    }

    /// Has it log more, or no longer (SIGUSR1).
    pub fn toggle_log(&self) -> Result<()> {
        self.lock().signal(Signal::USR1)
    }

    /// Waits for its end.
    pub async fn ended(&self) -> Result<ExitStatus> {
        wait::until("the operator has ended", PATIENCE, || async {
            let exit = self.lock().exit();
            Ok(exit.map_or_else(|| Seen::NotYet(self.lock().log_tail()), Seen::Done))
        })
        .await
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The address that the log names.
fn listening(log: &Path) -> Option<SocketAddr> {
    let text = fs::read_to_string(log).ok()?;
    text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).find_map(|entry| {
        entry["message"]
            .as_str()?
            .starts_with("serving /livez")
            .then(|| entry["address"].as_str()?.parse().ok())?
    })
}

/// The `kantor` binary beside the running one: where cargo puts both.
pub fn beside_this_program() -> Result<PathBuf> {
    let this = std::env::current_exe().context("find this program")?;
    let program = this.with_file_name("kantor");
    if !program.is_file() {
        bail!("{} is missing: run `cargo build --bin kantor` first", program.display());
    }
    Ok(program)
}
