//! Whatever the bytes: no panic, and nothing is accepted that must not be.

use proptest::prelude::*;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use secrecy::ExposeSecret;

use super::fixtures::*;
use crate::planes::{Auth, credentials_expiry};

/// Checks what every accepted and every refused document must be.
fn check(document: &[u8]) -> Result<bool, TestCaseError> {
    let access = match parse(document) {
        Ok(access) => access,
        Err(refusal) => {
            let said = refusal.to_string();
            prop_assert!(said.len() < 400 && !said.contains(TOKEN), "{said}");
            prop_assert!(said.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()), "{said}");
            return Ok(false);
        }
    };
    let server = &access.server;
    prop_assert_eq!(server.scheme_str(), Some("https"));
    prop_assert_eq!(POLICY.check_host(server.host().unwrap_or_default()), Ok(()));
    prop_assert!(server.query().is_none());
    prop_assert!(server.port_u16() != Some(0));
    if let Some(ca) = &access.ca_pem {
        prop_assert!(CertificateDer::from_pem_slice(ca.as_bytes()).is_ok());
    }
    match &access.auth {
        Auth::Token(token) => {
            let header = http::HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()));
            prop_assert!(header.is_ok() && !token.expose_secret().is_empty());
        }
        Auth::ClientCertificate { certificate_pem, key_pem } => {
            prop_assert!(CertificateDer::from_pem_slice(certificate_pem.expose_secret().as_bytes()).is_ok());
            let key = PrivateKeyDer::from_pem_slice(key_pem.expose_secret().as_bytes());
            prop_assert!(key.is_ok_and(|key| rustls::crypto::ring::sign::any_supported_type(&key).is_ok()));
        }
    }
    let _ = credentials_expiry(&access);
    Ok(true)
}

/// Pieces that mean something to a parser of YAML, of addresses or of kubeconfigs.
const PIECES: [&str; 24] = [
    "\n",
    "  ",
    "- ",
    ": ",
    "{",
    "}",
    "[",
    "]",
    "'",
    "\"",
    "|",
    "&a",
    "*a",
    "<<: ",
    "---\n",
    "!!binary ",
    "exec: {}",
    "http://",
    "@",
    "127.0.0.1",
    "[::1]",
    "#",
    "\\",
    "\0",
];

/// Pieces of addresses, permitted and not.
const ADDRESS_PIECES: [&str; 20] = [
    "127.0.0.1",
    "127.1",
    "0x7f.1",
    "2130706433",
    "localhost",
    ".localhost",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "169.254.169.254",
    "[fe80::1%25a]",
    "10.0.0.1",
    "[2001:db8::1]",
    "api.example.com",
    ":6443",
    ":0",
    ".",
    "/a",
    "@",
    "%31",
    "\\",
];

fn mutations() -> impl Strategy<Value = Vec<(prop::sample::Index, u8, String)>> {
    let piece = prop_oneof![
        prop::sample::select(PIECES.to_vec()).prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
        "[ -~]{0,12}",
    ];
    prop::collection::vec((any::<prop::sample::Index>(), 0u8..3, piece), 1..6)
}

/// Inserts, replaces or cuts, at any place.
fn mutate(document: &str, mutations: &[(prop::sample::Index, u8, String)]) -> Vec<u8> {
    let mut bytes = document.as_bytes().to_vec();
    for (index, kind, piece) in mutations {
        let at = index.index(bytes.len() + 1);
        let removed = match kind {
            0 => 0,
            1 => piece.len(),
            _ => piece.len() * 8,
        };
        let end = bytes.len().min(at + removed);
        let inserted = if *kind == 2 { &[][..] } else { piece.as_bytes() };
        bytes.splice(at..end, inserted.iter().copied());
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn random_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        check(&bytes)?;
    }

    #[test]
    fn random_text_is_survived(text in "[-a-z0-9:{}\\[\\]&*!|>'\"%@`#,?~ \n]{0,200}") {
        check(text.as_bytes())?;
    }

    #[test]
    fn mutations_of_a_kubeconfig_with_a_token_keep_what_is_promised(mutations in mutations()) {
        check(&mutate(&kubeconfig("server: https://api.example.com:6443", &token_user()), &mutations))?;
    }

    #[test]
    fn mutations_of_a_kubeconfig_with_a_certificate_keep_what_is_promised(mutations in mutations()) {
        check(&mutate(&kubeconfig(&cluster(), &certificate_user()), &mutations))?;
    }

    #[test]
    fn any_address_that_is_accepted_is_permitted(
        prefix in prop::sample::select(vec!["https://", "HTTPS://", "https:/"]),
        parts in prop::collection::vec(prop::sample::select(ADDRESS_PIECES.to_vec()), 1..5),
        noise in "[0-9a-fx.:\\[\\]/@%#?\\\\-]{0,3}",
    ) {
        let server = serde_json::to_string(&format!("{prefix}{}{noise}", parts.concat())).unwrap();
        check(kubeconfig(&format!("server: {server}"), &token_user()).as_bytes())?;
    }

    #[test]
    fn no_token_with_what_a_header_cannot_have_is_accepted(token in any::<String>()) {
        let quoted = serde_json::to_string(&token).unwrap();
        let accepted = check(kubeconfig("server: https://a.example", &format!("token: {quoted}")).as_bytes())?;
        let trimmed = token.trim_end_matches(['\r', '\n']);
        prop_assert_eq!(accepted, !trimmed.is_empty() && trimmed.bytes().all(|byte| byte.is_ascii_graphic()));
    }
}

#[test]
fn the_starting_points_of_the_mutations_are_accepted() {
    for document in [
        kubeconfig("server: https://api.example.com:6443", &token_user()),
        kubeconfig(&cluster(), &certificate_user()),
    ] {
        assert!(check(document.as_bytes()).unwrap());
    }
}
