//! What the control plane holds, counted when somebody asks.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use kantor_core::hierarchy::Kind;
use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};

use super::{exposition::Exposition, table};

/// Values of the label `ready`, in the order of [`Standing::counts`].
const READY: [&str; 4] = ["true", "false", "unknown", "none"];

/// The objects of one kind by their condition `Ready`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// True, False, Unknown, and without it.
    counts: [u32; READY.len()],
}

impl Standing {
    /// Counts an object whose condition `Ready` has this status, if it has one.
    pub fn count(&mut self, status: Option<&str>) {
        let at = match status {
            Some("True") => 0,
            Some("False") => 1,
            Some(_) => 2,
            None => 3,
        };
        self.counts[at] += 1;
    }
}

/// What is counted.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// Objects, per kind.
    pub objects: Vec<(Kind, Standing)>,
    /// Host names that are held.
    pub claims_held: usize,
    /// Endpoints that wait for one.
    pub claims_waiting: usize,
    /// Whether each kind is followed, by its name.
    pub watches: Vec<(String, bool)>,
}

type Source = Box<dyn Fn() -> Census + Send + Sync>;

/// Counts by a source that comes later: an operator that stands by knows of no objects.
#[derive(Clone, Default)]
pub(super) struct Counting(Arc<OnceLock<Source>>);

impl Counting {
    pub(super) fn set(&self, source: impl Fn() -> Census + Send + Sync + 'static) {
        // There is one control plane: a second source would be the same.
        self.0.set(Box::new(source)).ok();
    }
}

impl fmt::Debug for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counting").finish_non_exhaustive()
    }
}

impl Collector for Counting {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(source) = self.0.get() else { return Ok(()) };
        let census = source();
        let mut out = Exposition(&mut encoder);
        let kinds: Vec<(String, &Standing)> =
            census.objects.iter().map(|(kind, standing)| (kind.to_string(), standing)).collect();
        let objects = kinds.iter().flat_map(|(kind, standing)| {
            let counts = READY.iter().zip(standing.counts);
            counts.map(|(ready, count)| ([kind.as_str(), ready], i64::from(count)))
        });
        out.gauge(&table::OBJECTS, objects)?;
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let claims = [(["held"], number(census.claims_held)), (["waiting"], number(census.claims_waiting))];
        out.gauge(&table::CLAIMS, claims)?;
        let watches = census.watches.iter().map(|(kind, synced)| ([kind.as_str()], i64::from(*synced)));
        out.gauge(&table::WATCH_SYNCED, watches)
    }
}
