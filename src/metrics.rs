//! What is counted and measured. Labels have few values: never an object's name.

use std::{fmt, sync::Arc, time::Duration};

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
        info::Info,
    },
    registry::Registry,
};

use crate::core::changes;

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
    const fn as_str(self) -> &'static str {
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
struct ResultLabels {
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DeployLabels {
    action: &'static str,
    result: &'static str,
    data_plane: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ActionLabels {
    action: &'static str,
}

/// All metrics of the process.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    reconciles: Family<ReconcileLabels, Counter>,
    durations: Family<ControllerLabels, Histogram>,
    applied: Family<ResultLabels, Counter>,
    deployed: Family<DeployLabels, Counter>,
    deploy_durations: Family<ActionLabels, Histogram>,
    leader: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("kantor");
        let reconciles = Family::default();
        registry.register("reconciles", "Reconciles by controller and result", reconciles.clone());
        let durations = Family::new_with_constructor(duration_histogram as fn() -> Histogram);
        registry.register("reconcile_duration_seconds", "Duration of reconciles", durations.clone());
        registry.register("build", "This build", Info::new([("version", crate::VERSION)]));
        let applied = Family::default();
        let help = "Objects on data planes that were not as they shall be, by what became of them";
        registry.register("applied_objects", help, applied.clone());
        let deployed = Family::default();
        let help = "Deployments that were brought to a data plane or removed from it, by result";
        registry.register("deploy_operations", help, deployed.clone());
        let deploy_durations = Family::new_with_constructor(duration_histogram as fn() -> Histogram);
        registry.register("deploy_duration_seconds", "Duration of these", deploy_durations.clone());
        let leader = Gauge::default();
        registry.register("leader", "Whether this operator leads, where several may", leader.clone());
        Self {
            registry: Arc::new(registry),
            reconciles,
            durations,
            applied,
            deployed,
            deploy_durations,
            leader,
        }
    }
}

fn duration_histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 16))
}

impl Metrics {
    /// Notes whether this operator leads.
    pub fn leads(&self, leads: bool) {
        self.leader.set(leads.into());
    }

    /// Counts a reconcile.
    pub fn reconciled(&self, controller: &'static str, outcome: Outcome, took: Duration) {
        self.reconciles.get_or_create(&ReconcileLabels { controller, result: outcome.as_str() }).inc();
        self.durations.get_or_create(&ControllerLabels { controller }).observe(took.as_secs_f64());
    }

    /// Counts an object on a data plane that was not as it shall be: `created`, `configured`, `repaired`, `refused` or
    /// `failed`.
    pub fn applied(&self, result: &'static str) {
        self.applied.get_or_create(&ResultLabels { result }).inc();
    }

    /// Counts what became of an object on a data plane.
    pub fn applied_outcome(&self, outcome: &changes::Outcome) {
        match outcome {
            changes::Outcome::Created => self.applied("created"),
            changes::Outcome::Configured { drift: None } => self.applied("configured"),
            changes::Outcome::Configured { drift: Some(_) } => self.applied("repaired"),
            changes::Outcome::Unchanged | changes::Outcome::Waiting(_) => {}
            changes::Outcome::Refused(_) => self.applied("refused"),
            changes::Outcome::Failed(_) => self.applied("failed"),
        }
    }

    /// Counts a Deployment that was brought to a data plane (`apply`) or removed from it (`remove`).
    pub fn deployed(&self, action: &'static str, result: &'static str, data_plane: &str, took: Duration) {
        let data_plane = data_plane.to_owned();
        self.deployed.get_or_create(&DeployLabels { action, result, data_plane }).inc();
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
mod tests {
    use super::*;

    #[test]
    fn reconciles_are_counted_by_controller_and_result() {
        let metrics = Metrics::default();
        metrics.reconciled("organization", Outcome::Success, Duration::from_millis(3));
        metrics.reconciled("organization", Outcome::Success, Duration::from_millis(3));
        metrics.reconciled("organization", Outcome::Error, Duration::from_millis(3));
        let text = metrics.encode().unwrap();
        assert!(
            text.contains(r#"kantor_reconciles_total{controller="organization",result="success"} 2"#),
            "{text}"
        );
        assert!(
            text.contains(r#"kantor_reconciles_total{controller="organization",result="error"} 1"#),
            "{text}"
        );
        assert!(
            text.contains(r#"kantor_reconcile_duration_seconds_count{controller="organization"} 3"#),
            "{text}"
        );
        assert!(text.contains(r#"kantor_build_info{version=""#), "{text}");
    }
}
