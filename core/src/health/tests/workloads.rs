use super::*;

/// The status of a Deployment whose replicas are all up, with `changes`.
fn rolled_out(changes: &Value) -> Value {
    let mut status = json!({
        "observedGeneration": 2,
        "replicas": 3,
        "updatedReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "conditions": [
            condition("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability."),
            condition("Progressing", "True", "NewReplicaSetAvailable", "ReplicaSet \"shop-1\" has progressed."),
        ],
    });
    for (key, value) in changes.as_object().unwrap() {
        status[key] = value.clone();
    }
    status
}

fn under_way() -> Value {
    condition("Progressing", "True", "ReplicaSetUpdated", "ReplicaSet \"shop-2\" is progressing.")
}

fn lacking() -> Value {
    condition(
        "Available",
        "False",
        "MinimumReplicasUnavailable",
        "Deployment does not have minimum availability.",
    )
}

fn through() -> Value {
    condition("Progressing", "True", "NewReplicaSetAvailable", "ReplicaSet \"shop-1\" has progressed.")
}

#[rstest]
#[case::all_up(json!({ "replicas": 3 }), json!({}), Healthy, "")]
#[case::paused(json!({ "replicas": 3, "paused": true }), json!({}), Suspended, "is paused")]
#[case::scaled_to_zero(json!({ "replicas": 0 }), json!({ "replicas": 0 }), Suspended, "scaled to zero")]
#[case::paused_before_all_else(
    json!({ "replicas": 3, "paused": true }), json!({ "observedGeneration": 1 }), Suspended, "is paused"
)]
#[case::zero_before_it_is_observed(
    json!({ "replicas": 0 }), json!({ "observedGeneration": 1 }), Suspended, "scaled to zero"
)]
#[case::not_observed(json!({ "replicas": 3 }), json!({ "observedGeneration": null }), Progressing, "not been observed")]
#[case::observed_zero(json!({ "replicas": 3 }), json!({ "observedGeneration": 0 }), Progressing, "not been observed")]
#[case::observed_before(json!({ "replicas": 3 }), json!({ "observedGeneration": 1 }), Progressing, "not been observed")]
#[case::too_late(
    json!({ "replicas": 3 }),
    json!({ "updatedReplicas": 1, "conditions": [
        condition("Progressing", "False", "ProgressDeadlineExceeded", "ReplicaSet \"shop-2\" has timed out progressing."),
    ] }),
    Degraded, "ProgressDeadlineExceeded: ReplicaSet \"shop-2\" has timed out"
)]
#[case::too_late_counts_only_if_observed(
    json!({ "replicas": 3 }),
    json!({ "observedGeneration": 1, "conditions": [
        condition("Progressing", "False", "ProgressDeadlineExceeded", "timed out"),
    ] }),
    Progressing, "not been observed"
)]
#[case::no_quota(
    json!({ "replicas": 3 }),
    json!({ "availableReplicas": 0, "conditions": [
        under_way(), condition("ReplicaFailure", "True", "FailedCreate", "pods \"shop-1-x\" is forbidden: exceeded quota"),
    ] }),
    Degraded, "FailedCreate: pods \"shop-1-x\" is forbidden: exceeded quota"
)]
#[case::no_failure(
    json!({ "replicas": 3 }), json!({ "conditions": [condition("ReplicaFailure", "False", "x", "y")] }), Healthy, ""
)]
#[case::first_replicas_are_starting(
    json!({ "replicas": 3 }),
    json!({ "availableReplicas": 0, "readyReplicas": 0, "unavailableReplicas": 3, "conditions": [lacking(), under_way()] }),
    Progressing, "0 of 3 replicas available"
)]
#[case::crash_loop_after_the_rollout(
    json!({ "replicas": 3 }),
    json!({ "availableReplicas": 0, "readyReplicas": 0, "unavailableReplicas": 3, "conditions": [lacking(), through()] }),
    Degraded, "0 of 3 replicas available, and no rollout"
)]
#[case::none_and_nobody_says_why(
    json!({ "replicas": 3 }),
    json!({ "availableReplicas": 0, "readyReplicas": 0, "unavailableReplicas": 3, "conditions": [] }),
    Degraded, "0 of 3"
)]
#[case::none_and_not_progressing(
    json!({ "replicas": 3 }),
    json!({ "availableReplicas": 0, "conditions": [condition("Progressing", "False", "ReplicaSetUpdated", "")] }),
    Degraded, "0 of 3"
)]
#[case::too_few(
    json!({ "replicas": 3 }),
    json!({ "availableReplicas": 1, "readyReplicas": 1, "unavailableReplicas": 2, "conditions": [lacking(), through()] }),
    Degraded, "1 of 3 replicas available: MinimumReplicasUnavailable"
)]
#[case::too_few_of_old_ones(
    json!({ "replicas": 3 }),
    json!({ "updatedReplicas": 1, "availableReplicas": 0, "readyReplicas": 1, "unavailableReplicas": 3,
        "conditions": [lacking(), through()] }),
    Degraded, "0 of 3 replicas available"
)]
#[case::too_few_while_a_rollout_is_under_way(
    json!({ "replicas": 3 }),
    json!({ "availableReplicas": 1, "readyReplicas": 1, "unavailableReplicas": 2, "conditions": [lacking(), under_way()] }),
    Progressing, "1 of 3 replicas available"
)]
#[case::one_is_missing_but_enough_are_there(
    json!({ "replicas": 3 }),
    json!({ "availableReplicas": 2, "readyReplicas": 2, "unavailableReplicas": 1 }),
    Progressing, "2 of 3 replicas available"
)]
#[case::updating(
    json!({ "replicas": 3 }),
    json!({ "replicas": 4, "updatedReplicas": 1, "unavailableReplicas": 1 }),
    Progressing, "1 of 3 replicas updated"
)]
#[case::old_ones_are_left(
    json!({ "replicas": 3 }), json!({ "replicas": 4, "unavailableReplicas": 1 }), Progressing, "1 replicas unavailable"
)]
#[case::one_is_the_default(
    json!({}), json!({ "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1 }), Healthy, ""
)]
fn deployments(#[case] spec: Value, #[case] changes: Value, #[case] health: Health, #[case] message: &str) {
    assert_health(&object("apps/v1", "Deployment", &spec, &rolled_out(&changes)), health, message);
}

