use proptest::prelude::*;
use rstest::rstest;

use super::*;

const TARGETS: Allowed<'_> = Allowed { domains: &[], list: "gateway.targetDomains", plain: true };
const KEYS: Allowed<'_> = Allowed { domains: &[], list: "gateway.keyDomains", plain: false };

fn list(entries: &[&str]) -> Vec<String> {
    entries.iter().map(|entry| (*entry).to_owned()).collect()
}

#[rstest]
#[case("https://login.example.com/keys?v=2", "https://login.example.com/keys?v=2")]
#[case("https://LOGIN.example.com.:8443/keys", "https://login.example.com:8443/keys")]
#[case("https://203.0.113.7/", "https://203.0.113.7/")]
#[case("https://[2001:DB8::1]:444/k", "https://[2001:db8::1]:444/k")]
fn what_is_outside_is_put_together_as_it_was_read(#[case] url: &str, #[case] again: &str) {
    assert_eq!(outside(url, KEYS).map(|address| address.url()).as_deref(), Ok(again));
}

#[rstest]
#[case("http://login.example.com/keys", "https://")]
#[case("https://login.example.com#x", "URL")]
#[case("https://a.example\\@b.example/", "characters")]
#[case("https://a.example:0/", "port")]
#[case("https://u:p@a.example/", "password")]
#[case("https:///keys", "URL")]
#[case("ftp://a.example", "http")]
fn an_address_that_is_no_good_says_why(#[case] url: &str, #[case] says: &str) {
    match outside(url, KEYS) {
        Err(why) => assert!(why.contains(says), "{why}"),
        // A fragment is nobody's but the browser's: it is dropped.
        Ok(address) => assert_eq!(address.url(), "https://login.example.com/"),
    }
}

#[test]
fn with_a_list_only_what_is_in_it_is_allowed() {
    let domains = list(&[".corp.internal", "login.example.com", "10.1.2.3", "169.254.169.254", "localhost"]);
    let allowed = Allowed { domains: &domains, ..TARGETS };
    for good in
        ["https://a.b.corp.internal", "https://corp.internal", "https://login.example.com", "http://10.1.2.3"]
    {
        assert!(outside(good, allowed).is_ok(), "{good}");
    }
    for bad in [
        "https://example.com",
        "https://a.login.example.com",
        "https://xcorp.internal",
        "https://10.1.2.4",
        "https://203.0.113.7",
        // Never, whoever lists them.
        "http://169.254.169.254",
        "http://localhost",
    ] {
        assert!(outside(bad, allowed).is_err(), "{bad}");
    }
}

#[test]
fn keys_come_by_plain_http_only_from_hosts_that_are_listed_so() {
    let domains = list(&["http://keycloak.auth.svc", "login.example.com"]);
    let allowed = Allowed { domains: &domains, ..KEYS };
    assert!(outside("http://keycloak.auth.svc:8080/keys", allowed).is_ok());
    assert!(outside("https://login.example.com/keys", allowed).is_ok());
    assert!(outside("http://login.example.com/keys", allowed).is_err());
    assert!(outside("https://keycloak.auth.svc/keys", allowed).is_err());
}

/// Every way to write an IPv4 address that some resolver understands.
fn spellings(ip: std::net::Ipv4Addr) -> Vec<String> {
    let [a, b, c, d] = ip.octets();
    let bits = ip.to_bits();
    vec![
        ip.to_string(),
        format!("{ip}."),
        bits.to_string(),
        format!("0x{bits:x}"),
        format!("0X{bits:08X}"),
        format!("0{bits:o}"),
        format!("{a}.{}", bits & 0x00ff_ffff),
        format!("{a}.{b}.{}", bits & 0xffff),
        format!("0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}"),
        format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
        format!("0{a:o}.{b}.{c}.0x{d:x}"),
        format!("[::ffff:{ip}]"),
        format!("[::{ip}]"),
        format!("[64:ff9b::{ip}]"),
        format!("[2002:{:x}:{:x}::1]", bits >> 16, bits & 0xffff),
    ]
}

proptest! {
    /// However an address inside is written, it is inside.
    #[test]
    fn no_spelling_of_an_address_inside_passes(
        net in prop::sample::select(vec![
            (10_u32 << 24, 8), (127 << 24, 8), (0, 8), (0xa9fe_0000, 16), (0xac10_0000, 12), (0xc0a8_0000, 16),
            (0x6440_0000, 10), (0xc000_0000, 24), (0xa83f_8110, 32), (0xe000_0000, 4), (0xf000_0000, 4),
        ]),
        host in any::<u32>(),
    ) {
        let (prefix, length) = net;
        let mask = u32::MAX.checked_shr(length).unwrap_or(0);
        let ip = std::net::Ipv4Addr::from_bits(prefix | host & mask);
        for spelling in spellings(ip) {
            for allowed in [TARGETS, KEYS] {
                prop_assert!(outside(&format!("https://{spelling}/x"), allowed).is_err(), "{}", spelling);
            }
        }
    }

    /// Whatever is written: what passes is a public address, or a name, and reads the same when it is read again.
    #[test]
    fn what_passes_reads_the_same_again(url in "https?://[a-z0-9.:@\\[\\]%x-]{1,24}(/[a-z.]{0,6})?(\\?[a-z]{0,3})?") {
        if let Ok(address) = outside(&url, TARGETS) {
            prop_assert_eq!(outside(&address.url(), TARGETS), Ok(address.clone()));
            if let Host::Ip(ip) = address.host {
                prop_assert!(is_public(ip));
            }
        }
    }
}
