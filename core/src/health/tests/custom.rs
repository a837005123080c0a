use kantor_api::data_plane::HealthCheck;

use super::*;

fn check(healthy: &str) -> HealthCheck {
    HealthCheck {
        group: "db.example.org".into(),
        kind: "Postgres".into(),
        healthy: healthy.into(),
        ..HealthCheck::default()
    }
}

fn postgres(spec: &Value, status: &Value) -> Value {
    object("db.example.org/v1", "Postgres", spec, status)
}

fn verdict(check: HealthCheck, object: &Value) -> Verdict {
    of(object, &Checks::compile(&[check]))
}

/// What `expression` makes of an object with `status`, as `healthy`.
fn asked(expression: &str, status: &Value) -> Verdict {
    verdict(check(expression), &postgres(&json!({ "replicas": 3, "memory": "512Mi" }), status))
}

#[rstest]
#[case::suspended(&["suspended"], Suspended)]
#[case::degraded(&["degraded"], Degraded)]
#[case::progressing(&["progressing"], Progressing)]
#[case::healthy(&["healthy"], Healthy)]
#[case::suspended_comes_first(&["suspended", "degraded", "progressing", "healthy"], Suspended)]
#[case::then_degraded(&["degraded", "progressing", "healthy"], Degraded)]
#[case::then_progressing(&["progressing", "healthy"], Progressing)]
#[case::none(&[], Progressing)]
fn the_first_expression_that_is_true_decides(#[case] holding: &[&str], #[case] health: Health) {
    let role = |role: &str| Some(format!("'{role}' in status.holding"));
    let all = HealthCheck {
        suspended: role("suspended"),
        degraded: role("degraded"),
        progressing: role("progressing"),
        message: Some("'phase ' + status.phase".into()),
        ..check("'healthy' in status.holding")
    };
    let object = postgres(&json!({}), &json!({ "holding": holding, "phase": "Initial" }));
    assert_verdict(&verdict(all, &object), health, if health == Healthy { "" } else { "phase Initial" });
}

#[test]
fn without_a_message_the_expression_is_named() {
    let all = HealthCheck { degraded: Some("true".into()), ..check("false") };
    assert_verdict(&verdict(all, &postgres(&json!({}), &json!({}))), Degraded, "`degraded`");
    assert_verdict(&asked("false", &json!({})), Progressing, "no expression of the health check is true");
}

#[rstest]
#[case::object("object.kind == 'Postgres' && object.status.ready == 2")]
#[case::metadata("metadata.name == 'shop' && metadata.generation == 2")]
#[case::spec("spec.replicas == 3")]
#[case::status("status.ready == 2")]
#[case::numbers_are_ints("spec.replicas - 1 == status.ready && spec.replicas > -1")]
#[case::fractions("status.load < 0.5")]
#[case::large_numbers("status.large == 18446744073709551615u")]
#[case::null("status.nothing == null")]
#[case::present("has(status.ready) && !has(status.missing)")]
#[case::conditions("status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')")]
#[case::all_of_a_map("metadata.all(key, key != '')")]
#[case::filter("status.conditions.filter(c, c.status == 'True').map(c, c.type) == ['Ready']")]
#[case::nested_loops("status.conditions.all(c, status.conditions.exists_one(d, d.type == c.type))")]
#[case::conditional("has(status.ready) ? status.ready == 2 : false")]
fn expressions_see_the_object_and_its_parts(#[case] expression: &str) {
    let status = json!({
        "ready": 2, "load": 0.25, "large": u64::MAX, "nothing": null,
        "conditions": [
            { "type": "Synced", "status": "False" },
            { "type": "Ready", "status": "True" },
        ],
    });
    assert_verdict(&asked(expression, &status), Healthy, "");
}

#[rstest]
#[case::strings("status.version.lowerAscii().split('-')[0].trim() == 'v1.2.3'")]
#[case::lists("[1, 2, 3].sum() == 6 && [1, 2].isSorted()")]
#[case::range("lists.range(3) == [0, 1, 2]")]
#[case::sets("sets.contains(['a', 'b'], ['a'])")]
#[case::regex("status.version.find('[0-9]+') == '1' && status.version.matches('^V')")]
#[case::quantity("quantity(spec.memory).isLessThan(quantity('1Gi'))")]
#[case::semver("semver('1.2.3').isGreaterThan(semver('1.0.0'))")]
#[case::math("math.greatest(1, spec.replicas) == 3")]
#[case::format("'%d of %s'.format([2, 'x']) == '2 of x'")]
#[case::timestamps("timestamp('2026-02-03T10:00:00Z') > timestamp('2026-02-03T09:00:00Z')")]
fn the_functions_of_kubernetes_are_there(#[case] expression: &str) {
    assert_verdict(&asked(expression, &json!({ "version": "V1.2.3-RC" })), Healthy, "");
}

