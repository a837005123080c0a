use rstest::rstest;
use serde_json::json;

use super::*;
use crate::settings::Reach;

/// The gateway that the routes hang on.
fn ours() -> (String, String) {
    ("gateway".to_owned(), "gateways".to_owned())
}

fn object(kind: &str, name: &str, rest: &Value) -> DynamicObject {
    let mut value = json!({"apiVersion": "example.com/v1", "kind": kind,
        "metadata": {"name": name, "namespace": "home", "generation": 2}});
    value.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    serde_json::from_value(value).unwrap()
}

fn condition(type_: &str, status: &str, generation: i64) -> Value {
    json!({"type": type_, "status": status, "reason": "Because", "message": "it is so", "observedGeneration": generation})
}

/// What a gateway says in one entry of a status.
#[expect(clippy::needless_pass_by_value, reason = "json! makes values")]
fn entry(reference: &str, gateway: Value, conditions: Value) -> Value {
    json!({reference: gateway, "conditions": conditions})
}

#[expect(clippy::needless_pass_by_value, reason = "json! makes values")]
fn policy_with(entries: Value) -> DynamicObject {
    object("SecurityPolicy", "guard", &json!({"status": {"ancestors": entries}}))
}

/// A policy of which our gateway says this.
fn policy(conditions: Value) -> DynamicObject {
    policy_with(json!([entry(
        "ancestorRef",
        json!({"name": "gateway", "namespace": "gateways"}),
        conditions
    )]))
}

fn accepted_policy() -> DynamicObject {
    policy(json!([condition("Accepted", "True", 2)]))
}

fn pending_policy() -> DynamicObject {
    object("SecurityPolicy", "guard", &json!({}))
}

fn refused_policy() -> DynamicObject {
    policy(json!([condition("Accepted", "False", 2)]))
}

/// A route, open or closed, of which our gateway says this.
fn route(open: bool, conditions: Value) -> DynamicObject {
    let rules = if open { json!([{"backendRefs": [{"name": "cart"}]}]) } else { json!([{"matches": []}]) };
    let said = entry("parentRef", json!({"name": "gateway", "namespace": "gateways"}), conditions);
    object("HTTPRoute", "way", &json!({"spec": {"rules": rules}, "status": {"parents": [said]}}))
}

fn accepted_route(open: bool) -> DynamicObject {
    route(open, json!([condition("Accepted", "True", 2), condition("ResolvedRefs", "True", 2)]))
}

fn wanted(guards: usize) -> GuardedRoute {
    let guard = |_| object("SecurityPolicy", "guard", &json!({}));
    GuardedRoute {
        reach: Reach::Public,
        gateway: ours(),
        route: object("HTTPRoute", "way", &json!({"spec": {"rules": [{"backendRefs": [{"name": "cart"}]}]}})),
        guards: (0..guards).map(guard).collect(),
    }
}

const REFUSED: &str = "Because: it is so";

fn refused() -> Verdict {
    Verdict::Refused(REFUSED.to_owned())
}

#[rstest]
#[case::said_of_it_as_it_is(json!([condition("Accepted", "True", 2)]), Verdict::Accepted)]
#[case::said_of_it_as_it_will_be(json!([condition("Accepted", "True", 3)]), Verdict::Accepted)]
#[case::said_of_it_as_it_was(json!([condition("Accepted", "True", 1)]), Verdict::Pending)]
#[case::refused_as_it_was(json!([condition("Accepted", "False", 1)]), Verdict::Pending)]
#[case::said_of_no_generation(json!([{"type": "Accepted", "status": "True"}]), Verdict::Pending)]
#[case::refused(json!([condition("Accepted", "False", 2)]), refused())]
#[case::not_decided(json!([condition("Accepted", "Unknown", 2)]), Verdict::Pending)]
#[case::without_a_status(json!([{"type": "Accepted", "observedGeneration": 2}]), Verdict::Pending)]
#[case::something_else_is_said(json!([condition("Programmed", "True", 2)]), Verdict::Pending)]
#[case::nothing_is_said(json!([]), Verdict::Pending)]
#[case::no_list(json!(null), Verdict::Pending)]
fn a_policy_is_in_force_when_its_gateway_has_accepted_it_as_it_is(
    #[case] conditions: Value,
    #[case] expected: Verdict,
) {
    assert_eq!(is_accepted_by(&policy(conditions), &ours()), expected);
}

