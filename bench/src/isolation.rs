//! Isolation: half of the planes are in trouble, and edits of the others do not feel it. Rotate: credentials of all planes
//! change while edits go on.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use k8s_openapi::{
    api::rbac::v1::PolicyRule,
    jiff::{Timestamp, Unit},
};
use kantor_testbed::{
    KubeconfigSpec, ServiceAccountAccess,
    kubeconfig::Auth,
    proxy::{Action, Fault, FaultHandle, Match, Verb},
};

use kube::api::DynamicObject;

use super::{
    edit::{Edits, GOAL as EDIT_GOAL, PACE, report},
    machine::{Heartbeat, Ticks, calm},
    result::{Case, Figure, Run},
    sample::our_api,
    stand::{PATIENCE, Stand},
    statistics::{number, percentile},
    watching::until_all,
};
use crate::terminal::say;

/// Times the edits without trouble.
const GOAL: f64 = 1.1;
/// Until rotated credentials are used, in milliseconds.
const ROTATION_GOAL: f64 = 1000.0;
const SLOW: Duration = Duration::from_secs(5);
/// What part of the processors the host may take away while edits are measured. Rounds with more are told and not counted.
const MOST_STOLEN: f64 = 0.03;
/// How often a round is made at the most; the last one counts in any case.
const TRIES: usize = 3;
/// How long the processors may take to become calm.
const CALM: Duration = Duration::from_mins(1);

/// What is wrong with a plane.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    Hangs,
    Refuses,
    Slow,
}

impl Trouble {
    const ALL: [Self; 3] = [Self::Hangs, Self::Refuses, Self::Slow];

    /// What planes in this trouble do.
    fn name(self) -> &'static str {
        match self {
            Self::Hangs => "hang",
            Self::Refuses => "refuse",
            Self::Slow => "answer after 5 s",
        }
    }

    /// Begins it on the first planes; what is returned is to be kept until its end.
    fn begin(self, stand: &Stand, sick: usize) -> Result<Vec<FaultHandle>> {
        let mut faults = Vec::new();
        for (plane, proxy) in stand.ground.planes.iter().zip(&stand.proxies).take(sick) {
            match self {
                Self::Hangs => plane.cluster.pause()?,
                Self::Refuses => proxy.refuse(true),
                Self::Slow => faults.push(proxy.fault(Fault::when(Match::new()).then(Action::Delay(SLOW)))),
            }
        }
        Ok(faults)
    }

    fn end(self, stand: &Stand, sick: usize, faults: Vec<FaultHandle>) -> Result<()> {
        drop(faults);
        for (plane, proxy) in stand.ground.planes.iter().zip(&stand.proxies).take(sick) {
            match self {
                Self::Hangs => plane.cluster.resume()?,
                Self::Refuses => proxy.refuse(false),
                Self::Slow => {}
            }
        }
        Ok(())
    }
}

/// What edits took: on healthy planes beside others in trouble, and with no trouble right before and after it.
#[derive(Default)]
struct Beside {
    trouble: Vec<f64>,
    /// Right after it.
    returning: Vec<f64>,
    around: Vec<f64>,
    /// Seconds until all was well again on the planes that were in trouble.
    well: Vec<f64>,
    /// How much longer edits took in trouble than around it, by percentile, round by round.
    ratios: [Vec<f64>; 2],
    /// What edits took in trouble (p99) in the rounds that were made again.
    discarded: Vec<f64>,
    /// Each round in words, also those that were made again.
    rounds: Vec<String>,
}

/// Percentiles of which a round is compared with what is around it.
const COMPARED: [usize; 2] = [50, 99];

/// How much longer edits took in trouble than in the same round without: another round is another machine.
fn ratio(during: &[f64], around: &[f64], percent: usize) -> f64 {
    let ratio = percentile(during, percent).zip(percentile(around, percent)).map(|(a, b)| a / b);
    ratio.unwrap_or(f64::NAN)
}

