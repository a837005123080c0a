//! Envoy Gateway: its certificates, its process, and the Gateways that it looks after.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;

use super::{GatewayOptions, START};
use crate::{
    Cluster,
    process::Process,
    wait::{Seen, until},
};

/// Where Envoy Gateway and its proxies live.
pub(super) const NAMESPACE: &str = "envoy-gateway-system";
/// The folder that becomes Envoy Gateway's root: it reads `/certs` and writes `/var/lib`, and cannot be told others.
const ROOT: &str = "root";
const CONFIG: &str = "\
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyGateway
gateway: {controllerName: gateway.envoyproxy.io/gatewayclass-controller}
provider:
  type: Kubernetes
  kubernetes: {leaderElection: {disable: true}, proxyTopologyInjector: {disabled: true}}
extensionApis: {enableBackend: true}
";

pub(super) struct EnvoyGateway {
    process: Option<Process>,
}

impl EnvoyGateway {
    pub(super) async fn start(cluster: &Cluster, program: PathBuf, folder: &Path) -> Result<Self> {
        let root = folder.join(ROOT);
        for name in ["certs", "tmp", "var/lib"] {
            fs::create_dir_all(root.join(name)).with_context(|| format!("make {}", root.display()))?;
        }
        fs::write(root.join("kubeconfig"), cluster.kubeconfig().to_yaml()).context("write a kubeconfig")?;
        fs::write(root.join("config.yaml"), CONFIG).context("write Envoy Gateway's settings")?;
        make_certificates(cluster, &program, folder).await?;
        mount(&program, &root.join("envoy-gateway"))?;
        let mut started = Self { process: None };
        started.serve(folder)?;
        Ok(started)
    }

    /// Starts the process, after killing one that runs.
    pub(super) fn serve(&mut self, folder: &Path) -> Result<()> {
        self.stop();
        let mut command = Command::new("chroot");
        command
            .arg(folder.join(ROOT))
            .args(["/envoy-gateway", "server", "--config-path", "/config.yaml"])
            .env("KUBECONFIG", "/kubeconfig")
            .env("TMPDIR", "/tmp");
        self.process = Some(Process::spawn("envoy-gateway", &command, folder.join("envoy-gateway.log"))?);
        Ok(())
    }

    pub(super) fn stop(&mut self) {
        self.process = None;
    }

    pub(super) fn log_tail(&self) -> String {
        self.process.as_ref().map_or_else(|| "it does not run".to_owned(), Process::log_tail)
    }

    /// A class and the two Gateways, open to the routes of all namespaces.
    pub(super) async fn create_gateways(&self, cluster: &Cluster, options: &GatewayOptions) -> Result<()> {
        let GatewayOptions { namespace, external, internal, .. } = options;
        let gateway = |name: &str| {
            format!(
                "---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  gatewayClassName: envoy
  listeners:
  - {{name: http, protocol: HTTP, port: 80, allowedRoutes: {{namespaces: {{from: All}}}}}}
"
            )
        };
        // A Service of type LoadBalancer would never get an address here, nor the Gateway then.
        let class = format!(
            "
apiVersion: v1
kind: Namespace
metadata: {{name: {namespace}}}
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyProxy
metadata: {{name: testbed, namespace: {NAMESPACE}}}
spec:
  provider: {{type: Kubernetes, kubernetes: {{envoyService: {{type: ClusterIP}}}}}}
  telemetry: {{metrics: {{prometheus: {{disable: true}}}}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {{name: envoy}}
spec:
  controllerName: gateway.envoyproxy.io/gatewayclass-controller
  parametersRef: {{group: gateway.envoyproxy.io, kind: EnvoyProxy, name: testbed, namespace: {NAMESPACE}}}
"
        );
        let text = format!("{class}{}{}", gateway(external), gateway(internal));
        cluster.apply_yaml(&text).await.context("create the Gateways")?;
        Ok(())
    }
}

/// The pairs with which Envoy Gateway and Envoy know each other, made by its own command, into the cluster and then
/// into our folder.
async fn make_certificates(cluster: &Cluster, program: &Path, folder: &Path) -> Result<()> {
    cluster
        .apply_yaml(&format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {NAMESPACE}}}}}"))
        .await?;
    let mut command = Command::new(program);
    command
        .args(["certgen", "--disable-topology-injector"])
        .env("KUBECONFIG", folder.join(ROOT).join("kubeconfig"))
        .current_dir(folder);
    let mut process = Process::spawn("certgen", &command, folder.join("certgen.log"))?;
    until("Envoy Gateway's certificates are made", START, || {
        let seen = process.exit().map_or_else(|| Seen::NotYet(process.log_tail()), Seen::Done);
        std::future::ready(Ok(seen))
    })
    .await
    .and_then(|status| {
        ensure!(status.success(), "`envoy-gateway certgen` failed ({status}):\n{}", process.log_tail());
        Ok(())
    })?;
    let secrets: Api<Secret> = Api::namespaced(cluster.client(), NAMESPACE);
    for (name, target) in
        [("envoy-gateway", folder.join(ROOT).join("certs")), ("envoy", folder.join("certs"))]
    {
        let secret = secrets.get(name).await.with_context(|| format!("read the Secret {name}"))?;
        fs::create_dir_all(&target).with_context(|| format!("make {}", target.display()))?;
        for (key, value) in secret.data.iter().flatten() {
            fs::write(target.join(key), &value.0).with_context(|| format!("write {key}"))?;
        }
    }
    Ok(())
}

/// Shows a program at another place too, in our own view of the file system: a copy would be 190 MB.
fn mount(program: &Path, place: &Path) -> Result<()> {
    fs::write(place, "").with_context(|| format!("make {}", place.display()))?;
    let mounted = Command::new("mount").arg("--bind").args([program, place]).status().context("run mount")?;
    if !mounted.success() {
        bail!("cannot mount {} at {} ({mounted})", program.display(), place.display());
    }
    Ok(())
}
