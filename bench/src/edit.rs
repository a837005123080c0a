//! Edit: a change in the control plane, until it is visible on the data plane.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    result::{Case, Figure, Run},
    sample,
    stand::{PATIENCE, Stand},
    statistics::percentile,
    watching::{Sight, Watches},
};

/// From the moment the edit is sent, in milliseconds.
pub(crate) const GOAL: f64 = 500.0;
/// Between edits at 20 per second.
pub(crate) const PACE: Duration = Duration::from_millis(50);

/// Edits of Deployments, and what became of them. Each edit sets a value that no edit before it had, and larger ones come
/// later, so that an edit which is overtaken by the next one of the same Deployment is out when that is.
pub(crate) struct Edits {
    watches: Watches,
    next: i64,
    /// By component: edits that are not visible yet.
    open: HashMap<String, Vec<Edit>>,
    done: Vec<(Edit, Instant)>,
}

/// One edit.
#[derive(Clone, Copy)]
struct Edit {
    value: i64,
    plane: usize,
    sent: Instant,
}

impl Edits {
    /// Watches the workloads of all planes.
    pub(crate) async fn open(stand: &Stand) -> Result<Self> {
        let workloads = |plane: &super::stand::Plane| {
            (sample::all(&plane.client, "apps/v1/Deployment"), "openchoreo.dev/owner-uid")
        };
        let mut watches = Watches::open(stand.ground.planes.iter().map(workloads).collect()).await?;
        let mut next = 1;
        // Above whatever edits before these set.
        while let Some(sight) = watches.next(Duration::from_millis(100)).await {
            next = next.max(limit(&sight) + 1);
        }
        Ok(Self { watches, next, open: HashMap::new(), done: Vec::new() })
    }

    fn begin(&mut self, stand: &Stand, number: usize) -> (String, Value) {
        let name = sample::component(number);
        let edit = Edit { value: self.next, plane: number % stand.ground.planes.len(), sent: Instant::now() };
        self.next += 1;
        self.open.entry(name.clone()).or_default().push(edit);
        (name, json!({"spec": {"revisionHistoryLimit": edit.value}}))
    }

    /// Edits the Deployment with this number.
    pub(crate) async fn send(&mut self, stand: &Stand, number: usize) -> Result<()> {
        let (name, patch) = self.begin(stand, number);
        stand.patch("Deployment", &name, &patch).await.map(drop)
    }

    fn note(&mut self, sight: &Sight) {
        let Some(name) = sight.object.labels().get("component-name") else { return };
        let Some(open) = self.open.get_mut(name) else { return };
        let limit = limit(sight);
        let (out, left) = open.iter().partition(|edit| edit.value <= limit);
        *open = left;
        let out: Vec<Edit> = out;
        self.done.extend(out.into_iter().map(|edit| (edit, sight.at)));
    }

    /// Waits until all edits are visible; tells when each was.
    pub(crate) async fn all_visible(&mut self) -> Result<Vec<Instant>> {
        self.until_visible(&|_| true).await?;
        Ok(self.done.drain(..).map(|(_, at)| at).collect())
    }

    async fn until_visible(&mut self, matters: &impl Fn(usize) -> bool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.open.values().flatten().any(|edit| matters(edit.plane)) {
            let left = deadline.saturating_duration_since(Instant::now());
            let Some(sight) = self.watches.next(left).await else { bail!("some edits never became visible") };
            self.note(&sight);
        }
        Ok(())
    }

    /// Makes one edit after the other, each when the one before is visible; milliseconds of each.
    pub(crate) async fn one_by_one(&mut self, stand: &Stand, count: usize) -> Result<Vec<f64>> {
        for number in 0..count {
            self.send(stand, number % stand.count).await?;
            self.until_visible(&|_| true).await?;
        }
        Ok(self.samples(&|_| true))
    }

    /// Makes edits at a steady pace, whatever becomes of them; milliseconds of those on planes that matter, all of which
    /// are waited for.
    pub(crate) async fn paced(
        &mut self,
        stand: &Stand,
        count: usize,
        pace: Duration,
        matters: impl Fn(usize) -> bool,
    ) -> Result<Vec<f64>> {
        let mut ticks = tokio::time::interval(pace);
        let (mut sending, mut under_way) = (JoinSet::new(), HashSet::new());
        let (mut sent, mut next) = (0, 0);
        while sent < count {
            tokio::select! {
                // Two edits of one Deployment could overtake each other on their way.
                _ = ticks.tick(), if under_way.len() < stand.count => {
                    while under_way.contains(&(next % stand.count)) {
                        next += 1;
                    }
                    let number = next % stand.count;
                    let (name, patch) = self.begin(stand, number);
                    let api = sample::our_api(&stand.ground.client, "Deployment");
                    sending.spawn(async move {
                        let patched = api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
                        patched.map(|_| number)
                    });
                    under_way.insert(number);
                    (sent, next) = (sent + 1, next + 1);
                }
                Some(answer) = sending.join_next() => {
                    under_way.remove(&answer?.context("an edit was refused")?);
                }
                sight = self.watches.next(pace) => if let Some(sight) = sight { self.note(&sight) },
            }
        }
        while let Some(answer) = sending.join_next().await {
            answer?.context("an edit was refused")?;
        }
        self.until_visible(&matters).await?;
        let samples = self.samples(&matters);
        // Those of the planes that do not matter are not waited for, and shall not be counted later.
        self.open.clear();
        Ok(samples)
    }

    fn samples(&mut self, matters: &impl Fn(usize) -> bool) -> Vec<f64> {
        let took = |(edit, at): (Edit, Instant)| {
            matters(edit.plane).then(|| at.duration_since(edit.sent).as_secs_f64() * 1000.0)
        };
        self.done.drain(..).filter_map(took).collect()
    }
}

fn limit(sight: &Sight) -> i64 {
    sight.object.data.pointer("/spec/revisionHistoryLimit").and_then(Value::as_i64).unwrap_or_default()
}

/// Edits at idle and at 20 per second.
pub(crate) async fn measure(stand: &Stand, case: &Case, count: usize, run: &mut Run) -> Result<()> {
    stand.ground.quiet().await?;
    let mut edits = Edits::open(stand).await?;
    let idle = edits.one_by_one(stand, count).await?;
    report(run, "edit", case, "one at a time", &idle, Some(GOAL));
    let cpu = stand.usage()?.cpu;
    let busy = edits.paced(stand, 2 * count, PACE, |_| true).await?;
    report(run, "edit", case, "20 per second", &busy, Some(GOAL));
    let cpu = (stand.usage()?.cpu - cpu) * 1000.0 / super::statistics::number(2 * count);
    run.figures.push(Figure::new("edit", case, "processor time of the operator per edit", cpu, "ms"));
    Ok(())
}

/// Percentiles of samples in milliseconds, of which the 99th may have a goal.
pub(crate) fn report(
    run: &mut Run,
    scenario: &str,
    case: &Case,
    what: &str,
    samples: &[f64],
    goal: Option<f64>,
) {
    let of = |percent: usize| {
        let value = percentile(samples, percent).unwrap_or(f64::NAN);
        Figure::new(scenario, case, &format!("{what}, p{percent}"), value, "ms")
    };
    run.figures.push(of(50));
    let worst = of(99).of(samples);
    run.figures.push(match goal {
        Some(goal) => worst.at_most(goal),
        None => worst,
    });
}
