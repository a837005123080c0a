//! What a cluster itself knows: volumes, autoscalers, budgets, definitions of kinds, namespaces.

use super::{
    Verdict,
    view::{Condition, View},
};

pub(super) fn volume_claim(object: View<'_>) -> Verdict {
    match object.text("/status/phase") {
        Some("Bound") => Verdict::healthy(),
        Some("Lost") => Verdict::degraded("its volume is lost"),
        _ => Verdict::progressing("waits for a volume, or for the first Pod that uses it"),
    }
}

pub(super) fn pod_autoscaler(object: View<'_>) -> Verdict {
    let (able, active) = (object.condition("AbleToScale"), object.condition("ScalingActive"));
    if able.is_none() && active.is_none() {
        return Verdict::progressing("has not been evaluated yet");
    }
    if let Some(unable) = able.filter(Condition::is_false) {
        return Verdict::degraded(unable.say());
    }
    match active {
        Some(c) if c.is_false() => match c.reason() {
            "ScalingDisabled" => Verdict::suspended(c.say()),
            "InvalidMetricSourceType" | "InvalidSelector" => Verdict::degraded(c.say()),
            // Metrics come with the first Pods, and come back with the metrics server.
            _ => Verdict::progressing(c.say()),
        },
        _ => Verdict::healthy(),
    }
}

pub(super) fn disruption_budget(object: View<'_>) -> Verdict {
    if let Some(verdict) = object.not_observed() {
        return verdict;
    }
    let failed = |c: &Condition<'_>| c.is_false() && c.reason() == "SyncFailed";
    if let Some(failed) = object.condition("DisruptionAllowed").filter(failed) {
        return Verdict::degraded(failed.say());
    }
    match (object.int("/status/currentHealthy"), object.int("/status/desiredHealthy")) {
        (Some(current), Some(desired)) if current >= desired => Verdict::healthy(),
        (current, desired) => Verdict::progressing(format!(
            "{} of {} Pods healthy",
            current.unwrap_or(0),
            desired.map_or_else(|| "?".to_owned(), |desired| desired.to_string())
        )),
    }
}

pub(super) fn resource_definition(object: View<'_>) -> Verdict {
    if let Some(refused) = object.condition("NamesAccepted").filter(Condition::is_false) {
        return Verdict::degraded(refused.say());
    }
    if let Some(going) = object.condition("Terminating").filter(Condition::is_true) {
        return Verdict::progressing(going.say());
    }
    until_true(object, "Established")
}

pub(super) fn api_service(object: View<'_>) -> Verdict {
    until_true(object, "Available")
}

fn until_true(object: View<'_>, kind: &str) -> Verdict {
    match object.condition(kind) {
        Some(c) if c.is_true() => Verdict::healthy(),
        Some(c) => Verdict::progressing(c.say()),
        None => Verdict::progressing(format!("has no condition {kind} yet")),
    }
}

pub(super) fn namespace(object: View<'_>) -> Verdict {
    if object.text("/status/phase") == Some("Terminating") {
        return Verdict::progressing("is being deleted");
    }
    Verdict::healthy()
}
