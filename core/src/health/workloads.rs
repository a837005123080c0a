//! What runs: Deployments and their like, Pods, Jobs.

use super::{
    Verdict,
    view::{Condition, View, because},
};

/// Reasons for which a container waits and that do not pass by themselves.
const BROKEN: &[&str] = &[
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "ErrImagePull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
];

/// Says so if `have` of `want` replicas are not enough.
fn short_of(have: i64, want: i64, what: &str) -> Option<Verdict> {
    (have != want).then(|| Verdict::progressing(format!("{have} of {want} replicas {what}")))
}

/// How many replicas are asked for; a verdict if it is none.
fn desired(object: View<'_>) -> Result<i64, Verdict> {
    match object.int("/spec/replicas").unwrap_or(1) {
        0 => Err(Verdict::suspended("is scaled to zero")),
        desired => Ok(desired),
    }
}

/// Says so if the controller cannot make Pods.
fn replica_failure(object: View<'_>) -> Option<Verdict> {
    object.condition("ReplicaFailure").filter(Condition::is_true).map(|c| Verdict::degraded(c.say()))
}

pub(super) fn deployment(object: View<'_>) -> Verdict {
    if object.flag("/spec/paused") {
        return Verdict::suspended("is paused");
    }
    let desired = match desired(object) {
        Ok(desired) => desired,
        Err(verdict) => return verdict,
    };
    if let Some(verdict) = object.not_observed() {
        return verdict;
    }
    let progressing = object.condition("Progressing");
    if let Some(late) = progressing.as_ref().filter(|c| c.reason() == "ProgressDeadlineExceeded") {
        return Verdict::degraded(late.say());
    }
    if let Some(verdict) = replica_failure(object) {
        return verdict;
    }
    let updated = object.count("/status/updatedReplicas");
    let ready = object.count("/status/readyReplicas");
    let available = object.count("/status/availableReplicas");
    let unavailable = object.count("/status/unavailableReplicas");
    // The condition stays True after a rollout is through, so its reason has to say that one is under way: otherwise all
    // replicas were up, and went.
    let rolling_out = progressing.is_some_and(|p| p.is_true() && p.reason() != "NewReplicaSetAvailable");
    if desired > 0 && updated == desired && available == 0 {
        return if rolling_out {
            Verdict::progressing(format!("0 of {desired} replicas available"))
        } else {
            Verdict::degraded(format!("0 of {desired} replicas available, and no rollout is under way"))
        };
    }
    // While a rollout is under way, its deadline tells when it is too late.
    if !rolling_out
        && unavailable > 0
        && (ready > 0 || available > 0)
        && let Some(lacking) = object.condition("Available").filter(|c| !c.is_true())
    {
        return Verdict::degraded(format!("{available} of {desired} replicas available: {}", lacking.say()));
    }
    short_of(updated, desired, "updated")
        .or_else(|| short_of(available, desired, "available"))
        .or_else(|| short_of(ready, desired, "ready"))
        .or_else(|| {
            (unavailable != 0).then(|| Verdict::progressing(format!("{unavailable} replicas unavailable")))
        })
        .unwrap_or_else(Verdict::healthy)
}

pub(super) fn stateful_set(object: View<'_>) -> Verdict {
    let desired = match desired(object) {
        Ok(desired) => desired,
        Err(verdict) => return verdict,
    };
    if let Some(verdict) = object.not_observed() {
        return verdict;
    }
    let updated = object.count("/status/updatedReplicas");
    let ready = object.count("/status/readyReplicas");
    if object.text("/spec/updateStrategy/type") == Some("OnDelete") {
        // Somebody deletes the Pods when it suits them: old ones are as they should be.
        return short_of(ready, desired, "ready").unwrap_or_else(Verdict::healthy);
    }
    let partition = object.count("/spec/updateStrategy/rollingUpdate/partition").clamp(0, desired.max(0));
    let same_revision = object.text("/status/currentRevision") == object.text("/status/updateRevision");
    let wanted = desired - partition;
    // With a partition the two revisions stay apart for as long as it is there.
    if !same_revision && (partition == 0 || updated < wanted) {
        return Verdict::progressing(format!("{updated} of {wanted} replicas updated"));
    }
    let available = object.count("/status/availableReplicas");
    short_of(ready, desired, "ready")
        .or_else(|| short_of(available, desired, "available"))
        .or_else(|| if partition == 0 { short_of(updated, desired, "updated") } else { None })
        .unwrap_or_else(Verdict::healthy)
}

