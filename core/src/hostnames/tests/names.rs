use std::collections::BTreeMap;

use proptest::prelude::*;
use rstest::rstest;

use super::{
    super::{
        key::{ClaimKey, overlaps},
        name::{normal, spelled},
    },
    claim, key,
};

#[rstest]
#[case::as_it_is("shop.example.com", "shop.example.com")]
#[case::upper_case("SHOP.Example.COM", "shop.example.com")]
#[case::dot_at_its_end("shop.example.com.", "shop.example.com")]
#[case::other_dots("shop\u{3002}example\u{ff0e}com\u{ff61}", "shop.example.com")]
#[case::wide_letters("\u{ff53}hop.example.com", "shop.example.com")]
#[case::wildcard("*.Example.com.", "*.example.com")]
#[case::international("bücher.example", "xn--bcher-kva.example")]
#[case::international_upper_case("BÜCHER.example", "xn--bcher-kva.example")]
#[case::international_in_two_characters("bu\u{308}cher.example", "xn--bcher-kva.example")]
#[case::international_already("XN--bcher-KVA.example", "xn--bcher-kva.example")]
#[case::international_wildcard("*.bücher.example", "*.xn--bcher-kva.example")]
#[case::two_hyphens("r3---sn-4g5e.example.com", "r3---sn-4g5e.example.com")]
#[case::digits("1.2.3.example", "1.2.3.example")]
fn a_host_has_one_spelling(#[case] host: &str, #[case] expected: &str) {
    assert_eq!(normal(host).as_deref(), Ok(expected));
    assert_eq!(normal(expected).as_deref(), Ok(expected), "not the same again");
}

#[rstest]
#[case::nothing("", "before, after or between")]
#[case::a_dot(".", "before, after or between")]
#[case::two_dots("shop..example.com", "before, after or between")]
#[case::two_dots_at_its_end("example.com..", "before, after or between")]
#[case::dot_in_front(".example.com", "before, after or between")]
#[case::only_invisible("\u{ad}.example.com", "before, after or between")]
#[case::one_label("localhost", "needs a domain")]
#[case::star("*", "a star may only be")]
#[case::star_and_nothing("*.", "before, after or between")]
#[case::star_within("a.*.example.com", "a star may only be")]
#[case::star_with_letters("a*.example.com", "a star may only be")]
#[case::two_stars("*.*.example.com", "a star may only be")]
#[case::wide_star("\u{ff0a}.example.com", "is no host name")]
#[case::all_of_a_top_level_domain("*.com", "top-level")]
#[case::address("10.0.0.1", "IP address")]
#[case::wide_address("１0.0.0.1", "IP address")]
#[case::short_address("127.1", "IP address")]
#[case::hexadecimal_address("127.0.0.0x1", "IP address")]
#[case::address_of_six("[2001:db8::1]", "is no host name")]
#[case::wildcard_of_addresses("*.0.0.1", "IP address")]
#[case::space("shop example.com", "is no host name")]
#[case::underscore("a_b.example.com", "is no host name")]
#[case::port("example.com:443", "is no host name")]
#[case::path("example.com/shop", "is no host name")]
#[case::nul("a\0.example.com", "is no host name")]
#[case::hyphen_in_front("-a.example.com", "is no host name")]
#[case::hyphen_at_the_end("a-.example.com", "is no host name")]
#[case::not_punycode("xn--a.example.com", "is no host name")]
fn what_is_no_host_name_is_refused(#[case] host: &str, #[case] why: &str) {
    let error = normal(host).unwrap_err();
    assert!(error.contains(why), "{error}");
}

#[test]
fn a_host_name_has_limits() {
    let label = "a".repeat(63);
    let longest = format!("{label}.{label}.{label}.{}", "b".repeat(61));
    assert_eq!(normal(&format!("{longest}.")), Ok(longest.clone()));
    assert!(normal(&format!("{longest}b")).unwrap_err().contains("253"));
    assert!(normal(&format!("a{label}.example.com")).unwrap_err().contains("63"));
    // Short as it is written, too long as it is sent.
    assert!(normal(&format!("{}.example.com", "ü".repeat(63))).unwrap_err().contains("63"));
}

#[test]
fn hosts_that_are_provided_may_be_one_label_or_an_address() {
    assert_eq!(spelled("LocalHost."), Ok("localhost".to_owned()));
    assert_eq!(spelled("10.0.0.1"), Ok("10.0.0.1".to_owned()));
}

#[rstest]
#[case::host("Shop.Example.com", "shop.example.com", "shop.example.com")]
#[case::part(
    "apis.example.com/Shop/cart/",
    "apis.example.com/Shop/cart",
    "apis-example-com-shop-cart-302a4a7c352e3c0a"
)]
#[case::all_of_a_provided_host("apis.example.com/", "apis.example.com", "apis-example-com-47c45e7b4778647b")]
#[case::wildcard("*.example.com", "*.example.com", "wildcard-example-com-a00f57bbade2a003")]
fn a_claim_is_named_after_its_host(#[case] host: &str, #[case] shown: &str, #[case] name: &str) {
    assert_eq!((key(host).shown().as_str(), key(host).name().as_str()), (shown, name));
    assert_eq!(ClaimKey::of(&claim("acme/shop", host, 1)), key(host));
}

