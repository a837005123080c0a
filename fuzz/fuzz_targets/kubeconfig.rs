//! Kubeconfigs are hostile: whatever the bytes, the parser neither panics nor lets through what it promises not to.
#![no_main]

use kantor::planes::{AddressPolicy, credentials_expiry, parse_kubeconfig};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let policy = AddressPolicy::default();
    match parse_kubeconfig(bytes, &policy) {
        Ok(access) => {
            assert_eq!(access.server.scheme_str(), Some("https"));
            let host = access.server.host().expect("an accepted address has a host");
            assert!(policy.check_host(host).is_ok(), "a host that is not permitted was accepted");
            assert!(access.server.query().is_none());
            assert!(!access.server.authority().is_some_and(|authority| authority.as_str().contains('@')));
            let _ = credentials_expiry(&access);
        }
        Err(refusal) => {
            // Made of our own words: no line breaks, and nothing long.
            let text = refusal.to_string();
            assert!(text.len() < 400 && text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()), "{text}");
        }
    }
});
