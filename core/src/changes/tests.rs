use kantor_api::labels::{self, plane};
use rstest::rstest;
use serde_json::json;

use super::*;

fn owner() -> Owner {
    Owner { uid: "me".into(), label: labels::RELEASE_UID, organization: "acme".into(), ..Owner::default() }
}

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

fn wanted() -> Wanted {
    Wanted::new(object(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "app", "name": "settings", "labels": {labels::RELEASE_UID: "me"}},
        "data": {"colour": "blue"},
    })))
}

/// The object as the server has it after it was applied.
fn live() -> DynamicObject {
    let wanted = wanted();
    let mut live = wanted.object.clone();
    live.metadata.uid = Some("uid".into());
    live.annotations_mut().insert(annotations::INTENT_HASH.into(), wanted.hash);
    live
}

fn with_label(mut live: DynamicObject, key: &str, value: Option<&str>) -> DynamicObject {
    match value {
        Some(value) => live.labels_mut().insert(key.into(), value.into()),
        None => live.labels_mut().remove(key),
    };
    live
}

fn decide(live: Option<&DynamicObject>, recorded: Option<&str>) -> Step {
    step(&owner(), &wanted(), live, recorded, |_| false)
}

#[test]
fn what_is_as_it_shall_be_is_left_alone() {
    assert_eq!(decide(Some(&live()), None), Step::Nothing);
}

#[test]
fn what_is_not_there_is_made() {
    assert_eq!(decide(None, Some("uid")), Step::Create);
}

#[test]
fn a_foreign_change_is_drift_and_names_the_field() {
    let mut live = live();
    live.data["data"]["colour"] = json!("red");
    let expected =
        Step::Update { uid: Some("uid".into()), taken_over: None, drift: Some("data.colour".into()) };
    assert_eq!(decide(Some(&live), None), expected);
}

#[test]
fn another_intent_is_applied_even_where_nothing_differs() {
    // A field that is no longer wanted: the live object has it still.
    let mut live = live();
    live.annotations_mut().insert(annotations::INTENT_HASH.into(), "other".into());
    assert_eq!(
        decide(Some(&live), None),
        Step::Update { uid: Some("uid".into()), taken_over: None, drift: None }
    );
}

#[test]
fn what_the_server_keeps_otherwise_is_not_applied_again_and_again() {
    let mut live = live();
    live.data["data"]["colour"] = json!("BLUE");
    assert_eq!(step(&owner(), &wanted(), Some(&live), None, |_| true), Step::Nothing);
    // A new intent is sent all the same.
    live.annotations_mut().insert(annotations::INTENT_HASH.into(), "other".into());
    assert!(matches!(step(&owner(), &wanted(), Some(&live), None, |_| true), Step::Update { .. }));
}

#[rstest]
#[case::of_another_release(Some("other"), None, "Release acme/shop")]
#[case::of_nobody(None, None, "nobody")]
#[case::of_another_release_by_now(Some("other"), Some("uid"), "Release acme/shop")]
fn strangers_are_refused_by_name(
    #[case] label: Option<&str>,
    #[case] recorded: Option<&str>,
    #[case] whose: &str,
) {
    let mut live = with_label(live(), labels::RELEASE_UID, label);
    live.labels_mut().insert(labels::RELEASE_NAMESPACE.into(), "acme".into());
    live.labels_mut().insert(labels::RELEASE_NAME.into(), "shop".into());
    let Step::Refuse(message) = decide(Some(&live), recorded) else { panic!("not refused") };
    assert!(message.contains("ConfigMap app/settings") && message.contains(whose), "{message}");
    assert!(message.contains("openchoreo.dev/adopt"), "{message}");
    // Unless it shall be taken over.
    let adopting = Owner { adopt: true, ..owner() };
    assert!(matches!(step(&adopting, &wanted(), Some(&live), recorded, |_| false), Step::Update { .. }));
}

