//! One control plane and its data planes, started together.

use std::time::Instant;

use anyhow::Result;
use futures::future::{try_join, try_join_all};

use crate::{Cluster, ClusterBuilder, CrdBundle, assets};

/// Hears of each step of a start.
pub type Report<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// How large a fleet shall be.
#[derive(Clone, Debug)]
pub struct FleetSize {
    /// The number of data planes.
    pub planes: usize,
    /// The nodes of each data plane.
    pub nodes: usize,
    /// The CRDs of each data plane.
    pub crds: Vec<CrdBundle>,
}

impl Default for FleetSize {
    fn default() -> Self {
        Self { planes: 2, nodes: 3, crds: CrdBundle::ALL.to_vec() }
    }
}

impl FleetSize {
    /// The clusters' names: `control-plane`, `plane-1`, `plane-2`, …
    pub fn names(&self) -> Vec<String> {
        let planes = (1..=self.planes).map(|number| format!("plane-{number}"));
        ["control-plane".to_owned()].into_iter().chain(planes).collect()
    }
}

/// Running clusters. Dropping the fleet ends them.
pub struct Fleet {
    /// The cluster for Kantor's resources; it has controllers, but neither nodes nor CRDs.
    pub control_plane: Cluster,
    /// The clusters that run workloads.
    pub planes: Vec<Cluster>,
}

impl Fleet {
    /// Starts all clusters at once and returns when all are ready.
    pub async fn start(size: &FleetSize, report: Report<'_>) -> Result<Self> {
        report("looking for the Kubernetes binaries and CRDs");
        // Before the clusters, so that they do not wait for each other's builds within their start-up time.
        tokio::task::spawn_blocking(assets::provide_all).await??;
        report(&format!("starting {}", size.names().join(", ")));
        let mut names = size.names().into_iter();
        let control_plane = Cluster::builder().name(names.next().unwrap_or_default()).controllers(true);
        let planes = names.map(|name| {
            let plane = Cluster::builder().name(name).controllers(true).scheduler(true);
            start(plane.nodes(size.nodes).crds(&size.crds), report)
        });
        let (control_plane, planes) = try_join(start(control_plane, report), try_join_all(planes)).await?;
        Ok(Self { control_plane, planes })
    }

    /// The control plane, then the data planes.
    pub fn clusters(&self) -> impl Iterator<Item = &Cluster> {
        [&self.control_plane].into_iter().chain(&self.planes)
    }
}

async fn start(builder: ClusterBuilder, report: Report<'_>) -> Result<Cluster> {
    let started = Instant::now();
    let cluster = builder.start().await?;
    report(&format!(
        "{} is ready at {} ({:.1} s)",
        cluster.name(),
        cluster.url(),
        started.elapsed().as_secs_f32()
    ));
    Ok(cluster)
}
