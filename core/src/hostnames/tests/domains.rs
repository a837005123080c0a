use rstest::rstest;

use super::super::domains::{allowed, check};

fn list(entries: &str) -> Vec<String> {
    entries.split_whitespace().map(ToOwned::to_owned).collect()
}

#[rstest]
#[case::no_rules("shop.example.com", "", "", "", None)]
#[case::denied_host("shop.example.com", "", "shop.example.com", "", Some("\"shop.example.com\" is denied"))]
#[case::denied_host_only("a.shop.example.com", "", "shop.example.com", "", None)]
#[case::denied_below("a.corp.example", "", ".corp.example", "", Some("\".corp.example\" is denied"))]
#[case::denied_far_below("a.b.corp.example", "", ".corp.example", "", Some("is denied"))]
#[case::denied_itself("corp.example", "", ".corp.example", "", Some("is denied"))]
#[case::not_a_longer_word("mycorp.example", "", ".corp.example", "", None)]
#[case::denied_spelled_otherwise("Corp.Example.", "", ".CORP.example.", "", Some("is denied"))]
#[case::denied_international("xn--bcher-kva.example", "", ".bücher.example", "", Some("is denied"))]
#[case::denied_wildcard("*.corp.example", "", ".corp.example", "", Some("is denied"))]
#[case::wildcard_over_denied_host("*.corp.example", "", "a.corp.example", "", Some("is denied"))]
#[case::wildcard_over_denied_domain("*.corp.example", "", ".a.corp.example", "", Some("is denied"))]
#[case::wildcard_over_denied_wildcard("*.corp.example", "", "*.a.corp.example", "", Some("is denied"))]
#[case::wildcard_next_to_denied_host("*.corp.example", "", "corp.example", "", None)]
#[case::entry_with_a_star("a.corp.example", "", "*.corp.example", "", Some("is denied"))]
#[case::entry_with_a_star_not_itself("corp.example", "", "*.corp.example", "", None)]
#[case::denied_top_level("a.corp.internal", "", ".internal", "", Some("is denied"))]
#[case::denied_unreadable("shop.example.com", "", "corp..example", "", Some("cannot be read"))]
#[case::allowed_host("shop.example.com", "shop.example.com", "", "", None)]
#[case::allowed_host_only(
    "a.shop.example.com",
    "shop.example.com",
    "",
    "",
    Some("none of the allowed domains")
)]
#[case::allowed_below("a.b.example.com", "other.example .example.com", "", "", None)]
#[case::allowed_itself("example.com", ".example.com", "", "", None)]
#[case::allowed_wildcard("*.example.com", ".example.com", "", "", None)]
#[case::wildcard_over_allowed_host(
    "*.example.com",
    "a.example.com",
    "",
    "",
    Some("none of the allowed domains")
)]
#[case::wildcard_over_allowed_domain(
    "*.example.com",
    ".a.example.com",
    "",
    "",
    Some("none of the allowed domains")
)]
#[case::allowed_unreadable("shop.example.com", "example..com", "", "", Some("none of the allowed domains"))]
#[case::denied_wins("a.example.com", ".example.com", "a.example.com", "", Some("is denied"))]
#[case::denied_wins_exactly("a.example.com", "a.example.com", ".example.com", "", Some("is denied"))]
#[case::provided_itself("apis.example.com", "", "", "apis.example.com", Some("provided by a data plane"))]
#[case::provided_below("dev.apis.example.com", "", "", "APIs.example.com.", Some("provided by a data plane"))]
#[case::provided_over("*.example.com", "", "", "apis.example.com", Some("provided by a data plane"))]
#[case::provided_wildcard("apps.example.com", "", "", "*.apps.example.com", Some("provided by a data plane"))]
#[case::provided_next_to_it("shop.example.com", "", "", "apis.example.com apps.example.com", None)]
#[case::provided_though_allowed(
    "a.apis.example.com",
    ".example.com",
    "",
    "apis.example.com",
    Some("provided")
)]
#[case::provided_nonsense("shop.example.com", "", "", "apis..example.com", None)]
#[case::no_host("10.0.0.1", "", "", "", Some("IP address"))]
fn hosts_are_allowed_by_domain(
    #[case] host: &str,
    #[case] allow: &str,
    #[case] deny: &str,
    #[case] provided: &str,
    #[case] why: Option<&str>,
) {
    let answer = allowed(host, &list(allow), &list(deny), &list(provided));
    match (answer, why) {
        (Ok(()), None) => {}
        (Err(error), Some(why)) => assert!(error.contains(why), "{error}"),
        (answer, _) => panic!("{answer:?}"),
    }
}

#[test]
fn a_refusal_names_the_host_and_the_rule() {
    let error = allowed("A.corp.example", &[], &list(".corp.example"), &[]).unwrap_err();
    assert_eq!(
        error,
        r#"the host name "a.corp.example" is not allowed: the domain ".corp.example" is denied"#
    );
}

#[rstest]
#[case("corp.example", true)]
#[case(".corp.example", true)]
#[case(".internal", true)]
#[case("*.corp.example", true)]
#[case(".*.corp.example", false)]
#[case(".", false)]
#[case("", false)]
#[case("*", false)]
#[case("..corp.example", false)]
fn entries_can_be_checked(#[case] entry: &str, #[case] good: bool) {
    assert_eq!(check(entry).is_ok(), good);
}
