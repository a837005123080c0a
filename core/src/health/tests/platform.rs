use super::*;

#[rstest]
#[case::bound(json!({ "phase": "Bound" }), Healthy, "")]
#[case::lost(json!({ "phase": "Lost" }), Degraded, "volume is lost")]
#[case::pending(json!({ "phase": "Pending" }), Progressing, "waits for a volume, or for the first Pod")]
#[case::no_phase(json!({}), Progressing, "waits for a volume")]
fn volume_claims(#[case] status: Value, #[case] health: Health, #[case] message: &str) {
    assert_health(&object("v1", "PersistentVolumeClaim", &json!({}), &status), health, message);
}

fn able() -> Value {
    condition("AbleToScale", "True", "ReadyForNewScale", "recommended size matches current size")
}

#[rstest]
#[case::new(json!([]), Progressing, "has not been evaluated yet")]
#[case::works(json!([able(), condition("ScalingActive", "True", "ValidMetricFound", "")]), Healthy, "")]
#[case::at_its_limit(
    json!([able(), condition("ScalingActive", "True", "ValidMetricFound", ""), condition("ScalingLimited", "True", "TooManyReplicas", "")]),
    Healthy, ""
)]
#[case::no_target(
    json!([condition("AbleToScale", "False", "FailedGetScale", "deployments.apps \"shop\" not found")]),
    Degraded, "FailedGetScale: deployments.apps \"shop\" not found"
)]
#[case::target_is_at_zero(
    json!([able(), condition("ScalingActive", "False", "ScalingDisabled", "scaling is disabled since the replica count of the target is zero")]),
    Suspended, "ScalingDisabled"
)]
#[case::no_metrics_yet(
    json!([able(), condition("ScalingActive", "False", "FailedGetResourceMetric", "no metrics returned")]),
    Progressing, "FailedGetResourceMetric: no metrics returned"
)]
#[case::metric_of_no_kind(
    json!([able(), condition("ScalingActive", "False", "InvalidMetricSourceType", "invalid metric source type")]),
    Degraded, "InvalidMetricSourceType"
)]
#[case::selector(
    json!([able(), condition("ScalingActive", "False", "InvalidSelector", "couldn't convert selector")]),
    Degraded, "InvalidSelector"
)]
fn pod_autoscalers(#[case] conditions: Value, #[case] health: Health, #[case] message: &str) {
    let scaler =
        object("autoscaling/v2", "HorizontalPodAutoscaler", &json!({}), &json!({ "conditions": conditions }));
    assert_health(&scaler, health, message);
}

#[rstest]
#[case::enough(json!({ "observedGeneration": 2, "currentHealthy": 3, "desiredHealthy": 2 }), Healthy, "")]
#[case::just_enough(
    json!({ "observedGeneration": 2, "currentHealthy": 2, "desiredHealthy": 2, "conditions": [
        condition("DisruptionAllowed", "False", "InsufficientPods", ""),
    ] }),
    Healthy, ""
)]
#[case::too_few(
    json!({ "observedGeneration": 2, "currentHealthy": 1, "desiredHealthy": 2 }), Progressing, "1 of 2 Pods healthy"
)]
#[case::not_observed(json!({ "observedGeneration": 1, "currentHealthy": 3, "desiredHealthy": 2 }), Progressing, "observed")]
#[case::not_counted(json!({ "observedGeneration": 2 }), Progressing, "0 of ? Pods healthy")]
#[case::cannot_be_counted(
    json!({ "observedGeneration": 2, "currentHealthy": 3, "desiredHealthy": 2, "conditions": [
        condition("DisruptionAllowed", "False", "SyncFailed", "found no controllers for pod \"shop\""),
    ] }),
    Degraded, "SyncFailed: found no controllers"
)]
fn disruption_budgets(#[case] status: Value, #[case] health: Health, #[case] message: &str) {
    assert_health(&object("policy/v1", "PodDisruptionBudget", &json!({}), &status), health, message);
}

fn named() -> Value {
    condition("NamesAccepted", "True", "NoConflicts", "no conflicts found")
}

#[rstest]
#[case::new(json!([]), Progressing, "no condition Established yet")]
#[case::established(json!([named(), condition("Established", "True", "InitialNamesAccepted", "")]), Healthy, "")]
#[case::on_its_way(
    json!([named(), condition("Established", "False", "Installing", "the initial names have been accepted")]),
    Progressing, "Installing"
)]
#[case::name_is_taken(
    json!([condition("NamesAccepted", "False", "PluralConflict", "\"shops\" is already in use"),
        condition("Established", "True", "InitialNamesAccepted", "")]),
    Degraded, "PluralConflict: \"shops\" is already in use"
)]
#[case::going(
    json!([named(), condition("Established", "True", "", ""), condition("Terminating", "True", "InstanceDeletionInProgress", "")]),
    Progressing, "InstanceDeletionInProgress"
)]
fn resource_definitions(#[case] conditions: Value, #[case] health: Health, #[case] message: &str) {
    let status = json!({ "conditions": conditions });
    assert_health(
        &object("apiextensions.k8s.io/v1", "CustomResourceDefinition", &json!({}), &status),
        health,
        message,
    );
}

#[rstest]
#[case::available(json!([condition("Available", "True", "Passed", "all checks passed")]), Healthy, "")]
#[case::not_available(
    json!([condition("Available", "False", "MissingEndpoints", "endpoints for service/metrics have no addresses")]),
    Progressing, "MissingEndpoints"
)]
#[case::new(json!([]), Progressing, "no condition Available yet")]
fn api_services(#[case] conditions: Value, #[case] health: Health, #[case] message: &str) {
    let status = json!({ "conditions": conditions });
    assert_health(&object("apiregistration.k8s.io/v1", "APIService", &json!({}), &status), health, message);
}

#[rstest]
#[case::active(json!({ "phase": "Active" }), Healthy, "")]
#[case::new(json!({}), Healthy, "")]
#[case::going(json!({ "phase": "Terminating" }), Progressing, "is being deleted")]
fn namespaces(#[case] status: Value, #[case] health: Health, #[case] message: &str) {
    assert_health(&object("v1", "Namespace", &json!({}), &status), health, message);
}
