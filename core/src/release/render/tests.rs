use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

/// Stands for a value that nobody may get to read.
const CANARY: &str = "8675309";

fn release(resources: &[(&str, Value)]) -> Release {
    let resource =
        |(id, object): &(&str, Value)| ReleaseResource { id: (*id).into(), object: object.clone() };
    let mut release = Release::default();
    release.metadata.name = Some("shop-v1".into());
    release.metadata.namespace = Some("acme".into());
    release.metadata.uid = Some("release-uid".into());
    release.spec.environment_name = "dev".into();
    release.spec.owner.project_name = "store".into();
    release.spec.resources = resources.iter().map(resource).collect();
    release
}

/// The only object of a Release.
fn one(id: &str, object: Value) -> Rendered {
    render(&release(&[(id, object)])).unwrap().remove(0)
}

/// What is wrong with the only object of a Release.
fn wrong(object: Value) -> String {
    let [problem] = render(&release(&[("it", object)])).unwrap_err().try_into().unwrap();
    assert_eq!(problem.id, "it");
    problem.message
}

fn settings() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "app", "name": "settings"},
        "data": {"colour": "blue"},
    })
}

fn with(mut object: Value, path: &str, value: Value) -> Value {
    let (parent, key) = path.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    if value.is_null() {
        parent.remove(key)
    } else {
        parent.insert(key.into(), value)
    };
    object
}

fn workload(api_version: &str, kind: &str, place: &str) -> Value {
    let (namespace, name) = place.split_once('/').unwrap();
    json!({
        "apiVersion": api_version, "kind": kind, "metadata": {"namespace": namespace, "name": name},
        "spec": {"replicas": 3, "paused": true},
    })
}

fn autoscaler(api_version: &str, kind: &str, target: &Value) -> Value {
    let metadata = json!({"namespace": "app", "name": "scaler"});
    json!({
        "apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": {"scaleTargetRef": target},
    })
}

#[test]
fn labels_tell_whose_an_object_is_whatever_the_manifest_claims() {
    let own = [
        ("openchoreo.dev/managed-by", "release-controller"),
        ("openchoreo.dev/release-resource-id", "it"),
        ("openchoreo.dev/release-uid", "release-uid"),
        ("openchoreo.dev/release-name", "shop-v1"),
        ("openchoreo.dev/release-namespace", "acme"),
    ];
    let mut claimed: BTreeMap<&str, &str> = own.iter().map(|(key, _)| (*key, "another")).collect();
    claimed.extend([("app", "shop"), ("openchoreo.dev/owner-uid", "another")]);
    let rendered = one("it", with(settings(), "/metadata/labels", json!(claimed)));
    let mut expected: BTreeMap<String, String> = own.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    expected.insert("app".into(), "shop".into());
    assert_eq!(*rendered.wanted.object.labels(), expected);
    assert_eq!(rendered.wanted.intent()["metadata"]["labels"], json!(expected));
}

#[rstest]
#[case::annotations("annotations", json!({"note": "mine"}))]
#[case::owner("ownerReferences", json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]))]
#[case::finalizers("finalizers", json!(["example.com/wait"]))]
fn metadata_that_users_may_set_is_kept(#[case] field: &str, #[case] value: Value) {
    let rendered = one("it", with(settings(), &format!("/metadata/{field}"), value.clone()));
    assert_eq!(rendered.wanted.intent()["metadata"][field], value);
    assert_eq!(rendered.wanted.intent()["data"], json!({"colour": "blue"}));
}

