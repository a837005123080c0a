//! Release: many objects in Releases, applied, left alone and repaired, beside a bare client and beside Flux.

use std::{collections::HashSet, path::Path, time::Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, future::try_join_all, stream};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{
    edit::report as percentiles,
    result::{Case, Figure, RequestTable, Run},
    sample,
    stand::{AT_ONCE, Ground, PATIENCE, Stand},
    statistics::number,
    watching::Watches,
};
use crate::terminal::say;

/// Objects of one Release.
pub(crate) const EACH: usize = 100;
/// Times the floor.
const FLOOR_GOAL: f64 = 2.0;
/// In milliseconds.
const DRIFT_GOAL: f64 = 1000.0;

/// The objects of a Release.
pub(crate) fn objects(namespace: &str, release: usize) -> Vec<Value> {
    let object = |number: usize| {
        let name = format!("settings-{release:03}-{number:03}");
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace},
            "data": {"colour": "blue", "level": "info", "name": name}})
    };
    (0..EACH).map(object).collect()
}

/// Applies `count` objects in Releases over two planes.
pub(crate) async fn measure(program: &Path, project: &Path, count: usize, run: &mut Run) -> Result<()> {
    const PLANES: usize = 2;
    let releases = count / EACH;
    ensure!(releases >= PLANES, "there have to be at least {} objects", PLANES * EACH);
    let case = Case { deployments: count, planes: PLANES, variant: String::new() };
    let figure = |what: &str, value, unit| Figure::new("release", &case, what, value, unit);
    // A Deployment on each plane: its namespace is the project's.
    let stand = Stand::start(program, project, PLANES, PLANES).await?;
    super::cold::deploy(&stand).await?;
    let namespaces = namespaces(&stand).await?;
    stand.ground.quiet().await?;

    let api = sample::our_api(&stand.ground.client, "Release");
    let mut watches = Watches::open(vec![(api.clone(), "")]).await?;
    let (before, cpu, usage) = (stand.ground.requests().await?, stand.ground.servers_cpu(), stand.usage()?);
    let started = Instant::now();
    let creating = (0..releases).map(|number| {
        let plane = number % PLANES;
        let objects = objects(&namespaces[plane], number);
        let release =
            sample::release(&format!("release-{number:03}"), &sample::component(plane), plane, &objects);
        let api = &api;
        async move { api.create(&PostParams::default(), &release).await.map(drop) }
    });
    let creating = async { Ok(stream::iter(creating).buffer_unordered(AT_ONCE).try_collect::<()>().await?) };
    let mut ready = HashSet::new();
    let standing = watches.until("all Releases are ready", PATIENCE, |sight| {
        if is_ready(&sight.object) {
            ready.insert(sight.object.name_any());
        } else {
            ready.remove(&sight.object.name_any());
        }
        ready.len() == releases
    });
    let ((), end) = futures::future::try_join(creating, standing).await?;
    let took = (end - started).as_secs_f64();
    say(&format!("{count} objects in {releases} Releases are ready after {took:.2} s"));
    run.figures.push(figure("time until all are ready", took, "s"));
    let after = stand.usage()?;
    run.figures.push(figure("peak memory of the operator", after.peak_mb, "MB"));
    run.figures.push(figure("processor time of the operator", after.cpu - usage.cpu, "s"));
    run.figures.push(figure("processor time of the servers", stand.ground.servers_cpu() - cpu, "s"));
    stand.ground.quiet().await?;
    let requests = stand.ground.requests().await?;

    noop(&stand, &case, releases, run).await?;
    drift(&stand, &case, &namespaces, run).await?;
    drop(stand);

    say("the floor: a bare client that writes the same");
    let (floor, floor_requests) = floor(project, &namespaces, releases).await?;
    run.figures.push(figure("time of the floor", floor, "s"));
    run.figures.push(figure("times the floor", took / floor, "×").at_most(FLOOR_GOAL));
    for (index, cluster) in ["control plane", "data planes"].into_iter().enumerate() {
        let table = RequestTable {
            scenario: "release".to_owned(),
            case: case.clone(),
            cluster: cluster.to_owned(),
            rows: vec![],
        };
        let kantor =
            requests[index].since(&before[index]).without("POST", "releases.openchoreo.dev", releases);
        run.requests.push(kantor.per(releases, Some(&floor_requests[index]), table));
    }
    Ok(())
}

/// Namespace of the project on each plane.
async fn namespaces(stand: &Stand) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for number in 0..stand.count {
        let deployment =
            sample::our_api(&stand.ground.client, "Deployment").get(&sample::component(number)).await?;
        let namespace =
            deployment.data["status"]["namespace"].as_str().context("a Deployment without a namespace")?;
        found.push(namespace.to_owned());
    }
    Ok(found)
}