/// Edits on the healthy planes, without trouble and with each kind of it, in turns: the machine is not the same all the time.
pub(crate) async fn measure(
    stand: &Stand,
    case: &Case,
    (rounds, count): (usize, usize),
    run: &mut Run,
) -> Result<()> {
    let planes = stand.ground.planes.len();
    let sick = planes / 2;
    if sick == 0 {
        run.remarks.push("isolation was left out: it takes two planes".to_owned());
        return Ok(());
    }
    for plane in 0..sick {
        through_proxy(stand, plane).await?;
    }
    let edits = Edits::open(stand).await?;
    let mut bench = Isolation { stand, case, sick, count, edits, heartbeat: Heartbeat::begin(), told: false };
    let mut seen: [Beside; Trouble::ALL.len()] = Default::default();
    bench.all_well().await?;
    bench.settle(run).await?;
    let mut base = bench.edit(count).await?;
    for round in 1..=rounds {
        for (trouble, beside) in Trouble::ALL.into_iter().zip(&mut seen) {
            for again in 1..=TRIES {
                say(&format!("{sick} of {planes} planes {}, round {round} of {rounds}", trouble.name()));
                let Round { during, returning, well, after } = bench.round(trouble, run).await?;
                let disturbed = [&base, &during, &after].iter().any(|edits| edits.stolen > MOST_STOLEN);
                let [before, meanwhile, back, later] =
                    [&base, &during, &returning, &after].map(Edited::shown);
                let told = format!(
                    "{before} before, {meanwhile} in trouble, {back} while they come back, {later} after{}",
                    if !disturbed {
                        ""
                    } else if again < TRIES {
                        " (disturbed: not counted)"
                    } else {
                        " (disturbed)"
                    }
                );
                say(&format!("p99: {told}"));
                beside.rounds.push(told);
                let before = std::mem::replace(&mut base, after);
                if !disturbed || again == TRIES {
                    let around: Vec<f64> = before.took.iter().chain(&base.took).copied().collect();
                    for (percent, ratios) in COMPARED.into_iter().zip(&mut beside.ratios) {
                        ratios.push(ratio(&during.took, &around, percent));
                    }
                    beside.trouble.extend(during.took);
                    beside.returning.extend(returning.took);
                    beside.around.extend(around);
                    beside.well.push(well);
                    break;
                }
                beside.discarded.extend(percentile(&during.took, 99));
                if base.stolen > MOST_STOLEN {
                    bench.settle(run).await?;
                    base = bench.edit(count).await?;
                }
            }
        }
    }
    for (trouble, beside) in Trouble::ALL.into_iter().zip(&seen) {
        let Beside { trouble: during, returning, around, well, ratios, discarded, rounds } = beside;
        let what = trouble.name();
        report(run, "isolation", case, &format!("edit while others {what}"), during, None);
        let back = format!("edit right after that, while all on «{what}» says that it is back");
        report(run, "isolation", case, &back, returning, Some(EDIT_GOAL));
        let longest = well.iter().copied().fold(0.0, f64::max);
        let caught_up =
            format!("longest time until all on «{what}» was well again, with edits for the first 10 s");
        run.figures.push(Figure::new("isolation", case, &caught_up, longest, "s").of(well));
        report(run, "isolation", case, &format!("edit without trouble, around «{what}»"), around, None);
        for (percent, ratios) in COMPARED.into_iter().zip(ratios) {
            let median = percentile(ratios, 50).unwrap_or(f64::NAN);
            let what = format!(
                "times an edit without trouble, p{percent} of a round, median of rounds, others {what}"
            );
            let figure = Figure::new("isolation", case, &what, median, "×").of(ratios);
            let note = format!("p99 of each round, and what the host took: {}", rounds.join("; "));
            run.figures.push(if percent == 99 { figure.at_most(GOAL).note(note) } else { figure });
        }
        let worst = ratios[1].iter().copied().fold(f64::NAN, f64::max);
        let what_worst = format!("times an edit without trouble, p99, worst round, others {what}");
        run.figures.push(Figure::new("isolation", case, &what_worst, worst, "×"));
        let again = format!("rounds that were made again, others {what}");
        let shown: Vec<String> = discarded.iter().map(|p99| format!("{p99:.0} ms")).collect();
        let figure = Figure::new("isolation", case, &again, number(discarded.len()), "").of(discarded);
        run.figures.push(if shown.is_empty() {
            figure
        } else {
            figure.note(format!("in trouble, p99: {}", shown.join(", ")))
        });
    }
    Ok(())
}

/// What isolation is measured with.
struct Isolation<'a> {
    stand: &'a Stand,
    case: &'a Case,
    /// The first planes, as many as these, get into trouble.
    sick: usize,
    /// Edits at a time.
    count: usize,
    edits: Edits,
    heartbeat: Heartbeat,
    /// Whether it was measured how long all take to tell of planes that refuse.
    told: bool,
}

