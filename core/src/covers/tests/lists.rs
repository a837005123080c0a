use rstest::rstest;

use super::*;

#[rstest]
#[case("containers", json!({"name": "a", "image": "1"}), json!({"name": "b"}), "[name=a].image")]
#[case("initContainers", json!({"name": "a", "image": "1"}), json!({"name": "b"}), "[name=a].image")]
#[case("ephemeralContainers", json!({"name": "a", "image": "1"}), json!({"name": "b"}), "[name=a].image")]
#[case("volumes", json!({"name": "a", "image": "1"}), json!({"name": "b"}), "[name=a].image")]
#[case("imagePullSecrets", json!({"name": "a", "image": "1"}), json!({"name": "b"}), "[name=a].image")]
#[case("resourceClaims", json!({"name": "a", "image": "1"}), json!({"name": "b"}), "[name=a].image")]
#[case("schedulingGates", json!({"name": "a", "image": "1"}), json!({"name": "b"}), "[name=a].image")]
#[case("hostAliases", json!({"ip": "1.1.1.1", "image": "1"}), json!({"ip": "::"}), "[ip=1.1.1.1].image")]
#[case(
    "topologySpreadConstraints",
    json!({"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "image": "1"}),
    json!({"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}),
    "[topologyKey=zone,whenUnsatisfiable=DoNotSchedule].image"
)]
fn lists_of_a_pod_are_merged_by_key(
    #[case] list: &str,
    #[case] wanted: Value,
    #[case] other: Value,
    #[case] path: &str,
) {
    check_keyed(
        &|items| pods(&json!({ list: items })),
        &wanted,
        &other,
        &format!("spec.template.spec.{list}{path}"),
    );
}

#[rstest]
#[case("env", json!({"name": "A", "image": "1"}), json!({"name": "B"}), "[name=A].image")]
#[case("volumeMounts", json!({"mountPath": "/a", "image": "1"}), json!({"mountPath": "/b"}), "[mountPath=/a].image")]
#[case("volumeDevices", json!({"devicePath": "/a", "image": "1"}), json!({"devicePath": "/b"}), "[devicePath=/a].image")]
#[case(
    "ports",
    json!({"containerPort": 80, "image": "1"}),
    json!({"containerPort": 80, "protocol": "UDP"}),
    "[containerPort=80,protocol=TCP].image"
)]
fn lists_of_a_container_are_merged_by_key(
    #[case] list: &str,
    #[case] wanted: Value,
    #[case] other: Value,
    #[case] path: &str,
) {
    let path = format!("spec.template.spec.containers[name=app].{list}{path}");
    check_keyed(&|items| container(&json!({ list: items })), &wanted, &other, &path);
}

#[test]
fn lists_of_other_kinds_are_merged_by_key() {
    let wanted = json!({"name": "a", "image": "1"});
    let other = json!({"name": "b"});
    let gateway =
        |items| object("gateway.networking.k8s.io/v1", "Gateway", &json!({"spec": {"listeners": items}}));
    check_keyed(&gateway, &wanted, &other, "spec.listeners[name=a].image");
    let account = |items| object("v1", "ServiceAccount", &json!({"secrets": items}));
    check_keyed(&account, &wanted, &other, "secrets[name=a].image");
    let webhooks = |items| object("admissionregistration.k8s.io/v1", "X", &json!({"webhooks": items}));
    check_keyed(&webhooks, &wanted, &other, "webhooks[name=a].image");
    let matching = |items| json!({"webhooks": [{"name": "w", "matchConditions": items}]});
    check_keyed(&matching, &wanted, &other, "webhooks[name=w].matchConditions[name=a].image");
    let claims = |items| container(&json!({"resources": {"claims": items}}));
    let path = "spec.template.spec.containers[name=app].resources.claims[name=a].image";
    check_keyed(&claims, &wanted, &other, path);
    let service = |items| object("v1", "Service", &json!({"spec": {"ports": items}}));
    let wanted = json!({"port": 80, "image": "1"});
    check_keyed(
        &service,
        &wanted,
        &json!({"port": 80, "protocol": "SCTP"}),
        "spec.ports[port=80,protocol=TCP].image",
    );
    let owned = |items| json!({"metadata": {"ownerReferences": items}});
    let wanted = json!({"uid": "u1", "image": "1"});
    check_keyed(&owned, &wanted, &json!({"uid": "u2"}), "metadata.ownerReferences[uid=u1].image");
    let conditions = |items| json!({"spec": {"conditions": items}});
    let wanted = json!({"type": "Ready", "image": "1"});
    check_keyed(&conditions, &wanted, &json!({"type": "X"}), "spec.conditions[type=Ready].image");
}

