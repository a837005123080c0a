use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::{Health::*, *};

mod custom;
mod generic;
mod network;
mod platform;
mod workloads;

/// An object of generation 2.
fn object(api_version: &str, kind: &str, spec: &Value, status: &Value) -> Value {
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": { "name": "shop", "namespace": "acme", "generation": 2 },
        "spec": spec,
        "status": status,
    })
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-02-03T10:00:00Z",
    })
}

/// Asserts the health of an object, and a part of the message; a healthy one has none.
#[track_caller]
fn assert_health(object: &Value, health: Health, message: &str) {
    assert_verdict(&of(object, &Checks::default()), health, message);
}

#[track_caller]
fn assert_verdict(verdict: &Verdict, health: Health, message: &str) {
    assert_eq!(verdict.health, health, "{verdict:?}");
    match &verdict.message {
        None => assert!(health == Healthy && message.is_empty(), "a message is missing: {verdict:?}"),
        Some(told) => {
            assert!(health != Healthy, "a healthy object has nothing to explain: {verdict:?}");
            assert!(!message.is_empty() && told.contains(message), "{message:?} is not in {told:?}");
        }
    }
}

#[rstest]
#[case(Healthy, "Healthy")]
#[case(Suspended, "Suspended")]
#[case(Progressing, "Progressing")]
#[case(Degraded, "Degraded")]
#[case(Unknown, "Unknown")]
fn each_health_has_its_word(#[case] health: Health, #[case] word: &str) {
    assert_eq!(health.as_str(), word);
}

#[test]
fn the_greater_health_is_the_worse() {
    let mut all = [Unknown, Degraded, Healthy, Progressing, Suspended];
    all.sort();
    assert_eq!(all, [Healthy, Suspended, Progressing, Degraded, Unknown]);
}

#[rstest]
#[case::deployment("apps/v1", "Deployment")]
#[case::pod("v1", "Pod")]
#[case::config_map("v1", "ConfigMap")]
#[case::custom_resource("db.example.org/v1", "Postgres")]
fn what_is_being_deleted_is_progressing(#[case] api_version: &str, #[case] kind: &str) {
    let mut going = object(api_version, kind, &json!({}), &json!({ "phase": "Running" }));
    going["metadata"]["deletionTimestamp"] = json!("2026-02-03T10:00:00Z");
    assert_health(&going, Progressing, "is being deleted");
}

#[test]
fn the_version_of_a_kind_does_not_matter() {
    for version in ["autoscaling/v1", "autoscaling/v2", "autoscaling/v2beta2"] {
        let scaler = object(version, "HorizontalPodAutoscaler", &json!({}), &json!({}));
        assert_health(&scaler, Progressing, "has not been evaluated yet");
    }
}

#[test]
fn a_kind_of_the_same_name_in_another_group_is_another_kind() {
    let knative = object("serving.knative.dev/v1", "Service", &json!({ "type": "LoadBalancer" }), &json!({}));
    assert_health(&knative, Healthy, "");
    let ours = object("openchoreo.dev/v1alpha1", "Deployment", &json!({ "replicas": 0 }), &json!({}));
    assert_health(&ours, Healthy, "");
}

#[rstest]
#[case::nothing(json!(null))]
#[case::a_text(json!("Pod"))]
#[case::no_kind(json!({ "apiVersion": "v1" }))]
#[case::no_version(json!({ "kind": "Pod" }))]
#[case::kind_of_another_type(json!({ "apiVersion": "v1", "kind": 7 }))]
fn an_object_without_a_kind_is_unknown(#[case] object: Value) {
    assert_health(&object, Unknown, "no apiVersion or no kind");
}

#[rstest]
#[case::short("it waits", Some("it waits".to_owned()))]
#[case::lines("one\ntwo\r\nthree\ttab\u{2028}end\n", Some("one two  three tab end".to_owned()))]
#[case::nothing(" \n ", None)]
#[case::as_long_as_allowed(&"ä".repeat(1024), Some("ä".repeat(1024)))]
#[case::longer(&"ä".repeat(1025), Some("ä".repeat(1023) + "…"))]
#[case::much_longer(&"日".repeat(100_000), Some("日".repeat(1023) + "…"))]
fn messages_are_one_line_of_at_most_1024_characters(#[case] text: &str, #[case] expected: Option<String>) {
    assert_eq!(one_line(text), expected);
}