fn set(replicas: i64, ready: i64, updated: i64, revisions: [&str; 2]) -> Value {
    json!({
        "observedGeneration": 2, "replicas": replicas, "readyReplicas": ready, "availableReplicas": ready,
        "updatedReplicas": updated, "currentRevision": revisions[0], "updateRevision": revisions[1],
    })
}

fn partitioned(partition: i64) -> Value {
    json!({ "replicas": 3, "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": partition } } })
}

#[rstest]
#[case::all_up(json!({ "replicas": 3 }), set(3, 3, 3, ["a", "a"]), Healthy, "")]
#[case::one_is_the_default(json!({}), set(1, 1, 1, ["a", "a"]), Healthy, "")]
#[case::scaled_to_zero(json!({ "replicas": 0 }), set(0, 0, 0, ["a", "a"]), Suspended, "scaled to zero")]
#[case::not_observed(json!({ "replicas": 3 }), json!({ "readyReplicas": 3 }), Progressing, "not been observed")]
#[case::updating(json!({ "replicas": 3 }), set(3, 3, 1, ["a", "b"]), Progressing, "1 of 3 replicas updated")]
#[case::all_updated_but_not_through(json!({ "replicas": 3 }), set(3, 3, 3, ["a", "b"]), Progressing, "updated")]
#[case::on_delete_keeps_old_replicas(
    json!({ "replicas": 3, "updateStrategy": { "type": "OnDelete" } }), set(3, 3, 0, ["a", "b"]), Healthy, ""
)]
#[case::on_delete_needs_all(
    json!({ "replicas": 3, "updateStrategy": { "type": "OnDelete" } }), set(3, 2, 0, ["a", "b"]),
    Progressing, "2 of 3 replicas ready"
)]
#[case::up_to_the_partition(partitioned(2), set(3, 3, 1, ["a", "b"]), Healthy, "")]
#[case::before_the_partition(partitioned(1), set(3, 3, 1, ["a", "b"]), Progressing, "1 of 2 replicas updated")]
#[case::partition_beyond_the_replicas(partitioned(9), set(3, 3, 0, ["a", "b"]), Healthy, "")]
#[case::partition_and_not_ready(partitioned(2), set(3, 2, 1, ["a", "b"]), Progressing, "2 of 3 replicas ready")]
#[case::not_ready(json!({ "replicas": 3 }), set(3, 1, 3, ["a", "a"]), Progressing, "1 of 3 replicas ready")]
#[case::ready_but_not_for_long_enough(
    json!({ "replicas": 3, "minReadySeconds": 30 }),
    json!({ "observedGeneration": 2, "readyReplicas": 3, "availableReplicas": 2, "updatedReplicas": 3 }),
    Progressing, "2 of 3 replicas available"
)]
#[case::not_all_of_them_new(json!({ "replicas": 3 }), set(3, 3, 2, ["a", "a"]), Progressing, "2 of 3 replicas updated")]
fn stateful_sets(#[case] spec: Value, #[case] status: Value, #[case] health: Health, #[case] message: &str) {
    assert_health(&object("apps/v1", "StatefulSet", &spec, &status), health, message);
}

