mod hashes;
mod lists;
mod properties;
mod quantities;

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

/// A Deployment whose pod spec is this.
fn pods(spec: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"spec": spec}}})
}

fn container(fields: &Value) -> Value {
    let mut container = json!({"name": "app"});
    container.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    pods(&json!({"containers": [container]}))
}

/// An object of another kind.
fn object(api_version: &str, kind: &str, fields: &Value) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind});
    object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    object
}

#[track_caller]
fn assert_difference(live: &Value, intent: &Value, path: Option<&str>) {
    assert_eq!(first_difference(live, intent).as_deref(), path);
    assert_eq!(covers(live, intent), path.is_none());
    // A digest is that of a covering object exactly if the object covers the intent.
    assert_eq!(projection_digest(live, intent) == projection_digest(intent, intent), path.is_none());
}

#[rstest]
#[case::the_same(json!({"spec": {"a": 1}}), json!({"spec": {"a": 1}}), None)]
#[case::more_keys(json!({"spec": {"a": 1, "b": 2}, "x": {}}), json!({"spec": {"a": 1}}), None)]
#[case::another_value(json!({"spec": {"a": 2}}), json!({"spec": {"a": 1}}), Some("spec.a"))]
#[case::a_missing_key(json!({"spec": {}}), json!({"spec": {"a": 1}}), Some("spec.a"))]
#[case::a_missing_map(json!({}), json!({"spec": {"a": {"b": 1}}}), Some("spec.a.b"))]
#[case::null_is_not_set(json!({"spec": {"a": 1}}), json!({"spec": {"a": null}}), None)]
#[case::null_is_nothing(json!({"spec": {"a": null}}), json!({"spec": {"a": 1}}), Some("spec.a"))]
#[case::no_intent(json!({"spec": 1}), json!(null), None)]
#[case::a_map_that_is_a_value(json!({"spec": {"a": 1}}), json!({"spec": {"a": {"b": 1}}}), Some("spec.a"))]
#[case::a_value_that_is_a_map(json!({"spec": {"a": {"b": 1}}}), json!({"spec": {"a": 1}}), Some("spec.a"))]
#[case::a_list_that_is_a_map(json!({"spec": {"a": {}}}), json!({"spec": {"a": [1]}}), Some("spec.a"))]
#[case::no_object(json!(1), json!({"a": 1}), Some("."))]
fn maps_are_compared_by_the_keys_of_the_intent(
    #[case] live: Value,
    #[case] intent: Value,
    #[case] path: Option<&str>,
) {
    assert_difference(&live, &intent, path);
}

#[rstest]
#[case::map(json!({}))]
#[case::list(json!([]))]
#[case::text(json!(""))]
#[case::no(json!(false))]
#[case::zero(json!(0))]
#[case::zero_with_a_point(json!(0.0))]
fn an_empty_value_may_be_left_out(#[case] empty: Value) {
    let intent = json!({"spec": {"a": empty}});
    assert_difference(&json!({"spec": {}}), &intent, None);
    assert_difference(&json!({"spec": {"a": null}}), &intent, None);
    assert_difference(&json!({}), &intent, None);
    for other in [json!("x"), json!(true), json!(1), json!([1])] {
        assert_difference(&json!({"spec": {"a": other}}), &intent, Some("spec.a"));
    }
}

#[rstest]
#[case::replicas(json!({"replicas": 1}), json!({"replicas": 0}), Some("replicas"))]
#[case::an_empty_map(json!({"emptyDir": {"medium": "Memory"}}), json!({"emptyDir": {}}), None)]
#[case::an_empty_list(json!({"args": ["-v"]}), json!({"args": []}), Some("args"))]
#[case::emptiness_of_another_type(json!({"a": ""}), json!({"a": false}), Some("a"))]
#[case::a_map_of_empty_values(json!({}), json!({"resources": {"limits": {}, "x": ""}}), None)]
#[case::a_list_of_empty_values(json!({}), json!({"ingress": [{}]}), Some("ingress"))]
#[case::a_value(json!({}), json!({"a": true}), Some("a"))]
fn an_empty_value_is_no_other_value(#[case] live: Value, #[case] intent: Value, #[case] path: Option<&str>) {
    assert_difference(&live, &intent, path);
}