/// Edits on healthy planes.
struct Edited {
    /// Milliseconds of each.
    took: Vec<f64>,
    /// What part of the processors the host took away meanwhile.
    stolen: f64,
    /// How long the machine stood still at the most.
    still: Duration,
}

impl Edited {
    fn shown(&self) -> String {
        let p99 = percentile(&self.took, 99).unwrap_or(f64::NAN);
        format!("{p99:.0} ms ({:.1} %, still for {} ms)", self.stolen * 100.0, self.still.as_millis())
    }
}

struct Round {
    during: Edited,
    returning: Edited,
    /// Seconds until all was well again.
    well: f64,
    after: Edited,
}

impl Isolation<'_> {
    async fn round(&mut self, trouble: Trouble, run: &mut Run) -> Result<Round> {
        let since = Timestamp::now();
        let faults = trouble.begin(self.stand, self.sick)?;
        let during = self.edit(self.count).await?;
        if matches!(trouble, Trouble::Refuses) && !std::mem::replace(&mut self.told, true) {
            let took = until_all_say_so(self.stand, self.sick, since).await?;
            let said = "time until all that is on planes that refuse says so, to the second";
            run.figures.push(Figure::new("isolation", self.case, said, took, "s"));
        }
        trouble.end(self.stand, self.sick, faults)?;
        let ended = Instant::now();
        // All that was on those planes speaks again.
        let returning = self.edit(self.count / 2).await?;
        self.all_well().await?;
        let well = ended.elapsed().as_secs_f64();
        self.settle(run).await?;
        let after = self.edit(self.count).await?;
        Ok(Round { during, returning, well, after })
    }

    async fn edit(&mut self, count: usize) -> Result<Edited> {
        let (ticks, sick) = (Ticks::now(), self.sick);
        self.heartbeat.latest();
        let took = self.edits.paced(self.stand, count, PACE, |plane| plane >= sick).await?;
        Ok(Edited { took, stolen: Ticks::now().stolen_since(ticks), still: self.heartbeat.latest() })
    }

    /// Waits until all is well and as it was last edited.
    async fn all_well(&self) -> Result<()> {
        let (planes, count) = (self.stand.ground.planes.len(), self.stand.count);
        for (kind, count) in [("DataPlane", planes), ("Deployment", count), ("Endpoint", count)] {
            self.stand.ready(kind, count).await?;
        }
        Ok(())
    }

    /// Waits until nothing is written any more, and the servers have nothing to do.
    async fn settle(&self, run: &mut Run) -> Result<()> {
        self.stand.ground.quiet().await?;
        let remark = "isolation: the processors were not calm before edits without trouble";
        if !calm(CALM).await && !run.remarks.iter().any(|known| known == remark) {
            run.remarks.push(remark.to_owned());
        }
        Ok(())
    }
}

/// Waits until all that is on the first planes says that nothing is known of it; tells how many seconds after `since` the
/// last one did.
async fn until_all_say_so(stand: &Stand, sick: usize, since: Timestamp) -> Result<f64> {
    let planes = stand.ground.planes.len();
    let expected = (0..stand.count).filter(|deployment| deployment % planes < sick).count();
    let mut last = since;
    for kind in ["Deployment", "Endpoint"] {
        let api = our_api(&stand.ground.client, kind);
        let said = until_all(&api, expected, "say that their plane does not answer", unknown_since);
        last = said.await?.into_iter().fold(last, Timestamp::max);
    }
    Ok((last - since).total(Unit::Second)?.ceil())
}

/// Since when an object says that nothing is known of it, if it does.
fn unknown_since(object: &DynamicObject) -> Option<Timestamp> {
    let conditions = object.data["status"]["conditions"].as_array()?;
    let ready = conditions.iter().find(|c| c["type"] == "Ready" && c["status"] == "Unknown")?;
    ready["lastTransitionTime"].as_str()?.parse().ok()
}

/// Lets Kantor reach a plane by way of its proxy, and waits until it does.
async fn through_proxy(stand: &Stand, plane: usize) -> Result<()> {
    let proxy = &stand.proxies[plane];
    if !proxy.requests().is_empty() {
        // It does already, since another scenario.
        return Ok(());
    }
    let kubeconfig = stand.ground.planes[plane].cluster.kubeconfig().at(proxy.url(), proxy.ca_pem());
    let mark = proxy.mark();
    stand.use_kubeconfig(plane, &kubeconfig.to_yaml()).await?;
    let watching = proxy.await_request_since(mark, |record| record.verb() == Verb::Watch, PATIENCE).await;
    watching.context("Kantor did not come through the proxy")?;
    stand.ready("DataPlane", stand.ground.planes.len()).await
}

