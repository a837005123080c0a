//! The same objects by Flux: Kustomizations with the planes' kubeconfigs, fed with an artifact that is served from here.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use k8s_openapi::jiff::Timestamp;
use kantor_testbed::{
    Flux,
    assets::{self, FluxAssets},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::{
    artifact::{Artifact, source_crds},
    edit::report as percentiles,
    machine::Usage,
    release::{EACH, foreign_edit, is_ready},
    result::{Case, Figure, Run},
    sample::{self, ORGANIZATION},
    stand::{Ground, PATIENCE},
    statistics::number,
    watching::Watches,
};
use crate::terminal::say;

const PLANES: usize = 2;
/// Of the objects on the planes.
pub(crate) const NAMESPACE: &str = "releases";

/// Measures Flux, or says why it cannot.
pub(crate) async fn measure(project: &Path, count: usize, run: &mut Run) -> Result<()> {
    match tokio::task::spawn_blocking(assets::flux).await? {
        Ok(assets) => {
            run.versions.insert("kustomize-controller".to_owned(), assets::FLUX_VERSION.to_owned());
            beside(&assets, project, count, run).await
        }
        Err(error) => {
            say(&format!("{error:#}"));
            say("GOING ON WITHOUT FLUX: Releases are measured beside the bare client only");
            run.remarks.push("Flux could not be built: Releases were not measured beside it.".to_owned());
            Ok(())
        }
    }
}

async fn beside(assets: &FluxAssets, project: &Path, count: usize, run: &mut Run) -> Result<()> {
    let ground = furnished(assets, project).await?;
    let releases = count / EACH;
    let artifact = Artifact::serve(releases).await?;
    artifact.announce(&ground).await?;
    let flux = Flux::start(assets, &ground.control_plane.kubeconfig())?;
    at_work(&ground).await.with_context(|| flux.log_tail())?;

    let case = Case { deployments: count, planes: PLANES, variant: "Flux".to_owned() };
    let figure = |what: &str, value, unit| Figure::new("release", &case, what, value, unit);
    let api = sample::api_of(&ground.client, &kustomization(0));
    let mut watches = Watches::open(vec![(api.clone(), "")]).await?;
    let (cpu, usage) = (ground.servers_cpu(), Usage::of(flux.pid())?);
    let started = Instant::now();
    ground.create((0..releases).map(kustomization).collect()).await?;
    let mut ready = HashSet::new();
    let applied = watches.until("Flux has applied everything", PATIENCE, |sight| {
        if is_ready(&sight.object) {
            ready.insert(sight.object.name_any());
        }
        ready.len() == releases
    });
    let took = applied.await.with_context(|| flux.log_tail())?.duration_since(started).as_secs_f64();
    say(&format!("Flux has applied {count} objects after {took:.2} s"));
    run.figures.push(figure("time until all are applied", took, "s"));
    let after = Usage::of(flux.pid())?;
    run.figures.push(figure("peak memory of the controller", after.peak_mb, "MB"));
    run.figures.push(figure("processor time of the controller", after.cpu - usage.cpu, "s"));
    run.figures.push(figure("processor time of the servers", ground.servers_cpu() - cpu, "s"));
    ground.quiet().await?;

    let before = ground.requests().await?;
    again(&api, releases, &mut watches).await?;
    ground.quiet().await?;
    let [control, planes] = ground.requests().await?;
    let control = control.since(&before[0]);
    let control = control.without("PATCH", "kustomizations.kustomize.toolkit.fluxcd.io", releases);
    let planes = planes.since(&before[1]);
    let requests = number(planes.calls() + control.writes());
    let note = format!("control plane: {}; data planes: {}", control.shown(), planes.shown());
    run.figures.push(figure("requests when all are reconciled again", requests, "").note(note));
    drift(&ground, &api, &case, run).await
}

/// Clusters with Flux's kinds, the planes' kubeconfigs and the namespaces of the objects.
async fn furnished(assets: &FluxAssets, project: &Path) -> Result<Ground> {
    let ground = Ground::start(project, PLANES).await?;
    for file in &assets.crds {
        ground.control_plane.apply_file(file).await?;
    }
    ground.control_plane.apply_yaml(&source_crds()).await?;
    let namespace = |name: &str| {
        sample::object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
    };
    ground.create(vec![namespace(ORGANIZATION)]).await?;
    for (number, plane) in ground.planes.iter().enumerate() {
        let objects = namespace(NAMESPACE);
        sample::api_of(&plane.client, &objects).create(&PostParams::default(), &objects).await?;
        let kubeconfig = plane.cluster.kubeconfig().to_yaml();
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"value": kubeconfig},
            "metadata": {"name": sample::plane(number), "namespace": ORGANIZATION}});
        ground.create(vec![sample::object(secret)]).await?;
    }
    Ok(ground)
}

