use rstest::rstest;

use super::*;

const NO_NAMESPACE: Option<&str> = Some("has no namespace; write metadata.namespace");
const NO_NAME: Option<&str> = Some("no namespace can have the name");
const KUBERNETES: Option<&str> = Some("belongs to Kubernetes");
const CONTROL_PLANE: Option<&str> = Some("belongs to the control plane");
const OTHER: Option<&str> = Some("belongs to another organization");
const OPEN: Option<&str> = Some("exists and is open to others as well");
const FOREIGN: Option<&str> = Some("does not belong to the organization acme");
const KEPT: Option<&str> = Some("are kept for those that Kantor makes");

fn policy(namespaces: &[&str]) -> ReleasePolicy {
    ReleasePolicy { namespaces: texts(namespaces), ..ReleasePolicy::default() }
}

#[rstest]
#[case::empty("", &["*"], NO_NAMESPACE)]
#[case::by_one_label("acme-a", &[], None)]
#[case::by_the_other_label("acme-b", &[], None)]
#[case::of_another_project("dp-acme-other", &[], None)]
#[case::unlabelled("monitoring", &[], FOREIGN)]
#[case::unknown("acme-new", &[], FOREIGN)]
#[case::by_glob("monitoring", &["moni*"], None)]
#[case::by_glob_for_it("acme-new", &["{organization}-*"], None)]
#[case::by_glob_for_others("monitoring", &["{organization}*", "default"], FOREIGN)]
#[case::kubernetes("kube-system", &[], KUBERNETES)]
#[case::kubernetes_by_glob("kube-system", &["*"], KUBERNETES)]
#[case::kubernetes_by_name("kube-public", &["kube-public", "kube-*"], KUBERNETES)]
#[case::the_default("default", &[], FOREIGN)]
#[case::the_default_by_name("default", &["default"], None)]
#[case::the_default_by_glob("default", &["*"], None)]
#[case::control_plane("acme", &[], CONTROL_PLANE)]
#[case::control_plane_by_glob("acme", &["*", "{organization}"], CONTROL_PLANE)]
#[case::of_another("globex-a", &[], OTHER)]
#[case::of_another_by_the_other_label("globex-b", &[], OTHER)]
#[case::of_another_by_glob("globex-a", &["*", "globex-a"], OTHER)]
#[case::of_another_by_the_other_label_and_glob("globex-b", &["*"], OTHER)]
#[case::of_two("torn", &["*"], OTHER)]
#[case::of_a_nameless_one("nobody", &["*"], OTHER)]
#[case::of_one_in_capitals("shouting", &["*"], OTHER)]
#[case::uppercase("Kube-System", &["*"], NO_NAME)]
#[case::uppercase_of_ones_own("ACME-A", &["*"], NO_NAME)]
#[case::with_a_path("acme-a/../kube-system", &["*"], NO_NAME)]
#[case::with_a_break("kube-system\n", &["*"], NO_NAME)]
#[case::too_long("a23456789-123456789-123456789-123456789-123456789-123456789-1234", &["*"], NO_NAME)]
#[case::given_out_and_absent("dp-globex-shop-dev-12345678", &["*"], KEPT)]
#[case::given_out_and_there("dp-old", &["dp-*"], None)]
#[case::given_out_and_there_but_not_ours("dp-old", &[], FOREIGN)]
fn an_object_goes_only_to_a_namespace_of_its_organization(
    #[case] namespace: &str,
    #[case] namespaces: &[&str],
    #[case] expected: Option<&str>,
) {
    let policy = policy(namespaces);
    let deployment = in_namespace("Deployment.apps", namespace);
    assert_refused(refused(Some(&policy), deployment, &Labels::new()).as_ref(), expected);
    // The object's own labels say nothing about its namespace.
    let claim = labelled(&[(plane::ORGANIZATION_NAME, "acme"), (labels::ORGANIZATION, "acme")]);
    assert_refused(refused(Some(&policy), deployment, &claim).as_ref(), expected);
}

