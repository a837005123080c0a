//! The real Envoy of the external Gateway: we play the kubelet for that one pod.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, anyhow};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{Api, ResourceExt, api::ListParams};

use super::{
    Client, GatewayOptions, START,
    envoy_gateway::NAMESPACE,
    network::{CONTROL, Network},
};
use crate::{
    Cluster,
    process::Process,
    wait::{Seen, until},
};

/// Where the bootstrap looks for Envoy Gateway; there is no DNS here.
const ENVOY_GATEWAY: &str = "envoy-gateway.envoy-gateway-system.svc.cluster.local.";

pub(super) struct Envoy {
    process: Process,
}

impl Envoy {
    pub(super) async fn start(
        cluster: &Cluster,
        options: &GatewayOptions,
        program: PathBuf,
        network: &Network,
        folder: &Path,
    ) -> Result<Self> {
        let owner = "gateway.envoyproxy.io/owning-gateway";
        let labels = format!("{owner}-namespace={},{owner}-name={}", options.namespace, options.external);
        let selected = ListParams::default().labels(&labels);
        let pods: Api<Pod> = Api::namespaced(cluster.client(), NAMESPACE);
        let pod = until("Envoy Gateway has made the pod of an Envoy", START, || async {
            let pod = pods.list(&selected).await?.items.into_iter().next();
            Ok(pod.map_or_else(|| Seen::NotYet("no pod".to_owned()), Seen::Done))
        })
        .await?;
        write_secrets(cluster, &selected, folder).await?;
        let arguments = arguments(&pod, folder)?;

        let log = folder.join("envoy.log");
        let place = folder.to_owned();
        let process = network
            .run(move || {
                let mut command = Command::new(program);
                command.args(arguments).current_dir(place);
                Process::spawn("envoy", &command, log)
            })
            .await??;
        let mut envoy = Self { process };
        envoy.ready().await?;
        Ok(envoy)
    }

    /// Any answer will do: before it has its listener from Envoy Gateway, there is none.
    async fn ready(&mut self) -> Result<()> {
        until("Envoy answers", START, || {
            let ended = self.process.exit().map(|status| (status, self.process.log_tail()));
            async move {
                if let Some((status, log)) = ended {
                    return Err(anyhow!("Envoy ended ({status}):\n{log}"));
                }
                Ok(match Client.request("GET", "testbed.invalid", "/", &[]).await {
                    Ok(_) => Seen::Done(()),
                    Err(error) => Seen::NotYet(format!("{error:#}")),
                })
            }
        })
        .await
    }

    pub(super) fn log_tail(&self) -> String {
        self.process.log_tail()
    }
}

/// The files by which Envoy finds its certificates, which the pod would mount from a ConfigMap.
async fn write_secrets(cluster: &Cluster, selected: &ListParams, folder: &Path) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), NAMESPACE);
    let map = until("Envoy Gateway has made the ConfigMap of an Envoy", START, || async {
        let map = maps.list(selected).await?.items.into_iter().next();
        Ok(map.map_or_else(|| Seen::NotYet("no ConfigMap".to_owned()), Seen::Done))
    })
    .await?;
    let target = folder.join("sds");
    fs::create_dir_all(&target).with_context(|| format!("make {}", target.display()))?;
    let certificates = format!("{}/", folder.join("certs").display());
    for (name, text) in map.data.iter().flatten() {
        fs::write(target.join(name), text.replace("/certs/", &certificates))
            .with_context(|| format!("write {name}"))?;
    }
    Ok(())
}

/// The arguments of the pod's container, with what it takes from Kubernetes replaced by what is here.
fn arguments(pod: &Pod, folder: &Path) -> Result<Vec<String>> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let envoy = containers.into_iter().find(|container| container.name == "envoy");
    let given = envoy.context("the pod has no container `envoy`")?.args.iter().flatten();
    let secrets = format!("{}/", folder.join("sds").display());
    let name = pod.name_any();
    // Several Envoys on a machine would share their memory otherwise, and one thread is enough for a test.
    let mut arguments = ["--disable-hot-restart", "--concurrency", "1"].map(ToOwned::to_owned).to_vec();
    let mut given = given.peekable();
    while let Some(argument) = given.next() {
        let (flag, value) = match argument.split_once(['=', ' ']) {
            Some((flag, value)) => (flag, Some(value.to_owned())),
            None => (argument.as_str(), given.next_if(|next| !next.starts_with("--")).cloned()),
        };
        match (flag, value) {
            ("--cpuset-threads" | "--concurrency" | "--disable-hot-restart", _) => {}
            ("--config-yaml", Some(text)) => {
                let text = text
                    .replace("/sds/", &secrets)
                    .replace(ENVOY_GATEWAY, &CONTROL.to_string())
                    .replace("$(ENVOY_SERVICE_ZONE)", "zone");
                let bootstrap = folder.join("bootstrap.yaml");
                fs::write(&bootstrap, text).context("write Envoy's settings")?;
                arguments.extend(["-c".to_owned(), bootstrap.display().to_string()]);
            }
            (flag, value) => {
                arguments.push(flag.to_owned());
                arguments.extend(value.map(|value| value.replace("$(ENVOY_POD_NAME)", &name)));
            }
        }
    }
    Ok(arguments)
}
