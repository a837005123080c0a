//! What of an object counts: everything but what a cluster changes by itself.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::Key;

/// Kinds that a cluster writes by itself all the time: group and kind.
const NOISY_KINDS: [(&str, &str); 6] = [
    ("", "Event"),
    ("events.k8s.io", "Event"),
    // Heartbeats of nodes, leader elections, and the identity of the apiserver.
    ("coordination.k8s.io", "Lease"),
    // Computed on every read.
    ("", "ComponentStatus"),
    ("metrics.k8s.io", "NodeMetrics"),
    ("metrics.k8s.io", "PodMetrics"),
];

/// Objects that a cluster makes by itself, some time after it or a namespace was made: kind and name.
/// The last two are made at most once, in `kube-system`.
const OWN_OBJECTS: [(&str, &str); 4] = [
    ("ConfigMap", "kube-root-ca.crt"),
    ("ServiceAccount", "default"),
    ("ConfigMap", "extension-apiserver-authentication"),
    ("ConfigMap", "kube-apiserver-legacy-service-account-token-tracking"),
];

/// On the `APIService` that the aggregator keeps for each version of a CRD: it comes and goes with the CRD.
const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Metadata that says when and how often an object was written, not what it is.
const VOLATILE_METADATA: [&str; 5] =
    ["resourceVersion", "managedFields", "generation", "creationTimestamp", "selfLink"];
const VOLATILE_ANNOTATIONS: [&str; 1] = ["endpoints.kubernetes.io/last-change-trigger-time"];

/// Holds the whole object again, a Secret's values included.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What a [`Snapshot`](super::Snapshot) leaves out.
///
/// Always left out, because a cluster changes it by itself:
/// - Events, Leases, `ComponentStatus`es and metrics;
/// - the ConfigMap `kube-root-ca.crt` and the ServiceAccount `default` of each namespace, two ConfigMaps of the apiserver in
///   `kube-system`, and the `APIService`s that the aggregator keeps for CRDs;
/// - `metadata.resourceVersion`, `managedFields`, `generation`, `creationTimestamp`, and the times and observed generations
///   in `status`.
///
/// Kept: what controllers make for others (`ReplicaSets`, Pods, `EndpointSlices`, …), so that it is seen when it stays
/// behind; `metadata.uid`, so that an object deleted and made again counts as changed; `deletionTimestamp` and finalizers.
#[derive(Clone, Debug, Default)]
pub struct Options {
    kinds: Vec<(String, String)>,
    namespaces: Vec<String>,
    status: bool,
    uids: bool,
}

impl Options {
    /// Leaves out a kind.
    #[must_use]
    pub fn ignore_kind(mut self, group: impl Into<String>, kind: impl Into<String>) -> Self {
        self.kinds.push((group.into(), kind.into()));
        self
    }

    /// Leaves out a namespace and everything in it.
    #[must_use]
    pub fn ignore_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespaces.push(namespace.into());
        self
    }

    /// Leaves out `status`.
    #[must_use]
    pub fn ignore_status(mut self) -> Self {
        self.status = true;
        self
    }

    /// Leaves out UIDs, so that two runs of one story, or two clusters, can be compared.
    #[must_use]
    pub fn ignore_uids(mut self) -> Self {
        self.uids = true;
        self
    }

    pub(super) fn ignores_kind(&self, group: &str, kind: &str) -> bool {
        NOISY_KINDS.contains(&(group, kind)) || self.kinds.iter().any(|(g, k)| g == group && k == kind)
    }

    /// The object without what does not count, or nothing if it does not count at all.
    pub(super) fn normalise(&self, key: &Key, mut object: Value) -> Option<Value> {
        let in_ignored = |name: &str| self.namespaces.iter().any(|ignored| ignored == name);
        let is_namespace = key.group.is_empty() && key.kind == "Namespace";
        if self.ignores_kind(&key.group, &key.kind)
            || in_ignored(&key.namespace)
            || (is_namespace && in_ignored(&key.name))
            || (key.group.is_empty() && OWN_OBJECTS.contains(&(key.kind.as_str(), key.name.as_str())))
            || object["metadata"]["labels"].get(AUTOMANAGED).is_some()
        {
            return None;
        }
        // The version it was read in is no part of what it is.
        object.as_object_mut()?.remove("apiVersion");
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            self.normalise_metadata(metadata);
        }
        if self.status {
            object.as_object_mut()?.remove("status");
        } else if let Some(status) = object.get_mut("status") {
            remove_times(status);
        }
        if self.uids {
            remove_uids(&mut object);
        }
        if is_secret(key) {
            hide_values(&mut object);
        }
        Some(object)
    }

    fn normalise_metadata(&self, metadata: &mut Map<String, Value>) {
        for field in VOLATILE_METADATA {
            metadata.remove(field);
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            for annotation in VOLATILE_ANNOTATIONS {
                annotations.remove(annotation);
            }
        }
        if self.uids {
            metadata.remove("uid");
        }
    }
}

pub(super) fn is_secret(key: &Key) -> bool {
    key.group.is_empty() && key.kind == "Secret"
}

/// Whether a path leads into the values of a Secret.
pub(super) fn is_secret_path(path: &str) -> bool {
    path.starts_with("data") || path.starts_with("stringData") || path.contains(LAST_APPLIED)
}

/// Removes times and observed generations, at any depth.
fn remove_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| name != "observedGeneration" && !is_time(value));
            fields.values_mut().for_each(remove_times);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_times),
        _ => {}
    }
}

/// Whether a value has the form of a Kubernetes time, `2006-01-02T15:04:05Z` with or without a fraction.
fn is_time(value: &Value) -> bool {
    let Some(text) = value.as_str() else { return false };
    let form = b"0000-00-00T00:00:00";
    text.len() > form.len()
        && text.ends_with('Z')
        && text
            .bytes()
            .zip(form)
            .all(|(byte, form)| if *form == b'0' { byte.is_ascii_digit() } else { byte == *form })
}

fn remove_uids(object: &mut Value) {
    if let Some(owners) = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut) {
        for owner in owners.iter_mut().filter_map(Value::as_object_mut) {
            owner.remove("uid");
        }
    }
}

/// Puts digests in the place of a Secret's values, so that no output can show one.
fn hide_values(secret: &mut Value) {
    for field in ["data", "stringData"] {
        if let Some(values) = secret.get_mut(field).and_then(Value::as_object_mut) {
            values.values_mut().for_each(hide);
        }
    }
    if let Some(applied) =
        secret.pointer_mut("/metadata/annotations").and_then(|annotations| annotations.get_mut(LAST_APPLIED))
    {
        hide(applied);
    }
}

fn hide(value: &mut Value) {
    *value = Value::String(BASE64_STANDARD.encode(Sha256::digest(value.to_string())));
}

#[cfg(test)]
mod tests;