#[test]
fn the_own_namespace_is_allowed_before_it_exists_and_after() {
    let own = own_namespace(&ACME);
    for object in [in_namespace("Deployment.apps", &own), namespace(&own)] {
        assert_eq!(refused(None, object, &Labels::new()), None);
        let labels = Labels::new();
        assert_eq!(refusal(&ACME, None, &object.asked(&labels), &|_| Some(Labels::new())), None);
    }
}

#[rstest]
#[case::of_another(labelled(&[(plane::ORGANIZATION_NAME, "acme-x")]), OTHER)]
#[case::of_another_by_the_other_label(labelled(&[(labels::ORGANIZATION, "acme-x")]), OTHER)]
#[case::of_the_control_plane(labelled(&[(labels::MANAGED_BY, "openchoreo-control-plane")]), CONTROL_PLANE)]
#[case::ours(labelled(&[(plane::ORGANIZATION_NAME, "acme")]), None)]
fn a_generated_name_that_others_have_too_is_theirs_if_they_were_first(
    #[case] live: Labels,
    #[case] expected: Option<&str>,
) {
    let acme = Tenant { organization: "acme", project: "x-shop", environment: "dev" };
    let other = Tenant { organization: "acme-x", project: "shop", environment: "dev" };
    let name = own_namespace(&other);
    assert_eq!(own_namespace(&acme), name, "the names no longer collide; use others that do");
    let labels = Labels::new();
    let policy = policy(&["*"]);
    for object in [in_namespace("Secret", &name), namespace(&name)] {
        let message = refusal(&acme, Some(&policy), &object.asked(&labels), &|_| Some(live.clone()));
        assert_refused(message.as_ref(), expected);
    }
}

#[rstest]
#[case::longer_organization(Tenant { organization: "acme-x", ..ACME })]
#[case::another_project(Tenant { project: "shop2", ..ACME })]
#[case::another_environment(Tenant { environment: "prod", ..ACME })]
fn a_name_generated_for_others_is_not_to_be_taken(#[case] other: Tenant<'_>) {
    let name = own_namespace(&other);
    let claim = labelled(&[(plane::ORGANIZATION_NAME, "acme"), (labels::ORGANIZATION, "acme")]);
    for policy in [policy(&[]), policy(&["*", "dp-{organization}-*"])] {
        for object in [in_namespace("Secret", &name), namespace(&name)] {
            assert_refused(refused(Some(&policy), object, &claim).as_ref(), KEPT);
        }
    }
}