pub(super) fn daemon_set(object: View<'_>) -> Verdict {
    if let Some(verdict) = object.not_observed() {
        return verdict;
    }
    let Some(desired) = object.int("/status/desiredNumberScheduled") else {
        return Verdict::progressing("has not been scheduled yet");
    };
    let updated = object.count("/status/updatedNumberScheduled");
    let available = object.count("/status/numberAvailable");
    let on_delete = object.text("/spec/updateStrategy/type") == Some("OnDelete");
    if desired == 0 {
        Verdict::healthy()
    } else if !on_delete && updated != desired {
        Verdict::progressing(format!("{updated} of {desired} Pods updated"))
    } else if available != desired {
        Verdict::progressing(format!("{available} of {desired} Pods available"))
    } else {
        Verdict::healthy()
    }
}

pub(super) fn replica_set(object: View<'_>) -> Verdict {
    let desired = match desired(object) {
        Ok(desired) => desired,
        Err(verdict) => return verdict,
    };
    object
        .not_observed()
        .or_else(|| replica_failure(object))
        .or_else(|| short_of(object.count("/status/availableReplicas"), desired, "available"))
        .unwrap_or_else(Verdict::healthy)
}

pub(super) fn pod(object: View<'_>) -> Verdict {
    let phase = object.text("/status/phase").unwrap_or_default();
    match phase {
        "Succeeded" => return Verdict::healthy(),
        "Failed" => return Verdict::degraded(why_failed(object)),
        "Pending" | "Running" => {}
        "" => return Verdict::unknown("has no phase"),
        other => return Verdict::unknown(format!("is in phase {other}")),
    }
    // Before readiness: a container that cannot start does not become ready by waiting.
    if let Some(broken) = containers(object).find_map(broken_container) {
        return Verdict::degraded(broken);
    }
    if phase == "Running" {
        return match object.condition("Ready") {
            Some(ready) if ready.is_true() => Verdict::healthy(),
            Some(ready) => Verdict::progressing(ready.say()),
            None => Verdict::progressing("is not ready"),
        };
    }
    match object.condition("PodScheduled") {
        Some(c) if c.is_false() && c.reason() == "Unschedulable" => Verdict::progressing(c.say()),
        _ => Verdict::progressing("is pending"),
    }
}

fn containers(pod: View<'_>) -> impl Iterator<Item = View<'_>> {
    let init = pod.list("/status/initContainerStatuses");
    init.iter().chain(pod.list("/status/containerStatuses")).map(View::new)
}

fn broken_container(container: View<'_>) -> Option<String> {
    let reason = container.text("/state/waiting/reason").filter(|reason| BROKEN.contains(reason))?;
    let name = container.text("/name").unwrap_or("?");
    because(reason, container.text("/state/waiting/message")).map(|why| format!("container {name}: {why}"))
}

fn why_failed(pod: View<'_>) -> String {
    because(pod.text("/status/reason").unwrap_or_default(), pod.text("/status/message"))
        .or_else(|| {
            // A Pod that failed by its own says so only in its containers.
            containers(pod).find_map(|container| {
                let code = container.int("/state/terminated/exitCode").filter(|code| *code != 0)?;
                let name = container.text("/name").unwrap_or("?");
                Some(format!("container {name} ended with exit code {code}"))
            })
        })
        .unwrap_or_else(|| "has failed".to_owned())
}

pub(super) fn job(object: View<'_>) -> Verdict {
    let holds = |kind| object.condition(kind).filter(Condition::is_true);
    if object.flag("/spec/suspend") {
        return Verdict::suspended("is suspended");
    }
    if let Some(failed) = holds("Failed") {
        return Verdict::degraded(failed.say());
    }
    if holds("Complete").or_else(|| holds("SuccessCriteriaMet")).is_some() {
        return Verdict::healthy();
    }
    Verdict::progressing(format!(
        "{} active, {} succeeded, {} failed",
        object.count("/status/active"),
        object.count("/status/succeeded"),
        object.count("/status/failed")
    ))
}

/// A CronJob is well as soon as it is there: how its runs go is told by their Jobs.
pub(super) fn cron_job(object: View<'_>) -> Verdict {
    if object.flag("/spec/suspend") { Verdict::suspended("is suspended") } else { Verdict::healthy() }
}