#[rstest]
#[case::of_a_deployment(&[(labels::OWNER_UID, "deployment")])]
#[case::shared_by_deployments(&[(plane::MANAGED_BY, plane::MANAGED_BY_DEPLOYMENT_CONTROLLER)])]
#[case::shared_and_made_for_it(
    &[(plane::MANAGED_BY, plane::MANAGED_BY_DEPLOYMENT_CONTROLLER), (labels::RELEASE_UID, "me")]
)]
#[case::of_a_release_elsewhere(&[(labels::RELEASE_UID, "other"), (labels::RELEASE_NAMESPACE, "globex")])]
#[case::of_a_release_of_nowhere(&[(labels::RELEASE_UID, "other")])]
fn what_others_keep_is_not_a_releases_even_if_it_asks_to_take_it_over(#[case] labels: &[(&str, &str)]) {
    let mut live = with_label(live(), labels::RELEASE_UID, None);
    live.labels_mut().extend(labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    live.labels_mut().insert(labels::RELEASE_NAME.into(), "payments-migration".into());
    for adopt in [false, true] {
        let owner = Owner { adopt, ..owner() };
        for recorded in [None, Some("uid")] {
            let Step::Refuse(message) = step(&owner, &wanted(), Some(&live), recorded, |_| false) else {
                panic!("adopt: {adopt}, recorded: {recorded:?}: not refused")
            };
            assert!(message.contains("ConfigMap app/settings"), "{message}");
            for secret in ["globex", "payments-migration", "openchoreo.dev/adopt"] {
                assert!(!message.contains(secret), "{message}");
            }
            assert_eq!(removal(&owner, &ObjectView::of(&live), recorded), Removal::Leave);
        }
    }
}

#[rstest]
#[case::nobodys(&[], Holder::Nobody)]
#[case::its_own(&[(labels::OWNER_UID, "me")], Holder::Own)]
#[case::of_its_organization(
    &[(labels::OWNER_UID, "old"), (plane::ORGANIZATION_NAME, "acme")],
    Holder::Kin("another Deployment or Endpoint".into())
)]
#[case::of_another_organization(
    &[(labels::OWNER_UID, "old"), (plane::ORGANIZATION_NAME, "globex")], Holder::Other("somebody else on this data plane")
)]
#[case::of_a_release(
    &[(labels::RELEASE_UID, "release"), (labels::RELEASE_NAMESPACE, "acme")], Holder::Other("a Release")
)]
fn a_deployment_takes_over_what_deployments_of_its_organization_left(
    #[case] labels: &[(&str, &str)],
    #[case] expected: Holder,
) {
    let owner = Owner { label: labels::OWNER_UID, ..owner() };
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    assert_eq!(holder(&owner, &labels, false), expected);
}

#[rstest]
#[case::nobodys(&[], Holder::Nobody)]
#[case::its_own(&[(plane::MANAGED_BY, plane::MANAGED_BY_DEPLOYMENT_CONTROLLER)], Holder::Own)]
#[case::made_for_releases(
    &[(labels::CREATED_BY, "release-controller"), (labels::RELEASE_UID, "r"), (labels::RELEASE_NAMESPACE, "acme"),
      (labels::RELEASE_NAME, "cart")],
    Holder::Kin("Release acme/cart".into())
)]
#[case::made_for_releases_of_others(
    &[(labels::CREATED_BY, "release-controller"), (labels::RELEASE_UID, "r"), (labels::RELEASE_NAMESPACE, "globex")],
    Holder::Other("somebody else on this data plane")
)]
#[case::brought_by_a_release(
    &[(labels::MANAGED_BY, "release-controller"), (labels::RELEASE_UID, "r"), (labels::RELEASE_NAMESPACE, "acme")],
    Holder::Other("a Release")
)]
#[case::brought_and_shared_before(
    &[(labels::MANAGED_BY, "release-controller"), (labels::RELEASE_UID, "r"),
      (plane::MANAGED_BY, plane::MANAGED_BY_DEPLOYMENT_CONTROLLER)],
    Holder::Own
)]
#[case::of_a_deployment(&[(labels::OWNER_UID, "deployment")], Holder::Other("a Deployment"))]
fn what_deployments_share_is_not_what_a_release_keeps(
    #[case] labels: &[(&str, &str)],
    #[case] expected: Holder,
) {
    let owner =
        Owner { label: plane::MANAGED_BY, uid: plane::MANAGED_BY_DEPLOYMENT_CONTROLLER.into(), ..owner() };
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    assert_eq!(holder(&owner, &labels, false), expected);
}

#[rstest]
#[case::a_release(labels::RELEASE_UID, labels::OWNER_UID, "leave it out")]
#[case::a_deployment(labels::OWNER_UID, labels::RELEASE_UID, "have it removed there")]
#[case::all_deployments(plane::MANAGED_BY, labels::OWNER_UID, "have it removed there")]
fn who_may_not_have_an_object_is_told_what_to_do_about_it(
    #[case] label: &'static str,
    #[case] kept_by: &str,
    #[case] advice: &str,
) {
    let live = with_label(with_label(live(), labels::RELEASE_UID, None), kept_by, Some("other"));
    let owner = Owner { label, ..owner() };
    let Step::Refuse(message) = step(&owner, &wanted(), Some(&live), None, |_| false) else {
        panic!("not refused")
    };
    assert!(message.contains(advice), "{message}");
}

