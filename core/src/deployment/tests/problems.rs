use kantor_api::conditions::reasons;
use rstest::rstest;

use super::*;

fn env(key: &str, from: Value) -> Value {
    json!({"key": key, "valueFrom": from})
}

#[rstest]
#[case::group(
    from_group("mongo", "host"),
    reasons::CONFIGURATION_GROUP_NOT_FOUND,
    "env FOO: configuration group mongo does not exist; create it"
)]
#[case::key(
    from_group("redis-config-group", "user"),
    reasons::CONFIGURATION_KEY_NOT_FOUND,
    "env FOO: configuration group redis-config-group has no key user; add it with a value for environment test-environment"
)]
#[case::secret(
    from_secret("database", "password"),
    reasons::SECRET_NOT_USABLE,
    "env FOO: Secret database cannot be used; it must be in namespace test-organization and carry the label \
     openchoreo.dev/secret-kind: application"
)]
#[case::key_of_a_secret(
    from_secret("extra", "password"),
    reasons::SECRET_NOT_USABLE,
    "env FOO: Secret extra has no key password; add it, and keep the label openchoreo.dev/secret-kind: application"
)]
#[case::both(
    json!({"secretRef": {"name": "a", "key": "b"}, "configurationGroupRef": {"name": "a", "key": "b"}}),
    reasons::INVALID_CONFIGURATION, "env FOO: set exactly one of configurationGroupRef and secretRef"
)]
fn a_value_that_is_not_there_is_named(
    #[case] from: Value,
    #[case] reason: &'static str,
    #[case] message: &str,
) {
    let world = World::service(json!({"env": [env("FOO", from.clone())]})).with_databases();
    assert_eq!(world.with_secret("extra", &[("a", "b")]).problem(), (reason, message.to_owned()));
    let world = World::service(json!({"fileMounts": [{"mountPath": "/foo", "valueFrom": from}]}));
    let message = message.replace("env FOO", "fileMounts /foo");
    assert_eq!(world.with_databases().with_secret("extra", &[("a", "b")]).problem(), (reason, message));
}

#[test]
fn a_key_without_a_value_for_the_environment_is_named() {
    let mut world = World::service(json!({"env": [env("FOO", from_group("redis-config-group", "host"))]}))
        .with_databases();
    let group = world.groups.get_mut("redis-config-group").unwrap();
    group.spec.configurations[0].values.retain(|value| value.environment.as_deref() == Some("production"));
    let message = "env FOO: key host of configuration group redis-config-group has no value for environment test-environment; add one";
    assert_eq!(world.problem(), (reasons::CONFIGURATION_VALUE_MISSING, message.to_owned()));
}

#[rstest]
#[case::env_from(json!({"envFrom": [{"configurationGroupRef": {"name": "mongo"}}]}), "envFrom")]
#[case::files_from(
    json!({"fileMountsFrom": [{"configurationGroupRef": {"name": "mongo", "mountPath": "/etc/"}}]}),
    "fileMountsFrom /etc"
)]
fn a_whole_source_that_is_not_there_is_named(#[case] application: Value, #[case] field: &str) {
    let message = format!("{field}: configuration group mongo does not exist; create it");
    assert_eq!(World::service(application).problem(), (reasons::CONFIGURATION_GROUP_NOT_FOUND, message));
}

fn invalid(world: &World, says: &str) {
    let (reason, message) = world.problem();
    assert_eq!(reason, reasons::INVALID_CONFIGURATION);
    assert!(message.contains(says), "{message}");
    assert!(render(&world.inputs()).unwrap_err()[0].of_artifact);
}

#[rstest]
#[case::variable(json!({"env": [{"key": "A", "value": "1"}, {"key": "A", "value": "2"}]}), "env A is twice in the artifact's")]
#[case::value_and_source(
    json!({"env": [{"key": "A", "value": "1", "valueFrom": from_group("redis-config-group", "host")}]}),
    "env A: set value or valueFrom"
)]
#[case::root(json!({"fileMounts": [{"mountPath": "/", "value": ""}]}), "fileMounts /: a file cannot be mounted")]
#[case::file_in_a_folder(
    json!({
        "fileMounts": [{"mountPath": "/etc//host", "value": "1"}],
        "fileMountsFrom": [{"configurationGroupRef": {"name": "redis-config-group", "mountPath": "/etc"}}],
    }),
    "/etc/host is mounted twice: by fileMounts /etc//host and by fileMountsFrom /etc (key host of redis-config-group)"
)]
#[case::two_folders(
    json!({"fileMountsFrom": [
        {"secretRef": {"name": "extra", "mountPath": "/etc"}},
        {"configurationGroupRef": {"name": "redis-config-group", "mountPath": "/etc/"}},
    ]}),
    "/etc/host is mounted twice"
)]
#[case::one_variable_from_two_sources(
    json!({"envFrom": [{"secretRef": {"name": "extra"}}, {"configurationGroupRef": {"name": "redis-config-group"}}]}),
    "variable HOST comes from key host of redis-config-group and from key host of extra; say under env HOST"
)]
#[case::task_of_a_service(json!({"task": {"disabled": true}}), "task does not go with a component of type Service")]
#[case::more_than_most(json!({"scaling": {"hpa": {"minReplicas": 3, "maxReplicas": 2}}}), "minReplicas 3 is greater")]
fn contradictions_are_named(#[case] application: Value, #[case] says: &str) {
    let world = World::service(application).with_databases().with_secret("extra", &[("host", "b")]);
    invalid(&world, says);
}

