//! A control plane, data planes and the operator: what is measured.
//!
//! The clusters are etcd and kube-apiserver and nothing else: no controllers, no scheduler, no nodes. Nobody makes pods
//! ready and nobody accepts routes, so what is measured is the operator, its requests and the servers' answers. Something
//! stands when it is on the data plane and the operator's status of this generation says so.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt, future::try_join_all, stream};
use kantor_testbed::{Cluster, CrdBundle, Operator, proxy::Proxy};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{machine::Usage, requests::Requests, sample, watching::until_all};
use crate::terminal::say;

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_mins(10);
/// Writes of the bench that are under way at a time.
pub(crate) const AT_ONCE: usize = 32;
/// As it is shipped, but for where the planes are.
const FLAGS: [&str; 1] = ["--allow-loopback-planes"];
/// Of an API server: with less, one that holds some thousand Deployments mostly collects garbage.
const MEMORY_MIB: u32 = 4096;
/// The Gateways that the routes name.
const GATEWAYS: &str = include_str!("../../tests/testbed/src/gateways.yaml");

/// A data plane.
pub(crate) struct Plane {
    pub cluster: Cluster,
    pub client: Client,
}

/// Clusters without an operator.
pub(crate) struct Ground {
    pub control_plane: Cluster,
    pub client: Client,
    pub planes: Vec<Plane>,
}

impl Ground {
    /// Fresh clusters with all CRDs and Gateways.
    pub(crate) async fn start(project: &Path, planes: usize) -> Result<Self> {
        let started = Instant::now();
        let data_planes = (0..planes).map(|number| async move {
            let builder = Cluster::builder().name(sample::plane(number)).crds(&[CrdBundle::GatewayApi]);
            let builder = builder.memory_mib(MEMORY_MIB);
            let cluster = builder.start().await?;
            cluster.apply_yaml(GATEWAYS).await?;
            let client = cluster.client();
            Ok::<_, anyhow::Error>(Plane { cluster, client })
        });
        let control_plane = async {
            let cluster = Cluster::builder().name("control-plane").memory_mib(MEMORY_MIB).start().await?;
            cluster.apply_dir(project.join("crds")).await?;
            Ok(cluster)
        };
        let (control_plane, planes) =
            futures::future::try_join(control_plane, try_join_all(data_planes)).await?;
        say(&format!("{} clusters are up ({:.0} s)", planes.len() + 1, started.elapsed().as_secs_f32()));
        let client = control_plane.client();
        Ok(Self { control_plane, client, planes })
    }

    /// Requests to the control plane, and to all data planes, since their starts.
    pub(crate) async fn requests(&self) -> Result<[Requests; 2]> {
        let control = Requests::to(&self.client).await?;
        let mut planes = Requests::default();
        for plane in &self.planes {
            planes = planes.and(&Requests::to(&plane.client).await?);
        }
        Ok([control, planes])
    }

    /// Waits until nothing has been written for a while.
    pub(crate) async fn quiet(&self) -> Result<()> {
        const PAUSE: Duration = Duration::from_millis(1200);
        let started = Instant::now();
        let mut before = usize::MAX;
        while started.elapsed() < PATIENCE {
            let [control, planes] = self.requests().await?;
            let now = control.writes() + planes.writes();
            if now == before {
                return Ok(());
            }
            before = now;
            tokio::time::sleep(PAUSE).await;
        }
        bail!("something is written again and again: {before} writes so far")
    }

    /// Processor time that all servers used so far.
    pub(crate) fn servers_cpu(&self) -> f64 {
        let clusters = self.planes.iter().map(|plane| &plane.cluster).chain([&self.control_plane]);
        Usage::cpu_of(clusters.flat_map(Cluster::processes).map(|process| process.pid))
    }

    /// Makes objects in the control plane, many at a time.
    pub(crate) async fn create(&self, objects: Vec<DynamicObject>) -> Result<()> {
        let writes = objects.into_iter().map(|object| async move {
            let created = sample::api_of(&self.client, &object).create(&PostParams::default(), &object).await;
            created.with_context(|| format!("create {}", object.name_any())).map(drop)
        });
        stream::iter(writes).buffer_unordered(AT_ONCE).try_collect().await
    }
}

/// Clusters with the operator at work.
pub(crate) struct Stand {
    // The operator ends before what it talks to.
    pub operator: Operator,
    /// In front of the planes; nothing goes through one that is not asked to.
    pub proxies: Vec<Proxy>,
    pub ground: Ground,
    /// The number of Deployments.
    pub count: usize,
    program: PathBuf,
}

impl Stand {
    /// Everything up to the Deployments, which are not there yet, and nothing left to do.
    pub(crate) async fn start(program: &Path, project: &Path, count: usize, planes: usize) -> Result<Self> {
        let ground = Ground::start(project, planes).await?;
        let operator = Operator::start(program, &ground.control_plane.kubeconfig(), FLAGS).await?;
        operator.ready().await?;
        let proxies =
            ground.planes.iter().map(|plane| Proxy::start(&plane.cluster)).collect::<Result<_>>()?;
        let stand = Self { operator, proxies, ground, count, program: program.to_owned() };
        stand.furnish().await?;
        Ok(stand)
    }