fn daemons(desired: i64, updated: i64, available: i64) -> Value {
    json!({
        "observedGeneration": 2, "desiredNumberScheduled": desired, "currentNumberScheduled": desired,
        "updatedNumberScheduled": updated, "numberAvailable": available, "numberReady": available,
    })
}

#[rstest]
#[case::all_up(json!({}), daemons(3, 3, 3), Healthy, "")]
#[case::no_node_wants_it(json!({}), daemons(0, 0, 0), Healthy, "")]
#[case::not_observed(json!({}), json!({ "observedGeneration": 1, "desiredNumberScheduled": 0 }), Progressing, "observed")]
#[case::updating(json!({}), daemons(3, 1, 3), Progressing, "1 of 3 Pods updated")]
#[case::not_available(json!({}), daemons(3, 3, 2), Progressing, "2 of 3 Pods available")]
#[case::on_delete(json!({ "updateStrategy": { "type": "OnDelete" } }), daemons(3, 0, 3), Healthy, "")]
#[case::nothing_scheduled(json!({}), json!({ "observedGeneration": 2 }), Progressing, "not been scheduled")]
fn daemon_sets(#[case] spec: Value, #[case] status: Value, #[case] health: Health, #[case] message: &str) {
    assert_health(&object("apps/v1", "DaemonSet", &spec, &status), health, message);
}

#[rstest]
#[case::all_up(json!({ "replicas": 2 }), json!({ "observedGeneration": 2, "availableReplicas": 2 }), Healthy, "")]
#[case::zero(json!({ "replicas": 0 }), json!({ "observedGeneration": 2 }), Suspended, "scaled to zero")]
#[case::not_observed(json!({ "replicas": 2 }), json!({ "availableReplicas": 2 }), Progressing, "observed")]
#[case::failing(
    json!({ "replicas": 2 }),
    json!({ "observedGeneration": 2, "conditions": [condition("ReplicaFailure", "True", "FailedCreate", "no quota")] }),
    Degraded, "FailedCreate: no quota"
)]
#[case::too_few(
    json!({ "replicas": 2 }), json!({ "observedGeneration": 2, "availableReplicas": 1 }),
    Progressing, "1 of 2 replicas available"
)]
fn replica_sets(#[case] spec: Value, #[case] status: Value, #[case] health: Health, #[case] message: &str) {
    assert_health(&object("apps/v1", "ReplicaSet", &spec, &status), health, message);
}

fn waiting(phase: &str, list: &str, reason: &str) -> Value {
    json!({
        "phase": phase,
        // Ready: that a container cannot start weighs more.
        "conditions": [condition("Ready", "True", "", "")],
        list: [
            { "name": "proxy", "state": { "running": {} }, "ready": true },
            { "name": "app", "state": { "waiting": { "reason": reason, "message": "details" } }, "ready": false },
        ],
    })
}