#[test]
fn clusters_and_parts_have_claims_of_their_own() {
    let of = |path: Option<&str>, cluster: Option<&str>| ClaimKey {
        hostname: "apis.example.com".into(),
        path_prefix: path.map(Into::into),
        cluster_uid: cluster.map(Into::into),
    };
    let keys = [
        of(None, None),
        of(Some("/a"), None),
        of(None, Some("/a")),
        of(Some("/a"), Some("b")),
        of(Some("/a-b"), None),
    ];
    let names: std::collections::BTreeSet<String> = keys.iter().map(ClaimKey::name).collect();
    assert_eq!(names.len(), keys.len());
}

fn host() -> impl Strategy<Value = String> {
    let label = prop_oneof![4 => "[a-c]", 2 => "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", 1 => "[a-z]{40,63}"];
    let labels = prop::collection::vec(label, 1..5).prop_map(|labels| labels.join("."));
    (prop::bool::ANY, labels).prop_map(|(star, base)| if star { format!("*.{base}") } else { base })
}

fn any_key() -> impl Strategy<Value = ClaimKey> {
    let path = prop::option::of("(/[a-b]){1,3}");
    let any = (host(), path, prop::option::of("[ab]"));
    any.prop_map(|(hostname, path_prefix, cluster_uid)| ClaimKey { hostname, path_prefix, cluster_uid })
}

proptest! {
    #[test]
    fn names_of_claims_are_names_of_objects_and_tell_keys_apart(keys in prop::collection::vec(any_key(), 1..8)) {
        let mut seen = BTreeMap::new();
        for key in keys {
            let name = key.name();
            prop_assert!(name.len() <= 253);
            let part = |part: &str| {
                let ends = |byte: Option<u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
                ends(part.bytes().next()) && ends(part.bytes().last())
                    && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            };
            prop_assert!(name.split('.').all(part), "{name}");
            // A host that is named like the claim of another has another name itself.
            if name != key.hostname {
                let impostor = ClaimKey { hostname: name.clone(), path_prefix: None, cluster_uid: None };
                prop_assert_ne!(impostor.name(), name.clone());
                prop_assert!(ClaimKey::custom(&name).is_err());
            }
            if let Some(other) = seen.insert(name, key.clone()) {
                prop_assert_eq!(other, key);
            }
        }
    }

    #[test]
    fn overlapping_goes_both_ways(a in any_key(), b in any_key()) {
        prop_assert!(overlaps(&a, &a));
        prop_assert_eq!(overlaps(&a, &b), overlaps(&b, &a));
    }

    #[test]
    fn what_is_between_two_parts_of_something_is_part_of_it(mut hosts in prop::collection::vec(host(), 4..12)) {
        // This is what claiming in order rests on.
        hosts.retain(|host| normal(host).is_ok());
        let mut keys: Vec<ClaimKey> = hosts.iter().map(|host| ClaimKey::custom(host).unwrap()).collect();
        keys.sort();
        for whole in &keys {
            let parts: Vec<bool> = keys.iter().filter(|key| *key >= whole).map(|key| overlaps(whole, key)).collect();
            prop_assert!(parts.is_sorted_by(|a, b| a >= b), "{} in {keys:?}", whole.hostname);
        }
    }

    #[test]
    fn every_spelling_is_the_same_again(host in "\\PC{0,20}(\\.\\PC{0,5}){0,3}") {
        if let Ok(name) = normal(&host) {
            prop_assert_eq!(normal(&name), Ok(name.clone()));
            prop_assert_eq!(normal(&host.to_uppercase()).is_ok() && !host.is_ascii() || normal(&host.to_ascii_uppercase()) == Ok(name), true);
        }
    }
}

#[rstest]
#[case::same("a.example.com", "a.example.com", true)]
#[case::siblings("a.example.com", "b.example.com", false)]
#[case::below("example.com", "a.example.com", false)]
#[case::wildcard("*.example.com", "a.example.com", true)]
#[case::wildcard_deep("*.example.com", "a.b.example.com", true)]
#[case::wildcard_not_its_domain("*.example.com", "example.com", false)]
#[case::wildcard_not_a_longer_word("*.example.com", "a.myexample.com", false)]
#[case::wildcard_of_a_longer_word("*.example.com", "*.myexample.com", false)]
#[case::wildcard_in_wildcard("*.example.com", "*.a.example.com", true)]
#[case::wildcards_apart("*.a.example.com", "*.b.example.com", false)]
#[case::wildcard_and_part("*.example.com", "a.example.com/shop", true)]
#[case::part("a.example.com/shop", "a.example.com/shop/cart", true)]
#[case::all_of_the_host("a.example.com/", "a.example.com/shop", true)]
#[case::parts_apart("a.example.com/shop", "a.example.com/cart", false)]
#[case::not_a_whole_segment("a.example.com/shop", "a.example.com/shopping", false)]
#[case::case_counts_in_paths("a.example.com/shop", "a.example.com/Shop", false)]
fn hosts_overlap_where_one_request_is_meant_by_both(
    #[case] a: &str,
    #[case] b: &str,
    #[case] expected: bool,
) {
    assert_eq!(overlaps(&key(a), &key(b)), expected);
    assert_eq!(overlaps(&key(b), &key(a)), expected);
}

#[test]
fn clusters_do_not_overlap() {
    let on = |cluster: &str| ClaimKey::provided("apis.example.com", "/shop", cluster).unwrap();
    assert!(!overlaps(&on("a"), &on("b")));
    // A claim without a cluster is about all of them.
    assert!(overlaps(&on("a"), &key("apis.example.com")));
}
