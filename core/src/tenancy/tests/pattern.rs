use std::time::{Duration, Instant};

use rstest::rstest;

use super::super::patterns::{glob, glob_for, kind_matches, names};

#[rstest]
#[case("", "", true)]
#[case("", "a", false)]
#[case("a", "a", true)]
#[case("a", "", false)]
#[case("a", "ab", false)]
#[case("a", "A", false)]
#[case("*", "", true)]
#[case("*", "anything", true)]
#[case("**", "", true)]
#[case("a*", "a", true)]
#[case("a*", "ba", false)]
#[case("*a", "ba", true)]
#[case("*a", "ab", false)]
#[case("*a*", "bab", true)]
#[case("*a*", "bb", false)]
#[case("a*b", "ab", true)]
#[case("a*b", "a-b-b", true)]
#[case("a*b", "b-a", false)]
#[case::ends_share_no_text("ab*ba", "aba", false)]
#[case::ends_share_no_text_when_there_is_enough("ab*ba", "abba", true)]
#[case::middles_share_no_text("*ab*ba*", "aba", false)]
#[case::in_order("*a*b*", "ba", false)]
#[case::last_one_wins("*ab", "abab", true)]
#[case::not_a_question_mark("?", "a", false)]
#[case::not_a_class("[a]", "a", false)]
#[case::text_with_a_star("a", "*", false)]
#[case::of_more_than_bytes("ü*ß", "üöäß", true)]
fn a_star_stands_for_any_text(#[case] pattern: &str, #[case] text: &str, #[case] expected: bool) {
    assert_eq!(glob(pattern, text), expected);
}

#[rstest]
#[case("{organization}-*", "acme", "acme-tools", true)]
#[case("{organization}-*", "acme", "globex-tools", false)]
#[case("{organization}-*", "acme", "{organization}-tools", false)]
#[case("*-{organization}", "acme", "tools-acme", true)]
#[case("{organization}*{organization}", "a", "a", false)]
#[case("{organization}{organization}", "a", "aa", true)]
#[case::a_star_in_the_name_is_a_star("{organization}", "*", "globex", false)]
#[case::a_star_in_the_name_is_itself("{organization}", "*", "*", true)]
#[case::a_placeholder_in_the_name_is_text("{organization}", "{organization}", "{organization}", true)]
#[case::not_torn("{organ*ization}", "acme", "acme", false)]
#[case::case_counts("{Organization}", "acme", "acme", false)]
#[case::without_it("tools-*", "acme", "tools-a", true)]
fn the_organization_is_put_in_as_it_is(
    #[case] pattern: &str,
    #[case] organization: &str,
    #[case] text: &str,
    #[case] expected: bool,
) {
    assert_eq!(glob_for(pattern, organization, text), expected);
}

#[rstest]
#[case("Deployment.apps", "apps", "Deployment", true)]
#[case("Deployment.apps", "apps", "StatefulSet", false)]
#[case("Deployment.apps", "extensions", "Deployment", false)]
#[case("deployment.apps", "apps", "Deployment", false)]
#[case("Deployment.Apps", "apps", "Deployment", false)]
#[case("Deployment", "apps", "Deployment", false)]
#[case("Deployment.", "apps", "Deployment", false)]
#[case(".apps", "apps", "Deployment", false)]
#[case("Secret", "", "Secret", true)]
#[case("Secret.", "", "Secret", true)]
#[case("Secret.v1", "", "Secret", false)]
#[case("S*", "", "Secret", true)]
#[case("S*", "apps", "StatefulSet", false)]
#[case("*.apps", "apps", "Deployment", true)]
#[case("*.apps", "my.apps", "Deployment", false)]
#[case("*.apps", "apps.example.com", "Deployment", false)]
#[case("*.apps", "", "apps", false)]
#[case("*Set.apps", "apps", "DaemonSet", true)]
#[case("*.*.k8s.io", "rbac.authorization.k8s.io", "Role", true)]
#[case("Role.rbac.*", "rbac.authorization.k8s.io", "Role", true)]
#[case("*", "", "Secret", true)]
#[case("*", "apps", "Deployment", true)]
#[case::two_say_the_same("**", "apps", "Deployment", true)]
#[case("*.*", "apps", "Deployment", true)]
#[case("*.*", "", "Secret", true)]
#[case("", "", "Secret", false)]
#[case::a_dot_does_not_move("A.b", "", "A.b", false)]
fn a_kind_is_matched_by_its_name_and_group(
    #[case] pattern: &str,
    #[case] group: &str,
    #[case] kind: &str,
    #[case] expected: bool,
) {
    assert_eq!(kind_matches(pattern, group, kind), expected);
}

#[rstest]
#[case("Role.rbac.authorization.k8s.io", true)]
#[case("*.rbac.authorization.k8s.io", true)]
#[case("*", false)]
#[case("**", false)]
#[case("*.*", false)]
#[case("*.rbac.*", false)]
#[case("*rbac.authorization.k8s.io", false)]
fn a_group_is_named_by_all_of_its_letters(#[case] pattern: &str, #[case] expected: bool) {
    assert_eq!(names(pattern, "rbac.authorization.k8s.io", "Role"), expected);
}

#[rstest]
#[case("Endpoints", true)]
#[case("*", false)]
#[case("Endpoint*", false)]
#[case("Secret", false)]
#[case("*.", false)]
#[case("Endpoints.", false)]
#[case("", false)]
fn a_kind_of_the_core_group_is_named_by_all_of_its_letters(#[case] pattern: &str, #[case] expected: bool) {
    assert_eq!(names(pattern, "", "Endpoints"), expected);
}

#[test]
fn hostile_patterns_take_no_longer_than_others() {
    let text = "a".repeat(20_000);
    let started = Instant::now();
    for pattern in ["*a".repeat(9_000) + "*b", "*a".repeat(9_000) + "*b*", "*aaaaaaab".repeat(2_000) + "*"] {
        assert!(!glob(&pattern, &text));
    }
    assert!(glob(&("*a".repeat(20_000) + "*"), &text));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}
