//! How a Deployment is, by what was written and what was seen.

use kantor_api::{common::InventoryItem, conditions::reasons};
use kube_core::DynamicObject;
use serde_json::Value;

use crate::{
    changes::{self, Outcome, said},
    health::{self, Checks, Health, Verdict},
    lifecycle::Standing,
    release::listed,
};

/// Fewest and most replicas of a workload that an autoscaler scales.
pub type Bounds = (i64, i64);

/// With how many replicas a workload is made, given how many it has on the plane that it leaves; nothing: as many as Kubernetes
/// makes. From then on they are whoever scales the workload's.
pub fn first_replicas(bounds: Option<Bounds>, elsewhere: Option<i64>) -> Option<i64> {
    match bounds {
        Some((fewest, most)) => Some(elsewhere.unwrap_or(fewest).min(most).max(fewest)),
        None => elsewhere,
    }
}

/// How a workload is, by what the watch shows of it. What is from before the last write says nothing: whether it has been seen here
/// or by its controller is the same to the reader, and not worth a write.
pub fn verdict(
    workload: &InventoryItem,
    live: Option<&DynamicObject>,
    written: Option<&str>,
    bounds: Option<Bounds>,
) -> Verdict {
    let Some(live) = live.filter(|live| !changes::is_older(*live, written)) else {
        return health::unobserved();
    };
    let value = serde_json::to_value(live).unwrap_or_default();
    let verdict = last_run_failed(workload, &value).unwrap_or_else(|| health::of(&value, &Checks::default()));
    let replicas = value.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    match bounds {
        Some((fewest, _)) if verdict.health == Health::Healthy && replicas < fewest => Verdict {
            health: Health::Progressing,
            message: Some(format!("{replicas} of at least {fewest} replicas")),
        },
        _ => verdict,
    }
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

/// Whether a workload runs, or rests because somebody wants it to.
pub fn runs(verdict: Option<&Verdict>) -> bool {
    verdict.is_some_and(|verdict| matches!(verdict.health, Health::Healthy | Health::Suspended))
}

/// What became of the Endpoints of a Deployment, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointTroubles {
    /// Those whose names others have.
    pub taken: Vec<String>,
    /// Those that the API server refuses.
    pub refused: Vec<String>,
    /// Those that could not be written this time.
    pub failed: Vec<String>,
}

/// A move that is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The planes that it was on before, and still is.
    pub from: Vec<String>,
    /// The plane that it is to be on.
    pub to: String,
    /// Its Endpoints that have not left the former planes.
    pub endpoints: Vec<String>,
    /// What is wrong with the deadline.
    pub problem: Option<String>,
}

/// What was written and seen of a Deployment.
#[derive(Clone, Debug)]
pub struct Seen<'a> {
    /// Objects on the plane, and what became of each.
    pub applied: Vec<(&'a InventoryItem, &'a Outcome)>,
    /// Its Endpoints.
    pub endpoints: &'a EndpointTroubles,
    /// How the workload is, if it was applied.
    pub verdict: Option<Verdict>,
    /// What keeps its pods from running.
    pub pods: Option<String>,
    /// What is yet to be removed.
    pub left: &'a [String],
    /// Whether it runs on another plane, too.
    pub moving: Option<Move>,
}

/// How a Deployment stands.
pub fn standing(seen: Seen<'_>) -> Standing {
    let Some(moving) = seen.moving.clone() else { return here(seen) };
    let runs = runs(seen.verdict.as_ref());
    let mut standing = here(seen);
    let from = moving.from.join(", ");
    let problem = moving.problem.map(|problem| format!("; {problem}")).unwrap_or_default();
    match &mut standing {
        Standing::Ready { .. } => {
            let message = if moving.endpoints.is_empty() {
                format!("moving from data plane {from} to {}{problem}", moving.to)
            } else {
                let endpoints = listed(&moving.endpoints);
                format!(
                    "moving from data plane {from} to {}: it runs on both until its Endpoints have left: {endpoints}{problem}",
                    moving.to
                )
            };
            Standing::Progressing { reason: reasons::MOVING, message }
        }
        Standing::Stalled { message, .. } | Standing::Progressing { message, .. } if !runs => {
            *message = format!(
                "moving from data plane {from}, where it stays until it runs on {}: {message}{problem}",
                moving.to
            );
            standing
        }
        _ => standing,
    }
}

/// How a Deployment stands on its own plane.
fn here(seen: Seen<'_>) -> Standing {
    let of = |wanted: fn(&Outcome) -> bool| -> Vec<String> {
        let found = seen.applied.iter().filter(|(_, outcome)| wanted(outcome));
        found.map(|(item, outcome)| said(item, outcome.error())).collect()
    };
    let refused = of(|outcome| matches!(outcome, Outcome::Refused(_)));
    let failed = of(|outcome| !outcome.is_in_place());
    let EndpointTroubles { taken, refused: refused_endpoints, failed: failed_endpoints } = seen.endpoints;
    for (reason, troubles, is_stalled) in [
        (reasons::APPLY_REFUSED, &refused, true),
        (reasons::APPLY_FAILED, &failed, false),
        (reasons::ENDPOINT_CONFLICT, taken, true),
        (reasons::APPLY_REFUSED, refused_endpoints, true),
        (reasons::APPLY_FAILED, failed_endpoints, false),
    ] {
        let message = listed(troubles);
        match is_stalled {
            _ if troubles.is_empty() => {}
            true => return Standing::Stalled { reason, message },
            false => return Standing::Progressing { reason, message },
        }
    }
    let Some(Verdict { health, message }) = seen.verdict else {
        let message = "the workload has not been seen on the data plane yet".to_owned();
        return Standing::Progressing { reason: reasons::DEPLOYMENT_PROGRESSING, message };
    };
    let or = |default: &str| message.clone().unwrap_or_else(|| default.to_owned());
    let with_pods = |message: String| match &seen.pods {
        Some(pods) => format!("{message}; {pods}"),
        None => message,
    };
    match health {
        Health::Healthy | Health::Suspended if !seen.left.is_empty() => Standing::Progressing {
            reason: reasons::CLEANING_UP,
            message: format!("waiting for {}", listed(seen.left)),
        },
        Health::Healthy => {
            Standing::Ready { reason: reasons::DEPLOYMENT_READY, message: or("the workload is available") }
        }
        Health::Suspended => {
            Standing::Ready { reason: reasons::DEPLOYMENT_READY, message: or("the workload is suspended") }
        }
        Health::Degraded => Standing::Stalled {
            reason: reasons::DEPLOYMENT_DEGRADED,
            message: with_pods(or("the workload is broken")),
        },
        Health::Progressing | Health::Unknown => Standing::Progressing {
            reason: if seen.pods.is_some() {
                reasons::PODS_NOT_RUNNING
            } else {
                reasons::DEPLOYMENT_PROGRESSING
            },
            message: with_pods(or("the workload is on its way")),
        },
    }
}

#[cfg(test)]
mod tests;