#[rstest]
#[case::status("/status", json!({"phase": "Done"}))]
#[case::uid("/metadata/uid", json!("u"))]
#[case::resource_version("/metadata/resourceVersion", json!("7"))]
#[case::generation("/metadata/generation", json!(7))]
#[case::managed_fields("/metadata/managedFields", json!([{"manager": "kubectl"}]))]
#[case::creation("/metadata/creationTimestamp", json!("2026-01-01T00:00:00Z"))]
#[case::deletion("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"))]
#[case::generate_name("/metadata/generateName", json!("s-"))]
#[case::owner("/metadata/labels", json!({"openchoreo.dev/owner-uid": "another"}))]
#[case::intent_hash("/metadata/annotations", json!({"openchoreo.dev/intent-hash": "abc"}))]
#[case::resource_id("/metadata/annotations", json!({"openchoreo.dev/release-resource-id": "another"}))]
fn what_is_not_the_users_to_set_makes_no_difference(#[case] path: &str, #[case] value: Value) {
    assert_eq!(one("it", with(settings(), path, value)), one("it", settings()));
}

#[test]
fn a_creation_time_that_tools_print_as_null_is_no_problem() {
    let mut printed = settings();
    printed["metadata"]["creationTimestamp"] = Value::Null;
    assert_eq!(one("it", printed), one("it", settings()));
}

#[rstest]
fn a_missing_field_is_named(
    #[values("apiVersion", "kind", "metadata.name")] field: &str,
    #[values(json!(null), json!(""), json!(7))] value: Value,
) {
    let message = wrong(with(settings(), &format!("/{}", field.replace('.', "/")), value));
    assert!(message.contains(&format!("no {field};")), "{message}");
}

#[test]
fn a_list_is_to_be_written_as_its_items() {
    let list =
        json!({"apiVersion": "v1", "kind": "List", "metadata": {"name": "all"}, "items": [settings()]});
    assert!(wrong(list).contains("each of its items"));
}

#[test]
fn all_problems_are_told_and_nothing_is_rendered() {
    let nameless = || with(settings(), "/metadata/name", Value::Null);
    let problems =
        render(&release(&[("a", nameless()), ("good", settings()), ("b", json!({})), ("c", nameless())]));
    let problems: Vec<String> = problems.unwrap_err().into_iter().map(|problem| problem.id).collect();
    assert_eq!(problems, ["a", "b", "c"]);
}

#[test]
fn one_object_under_several_ids_names_the_first_of_them() {
    let hpa =
        |version: &str| autoscaler(&format!("autoscaling/{version}"), "HorizontalPodAutoscaler", &json!({}));
    let elsewhere = with(hpa("v2"), "/metadata/namespace", json!("other"));
    let problems = render(&release(&[
        ("v1", hpa("v1")),
        ("elsewhere", elsewhere),
        ("v2", hpa("v2")),
        ("again", hpa("v2")),
    ]));
    let message = "HorizontalPodAutoscaler app/scaler is also the object of id v1".to_owned();
    let expected = ["v2", "again"].map(|id| Problem { id: id.into(), message: message.clone() });
    assert_eq!(problems.unwrap_err(), expected);
}

#[rstest]
#[case::kind("/kind", json!("Secret"))]
#[case::group("/apiVersion", json!("example.com/v1"))]
#[case::namespace("/metadata/namespace", json!("other"))]
#[case::name("/metadata/name", json!("other"))]
fn objects_that_differ_in_what_identifies_them_are_two(#[case] path: &str, #[case] value: Value) {
    assert_eq!(
        render(&release(&[("a", settings()), ("b", with(settings(), path, value))])).unwrap().len(),
        2
    );
}

fn secret(fields: &Value) -> Value {
    let mut secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "app", "name": "s"}});
    secret.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    secret
}

#[rstest]
#[case::alone(json!({"stringData": {"a": "ü"}}), json!({"a": "w7w="}))]
#[case::wins(json!({"data": {"a": "eA==", "b": "eQ=="}, "stringData": {"a": "z"}}), json!({"a": "eg==", "b": "eQ=="}))]
#[case::beside_nothing(json!({"data": null, "stringData": {"a": "z"}}), json!({"a": "eg=="}))]
#[case::nothing(json!({"data": {"a": "eA=="}, "stringData": null}), json!({"a": "eA=="}))]
fn plain_texts_of_a_secret_become_its_data(#[case] written: Value, #[case] data: Value) {
    let intent = one("it", secret(&written)).wanted.intent();
    assert_eq!((&intent["data"], intent.get("stringData")), (&data, None));
}

