//! How lists are merged by the API server: as one value, by keys of their items, or as a set.
//!
//! The schema of a kind says it. Kantor has none at hand, so it knows the lists of the built-in kinds by their
//! names and places, and takes a custom resource that has one of those names, as podlike specs do, by its items.

use std::collections::HashSet;

use serde_json::Value;

use super::{canonical, place::Place};

/// A field by which items of a list are told apart.
#[derive(Debug)]
pub struct Key {
    /// Name of the field.
    pub name: &'static str,
    /// What the API server takes for it if it is not set.
    default: Option<&'static str>,
}

impl Key {
    const fn new(name: &'static str) -> Self {
        Self { name, default: None }
    }

    /// The value in `item`, if it is one that can tell items apart.
    pub fn of(&self, item: &Value) -> Option<Value> {
        let default = || self.default.map(Value::from);
        match item.as_object()?.get(self.name) {
            None | Some(Value::Null) => default(),
            Some(Value::String(text)) if text.is_empty() => default(),
            Some(value @ (Value::String(_) | Value::Number(_))) => Some(value.clone()),
            Some(_) => None,
        }
    }
}

const PROTOCOL: Key = Key { name: "protocol", default: Some("TCP") };

const BY_NAME: &[Key] = &[Key::new("name")];
const BY_TYPE: &[Key] = &[Key::new("type")];
const BY_UID: &[Key] = &[Key::new("uid")];
const BY_IP: &[Key] = &[Key::new("ip")];
const BY_MOUNT_PATH: &[Key] = &[Key::new("mountPath")];
const BY_DEVICE_PATH: &[Key] = &[Key::new("devicePath")];
const BY_CONTAINER_PORT: &[Key] = &[Key::new("containerPort"), PROTOCOL];
const BY_PORT: &[Key] = &[Key::new("port"), PROTOCOL];
const BY_TOPOLOGY: &[Key] = &[Key::new("topologyKey"), Key::new("whenUnsatisfiable")];

/// Lists whose items have names, wherever they are.
const NAMED: &[&str] = &[
    "containers",
    "env",
    "ephemeralContainers",
    "initContainers",
    "matchConditions",
    "resourceClaims",
    "schedulingGates",
    "volumes",
];

/// How a list is compared.
#[derive(Debug)]
pub enum Rule {
    /// By position; it is one value.
    Atomic,
    /// By the keys of its items; others may add items.
    Keyed {
        /// The keys.
        keys: &'static [Key],
        /// What stands for the keys of each item of the intent.
        identities: Vec<String>,
    },
    /// By its items, which are texts; others may add items.
    Set,
}

/// How the list at this place is compared.
pub fn rule(at: &Place<'_>, live: &[Value], intent: &[Value]) -> Rule {
    // What is in a list that is one value is a part of that value.
    if at.is_in_atomic() {
        return Rule::Atomic;
    }
    if is_set(at) && intent.iter().all(Value::is_string) {
        return Rule::Set;
    }
    let Some(keys) = merge_keys(at) else { return Rule::Atomic };
    // An empty list does not tell what its items are like.
    if intent.is_empty() && !live.iter().all(|item| identity(keys, item).is_some()) {
        return Rule::Atomic;
    }
    let Some(identities) = intent.iter().map(|item| identity(keys, item)).collect::<Option<Vec<_>>>() else {
        return Rule::Atomic;
    };
    let distinct: HashSet<&String> = identities.iter().collect();
    if distinct.len() == identities.len() { Rule::Keyed { keys, identities } } else { Rule::Atomic }
}

/// What stands for the keys of an item; none if it lacks one.
pub fn identity(keys: &[Key], item: &Value) -> Option<String> {
    let values = keys.iter().map(|key| key.of(item)).collect::<Option<Vec<_>>>()?;
    Some(canonical::text(&Value::Array(values)))
}

fn is_set(at: &Place<'_>) -> bool {
    at.depth() == 2 && at.innermost() == ["finalizers", "metadata", ""]
}

/// The keys of the items of the list at this place, in the kinds that Kubernetes and the Gateway API define.
fn merge_keys(at: &Place<'_>) -> Option<&'static [Key]> {
    let keys = match at.innermost() {
        ["ports", "containers" | "initContainers" | "ephemeralContainers", _] => BY_CONTAINER_PORT,
        // A NetworkPolicy has ports with the same keys, as one value.
        ["ports", "spec", ""] if at.is_of("v1", "Service") => BY_PORT,
        ["listeners", "spec", ""] if at.is_of_kind("Gateway") => BY_NAME,
        // Of a pod; those of a ServiceAccount are one value.
        ["imagePullSecrets", parent, _] if !parent.is_empty() => BY_NAME,
        // Of a ServiceAccount, and of the configurations of webhooks.
        ["secrets" | "webhooks", "", _] | ["claims", "resources", _] => BY_NAME,
        [name, ..] if NAMED.contains(&name) => BY_NAME,
        ["volumeMounts", ..] => BY_MOUNT_PATH,
        ["volumeDevices", ..] => BY_DEVICE_PATH,
        ["hostAliases", ..] => BY_IP,
        ["topologySpreadConstraints", ..] => BY_TOPOLOGY,
        ["conditions", ..] => BY_TYPE,
        ["ownerReferences", "metadata", _] => BY_UID,
        _ => return None,
    };
    Some(keys)
}
