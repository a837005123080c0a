use super::*;

fn ready(status: &str) -> Value {
    condition("Ready", status, "Reconciled", "details")
}

fn with(mut condition: Value, field: &str, value: Value) -> Value {
    condition[field] = value;
    condition
}

#[rstest]
#[case::no_conditions(json!({}), Healthy, "")]
#[case::other_conditions(json!({ "conditions": [condition("Synced", "False", "x", "y")] }), Healthy, "")]
#[case::ready(json!({ "observedGeneration": 2, "conditions": [ready("True")] }), Healthy, "")]
#[case::behind(json!({ "observedGeneration": 1, "conditions": [ready("True")] }), Progressing, "not been observed")]
#[case::behind_without_conditions(json!({ "observedGeneration": 1 }), Progressing, "not been observed")]
#[case::condition_is_behind(
    json!({ "conditions": [with(ready("True"), "observedGeneration", json!(1))] }), Progressing, "not been observed"
)]
#[case::condition_is_not_behind(
    json!({ "conditions": [with(ready("True"), "observedGeneration", json!(2))] }), Healthy, ""
)]
#[case::another_condition_is_behind(
    json!({ "conditions": [with(condition("Synced", "True", "", ""), "observedGeneration", json!(1)), ready("True")] }),
    Healthy, ""
)]
#[case::stalled(
    json!({ "conditions": [ready("False"), condition("Stalled", "True", "InvalidSpec", "no such size")] }),
    Degraded, "InvalidSpec: no such size"
)]
#[case::stalled_before(
    json!({ "conditions": [with(condition("Stalled", "True", "InvalidSpec", ""), "observedGeneration", json!(1))] }),
    Progressing, "not been observed"
)]
#[case::reconciling(
    json!({ "conditions": [ready("True"), condition("Reconciling", "True", "NewGeneration", "on it")] }),
    Progressing, "NewGeneration: on it"
)]
#[case::stalled_and_reconciling(
    json!({ "conditions": [condition("Reconciling", "True", "Retry", ""), condition("Stalled", "True", "Broken", "")] }),
    Degraded, "Broken"
)]
#[case::neither_stalled_nor_reconciling(
    json!({ "conditions": [
        condition("Reconciling", "False", "", ""), condition("Stalled", "False", "", ""), ready("True"),
    ] }),
    Healthy, ""
)]
#[case::not_ready(json!({ "conditions": [ready("False")] }), Progressing, "Reconciled: details")]
#[case::a_reason_is_no_verdict(
    json!({ "conditions": [condition("Ready", "False", "InstallFailed", "retrying")] }), Progressing, "InstallFailed: retrying"
)]
#[case::an_error_by_its_own_words(
    json!({ "conditions": [with(ready("False"), "severity", json!("Error"))] }), Degraded, "Reconciled: details"
)]
#[case::a_warning(
    json!({ "conditions": [with(ready("False"), "severity", json!("Warning"))] }), Progressing, "Reconciled: details"
)]
#[case::ready_is_not_known(json!({ "conditions": [ready("Unknown")] }), Progressing, "Reconciled: details")]
#[case::ready_says_nothing(json!({ "conditions": [{ "type": "Ready" }] }), Progressing, "condition Ready is Unknown")]
#[case::ready_without_words(
    json!({ "conditions": [{ "type": "Ready", "status": "False" }] }), Progressing, "condition Ready is False"
)]
#[case::failed(json!({ "conditions": [condition("Failed", "True", "NoDisk", "full")] }), Degraded, "NoDisk: full")]
#[case::not_failed(json!({ "conditions": [condition("Failed", "False", "", "")] }), Healthy, "")]
#[case::ready_weighs_more_than_failed(
    json!({ "conditions": [condition("Failed", "True", "Once", ""), ready("True")] }), Healthy, ""
)]
#[case::available(json!({ "conditions": [condition("Available", "True", "", "")] }), Healthy, "")]
#[case::not_available(
    json!({ "conditions": [condition("Available", "False", "Starting", "")] }), Progressing, "Starting"
)]
fn kinds_that_are_not_known(#[case] status: Value, #[case] health: Health, #[case] message: &str) {
    assert_health(&object("db.example.org/v1", "Postgres", &json!({}), &status), health, message);
}

#[rstest]
#[case::config_map(json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": { "status": "x" } }))]
#[case::without_metadata(json!({ "apiVersion": "v1", "kind": "Secret" }))]
#[case::conditions_of_another_type(
    json!({ "apiVersion": "a/v1", "kind": "B", "status": { "conditions": { "Ready": "False" } } })
)]
#[case::elements_of_another_type(
    json!({ "apiVersion": "a/v1", "kind": "B", "status": { "conditions": ["Ready", 3, null, [] ] } })
)]
fn objects_without_conditions_are_healthy_when_they_are_there(#[case] object: Value) {
    assert_health(&object, Healthy, "");
}
