//! How the workload of a Deployment is.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kantor_api::{
    common::InventoryItem,
    conditions::reasons,
    labels::plane::{COMPONENT_NAME, DEPLOYMENT_TRACK_NAME},
};
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams},
};
use serde_json::{Map, Value};

use crate::{
    apply::Change,
    controllers::owned::followed,
    core::{
        changes::{self, Outcome, said},
        deployment::Rendered,
        health::{self, Checks, Health, Verdict},
        lifecycle::Standing,
        release::listed,
    },
    planes::Plane,
};

/// How the workload is; nothing if it was not applied. One that was well a moment ago, or is new, is given the time to become
/// well before its pods are asked.
pub(super) async fn workload(
    plane: &Plane,
    rendered: &Rendered,
    own: &[Change],
    is_given_time: bool,
) -> Option<Verdict> {
    let item = &rendered.workload;
    let change = own.iter().find(|change| change.item.kind == item.kind && change.item.name == item.name)?;
    // Whether it has been seen here or by its controller is the same to the reader, and not worth a write.
    let live = live(plane, item).filter(|live| !changes::is_older(&**live, change.version.as_deref()));
    let Some(live) = live else { return Some(health::unobserved()) };
    let value = serde_json::to_value(&*live).unwrap_or_default();
    let verdict = last_run_failed(item, &value).unwrap_or_else(|| health::of(&value, &Checks::default()));
    if matches!(verdict.health, Health::Healthy | Health::Suspended) {
        return Some(verdict);
    }
    let is_on_its_way = verdict.health == Health::Progressing && is_given_time;
    // Without a status, nobody has made pods of it yet.
    if is_on_its_way || value["status"].as_object().is_none_or(Map::is_empty) {
        return Some(verdict);
    }
    Some(match pods_say(plane, rendered).await {
        Some(why) => {
            let message = verdict.message.map_or_else(|| why.clone(), |message| format!("{message}; {why}"));
            Verdict { message: Some(message), ..verdict }
        }
        None => verdict,
    })
}

fn live(plane: &Plane, item: &InventoryItem) -> Option<Arc<DynamicObject>> {
    followed(plane, &item.group, &item.version, &item.kind)?.get(Some(&item.namespace), &item.name)
}

/// A scheduled task whose last run did not succeed.
fn last_run_failed(item: &InventoryItem, cron_job: &Value) -> Option<Verdict> {
    let time = |path: &str| {
        cron_job.pointer(path).and_then(Value::as_str).and_then(|text| text.parse::<jiff::Timestamp>().ok())
    };
    let running =
        cron_job.pointer("/status/active").and_then(Value::as_array).is_some_and(|runs| !runs.is_empty());
    let suspended = cron_job.pointer("/spec/suspend") == Some(&Value::Bool(true));
    if item.kind != "CronJob" || running || suspended {
        return None;
    }
    let scheduled = time("/status/lastScheduleTime")?;
    let failed = time("/status/lastSuccessfulTime").is_none_or(|succeeded| succeeded < scheduled);
    failed.then(|| Verdict {
        health: Health::Degraded,
        message: Some(format!("the run of {scheduled:.0} did not succeed")),
    })
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

/// How a Deployment stands.
pub(super) fn standing(
    shared: &[Change],
    own: &[Change],
    verdict: Option<Verdict>,
    left: &[String],
) -> Standing {
    let all = || shared.iter().chain(own);
    let of = |wanted: fn(&Outcome) -> bool| -> Vec<String> {
        let found = all().filter(|change| wanted(&change.outcome));
        found.map(|change| said(&change.item, change.outcome.error())).collect()
    };
    let refused = of(|outcome| matches!(outcome, Outcome::Refused(_)));
    if !refused.is_empty() {
        return Standing::Stalled { reason: reasons::APPLY_REFUSED, message: listed(&refused) };
    }
    let failed = of(|outcome| !outcome.is_in_place());
    if !failed.is_empty() {
        return Standing::Progressing { reason: reasons::APPLY_FAILED, message: listed(&failed) };
    }
    let Some(Verdict { health, message }) = verdict else {
        let message = "the workload has not been seen on the data plane yet".to_owned();
        return Standing::Progressing { reason: reasons::DEPLOYMENT_PROGRESSING, message };
    };
    match health {
        Health::Healthy | Health::Suspended if !left.is_empty() => Standing::Progressing {
            reason: reasons::CLEANING_UP,
            message: format!("waiting for {}", listed(left)),
        },
        Health::Healthy => Standing::Ready {
            reason: reasons::DEPLOYMENT_READY,
            message: message.unwrap_or_else(|| "the workload is available".to_owned()),
        },
        Health::Suspended => Standing::Ready {
            reason: reasons::DEPLOYMENT_READY,
            message: message.unwrap_or_else(|| "the workload is suspended".to_owned()),
        },
        Health::Degraded => Standing::Stalled {
            reason: reasons::DEPLOYMENT_DEGRADED,
            message: message.unwrap_or_else(|| "the workload is broken".to_owned()),
        },
        Health::Progressing | Health::Unknown => Standing::Progressing {
            reason: reasons::DEPLOYMENT_PROGRESSING,
            message: message.unwrap_or_else(|| "the workload is on its way".to_owned()),
        },
    }
}