#[rstest]
#[case::missing_key("status.phase == 'Ready'", "healthy: no such key: phase")]
#[case::index("status.list[7] == 1", "healthy: it cannot be applied")]
#[case::another_type("status.text > 3", "healthy: it cannot be applied")]
#[case::method_of_another_type("status.text.sum() == 3", "healthy: it cannot be applied")]
#[case::overflow("9223372036854775807 + spec.replicas > 0", "healthy: it cannot be applied")]
#[case::division_by_zero("1 / status.zero == 1", "healthy: it cannot be applied")]
#[case::not_a_quantity("quantity(status.text).isLessThan(quantity('1Gi'))", "healthy: it cannot be applied")]
#[case::endless_range("lists.range(9223372036854775807).size() > 0", "healthy: it cannot be applied")]
#[case::bad_regex("status.text.matches('(')", "healthy: it cannot be applied")]
#[case::field_of_a_text("status.text.field", "no expression")]
fn an_expression_that_fails_is_false(#[case] expression: &str, #[case] message: &str) {
    let status = json!({ "text": "x", "list": [], "zero": 0 });
    assert_verdict(&asked(expression, &status), Progressing, message);
}

#[test]
fn the_next_expression_is_asked_when_one_fails() {
    let all = HealthCheck { suspended: Some("spec.suspend".into()), ..check("status.ready") };
    assert_verdict(&verdict(all, &postgres(&json!({}), &json!({ "ready": true }))), Healthy, "");
}

#[rstest]
#[case::missing(json!({ "apiVersion": "db.example.org/v1", "kind": "Postgres" }))]
#[case::of_another_type(
    json!({ "apiVersion": "db.example.org/v1", "kind": "Postgres", "spec": 3, "status": "x", "metadata": [] })
)]
fn an_object_without_parts_has_empty_ones(#[case] object: Value) {
    let none = check("!has(status.ready) && !has(spec.replicas) && !has(metadata.name) && status == {}");
    assert_verdict(&verdict(none, &object), Healthy, "");
    assert_verdict(&verdict(check("status.ready"), &object), Progressing, "no such key: ready");
}

#[rstest]
#[case::syntax("status.ready ==", "line 1")]
#[case::nothing("", "healthy: ")]
#[case::unknown_variable("stats.ready", "stats is not known; there are object, metadata, spec, status")]
#[case::variable_of_a_loop_outside_of_it("[1].exists(x, x == 1) && x == 1", "x is not known")]
#[case::message_type("Foo{bar: 1} == 1", "messages cannot be made here")]
#[case::optional_syntax("status.?ready.orValue(false)", "unsupported syntax '.?'")]
#[case::double_negation("!!has(status.ready)", "negation of a negation")]
#[case::loop_without_a_variable("[1].all(1, true)", "healthy: ")]
fn a_check_that_does_not_compile_makes_its_kind_unknown(#[case] expression: &str, #[case] message: &str) {
    let checks = Checks::compile(&[check(expression)]);
    let verdict = of(&postgres(&json!({}), &json!({})), &checks);
    assert_verdict(&verdict, Unknown, message);
    assert_verdict(&verdict, Unknown, "health check of Postgres cannot be used: healthy: ");
    assert_verdict(&of(&object("v1", "ConfigMap", &json!({}), &json!({})), &checks), Healthy, "");
}

#[test]
fn the_error_names_the_expression_that_does_not_compile() {
    for role in ["suspended", "degraded", "progressing", "message"] {
        let wrong = |this| (role == this).then(|| "(".to_owned());
        let all = HealthCheck {
            suspended: wrong("suspended"),
            degraded: wrong("degraded"),
            progressing: wrong("progressing"),
            message: wrong("message"),
            ..check("true")
        };
        assert_verdict(&verdict(all, &postgres(&json!({}), &json!({}))), Unknown, &format!("used: {role}: "));
    }
}

#[rstest]
#[case::text("'yes'", "healthy: its value is a string, not a bool")]
#[case::number("status.ready", "healthy: its value is a int, not a bool")]
#[case::map("status", "healthy: its value is a map, not a bool")]
#[case::null("null", "healthy: its value is a null, not a bool")]
#[case::opaque("quantity('1Gi')", "healthy: its value is a opaque, not a bool")]
#[case::unknown_function("readyOf(status)", "healthy: readyOf is not known")]
#[case::unknown_method("status.readyOf()", "healthy: readyOf is not known")]
fn an_expression_that_cannot_be_right_makes_the_object_unknown(
    #[case] expression: &str,
    #[case] message: &str,
) {
    assert_verdict(&asked(expression, &json!({ "ready": 2 })), Unknown, message);
}

