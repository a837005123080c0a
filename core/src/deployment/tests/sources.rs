use kantor_api::{conditions::reasons, labels};

use super::*;

/// Namespace of the objects.
const ORGANIZATION: &str = "test-organization";

fn both_databases() -> World {
    World::service(json!({"envFrom": [
        {"configurationGroupRef": {"name": "redis-config-group"}},
    ], "env": [{"key": "MYSQL_HOST", "valueFrom": from_group("mysql-config-group", "host")}]}))
    .with_databases()
}

fn salesforce() -> World {
    World::service(json!({"envFrom": [{"configurationGroupRef": {"name": "salesforce-config-group"}}]}))
        .with_group(
            "salesforce-config-group",
            json!({
                "environmentGroups": [{"name": "non-production", "environments": ["test-environment", "staging"]}],
                "configurations": [
                    {"key": "host", "values": [
                        {"environmentGroupRef": "non-production", "value": "sandbox.salesforce.com"},
                        {"environment": "production", "value": "salesforce.com"},
                    ]},
                    {"key": "client-secret", "values": [
                        {"environmentGroupRef": "non-production", "vaultKey": "secret/non-prod/salesforce/client"},
                    ]},
                ],
            }),
        )
}

#[test]
fn a_used_group_is_a_config_map_of_all_its_plain_values() {
    let rendered = both_databases().render();
    let expected = |name: &str, data: Value| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": own_labels("Service")},
            "data": data,
        })
    };
    let redis = expected(REDIS, json!({"host": "redis-dev.test.com", "port": "6379"}));
    let mysql = expected(MYSQL, json!({"host": "mysql-dev.test.com", "port": "3306"}));
    assert_eq!(
        rendered.of_kind("ConfigMap"),
        BTreeMap::from([(REDIS.to_owned(), redis), (MYSQL.to_owned(), mysql)])
    );
}

#[test]
fn a_used_group_is_a_provider_class_of_all_its_secret_values() {
    let classes = both_databases().render().of_kind("SecretProviderClass");
    assert_eq!(classes.len(), 2);
    for (name, database) in [(REDIS, "redis"), (MYSQL, "mysql")] {
        let objects = format!(
            "- objectName: password\n  secretPath: secret/test/{database}/password\n  secretKey: value\n"
        );
        let expected = json!({
            "apiVersion": "secrets-store.csi.x-k8s.io/v1", "kind": "SecretProviderClass",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": own_labels("Service")},
            "spec": {
                "provider": "vault",
                "parameters": {
                    "vaultAddress": "http://hashicorp-vault:8200",
                    "roleName": "openchoreo-secret-reader-role",
                    "objects": objects,
                },
                "secretObjects": [{
                    "secretName": name, "type": "Opaque", "labels": workload_labels("Service"),
                    "data": [{"objectName": "password", "key": "password"}],
                }],
            },
        });
        assert_eq!(classes[name], expected);
    }
}

#[test]
fn values_of_a_set_of_environments_are_picked() {
    let rendered = salesforce().render();
    assert_eq!(rendered.one("ConfigMap")["data"], json!({"host": "sandbox.salesforce.com"}));
    let class = rendered.one("SecretProviderClass");
    assert_eq!(
        class["spec"]["parameters"]["objects"],
        "- objectName: client-secret\n  secretPath: secret/non-prod/salesforce/client\n  secretKey: value\n"
    );
    assert_eq!(
        class["spec"]["secretObjects"][0]["secretName"],
        "my-component-my-main-track-salesforce-config-group-02c7b6b2"
    );
}

#[test]
fn a_data_plane_may_have_a_vault_of_its_own() {
    let world = both_databases()
        .on_plane(json!({"vault": {"address": "https://vault.example.com", "roleName": "reader"}}));
    for class in world.render().of_kind("SecretProviderClass").values() {
        assert_eq!(class["spec"]["parameters"]["vaultAddress"], "https://vault.example.com");
        assert_eq!(class["spec"]["parameters"]["roleName"], "reader");
    }
}

