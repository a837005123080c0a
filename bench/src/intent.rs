//! What a field manager asked for, read off an object that the server has filled up since.

use std::collections::BTreeMap;

use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use super::sample::object;

/// The object with nothing but its identity and the fields that `manager` applied.
pub(crate) fn applied_by(manager: &str, live: &DynamicObject) -> DynamicObject {
    let entries = live.metadata.managed_fields.as_deref().unwrap_or_default();
    let owned = entries.iter().find(|entry| {
        entry.manager.as_deref() == Some(manager)
            && entry.operation.as_deref() == Some("Apply")
            && entry.subresource.as_deref().unwrap_or_default().is_empty()
    });
    let whole = serde_json::to_value(live).unwrap_or_default();
    let mut intent = owned
        .and_then(|entry| entry.fields_v1.as_ref())
        .map_or_else(|| cleaned(&whole), |fields| part(&whole, &fields.0));
    for key in ["apiVersion", "kind"] {
        intent[key] = whole[key].clone();
    }
    for key in ["name", "namespace"] {
        if let Some(value) = whole["metadata"].get(key) {
            intent["metadata"][key] = value.clone();
        }
    }
    object(intent)
}

/// The object without what the server keeps for itself, where nobody applied it.
fn cleaned(whole: &Value) -> Value {
    let mut value = whole.clone();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("status");
    }
    let server = ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "finalizers"];
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.retain(|key, _| !server.contains(&key.as_str()));
    }
    value
}

/// The part of `value` that a set of fields names: `f:NAME` is a field, `k:{…}` the item of a list that has these keys,
/// `v:…` an item that is a value. An empty set is everything.
fn part(value: &Value, fields: &Value) -> Value {
    let named = fields.as_object().into_iter().flatten().filter(|(key, _)| *key != ".");
    let named: BTreeMap<&str, &Value> = named.map(|(key, inner)| (key.as_str(), inner)).collect();
    if named.is_empty() {
        return value.clone();
    }
    match value {
        Value::Object(object) => {
            let kept = named.iter().filter_map(|(key, inner)| {
                let name = key.strip_prefix("f:")?;
                Some((name.to_owned(), part(object.get(name)?, inner)))
            });
            Value::Object(kept.collect::<Map<_, _>>())
        }
        Value::Array(items) => {
            let kept = items.iter().filter_map(|item| {
                named.iter().find_map(|(key, inner)| {
                    let (kind, text) = key.split_at_checked(2)?;
                    let wanted: Value = serde_json::from_str(text).ok()?;
                    match kind {
                        "k:" if has(item, &wanted) => Some(with(part(item, inner), &wanted)),
                        "v:" if *item == wanted => Some(item.clone()),
                        _ => None,
                    }
                })
            });
            json!(kept.collect::<Vec<_>>())
        }
        other => other.clone(),
    }
}

fn has(item: &Value, keys: &Value) -> bool {
    keys.as_object().is_some_and(|keys| keys.iter().all(|(key, value)| item.get(key) == Some(value)))
}

/// The keys of an item go with it: without them it could not be told from others.
fn with(mut item: Value, keys: &Value) -> Value {
    for (key, value) in keys.as_object().into_iter().flatten() {
        item[key] = value.clone();
    }
    item
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_manager_applied_is_left() {
        let live = object(json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "a", "namespace": "b", "uid": "u", "labels": {"x": "1", "y": "2"}, "managedFields": [
                {"manager": "other", "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": {"f:y": {}}}}},
                {"manager": "kantor", "operation": "Apply", "fieldsV1": {
                    "f:metadata": {"f:labels": {"f:x": {}}},
                    "f:spec": {
                        "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}, "f:port": {}}},
                        "f:selector": {},
                    },
                }},
            ]},
            "spec": {"clusterIP": "10.0.0.1", "selector": {"app": "a"}, "ports": [
                {"name": "web", "port": 80, "protocol": "TCP", "targetPort": 80},
                {"name": "more", "port": 81, "protocol": "TCP"},
            ]},
            "status": {"loadBalancer": {}},
        }));
        let expected = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "a", "namespace": "b", "labels": {"x": "1"}},
            "spec": {"selector": {"app": "a"}, "ports": [{"name": "web", "port": 80, "protocol": "TCP"}]},
        });
        assert_eq!(serde_json::to_value(applied_by("kantor", &live)).unwrap(), expected);
    }

    #[test]
    fn an_object_that_nobody_applied_loses_what_the_server_added() {
        let live = object(json!({
            "apiVersion": "v1", "kind": "Namespace", "spec": {"finalizers": ["kubernetes"]}, "status": {},
            "metadata": {"name": "a", "uid": "u", "resourceVersion": "7", "labels": {"x": "1"}},
        }));
        let intent = serde_json::to_value(applied_by("kantor", &live)).unwrap();
        assert_eq!(intent["metadata"], json!({"name": "a", "labels": {"x": "1"}}));
        assert!(intent.get("status").is_none());
    }
}