/// Changes objects on a plane. Flux looks at its interval, so it is asked to look at once.
async fn drift(ground: &Ground, api: &Api<DynamicObject>, case: &Case, run: &mut Run) -> Result<()> {
    const COUNT: usize = 10;
    let client = ground.planes[0].client.clone();
    let maps: Api<DynamicObject> = Api::namespaced_with(client, NAMESPACE, &sample::resource("v1/ConfigMap"));
    let mut watches = Watches::open(vec![(maps.clone(), "")]).await?;
    let mut samples = Vec::new();
    for number in 0..COUNT {
        let name = format!("settings-000-{number:03}");
        samples.push(foreign_edit(&maps, &name, &mut watches, || request(api, "release-000")).await?);
    }
    percentiles(run, "release", case, "changed object repaired when asked to look", &samples, None);
    Ok(())
}

/// Asks for a reconcile, as `flux reconcile` does; returns what it asked with.
async fn request(api: &Api<DynamicObject>, name: &str) -> Result<String> {
    let at = Timestamp::now().to_string();
    let patch = json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": at}}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(at)
}

/// Asks for all Kustomizations, and waits until all were handled.
async fn again(api: &Api<DynamicObject>, releases: usize, watches: &mut Watches) -> Result<()> {
    let mut open = HashMap::new();
    for number in 0..releases {
        let name = format!("release-{number:03}");
        let at = request(api, &name).await?;
        open.insert(name, at);
    }
    let handled = watches.until("Flux has looked at everything", PATIENCE, |sight| {
        let name = sight.object.name_any();
        let at = sight.object.data["status"]["lastHandledReconcileAt"].as_str();
        if open.get(&name).is_some_and(|asked| at == Some(asked)) && is_ready(&sight.object) {
            open.remove(&name);
        }
        open.is_empty()
    });
    handled.await.map(drop)
}

/// Waits until the controller works: a Kustomization of nothing is dealt with, and goes.
async fn at_work(ground: &Ground) -> Result<()> {
    let mut probe = kustomization(0);
    probe.metadata.name = Some("probe".to_owned());
    probe.data["spec"]["path"] = json!("./nothing");
    let api = sample::api_of(&ground.client, &probe);
    let mut watches = Watches::open(vec![(api.clone(), "")]).await?;
    api.create(&PostParams::default(), &probe).await?;
    let seen = watches.until("Flux is at work", Duration::from_mins(2), |sight| {
        sight.object.data["status"]["conditions"].as_array().is_some_and(|conditions| !conditions.is_empty())
    });
    seen.await?;
    api.delete("probe", &DeleteParams::default()).await?;
    watches.until("the probe is gone", PATIENCE, |sight| sight.gone).await.map(drop)
}

fn kustomization(number: usize) -> DynamicObject {
    sample::object(json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": format!("release-{number:03}"), "namespace": ORGANIZATION},
        "spec": {
            "interval": "1h", "prune": true, "path": format!("./release-{number:03}"),
            "sourceRef": {"kind": "GitRepository", "name": "source"},
            "kubeConfig": {"secretRef": {"name": sample::plane(number % PLANES)}},
        },
    }))
}
