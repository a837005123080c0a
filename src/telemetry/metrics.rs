//! What is counted and measured. Labels have few values: never an object's name but for those of data planes, whose series
//! go with them.

mod census;
mod exposition;
mod planes;
mod process;
pub mod table;

use std::{fmt, sync::Arc, time::Duration};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
        info::Info,
    },
    registry::Registry,
};

use self::{census::Counting, exposition::Exposition, planes::AllPlanes, process::Process};
pub use self::{
    census::{Census, Standing},
    planes::PlaneMetrics,
};
use crate::client::call_metrics::Calls;
pub use crate::client::call_metrics::{CallsLayer, Verb};

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Success,
    /// The object had changed in the meantime; its change is looked at next.
    Conflict,
    /// It failed and is tried again.
    Error,
}

impl Outcome {
    const ALL: [Self; 3] = [Self::Success, Self::Conflict, Self::Error];

    /// One word for labels and spans.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Conflict => "conflict",
            Self::Error => "error",
        }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReconcileLabels {
    controller: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ControllerLabels {
    controller: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ActionLabels {
    action: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabels {
    kind: String,
}

type Histograms<Labels> = Family<Labels, Histogram, fn() -> Histogram>;

/// All metrics of the process. Clones are one.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    reconciles: Family<ReconcileLabels, Counter>,
    durations: Histograms<ControllerLabels>,
    waits: Histograms<ControllerLabels>,
    deploy_durations: Histograms<ActionLabels>,
    watch_restarts: Family<KindLabels, Counter>,
    control_plane: ControlPlane,
    planes: AllPlanes,
    census: Counting,
    leader: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            registry: Arc::default(),
            reconciles: Family::default(),
            durations: Family::new_with_constructor(seconds),
            waits: Family::new_with_constructor(seconds),
            deploy_durations: Family::new_with_constructor(seconds),
            watch_restarts: Family::default(),
            control_plane: ControlPlane::default(),
            planes: AllPlanes::default(),
            census: Counting::default(),
            leader: Gauge::default(),
        };
        let mut registry = Registry::default();
        table::RECONCILES.register(&mut registry, metrics.reconciles.clone());
        table::RECONCILE_DURATION.register(&mut registry, metrics.durations.clone());
        table::RECONCILE_WAIT.register(&mut registry, metrics.waits.clone());
        table::DEPLOY_DURATION.register(&mut registry, metrics.deploy_durations.clone());
        table::WATCH_RESTARTS.register(&mut registry, metrics.watch_restarts.clone());
        table::LEADER.register(&mut registry, metrics.leader.clone());
        table::BUILD.register(&mut registry, Info::new([("version", crate::VERSION)]));
        registry.register_collector(Box::new(metrics.census.clone()));
        registry.register_collector(Box::new(metrics.control_plane.clone()));
        registry.register_collector(Box::new(metrics.planes.clone()));
        registry.register_collector(Box::new(Process));
        Self { registry: Arc::new(registry), ..metrics }
    }
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 16))
}

/// Requests to the control plane.
#[derive(Clone, Debug, Default)]
struct ControlPlane(Calls);

impl Collector for ControlPlane {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (done, in_flight) = self.0.read();
        let mut out = Exposition(&mut encoder);
        let done = done.into_iter().map(|((verb, answer), count)| ([verb.0, answer.0], count));
        out.counter(&table::CONTROL_PLANE_CALLS, done)?;
        out.gauge(&table::CONTROL_PLANE_IN_FLIGHT, [([], in_flight)])
    }
}

impl Metrics {
    /// Notes whether this operator leads.
    pub fn leads(&self, leads: bool) {
        self.leader.set(leads.into());
    }

    /// Shows the series of a controller from its start on, so that the first of each result is seen as an increase.
    pub fn controller_starts(&self, controller: &'static str) {
        for outcome in Outcome::ALL {
            drop(self.reconciles.get_or_create(&ReconcileLabels { controller, result: outcome.as_str() }));
        }
        drop(self.durations.get_or_create(&ControllerLabels { controller }));
        drop(self.waits.get_or_create(&ControllerLabels { controller }));
    }

    /// Counts a reconcile.
    pub fn reconciled(&self, controller: &'static str, outcome: Outcome, took: Duration) {
        self.reconciles.get_or_create(&ReconcileLabels { controller, result: outcome.as_str() }).inc();
        self.durations.get_or_create(&ControllerLabels { controller }).observe(took.as_secs_f64());
    }

    /// Notes how long an object had been awake when its reconcile began.
    pub fn waited(&self, controller: &'static str, wait: Duration) {
        self.waits.get_or_create(&ControllerLabels { controller }).observe(wait.as_secs_f64());
    }

    /// Shows the restarts of the watch of a kind from its start on.
    pub fn watch_starts(&self, kind: &str) {
        drop(self.watch_restarts.get_or_create(&KindLabels { kind: kind.to_owned() }));
    }

    /// Counts a watch of the control plane that is begun anew.
    pub fn watch_restarted(&self, kind: &str) {
        self.watch_restarts.get_or_create(&KindLabels { kind: kind.to_owned() }).inc();
    }

    /// Counts every request to the control plane that passes it.
    pub fn control_plane_calls(&self) -> CallsLayer {
        self.control_plane.0.layer()
    }

    /// Has the objects of the control plane counted at each scrape, from now on.
    pub fn count_with(&self, census: impl Fn() -> Census + Send + Sync + 'static) {
        self.census.set(census);
    }

    /// Begins to measure a data plane, by namespace/name.
    pub fn add_plane(&self, data_plane: String) -> Arc<PlaneMetrics> {
        self.planes.add(data_plane)
    }

    /// Drops all series of a data plane.
    pub fn forget_plane(&self, data_plane: &str) {
        self.planes.remove(data_plane);
    }

    /// Counts a Deployment that was brought to a data plane (`apply`) or removed from it (`remove`).
    pub fn deployed(&self, action: &'static str, result: &'static str, data_plane: &str, took: Duration) {
        if let Some(plane) = self.planes.get(data_plane) {
            plane.deployed(action, result);
        }
        self.deploy_durations.get_or_create(&ActionLabels { action }).observe(took.as_secs_f64());
    }

    /// The metrics in the text form of OpenMetrics.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests;