#[rstest]
#[case::succeeded(json!({ "phase": "Succeeded" }), Healthy, "")]
#[case::evicted(
    json!({ "phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory." }),
    Degraded, "Evicted: The node was low"
)]
#[case::ended_with_an_error(
    json!({ "phase": "Failed", "containerStatuses": [
        { "name": "proxy", "state": { "terminated": { "exitCode": 0 } } },
        { "name": "app", "state": { "terminated": { "exitCode": 137, "reason": "OOMKilled" } } },
    ] }),
    Degraded, "container app ended with exit code 137"
)]
#[case::failed(json!({ "phase": "Failed" }), Degraded, "has failed")]
#[case::crash_loop(
    waiting("Running", "containerStatuses", "CrashLoopBackOff"),
    Degraded,
    "container app: CrashLoopBackOff: details"
)]
#[case::image_back_off(
    waiting("Pending", "containerStatuses", "ImagePullBackOff"),
    Degraded,
    "container app: ImagePullBackOff"
)]
#[case::image(waiting("Pending", "containerStatuses", "ErrImagePull"), Degraded, "ErrImagePull")]
#[case::image_name(waiting("Pending", "containerStatuses", "InvalidImageName"), Degraded, "InvalidImageName")]
#[case::config(
    waiting("Pending", "containerStatuses", "CreateContainerConfigError"),
    Degraded,
    "CreateContainerConfigError"
)]
#[case::create(
    waiting("Pending", "containerStatuses", "CreateContainerError"),
    Degraded,
    "CreateContainerError"
)]
#[case::init_container(
    waiting("Pending", "initContainerStatuses", "CrashLoopBackOff"),
    Degraded,
    "container app: CrashLoopBackOff"
)]
#[case::creating(waiting("Pending", "containerStatuses", "ContainerCreating"), Progressing, "is pending")]
#[case::no_node(
    json!({ "phase": "Pending", "conditions": [
        condition("PodScheduled", "False", "Unschedulable", "0/3 nodes are available: 3 Insufficient cpu."),
    ] }),
    Progressing, "Unschedulable: 0/3 nodes are available"
)]
#[case::gated(
    json!({ "phase": "Pending", "conditions": [condition("PodScheduled", "False", "SchedulingGated", "gated")] }),
    Progressing, "is pending"
)]
#[case::pending(json!({ "phase": "Pending" }), Progressing, "is pending")]
#[case::ready(json!({ "phase": "Running", "conditions": [condition("Ready", "True", "", "")] }), Healthy, "")]
#[case::not_ready(
    json!({ "phase": "Running", "conditions": [
        condition("Ready", "False", "ContainersNotReady", "containers with unready status: [app]"),
    ] }),
    Progressing, "ContainersNotReady: containers with unready status: [app]"
)]
#[case::readiness_is_not_told(json!({ "phase": "Running" }), Progressing, "is not ready")]
#[case::node_is_lost(json!({ "phase": "Unknown" }), Unknown, "phase Unknown")]
#[case::no_phase(json!({}), Unknown, "no phase")]
fn pods(#[case] status: Value, #[case] health: Health, #[case] message: &str) {
    assert_health(&object("v1", "Pod", &json!({}), &status), health, message);
}

#[rstest]
#[case::suspended(json!({ "suspend": true }), json!({}), Suspended, "is suspended")]
#[case::failed(
    json!({}), json!({ "failed": 6, "conditions": [
        condition("Failed", "True", "BackoffLimitExceeded", "Job has reached the specified backoff limit"),
    ] }),
    Degraded, "BackoffLimitExceeded: Job has reached"
)]
#[case::complete(json!({}), json!({ "succeeded": 1, "conditions": [condition("Complete", "True", "", "")] }), Healthy, "")]
#[case::enough_succeeded(
    json!({}), json!({ "active": 1, "conditions": [condition("SuccessCriteriaMet", "True", "", "")] }), Healthy, ""
)]
#[case::running(
    json!({}), json!({ "active": 1, "failed": 2 }), Progressing, "1 active, 0 succeeded, 2 failed"
)]
#[case::new(json!({ "suspend": false }), json!({}), Progressing, "0 active, 0 succeeded, 0 failed")]
#[case::not_failed(json!({}), json!({ "conditions": [condition("Failed", "False", "", "")] }), Progressing, "0 active")]
fn jobs(#[case] spec: Value, #[case] status: Value, #[case] health: Health, #[case] message: &str) {
    assert_health(&object("batch/v1", "Job", &spec, &status), health, message);
}

#[rstest]
#[case::suspended(json!({ "suspend": true }), json!({}), Suspended, "is suspended")]
#[case::before_the_first_run(json!({ "schedule": "0 * * * *" }), json!({}), Healthy, "")]
#[case::during_a_run(json!({}), json!({ "active": [{ "name": "shop-29" }], "lastScheduleTime": "2026-02-03T10:00:00Z" }), Healthy, "")]
fn cron_jobs(#[case] spec: Value, #[case] status: Value, #[case] health: Health, #[case] message: &str) {
    assert_health(&object("batch/v1", "CronJob", &spec, &status), health, message);
}

#[rstest]
#[case("Deployment")]
#[case("StatefulSet")]
#[case("DaemonSet")]
#[case("ReplicaSet")]
fn a_controller_that_says_nothing_has_seen_nothing(#[case] kind: &str) {
    let up = json!({
        "readyReplicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "desiredNumberScheduled": 0,
    });
    let mut object = object("apps/v1", kind, &json!({}), &up);
    object["metadata"] = json!({ "name": "shop" });
    assert_health(&object, Progressing, "not been observed");
}
