//! Cold: all Deployments at once, until everything stands.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    ResourceExt,
    api::{DynamicObject, PostParams},
};

use super::{
    floor::Floor,
    machine::Usage,
    requests::Requests,
    result::{Case, Figure, RequestTable, Run},
    sample,
    stand::{AT_ONCE, PATIENCE, Stand},
    statistics::{number, percentile},
    watching::Watches,
};
use crate::terminal::say;

/// The time that 100 Deployments over two planes may take, in seconds.
const GOAL: f64 = 4.0;
/// Times the floor.
const FLOOR_GOAL: f64 = 2.0;
/// Memory with 1,000 Deployments, in megabytes.
const MEMORY_GOAL: f64 = 120.0;

/// What it took to bring all Deployments out.
pub(crate) struct Cold {
    /// Until all stood.
    pub took: Duration,
    /// Until the last write to a resource of Kantor's.
    pub settled: Duration,
    /// Of each Deployment from its creation until it stood, in seconds.
    pub each: Vec<f64>,
    pub control: Requests,
    pub planes: Requests,
    /// What the operator held at the end, and its processor time meanwhile.
    pub usage: Usage,
    pub servers_cpu: f64,
}

/// Creates all Deployments and waits until they stand.
pub(crate) async fn deploy(stand: &Stand) -> Result<Cold> {
    let ground = &stand.ground;
    let api = |kind| (sample::our_api(&ground.client, kind), "");
    let mut watches = Watches::open(vec![api("Deployment"), api("Endpoint")]).await?;
    let before = ground.requests().await?;
    let (usage, cpu) = (stand.usage()?, ground.servers_cpu());

    let started = Instant::now();
    let deployments = sample::our_api(&ground.client, "Deployment");
    let creating = stand.deployments().into_iter().map(|deployment| {
        let deployments = &deployments;
        async move {
            let sent = Instant::now();
            deployments.create(&PostParams::default(), &deployment).await.context("create a Deployment")?;
            Ok::<_, anyhow::Error>((deployment.name_any(), sent))
        }
    });
    let creating = stream::iter(creating).buffer_unordered(AT_ONCE).try_collect::<HashMap<_, _>>();
    let mut stood: [HashMap<String, Instant>; 2] = Default::default();
    let mut waiting: [HashSet<String>; 2] = Default::default();
    let what = format!("{} Deployments stand", stand.count);
    let standing = watches.until(&what, PATIENCE, |sight| {
        let name = sight.object.name_any();
        if stands(&sight.object, sight.watch == 0) {
            waiting[sight.watch].remove(&name);
            stood[sight.watch].entry(name).or_insert(sight.at);
        } else {
            waiting[sight.watch].insert(name);
        }
        stood.iter().all(|stood| stood.len() >= stand.count) && waiting.iter().all(HashSet::is_empty)
    });
    let (created, end) = futures::future::try_join(creating, standing).await?;
    let last = watches.until_quiet(Duration::from_secs(3)).await.unwrap_or(end);
    let after = stand.usage()?;
    let servers_cpu = ground.servers_cpu() - cpu;
    let [control, planes] = ground.requests().await?;
    stand.verify().await?;
    let each = created
        .iter()
        .filter_map(|(name, sent)| Some(stood[0].get(name)?.duration_since(*sent).as_secs_f64()))
        .collect();
    let cold = Cold {
        took: end - started,
        settled: last - started,
        each,
        control: control.since(&before[0]).without("POST", "deployments.openchoreo.dev", stand.count),
        planes: planes.since(&before[1]),
        usage: Usage { cpu: after.cpu - usage.cpu, ..after },
        servers_cpu,
    };
    say(&format!(
        "{} Deployments stand after {:.2} s; {:.0} MB",
        stand.count,
        cold.took.as_secs_f64(),
        cold.usage.peak_mb
    ));
    Ok(cold)
}

/// Whether the status of this generation lists the objects on the plane, and tells of the Endpoint.
fn stands(object: &DynamicObject, is_deployment: bool) -> bool {
    let status = &object.data["status"];
    let listed = |key: &str| status[key].as_array().is_some_and(|list| !list.is_empty());
    let seen = status["observedGeneration"].as_i64() == object.metadata.generation && listed("inventory");
    seen && (!is_deployment || status["endpoints"][0]["ready"].is_string())
}

/// The most that the operator held. There is a goal for up to 1,000 Deployments.
pub(crate) fn peak_memory(scenario: &str, case: &Case, usage: &Usage) -> Figure {
    let figure = Figure::new(scenario, case, "peak memory of the operator", usage.peak_mb, "MB");
    if case.deployments <= 1000 { figure.at_most(MEMORY_GOAL) } else { figure }
}

/// Adds the figures of a run of Kantor, and of the floor beside it.
pub(crate) fn report(run: &mut Run, case: &Case, cold: &Cold, floor: &Floor) {
    let figure = |what: &str, value: f64, unit: &str| Figure::new("cold", case, what, value, unit);
    let took = cold.took.as_secs_f64();
    let mut time = figure("time until all stand", took, "s").of(&cold.each);
    if (case.deployments, case.planes) == (100, 2) {
        time = time.at_most(GOAL);
    }
    run.figures.push(time);
    let floor_took = floor.took.as_secs_f64();
    run.figures.push(figure("time of the floor", floor_took, "s"));
    run.figures.push(figure("times the floor", took / floor_took, "×").at_most(FLOOR_GOAL));
    if let Some(p99) = percentile(&cold.each, 99) {
        run.figures.push(figure("one Deployment, p99", p99, "s"));
    }
    run.figures.push(figure("until the last write", cold.settled.as_secs_f64(), "s"));
    run.figures.push(peak_memory("cold", case, &cold.usage));
    run.figures.push(figure("processor time of the operator", cold.usage.cpu, "s"));
    run.figures.push(figure("processor time of the servers", cold.servers_cpu, "s"));
    run.figures.push(figure("processor time of the servers, floor", floor.servers_cpu, "s"));
    let sides =
        [("control plane", &cold.control, &floor.control), ("data planes", &cold.planes, &floor.planes)];
    for (cluster, requests, floor) in sides {
        let per = number(requests.writes()) / number(case.deployments);
        let what = format!("writes to the {cluster} per Deployment");
        let least = number(floor.writes()) / number(case.deployments);
        run.figures.push(figure(&what, per, "").note(format!("the floor: {least:.2}")));
        let table = RequestTable {
            scenario: "cold".to_owned(),
            case: case.clone(),
            cluster: cluster.to_owned(),
            rows: vec![],
        };
        run.requests.push(requests.per(case.deployments, Some(floor), table));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deployment_stands_when_the_status_of_its_generation_lists_everything() {
        let with = |status: serde_json::Value| {
            sample::object(json!({"metadata": {"name": "a", "generation": 2}, "status": status}))
        };
        let whole = json!({"observedGeneration": 2, "inventory": [{}], "endpoints": [{"ready": "False"}]});
        assert!(stands(&with(whole.clone()), true));
        for (key, value) in
            [("observedGeneration", json!(1)), ("inventory", json!([])), ("endpoints", json!([{}]))]
        {
            let mut status = whole.clone();
            status[key] = value;
            assert!(!stands(&with(status), true), "{key}");
        }
        let mut endpoint = whole;
        endpoint["endpoints"] = json!([]);
        assert!(stands(&with(endpoint), false));
    }
}
