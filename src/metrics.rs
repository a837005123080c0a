//! What is counted and measured. Labels have few values: never an object's name.

use std::{fmt, sync::Arc, time::Duration};

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        histogram::{Histogram, exponential_buckets},
        info::Info,
    },
    registry::Registry,
};

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

/// All metrics of the process.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    reconciles: Family<ReconcileLabels, Counter>,
    durations: Family<ControllerLabels, Histogram>,
    applied: Family<ResultLabels, Counter>,
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
        Self { registry: Arc::new(registry), reconciles, durations, applied }
    }
}

fn duration_histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 16))
}

impl Metrics {
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