#[test]
fn the_same_path_twice_is_named_in_the_list_and_where_it_is_mounted() {
    let files = json!([{"mountPath": "/a", "value": "1"}, {"mountPath": "/a/", "value": "2"}]);
    let problems = World::service(json!({"fileMounts": files})).problems();
    let messages: Vec<&str> = problems.iter().map(|(_, message)| message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "/a is mounted twice: by fileMounts /a and by fileMounts /a/; keep one",
            "fileMounts /a is twice in the artifact's configuration; keep one",
        ]
    );
}

#[rstest]
#[case::two_of_a_name(&[("api", "HTTP", 1), ("api", "HTTP", 2)], "endpoint template api is twice")]
#[case::two_without_a_name(&[("", "HTTP", 1), ("", "HTTP", 2)], "endpoint template endpoint is twice")]
#[case::one_of_the_name_of_those_without(&[("", "HTTP", 1), ("endpoint", "HTTP", 2)], "endpoint template endpoint is twice")]
fn endpoints_of_one_name_are_named(#[case] endpoints: &[(&str, &str, i32)], #[case] says: &str) {
    invalid(&World::listening(endpoints), says);
}

#[test]
fn an_override_of_a_template_that_is_not_there_is_named() {
    let world = World::listening(&[("api", "HTTP", 1)]).overridden(
        json!({"endpointTemplates": [{"metadata": {"name": "apis"}, "spec": {"basePath": "/"}}]}),
    );
    invalid(&world, "changes endpoint template apis, which the artifact does not have");
}

#[test]
fn overrides_must_not_repeat_themselves_either() {
    let env = json!([{"key": "A", "value": "1"}, {"key": "A", "value": "2"}]);
    let world = World::service(json!({})).overridden(json!({"application": {"env": env}}));
    invalid(&world, "env A is twice in configurationOverrides");
}

#[test]
fn a_template_without_a_port_is_named() {
    let mut world = World::listening(&[("api", "HTTP", 1)]);
    let template = &mut world.artifact.spec.configuration.as_mut().unwrap().endpoint_templates[0];
    template.spec.backend_ref.component_ref = None;
    invalid(&world, "endpoint template api: set backendRef.componentRef.port");
}

#[rstest]
#[case::no_schedule("ScheduledTask", json!({}), "task.schedule.cron is not set")]
#[case::scaled_task(
    "ScheduledTask", json!({"scaling": {"hpa": {}}, "task": {"schedule": {"cron": "@daily"}}}),
    "scaling does not go with a component of type ScheduledTask"
)]
#[case::scaled_manual_task("ManualTask", json!({"scaling": {"hpa": {}}}), "scaling does not go")]
#[case::scheduled_manual_task(
    "ManualTask", json!({"task": {"schedule": {"cron": "@daily"}}}), "task.schedule does not go"
)]
fn what_does_not_fit_a_task_is_named(
    #[case] type_: &str,
    #[case] mut application: Value,
    #[case] says: &str,
) {
    if application["scaling"]["hpa"].is_object() {
        application["scaling"]["hpa"] = json!({"minReplicas": 1});
    }
    invalid(&World::new(type_, json!({"application": application})), says);
}

#[rstest]
#[case::vault(
    World::service(json!({"envFrom": [{"configurationGroupRef": {"name": "redis-config-group"}}]})).with_databases(),
    reasons::CAPABILITY_MISSING, "no Secrets Store CSI driver"
)]
#[case::scaled(
    World::service(json!({"scaling": {"hpa": {"minReplicas": 1}}})),
    reasons::CAPABILITY_MISSING, "does not serve autoscaling/v2"
)]
#[case::to_none(
    World::service(json!({"scaling": {"s2z": {"maxReplicas": 1}}})), reasons::UNSUPPORTED_SCALING, "scaling.s2z"
)]
#[case::proxy(
    World::new("Proxy", json!({})), reasons::UNSUPPORTED_COMPONENT_TYPE,
    "it runs Service, WebApplication, ScheduledTask, ManualTask"
)]
fn what_cannot_be_done_is_no_fault_of_the_artifact(
    #[case] mut world: World,
    #[case] reason: &str,
    #[case] says: &str,
) {
    world.plane = PlaneParts { cilium: true, ..PlaneParts::default() };
    let [problem] = render(&world.inputs()).unwrap_err().try_into().unwrap();
    assert_eq!((problem.reason, problem.of_artifact), (reason, false));
    assert!(problem.message.contains(says), "{}", problem.message);
}

#[test]
fn all_problems_are_told_at_once_and_those_of_the_artifact_first() {
    let mut world = World::new(
        "Proxy",
        json!({"application": {"env": [env("B", from_group("b", "k")), env("A", from_group("a", "k"))]}}),
    );
    world.artifact.spec.target_artifact = serde_json::from_value(json!({})).unwrap();
    let reasons: Vec<&str> = world.problems().iter().map(|(reason, _)| *reason).collect();
    assert_eq!(
        reasons,
        [
            reasons::CONFIGURATION_GROUP_NOT_FOUND,
            reasons::CONFIGURATION_GROUP_NOT_FOUND,
            reasons::IMAGE_UNKNOWN,
            reasons::UNSUPPORTED_COMPONENT_TYPE,
        ]
    );
}
