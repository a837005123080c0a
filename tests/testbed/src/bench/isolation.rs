//! Isolation: half of the planes are in trouble, and edits of the others do not feel it. Rotate: credentials of all planes
//! change while edits go on.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kantor_testbed::{
    KubeconfigSpec, ServiceAccountAccess,
    kubeconfig::Auth,
    proxy::{Action, Fault, Match, Verb},
    wait::{Seen, until},
};

use super::{
    edit::{Edits, PACE, report},
    result::{Case, Figure, Run},
    stand::{PATIENCE, Stand},
    statistics::{number, percentile},
};
use crate::commands::say;

/// Times the edits without trouble.
const GOAL: f64 = 1.1;
/// Until rotated credentials are used, in milliseconds.
const ROTATION_GOAL: f64 = 1000.0;
const SLOW: Duration = Duration::from_secs(5);

/// What is wrong with a plane.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    Hangs,
    Refuses,
    Slow,
}

/// Edits on the healthy planes, without trouble and with each kind of it.
pub(crate) async fn measure(stand: &Stand, case: &Case, count: usize, run: &mut Run) -> Result<()> {
    let planes = stand.ground.planes.len();
    let sick = planes / 2;
    if sick == 0 {
        run.remarks.push("isolation was left out: it takes two planes".to_owned());
        return Ok(());
    }
    for plane in 0..sick {
        through_proxy(stand, plane).await?;
    }
    stand.ground.quiet().await?;
    let mut edits = Edits::open(stand).await?;
    let healthy = |plane: usize| plane >= sick;
    let mut base = edits.paced(stand, count, PACE, healthy).await?;
    for trouble in [Trouble::Hangs, Trouble::Refuses, Trouble::Slow] {
        let what = match trouble {
            Trouble::Hangs => "hang",
            Trouble::Refuses => "refuse",
            Trouble::Slow => "answer after 5 s",
        };
        say(&format!("{sick} of {planes} planes {what}"));
        let mut faults = Vec::new();
        for plane in 0..sick {
            match trouble {
                Trouble::Hangs => stand.ground.planes[plane].cluster.pause()?,
                Trouble::Refuses => stand.proxies[plane].refuse(true),
                Trouble::Slow => {
                    faults.push(
                        stand.proxies[plane].fault(Fault::when(Match::new()).then(Action::Delay(SLOW))),
                    );
                }
            }
        }
        let samples = edits.paced(stand, count, PACE, healthy).await?;
        drop(faults);
        for plane in 0..sick {
            match trouble {
                Trouble::Hangs => stand.ground.planes[plane].cluster.resume()?,
                Trouble::Refuses => stand.proxies[plane].refuse(false),
                Trouble::Slow => {}
            }
        }
        stand.ready("DataPlane", planes).await?;
        stand.ground.quiet().await?;
        report(run, "isolation", case, &format!("edit while others {what}"), &samples, None);
        // Beside what was measured right before and right after: the machine is not the same all the time.
        let after = edits.paced(stand, count, PACE, healthy).await?;
        let around: Vec<f64> = base.iter().chain(&after).copied().collect();
        report(run, "isolation", case, &format!("edit without trouble, around «{what}»"), &around, None);
        for (percent, goal) in [(50, None), (99, Some(GOAL))] {
            let ratio = percentile(&samples, percent).zip(percentile(&around, percent)).map(|(a, b)| a / b);
            let what = format!("times an edit without trouble, p{percent}, others {what}");
            let figure = Figure::new("isolation", case, &what, ratio.unwrap_or(f64::NAN), "×");
            run.figures.push(Figure { goal, ..figure });
        }
        base = after;
    }
    Ok(())
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
    until("all planes are ready", PATIENCE, || async {
        stand.ready("DataPlane", planes).await?;
        Ok(Seen::Done(()))
    })
    .await
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