#[test]
fn what_a_condition_says_is_one_line_too() {
    let why = format!("first\nsecond {}", "x".repeat(5000));
    let status = json!({ "conditions": [condition("Failed", "True", "BackoffLimitExceeded", &why)] });
    let verdict = of(&object("batch/v1", "Job", &json!({}), &status), &Checks::default());
    let message = verdict.message.unwrap();
    assert!(message.starts_with("BackoffLimitExceeded: first second xxx"), "{message}");
    assert_eq!(message.chars().count(), 1024);
}

const KINDS: [(&str, &str); 24] = [
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "ReplicaSet"),
    ("v1", "Pod"),
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
    ("v1", "Service"),
    ("networking.k8s.io/v1", "Ingress"),
    ("v1", "PersistentVolumeClaim"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ("policy/v1", "PodDisruptionBudget"),
    ("gateway.networking.k8s.io/v1", "HTTPRoute"),
    ("gateway.networking.k8s.io/v1", "GRPCRoute"),
    ("gateway.networking.k8s.io/v1alpha2", "TLSRoute"),
    ("gateway.networking.k8s.io/v1alpha2", "TCPRoute"),
    ("gateway.networking.k8s.io/v1alpha2", "UDPRoute"),
    ("gateway.networking.k8s.io/v1", "Gateway"),
    ("gateway.networking.k8s.io/v1", "GatewayClass"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("apiregistration.k8s.io/v1", "APIService"),
    ("v1", "Namespace"),
    ("v1", "ConfigMap"),
    ("db.example.org/v1", "Postgres"),
];

/// What stands where a field of another type should be.
const WRONG: [fn() -> Value; 6] = [
    || json!(null),
    || json!("text"),
    || json!(-1.5),
    || json!([[], 3, "x", { "type": 1, "status": true }]),
    || json!({ "a": { "b": [] } }),
    || json!(u64::MAX),
];

#[test]
fn a_status_of_another_type_counts_as_none() {
    for (api_version, kind) in KINDS {
        let mut without = object(api_version, kind, &json!({}), &json!({}));
        let expected = of(&without, &Checks::default());
        for wrong in WRONG {
            without["status"] = wrong();
            assert_eq!(of(&without, &Checks::default()), expected, "{kind} with status {}", wrong());
        }
    }
}

#[test]
fn fields_of_another_type_count_as_missing() {
    const FIELDS: [&str; 18] = [
        "observedGeneration",
        "conditions",
        "replicas",
        "readyReplicas",
        "updatedReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "currentRevision",
        "updateRevision",
        "desiredNumberScheduled",
        "numberAvailable",
        "containerStatuses",
        "initContainerStatuses",
        "loadBalancer",
        "parents",
        "currentHealthy",
        "desiredHealthy",
        "active",
    ];
    for (api_version, kind) in KINDS {
        let expected = of(&object(api_version, kind, &json!({}), &json!({})), &Checks::default());
        for wrong in [json!(null), json!("text"), json!(-1.5), json!({}), json!(true)] {
            let status: serde_json::Map<_, _> =
                FIELDS.iter().map(|field| ((*field).to_owned(), wrong.clone())).collect();
            let malformed = object(api_version, kind, &json!({}), &Value::Object(status));
            let verdict = of(&malformed, &Checks::default());
            assert_eq!(verdict.health, expected.health, "{kind} with {wrong}: {verdict:?}");
        }
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        "[a-zA-Z]{0,8}".prop_map(Value::from),
        prop_oneof!["True", "False", "Running", "Pending", "Failed", "OnDelete", "LoadBalancer"]
            .prop_map(Value::from),
    ];
    let name = prop_oneof![
        "type",
        "status",
        "reason",
        "message",
        "conditions",
        "replicas",
        "observedGeneration",
        "generation",
        "phase",
        "parents",
        "containerStatuses",
        "state",
        "waiting",
        "updateStrategy",
        "rollingUpdate",
        "partition",
        "availableReplicas",
        "updatedReplicas",
    ];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_object_makes_it_panic(metadata in any_json(), spec in any_json(), status in any_json()) {
        for (api_version, kind) in KINDS {
            let object = json!({
                "apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec, "status": status,
            });
            let verdict = of(&object, &Checks::default());
            prop_assert_eq!(verdict.message.is_none(), verdict.health == Healthy);
        }
    }
}
