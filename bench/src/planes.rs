//! Planes: many DataPlanes on which nothing is deployed, and what they cost.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::{
    result::{Case, Figure, Run},
    sample,
    stand::Stand,
    statistics::number,
};
use crate::terminal::say;

/// With 1,000 planes, in megabytes.
const GOAL: f64 = 400.0;
/// How long idling is watched.
const IDLE: Duration = Duration::from_secs(30);

/// Registers `count` DataPlanes, all of them on a few real servers under names of their own.
pub(crate) async fn measure(program: &Path, project: &Path, count: usize, run: &mut Run) -> Result<()> {
    const SERVERS: usize = 2;
    // One component, so that there is a frame around the planes.
    let stand = Stand::start(program, project, 1, SERVERS).await?;
    let case = Case { deployments: 0, planes: count, variant: String::new() };
    let figure = |what: &str, value, unit| Figure::new("planes", &case, what, value, unit);
    run.figures.push(figure("memory without planes", stand.usage()?.resident_mb, "MB"));
    say(&format!("{count} DataPlanes on {SERVERS} servers"));
    let started = Instant::now();
    let more = (SERVERS..count)
        .map(|number| sample::data_plane(&sample::plane(number), &sample::plane(number % SERVERS)));
    stand.ground.create(more.collect()).await?;
    stand.ready("DataPlane", count).await?;
    run.figures.push(figure("time until all are ready", started.elapsed().as_secs_f64(), "s"));
    stand.ground.quiet().await?;
    let before = (stand.usage()?, stand.ground.requests().await?);
    tokio::time::sleep(IDLE).await;
    let after = (stand.usage()?, stand.ground.requests().await?);
    let minutes = IDLE.as_secs_f64() / 60.0;
    run.figures.push(figure("memory", after.0.resident_mb, "MB").at_most(GOAL * number(count) / 1000.0));
    run.figures.push(figure("peak memory", after.0.peak_mb, "MB"));
    let cores = (after.0.cpu - before.0.cpu) / IDLE.as_secs_f64();
    run.figures.push(figure("processor while idle", cores * 100.0, "% of a core"));
    let calls = after.1[1].since(&before.1[1]);
    let per = number(calls.total(|_| true)) / minutes / number(count);
    run.figures.push(figure("requests per plane and minute while idle", per, "").note(calls.shown()));
    let writes = after.1[0].since(&before.1[0]);
    run.figures.push(
        figure("writes to the control plane while idle", number(writes.writes()), "")
            .at_most(0.0)
            .note(writes.shown()),
    );
    Ok(())
}
