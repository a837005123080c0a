//! Noop: everything is touched, and nothing has changed. Restart: the operator ends, and another one begins.

use std::time::Instant;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::jiff::Timestamp;
use kantor_testbed::wait::{Seen, until};
use serde_json::json;

use super::{
    cold::peak_memory,
    edit::Edits,
    machine::calm,
    requests::Requests,
    result::{Case, Figure, Run},
    sample,
    stand::{AT_ONCE, PATIENCE, Stand},
    statistics::number,
};

/// Touches all Deployments and their artifacts.
pub(crate) async fn touch(stand: &Stand, case: &Case, run: &mut Run) -> Result<()> {
    stand.ground.quiet().await?;
    let probed = stand.probes().await?;
    let before = stand.ground.requests().await?;
    let reconciled = reconciles(stand).await?;
    // An annotation that is nobody's business: others would be handed on.
    let mark =
        json!({"metadata": {"annotations": {"kubectl.kubernetes.io/touched": Timestamp::now().to_string()}}});
    for kind in ["Deployment", "DeployableArtifact"] {
        let touches = (0..stand.count).map(|number| {
            let (name, touched) = (sample::component(number), &mark);
            async move { stand.patch(kind, &name, touched).await.map(drop) }
        });
        stream::iter(touches).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    }
    until("all Deployments were looked at", PATIENCE, || async {
        let seen = reconciles(stand).await? - reconciled;
        Ok(if seen >= number(stand.count) { Seen::Done(()) } else { Seen::NotYet(format!("{seen} were")) })
    })
    .await?;
    stand.ground.quiet().await?;
    let [control, planes] = since(stand, &before, |probes| probes.saturating_sub(probed)).await?;
    let own = stand.count;
    let control = control.without("PATCH", "deployments.openchoreo.dev", own);
    let control = control.without("PATCH", "deployableartifacts.openchoreo.dev", own);
    let to_planes = number(planes.calls());
    run.figures.push(
        Figure::new("noop", case, "requests to data planes", to_planes, "").at_most(0.0).note(planes.shown()),
    );
    let writes = number(control.writes());
    run.figures.push(
        Figure::new("noop", case, "writes to the control plane", writes, "")
            .at_most(0.0)
            .note(control.shown()),
    );
    Ok(())
}

/// Starts the operator again: once with nothing to do, once with an edit that was made meanwhile.
pub(crate) async fn restart(stand: &mut Stand, case: &Case, run: &mut Run) -> Result<()> {
    stand.ground.quiet().await?;
    let before = stand.ground.requests().await?;
    stand.stop_operator().await?;
    let started = Instant::now();
    stand.start_operator().await?;
    stand.operator.ready().await?;
    let ready = started.elapsed().as_secs_f64();
    until("all Deployments were looked at", PATIENCE, || async {
        let seen = reconciles(stand).await?;
        Ok(if seen >= number(stand.count) { Seen::Done(()) } else { Seen::NotYet(format!("{seen} were")) })
    })
    .await?;
    stand.ground.quiet().await?;
    // Those whose plane was not known yet are looked at once more, and nobody tells when that ends.
    calm(PATIENCE).await;
    // Each plane is asked who it is as soon as it is connected.
    let connected = stand.ground.planes.len();
    let [control, planes] = since(stand, &before, |probes| probes + connected).await?;
    let writes = number(control.writes() + planes.writes());
    let note =
        format!("control plane: {}; data planes: {}", only_writes(control), only_writes(planes.clone()));
    let figure = |what: &str, value, unit| Figure::new("restart", case, what, value, unit);
    run.figures.push(figure("writes", writes, "").at_most(0.0).note(note));
    let single = planes.total(|call| call.verb == "GET");
    run.figures.push(figure("single reads of data planes", number(single), "").note(planes.shown()));
    run.figures.push(figure("time to ready", ready, "s"));
    let usage = stand.usage()?;
    run.figures.push(peak_memory("restart", case, &usage));
    run.figures.push(figure("processor time of the operator", usage.cpu, "s"));

    let mut edits = Edits::open(stand).await?;
    stand.stop_operator().await?;
    edits.send(stand, 0).await?;
    let started = Instant::now();
    stand.start_operator().await?;
    let seen = edits.all_visible().await?;
    let seen = seen.last().context("the edit was never seen")?;
    run.figures.push(figure(
        "time until an edit made meanwhile is out",
        (*seen - started).as_secs_f64(),
        "s",
    ));
    stand.operator.ready().await
}

/// Requests since `before`, without those that ask all the time whether a plane is still there: `probes` says how many of
/// them there were, by what the operator has counted. Other reads of namespaces are counted.
async fn since(
    stand: &Stand,
    before: &[Requests; 2],
    probes: impl FnOnce(usize) -> usize,
) -> Result<[Requests; 2]> {
    let [control, planes] = stand.ground.requests().await?;
    let probes = probes(stand.probes().await?);
    Ok([control.since(&before[0]), planes.since(&before[1]).without("GET", "namespaces", probes)])
}

fn only_writes(mut requests: Requests) -> String {
    requests.0.retain(|call, _| call.is_write());
    requests.shown()
}

/// Reconciles of Deployments so far, by the operator's own count.
async fn reconciles(stand: &Stand) -> Result<f64> {
    let (_, text) = stand.operator.get("/metrics").await?;
    let counts = text.lines().filter(|line| {
        line.starts_with("kantor_reconciles_total{") && line.contains(r#"controller="deployment""#)
    });
    Ok(counts.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum())
}
