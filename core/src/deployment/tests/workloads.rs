use rstest::rstest;

use super::*;

#[rstest]
#[case("Service")]
#[case("WebApplication")]
fn what_serves_is_a_deployment_and_a_service(#[case] type_: &str) {
    let world = World::new(type_, json!({"endpointTemplates": [template("api", "HTTP", 8080)]}));
    let rendered = world.render();
    assert_eq!(rendered.own.len(), 2);
    let deployment = rendered.one("Deployment");
    assert_eq!(deployment["apiVersion"], "apps/v1");
    let metadata = json!({"name": WORKLOAD, "namespace": NAMESPACE, "labels": own_labels(type_)});
    assert_eq!(deployment["metadata"], metadata);
    assert_eq!(deployment["spec"]["selector"], json!({"matchLabels": workload_labels(type_)}));
    assert_eq!(deployment["spec"]["template"]["metadata"]["labels"], workload_labels(type_));
    let expected = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata,
        "spec": {
            "type": "ClusterIP", "selector": workload_labels(type_),
            "ports": [{"name": "ep-8080-tcp", "protocol": "TCP", "port": 8080}],
        },
    });
    assert_eq!(rendered.one("Service"), expected);
    let workload = InventoryItem {
        group: "apps".into(),
        version: "v1".into(),
        kind: "Deployment".into(),
        namespace: NAMESPACE.into(),
        name: WORKLOAD.into(),
        uid: None,
    };
    assert_eq!(rendered.workload, workload);
}

#[test]
fn without_ports_there_is_no_service() {
    let target = json!({"type": "target", "target": {"url": "http://elsewhere"}});
    let templates = json!([{"metadata": {"name": "a"}, "spec": {"type": "HTTP", "backendRef": target}}]);
    let rendered = World::new("Service", json!({"endpointTemplates": templates})).render();
    assert!(rendered.of_kind("Service").is_empty());
    assert_eq!(rendered.endpoints.len(), 1);
}

#[test]
fn replicas_are_never_set_and_old_versions_only_when_asked_for() {
    let mut world = World::service(json!({"scaling": {"hpa": {"minReplicas": 2}}}));
    let spec = world.render().one("Deployment")["spec"].clone();
    assert_eq!((&spec["replicas"], &spec["revisionHistoryLimit"]), (&Value::Null, &Value::Null));
    world.deployment.spec.revision_history_limit = Some(3);
    assert_eq!(world.render().one("Deployment")["spec"]["revisionHistoryLimit"], 3);
}

#[rstest]
#[case::nothing_said(json!({}), 1, 1, &[("cpu", 80)])]
#[case::fewest(json!({"minReplicas": 3}), 3, 3, &[("cpu", 80)])]
#[case::most(json!({"maxReplicas": 5}), 1, 5, &[("cpu", 80)])]
#[case::memory(json!({"memoryThreshold": 70}), 1, 1, &[("memory", 70)])]
#[case::all(
    json!({"minReplicas": 2, "maxReplicas": 4, "memoryThreshold": 70, "cpuThreshold": 60}),
    2, 4, &[("cpu", 60), ("memory", 70)]
)]
fn scaling_by_load_is_an_autoscaler(
    #[case] hpa: Value,
    #[case] fewest: i32,
    #[case] most: i32,
    #[case] metrics: &[(&str, i32)],
) {
    let scaler = World::service(json!({"scaling": {"hpa": hpa}})).render().one("HorizontalPodAutoscaler");
    let metrics: Vec<Value> = metrics
        .iter()
        .map(|(name, percent)| {
            json!({"type": "Resource", "resource": {
                "name": name, "target": {"type": "Utilization", "averageUtilization": percent},
            }})
        })
        .collect();
    let expected = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": WORKLOAD, "namespace": NAMESPACE, "labels": own_labels("Service")},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": WORKLOAD},
            "minReplicas": fewest, "maxReplicas": most, "metrics": metrics,
        },
    });
    assert_eq!(scaler, expected);
}

