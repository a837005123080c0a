use rstest::rstest;

use super::*;

fn acme() -> Organization {
    let mut organization = Organization::new("acme", kantor_api::organization::OrganizationSpec {});
    organization.metadata.uid = Some("org-uid".into());
    organization.metadata.generation = Some(3);
    organization
}

/// The metadata that the namespace has after [`NamespaceStep::Create`].
fn made() -> ObjectMeta {
    let NamespaceStep::Create(namespace) = namespace_step(&acme(), None) else { panic!("expected Create") };
    ObjectMeta { uid: Some("ns-uid".into()), ..namespace.metadata }
}

fn with_label(mut meta: ObjectMeta, key: &str, value: &str) -> ObjectMeta {
    meta.labels.get_or_insert_default().insert(key.into(), value.into());
    meta
}

fn terminating(meta: ObjectMeta) -> ObjectMeta {
    ObjectMeta { deletion_timestamp: Some(Time(jiff::Timestamp::UNIX_EPOCH)), ..meta }
}

fn controlled_by(kind: &str, name: &str) -> ObjectMeta {
    let owner = OwnerReference {
        api_version: "v1".into(),
        kind: kind.into(),
        name: name.into(),
        uid: "other".into(),
        controller: Some(true),
        block_owner_deletion: None,
    };
    ObjectMeta { owner_references: Some(vec![owner]), ..ObjectMeta::default() }
}

#[test]
fn a_new_namespace_is_labelled_and_controlled_by_the_organization() {
    let meta = made();
    assert_eq!(meta.name.as_deref(), Some("acme"));
    assert_eq!(
        meta.labels.unwrap().into_iter().collect::<Vec<_>>(),
        [
            ("openchoreo.dev/managed-by", "openchoreo-control-plane"),
            ("openchoreo.dev/name", "acme"),
            ("openchoreo.dev/organization", "acme"),
        ]
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
    );
    let owner = &meta.owner_references.unwrap()[0];
    assert_eq!(
        (owner.kind.as_str(), owner.uid.as_str(), owner.controller),
        ("Organization", "org-uid", Some(true))
    );
}

#[test]
fn a_namespace_that_is_as_it_should_be_is_kept() {
    assert_eq!(namespace_step(&acme(), Some(&made())), NamespaceStep::Keep);
    let foreign = with_label(made(), "istio-injection", "enabled");
    assert_eq!(namespace_step(&acme(), Some(&foreign)), NamespaceStep::Keep);
}

#[test]
fn a_changed_label_of_ours_is_repaired_and_ownership_kept() {
    let drifted = with_label(made(), labels::NAME, "evil");
    let NamespaceStep::Repair(namespace) = namespace_step(&acme(), Some(&drifted)) else { panic!() };
    assert_eq!(namespace.metadata.labels, made().labels);
    assert_eq!(namespace.metadata.owner_references, made().owner_references);
    let hijacked = with_label(made(), labels::ORGANIZATION, "evil");
    assert!(matches!(namespace_step(&acme(), Some(&hijacked)), NamespaceStep::Repair(_)));
}

#[test]
fn a_namespace_that_was_there_before_is_adopted_by_labels_alone() {
    let NamespaceStep::Repair(namespace) = namespace_step(&acme(), Some(&ObjectMeta::default())) else {
        panic!()
    };
    assert_eq!(namespace.metadata.labels, made().labels);
    assert_eq!(namespace.metadata.owner_references, None);
}

#[rstest]
#[case::another_organization(
    with_label(ObjectMeta::default(), labels::ORGANIZATION, "globex"),
    "belongs to organization globex"
)]
#[case::another_controller(controlled_by("Tenant", "t1"), "controlled by Tenant t1")]
fn a_namespace_of_someone_else_is_refused(#[case] live: ObjectMeta, #[case] why: &str) {
    let NamespaceStep::Refuse(message) = namespace_step(&acme(), Some(&live)) else { panic!() };
    assert!(message.contains(why), "{message}");
}

#[rstest]
#[case("kube-system")]
#[case("kube-public")]
#[case("kube-node-lease")]
fn namespaces_of_kubernetes_are_never_taken(#[case] name: &str) {
    let mut organization = acme();
    organization.metadata.name = Some(name.into());
    assert!(matches!(namespace_step(&organization, None), NamespaceStep::Refuse(_)));
    assert!(matches!(namespace_step(&organization, Some(&ObjectMeta::default())), NamespaceStep::Refuse(_)));
    assert_eq!(cleanup_step(&organization, Some(&ObjectMeta::default())), CleanupStep::Done);
}

#[test]
fn a_terminating_namespace_is_waited_for() {
    assert_eq!(namespace_step(&acme(), Some(&terminating(made()))), NamespaceStep::AwaitEnd);
}

#[rstest]
#[case::nothing_left(None, CleanupStep::Done)]
#[case::made_by_us(Some(made()), CleanupStep::Delete { uid: Some("ns-uid".into()) })]
#[case::on_its_way(Some(terminating(made())), CleanupStep::AwaitEnd)]
#[case::adopted(Some(ObjectMeta { owner_references: None, ..made() }), CleanupStep::Disown)]
#[case::adopted_and_terminating(
    Some(terminating(ObjectMeta { owner_references: None, ..made() })),
    CleanupStep::Done
)]
#[case::of_someone_else(Some(controlled_by("Tenant", "t1")), CleanupStep::Done)]
#[case::of_an_earlier_organization_of_this_name(
    Some(ObjectMeta { labels: None, ..controlled_by("Organization", "acme") }),
    CleanupStep::Done
)]
fn cleaning_up_touches_only_what_is_ours(#[case] live: Option<ObjectMeta>, #[case] expected: CleanupStep) {
    assert_eq!(cleanup_step(&acme(), live.as_ref()), expected);
}

fn said(status: &OrganizationStatus, type_: &str) -> Option<(String, String)> {
    conditions::get(&status.conditions, type_).map(|c| (c.status.clone(), c.reason.clone()))
}

#[rstest]
#[case(Progress::Ready, "True", "False", "False", "NamespaceCreated")]
#[case(Progress::NamespaceTerminating, "False", "True", "False", "NamespaceTerminating")]
#[case(Progress::Conflict("x".into()), "False", "False", "True", "NamespaceConflict")]
#[case(Progress::Refused("x".into()), "False", "False", "True", "NamespaceRefused")]
#[case(Progress::Finalizing("x".into()), "False", "True", "False", "OrganizationFinalizing")]
fn the_status_says_how_far_it_is(
    #[case] progress: Progress,
    #[case] ready: &str,
    #[case] reconciling: &str,
    #[case] stalled: &str,
    #[case] reason: &str,
) {
    let status = status(&acme(), &progress, &Time(jiff::Timestamp::UNIX_EPOCH));
    let pair = |holds: &str| Some((holds.to_owned(), reason.to_owned()));
    assert_eq!(said(&status, "Ready"), pair(ready));
    assert_eq!(said(&status, "Reconciling"), pair(reconciling));
    assert_eq!(said(&status, "Stalled"), pair(stalled));
    assert_eq!(status.observed_generation, Some(3));
    assert_eq!(status.namespace.is_some(), progress == Progress::Ready);
    assert_eq!(said(&status, "Deleting").is_some(), matches!(progress, Progress::Finalizing(_)));
}
