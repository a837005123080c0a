use super::*;

const STRICT: AddressPolicy = AddressPolicy { allow_loopback: false };
const LOOPBACK: AddressPolicy = AddressPolicy { allow_loopback: true };

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address of the table")
}

#[test]
fn addresses_that_answer_only_because_of_where_the_operator_runs_are_refused() {
    for text in [
        "0.0.0.0",
        "0.1.2.3",
        "169.254.169.254",
        "169.254.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "224.0.0.1",
        "239.255.255.255",
        "255.255.255.255",
        "::",
        "fe80::1",
        "febf::1",
        "ff02::1",
        "fd00:ec2::254",
        "fd20:ce::254",
        "fd00:c1::a9fe:a9fe",
        "::ffff:169.254.169.254",
        "::ffff:0:169.254.169.254",
        "::169.254.169.254",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::169.254.169.254",
        "2002:a9fe:a9fe::1",
        "::ffff:0.0.0.0",
        "::ffff:224.0.0.1",
        "::ffff:255.255.255.255",
    ] {
        for policy in [STRICT, LOOPBACK] {
            assert!(!policy.permits(ip(text)), "{text}");
            assert!(policy.check_host(text).is_err(), "{text} as a host");
        }
    }
}

#[test]
fn loopback_is_refused_unless_it_is_allowed() {
    for text in
        ["127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::127.0.0.1"]
    {
        assert!(!STRICT.permits(ip(text)), "{text}");
        assert!(STRICT.check_host(text).is_err(), "{text} as a host");
        assert!(LOOPBACK.permits(ip(text)), "{text} when allowed");
        assert_eq!(LOOPBACK.check_host(text), Ok(()), "{text} as a host when allowed");
    }
    for name in ["localhost", "LocalHost", "localhost.", "a.localhost", "A.b.LOCALHOST."] {
        assert!(STRICT.check_host(name).is_err(), "{name}");
        assert_eq!(LOOPBACK.check_host(name), Ok(()), "{name} when allowed");
    }
}

#[test]
fn addresses_where_clusters_are_are_permitted() {
    for text in [
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "203.0.113.7",
        "1.2.3.4",
        "2001:db8::1",
        "fd00::1",
        "::ffff:10.0.0.1",
        "64:ff9b::10.0.0.1",
    ] {
        assert!(STRICT.permits(ip(text)), "{text}");
        assert_eq!(STRICT.check_host(text), Ok(()), "{text} as a host");
    }
    for host in [
        "api.example.com",
        "api.example.com.",
        "xn--bcher-kva.example",
        "[2001:db8::1]",
        "a_b.example",
        "plane",
    ] {
        assert_eq!(STRICT.check_host(host), Ok(()), "{host}");
    }
}

#[test]
fn odd_spellings_of_addresses_are_refused_even_where_loopback_is_allowed() {
    for host in [
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0X7F.0.0.1",
        "127.1",
        "127.0.1",
        "0177.0.0.1",
        "017700000001",
        "127.0.0.1.",
        "127.0.0.01",
        "127.0.0.0x",
        "2852039166",
        "169.254.43518",
        "1.2.3.4.5",
        "999.1.1.1",
        "name.0x7f",
        "name.1",
    ] {
        assert!(LOOPBACK.check_host(host).is_err(), "{host}");
    }
}

#[test]
fn what_is_neither_a_name_nor_an_address_is_refused() {
    for host in [
        "",
        ".",
        "..",
        "a..b",
        "-a",
        "a b",
        "a%41",
        "exämple",
        "１２７.0.0.1",
        "a@b",
        "a/b",
        "a\\b",
        "a\0b",
        "[::1",
        "::1]",
        "[]",
        "[10.0.0.1]",
        "[api.example.com]",
        "fe80::1%eth0",
        "[fe80::1%25eth0]",
        "2001:db8::1%1",
        "metadata.google.internal",
        "Metadata.Google.Internal.",
        "instance-data",
    ] {
        assert!(LOOPBACK.check_host(host).is_err(), "{host:?}");
    }
    assert!(STRICT.check_host(&"a".repeat(64)).is_err(), "a label of 64 characters");
    assert!(STRICT.check_host(&["a"; 200].join(".")).is_err(), "a name of 399 characters");
}

#[test]
fn a_reason_never_repeats_the_host() {
    for host in ["canary-0x7f.1", "canary:::", "canary@x", "canary.localhost", "[canary"] {
        let why = STRICT.check_host(host).expect_err(host);
        assert!(!why.contains("canary"), "{why}");
    }
}