/// `wanted` has a field `image`, and `other` has other keys.
#[track_caller]
fn check_keyed(list: &dyn Fn(Value) -> Value, wanted: &Value, other: &Value, path: &str) {
    let intent = list(json!([wanted]));
    let item = path.strip_suffix(".image").unwrap();
    assert_difference(&list(json!([wanted, other])), &intent, None);
    assert_difference(&list(json!([other, wanted])), &intent, None);
    assert_difference(&list(json!([other])), &intent, Some(item));
    assert_difference(&list(json!([])), &intent, Some(item));
    assert_difference(&list(json!(null)), &intent, Some(item));
    // None is wanted, and items of others are theirs.
    assert_difference(&list(json!([other])), &list(json!([])), None);
    let mut changed = wanted.clone();
    changed["image"] = json!("2");
    assert_difference(&list(json!([other, changed])), &intent, Some(path));
    assert_difference(&list(json!([wanted, changed])), &intent, Some(item));
    // An intent with an item twice is no list that could be merged.
    let twice = list(json!([wanted, wanted]));
    assert_difference(&twice, &twice, None);
    assert!(!covers(&list(json!([wanted, wanted, other])), &twice));
}

#[test]
fn extra_containers_of_a_sidecar_injector_are_not_drift() {
    let intent = pods(&json!({
        "containers": [{"name": "app", "image": "app:1", "ports": [{"containerPort": 80}]}],
        "initContainers": [],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }));
    let live = pods(&json!({
        "containers": [
            {"name": "istio-proxy", "image": "proxy:1"},
            {
                "name": "app", "image": "app:1", "imagePullPolicy": "IfNotPresent",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "volumeMounts": [{"name": "token", "mountPath": "/token"}],
                "env": [{"name": "INJECTED", "value": "1"}],
            },
        ],
        "initContainers": [{"name": "istio-init", "image": "init:1"}],
        "volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "token", "projected": {}}],
        "restartPolicy": "Always",
    }));
    assert_difference(&live, &intent, None);
}

#[rstest]
#[case::of_the_intent(json!({"containerPort": 80}), json!({"containerPort": 80, "protocol": "TCP"}))]
#[case::of_the_live_object(json!({"containerPort": 80, "protocol": "TCP"}), json!({"containerPort": 80}))]
fn the_default_of_a_key_is_the_key(#[case] live: Value, #[case] intent: Value) {
    let ports = |port| container(&json!({"ports": [port]}));
    assert_difference(&ports(live), &ports(intent), None);
}

#[rstest]
#[case::in_order(json!(["a", "b"]), None)]
#[case::others(json!(["x", "b", "a"]), None)]
#[case::one_is_missing(json!(["x", "a"]), Some("metadata.finalizers[1]"))]
#[case::all_are_missing(json!(null), Some("metadata.finalizers[0]"))]
fn finalizers_are_a_set(#[case] live: Value, #[case] path: Option<&str>) {
    let meta = |finalizers| json!({"metadata": {"finalizers": finalizers}});
    assert_difference(&meta(live), &meta(json!(["a", "b"])), path);
}

