use rstest::rstest;

use super::*;

/// The application that counts, as JSON.
fn application(base: Value, over: Value) -> Value {
    let world = World::service(base).overridden(json!({"application": over}));
    json!(Effective::of(&world.artifact, &world.deployment).application)
}

#[rstest]
#[case::args_as_a_whole(json!({"args": ["a", "b"]}), json!({"args": ["c"]}), json!({"args": ["c"]}))]
#[case::args_kept(json!({"args": ["a"]}), json!({"env": [{"key": "A"}]}), json!({"args": ["a"], "env": [{"key": "A"}]}))]
#[case::env_by_key(
    json!({"env": [{"key": "A", "value": "1"}, {"key": "B", "value": "1"}]}),
    json!({"env": [{"key": "C", "value": "2"}, {"key": "A", "valueFrom": from_group("g", "k")}]}),
    json!({"env": [
        {"key": "A", "valueFrom": from_group("g", "k")}, {"key": "B", "value": "1"}, {"key": "C", "value": "2"},
    ]})
)]
#[case::env_from_by_source(
    json!({"envFrom": [{"configurationGroupRef": {"name": "a"}}]}),
    json!({"envFrom": [{"secretRef": {"name": "a"}}, {"configurationGroupRef": {"name": "a"}}]}),
    json!({"envFrom": [{"configurationGroupRef": {"name": "a"}}, {"secretRef": {"name": "a"}}]})
)]
#[case::files_by_path(
    json!({"fileMounts": [{"mountPath": "/a", "value": "1"}, {"mountPath": "/b", "value": "1"}]}),
    json!({"fileMounts": [{"mountPath": "/b/", "value": "2"}]}),
    json!({"fileMounts": [{"mountPath": "/a", "value": "1"}, {"mountPath": "/b/", "value": "2"}]})
)]
#[case::folders_by_source_and_path(
    json!({"fileMountsFrom": [{"secretRef": {"name": "a", "mountPath": "/a"}}]}),
    json!({"fileMountsFrom": [
        {"secretRef": {"name": "a", "mountPath": "/a"}}, {"secretRef": {"name": "a", "mountPath": "/b"}},
    ]}),
    json!({"fileMountsFrom": [
        {"secretRef": {"name": "a", "mountPath": "/a"}}, {"secretRef": {"name": "a", "mountPath": "/b"}},
    ]})
)]
#[case::limits_per_field(
    json!({"resourceLimits": {"cpu": "1", "memory": "1Gi"}}),
    json!({"resourceLimits": {"memory": "2Gi"}}),
    json!({"resourceLimits": {"cpu": "1", "memory": "2Gi"}})
)]
#[case::probes_one_by_one(
    json!({"probes": {"readinessProbe": {"periodSeconds": 1}, "livenessProbe": {"periodSeconds": 1}}}),
    json!({"probes": {"livenessProbe": {"timeoutSeconds": 2}}}),
    json!({"probes": {"readinessProbe": {"periodSeconds": 1}, "livenessProbe": {"timeoutSeconds": 2}}})
)]
#[case::scaling_per_field(
    json!({"scaling": {"hpa": {"minReplicas": 1, "maxReplicas": 2}}}),
    json!({"scaling": {"hpa": {"maxReplicas": 9, "cpuThreshold": 50}}}),
    json!({"scaling": {"hpa": {"minReplicas": 1, "maxReplicas": 9, "cpuThreshold": 50}}})
)]
#[case::by_load_instead_of_to_none(
    json!({"scaling": {"s2z": {"maxReplicas": 2}}}),
    json!({"scaling": {"hpa": {"maxReplicas": 9}}}),
    json!({"scaling": {"hpa": {"maxReplicas": 9}}})
)]
#[case::to_none_instead_of_by_load(
    json!({"scaling": {"hpa": {"maxReplicas": 2}}}),
    json!({"scaling": {"s2z": {"maxReplicas": 9}}}),
    json!({"scaling": {"s2z": {"maxReplicas": 9}}})
)]
#[case::task_per_field(
    json!({"task": {"schedule": {"cron": "@daily", "timezone": "Asia/Colombo"}}}),
    json!({"task": {"disabled": true, "schedule": {"cron": "@hourly"}}}),
    json!({"task": {"disabled": true, "schedule": {"cron": "@hourly", "timezone": "Asia/Colombo"}}})
)]
fn each_field_of_an_override_goes_before_that_of_the_artifact(
    #[case] base: Value,
    #[case] over: Value,
    #[case] expected: Value,
) {
    assert_eq!(application(base.clone(), over), expected);
    assert_eq!(application(base.clone(), json!({})), base);
    assert_eq!(application(json!({}), expected.clone()), expected);
}

fn overridden_template(template: Value, over: Value) -> Value {
    let world = World::new("Service", json!({"endpointTemplates": [template]}))
        .overridden(json!({"endpointTemplates": [over]}));
    let [endpoint] = world.render().endpoints.try_into().unwrap();
    json!(endpoint.spec)
}

#[test]
fn a_deployment_changes_path_and_visibility_of_an_endpoint() {
    let mut base = template("api", "REST", 8080);
    base["spec"]["backendRef"]["basePath"] = "/v1".into();
    base["spec"]["networkVisibilities"] = json!({"organization": {"enable": true}});
    let spec = overridden_template(
        base,
        json!({"metadata": {"name": "api"}, "spec": {
            "basePath": "/v2", "networkVisibilities": {"public": {"enable": true}},
        }}),
    );
    assert_eq!(spec["backendRef"]["basePath"], "/v2");
    assert_eq!(spec["backendRef"]["componentRef"]["port"], 8080);
    assert_eq!(
        spec["networkVisibilities"],
        json!({"organization": {"enable": true}, "public": {"enable": true}})
    );
}

#[test]
fn opening_a_way_in_does_not_drop_its_guards() {
    let cors = |origin: &str| {
        let cors = json!({
            "allowOrigins": [origin], "allowMethods": ["GET"], "allowHeaders": [], "exposeHeaders": [],
            "maxAge": 1, "allowCredentials": false,
        });
        json!({"name": "pages", "type": "cors", "policySpec": {"cors": cors}})
    };
    let keys = json!({"name": "keys", "type": "mediation", "policySpec": {}});
    let mut base = template("", "REST", 8080);
    base["spec"]["networkVisibilities"] =
        json!({"public": {"enable": false, "policies": [keys, cors("https://a.example.com")]}});
    let over = json!({"spec": {"networkVisibilities": {"public": {
        "enable": true, "policies": [cors("https://b.example.com")],
    }}}});
    let public = overridden_template(base, over)["networkVisibilities"]["public"].clone();
    assert_eq!(public["enable"], true);
    assert_eq!(public["policies"], json!([keys, cors("https://b.example.com")]));
}