#[test]
fn secret_values_that_are_not_used_need_no_driver() {
    let world = World::service(
        json!({"env": [{"key": "HOST", "valueFrom": from_group("redis-config-group", "host")}]}),
    );
    let mut world = world.with_databases();
    world.plane.secrets_store = false;
    let rendered = world.render();
    assert!(rendered.of_kind("SecretProviderClass").is_empty());
    assert_eq!(rendered.of_kind("ConfigMap").len(), 1);
}

#[test]
fn an_inline_file_is_a_config_map_also_without_any_group() {
    let rendered =
        World::service(json!({"fileMounts": [{"mountPath": "/app/config.json", "value": "{}"}]})).render();
    let map = rendered.one("ConfigMap");
    assert_eq!(map["metadata"]["name"], "my-component-my-main-track-filemount-4ea60343-a80bc9b2");
    assert_eq!(map["data"], json!({"content": "{}"}));
}

#[test]
fn only_the_keys_of_a_secret_that_are_used_go_to_the_data_plane() {
    let values = [("user", "ann"), ("password", "hunter2"), ("unused", "x")];
    let env = |key: &str| json!({"key": key, "valueFrom": from_secret("database", key)});
    let world = World::service(json!({
        "env": [env("password")],
        "fileMounts": [{"mountPath": "/etc/user", "valueFrom": from_secret("database", "user")}],
    }));
    let rendered = world.with_secret("database", &values).render();
    let secret = rendered.one("Secret");
    assert_eq!(secret["type"], "Opaque");
    assert_eq!(secret["data"], json!({"user": "YW5u", "password": "aHVudGVyMg=="}));
    assert_eq!(secret["metadata"]["labels"], own_labels("Service"));
}

#[test]
fn all_keys_of_a_secret_go_to_the_data_plane_where_all_are_asked_for() {
    for application in [
        json!({"envFrom": [{"secretRef": {"name": "extra"}}]}),
        json!({"fileMountsFrom": [{"secretRef": {"name": "extra", "mountPath": "/etc/extra"}}]}),
    ] {
        let world = World::service(application).with_secret("extra", &[("a", "1"), ("b", "2")]);
        assert_eq!(world.render().one("Secret")["data"], json!({"a": "MQ==", "b": "Mg=="}));
    }
}

#[test]
fn a_secret_and_a_group_of_one_name_have_objects_of_different_names() {
    let world = World::service(json!({"envFrom": [
        {"configurationGroupRef": {"name": "redis-config-group"}},
        {"secretRef": {"name": "redis-config-group"}},
    ]}));
    let rendered = world.with_databases().with_secret("redis-config-group", &[("token", "1")]).render();
    // The driver makes a Secret of the class's name.
    assert_ne!(
        rendered.one("Secret")["metadata"]["name"],
        rendered.one("SecretProviderClass")["metadata"]["name"]
    );
}

#[test]
fn what_is_used_is_told_from_artifact_and_overrides() {
    let world = World::service(json!({
        "env": [
            {"key": "A", "valueFrom": from_group("one", "k")}, {"key": "B", "valueFrom": from_secret("s-one", "k")},
            {"key": "C", "valueFrom": from_group("replaced", "k")},
        ],
        "envFrom": [{"configurationGroupRef": {"name": "two"}}, {"secretRef": {"name": "s-two"}}],
        "fileMounts": [
            {"mountPath": "/a", "valueFrom": from_group("three", "k")},
            {"mountPath": "/b", "valueFrom": from_secret("s-three", "k")},
        ],
        "fileMountsFrom": [{"configurationGroupRef": {"name": "four", "mountPath": "/c"}}],
    }))
    .overridden(json!({"application": {
        "env": [{"key": "C", "value": "c"}],
        "fileMountsFrom": [{"secretRef": {"name": "s-four", "mountPath": "/d"}}],
    }}));
    let names =
        |names: &[&str]| -> BTreeSet<String> { names.iter().map(|name| (*name).to_owned()).collect() };
    let World { artifact, deployment, .. } = &world;
    assert_eq!(groups_used(artifact, deployment), names(&["one", "two", "three", "four"]));
    assert_eq!(secrets_used(artifact, deployment), names(&["s-one", "s-two", "s-three", "s-four"]));
}