#[rstest]
#[case::our_own(json!({"name": "gateway", "namespace": "gateways"}), "gateways", Verdict::Accepted)]
#[case::another_name(json!({"name": "other", "namespace": "gateways"}), "gateways", Verdict::Pending)]
#[case::another_namespace(json!({"name": "gateway", "namespace": "theirs"}), "gateways", Verdict::Pending)]
#[case::no_namespace_is_that_of_the_object(json!({"name": "gateway"}), "gateways", Verdict::Pending)]
#[case::no_namespace_is_that_of_the_object(json!({"name": "gateway"}), "home", Verdict::Accepted)]
#[case::no_name(json!({"namespace": "gateways"}), "gateways", Verdict::Pending)]
#[case::nothing(json!(null), "gateways", Verdict::Pending)]
fn only_the_word_of_the_gateway_that_the_route_hangs_on_counts(
    #[case] said_by: Value,
    #[case] namespace: &str,
    #[case] expected: Verdict,
) {
    let policy =
        policy_with(json!([entry("ancestorRef", said_by, json!([condition("Accepted", "True", 2)]))]));
    assert_eq!(is_accepted_by(&policy, &("gateway".to_owned(), namespace.to_owned())), expected);
}

#[rstest]
#[case::they_refuse("False", "True", Verdict::Accepted)]
#[case::they_accept("True", "False", refused())]
#[case::they_accept_and_we_have_not("True", "Unknown", Verdict::Pending)]
fn what_another_gateway_says_neither_opens_nor_closes(
    #[case] theirs: &str,
    #[case] own: &str,
    #[case] expected: Verdict,
) {
    let said = |name: &str, status: &str| {
        let gateway = json!({"name": name, "namespace": "gateways"});
        entry("ancestorRef", gateway, json!([condition("Accepted", status, 2)]))
    };
    for entries in [
        json!([said("other", theirs), said("gateway", own)]),
        json!([said("gateway", own), said("other", theirs)]),
    ] {
        assert_eq!(is_accepted_by(&policy_with(entries), &ours()), expected);
    }
}

/// A gateway has an entry for each of its listeners that a route asks for.
#[rstest]
#[case("True", "True", Verdict::Accepted)]
#[case("True", "Unknown", Verdict::Pending)]
#[case("Unknown", "True", Verdict::Pending)]
#[case("True", "False", refused())]
#[case("False", "True", refused())]
fn all_entries_of_our_gateway_have_to_agree(
    #[case] first: &str,
    #[case] second: &str,
    #[case] expected: Verdict,
) {
    let said = |section: &str, status: &str| {
        let gateway = json!({"name": "gateway", "namespace": "gateways", "sectionName": section});
        entry("ancestorRef", gateway, json!([condition("Accepted", status, 2)]))
    };
    let policy = policy_with(json!([said("http", first), said("https", second)]));
    assert_eq!(is_accepted_by(&policy, &ours()), expected);
}

#[test]
fn a_filter_has_no_status_and_is_in_force_when_it_is_there() {
    assert_eq!(is_accepted_by(&object("HTTPRouteFilter", "guard", &json!({})), &ours()), Verdict::Accepted);
}

#[rstest]
#[case::both(json!([condition("Accepted", "True", 2), condition("ResolvedRefs", "True", 2)]), Verdict::Accepted)]
#[case::in_any_order(json!([condition("ResolvedRefs", "True", 2), condition("Accepted", "True", 2)]), Verdict::Accepted)]
#[case::no_word_of_what_it_refers_to(json!([condition("Accepted", "True", 2)]), Verdict::Pending)]
#[case::no_word_of_itself(json!([condition("ResolvedRefs", "True", 2)]), Verdict::Pending)]
#[case::what_it_refers_to_is_not_there(json!([condition("Accepted", "True", 2), condition("ResolvedRefs", "False", 2)]), refused())]
#[case::refused(json!([condition("Accepted", "False", 2), condition("ResolvedRefs", "True", 2)]), refused())]
#[case::resolved_as_it_was(json!([condition("Accepted", "True", 2), condition("ResolvedRefs", "True", 1)]), Verdict::Pending)]
#[case::accepted_as_it_was(json!([condition("Accepted", "True", 1), condition("ResolvedRefs", "True", 2)]), Verdict::Pending)]
fn a_route_is_in_force_when_it_is_accepted_and_all_that_it_refers_to_was_found(
    #[case] conditions: Value,
    #[case] expected: Verdict,
) {
    assert_eq!(route_verdict(&route(true, conditions), &ours()), expected);
}