#[rstest]
#[case::new_and_labelled("acme-new", labelled(&[(plane::ORGANIZATION_NAME, "acme")]), &[], None)]
#[case::new_and_labelled_otherwise("acme-new", labelled(&[(labels::ORGANIZATION, "acme")]), &[], None)]
#[case::new_and_unlabelled("acme-new", Labels::new(), &[], FOREIGN)]
#[case::new_by_glob("acme-new", Labels::new(), &["acme-*"], None)]
#[case::new_for_another(
    "acme-new", labelled(&[(plane::ORGANIZATION_NAME, "globex")]), &["*"], Some("may only name the Release's own")
)]
#[case::new_for_both(
    "acme-new",
    labelled(&[(plane::ORGANIZATION_NAME, "acme"), (labels::ORGANIZATION, "globex")]),
    &[],
    Some("may only name the Release's own")
)]
#[case::new_for_the_control_plane(
    "acme-new",
    labelled(&[(plane::ORGANIZATION_NAME, "acme"), (labels::MANAGED_BY, "openchoreo-control-plane")]),
    &["*"],
    Some("is the control plane's to write")
)]
#[case::new_and_kept("dp-acme", labelled(&[(plane::ORGANIZATION_NAME, "acme")]), &["*"], KEPT)]
#[case::new_and_kept_for_kantor("openchoreo", labelled(&[(plane::ORGANIZATION_NAME, "acme")]), &["*"], KEPT)]
#[case::new_and_of_kubernetes("kube-x", labelled(&[(plane::ORGANIZATION_NAME, "acme")]), &["*"], KUBERNETES)]
#[case::there_and_ours("acme-a", Labels::new(), &[], None)]
#[case::there_and_ours_but_given_away(
    "acme-a", labelled(&[(plane::ORGANIZATION_NAME, "globex")]), &[], Some("may only name the Release's own")
)]
#[case::there_and_of_another("globex-a", labelled(&[(plane::ORGANIZATION_NAME, "acme")]), &["*"], OTHER)]
#[case::there_and_of_another_by_the_other_label(
    "globex-b", labelled(&[(plane::ORGANIZATION_NAME, "acme")]), &["*"], OTHER
)]
#[case::there_and_claimed("monitoring", labelled(&[(plane::ORGANIZATION_NAME, "acme")]), &[], FOREIGN)]
#[case::there_and_by_glob("monitoring", labelled(&[(plane::ORGANIZATION_NAME, "acme")]), &["moni*"], OPEN)]
#[case::the_default("default", labelled(&[(plane::ORGANIZATION_NAME, "acme")]), &[], FOREIGN)]
#[case::the_default_by_glob("default", Labels::new(), &["default"], OPEN)]
#[case::control_plane("acme", labelled(&[(plane::ORGANIZATION_NAME, "acme")]), &["*"], CONTROL_PLANE)]
#[case::uppercase("ACME-new", labelled(&[(plane::ORGANIZATION_NAME, "acme")]), &["*"], NO_NAME)]
fn a_namespace_is_not_made_ones_own_by_writing_it_into_a_release(
    #[case] name: &str,
    #[case] written: Labels,
    #[case] namespaces: &[&str],
    #[case] expected: Option<&str>,
) {
    // Entries for kinds do not open Namespaces, and lists of other kinds do not close them.
    let policy = ReleasePolicy {
        allowed_kinds: texts(&["Deployment.apps"]),
        cluster_scoped_kinds: texts(&["*", "Namespace"]),
        ..policy(namespaces)
    };
    assert_refused(refused(Some(&policy), namespace(name), &written).as_ref(), expected);
    // Whoever says that Namespaces are in a namespace gets no further.
    let nested = Object { namespaced: true, namespace: "acme-a", ..namespace(name) };
    assert_refused(refused(Some(&policy), nested, &written).as_ref(), expected);
}

#[test]
fn the_default_namespace_stays_everyones_when_it_is_labelled() {
    let labels = Labels::new();
    let asked = in_namespace("Secret", "default").asked(&labels);
    let ours = |_: &str| Some(labelled(&[(plane::ORGANIZATION_NAME, "acme")]));
    assert_refused(refusal(&ACME, None, &asked, &ours).as_ref(), FOREIGN);
    assert_eq!(refusal(&ACME, Some(&policy(&["default"])), &asked, &ours), None);
}

#[rstest]
#[case::there(
    in_namespace("Secret", "monitoring"),
    "have the platform team label it organization-name: acme, or"
)]
#[case::there_as_object(
    namespace("monitoring"),
    "have the platform team label it organization-name: acme, or"
)]
#[case::not_there(namespace("acme-new"), "write the label organization-name: acme on it, or")]
#[case::everyones(in_namespace("Secret", "default"), "acme; have it added to")]
fn the_message_says_how_a_namespace_is_allowed(#[case] object: Object<'_>, #[case] hint: &str) {
    let message = refused(None, object, &Labels::new());
    assert_refused(message.as_ref(), Some(hint));
    assert_refused(message.as_ref(), Some("the data plane's releasePolicy.namespaces"));
}

#[test]
fn the_message_does_not_tell_who_the_other_organization_is() {
    let labels = Labels::new();
    let asked = in_namespace("Secret", "theirs").asked(&labels);
    let message = refusal(&ACME, None, &asked, &|_| Some(labelled(&[(labels::ORGANIZATION, "globex")])));
    assert!(!message.unwrap().contains("globex"));
}