#[test]
fn only_secrets_have_plain_texts() {
    let mine = with(secret(&json!({"stringData": {"a": 1}})), "/apiVersion", json!("example.com/v1"));
    assert_eq!(one("it", mine).wanted.intent()["stringData"], json!({"a": 1}));
}

#[rstest]
#[case::number(secret(&json!({"stringData": {"pin": 8_675_309}})))]
#[case::nested(secret(&json!({"stringData": {"pin": {"of": CANARY}}})))]
#[case::no_map(secret(&json!({"stringData": CANARY})))]
#[case::data_is_no_map(secret(&json!({"data": CANARY, "stringData": {"a": "b"}})))]
#[case::label(with(settings(), "/metadata/labels", json!({"pin": 8_675_309})))]
#[case::annotations(with(settings(), "/metadata/annotations", json!(CANARY)))]
#[case::time(with(settings(), "/metadata/creationTimestamp", json!(CANARY)))]
#[case::metadata(with(settings(), "/metadata", json!(CANARY)))]
fn a_malformed_object_is_refused_without_quoting_it(#[case] object: Value) {
    let message = wrong(object);
    assert!(!message.is_empty() && !message.contains(CANARY), "{message}");
}

#[rstest]
#[case::short("web", None)]
#[case::longest(&"x".repeat(63), None)]
#[case::too_long(&"x".repeat(64), Some("x"))]
#[case::unicode("größe", Some("gr--e-"))]
#[case::leading_dash("-web", Some("web-"))]
#[case::nothing_that_fits("///", Some(""))]
fn an_id_that_is_no_label_is_kept_as_annotation(#[case] id: &str, #[case] starts: Option<&str>) {
    let object = one(id, settings()).wanted.object;
    let label = object.labels()[labels::RELEASE_RESOURCE_ID].as_str();
    let annotation = object.annotations().get(annotations::RELEASE_RESOURCE_ID).map(String::as_str);
    match starts {
        None => assert_eq!((label, annotation), (id, None)),
        Some(starts) => {
            assert_eq!(annotation, Some(id));
            assert!(label.starts_with(starts) && label != id, "{label}");
        }
    }
}

#[test]
fn texts_that_clean_up_to_the_same_stay_apart() {
    let long = |last: &str| format!("{}{last}", "x".repeat(63));
    let texts =
        ["", "a-b", "a/b", "a:b", "a b", "-a", "a-", "a", "ü", "ö", "-", "--", "."].map(str::to_owned);
    let texts: Vec<String> = texts.into_iter().chain(["", "y", "z", "/"].map(long)).collect();
    let values: BTreeSet<String> = texts.iter().map(|text| label_value(text)).collect();
    assert_eq!(values.len(), texts.len());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2048) })]

    #[test]
    fn any_text_becomes_a_label(text in prop_oneof!["[-._aZ0/ü]{0,80}", any::<String>()]) {
        let value = label_value(&text);
        let ends = [value.chars().next(), value.chars().last()];
        prop_assert!(value.len() <= 63, "{}", value);
        prop_assert!(value.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)), "{}", value);
        prop_assert!(ends.into_iter().flatten().all(|c| c.is_ascii_alphanumeric()), "{}", value);
        prop_assert_eq!(value.is_empty(), text.is_empty());
        prop_assert_eq!(label_value(&value), value);
    }
}

