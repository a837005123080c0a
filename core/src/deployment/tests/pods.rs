use rstest::rstest;

use super::*;

fn template(world: &World, kind: &str) -> Value {
    let object = world.render().one(kind);
    let spec = object["spec"].pointer("/jobTemplate/spec").unwrap_or_else(|| &object["spec"]);
    spec["template"].clone()
}

fn mapped(name: &str, group: &str, key: &str) -> Value {
    json!({"key": name, "valueFrom": from_group(group, key)})
}

fn from_map(name: &str, map: &str, key: &str) -> Value {
    json!({"name": name, "valueFrom": {"configMapKeyRef": {"name": map, "key": key}}})
}

fn from_plane_secret(name: &str, secret: &str, key: &str) -> Value {
    json!({"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}})
}

fn csi(name: &str, class: &str) -> Value {
    json!({"name": name, "csi": {
        "driver": "secrets-store.csi.k8s.io", "readOnly": true,
        "volumeAttributes": {"secretProviderClass": class},
    }})
}

fn map_volume(name: &str, map: &str) -> Value {
    json!({"name": name, "configMap": {"name": map}})
}

fn mount(volume: &str, path: &str, sub_path: &str) -> Value {
    json!({"name": volume, "mountPath": path, "subPath": sub_path})
}

#[test]
fn a_plain_workload_has_the_template_that_it_always_had() {
    // Anything else here restarts the pods of every workload that is taken over.
    let world = World::listening(&[("api", "REST", 8080)]);
    let expected = json!({
        "metadata": {"labels": workload_labels("Service")},
        "spec": {
            "restartPolicy": "Always",
            "containers": [{
                "name": "main", "image": "my-image:latest",
                "ports": [{"name": "ep-8080-tcp", "containerPort": 8080, "protocol": "TCP"}],
            }],
        },
    });
    assert_eq!(template(&world, "Deployment"), expected);
}

#[rstest]
#[case("Service", "Deployment", "Always")]
#[case("WebApplication", "Deployment", "Always")]
#[case("ScheduledTask", "CronJob", "Never")]
#[case("ManualTask", "Job", "Never")]
fn only_tasks_end(#[case] type_: &str, #[case] kind: &str, #[case] policy: &str) {
    let task = json!({"application": {"task": {"schedule": {"cron": "@daily"}}}});
    let world = World::new(type_, if type_ == "ScheduledTask" { task } else { json!({}) });
    assert_eq!(template(&world, kind)["spec"]["restartPolicy"], policy);
}

#[test]
fn a_direct_value_is_the_only_variable() {
    let world = World::service(json!({"env": [{"key": "LOG_FORMAT", "value": "json"}]}));
    assert_eq!(world.container().0["env"], json!([{"name": "LOG_FORMAT", "value": "json"}]));
}

#[test]
fn a_variable_without_a_value_is_empty() {
    let world = World::service(json!({"env": [{"key": "A"}, {"key": "B", "value": ""}]}));
    assert_eq!(world.container().0["env"], json!([{"name": "A", "value": ""}, {"name": "B", "value": ""}]));
}

#[test]
fn mapped_variables_refer_to_the_objects_of_their_groups() {
    let variables = |prefix: &str, group: &str| {
        ["host", "port", "password"]
            .map(|key| mapped(&format!("{prefix}_{}", key.to_uppercase()), group, key))
    };
    let all = [variables("REDIS", "redis-config-group"), variables("MYSQL", "mysql-config-group")].concat();
    let (container, volumes) = World::service(json!({"env": all})).with_databases().container();
    assert_eq!(
        container["env"],
        json!([
            from_map("REDIS_HOST", REDIS, "host"),
            from_map("REDIS_PORT", REDIS, "port"),
            from_plane_secret("REDIS_PASSWORD", REDIS, "password"),
            from_map("MYSQL_HOST", MYSQL, "host"),
            from_map("MYSQL_PORT", MYSQL, "port"),
            from_plane_secret("MYSQL_PASSWORD", MYSQL, "password"),
        ])
    );
    // Mounted so that the driver makes the Secrets that the variables refer to.
    let (mysql, redis) = ("mysql-config-group-csi-env", "redis-config-group-csi-env-8c381b83");
    assert_eq!(volumes[1], csi(redis, REDIS));
    assert!(volumes[0]["name"].as_str().unwrap().starts_with(mysql));
    assert_eq!(
        container["volumeMounts"][1],
        json!({"name": redis, "mountPath": "/mnt/secrets-store/redis-config-group"})
    );
    assert_eq!((volumes.len(), container["volumeMounts"].as_array().unwrap().len()), (2, 2));
}

#[test]
fn variables_come_direct_first_then_mapped_then_from_whole_sources() {
    let world = World::service(json!({
        "env": [
            mapped("Z_MAPPED", "redis-config-group", "host"),
            {"key": "Z_DIRECT", "value": "1"},
            {"key": "TOKEN", "valueFrom": from_secret("extra", "token")},
            {"key": "A_DIRECT", "value": "$(Z_DIRECT)"},
        ],
        "envFrom": [
            {"secretRef": {"name": "extra"}}, {"configurationGroupRef": {"name": "redis-config-group"}},
        ],
    }))
    .with_databases()
    .with_secret("extra", &[("token", "1"), ("email-host", "2")]);
    let names: Vec<String> = world.container().0["env"]
        .as_array()
        .unwrap()
        .iter()
        .map(|env| env["name"].as_str().unwrap().to_owned())
        .collect();
    // TOKEN is given one by one, which goes before the same name from a whole source.
    let expected = ["Z_DIRECT", "A_DIRECT", "Z_MAPPED", "TOKEN", "EMAIL_HOST", "HOST", "PASSWORD", "PORT"];
    assert_eq!(names, expected);
}

#[test]
fn variables_from_a_whole_group_are_its_keys_and_no_others() {
    let world =
        World::service(json!({"envFrom": [{"configurationGroupRef": {"name": "redis-config-group"}}]}));
    assert_eq!(
        world.with_databases().container().0["env"],
        json!([
            from_map("HOST", REDIS, "host"),
            from_plane_secret("PASSWORD", REDIS, "password"),
            from_map("PORT", REDIS, "port"),
        ])
    );
}

#[test]
fn keys_without_a_value_for_the_environment_are_left_out_of_whole_sources() {
    let values = |environment: &str| json!([{"environment": environment, "value": "x"}]);
    let world = World::service(json!({
        "envFrom": [{"configurationGroupRef": {"name": "group"}}],
        "fileMountsFrom": [{"configurationGroupRef": {"name": "group", "mountPath": "/etc"}}],
    }))
    .with_group(
        "group",
        json!({"configurations": [
            {"key": "here", "values": values("test-environment")}, {"key": "there", "values": values("production")},
        ]}),
    );
    let (container, _) = world.container();
    assert_eq!(container["env"].as_array().unwrap().len(), 1);
    assert_eq!(container["volumeMounts"].as_array().unwrap().len(), 1);
    assert_eq!(world.render().one("ConfigMap")["data"], json!({"here": "x"}));
}

#[test]
fn an_inline_file_is_mounted_from_its_own_config_map() {
    let world = World::service(json!({"fileMounts": [{"mountPath": "/app/config.json", "value": "{}"}]}));
    let (container, volumes) = world.container();
    let map = "my-component-my-main-track-filemount-4ea60343-a80bc9b2";
    assert_eq!(volumes, [map_volume("filemount-4ea60343", map)]);
    assert_eq!(
        container["volumeMounts"],
        json!([mount("filemount-4ea60343", "/app/config.json", "content")])
    );
}

#[test]
fn mapped_files_share_the_volumes_of_their_groups() {
    let files = |group: &str| {
        ["host", "port", "password"].map(|key| {
            let group_name = format!("{group}-config-group");
            json!({"mountPath": format!("/config/{group}/{key}"), "valueFrom": from_group(&group_name, key)})
        })
    };
    let all = [files("redis"), files("mysql")].concat();
    let world = World::service(json!({"fileMounts": all}));
    let (container, volumes) = world.with_databases().container();
    let names = [
        ("mysql-config-group-cm-6e0397eb", "mysql-config-group-csi-c00642f6"),
        ("redis-config-group-cm-2551b38a", "redis-config-group-csi-5fdf4f87"),
    ];
    let [(mysql, mysql_secret), (redis, redis_secret)] = names;
    assert_eq!(
        volumes,
        [
            map_volume(mysql, MYSQL),
            csi(mysql_secret, MYSQL),
            map_volume(redis, REDIS),
            csi(redis_secret, REDIS)
        ]
    );
    assert_eq!(
        container["volumeMounts"],
        json!([
            mount(mysql, "/config/mysql/host", "host"),
            mount(mysql_secret, "/config/mysql/password", "password"),
            mount(mysql, "/config/mysql/port", "port"),
            mount(redis, "/config/redis/host", "host"),
            mount(redis_secret, "/config/redis/password", "password"),
            mount(redis, "/config/redis/port", "port"),
        ])
    );
}

#[test]
fn files_from_a_whole_group_are_its_keys_in_a_folder() {
    let from = json!([{"configurationGroupRef": {"name": "redis-config-group", "mountPath": "/config/"}}]);
    let (container, volumes) = World::service(json!({"fileMountsFrom": from})).with_databases().container();
    let (plain, secret) = ("redis-config-group-cm-2551b38a", "redis-config-group-csi-5fdf4f87");
    assert_eq!(volumes, [map_volume(plain, REDIS), csi(secret, REDIS)]);
    assert_eq!(
        container["volumeMounts"],
        json!([
            mount(plain, "/config/host", "host"),
            mount(secret, "/config/password", "password"),
            mount(plain, "/config/port", "port"),
        ])
    );
}

#[test]
fn values_of_secrets_become_variables_and_files() {
    let world = World::service(json!({
        "env": [{"key": "PASSWORD", "valueFrom": from_secret("database", "password")}],
        "fileMounts": [{"mountPath": "/etc/password", "valueFrom": from_secret("database", "password")}],
        "fileMountsFrom": [{"secretRef": {"name": "database", "mountPath": "/etc/all"}}],
    }))
    .with_secret("database", &[("password", "hunter2")]);
    let secret = world.render().one("Secret")["metadata"]["name"].as_str().unwrap().to_owned();
    let (container, volumes) = world.container();
    assert_eq!(container["env"], json!([from_plane_secret("PASSWORD", &secret, "password")]));
    let [volume] = volumes.as_slice() else { panic!("{volumes:?}") };
    assert_eq!(volume["secret"], json!({"secretName": secret}));
    let name = volume["name"].as_str().unwrap();
    assert_eq!(
        container["volumeMounts"],
        json!([mount(name, "/etc/all/password", "password"), mount(name, "/etc/password", "password")])
    );
}

#[test]
fn arguments_limits_probes_and_pull_secret_reach_the_container() {
    let world = World::service(json!({
        "args": ["--b", "--a", "--b"],
        "resourceLimits": {"cpu": "500m"},
        "probes": {
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 5},
            "livenessProbe": {"tcpSocket": {"port": "ep-8080-tcp"}},
        },
    }))
    .on_plane(json!({"registry": {"prefix": "registry.example.com", "secretRef": "pull"}}));
    let template = template(&world, "Deployment");
    assert_eq!(template["spec"]["imagePullSecrets"], json!([{"name": "pull"}]));
    let container = &template["spec"]["containers"][0];
    assert_eq!(container["args"], json!(["--b", "--a", "--b"]));
    assert_eq!(container["resources"], json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "500m"}}));
    assert_eq!(
        container["readinessProbe"],
        json!({"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 5})
    );
    assert_eq!(container["livenessProbe"], json!({"tcpSocket": {"port": "ep-8080-tcp"}}));
}

#[rstest]
#[case::one(&[("a", "HTTP", 8080)], &["ep-8080-tcp"])]
#[case::two_endpoints_on_one_port(&[("a", "REST", 8080), ("b", "REST", 8080)], &["ep-8080-tcp"])]
#[case::two_protocols_on_one_port(&[("a", "TCP", 8080), ("b", "UDP", 8080)], &["ep-8080-tcp", "ep-8080-udp"])]
#[case::three_ports(
    &[("a", "REST", 9090), ("b", "GraphQL", 8080), ("c", "gRPC", 50051)],
    &["ep-9090-tcp", "ep-8080-tcp", "ep-50051-tcp"]
)]
fn ports_are_those_of_the_endpoints_in_their_order(
    #[case] endpoints: &[(&str, &str, i32)],
    #[case] expected: &[&str],
) {
    let world = World::listening(endpoints);
    let names = |ports: &Value| -> Vec<String> {
        ports.as_array().unwrap().iter().map(|port| port["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&world.container().0["ports"]), expected);
    assert_eq!(names(&world.render().one("Service")["spec"]["ports"]), expected);
}

fn checksum(world: &World) -> Option<String> {
    let template = template(world, "Deployment");
    let annotations = template["metadata"]["annotations"].as_object()?;
    assert_eq!(annotations.len(), 1);
    annotations["openchoreo.dev/configuration-checksum"].as_str().map(ToOwned::to_owned)
}

fn redis_host() -> World {
    World::service(json!({"env": [{"key": "HOST", "valueFrom": from_group("redis-config-group", "host")}]}))
        .with_databases()
}

/// With another value, for the environment, of a key of the group of Redis.
fn changed(mut world: World, key: &str, field: &str) -> World {
    let group = world.groups.get_mut("redis-config-group").unwrap();
    let entry = group.spec.configurations.iter_mut().find(|entry| entry.key == key).unwrap();
    let value =
        entry.values.iter_mut().find(|value| value.environment.as_deref() == Some("test-environment"));
    let changed = Some("changed".to_owned());
    match field {
        "vaultKey" => value.unwrap().vault_key = changed,
        _ => value.unwrap().value = changed,
    }
    world
}

#[test]
fn pods_are_made_anew_when_a_value_that_they_see_changes_and_only_then() {
    let before = checksum(&redis_host());
    // It is stored in every pod template: whatever changes it restarts every pod that sees a value.
    assert_eq!(before.as_deref(), Some("c5ce2a2b5ce25c5f"));
    assert_ne!(checksum(&changed(redis_host(), "host", "value")), before);
    assert_eq!(checksum(&changed(redis_host(), "port", "value")), before);
    assert_eq!(checksum(&World::service(json!({"env": [{"key": "A", "value": "a"}]}))), None);
}

#[test]
fn the_checksum_covers_secrets_inline_files_and_places_in_the_vault() {
    let secret = |value: &str| {
        World::service(json!({"envFrom": [{"secretRef": {"name": "s"}}]})).with_secret("s", &[("key", value)])
    };
    assert_ne!(checksum(&secret("a")), checksum(&secret("b")));
    let file = |content: &str| World::service(json!({"fileMounts": [{"mountPath": "/a", "value": content}]}));
    assert_ne!(checksum(&file("a")), checksum(&file("b")));
    let vault = || {
        let from = from_group("redis-config-group", "password");
        World::service(json!({"env": [{"key": "P", "valueFrom": from}]})).with_databases()
    };
    assert_ne!(checksum(&vault()), checksum(&changed(vault(), "password", "vaultKey")));
    let elsewhere = vault().on_plane(json!({"vault": {"address": "https://v.example.com", "roleName": "r"}}));
    assert_ne!(checksum(&vault()), checksum(&elsewhere));
}

#[test]
fn a_task_that_ran_is_not_another_one_because_a_value_changed() {
    let task = |host: &str| {
        let mut world = World::new(
            "ManualTask",
            json!({"application": {
                "fileMounts": [{"mountPath": "/etc/host", "value": host}],
            }}),
        );
        world.plane.cilium = false;
        world
    };
    assert_eq!(template(&task("a"), "Job"), template(&task("b"), "Job"));
}