#[test]
fn a_scheduled_task_is_a_cron_job() {
    let world =
        World::new("ScheduledTask", json!({"application": {"task": {"schedule": {"cron": "*/5 * * * *"}}}}));
    let rendered = world.render();
    let labels = workload_labels("ScheduledTask");
    let template = json!({
        "metadata": {"labels": labels},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "my-image:latest"}]},
    });
    let expected = json!({
        "apiVersion": "batch/v1", "kind": "CronJob",
        "metadata": {"name": WORKLOAD, "namespace": NAMESPACE, "labels": own_labels("ScheduledTask")},
        "spec": {
            "schedule": "*/5 * * * *", "timeZone": "Etc/UTC", "concurrencyPolicy": "Forbid", "suspend": false,
            "jobTemplate": {
                "metadata": {"labels": labels},
                "spec": {
                    "activeDeadlineSeconds": 300, "backoffLimit": 4, "ttlSecondsAfterFinished": 360,
                    "template": template,
                },
            },
        },
    });
    assert_eq!(rendered.one("CronJob"), expected);
    assert_eq!((rendered.own.len(), rendered.workload.kind.as_str()), (1, "CronJob"));
}

#[test]
fn a_task_runs_when_and_as_long_as_it_is_told() {
    let schedule = json!({"cron": "@daily", "timezone": "Asia/Colombo"});
    let mut world = World::new(
        "ScheduledTask",
        json!({"application": {"task": {"disabled": true, "schedule": schedule}}}),
    );
    world.settings = Settings { task_deadline: 10, task_retries: 1, task_kept: 20, ..Settings::default() };
    let spec = world.render().one("CronJob")["spec"].clone();
    assert_eq!(spec["timeZone"], "Asia/Colombo");
    assert_eq!(spec["suspend"], true);
    let job = &spec["jobTemplate"]["spec"];
    assert_eq!(job["activeDeadlineSeconds"], 10);
    assert_eq!(job["backoffLimit"], 1);
    assert_eq!(job["ttlSecondsAfterFinished"], 20);
}

#[test]
fn a_manual_task_is_a_job_that_stays_when_it_is_done() {
    let world = World::new("ManualTask", json!({"application": {"task": {"disabled": true}}}));
    let rendered = world.render();
    let expected = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": WORKLOAD, "namespace": NAMESPACE, "labels": own_labels("ManualTask")},
        "spec": {
            "suspend": true, "activeDeadlineSeconds": 300, "backoffLimit": 4,
            "template": {
                "metadata": {"labels": workload_labels("ManualTask")},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "my-image:latest"}]},
            },
        },
    });
    assert_eq!(rendered.one("Job"), expected);
    assert_eq!(rendered.workload.kind, "Job");
}

#[test]
fn label_values_that_kubernetes_would_refuse_are_made_valid() {
    let mut world = World::service(json!({}));
    world.deployment.metadata.labels = None;
    world.deployment.metadata.name = Some("a".repeat(80));
    let value =
        world.render().one("Deployment")["spec"]["selector"]["matchLabels"]["deployment-name"].clone();
    assert_eq!(value.as_str().unwrap().len(), 63);
}

#[test]
fn names_are_made_of_metadata_and_labels_of_logical_names() {
    let mut world = World::service(json!({"envFrom": [{"configurationGroupRef": {"name": "db"}}]}))
        .with_group("db-in-acme", database("redis", 1));
    let group = world.groups.remove("db-in-acme").unwrap();
    world.groups.insert("db".into(), group);
    world.component.metadata.name = Some("component-in-acme".into());
    world.track.metadata.name = Some("track-in-acme".into());
    let rendered = world.render();
    assert!(rendered.workload.name.starts_with("component-in-acme-track-in-acme-"));
    assert!(
        rendered.one("ConfigMap")["metadata"]["name"]
            .as_str()
            .unwrap()
            .starts_with("component-in-acme-track-in-acme-db-in-acme-")
    );
    let labels = &rendered.one("Deployment")["metadata"]["labels"];
    assert_eq!(labels["component-name"], "my-component");
    assert_eq!(labels["deployment-track-name"], "my-main-track");
}
