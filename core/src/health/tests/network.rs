use super::*;

#[rstest]
#[case::inside(json!({ "type": "ClusterIP", "clusterIP": "10.0.0.1" }), json!({ "loadBalancer": {} }), Healthy, "")]
#[case::name_only(json!({ "type": "ExternalName", "externalName": "db.example.org" }), json!({}), Healthy, "")]
#[case::no_type(json!({}), json!({}), Healthy, "")]
#[case::no_address_yet(json!({ "type": "LoadBalancer" }), json!({ "loadBalancer": {} }), Progressing, "waits for an address")]
#[case::no_addresses(
    json!({ "type": "LoadBalancer" }), json!({ "loadBalancer": { "ingress": [] } }), Progressing, "waits for an address"
)]
#[case::address(
    json!({ "type": "LoadBalancer" }), json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.7" }] } }), Healthy, ""
)]
fn services(#[case] spec: Value, #[case] status: Value, #[case] health: Health, #[case] message: &str) {
    assert_health(&object("v1", "Service", &spec, &status), health, message);
}

#[rstest]
#[case::no_address(json!({ "loadBalancer": {} }))]
#[case::address(json!({ "loadBalancer": { "ingress": [{ "hostname": "lb.example.org" }] } }))]
#[case::no_status(json!({}))]
fn ingresses_are_healthy_when_they_are_there(#[case] status: Value) {
    assert_health(&object("networking.k8s.io/v1", "Ingress", &json!({}), &status), Healthy, "");
}

const GROUP: &str = "gateway.networking.k8s.io/v1";

/// A condition about generation `observed`.
fn seen(observed: i64, kind: &str, status: &str, reason: &str) -> Value {
    let mut condition = condition(kind, status, reason, "details");
    condition["observedGeneration"] = json!(observed);
    condition
}

fn parent(gateway: &str, controller: &str, conditions: &[Value]) -> Value {
    json!({ "parentRef": { "name": gateway }, "controllerName": controller, "conditions": conditions })
}

/// What a gateway says that has taken the Route.
fn taken(gateway: &str) -> Value {
    parent(
        gateway,
        "a",
        &[seen(2, "Accepted", "True", "Accepted"), seen(2, "ResolvedRefs", "True", "ResolvedRefs")],
    )
}

#[rstest]
#[case::nobody(&[], Progressing, "no gateway has accepted it yet")]
#[case::all(&[taken("in"), taken("out")], Healthy, "")]
#[case::references_are_not_told(
    &[taken("in"), parent("out", "a", &[seen(2, "Accepted", "True", "Accepted")])], Healthy, ""
)]
#[case::one_is_missing(&[taken("in")], Progressing, "1 of 2 parents")]
#[case::two_controllers_of_one_parent(
    &[taken("in"), parent("in", "b", &[seen(2, "Accepted", "True", "Accepted")])], Progressing, "1 of 2 parents"
)]
#[case::older_answer(
    &[taken("in"), parent("out", "a", &[seen(1, "Accepted", "True", "Accepted")])], Progressing, "not been observed"
)]
#[case::older_refusal(
    &[taken("in"), parent("out", "a", &[seen(1, "Accepted", "False", "NoMatchingParent")])],
    Progressing, "not been observed"
)]
#[case::refused(
    &[taken("in"), parent("out", "a", &[seen(2, "Accepted", "False", "NotAllowedByListeners")])],
    Degraded, "NotAllowedByListeners: details"
)]
#[case::refused_while_another_is_missing(
    &[parent("out", "a", &[seen(2, "Accepted", "False", "NoMatchingListenerHostname")])],
    Degraded, "NoMatchingListenerHostname"
)]
#[case::backend_is_missing(
    &[taken("in"), parent("out", "a", &[
        seen(2, "Accepted", "True", "Accepted"), seen(2, "ResolvedRefs", "False", "BackendNotFound"),
    ])],
    Degraded, "BackendNotFound: details"
)]
#[case::references_are_not_known(
    &[taken("in"), parent("out", "a", &[
        seen(2, "Accepted", "True", "Accepted"), seen(2, "ResolvedRefs", "Unknown", "Pending"),
    ])],
    Progressing, "Pending: details"
)]
#[case::undecided(
    &[taken("in"), parent("out", "a", &[seen(2, "Accepted", "Unknown", "Pending")])], Progressing, "Pending: details"
)]
#[case::says_nothing(&[taken("in"), parent("out", "a", &[])], Progressing, "has not accepted it yet")]
fn routes(#[case] parents: &[Value], #[case] health: Health, #[case] message: &str) {
    let spec = json!({ "parentRefs": [{ "name": "in" }, { "name": "out" }] });
    for kind in ["HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute"] {
        assert_health(&object(GROUP, kind, &spec, &json!({ "parents": parents })), health, message);
    }
}

#[rstest]
#[case::nobody(json!([]), Progressing, "no controller")]
#[case::default_of_the_definition(
    json!([condition("Accepted", "Unknown", "Pending", "Waiting for controller"),
        condition("Programmed", "Unknown", "Pending", "Waiting for controller")]),
    Progressing, "Waiting for controller"
)]
#[case::refused(
    json!([seen(2, "Accepted", "False", "InvalidParameters"), seen(2, "Programmed", "True", "Programmed")]),
    Degraded, "InvalidParameters: details"
)]
#[case::programmed(
    json!([seen(2, "Accepted", "True", "Accepted"), seen(2, "Programmed", "True", "Programmed")]), Healthy, ""
)]
#[case::no_address(
    json!([seen(2, "Accepted", "True", "Accepted"), seen(2, "Programmed", "False", "AddressNotAssigned")]),
    Progressing, "AddressNotAssigned"
)]
#[case::invalid(
    json!([seen(2, "Accepted", "True", "Accepted"), seen(2, "Programmed", "False", "Invalid")]), Degraded, "Invalid"
)]
#[case::only_accepted(json!([seen(2, "Accepted", "True", "Accepted")]), Progressing, "no controller has programmed")]
#[case::older(
    json!([seen(1, "Accepted", "True", "Accepted"), seen(1, "Programmed", "True", "Programmed")]),
    Progressing, "not been observed"
)]
fn gateways(#[case] conditions: Value, #[case] health: Health, #[case] message: &str) {
    assert_health(
        &object(GROUP, "Gateway", &json!({}), &json!({ "conditions": conditions })),
        health,
        message,
    );
}

#[rstest]
#[case::nobody(json!([]), Progressing, "no controller")]
#[case::undecided(json!([seen(2, "Accepted", "Unknown", "Pending")]), Progressing, "Pending")]
#[case::accepted(json!([seen(2, "Accepted", "True", "Accepted")]), Healthy, "")]
#[case::refused(json!([seen(2, "Accepted", "False", "InvalidParameters")]), Degraded, "InvalidParameters: details")]
#[case::older(json!([seen(1, "Accepted", "True", "Accepted")]), Progressing, "not been observed")]
fn gateway_classes(#[case] conditions: Value, #[case] health: Health, #[case] message: &str) {
    assert_health(
        &object(GROUP, "GatewayClass", &json!({}), &json!({ "conditions": conditions })),
        health,
        message,
    );
}