#[test]
fn objects_may_be_in_namespaces_that_the_release_brings_along() {
    let (ours, none) = (labelled(&[(plane::ORGANIZATION_NAME, "acme")]), Labels::new());
    let taken = own_namespace(&Tenant { organization: "globex", ..ACME });
    let release = [
        in_namespace("Secret", "acme-new").asked(&none),
        namespace("acme-new").asked(&ours),
        namespace(&taken).asked(&ours),
        in_namespace("Secret", &taken).asked(&none),
        namespace("monitoring").asked(&ours),
        in_namespace("Secret", "monitoring").asked(&none),
        namespace("plain").asked(&none),
        in_namespace("Secret", "plain").asked(&none),
    ];
    let expected = [None, None, KEPT, KEPT, FOREIGN, FOREIGN, FOREIGN, FOREIGN];
    let messages = refusals(&ACME, None, &release, &live);
    assert_eq!(messages.len(), release.len());
    for (message, expected) in messages.iter().zip(expected) {
        assert_refused(message.as_ref(), expected);
    }
}

#[test]
fn a_namespace_that_the_policy_denies_is_not_brought_along() {
    let (ours, none) = (labelled(&[(plane::ORGANIZATION_NAME, "acme")]), Labels::new());
    let policy = ReleasePolicy { denied_kinds: texts(&["Namespace"]), ..ReleasePolicy::default() };
    let release = [namespace("acme-new").asked(&ours), in_namespace("Secret", "acme-new").asked(&none)];
    let messages = refusals(&ACME, Some(&policy), &release, &live);
    assert_refused(messages[0].as_ref(), Some("deniedKinds"));
    assert_refused(messages[1].as_ref(), FOREIGN);
}

const UNKNOWN_LABEL: Option<&str> = Some("releasePolicy.namespaceLabels");

#[rstest]
#[case::whose(&[(labels::ORGANIZATION, "acme")], &[], None)]
#[case::of_kantor(&[(labels::RELEASE_UID, "uid"), (labels::PROJECT, "shop")], &[], None)]
#[case::describing(&[("app.kubernetes.io/part-of", "shop"), ("kubernetes.io/metadata.name", "acme-new")], &[], None)]
#[case::trusted_by_gateways(&[("shared-gateway-access", "true")], &[], UNKNOWN_LABEL)]
#[case::of_deployments(&[(plane::MANAGED_BY, plane::MANAGED_BY_DEPLOYMENT_CONTROLLER)], &[], UNKNOWN_LABEL)]
#[case::like_a_project(&[(plane::PROJECT_NAME, "x")], &[], UNKNOWN_LABEL)]
#[case::opened(&[("team", "red")], &["team"], None)]
#[case::opened_by_pattern(&[("mesh.example/inject", "yes")], &["mesh.example/*"], None)]
#[case::another_is_opened(&[("teams", "red")], &["team"], UNKNOWN_LABEL)]
#[case::privileged(&[(labels::POD_SECURITY, "privileged")], &[], UNKNOWN_LABEL)]
#[case::warning(&[("pod-security.kubernetes.io/warn", "privileged")], &[], UNKNOWN_LABEL)]
#[case::any_is_not_privileged(&[(labels::POD_SECURITY, "privileged")], &["*", "pod-*", "*/enforce"], UNKNOWN_LABEL)]
#[case::named_privileged(&[(labels::POD_SECURITY, "privileged")], &[labels::POD_SECURITY], None)]
#[case::named_all_of_them(&[(labels::POD_SECURITY, "privileged")], &["pod-security.kubernetes.io/*"], None)]
fn a_namespace_has_labels_that_nobody_trusts_or_that_the_policy_allows(
    #[case] further: &[(&str, &str)],
    #[case] allowed: &[&str],
    #[case] expected: Option<&str>,
) {
    let policy = ReleasePolicy { namespace_labels: texts(allowed), ..ReleasePolicy::default() };
    let mut written = labelled(&[(plane::ORGANIZATION_NAME, "acme")]);
    written.extend(labelled(further));
    for name in ["acme-new", "acme-a", &own_namespace(&ACME)] {
        assert_refused(refused(Some(&policy), namespace(name), &written).as_ref(), expected);
    }
    // Labels of other objects are nobody's business.
    assert_eq!(refused(Some(&policy), in_namespace("ConfigMap", "acme-a"), &written), None);
}