/// Whether a Release, or a Kustomization of Flux, is ready as it now is.
pub(crate) fn is_ready(release: &DynamicObject) -> bool {
    let status = &release.data["status"];
    let ready = status["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|c| c["type"] == "Ready" && c["status"] == "True");
    ready && status["observedGeneration"].as_i64() == release.metadata.generation
}

/// Touches all Releases.
async fn noop(stand: &Stand, case: &Case, releases: usize, run: &mut Run) -> Result<()> {
    let probed = stand.probes().await?;
    let before = stand.ground.requests().await?;
    let touched = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/touched": "yes"}}});
    for number in 0..releases {
        stand.patch("Release", &format!("release-{number:03}"), &touched).await?;
    }
    stand.ground.quiet().await?;
    let [control, planes] = stand.ground.requests().await?;
    let planes = planes.since(&before[1]).without("GET", "namespaces", stand.probes().await? - probed);
    let control = control.since(&before[0]).without("PATCH", "releases.openchoreo.dev", releases);
    let requests = number(planes.calls() + control.writes());
    let note = format!("control plane: {}; data planes: {}", control.shown(), planes.shown());
    let what = "requests when all are touched";
    run.figures.push(Figure::new("release", case, what, requests, "").at_most(0.0).note(note));
    Ok(())
}

/// Changes objects on the planes, one after the other.
async fn drift(stand: &Stand, case: &Case, namespaces: &[String], run: &mut Run) -> Result<()> {
    const COUNT: usize = 50;
    let mut samples = Vec::new();
    for (plane, namespace) in namespaces.iter().enumerate() {
        let client = stand.ground.planes[plane].client.clone();
        let maps: Api<DynamicObject> =
            Api::namespaced_with(client, namespace, &sample::resource("v1/ConfigMap"));
        let mut watches = Watches::open(vec![(maps.clone(), "")]).await?;
        for number in 0..COUNT / namespaces.len() {
            let name = format!("settings-{plane:03}-{number:03}");
            samples.push(foreign_edit(&maps, &name, &mut watches, async || Ok(())).await?);
        }
    }
    percentiles(run, "release", case, "changed object repaired", &samples, Some(DRIFT_GOAL));
    Ok(())
}

/// Milliseconds until a changed object is as it was; `ask` is done once it is changed.
pub(crate) async fn foreign_edit<T, F: Future<Output = Result<T>>>(
    maps: &Api<DynamicObject>,
    name: &str,
    watches: &mut Watches,
    ask: impl FnOnce() -> F,
) -> Result<f64> {
    let params = PatchParams { field_manager: Some("somebody".to_owned()), ..PatchParams::default() };
    watches.drain();
    let sent = Instant::now();
    let changed = maps.patch(name, &params, &Patch::Merge(json!({"data": {"colour": "red"}}))).await?;
    ask().await?;
    let version =
        |object: &DynamicObject| object.resource_version().and_then(|version| version.parse::<u64>().ok());
    let from = version(&changed);
    let repaired = watches.until("a change is repaired", PATIENCE, |sight| {
        sight.object.name_any() == name
            && version(&sight.object) > from
            && sight.object.data["data"]["colour"] == "blue"
    });
    Ok(repaired.await?.duration_since(sent).as_secs_f64() * 1000.0)
}

/// A bare client: Releases with a finalizer and a status each, and their objects, all of them at once.
async fn floor(
    project: &Path,
    namespaces: &[String],
    releases: usize,
) -> Result<(f64, [super::requests::Requests; 2])> {
    let ground = Ground::start(project, namespaces.len()).await?;
    let made = |name: &str| {
        sample::object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
    };
    ground.create(vec![made(sample::ORGANIZATION)]).await?;
    for (plane, namespace) in ground.planes.iter().zip(namespaces) {
        let namespace = made(namespace);
        sample::api_of(&plane.client, &namespace).create(&PostParams::default(), &namespace).await?;
    }
    let before = ground.requests().await?;
    let started = Instant::now();
    let lanes = (0..namespaces.len()).map(|plane| {
        let ground = &ground;
        let mine = (0..releases).filter(move |number| number % namespaces.len() == plane);
        let objects: Vec<Value> =
            mine.clone().flat_map(|number| objects(&namespaces[plane], number)).collect();
        async move {
            // Two servers, and nothing that one has to wait for the other with.
            let releases =
                mine.map(|number| write_release(&ground.client, number, plane, &namespaces[plane]));
            let releases = stream::iter(releases).buffer_unordered(AT_ONCE).try_collect::<()>();
            let writes = objects.into_iter().map(|object| apply(&ground.planes[plane].client, object));
            let writes = stream::iter(writes).buffer_unordered(AT_ONCE).try_collect::<()>();
            futures::future::try_join(releases, writes).await.map(drop)
        }
    });
    try_join_all(lanes).await?;
    let took = started.elapsed().as_secs_f64();
    let [control, planes] = ground.requests().await?;
    let control = control.since(&before[0]).without("POST", "releases.openchoreo.dev", releases);
    Ok((took, [control, planes.since(&before[1])]))
}

/// A Release with its finalizer and a status that lists all objects.
async fn write_release(client: &Client, number: usize, plane: usize, namespace: &str) -> Result<()> {
    let name = format!("release-{number:03}");
    let objects = objects(namespace, number);
    let release = sample::release(&name, &sample::component(plane), plane, &objects);
    let api = sample::api_of(client, &release);
    api.create(&PostParams::default(), &release).await?;
    let finalizers = json!({"metadata": {"finalizers": ["openchoreo.dev/release-cleanup"]}});
    api.patch(&name, &PatchParams::default(), &Patch::Merge(finalizers)).await?;
    let item = |object: &Value| {
        json!({"id": object["metadata"]["name"], "version": "v1", "kind": "ConfigMap", "name": object["metadata"]["name"],
            "namespace": namespace, "uid": "00000000-0000-0000-0000-000000000000", "healthStatus": "Healthy"})
    };
    let status = json!({"apiVersion": "openchoreo.dev/v1alpha1", "kind": "Release", "metadata": {"name": name},
        "status": {"observedGeneration": 1, "resources": objects.iter().map(item).collect::<Vec<_>>()}});
    api.patch_status(&name, &PatchParams::apply("kantor").force(), &Patch::Apply(status)).await?;
    Ok(())
}

async fn apply(client: &Client, object: Value) -> Result<()> {
    let object = sample::object(object);
    let params = PatchParams::apply("kantor").force();
    sample::api_of(client, &object).patch(&object.name_any(), &params, &Patch::Apply(&object)).await?;
    Ok(())
}