#[rstest]
#[case::hpa("autoscaling/v2", "HorizontalPodAutoscaler", json!({"kind": "Deployment", "name": "web"}), true)]
#[case::older_hpa("autoscaling/v1", "HorizontalPodAutoscaler", json!({"kind": "Deployment", "name": "web"}), true)]
#[case::keda("keda.sh/v1alpha1", "ScaledObject", json!({"name": "web"}), true)]
#[case::keda_of_a_kind("keda.sh/v1alpha1", "ScaledObject", json!({"kind": "Deployment", "name": "web"}), true)]
#[case::another_name("keda.sh/v1alpha1", "ScaledObject", json!({"name": "api"}), false)]
#[case::another_kind("keda.sh/v1alpha1", "ScaledObject", json!({"kind": "StatefulSet", "name": "web"}), false)]
#[case::hpa_of_no_kind("autoscaling/v2", "HorizontalPodAutoscaler", json!({"name": "web"}), false)]
#[case::no_autoscaler("example.com/v1", "ScaledObject", json!({"name": "web"}), false)]
fn replicas_are_left_to_the_autoscaler_of_the_release(
    #[case] api_version: &str,
    #[case] kind: &str,
    #[case] target: Value,
    #[case] leaves: bool,
) {
    let all = [
        ("web", workload("apps/v1", "Deployment", "app/web")),
        ("scaler", autoscaler(api_version, kind, &target)),
        ("elsewhere", workload("apps/v1", "Deployment", "other/web")),
    ];
    let reversed: Vec<_> = all.iter().rev().cloned().collect();
    for resources in [&all[..], &reversed[..]] {
        for Rendered { id, wanted } in render(&release(resources)).unwrap() {
            let autoscaled = leaves && id == "web";
            assert_eq!(wanted.autoscaled, autoscaled, "{id}");
            if id != "scaler" {
                let replicas =
                    if autoscaled { json!({"paused": true}) } else { json!({"paused": true, "replicas": 3}) };
                assert_eq!(wanted.intent()["spec"], replicas, "{id}");
            }
            assert_eq!(wanted.hash, Wanted::new(wanted.object.clone()).hash, "{id}");
        }
    }
}

