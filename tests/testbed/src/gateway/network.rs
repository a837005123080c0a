//! The network of the data: where Envoy runs and pods answer.

use std::{
    fs::{self, File},
    io::Write,
    net::Ipv4Addr,
    os::fd::AsFd,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, anyhow, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::runtime::{Builder, Handle, Runtime};

use super::START;
use crate::{
    cluster::POD_RANGE,
    process::Process,
    wait::{Seen, until},
};

/// The test's side, at which Envoy finds Envoy Gateway.
pub(super) const CONTROL: Ipv4Addr = Ipv4Addr::new(10, 200, 0, 1);
/// The side of the data, at which clients find Envoy.
pub(super) const DATA: Ipv4Addr = Ipv4Addr::new(10, 200, 0, 2);

/// A second network, joined to that of the test. Dropping it ends all tasks in it.
pub(super) struct Network {
    runtime: Option<Runtime>,
    handle: Handle,
    _holder: Process,
}

impl Network {
    pub(super) async fn start(folder: &Path) -> Result<Self> {
        let mut command = Command::new("unshare");
        // A network lives as long as somebody is in it.
        command.args(["--net", "sleep", "infinity"]);
        let mut holder = Process::spawn("network", &command, folder.join("network.log"))?;
        let pid = holder.pid();
        let theirs = format!("/proc/{pid}/ns/net");
        let ours = fs::read_link("/proc/self/ns/net").context("look at our network")?;
        until("there is a second network", START, || {
            let seen = match (fs::read_link(&theirs), holder.exit()) {
                (_, Some(status)) => Err(anyhow!("unshare ended ({status}): {}", holder.log_tail())),
                (Ok(theirs), None) if theirs != ours => Ok(Seen::Done(())),
                (theirs, None) => Ok(Seen::NotYet(format!("{theirs:?}"))),
            };
            std::future::ready(seen)
        })
        .await?;

        let runtime = runtime_in(File::open(&theirs).context("open the second network")?)?;
        let network = Self { handle: runtime.handle().clone(), runtime: Some(runtime), _holder: holder };
        ip(&format!(
            "link add c0 type veth peer name d0 netns {pid}\n\
             address add {CONTROL}/30 dev c0\n\
             link set c0 up\n\
             route add {POD_RANGE} via {DATA}\n"
        ))?;
        // The last line makes each address of a pod one of this network.
        let lines = format!(
            "link set lo up\n\
             address add {DATA}/30 dev d0\n\
             link set d0 up\n\
             route add local {POD_RANGE} dev lo\n"
        );
        network.run(move || ip(&lines)).await??;
        Ok(network)
    }

    /// Runs something that blocks on a thread of this network: its sockets and its children are in it too.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        self.handle.spawn_blocking(work).await.context("a thread of the data's network ended")
    }

    /// Spawns tasks whose sockets are in this network.
    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // The usual end of a runtime waits, which the threads of another one must not.
            runtime.shutdown_background();
        }
    }
}

/// A runtime all of whose threads are in the network.
fn runtime_in(network: File) -> Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("data")
        .enable_all()
        .on_thread_start(move || {
            move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("whoever made a network may enter it");
        })
        .build()
        .context("start a runtime in the second network")
}

/// Runs commands of `ip`, one a line.
fn ip(lines: &str) -> Result<()> {
    let mut ip = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("run ip")?;
    ip.stdin.take().context("a child without its pipe")?.write_all(lines.as_bytes()).context("tell ip")?;
    let output = ip.wait_with_output().context("wait for ip")?;
    ensure!(output.status.success(), "ip: {}\n{lines}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}
