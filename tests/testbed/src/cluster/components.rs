//! The processes of a cluster: their command lines, and whether they live.

use std::{
    path::PathBuf,
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context, Result, bail};

use super::{
    RunningProcess,
    files::{
        CA, ETCD_SOCKET, FRONT_PROXY, FRONT_PROXY_CA, Files, KUBECONFIG, SERVICE_ACCOUNT_KEY,
        SERVICE_ACCOUNT_PUBLIC_KEY, SERVING_CERTIFICATE, SERVING_KEY, STAGES, TOKENS,
    },
};
use crate::{assets::Binary, process::Process};

/// The addresses of pods: apart from those of Services, which are 10.0.0.0/16.
pub(crate) const POD_RANGE: &str = "10.244.0.0/16";

/// The programs that a cluster needs, as found on this machine.
pub(super) struct Programs(Vec<(Binary, PathBuf)>);

impl Programs {
    pub(super) fn new(binaries: &[Binary], paths: Vec<PathBuf>) -> Self {
        Self(binaries.iter().copied().zip(paths).collect())
    }

    fn command(&self, binary: Binary) -> Result<Command> {
        let path = self.0.iter().find(|(known, _)| *known == binary).map(|(_, path)| path);
        Ok(Command::new(path.with_context(|| format!("{} was not asked for", binary.name()))?))
    }
}

/// The running processes. A lock, because faults are injected through a shared reference.
pub(super) struct Components {
    programs: Programs,
    port: u16,
    controllers: bool,
    memory_mib: u32,
    store: bool,
    processes: Mutex<Vec<Process>>,
}

impl Components {
    pub(super) fn new(
        programs: Programs,
        port: u16,
        controllers: bool,
        memory_mib: u32,
        store: bool,
    ) -> Self {
        Self { programs, port, controllers, memory_mib, store, processes: Mutex::default() }
    }

    pub(super) fn start(&self, binary: Binary, files: &Files) -> Result<()> {
        let mut command = self.programs.command(binary)?;
        command.args(self.arguments(binary, files)).current_dir(files.folder());
        // Collects garbage less often: many clusters live for a minute, and memory is cheaper than time.
        command.env("GOGC", "400").env("GOMEMLIMIT", format!("{}MiB", self.memory_mib));
        let log = files.path(&format!("{}.log", binary.name()));
        let process = Process::spawn(binary.name(), &command, log)?;
        self.lock().push(process);
        Ok(())
    }

    /// Whether kube-controller-manager belongs to the cluster.
    pub(super) fn has_controllers(&self) -> bool {
        self.controllers
    }

    /// Kills and reaps a process.
    pub(super) fn stop(&self, binary: Binary) {
        self.lock().retain(|process| process.name() != binary.name());
    }

    /// Does something with a process that runs.
    pub(super) fn with(&self, binary: Binary, act: impl FnOnce(&Process) -> Result<()>) -> Result<()> {
        match self.lock().iter().find(|process| process.name() == binary.name()) {
            Some(process) => act(process),
            None => bail!("{} does not run", binary.name()),
        }
    }

    pub(super) fn running(&self) -> Vec<RunningProcess> {
        let name_and_pid =
            |process: &Process| RunningProcess { name: process.name().to_owned(), pid: process.pid() };
        self.lock().iter().map(name_and_pid).collect()
    }

    /// Fails with the end of the log of a process that has ended.
    pub(super) fn check(&self) -> Result<()> {
        for process in self.lock().iter_mut() {
            if let Some(status) = process.exit() {
                bail!(
                    "{} ended ({status}); the end of {}:\n{}",
                    process.name(),
                    process.log().display(),
                    process.log_tail()
                );
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Process>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arguments(&self, binary: Binary, files: &Files) -> Vec<String> {
        match binary {
            Binary::Etcd => etcd(files, self.store),
            Binary::KubeApiserver => self.apiserver(files),
            Binary::KubeControllerManager => {
                let mut arguments = controller(files);
                arguments.push(file("--service-account-private-key-file", files, SERVICE_ACCOUNT_KEY));
                arguments.push(file("--root-ca-file", files, CA));
                arguments
            }
            Binary::KubeScheduler => controller(files),
            Binary::Kwok => vec![
                file("--kubeconfig", files, KUBECONFIG),
                file("--config", files, STAGES),
                "--manage-all-nodes=true".to_owned(),
                "--node-lease-duration-seconds=40".to_owned(),
                format!("--cidr={POD_RANGE}"),
            ],
            Binary::Kubectl => Vec::new(),
        }
    }

    fn apiserver(&self, files: &Files) -> Vec<String> {
        let mut arguments = vec![
            format!("--etcd-servers={}", etcd_url(files)),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            // A loopback address is no valid endpoint: the reconciler would only complain.
            "--endpoint-reconciler-type=none".to_owned(),
            format!("--secure-port={}", self.port),
            file("--tls-cert-file", files, SERVING_CERTIFICATE),
            file("--tls-private-key-file", files, SERVING_KEY),
            file("--client-ca-file", files, CA),
            file("--token-auth-file", files, TOKENS),
            "--authorization-mode=RBAC".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            file("--service-account-signing-key-file", files, SERVICE_ACCOUNT_KEY),
            file("--service-account-key-file", files, SERVICE_ACCOUNT_PUBLIC_KEY),
            file("--requestheader-client-ca-file", files, FRONT_PROXY_CA),
            format!("--requestheader-allowed-names={FRONT_PROXY}"),
            "--requestheader-username-headers=X-Remote-User".to_owned(),
            "--requestheader-group-headers=X-Remote-Group".to_owned(),
            "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/16".to_owned(),
            // As on clusters where not everybody may keep an owner from being deleted.
            "--enable-admission-plugins=OwnerReferencesPermissionEnforcement".to_owned(),
            // Keeps priority and fairness out of the way of what is measured.
            "--max-requests-inflight=2000".to_owned(),
            "--max-mutating-requests-inflight=1000".to_owned(),
            "--profiling=false".to_owned(),
        ];
        if !self.controllers {
            // Nobody makes the default ServiceAccount, and pods without one would be refused.
            arguments.push("--disable-admission-plugins=ServiceAccount".to_owned());
        }
        arguments
    }
}

fn etcd(files: &Files, store: bool) -> Vec<String> {
    let client = etcd_url(files);
    let peer = format!("unix://{}", files.path("peer.sock").display());
    let mut arguments = vec![
        "--name=kantor".to_owned(),
        format!("--data-dir={}", files.path("etcd").display()),
        // The data is gone with the test: durability costs time only.
        "--unsafe-no-fsync".to_owned(),
        // Sockets in a private folder: no port to race for, and no other user of this machine gets in.
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=kantor={peer}"),
        format!("--enable-grpc-gateway={store}"),
        "--log-level=warn".to_owned(),
    ];
    if store {
        // All that a test has made goes at once.
        arguments.extend(["--max-txn-ops=100000".to_owned(), "--max-request-bytes=33554432".to_owned()]);
    }
    arguments
}

fn etcd_url(files: &Files) -> String {
    format!("unix://{}", files.path(ETCD_SOCKET).display())
}

fn controller(files: &Files) -> Vec<String> {
    vec![
        file("--kubeconfig", files, KUBECONFIG),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
        "--kube-api-qps=500".to_owned(),
        "--kube-api-burst=1000".to_owned(),
    ]
}

fn file(flag: &str, files: &Files, name: &str) -> String {
    format!("{flag}={}", files.path(name).display())
}
