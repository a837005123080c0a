//! Delete: Deployments go, and nothing is left of them.

use std::{collections::HashSet, time::Instant};

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams},
};

use super::{
    edit::report,
    result::{Case, Figure, Run},
    sample,
    stand::{AT_ONCE, PATIENCE, Stand},
    statistics::number,
    watching::Watches,
};

/// One Deployment with its Endpoint, in milliseconds.
const GOAL: f64 = 2000.0;
/// Kinds that Kantor puts on data planes.
const KINDS: [&str; 9] = [
    "apps/v1/Deployment",
    "v1/Service",
    "v1/ConfigMap",
    "v1/Secret",
    "autoscaling/v2/HorizontalPodAutoscaler",
    "batch/v1/CronJob",
    "batch/v1/Job",
    "gateway.networking.k8s.io/v1/HTTPRoute",
    "gateway.networking.k8s.io/v1/GRPCRoute",
];

/// Deletes some one by one, the others all at once.
pub(crate) async fn measure(stand: &Stand, case: &Case, run: &mut Run) -> Result<()> {
    stand.ground.quiet().await?;
    let client = &stand.ground.client;
    let deployments = sample::our_api(client, "Deployment");
    let mut watches = Watches::open(vec![(deployments.clone(), "")]).await?;
    let single = (stand.count / 5).min(20);
    let mut samples = Vec::new();
    for number in 0..single {
        let name = sample::component(number);
        let sent = Instant::now();
        deployments.delete(&name, &DeleteParams::default()).await?;
        let gone = watches
            .until("a Deployment is gone", PATIENCE, |sight| sight.gone && sight.object.name_any() == name);
        samples.push(gone.await?.duration_since(sent).as_secs_f64() * 1000.0);
    }
    report(run, "delete", case, "one Deployment", &samples, Some(GOAL));

    let before = stand.ground.requests().await?;
    let mut left: HashSet<String> = (single..stand.count).map(sample::component).collect();
    let rest = left.len();
    let started = Instant::now();
    let deleting = left.clone().into_iter().map(|name| {
        let deployments = &deployments;
        async move { deployments.delete(&name, &DeleteParams::default()).await.map(drop) }
    });
    let deleting = async { Ok(stream::iter(deleting).buffer_unordered(AT_ONCE).try_collect::<()>().await?) };
    let going = watches.until("all Deployments are gone", PATIENCE, |sight| {
        if sight.gone {
            left.remove(&sight.object.name_any());
        }
        left.is_empty()
    });
    let ((), end) = futures::future::try_join(deleting, going).await?;
    let figure = |what: &str, value, unit| Figure::new("delete", case, what, value, unit);
    let took = (end - started).as_secs_f64();
    run.figures.push(figure(&format!("time until the other {rest} are gone"), took, "s"));
    stand.ground.quiet().await?;
    let [control, planes] = stand.ground.requests().await?;
    let control = control.since(&before[0]).without("DELETE", "deployments.openchoreo.dev", rest);
    let planes = planes.since(&before[1]);
    let per = |count: usize| number(count) / number(rest);
    run.figures.push(
        figure("writes to the control plane per Deployment", per(control.writes()), "").note(control.shown()),
    );
    run.figures
        .push(figure("requests to data planes per Deployment", per(planes.calls()), "").note(planes.shown()));
    let left = left_over(stand).await?;
    run.figures.push(figure("objects left over", number(left.len()), "").at_most(0.0).note(left.join(", ")));
    Ok(())
}

/// Everything of a Deployment that is still there.
async fn left_over(stand: &Stand) -> Result<Vec<String>> {
    let mut left = Vec::new();
    for plane in 0..stand.ground.planes.len() {
        for kind in KINDS {
            let objects = stand.on_plane(plane, kind).await?;
            left.extend(objects.iter().map(|object| format!("{kind} {}", object.name_any())));
        }
    }
    let client = &stand.ground.client;
    let claims: Api<DynamicObject> = Api::all_with(client.clone(), &sample::our_resource("HostnameClaim"));
    let ours = [("Endpoint", sample::our_api(client, "Endpoint")), ("HostnameClaim", claims)];
    for (kind, api) in ours {
        let objects = api.list(&ListParams::default()).await?;
        left.extend(objects.iter().map(|object| format!("{kind} {}", object.name_any())));
    }
    Ok(left)
}