#[test]
fn no_secret_value_is_in_debug_output_or_in_a_message() {
    let mut world = World::service(json!({"envFrom": [{"secretRef": {"name": "extra"}}]}))
        .with_secret("extra", &[("key", "hunter2")]);
    let hidden = |text: String| !text.contains("hunter2") && !text.contains("aHVudGVyMg");
    let bytes = format!("{:?}", b"hunter2");
    let inputs = format!("{:?}", world.inputs());
    assert!(hidden(inputs.clone()) && !inputs.contains(&bytes));
    assert!(hidden(format!("{:?}", world.render())));
    world.artifact.spec.configuration = serde_json::from_value(json!({"application": {
        "env": [{"key": "A", "valueFrom": from_secret("extra", "other")}],
    }}))
    .unwrap();
    assert!(hidden(format!("{:?}", render(&world.inputs()).unwrap_err())));
}

/// A service that reads the password at `path` of a vault.
fn vaulted(path: &str) -> World {
    let group = json!({"configurations": [
        {"key": "host", "values": [{"environment": "test-environment", "value": "db"}]},
        {"key": "password", "values": [{"environment": "test-environment", "vaultKey": path}]},
    ]});
    let mut world = World::service(json!({"envFrom": [{"configurationGroupRef": {"name": "db"}}]}))
        .with_group("db", group);
    world.settings = Settings::default();
    world
}

#[test]
fn a_vault_path_outside_the_part_of_the_organization_is_a_problem() {
    let own = format!("secret/data/{ORGANIZATION}/db");
    assert_eq!(vaulted(&own).render().of_kind("SecretProviderClass").len(), 1);
    for path in [
        "secret/data/globex/db",
        "secret/test/redis/password",
        &format!("secret/data/{ORGANIZATION}/../globex/db"),
    ] {
        let problems = vaulted(path).problems();
        assert_eq!(problems.len(), 1, "{path}: {problems:?}");
        let (reason, message) = &problems[0];
        assert_eq!(*reason, reasons::VAULT_PATH_NOT_ALLOWED);
        assert!(message.contains(&format!("below secret/data/{ORGANIZATION}/")), "{message}");
    }
}

#[test]
fn a_vault_path_that_is_not_used_itself_is_looked_at_since_the_driver_reads_it() {
    let mut world = vaulted("secret/data/globex/db");
    world.artifact.spec.configuration = serde_json::from_value(json!({"application": {
        "env": [{"key": "HOST", "valueFrom": from_group("db", "host")}],
    }}))
    .unwrap();
    assert_eq!(world.problems()[0].0, reasons::VAULT_PATH_NOT_ALLOWED);
}

#[test]
fn a_data_plane_or_the_operator_says_what_vault_paths_begin_with() {
    let vault = |prefix: &str| json!({"vault": {"address": "https://vault.example.com", "roleName": "r", "pathPrefix": prefix}});
    let own = format!("kv/{ORGANIZATION}/db");
    assert_eq!(vaulted(&own).problems().len(), 1);
    vaulted(&own).on_plane(vault("kv/{organization}/")).render();
    // The data plane's word goes before the operator's, and nothing is no word.
    let mut world = vaulted(&own).on_plane(vault("kv/other/"));
    world.settings.vault_path_prefix = String::new();
    assert_eq!(world.problems().len(), 1);
    world.on_plane(vault("")).render();
}

#[test]
fn the_label_of_a_project_does_not_lead_into_the_vault_of_another_organization() {
    let mut world = vaulted("secret/data/globex/db");
    for labels in [world.project.labels_mut(), world.deployment.labels_mut()] {
        labels.insert(labels::ORGANIZATION.to_owned(), "globex".to_owned());
    }
    assert_eq!(world.problems()[0].0, reasons::VAULT_PATH_NOT_ALLOWED);
}