/// Of three guards, with what is said of each.
#[rstest]
#[case::all([Verdict::Accepted, Verdict::Accepted, Verdict::Accepted], Verdict::Accepted)]
#[case::not_the_first([Verdict::Pending, Verdict::Accepted, Verdict::Accepted], Verdict::Pending)]
#[case::not_the_second([Verdict::Accepted, Verdict::Pending, Verdict::Accepted], Verdict::Pending)]
#[case::not_the_last([Verdict::Accepted, Verdict::Accepted, Verdict::Pending], Verdict::Pending)]
#[case::the_last_is_refused([Verdict::Accepted, Verdict::Accepted, refused()], refused())]
#[case::refused_and_pending([Verdict::Pending, Verdict::Accepted, refused()], refused())]
#[case::refused_and_pending([refused(), Verdict::Pending, Verdict::Accepted], refused())]
fn a_route_is_guarded_when_each_of_its_guards_is_in_force(
    #[case] said: [Verdict; 3],
    #[case] expected: Verdict,
) {
    let wanted = wanted(3);
    let live = said.map(|said| match said {
        Verdict::Accepted => accepted_policy(),
        Verdict::Pending => pending_policy(),
        Verdict::Refused(_) => refused_policy(),
    });
    for open in [None, Some(accepted_route(false)), Some(accepted_route(true))] {
        let seen = Seen { wanted: &wanted, route: open.as_ref(), guards: live.iter().map(Some).collect() };
        assert_eq!(seen.guarded(), expected);
        // What is open stays so: its guards are changed in place.
        let stays = open.as_ref().is_some_and(is_open);
        assert_eq!(seen.may_open(), stays || expected == Verdict::Accepted);
    }
}

#[test]
fn a_guard_that_is_not_there_is_not_in_force() {
    let (wanted, accepted) = (wanted(2), accepted_policy());
    for guards in [vec![None, Some(&accepted)], vec![Some(&accepted), None], vec![None, None]] {
        let seen = Seen { wanted: &wanted, route: None, guards };
        assert_eq!(seen.guarded(), Verdict::Pending);
        assert!(!seen.may_open());
    }
}

#[test]
fn a_route_that_needs_no_guard_may_be_open_from_the_start() {
    let wanted = wanted(0);
    assert!(Seen { wanted: &wanted, route: None, guards: vec![] }.may_open());
}