/// Rotates the token of each plane, several times, under edits.
pub(crate) async fn rotate(stand: &Stand, case: &Case, rounds: usize, run: &mut Run) -> Result<()> {
    let planes = stand.ground.planes.len();
    let mut accounts: Vec<[KubeconfigSpec; 2]> = Vec::new();
    for plane in 0..planes {
        through_proxy(stand, plane).await?;
        accounts.push([account(stand, plane, "a").await?, account(stand, plane, "b").await?]);
    }
    // From the administrator's token to the first of the two.
    for (plane, [first, _]) in accounts.iter().enumerate() {
        stand.use_kubeconfig(plane, &first.to_yaml()).await?;
    }
    stand.ready("DataPlane", planes).await?;
    stand.ground.quiet().await?;
    let failed = stand.failed_reconciles().await?;
    let marks: Vec<_> = stand.proxies.iter().map(kantor_testbed::proxy::Proxy::mark).collect();
    let mut edits = Edits::open(stand).await?;
    let (mut times, mut visible) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        let next = round % 2;
        let rotating = async {
            let mut times = Vec::new();
            for (plane, accounts) in accounts.iter().enumerate() {
                let (kubeconfig, proxy) = (&accounts[next], &stand.proxies[plane]);
                let mark = proxy.mark();
                let sent = Instant::now();
                stand.use_kubeconfig(plane, &kubeconfig.to_yaml()).await?;
                let Auth::Token(token) = &kubeconfig.auth else { continue };
                let used =
                    proxy.await_request_since(mark, |record| record.credential.is_token(token), PATIENCE);
                times.push(used.await?.at.duration_since(sent).as_secs_f64() * 1000.0);
            }
            Ok(times)
        };
        let editing = edits.paced(stand, 60, PACE, |_| true);
        let (used, edited) = futures::future::try_join(rotating, editing).await?;
        times.extend(used);
        visible.extend(edited);
    }
    report(run, "rotate", case, "rotated token used", &times, Some(ROTATION_GOAL));
    report(run, "rotate", case, "edit meanwhile", &visible, None);
    let failed = stand.failed_reconciles().await? - failed;
    let figure = |what: &str, value, unit| Figure::new("rotate", case, what, value, unit);
    run.figures.push(figure("failed reconciles", failed, "").at_most(0.0));
    let mut watches = 0;
    for (proxy, mark) in stand.proxies.iter().zip(marks) {
        watches += proxy.since(mark).verb(Verb::Watch).len();
    }
    run.figures.push(figure("watches opened again", number(watches), ""));
    stand.ready("DataPlane", planes).await
}

/// An account that may do everything, by way of the proxy.
async fn account(stand: &Stand, plane: usize, name: &str) -> Result<KubeconfigSpec> {
    let all = || Some(vec!["*".to_owned()]);
    let everything = PolicyRule {
        api_groups: all(),
        resources: all(),
        verbs: vec!["*".to_owned()],
        ..PolicyRule::default()
    };
    let outside =
        PolicyRule { non_resource_urls: all(), verbs: vec!["*".to_owned()], ..PolicyRule::default() };
    let access = ServiceAccountAccess::new("kantor", name).cluster_wide(&[everything, outside]);
    let kubeconfig = stand.ground.planes[plane].cluster.service_account_kubeconfig(&access).await?;
    let proxy = &stand.proxies[plane];
    Ok(kubeconfig.at(proxy.url(), proxy.ca_pem()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_compared_with_what_is_around_it_and_not_with_other_rounds() {
        // Twice as long as without trouble, on a machine that is three times as slow in the second round.
        let rounds = [([10.0, 20.0], [5.0, 10.0]), ([30.0, 60.0], [15.0, 30.0])];
        let ratios: Vec<f64> = rounds.iter().map(|(during, around)| ratio(during, around, 99)).collect();
        assert!(ratios.iter().all(|ratio| (ratio - 2.0).abs() < 1e-9), "{ratios:?}");
        assert!(ratio(&[], &[1.0], 99).is_nan());
    }
}
