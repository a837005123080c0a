//! What is seen of the workload of a Deployment, on its plane and on those that it was on before.

use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kantor_api::{
    common::{InventoryItem, PlaneRecord},
    labels::plane::{COMPONENT_NAME, DEPLOYMENT_TRACK_NAME},
};
use kantor_core::{
    deployment::{self, Rendered},
    health::{self, Checks, Health, Verdict},
    release::listed,
};
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams},
};
use serde_json::{Map, Value};

use crate::{
    apply::Change,
    controllers::{
        Context,
        shared::{plane_objects::followed, targets::reach_recorded},
    },
    planes::Plane,
};

/// How the workload is, and what keeps its pods from running; nothing if it was not applied. One that was well a moment ago, or is
/// new, is given the time to become well before its pods are asked.
pub(super) async fn workload(
    plane: &Plane,
    rendered: &Rendered,
    own: &[Change],
    is_given_time: bool,
) -> (Option<Verdict>, Option<String>) {
    let item = &rendered.workload;
    let change = own.iter().find(|change| change.item.kind == item.kind && change.item.name == item.name);
    let Some(change) = change else { return (None, None) };
    let live = live(plane, item);
    let verdict = deployment::verdict(item, live.as_deref(), change.version.as_deref(), rendered.bounds);
    let is_on_its_way = verdict.health == Health::Progressing && is_given_time;
    // Without a status, nobody has made pods of it yet.
    let has_status = live.is_some_and(|live| {
        live.data.get("status").and_then(Value::as_object).is_some_and(|status| !Map::is_empty(status))
    });
    if deployment::runs(Some(&verdict)) || is_on_its_way || !has_status {
        return (Some(verdict), None);
    }
    (Some(verdict), pods_say(plane, rendered).await)
}

fn live(plane: &Plane, item: &InventoryItem) -> Option<Arc<DynamicObject>> {
    followed(plane, &item.group, &item.version, &item.kind)?.get(Some(&item.namespace), &item.name)
}

/// How many replicas the Deployment with this UID has on the planes that it was on before, as far as they can be asked.
pub(super) async fn replicas_elsewhere(uid: &str, former: &[PlaneRecord], context: &Context) -> Option<i64> {
    let on = async |record: &PlaneRecord| {
        let plane = reach_recorded(record, context).await.ok()?;
        let workloads = followed(&plane, "apps", "v1", "Deployment")?;
        workloads.listed(plane.deadline).await;
        let replicas = |workload: &DynamicObject| workload.data.pointer("/spec/replicas")?.as_i64();
        workloads.owned_by(uid).iter().filter_map(replicas).max()
    };
    join_all(former.iter().map(on)).await.into_iter().flatten().max()
}

/// What keeps pods of the workload from running. They are asked for only while the workload is not well: to follow all
/// pods would cost more than everything else.
async fn pods_say(plane: &Plane, rendered: &Rendered) -> Option<String> {
    let labels = rendered.own.first().map(ResourceExt::labels)?;
    let part = |key: &str| Some(format!("{key}={}", labels.get(key)?));
    let selector = [part(COMPONENT_NAME)?, part(DEPLOYMENT_TRACK_NAME)?].join(",");
    let pods: Api<Pod> = Api::namespaced(plane.calls(), &rendered.namespace);
    let params = ListParams::default().labels(&selector).limit(50);
    let list = tokio::time::timeout(plane.deadline, pods.list(&params)).await.ok()?.ok()?;
    let mut broken: Vec<String> = list
        .items
        .iter()
        .filter_map(|pod| {
            let mut value = serde_json::to_value(pod).ok()?;
            value["apiVersion"] = "v1".into();
            value["kind"] = "Pod".into();
            let verdict = health::of(&value, &Checks::default());
            let unschedulable = verdict.message.as_deref().is_some_and(|why| why.contains("nschedulable"));
            (verdict.health == Health::Degraded || unschedulable)
                .then(|| format!("pod {}: {}", pod.name_any(), verdict.message.unwrap_or_default()))
        })
        .collect();
    broken.sort();
    (!broken.is_empty()).then(|| listed(&broken))
}