#[test]
fn the_worst_is_told_first_and_a_route_that_is_closed_is_not_ready() {
    let reason = |seen: &[Seen<'_>]| assess(seen).map(|(reason, _, stalled)| (reason, stalled));
    let wanted = wanted(1);
    let (good, pending, bad) = (accepted_policy(), pending_policy(), refused_policy());
    let (open, closed) = (accepted_route(true), accepted_route(false));
    let unseen = route(true, json!([]));
    let no = route(true, json!([condition("Accepted", "False", 2)]));
    let of = |route, guard| Seen { wanted: &wanted, route, guards: vec![guard] };
    let table: [(Seen<'_>, Option<(&str, bool)>); 9] = [
        (of(Some(&open), Some(&good)), None),
        (of(Some(&closed), Some(&good)), Some((reasons::ROUTE_PENDING, false))),
        (of(Some(&unseen), Some(&good)), Some((reasons::ROUTE_PENDING, false))),
        (of(None, Some(&good)), Some((reasons::ROUTE_PENDING, false))),
        (of(Some(&open), Some(&pending)), Some((reasons::POLICY_PENDING, false))),
        (of(Some(&open), None), Some((reasons::POLICY_PENDING, false))),
        (of(Some(&open), Some(&bad)), Some((reasons::POLICY_NOT_ACCEPTED, true))),
        (of(Some(&no), Some(&good)), Some((reasons::ROUTE_NOT_ACCEPTED, true))),
        (of(Some(&no), Some(&pending)), Some((reasons::ROUTE_NOT_ACCEPTED, true))),
    ];
    for (seen, expected) in table {
        assert_eq!(reason(std::slice::from_ref(&seen)), expected);
        // A route that is well says nothing for one that is not, whatever their order.
        assert_eq!(reason(&[of(Some(&open), Some(&good)), seen]), expected);
    }
    let refused = || of(Some(&no), Some(&good));
    let waiting = || of(None, Some(&pending));
    for both in [[refused(), waiting()], [waiting(), refused()]] {
        assert_eq!(reason(&both), Some((reasons::ROUTE_NOT_ACCEPTED, true)));
    }
    let (_, message, _) = assess(&[refused()]).unwrap();
    assert_eq!(message, format!("gateway gateway does not accept HTTPRoute way: {REFUSED}"));
}

#[rstest]
#[case::leads_somewhere(json!([{"backendRefs": [{"name": "cart"}]}]), true)]
#[case::one_rule_does(json!([{"matches": []}, {"backendRefs": [{"name": "cart"}]}]), true)]
#[case::leads_nowhere(json!([{"backendRefs": []}]), false)]
#[case::closed(json!([{"matches": []}]), false)]
#[case::no_rules(json!(null), false)]
fn a_route_is_open_when_requests_get_any_further(#[case] rules: Value, #[case] expected: bool) {
    assert_eq!(is_open(&object("HTTPRoute", "way", &json!({"spec": {"rules": rules}}))), expected);
}

#[rstest]
#[case::tls_before_plain_text(json!([{"protocol": "HTTP", "port": 80}, {"protocol": "HTTPS", "port": 443}]), Some(("https", None)))]
#[case::passed_through(json!([{"protocol": "HTTP", "port": 80}, {"protocol": "TLS", "port": 8443}]), Some(("https", Some(8443))))]
#[case::plain_text(json!([{"protocol": "HTTP", "port": 80}]), Some(("http", None)))]
#[case::another_port(json!([{"protocol": "HTTP", "port": 8080}]), Some(("http", Some(8080))))]
#[case::for_this_host(json!([{"protocol": "HTTPS", "hostname": "shop.example", "port": 443}]), Some(("https", None)))]
#[case::for_another_host(json!([{"protocol": "HTTPS", "hostname": "other.example", "port": 443}]), None)]
#[case::another_host_before_it(json!([{"protocol": "HTTPS", "hostname": "other.example", "port": 1}, {"protocol": "HTTP", "hostname": "", "port": 2}]), Some(("http", Some(2))))]
#[case::for_its_domain(json!([{"protocol": "HTTPS", "hostname": "*.example", "port": 443}]), Some(("https", None)))]
#[case::for_another_domain(json!([{"protocol": "HTTPS", "hostname": "*.org", "port": 443}]), None)]
#[case::something_else(json!([{"protocol": "UDP", "port": 53}]), None)]
fn a_host_is_listened_for_with_tls_where_there_is_any(
    #[case] listeners: Value,
    #[case] expected: Option<(&'static str, Option<u64>)>,
) {
    let gateway = object("Gateway", "gateway", &json!({"spec": {"listeners": listeners}}));
    let expected = expected.map(|(scheme, port)| Listener { scheme, port });
    assert_eq!(listener(&gateway, "shop.example"), expected);
}

#[rstest]
#[case::open_and_accepted(true, json!([condition("Accepted", "True", 2)]), true)]
#[case::accepted_as_it_was(true, json!([condition("Accepted", "True", 1)]), true)]
#[case::accepted_beside_something_else(
    true, json!([condition("ResolvedRefs", "False", 2), condition("Accepted", "True", 2)]), true
)]
#[case::closed(false, json!([condition("Accepted", "True", 2)]), false)]
#[case::refused(true, json!([condition("Accepted", "False", 2)]), false)]
#[case::only_its_references_are_good(true, json!([condition("ResolvedRefs", "True", 2)]), false)]
#[case::not_looked_at(true, json!([]), false)]
fn whoever_comes_is_let_in_by_an_open_route_that_a_gateway_has_accepted(
    #[case] open: bool,
    #[case] conditions: Value,
    #[case] expected: bool,
) {
    assert_eq!(is_let_in(&route(open, conditions)), expected);
}

#[test]
fn a_port_is_written_where_it_is_not_the_usual_one() {
    assert_eq!(Listener::default().port_text(), "");
    assert_eq!(Listener { port: Some(8443), ..Listener::default() }.port_text(), ":8443");
}