#[rstest]
#[case("ResourceQuota", false)]
#[case("LimitRange", false)]
#[case("ConfigMap", true)]
fn the_limits_of_a_namespace_are_not_taken_over_from_who_set_them(#[case] kind: &str, #[case] adopted: bool) {
    let mut wanted = wanted();
    wanted.object.types.as_mut().unwrap().kind = kind.to_owned();
    let live = with_label(live(), labels::RELEASE_UID, None);
    let adopting = Owner { adopt: true, ..owner() };
    let step = step(&adopting, &wanted, Some(&live), None, |_| false);
    assert_eq!(matches!(step, Step::Update { .. }), adopted, "{step:?}");
    // Its own it keeps, as ever.
    let own = with_label(live, labels::RELEASE_UID, Some("me"));
    assert!(!matches!(super::step(&owner(), &wanted, Some(&own), None, |_| false), Step::Refuse(_)));
}

#[test]
fn labels_that_somebody_removed_are_put_back_on_the_object_that_was_recorded() {
    let live = with_label(live(), labels::RELEASE_UID, None);
    assert!(matches!(decide(Some(&live), Some("uid")), Step::Update { .. }));
    assert!(matches!(decide(Some(&live), Some("an earlier one")), Step::Refuse(_)));
}

#[test]
fn what_was_made_before_kantor_is_known_by_its_labels_and_no_more_than_that() {
    let of = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let heir = Owner { inherited: of(&[("component-name", "cart"), ("managed-by", "it")]), ..owner() };
    assert_eq!(holder(&heir, &of(&[("component-name", "cart"), ("managed-by", "it")]), false), Holder::Own);
    assert_eq!(holder(&heir, &of(&[("component-name", "cart")]), false), Holder::Nobody);
    let others = of(&[("component-name", "cart"), ("managed-by", "it"), (labels::OWNER_UID, "other")]);
    assert!(matches!(holder(&heir, &others, false), Holder::Other(_)));
    assert_eq!(holder(&owner(), &of(&[]), false), Holder::Nobody);
}

#[test]
fn what_is_being_deleted_is_awaited() {
    let mut live = live();
    live.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    assert_eq!(decide(Some(&live), None), Step::AwaitEnd);
}

#[rstest]
#[case::its_own(Some("me"), None)]
#[case::nobodys(None, Some("7"))]
fn an_object_is_taken_over_only_in_the_version_that_was_looked_at(
    #[case] label: Option<&str>,
    #[case] expected: Option<&str>,
) {
    let mut live = with_label(live(), labels::RELEASE_UID, label);
    live.metadata.resource_version = Some("7".to_owned());
    live.metadata.annotations = None;
    let adopting = Owner { adopt: true, ..owner() };
    let Step::Update { taken_over, .. } = step(&adopting, &wanted(), Some(&live), None, |_| false) else {
        panic!("it is not as it shall be");
    };
    assert_eq!(taken_over.as_deref(), expected);
}

/// A deletion of the object with the UID `uid`.
fn deleted(version: Option<&str>) -> Removal {
    Removal::Delete { uid: Some("uid".to_owned()), version: version.map(ToOwned::to_owned) }
}

#[rstest]
#[case::ours(Some("me"), None, deleted(None))]
#[case::made_anew_before_it_was_recorded(Some("me"), Some("older"), deleted(None))]
#[case::stripped_of_its_labels(None, Some("uid"), deleted(Some("7")))]
#[case::somebody_elses(Some("other"), Some("uid"), Removal::Leave)]
#[case::nobodys(None, None, Removal::Leave)]
#[case::another_of_that_name(None, Some("older"), Removal::Leave)]
fn only_what_is_the_owners_is_deleted(
    #[case] label: Option<&str>,
    #[case] recorded: Option<&str>,
    #[case] expected: Removal,
) {
    let mut live = with_label(live(), labels::RELEASE_UID, label);
    live.metadata.resource_version = Some("7".to_owned());
    assert_eq!(removal(&owner(), &ObjectView::of(&live), recorded), expected);
}

#[test]
fn what_is_on_its_way_is_not_deleted_again_and_says_what_keeps_it() {
    let mut live = live();
    live.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    live.metadata.finalizers = Some(vec!["example.com/slow".into()]);
    let awaited = Removal::AwaitEnd { finalizers: vec!["example.com/slow".into()] };
    assert_eq!(removal(&owner(), &ObjectView::of(&live), None), awaited);
    let theirs = with_label(live, labels::RELEASE_UID, Some("other"));
    assert_eq!(removal(&owner(), &ObjectView::of(&theirs), None), Removal::Leave);
}

