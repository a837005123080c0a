//! The health of one live object: a word for it, and why it is not "healthy".
//!
//! What is known of a kind stands in `workloads`, `network` and `platform`; kinds that are not known there follow the
//! conventions of conditions (`generic`). A data plane may bring rules of its own (`custom`), which win.
//!
//! A field of the wrong type counts as missing: objects come from clusters that may run anything.

use serde_json::Value;

use self::view::View;
pub use custom::Checks;
pub use view::unobserved;

mod custom;
mod expression;
mod generic;
mod limits;
mod network;
mod platform;
mod view;
mod workloads;

/// Longest message, in characters.
const MAX_MESSAGE: usize = 1024;

/// Health of an object. The greater, the worse: of several, the greatest tells how they are together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Health {
    /// It is as it should be.
    Healthy,
    /// It rests because somebody wants it to.
    Suspended,
    /// It is on its way.
    Progressing,
    /// It is broken, and time alone will not mend it.
    Degraded,
    /// It cannot be told.
    Unknown,
}

impl Health {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "Healthy",
            Self::Suspended => "Suspended",
            Self::Progressing => "Progressing",
            Self::Degraded => "Degraded",
            Self::Unknown => "Unknown",
        }
    }
}

/// What is known of an object's health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The health.
    pub health: Health,
    /// Why it is not healthy: one line.
    pub message: Option<String>,
}

impl Verdict {
    fn new(health: Health, message: impl AsRef<str>) -> Self {
        Self { health, message: one_line(message.as_ref()) }
    }

    fn healthy() -> Self {
        Self { health: Health::Healthy, message: None }
    }

    fn suspended(why: impl AsRef<str>) -> Self {
        Self::new(Health::Suspended, why)
    }

    fn progressing(why: impl AsRef<str>) -> Self {
        Self::new(Health::Progressing, why)
    }

    fn degraded(why: impl AsRef<str>) -> Self {
        Self::new(Health::Degraded, why)
    }

    fn unknown(why: impl AsRef<str>) -> Self {
        Self::new(Health::Unknown, why)
    }
}

/// The health of `object`: the whole live object, with apiVersion and kind.
pub fn of(object: &Value, checks: &Checks) -> Verdict {
    let view = View::new(object);
    let (Some(api_version), Some(kind)) = (view.text("/apiVersion"), view.text("/kind")) else {
        return Verdict::unknown("the object has no apiVersion or no kind");
    };
    // Also for kinds with rules of their own: what is going cannot be well.
    if view.text("/metadata/deletionTimestamp").is_some() {
        return Verdict::progressing("is being deleted");
    }
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    checks.verdict(group, kind, object).unwrap_or_else(|| built_in(group, kind, view))
}

fn built_in(group: &str, kind: &str, object: View<'_>) -> Verdict {
    match (group, kind) {
        ("apps", "Deployment") => workloads::deployment(object),
        ("apps", "StatefulSet") => workloads::stateful_set(object),
        ("apps", "DaemonSet") => workloads::daemon_set(object),
        ("apps", "ReplicaSet") => workloads::replica_set(object),
        ("", "Pod") => workloads::pod(object),
        ("batch", "Job") => workloads::job(object),
        ("batch", "CronJob") => workloads::cron_job(object),
        ("", "Service") => network::service(object),
        ("networking.k8s.io", "Ingress") => network::ingress(),
        ("gateway.networking.k8s.io", "HTTPRoute" | "GRPCRoute" | "TLSRoute" | "TCPRoute" | "UDPRoute") => {
            network::route(object)
        }
        ("gateway.networking.k8s.io", "Gateway") => network::gateway(object),
        ("gateway.networking.k8s.io", "GatewayClass") => network::gateway_class(object),
        ("", "PersistentVolumeClaim") => platform::volume_claim(object),
        ("autoscaling", "HorizontalPodAutoscaler") => platform::pod_autoscaler(object),
        ("policy", "PodDisruptionBudget") => platform::disruption_budget(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => platform::resource_definition(object),
        ("apiregistration.k8s.io", "APIService") => platform::api_service(object),
        ("", "Namespace") => platform::namespace(object),
        _ => generic::health(object),
    }
}

/// `text` as one line of bounded length; none if nothing is in it.
fn one_line(text: &str) -> Option<String> {
    // Longer than what is kept, so that the cut is seen; bounded, because a cluster sends what it likes.
    let line: String = text
        .trim()
        .chars()
        .take(MAX_MESSAGE + 1)
        .map(|c| if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') { ' ' } else { c })
        .collect();
    match line.char_indices().nth(MAX_MESSAGE) {
        _ if line.is_empty() => None,
        None => Some(line),
        Some(_) => Some(line.chars().take(MAX_MESSAGE - 1).chain(['…']).collect()),
    }
}

#[cfg(test)]
mod tests;
