use serde_json::json;

use super::*;

#[test]
fn what_a_cluster_rewrites_by_itself_does_not_count() {
    let first = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "d", "uid": "u", "resourceVersion": "1", "generation": 1, "managedFields": [{}],
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"replicas": 1, "at": "2026-01-01T00:00:00Z"},
        "status": {
            "observedGeneration": 1, "replicas": 1,
            "conditions": [{"type": "Available", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        },
    });
    let mut second = first.clone();
    second["apiVersion"] = json!("apps/v2");
    second["metadata"]["resourceVersion"] = json!("2");
    second["metadata"]["generation"] = json!(2);
    second["metadata"]["managedFields"] = json!([]);
    second["status"]["observedGeneration"] = json!(2);
    second["status"]["conditions"][0]["lastTransitionTime"] = json!("2026-01-01T00:00:01.123456Z");
    let key = key("apps", "Deployment", "a", "d");
    let normal = |object: &Value| Options::default().normalise(&key, object.clone()).unwrap();
    assert_eq!(normal(&first), normal(&second));
    for (path, value) in [
        ("/metadata/uid", json!("other")),
        ("/spec/replicas", json!(2)),
        ("/spec/at", json!("2026-01-01T00:00:01Z")),
        ("/status/replicas", json!(2)),
        ("/status/conditions/0/status", json!("False")),
    ] {
        let mut changed = first.clone();
        *changed.pointer_mut(path).unwrap() = value;
        assert_ne!(normal(&first), normal(&changed), "{path}");
    }
}

#[test]
fn objects_that_a_cluster_makes_by_itself_do_not_count() {
    for (group, kind, name, counts) in [
        ("", "Event", "e", false),
        ("events.k8s.io", "Event", "e", false),
        ("coordination.k8s.io", "Lease", "l", false),
        ("", "ConfigMap", "kube-root-ca.crt", false),
        ("", "ServiceAccount", "default", false),
        ("", "ConfigMap", "default", true),
        ("example.com", "ServiceAccount", "default", true),
        ("example.com", "Event", "e", true),
        ("", "Pod", "p", true),
        ("apps", "ReplicaSet", "r", true),
        ("discovery.k8s.io", "EndpointSlice", "s", true),
    ] {
        let object = json!({"metadata": {"name": name}});
        let kept = Options::default().normalise(&key(group, kind, "a", name), object);
        assert_eq!(kept.is_some(), counts, "{group} {kind} {name}");
    }
    let automanaged = json!({"metadata": {"labels": {AUTOMANAGED: "onstart"}}});
    assert_eq!(
        Options::default().normalise(&key("apiregistration.k8s.io", "APIService", "", "v1."), automanaged),
        None
    );
}

#[test]
fn options_leave_out_kinds_namespaces_status_and_uids() {
    let options =
        Options::default().ignore_kind("x.io", "X").ignore_namespace("gone").ignore_status().ignore_uids();
    let object = json!({
        "metadata": {"uid": "u", "ownerReferences": [{"name": "o", "uid": "v"}]}, "spec": {"uid": "w"}, "status": {"a": 1},
    });
    let normal = |key: &Key| options.normalise(key, object.clone());
    assert_eq!(normal(&key("x.io", "X", "a", "x")), None);
    assert_eq!(normal(&key("", "Pod", "gone", "p")), None);
    assert_eq!(normal(&key("", "Namespace", "", "gone")), None);
    let expected = json!({"metadata": {"ownerReferences": [{"name": "o"}]}, "spec": {"uid": "w"}});
    assert_eq!(normal(&key("", "Pod", "a", "gone")), Some(expected));
}

#[test]
fn values_of_secrets_are_kept_as_digests_only() {
    let secret = json!({
        "metadata": {"annotations": {LAST_APPLIED: "hunter2"}}, "data": {"password": "hunter2"}, "stringData": {"b": "hunter2"},
    });
    let normal =
        |object: &Value| Options::default().normalise(&key("", "Secret", "a", "s"), object.clone()).unwrap();
    assert!(!normal(&secret).to_string().contains("hunter2"), "{}", normal(&secret));
    let mut changed = secret.clone();
    changed["data"]["password"] = json!("hunter3");
    assert_ne!(normal(&secret), normal(&changed));
}

#[test]
fn times_are_told_from_other_text() {
    for (text, time) in [
        ("2026-11-16T02:18:40Z", true),
        ("2026-11-16T02:18:40.123456Z", true),
        ("2026-11-16", false),
        ("2026-11-16T02:18:40", false),
        ("aaaa-11-16T02:18:40Z", false),
        ("", false),
    ] {
        assert_eq!(is_time(&json!(text)), time, "{text}");
    }
}

fn key(group: &str, kind: &str, namespace: &str, name: &str) -> Key {
    let [group, kind, namespace, name] = [group, kind, namespace, name].map(ToOwned::to_owned);
    Key { group, kind, namespace, name }
}