#[test]
fn the_order_in_which_fields_are_written_does_not_change_the_hash() {
    let hash = |labels: &str, data: &str| {
        let text = format!(
            r#"{{"data": {{{data}}}, "kind": "ConfigMap", "apiVersion": "v1",
                "metadata": {{"labels": {{{labels}}}, "name": "settings"}}}}"#
        );
        one("it", serde_json::from_str(&text).unwrap()).wanted.hash
    };
    let first = hash(r#""a": "1", "b": "2""#, r#""c": "3", "d": "4""#);
    assert_eq!(hash(r#""b": "2", "a": "1""#, r#""d": "4", "c": "3""#), first);
    assert_ne!(hash(r#""b": "1", "a": "2""#, r#""d": "4", "c": "3""#), first);
}

#[test]
fn an_object_without_a_namespace_is_the_same_wherever_it_was_written() {
    let mut written = one("it", settings());
    written.wanted.autoscaled = true;
    let bare = written.without_namespace();
    let expected = one("it", with(settings(), "/metadata/namespace", json!("")));
    assert_eq!(
        (&bare.wanted.intent(), &bare.wanted.hash),
        (&expected.wanted.intent(), &expected.wanted.hash)
    );
    assert_eq!((bare.item().namespace.as_str(), bare.wanted.autoscaled), ("", true));
    assert_eq!(expected.clone().without_namespace(), expected);
}

#[test]
fn namespaces_that_are_objects_of_the_release_are_not_made_for_it() {
    let named = |api_version: &str, kind: &str, name: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    let rendered = render(&release(&[
        ("a", settings()),
        ("b", workload("apps/v1", "Deployment", "own/web")),
        ("c", named("v1", "Namespace", "own")),
        ("d", named("example.com/v1", "Namespace", "app")),
        ("e", named("rbac.authorization.k8s.io/v1", "ClusterRole", "role")),
        ("f", workload("apps/v1", "Deployment", "app/web")),
    ]));
    assert_eq!(namespaces(&rendered.unwrap()), BTreeSet::from(["app".to_owned()]));
}

#[test]
fn a_namespace_that_is_made_tells_for_whom() {
    let namespace = targeted_namespace(&release(&[]), "app", PodSecurity::Restricted);
    let expected = [
        ("openchoreo.dev/created-by", "release-controller"),
        ("openchoreo.dev/release-name", "shop-v1"),
        ("openchoreo.dev/release-namespace", "acme"),
        ("openchoreo.dev/release-uid", "release-uid"),
        ("openchoreo.dev/environment", "dev"),
        ("openchoreo.dev/project", "store"),
        ("organization-name", "acme"),
        ("pod-security.kubernetes.io/enforce", "restricted"),
    ];
    assert_eq!(*namespace.labels(), expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    assert_eq!(namespace.name_any(), "app");
    let unsaid = targeted_namespace(&release(&[]), "app", PodSecurity::None);
    assert!(!unsaid.labels().contains_key("pod-security.kubernetes.io/enforce"));
}

#[test]
fn a_namespace_of_a_release_gets_a_level_unless_it_may_say_one() {
    const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "own"}});
    let level = |object: Value, level: PodSecurity, live: Option<&str>| {
        let live = live.map(|said| BTreeMap::from([(ENFORCE.to_owned(), said.to_owned())]));
        let rendered = one("it", object).with_level(level, live.as_ref());
        assert_eq!(rendered.wanted.hash, Wanted::new(rendered.wanted.object.clone()).hash);
        rendered.wanted.object.labels().get(ENFORCE).cloned()
    };
    let said = |value: &str| Some(value.to_owned());
    assert_eq!(level(namespace.clone(), PodSecurity::Baseline, None), said("baseline"));
    assert_eq!(level(namespace.clone(), PodSecurity::Baseline, Some("restricted")), said("restricted"));
    assert_eq!(level(namespace.clone(), PodSecurity::Baseline, Some("privileged")), said("baseline"));
    assert_eq!(level(namespace.clone(), PodSecurity::None, None), None);
    let written = with(namespace, "/metadata/labels", json!({ENFORCE: "privileged"}));
    assert_eq!(level(written, PodSecurity::Baseline, None), said("privileged"));
    assert_eq!(level(settings(), PodSecurity::Baseline, None), None);
}

#[test]
fn a_release_cannot_say_that_deployments_keep_an_object() {
    let written = with(
        settings(),
        "/metadata/labels",
        json!({
        "managed-by": "choreo-deployment-controller", "openchoreo.dev/owner-uid": "deployment", "app": "shop"}),
    );
    let labels = one("it", written).wanted.object.labels().clone();
    assert!(
        !labels.contains_key("managed-by") && !labels.contains_key("openchoreo.dev/owner-uid"),
        "{labels:?}"
    );
    assert_eq!(labels["app"], "shop");
    // Everybody may be managed by somebody.
    let written = with(settings(), "/metadata/labels", json!({"managed-by": "us"}));
    assert_eq!(one("it", written).wanted.object.labels()["managed-by"], "us");
}

#[test]
fn objects_that_leave_no_room_for_a_status_are_refused() {
    let large = |name: &str| {
        with(with(settings(), "/metadata/name", json!(name)), "/data/colour", json!("x".repeat(400_000)))
    };
    let two = [("one", large("one")), ("two", large("two"))];
    assert!(render(&release(&two)).is_ok());
    let [one, two] = two;
    let problems =
        render(&release(&[one, two, ("three", large("three")), ("four", settings())])).unwrap_err();
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].id, "three");
    assert!(problems[0].message.contains("another Release"), "{}", problems[0].message);
}

proptest! {
    #[test]
    fn the_length_of_a_value_is_that_of_its_json(text in "[\\x00-\\x7fé]{0,40}", number in any::<f64>()) {
        let value = json!({text.as_str(): [text, null, true, false, {}, []], "number": [number, 1, -1]});
        prop_assert_eq!(length(&value), value.to_string().len());
    }
}
