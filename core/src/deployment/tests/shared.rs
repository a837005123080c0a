use kantor_api::data_plane::PodSecurity;
use kube_core::ResourceExt as _;
use rstest::rstest;

use super::*;

fn namespace_labels() -> Value {
    json!({
        "organization-name": "test-organization",
        "project-name": "my-project",
        "environment-name": "test-environment",
        "managed-by": "choreo-deployment-controller",
        "belong-to": "user-workloads",
    })
}

fn with_level(level: &str) -> Value {
    let mut labels = namespace_labels();
    labels["pod-security.kubernetes.io/enforce"] = json!(level);
    labels
}

#[rstest]
#[case::of_the_operator(PodSecurity::Privileged, json!({}), with_level("privileged"))]
#[case::of_the_plane(PodSecurity::Privileged, json!({"podSecurity": "restricted"}), with_level("restricted"))]
#[case::the_default_of_the_cluster(PodSecurity::None, json!({}), namespace_labels())]
#[case::the_default_of_this_cluster(PodSecurity::Baseline, json!({"podSecurity": "none"}), namespace_labels())]
fn pods_may_do_what_the_data_plane_says_or_else_the_operator(
    #[case] operator: PodSecurity,
    #[case] plane: Value,
    #[case] expected: Value,
) {
    let mut world = World::service(json!({})).on_plane(plane);
    world.settings.pod_security = operator;
    let [namespace, _] = shared(&world);
    assert_eq!(namespace["metadata"]["labels"], expected);
}

#[test]
fn a_label_does_not_lead_into_the_namespace_of_another_organization() {
    let mut world = World::service(json!({}));
    for labels in [world.project.labels_mut(), world.environment.labels_mut()] {
        labels.insert(kantor_api::labels::ORGANIZATION.to_owned(), "globex".to_owned());
    }
    let [namespace, policy] = shared(&world);
    for object in [&namespace, &policy] {
        assert_eq!(object["metadata"]["labels"]["organization-name"], "test-organization");
    }
    assert_eq!(world.render().namespace, NAMESPACE);
}

fn shared(world: &World) -> [Value; 2] {
    let objects: Vec<Value> =
        world.render().shared.iter().map(|object| serde_json::to_value(object).unwrap()).collect();
    objects.try_into().unwrap()
}

#[test]
fn the_namespace_is_that_of_the_project_in_the_environment() {
    let world = World::service(json!({}));
    let [namespace, _] = shared(&world);
    let expected = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": with_level("baseline")},
    });
    assert_eq!(namespace, expected);
    assert_eq!(world.render().namespace, NAMESPACE);
    assert_eq!(namespace_of(&world.project, &world.environment), NAMESPACE);
}

#[test]
fn with_cilium_the_pods_of_a_namespace_reach_each_other() {
    let [_, policy] = shared(&World::service(json!({})));
    let expected = json!({
        "apiVersion": "cilium.io/v2", "kind": "CiliumNetworkPolicy",
        "metadata": {"name": "default-policy", "namespace": NAMESPACE, "labels": namespace_labels()},
        "spec": {
            "endpointSelector": {},
            "ingress": [{"fromEndpoints": [{}]}],
            "egress": [{"toEndpoints": [{}]}],
        },
    });
    assert_eq!(policy, expected);
}

#[test]
fn without_cilium_a_policy_of_kubernetes_isolates_the_namespace() {
    let mut world = World::service(json!({}));
    world.plane.cilium = false;
    let [_, policy] = shared(&world);
    assert_eq!(policy["apiVersion"], "networking.k8s.io/v1");
    assert_eq!(policy["kind"], "NetworkPolicy");
    assert_eq!(
        policy["metadata"],
        json!({"name": "default-policy", "namespace": NAMESPACE, "labels": namespace_labels()})
    );
    let spec = &policy["spec"];
    assert_eq!(spec["podSelector"], json!({}));
    assert_eq!(spec["policyTypes"], json!(["Ingress", "Egress"]));
    let gateways = "openchoreo-data-plane";
    let gateways = json!({"matchLabels": {"kubernetes.io/metadata.name": gateways}});
    assert_eq!(spec["ingress"], json!([{"from": [{"podSelector": {}}, {"namespaceSelector": gateways}]}]));
    assert_eq!(spec["egress"][0], json!({"to": [{"podSelector": {}}]}));
}

#[test]
fn without_cilium_other_namespaces_and_the_credentials_of_machines_are_out_of_reach() {
    let mut world = World::service(json!({}));
    world.plane.cilium = false;
    let [_, policy] = shared(&world);
    let egress = policy["spec"]["egress"].as_array().unwrap();
    let blocks = egress.iter().flat_map(|rule| {
        let everywhere = rule["ports"].is_null();
        rule["to"].as_array().unwrap().iter().filter(move |to| everywhere && !to["ipBlock"].is_null())
    });
    let closed: BTreeMap<&str, Vec<&str>> = blocks
        .map(|to| {
            let except = to["ipBlock"]["except"].as_array().unwrap();
            (to["ipBlock"]["cidr"].as_str().unwrap(), except.iter().map(|e| e.as_str().unwrap()).collect())
        })
        .collect();
    let v4 = vec!["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16"];
    assert_eq!(closed, BTreeMap::from([("0.0.0.0/0", v4), ("::/0", vec!["fc00::/7", "fe80::/10"])]));
    let dns = egress.iter().find(|rule| !rule["ports"].is_null()).unwrap();
    assert_eq!(dns["ports"], json!([{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]));
}

#[test]
fn gateways_come_from_the_namespace_that_the_data_plane_names() {
    let mut world = World::service(json!({})).on_plane(json!({"gateway": {
        "publicVirtualHost": "apis.example.com", "organizationVirtualHost": "internal.example.com",
        "namespace": "gateways",
    }}));
    world.plane.cilium = false;
    let [_, policy] = shared(&world);
    assert_eq!(
        policy["spec"]["ingress"][0]["from"][1]["namespaceSelector"]["matchLabels"],
        json!({"kubernetes.io/metadata.name": "gateways"})
    );
}