#[rstest]
#[case::made(Outcome::Created, None)]
#[case::changed(Outcome::Configured { drift: Some("data.colour".into()) }, None)]
#[case::as_it_was(Outcome::Unchanged, None)]
#[case::waiting(Outcome::Waiting("it is being deleted".into()), Some("it is being deleted"))]
#[case::refused(Outcome::Refused("not yours".into()), Some("not yours"))]
#[case::failed(Outcome::Failed("no answer".into()), Some("no answer"))]
fn what_is_not_in_its_place_says_why(#[case] outcome: Outcome, #[case] why: Option<&str>) {
    assert_eq!(outcome.error(), why);
    assert_eq!(outcome.is_in_place(), why.is_none());
}

#[rstest]
#[case::a_reason(Some("no room"), "ConfigMap app/settings: no room")]
#[case::a_reason_that_names_it(Some("ConfigMap app/settings is full"), "ConfigMap app/settings is full")]
#[case::no_reason(None, "ConfigMap app/settings")]
fn what_is_said_of_an_object_names_it_once(#[case] why: Option<&str>, #[case] expected: &str) {
    assert_eq!(said(&wanted().item(), why), expected);
}

#[rstest]
#[case::from_before(Some("9"), Some("10"), true)]
#[case::what_was_written(Some("10"), Some("10"), false)]
#[case::from_after(Some("11"), Some("10"), false)]
#[case::nothing_was_written(Some("9"), None, false)]
#[case::no_number(Some("9"), Some("x"), false)]
#[case::of_no_version(None, Some("10"), false)]
fn an_object_from_before_a_write_is_told_by_its_version(
    #[case] seen: Option<&str>,
    #[case] written: Option<&str>,
    #[case] expected: bool,
) {
    let mut live = live();
    live.metadata.resource_version = seen.map(ToOwned::to_owned);
    assert_eq!(is_older(&live, written), expected);
}

#[test]
fn objects_are_told_apart_by_all_but_their_version_and_uid() {
    let item = wanted().item();
    let same = InventoryItem { version: "v2".into(), uid: Some("uid".into()), ..item.clone() };
    assert_eq!(object_key(&same), object_key(&item));
    let others = [
        InventoryItem { group: "apps".into(), ..item.clone() },
        InventoryItem { kind: "Secret".into(), ..item.clone() },
        InventoryItem { namespace: "other".into(), ..item.clone() },
        InventoryItem { name: "other".into(), ..item.clone() },
    ];
    for other in others {
        assert_ne!(object_key(&other), object_key(&item), "{other:?}");
    }
}

#[test]
fn what_the_server_keeps_is_known_again_by_the_wanted_fields_alone() {
    let (kept, wanted) = (live(), wanted());
    let with = |field: &str, value: &str| {
        let mut live = kept.clone();
        live.data["data"][field] = json!(value);
        projection(&live, &wanted)
    };
    let before = projection(&kept, &wanted);
    assert_eq!(with("of-others", "x"), before);
    assert_ne!(with("colour", "BLUE"), before);
    assert_ne!(with("colour", "BLUE"), with("colour", "Blue"));
}

#[test]
fn stages_put_what_others_need_first_and_traffic_last() {
    let order = [
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("", "Namespace"),
        ("rbac.authorization.k8s.io", "Role"),
        ("", "ConfigMap"),
        ("", "Service"),
        ("apps", "Deployment"),
        ("gateway.envoyproxy.io", "SecurityPolicy"),
        ("gateway.networking.k8s.io", "HTTPRoute"),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    ];
    let stages: Vec<u8> = order.iter().map(|(group, kind)| stage(group, kind)).collect();
    assert!(stages.is_sorted_by(|a, b| a < b), "{stages:?}");
    assert!(stages.iter().all(|stage| *stage < STAGES));
    assert_eq!(stage("", "ServiceAccount"), stage("rbac.authorization.k8s.io", "Role"));
    assert_eq!(stage("example.com", "Widget"), stage("batch", "Job"));
}

#[rstest]
#[case::a_config_map(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": "v"}}))]
#[case::of_a_group(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"replicas": 2}, "status": null}))]
#[case::nothing_but_a_name(json!({"metadata": {"name": "a"}}))]
fn an_object_is_the_json_that_serde_makes_of_it(#[case] value: Value) {
    let object = object(value);
    assert_eq!(json_of(&object), serde_json::to_value(&object).unwrap());
}

#[test]
fn an_object_without_fields_is_the_json_that_serde_makes_of_it() {
    let object = DynamicObject { data: Value::Null, ..live() };
    assert_eq!(json_of(&object), serde_json::to_value(&object).unwrap_or_default());
}
