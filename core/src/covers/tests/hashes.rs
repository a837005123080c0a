use rstest::rstest;

use super::*;

#[test]
fn the_hash_of_an_intent_is_the_same_in_every_version() {
    let intent = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "labels": null},
        "data": {"a": "1\n\"é\u{1}", "b": ""},
        "list": [1, 2.0, -0.5, null, true, {}],
    });
    assert_eq!(
        canonical::intent(&intent),
        r#"{"apiVersion":"v1","data":{"a":"1\n\"é\u0001","b":""},"kind":"ConfigMap","list":[1,2,-5e-1,null,true,{}],"metadata":{"name":"settings"}}"#
    );
    assert_eq!(intent_hash(&intent), "34a6e903c98e1dd1");
    assert_eq!(intent_hash(&json!({})), "44136fa355b3678a");
}

#[rstest]
#[case::next_to_others(json!({"metadata": {"name": "a", "annotations": {"x": "1"}}, "spec": 1}))]
#[case::alone(json!({"metadata": {"name": "a"}, "spec": 1}))]
#[case::with_empty_annotations(json!({"metadata": {"name": "a", "annotations": {}}, "spec": 1}))]
#[case::without_metadata(json!({"spec": 1}))]
#[case::with_null_annotations(json!({"metadata": {"name": "a", "annotations": null}, "spec": 1}))]
fn the_annotation_of_the_hash_does_not_enter_it(#[case] intent: Value) {
    let mut annotated = intent.clone();
    annotated["metadata"]["annotations"]["openchoreo.dev/intent-hash"] = json!(intent_hash(&intent));
    assert_eq!(intent_hash(&annotated), intent_hash(&intent));
    // The same key elsewhere is a field like all others.
    let mut elsewhere = intent.clone();
    elsewhere["metadata"]["labels"]["openchoreo.dev/intent-hash"] = json!("x");
    assert_ne!(intent_hash(&elsewhere), intent_hash(&intent));
    let mut template = intent.clone();
    template["spec"] = json!({"metadata": {"annotations": {"openchoreo.dev/intent-hash": "x"}}});
    assert_ne!(intent_hash(&template), intent_hash(&json!({"metadata": intent["metadata"], "spec": {}})));
}

#[rstest]
#[case::value(json!({"a": 1}), json!({"a": 2}))]
#[case::type_(json!({"a": 1}), json!({"a": "1"}))]
#[case::key(json!({"a": 1}), json!({"b": 1}))]
#[case::order_of_a_list(json!({"a": [1, 2]}), json!({"a": [2, 1]}))]
#[case::nesting(json!({"a": [[1], 2]}), json!({"a": [[1, 2]]}))]
#[case::null_in_a_list(json!({"a": [null, 1]}), json!({"a": [1]}))]
#[case::empty_map(json!({"a": {}}), json!({}))]
#[case::text_with_quotes(json!({"a": "1\",\"b\":\"2"}), json!({"a": "1", "b": "2"}))]
#[case::spelling_of_a_quantity(json!({"resources": {"limits": {"cpu": "1"}}}), json!({"resources": {"limits": {"cpu": "1000m"}}}))]
fn other_intents_have_other_hashes(#[case] a: Value, #[case] b: Value) {
    assert_ne!(intent_hash(&a), intent_hash(&b));
}

#[rstest]
#[case::null_is_not_set(json!({"a": null, "b": 1}), json!({"b": 1}))]
#[case::numbers(json!({"a": 1.0}), json!({"a": 1}))]
#[case::zero(json!({"a": -0.0}), json!({"a": 0}))]
fn intents_that_mean_the_same_have_the_same_hash(#[case] a: Value, #[case] b: Value) {
    assert_eq!(intent_hash(&a), intent_hash(&b));
}

#[rstest]
#[case::a_value_in_the_place_of_a_map(json!({"a": 5}), json!({"a": {"b": 5}}))]
#[case::an_absent_value(json!({"a": {}}), json!({"a": {"b": 0}}))]
#[case::types(json!({"a": {"b": "2"}}), json!({"a": {"b": 2}}))]
fn objects_that_differ_from_the_intent_in_different_ways_have_different_digests(
    #[case] a: Value,
    #[case] b: Value,
) {
    let intent = json!({"a": {"b": 1}});
    assert_ne!(projection_digest(&a, &intent), projection_digest(&b, &intent));
}

#[rstest]
#[case::extra_fields(json!({"a": [{"b": 2, "x": 1}]}), json!({"a": [{"b": 2, "x": 2}]}), true)]
#[case::fields(json!({"a": [{"b": 2}]}), json!({"a": [{"b": 3}]}), false)]
#[case::more_items(json!({"a": [{"b": 1}, 1]}), json!({"a": [{"b": 1}, 2]}), false)]
#[case::extra_fields_beside_more_items(json!({"a": [{"b": 1, "x": 1}, 1]}), json!({"a": [{"b": 1, "x": 2}, 1]}), true)]
fn a_digest_of_an_object_that_differs_is_about_the_fields_of_the_intent_too(
    #[case] one: Value,
    #[case] two: Value,
    #[case] same: bool,
) {
    let intent = json!({"a": [{"b": 1}]});
    assert_eq!(projection_digest(&one, &intent) == projection_digest(&two, &intent), same);
}

#[test]
fn a_digest_depends_on_the_values_of_the_object() {
    let (one, two) = (json!({"a": 1}), json!({"a": 2}));
    assert_ne!(projection_digest(&one, &one), projection_digest(&two, &two));
}