#[rstest]
#[case::whole(json!(1), json!(1.0), true)]
#[case::whole_backwards(json!(1.0), json!(1), true)]
#[case::fraction(json!(1.5), json!(1), false)]
#[case::no_text(json!("1"), json!(1), false)]
#[case::no_number(json!(1), json!("1"), false)]
#[case::beyond_floats(json!(9_007_199_254_740_993_i64), json!(9_007_199_254_740_992_i64), false)]
#[case::beyond_floats_with_a_point(json!(9_007_199_254_740_993_i64), json!(9_007_199_254_740_992.0), false)]
#[case::largest(json!(u64::MAX), json!(u64::MAX), true)]
#[case::negative(json!(-1), json!(-1.0), true)]
fn numbers_are_compared_by_value(#[case] live: Value, #[case] intent: Value, #[case] same: bool) {
    assert_eq!(covers(&json!({"a": live}), &json!({"a": intent})), same);
}

#[rstest]
#[case::status(json!({"status": {"a": 1}}))]
#[case::string_data(json!({"stringData": {"password": "x"}}))]
#[case::resource_version(json!({"metadata": {"resourceVersion": "1"}}))]
#[case::uid(json!({"metadata": {"uid": "1"}}))]
#[case::creation(json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}))]
#[case::generation(json!({"metadata": {"generation": 3}}))]
#[case::managed_fields(json!({"metadata": {"managedFields": [{"manager": "x"}]}}))]
#[case::self_link(json!({"metadata": {"selfLink": "/x"}}))]
fn what_only_the_server_sets_is_not_compared(#[case] intent: Value) {
    assert_difference(&json!({"metadata": {"uid": "2"}, "status": {"a": 2}}), &intent, None);
    // Further down these are fields like all others.
    let deeper = json!({"spec": intent});
    assert!(!covers(&json!({"spec": {}}), &deeper));
}

#[rstest]
#[case(json!({"metadata": {"annotations": {"a.b/c": "x"}}}), r#"metadata.annotations["a.b/c"]"#)]
#[case(json!({"data": {"line\nbreak": "x"}}), r#"data["line\nbreak"]"#)]
#[case(json!({"": "x"}), r#"[""]"#)]
#[case(json!({"spec": {"env": [{"name": "a]\u{7}b", "value": "x"}]}}), "spec.env[0]")]
#[case(json!({"spec": {"env": [{"name": "A", "value": "x"}]}}), "spec.env[name=A]")]
fn a_path_is_readable_and_has_no_values(#[case] intent: Value, #[case] path: &str) {
    assert_eq!(first_difference(&json!({}), &intent).as_deref(), Some(path));
}

#[test]
fn the_kind_is_known_from_the_live_object_if_the_intent_does_not_say() {
    let service =
        json!({"kind": "Service", "apiVersion": "v1", "spec": {"ports": [{"port": 1}, {"port": 2}]}});
    assert!(covers(&service, &json!({"spec": {"ports": [{"port": 2}]}})));
}

fn nested(depth: usize, leaf: Value) -> Value {
    (0..depth).fold(leaf, |inner, level| {
        if level % 2 == 0 {
            Value::Object(std::iter::once(("a".to_owned(), inner)).collect())
        } else {
            Value::Array(vec![inner])
        }
    })
}

#[rstest]
#[case::as_deep_as_parsers_go(127)]
#[case::around_the_limit(DEEPEST)]
#[case::deeper(DEEPEST + 1)]
#[case::far_deeper(100_000)]
fn depth_is_no_danger(#[case] depth: usize) {
    let (intent, same, other) = (nested(depth, json!(1)), nested(depth, json!(1)), nested(depth, json!(2)));
    assert!(covers(&same, &intent));
    assert!(!covers(&other, &intent));
    assert_eq!(projection_digest(&same, &intent), projection_digest(&intent, &intent));
    assert_ne!(projection_digest(&other, &intent), projection_digest(&intent, &intent));
    assert_ne!(intent_hash(&other), intent_hash(&intent));
    // Dropping a value takes a stack frame for each level.
    std::mem::forget((intent, same, other));
}
