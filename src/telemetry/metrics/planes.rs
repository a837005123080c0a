//! What is measured of each data plane. A plane that is forgotten takes its series along: whoever still counts for it does
//! so for nobody.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kantor_core::changes::Outcome;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::histogram::Histogram,
};

use super::{exposition::Exposition, table};
use crate::client::call_metrics::Calls;

/// Probes take milliseconds, or something is wrong: few sizes tell enough, and there are planes by the hundred.
const PROBE_SECONDS: [f64; 8] = [0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 5.0];

/// What can become of an object on a plane.
const RESULTS: [&str; 5] = ["created", "configured", "repaired", "refused", "failed"];

/// What is measured of one data plane.
#[derive(Debug)]
pub struct PlaneMetrics {
    /// Requests.
    pub calls: Calls,
    probes: Histogram,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    connected: bool,
    /// Seconds since 1970.
    last_contact: Option<i64>,
    /// Seconds since 1970.
    credentials_expire: Option<i64>,
    disconnects: BTreeMap<&'static str, u64>,
    watch_restarts: u64,
    applied: BTreeMap<&'static str, u64>,
    deployed: BTreeMap<(&'static str, &'static str), u64>,
}

impl Default for PlaneMetrics {
    fn default() -> Self {
        Self {
            calls: Calls::default(),
            probes: Histogram::new(PROBE_SECONDS),
            state: Mutex::new(State {
                connected: false,
                last_contact: None,
                credentials_expire: None,
                disconnects: BTreeMap::new(),
                watch_restarts: 0,
                // From the beginning, so that the first of each is seen as an increase.
                applied: RESULTS.map(|result| (result, 0)).into(),
                deployed: BTreeMap::new(),
            }),
        }
    }
}

impl PlaneMetrics {
    /// Notes whether it is connected.
    pub fn connected(&self, connected: bool) {
        self.lock().connected = connected;
    }

    /// Notes when it answered last, if that is known.
    pub fn contacted(&self, at: Option<jiff::Timestamp>) {
        self.lock().last_contact = at.map(jiff::Timestamp::as_second);
    }

    /// Counts that it was found not to be connected.
    pub fn disconnected(&self, reason: &'static str) {
        *self.lock().disconnects.entry(reason).or_default() += 1;
    }

    /// Counts an answered probe.
    pub fn probed(&self, took: Duration) {
        self.probes.observe(took.as_secs_f64());
    }

    /// Notes when its credentials expire, in seconds since 1970, if that is known.
    pub fn credentials_expire(&self, at: Option<i64>) {
        self.lock().credentials_expire = at;
    }

    /// Counts a watch that is begun anew.
    pub fn watch_restarted(&self) {
        self.lock().watch_restarts += 1;
    }

    /// Counts what became of an object.
    pub fn applied(&self, outcome: &Outcome) {
        let result = match outcome {
            Outcome::Created => "created",
            Outcome::Configured { drift: None } => "configured",
            Outcome::Configured { drift: Some(_) } => "repaired",
            Outcome::Unchanged | Outcome::Waiting(_) => return,
            Outcome::Refused(_) => "refused",
            Outcome::Failed(_) => "failed",
        };
        *self.lock().applied.entry(result).or_default() += 1;
    }

    pub(super) fn deployed(&self, action: &'static str, result: &'static str) {
        *self.lock().deployed.entry((action, result)).or_default() += 1;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All data planes, by namespace/name. Clones are one.
#[derive(Clone, Debug, Default)]
pub(super) struct AllPlanes(Arc<Mutex<HashMap<String, Arc<PlaneMetrics>>>>);

impl AllPlanes {
    pub(super) fn add(&self, key: String) -> Arc<PlaneMetrics> {
        let plane = Arc::new(PlaneMetrics::default());
        self.lock().insert(key, plane.clone());
        plane
    }

    pub(super) fn get(&self, key: &str) -> Option<Arc<PlaneMetrics>> {
        self.lock().get(key).cloned()
    }

    pub(super) fn remove(&self, key: &str) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<PlaneMetrics>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for AllPlanes {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut planes: Vec<_> =
            self.lock().iter().map(|(key, plane)| (key.clone(), plane.clone())).collect();
        planes.sort_by(|a, b| a.0.cmp(&b.0));
        let mut out = Exposition(&mut encoder);

        let connected = planes.iter().map(|(key, plane)| ([key.as_str()], i64::from(plane.lock().connected)));
        out.gauge(&table::PLANE_CONNECTED, connected)?;
        let mut disconnects = vec![];
        let (mut calls, mut in_flight) = (vec![], vec![]);
        let (mut restarts, mut expiries, mut contacts) = (vec![], vec![], vec![]);
        let (mut applied, mut deployed) = (vec![], vec![]);
        for (key, plane) in &planes {
            let key = key.as_str();
            let (done, waiting) = plane.calls.read();
            calls.extend(done.into_iter().map(|((verb, answer), count)| ([key, verb.0, answer.0], count)));
            in_flight.push(([key], waiting));
            let state = plane.lock();
            disconnects.extend(state.disconnects.iter().map(|(reason, count)| ([key, reason], *count)));
            restarts.push(([key], state.watch_restarts));
            expiries.extend(state.credentials_expire.map(|at| ([key], at)));
            contacts.extend(state.last_contact.map(|at| ([key], at)));
            applied.extend(state.applied.iter().map(|(result, count)| ([key, result], *count)));
            deployed.extend(
                state.deployed.iter().map(|((action, result), count)| ([key, action, result], *count)),
            );
        }
        out.gauge(&table::PLANE_LAST_CONTACT, contacts)?;
        out.counter(&table::PLANE_DISCONNECTS, disconnects)?;
        out.counter(&table::PLANE_CALLS, calls)?;
        out.gauge(&table::PLANE_IN_FLIGHT, in_flight)?;
        out.counter(&table::PLANE_WATCH_RESTARTS, restarts)?;
        out.gauge(&table::PLANE_CREDENTIALS_EXPIRY, expiries)?;
        out.counter(&table::APPLIED, applied)?;
        out.counter(&table::DEPLOYED, deployed)?;

        if planes.is_empty() {
            return Ok(());
        }
        let entry = &table::PLANE_PROBE_DURATION;
        let mut probes = encoder.encode_descriptor(entry.name, entry.help, None, entry.metric_type())?;
        for (key, plane) in &planes {
            plane.probes.encode(probes.encode_family(&[(entry.labels[0].0, key.as_str())])?)?;
        }
        Ok(())
    }
}