#[rstest]
#[case::text("'waits\\nfor ' + status.phase", "waits for Initial")]
#[case::fails("status.missing", "no expression of the health check is true")]
#[case::empty("''", "no expression of the health check is true")]
#[case::another_type("status.phase == ''", "message: its value is a bool, not a string")]
#[case::unknown_function("nope()", "message: nope is not known")]
fn the_message_does_not_change_the_health(#[case] expression: &str, #[case] message: &str) {
    let told = HealthCheck { message: Some(expression.into()), ..check("false") };
    assert_verdict(
        &verdict(told, &postgres(&json!({}), &json!({ "phase": "Initial" }))),
        Progressing,
        message,
    );
}

#[test]
fn custom_checks_win_over_what_is_known_of_the_kind() {
    let pods = HealthCheck { kind: "Pod".into(), healthy: "status.phase == 'Failed'".into(), ..check("") };
    let failed = object("v1", "Pod", &json!({}), &json!({ "phase": "Failed" }));
    let core = Checks::compile(&[HealthCheck { group: String::new(), ..pods.clone() }]);
    assert_verdict(&of(&failed, &core), Healthy, "");
    assert_verdict(&of(&failed, &Checks::compile(&[pods])), Degraded, "has failed");
}

#[test]
fn custom_checks_do_not_make_what_is_being_deleted_healthy() {
    let mut going = postgres(&json!({}), &json!({}));
    going["metadata"]["deletionTimestamp"] = json!("2026-02-03T10:00:00Z");
    assert_verdict(&verdict(check("true"), &going), Progressing, "is being deleted");
}

fn joined(operator: &str, operand: &str, times: usize) -> String {
    vec![operand; times].join(operator)
}

#[rstest]
#[case::round("(".repeat(25) + "true" + &")".repeat(25), "brackets are nested deeper than 24")]
#[case::round_and_never_closed("(".repeat(4096), "brackets are nested deeper than 24")]
#[case::lists("[".repeat(2000) + &"]".repeat(2000), "brackets are nested deeper than 24")]
#[case::maps("{1:".repeat(500) + "1" + &"}".repeat(500), "brackets are nested deeper than 24")]
#[case::with_texts("(')' + ".repeat(100) + "1" + &")".repeat(100), "brackets are nested deeper than 24")]
#[case::conditionals("true ? 1 : ".repeat(25) + "1", "more than 24 conditional operators")]
#[case::sums(joined("+", "1", 2048), "nested deeper than 64")]
#[case::comparisons(joined("<", "1", 2048), "nested deeper than 64")]
#[case::members(joined(".", "status", 585), "nested deeper than 64")]
#[case::methods("status".to_owned() + &".size()".repeat(580), "nested deeper than 64")]
#[case::indexes("status".to_owned() + &"[0]".repeat(1300), "nested deeper than 64")]
#[case::loops("[1].all(a, [1].all(b, [1].all(c, [1].all(d, a == d))))".to_owned(), "loops are nested deeper than 3")]
#[case::length(joined("&&", "true", 700), "longer than 4096 characters")]
fn what_is_nested_too_deep_does_not_compile(#[case] expression: String, #[case] message: &str) {
    assert_verdict(&asked(&expression, &json!({})), Unknown, message);
}

#[rstest]
#[case::round("(".repeat(24) + "true" + &")".repeat(24))]
#[case::conjunction(joined("&&", "true", 680))]
#[case::negation("!(".repeat(24) + "true" + &")".repeat(24))]
#[case::conditionals("true ? true : ".repeat(24) + "false")]
#[case::loops("[1].all(a, [1].all(b, [1].all(c, a == c)))".to_owned())]
fn what_is_within_the_limits_is_run(#[case] expression: String) {
    assert_verdict(&asked(&expression, &json!({})), Healthy, "");
}

#[rstest]
#[case::once("status.items.all(i, i.name != '')", 10_000, true)]
#[case::pairs_of_a_few("status.items.all(i, status.items.exists(j, j.name == i.name))", 40, true)]
#[case::pairs_of_many("status.items.all(i, !status.items.exists(j, j.name == 'x' + i.name))", 10_000, false)]
#[case::gathering_a_few("status.items.map(i, i.name).size() > 0", 500, true)]
#[case::gathering_many("status.items.filter(i, true).size() > 0", 10_000, false)]
#[case::an_error_that_is_caught("status.items.filter(i, true).size() > 0 || true", 10_000, false)]
fn long_lists_do_not_take_forever(#[case] expression: &str, #[case] length: usize, #[case] affordable: bool) {
    let items: Vec<Value> = (0..length).map(|i| json!({ "name": format!("item-{i}") })).collect();
    let verdict = asked(expression, &json!({ "items": items }));
    if affordable {
        assert_verdict(&verdict, Healthy, "");
    } else {
        assert_verdict(&verdict, Unknown, "healthy: it takes too long for an object of this size");
    }
}

#[test]
fn checks_can_be_shared_between_tasks() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Checks>();
}