#[rstest]
#[case::an_extra_item(json!([{"a": 1}, {"a": 2}, {"a": 3}]), Some("spec.rules"))]
#[case::an_item_less(json!([{"a": 1}]), Some("spec.rules"))]
#[case::no_list(json!(null), Some("spec.rules"))]
#[case::another_order(json!([{"a": 2}, {"a": 1}]), Some("spec.rules[0].a"))]
#[case::a_change(json!([{"a": 1}, {"a": 3}]), Some("spec.rules[1].a"))]
#[case::defaults_in_items(json!([{"a": 1, "b": 1}, {"a": 2, "c": {}}]), None)]
fn other_lists_are_one_value(#[case] live: Value, #[case] path: Option<&str>) {
    let intent = json!({"spec": {"rules": [{"a": 1}, {"a": 2}]}});
    assert_difference(&json!({"spec": {"rules": live}}), &intent, path);
}

/// Lists that are one value although their names or items look like those of others.
#[rstest]
#[case::subjects(object("rbac.authorization.k8s.io/v1", "RoleBinding", &json!({"subjects": [{"name": "a"}]})), "/subjects")]
#[case::policy_ports(
    object("networking.k8s.io/v1", "NetworkPolicy", &json!({"spec": {"ingress": [{"ports": [{"port": 80, "protocol": "TCP"}]}]}})),
    "/spec/ingress/0/ports"
)]
#[case::ports_of_a_service_of_another_api(
    object("serving.knative.dev/v1", "Service", &json!({"spec": {"ports": [{"port": 80}]}})),
    "/spec/ports"
)]
#[case::pull_secrets_of_an_account(
    object("v1", "ServiceAccount", &json!({"imagePullSecrets": [{"name": "a"}]})),
    "/imagePullSecrets"
)]
#[case::items_without_keys(json!({"spec": {"containers": [{"id": "a"}]}}), "/spec/containers")]
#[case::items_that_are_texts(json!({"spec": {"volumes": ["a"]}}), "/spec/volumes")]
#[case::keys_that_are_no_scalars(json!({"spec": {"env": [{"name": {"a": 1}}]}}), "/spec/env")]
#[case::keys_that_are_empty(json!({"spec": {"env": [{"name": ""}]}}), "/spec/env")]
#[case::in_a_list_that_is_one_value(
    json!({"spec": {"pods": [{"containers": [{"name": "a"}]}]}}),
    "/spec/pods/0/containers"
)]
#[case::finalizers_of_a_namespace(json!({"spec": {"finalizers": ["kubernetes"]}}), "/spec/finalizers")]
#[case::command(container(&json!({"command": ["a"]})), "/spec/template/spec/containers/0/command")]
#[case::tolerations(pods(&json!({"tolerations": [{"key": "a"}]})), "/spec/template/spec/tolerations")]
#[case::parents(
    object("gateway.networking.k8s.io/v1", "HTTPRoute", &json!({"spec": {"parentRefs": [{"name": "a"}]}})),
    "/spec/parentRefs"
)]
fn a_foreign_item_in_a_list_that_is_one_value_is_drift(#[case] intent: Value, #[case] list: &str) {
    let mut live = intent.clone();
    let items = live.pointer_mut(list).and_then(Value::as_array_mut).unwrap();
    items.push(json!({"name": "foreign", "port": 81}));
    assert_difference(&intent, &intent, None);
    assert!(!covers(&live, &intent));
    // Nor is an empty one covered.
    let mut empty = intent.clone();
    *empty.pointer_mut(list).unwrap() = json!([]);
    assert!(!covers(&live, &empty));
}

#[test]
fn a_key_that_somebody_adds_to_a_selector_is_drift() {
    let service =
        |selector: Value| json!({"apiVersion": "v1", "kind": "Service", "spec": {"selector": selector}});
    let wanted = service(json!({"app": "cart"}));
    assert!(covers(&service(json!({"app": "cart"})), &wanted));
    let narrowed = service(json!({"app": "cart", "version": "2"}));
    assert_eq!(first_difference(&narrowed, &wanted).as_deref(), Some("spec.selector.version"));

    let policy = |selector: Value| json!({"kind": "NetworkPolicy", "spec": {"podSelector": selector}});
    let everyone = policy(json!({}));
    assert!(covers(&policy(json!({"matchLabels": {}})), &everyone));
    assert!(!covers(&policy(json!({"matchLabels": {"app": "cart"}})), &everyone));
    assert!(!covers(&policy(json!({"matchExpressions": [{"key": "a"}]})), &everyone));
}
