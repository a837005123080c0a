//! Order that has no meaning.

use proptest::{prelude::*, sample::Index};

use super::*;

/// A service that uses a bit of everything.
fn full() -> World {
    let values = |value: &str| json!([{"environment": "production", "value": "p"}, {"environment": "test-environment", "value": value}]);
    World::new(
        "Service",
        json!({
            "endpointTemplates": [
                template("rest", "REST", 8080), template("web", "HTTP", 80), template("calls", "gRPC", 8080),
            ],
            "application": {
                "args": ["--b", "--a"],
                "env": [
                    {"key": "Z", "value": "z"},
                    {"key": "A", "value": "$(Z)"},
                    {"key": "M", "valueFrom": from_group("redis-config-group", "password")},
                    {"key": "B", "valueFrom": from_secret("extra", "token")},
                ],
                "envFrom": [
                    {"configurationGroupRef": {"name": "redis-config-group"}},
                    {"configurationGroupRef": {"name": "mail"}},
                    {"secretRef": {"name": "extra"}},
                ],
                "fileMounts": [
                    {"mountPath": "/z", "value": "z"},
                    {"mountPath": "/a", "value": "a"},
                    {"mountPath": "/m", "valueFrom": from_group("mysql-config-group", "host")},
                    {"mountPath": "/s", "valueFrom": from_secret("extra", "token")},
                ],
                "fileMountsFrom": [
                    {"configurationGroupRef": {"name": "redis-config-group", "mountPath": "/redis"}},
                    {"secretRef": {"name": "extra", "mountPath": "/extra"}},
                ],
            },
        }),
    )
    .with_databases()
    .with_group(
        "mail",
        json!({
            "environmentGroups": [
                {"name": "tests", "environments": ["staging", "test-environment"]},
                {"name": "others", "environments": ["production"]},
            ],
            "configurations": [
                {"key": "email-host", "values": [
                    {"environmentGroupRef": "tests", "value": "mail"}, {"environmentGroupRef": "others", "value": "m"},
                ]},
                {"key": "retries", "values": values("3")},
                {"key": "client-id", "values": [{"environment": "test-environment", "vaultKey": "a/id"}]},
                {"key": "client-secret", "values": [{"environment": "test-environment", "vaultKey": "a/secret"}]},
            ],
        }),
    )
    .with_secret("extra", &[("token", "1"), ("salt", "2")])
}

/// The same with a part of it left out.
fn some(keep: &[bool]) -> World {
    let mut world = full();
    let mut keep = keep.iter().copied().cycle();
    let mut kept = || keep.next().unwrap_or(true);
    let configuration = world.artifact.spec.configuration.as_mut().unwrap();
    configuration.endpoint_templates.retain(|_| kept());
    let application = configuration.application.as_mut().unwrap();
    application.env.retain(|_| kept());
    application.env_from.retain(|_| kept());
    application.file_mounts.retain(|_| kept());
    application.file_mounts_from.retain(|_| kept());
    world
}

fn shuffle<T>(list: &mut [T], random: &[Index]) {
    for (at, index) in (1..list.len()).rev().zip(random) {
        list.swap(at, index.index(at + 1));
    }
}

/// Puts direct and mapped variables in another order to each other, and keeps the order within each.
fn interleave(env: &mut [kantor_api::application::EnvVar], random: &[Index]) {
    let (mut mapped, mut direct): (Vec<_>, Vec<_>) =
        env.iter().cloned().partition(|variable| variable.value_from.is_some());
    let mut sources: Vec<bool> = env.iter().map(|variable| variable.value_from.is_some()).collect();
    shuffle(&mut sources, random);
    for (place, is_mapped) in env.iter_mut().zip(sources) {
        *place = if is_mapped { mapped.remove(0) } else { direct.remove(0) };
    }
}

fn bytes(rendered: &Rendered) -> String {
    let Rendered { image, namespace, shared, own, workload, bounds, endpoints } = rendered;
    json!([image, namespace, shared, own, workload, bounds, endpoints]).to_string()
}

/// With its ports in one order.
fn with_sorted_ports(mut rendered: Rendered) -> Rendered {
    let by_name = |port: &Value| port["name"].as_str().unwrap().to_owned();
    for object in &mut rendered.own {
        for path in ["/spec/ports", "/spec/template/spec/containers/0/ports"] {
            if let Some(ports) = object.data.pointer_mut(path) {
                ports.as_array_mut().unwrap().sort_by_key(by_name);
            }
        }
    }
    rendered
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_order_of_lists_without_a_meaning_changes_nothing(
        random in proptest::collection::vec(any::<Index>(), 16),
        keep in proptest::collection::vec(proptest::bool::weighted(0.8), 17),
    ) {
        let mut world = some(&keep);
        let configuration = world.artifact.spec.configuration.as_mut().unwrap();
        let application = configuration.application.as_mut().unwrap();
        interleave(&mut application.env, &random);
        shuffle(&mut application.env_from, &random);
        shuffle(&mut application.file_mounts, &random);
        shuffle(&mut application.file_mounts_from, &random);
        for group in world.groups.values_mut() {
            shuffle(&mut group.spec.environment_groups, &random);
            shuffle(&mut group.spec.configurations, &random);
            for entry in &mut group.spec.configurations {
                shuffle(&mut entry.values, &random);
            }
        }
        prop_assert_eq!(bytes(&world.render()), bytes(&some(&keep).render()));
        // Of the templates only the order of the ports is left.
        shuffle(&mut world.artifact.spec.configuration.as_mut().unwrap().endpoint_templates, &random);
        prop_assert_eq!(bytes(&with_sorted_ports(world.render())), bytes(&with_sorted_ports(some(&keep).render())));
    }

    #[test]
    fn the_order_of_problems_does_not_follow_that_of_the_lists(
        random in proptest::collection::vec(any::<Index>(), 16),
        keep in proptest::collection::vec(proptest::bool::weighted(0.8), 17),
    ) {
        let broken = || {
            let mut world = some(&keep);
            // At least one thing has to be missing.
            let from = full().artifact.spec.configuration.unwrap().application.unwrap().env_from;
            world.artifact.spec.configuration.as_mut().unwrap().application.as_mut().unwrap().env_from = from;
            world.groups.clear();
            world.secrets.clear();
            world
        };
        let mut world = broken();
        let application = world.artifact.spec.configuration.as_mut().unwrap().application.as_mut().unwrap();
        shuffle(&mut application.env, &random);
        shuffle(&mut application.env_from, &random);
        shuffle(&mut application.file_mounts, &random);
        shuffle(&mut application.file_mounts_from, &random);
        prop_assert_eq!(world.problems(), broken().problems());
    }
}

#[test]
fn the_order_of_arguments_and_of_variables_is_kept() {
    let (container, _) = full().container();
    assert_eq!(container["args"], json!(["--b", "--a"]));
    let names: Vec<&str> =
        container["env"].as_array().unwrap().iter().map(|env| env["name"].as_str().unwrap()).collect();
    let expected = [
        "Z",
        "A",
        "M",
        "B",
        "CLIENT_ID",
        "CLIENT_SECRET",
        "EMAIL_HOST",
        "HOST",
        "PASSWORD",
        "PORT",
        "RETRIES",
        "SALT",
        "TOKEN",
    ];
    assert_eq!(names, expected);
}
