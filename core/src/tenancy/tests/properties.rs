use proptest::{
    collection::{btree_map, vec},
    option,
    prelude::*,
    sample::select,
};

use super::{
    super::patterns::{glob, glob_for},
    *,
};

/// What a pattern means, said as plainly as possible: each `*` tries every length.
fn meant(pattern: &[char], text: &[char]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some(('*', rest)) => (0..=text.len()).any(|taken| meant(rest, &text[taken..])),
        Some((literal, rest)) => text.first() == Some(literal) && meant(rest, &text[1..]),
    }
}

fn chars(text: &str) -> Vec<char> {
    text.chars().collect()
}

/// Entries that open much, among others that are anything.
fn entries() -> impl Strategy<Value = Vec<String>> {
    let wide = select(vec![
        "*",
        "**",
        "*.*",
        "*-*",
        "kube-*",
        "kube*",
        "{organization}*",
        "*{organization}*",
        "ConfigMap",
        "Namespace",
        "*.apps",
        "*.rbac.authorization.k8s.io",
        "globex*",
        "default",
        "dp-*",
    ]);
    vec(prop_oneof![3 => wide.prop_map(str::to_owned), 1 => any::<String>()], 0..5)
}

fn policies() -> impl Strategy<Value = Option<ReleasePolicy>> {
    let policy = (entries(), vec("[A-Z*.]{0,3}", 0..2), entries(), entries());
    option::of(policy.prop_map(|(allowed_kinds, denied_kinds, cluster_scoped_kinds, namespaces)| {
        ReleasePolicy {
            allowed_kinds,
            denied_kinds,
            cluster_scoped_kinds,
            namespaces,
            ..ReleasePolicy::default()
        }
    }))
}

/// Labels that matter, with values that matter, among others that are anything.
fn some_labels() -> impl Strategy<Value = Labels> {
    let keys = select(vec![plane::ORGANIZATION_NAME, labels::ORGANIZATION, labels::MANAGED_BY, "app"]);
    let values = select(vec!["acme", "globex", "", labels::MANAGED_BY_CONTROL_PLANE]);
    let key = prop_oneof![4 => keys.prop_map(str::to_owned), 1 => any::<String>()];
    let value = prop_oneof![4 => values.prop_map(str::to_owned), 1 => any::<String>()];
    btree_map(key, value, 0..4)
}

/// An object in the namespace, or the Namespace itself.
fn object(name: &str, itself: bool) -> Object<'_> {
    if itself { namespace(name) } else { in_namespace("ConfigMap", name) }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2048) })]

    #[test]
    fn patterns_are_matched_as_they_are_meant(pattern in "[abü*]{0,8}", text in "[abü]{0,10}") {
        prop_assert_eq!(glob(&pattern, &text), meant(&chars(&pattern), &chars(&text)));
    }

    #[test]
    fn an_organization_is_put_into_a_pattern_as_text(
        before in "[ab*]{0,4}",
        organization in "[ab*{}]{0,4}",
        after in "[ab*]{0,4}",
        text in "[ab*{}]{0,8}",
    ) {
        let expected = (0..=text.len()).any(|at| {
            meant(&chars(&before), &chars(&text[..at]))
                && text[at..]
                    .strip_prefix(&organization)
                    .is_some_and(|rest| meant(&chars(&after), &chars(rest)))
        });
        let pattern = format!("{before}{{organization}}{after}");
        prop_assert_eq!(glob_for(&pattern, &organization, &text), expected);
        // A name without wildcards may as well be written into the pattern.
        let literal = organization.replace('*', "c");
        let plain = format!("{before}{literal}{after}");
        prop_assert_eq!(glob_for(&pattern, &literal, &text), meant(&chars(&plain), &chars(&text)));
    }

    #[test]
    fn nothing_that_is_written_makes_it_panic(
        tenant in any::<(String, String, String)>(),
        policy in policies(),
        (group, kind, namespaced) in any::<(String, String, bool)>(),
        (namespace, name) in any::<(String, String)>(),
        written in some_labels(),
        live in option::of(some_labels()),
    ) {
        let tenant = Tenant { organization: &tenant.0, project: &tenant.1, environment: &tenant.2 };
        let asked = Asked {
            group: &group, kind: &kind, namespaced, namespace: &namespace, name: &name, labels: &written,
        };
        let alone = refusal(&tenant, policy.as_ref(), &asked, &|_| live.clone());
        let together = refusals(&tenant, policy.as_ref(), &[asked], &|_| live.clone());
        prop_assert_eq!([alone], together.as_slice());
    }

    #[test]
    fn namespaces_of_kubernetes_are_never_allowed(
        name in "kube-[a-z0-9-]{0,6}",
        itself: bool,
        policy in policies(),
        written in some_labels(),
        live in option::of(some_labels()),
    ) {
        let asked = object(&name, itself).asked(&written);
        prop_assert!(refusal(&ACME, policy.as_ref(), &asked, &|_| live.clone()).is_some());
    }

    #[test]
    fn namespaces_that_are_labelled_for_others_are_never_allowed(
        name in prop_oneof!["[a-z]{1,3}", Just(own_namespace(&ACME)), Just("acme-a".to_owned())],
        itself: bool,
        policy in policies(),
        written in some_labels(),
        mut live in some_labels(),
        key in select(vec![plane::ORGANIZATION_NAME, labels::ORGANIZATION]),
        other in "[a-z]{0,6}".prop_filter("another organization", |name| name != "acme"),
    ) {
        live.insert(key.to_owned(), other);
        let asked = object(&name, itself).asked(&written);
        prop_assert!(refusal(&ACME, policy.as_ref(), &asked, &|_| Some(live.clone())).is_some());
    }

    #[test]
    fn namespaces_of_the_control_plane_are_never_allowed(
        name in prop_oneof!["[a-z]{1,3}", Just(own_namespace(&ACME)), Just("acme".to_owned())],
        itself: bool,
        policy in policies(),
        written in some_labels(),
        mut live in some_labels(),
    ) {
        live.insert(labels::MANAGED_BY.to_owned(), labels::MANAGED_BY_CONTROL_PLANE.to_owned());
        let asked = object(&name, itself).asked(&written);
        prop_assert!(refusal(&ACME, policy.as_ref(), &asked, &|_| Some(live.clone())).is_some());
    }

    #[test]
    fn what_a_release_writes_does_not_open_a_namespace_that_exists(
        name in "[a-z]{1,3}",
        itself: bool,
        policy in policies(),
        written in some_labels(),
        live in some_labels(),
    ) {
        let none = Labels::new();
        let sight = |_: &str| Some(live.clone());
        let unlabelled = refusal(&ACME, policy.as_ref(), &object(&name, itself).asked(&none), &sight);
        let labelled = refusal(&ACME, policy.as_ref(), &object(&name, itself).asked(&written), &sight);
        prop_assert!(unlabelled.is_none() || labelled.is_some());
    }

    #[test]
    fn a_refusal_names_the_kind_and_the_object(
        kind in "[A-Z][A-Za-z]{0,8}",
        group in "[a-z.]{0,6}",
        name in "[a-z0-9][a-z0-9.-]{0,8}",
        namespaced: bool,
        namespace in "[a-z-]{0,4}",
        policy in policies(),
    ) {
        let none = Labels::new();
        let asked = Asked {
            group: &group, kind: &kind, namespaced, namespace: &namespace, name: &name, labels: &none,
        };
        if let Some(message) = refusal(&ACME, policy.as_ref(), &asked, &|_| None) {
            let start = format!("{kind} {name}: ");
            prop_assert!(message.starts_with(&start), "{}", message);
        }
    }
}