    async fn furnish(&self) -> Result<()> {
        let ground = &self.ground;
        ground.create(vec![sample::organization()]).await?;
        let organizations: Api<DynamicObject> =
            Api::all_with(ground.client.clone(), &sample::our_resource("Organization"));
        all_ready(&organizations, 1).await?;
        for (number, plane) in ground.planes.iter().enumerate() {
            let name = sample::plane(number);
            let secret = sample::secret(&name, &plane.cluster.kubeconfig().to_yaml());
            ground.create(vec![secret, sample::data_plane(&name, &name)]).await?;
        }
        self.ready("DataPlane", ground.planes.len()).await?;
        ground.create(sample::frame(ground.planes.len())).await?;
        ground.create((0..self.count).flat_map(sample::parts).collect()).await?;
        for kind in ["Component", "DeploymentTrack", "DeployableArtifact"] {
            self.ready(kind, self.count).await?;
        }
        ground.quiet().await?;
        say(&format!("{} components with their artifacts are there", self.count));
        Ok(())
    }

    /// The Deployments, in order.
    pub(crate) fn deployments(&self) -> Vec<DynamicObject> {
        (0..self.count).map(|number| sample::deployment(number, self.ground.planes.len())).collect()
    }

    /// Waits until `count` objects of a kind are ready.
    pub(crate) async fn ready(&self, kind: &str, count: usize) -> Result<()> {
        all_ready(&sample::our_api(&self.ground.client, kind), count).await
    }

    /// Changes an object of the organization by a merge patch.
    pub(crate) async fn patch(&self, kind: &str, name: &str, patch: &Value) -> Result<DynamicObject> {
        let api = sample::our_api(&self.ground.client, kind);
        let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.with_context(|| format!("patch {kind} {name}"))
    }

    /// Gives Kantor another kubeconfig for a plane.
    pub(crate) async fn use_kubeconfig(&self, plane: usize, kubeconfig: &str) -> Result<()> {
        let secrets: Api<DynamicObject> = Api::namespaced_with(
            self.ground.client.clone(),
            sample::ORGANIZATION,
            &sample::resource("v1/Secret"),
        );
        let patch = json!({"stringData": {"kubeconfig": kubeconfig}});
        secrets.patch(&sample::plane(plane), &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Kills the operator.
    pub(crate) async fn stop_operator(&self) -> Result<()> {
        self.operator.kill()?;
        self.operator.ended().await.map(drop)
    }

    /// Starts an operator in place of one that ended; it may not be ready yet.
    pub(crate) async fn start_operator(&mut self) -> Result<()> {
        let kubeconfig = self.ground.control_plane.kubeconfig();
        self.operator = Operator::start(&self.program, &kubeconfig, FLAGS).await?;
        Ok(())
    }

    /// Reconciles that failed so far, by the operator's own count.
    pub(crate) async fn failed_reconciles(&self) -> Result<f64> {
        let (_, text) = self.operator.get("/metrics").await?;
        Ok(sum(&text, "kantor_reconciles_total{", r#"result="error""#))
    }

    /// How often it was asked whether a plane is still there, by the operator's own count.
    pub(crate) async fn probes(&self) -> Result<usize> {
        let (_, text) = self.operator.get("/metrics").await?;
        let count = sum(&text, "kantor_plane_probe_duration_seconds_count{", "");
        format!("{count:.0}").parse().context("a count of probes")
    }

    /// What the operator used so far.
    pub(crate) fn usage(&self) -> Result<Usage> {
        Usage::of(self.operator.pid())
    }

    /// The objects of a kind that Kantor has on a plane.
    pub(crate) async fn on_plane(&self, plane: usize, kind: &str) -> Result<Vec<DynamicObject>> {
        let client = &self.ground.planes.get(plane).context("no such plane")?.client;
        let params = ListParams::default().labels("openchoreo.dev/owner-uid");
        Ok(sample::all(client, kind).list(&params).await?.items)
    }

    /// Fails unless each Deployment has its workload, its Service and its route.
    pub(crate) async fn verify(&self) -> Result<()> {
        for kind in ["apps/v1/Deployment", "v1/Service", "gateway.networking.k8s.io/v1/HTTPRoute"] {
            let mut found = 0;
            for plane in 0..self.ground.planes.len() {
                found += self.on_plane(plane, kind).await?.len();
            }
            ensure!(found == self.count, "{found} of {} objects {kind} are on the planes", self.count);
        }
        Ok(())
    }
}

/// The sum of all metrics that begin so and have this label.
fn sum(metrics: &str, name: &str, label: &str) -> f64 {
    let lines = metrics.lines().filter(|line| line.starts_with(name) && line.contains(label));
    lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

async fn all_ready(api: &Api<DynamicObject>, count: usize) -> Result<()> {
    until_all(api, count, "are ready", |object| is_ready(object).then_some(())).await.map(drop)
}

fn is_ready(object: &DynamicObject) -> bool {
    let status = &object.data["status"];
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let ready = conditions.into_iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
    ready && status["observedGeneration"].as_i64() == object.metadata.generation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_summed_over_their_labels() {
        let metrics = r#"
a_total{x="1",result="error"} 2
a_total{x="2",result="good"} 3
a_total{x="2",result="error"} 4
ab_total{result="error"} 9
"#;
        let amount = |label: &str| format!("{:.0}", sum(metrics, "a_total{", label));
        assert_eq!((amount(r#"result="error""#).as_str(), amount("").as_str()), ("6", "9"));
    }
}
