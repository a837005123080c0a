//! The inline form, and which Secrets a DataPlane refers to.

use std::collections::BTreeMap;

use kantor_api::data_plane::KubernetesCluster;
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use super::fixtures::*;
use crate::planes::{
    Auth, RemoteAccess,
    kubeconfig::{Refusal, RefusalKind, kubeconfig_key, parse_inline, secret_names},
};

type Data = BTreeMap<String, Vec<u8>>;

fn data(entries: &[(&str, &str)]) -> Data {
    entries.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect()
}

fn secret(name: &str) -> Option<Data> {
    match name {
        "authorities" => Some(data(&[("ca.crt", &CERTIFICATES.ca)])),
        "pair" => Some(data(&[("tls.crt", &CERTIFICATES.certificate), ("tls.key", &CERTIFICATES.key)])),
        "token" => Some(data(&[("token", "from-secret\n")])),
        "encoded" => Some(data(&[("ca.crt", &base64(&CERTIFICATES.ca))])),
        "empty" => Some(data(&[])),
        _ => None,
    }
}

fn spec(spec: Value) -> KubernetesCluster {
    serde_json::from_value(spec).unwrap()
}

fn parse(tls: &Value, auth: &Value) -> Result<RemoteAccess, Refusal> {
    let spec = spec(json!({"server": "https://api.example.com:6443", "tls": tls, "auth": auth}));
    parse_inline(&spec, secret, &POLICY)
}

fn token_of(access: &RemoteAccess) -> &str {
    match &access.auth {
        Auth::Token(token) => token.expose_secret(),
        Auth::ClientCertificate { .. } => panic!("a certificate"),
    }
}

#[test]
fn inline_values_are_accepted() {
    let ca = json!({"ca": {"value": base64(&CERTIFICATES.ca)}});
    let access = parse(&ca, &json!({"bearerToken": {"value": TOKEN}})).unwrap();
    assert_eq!(access.server, "https://api.example.com:6443/");
    assert_eq!(access.ca_pem, Some(CERTIFICATES.ca.replace("\r\n", "\n")));
    assert_eq!(token_of(&access), TOKEN);

    let certificate = json!({"value": base64(&CERTIFICATES.certificate)});
    let mtls = json!({"clientCert": certificate, "clientKey": {"value": base64(&CERTIFICATES.key)}});
    let access = parse(&ca, &json!({"mtls": mtls})).unwrap();
    assert!(matches!(access.auth, Auth::ClientCertificate { .. }));
}

#[test]
fn values_come_from_secrets() {
    let mtls = json!({"clientCert": {"secretRef": "pair"}, "clientKey": {"secretRef": "pair"}});
    let access = parse(&json!({"ca": {"secretRef": "authorities"}}), &json!({"mtls": mtls})).unwrap();
    assert_eq!(access.ca_pem, Some(CERTIFICATES.ca.replace("\r\n", "\n")));
    assert!(matches!(access.auth, Auth::ClientCertificate { .. }));
}

#[test]
fn a_secret_goes_before_a_value_and_a_certificate_before_a_token() {
    let token = json!({"secretRef": "token", "value": "inline"});
    let access = parse(&json!({"ca": {}}), &json!({"bearerToken": token})).unwrap();
    assert_eq!(token_of(&access), "from-secret");

    let mtls = json!({"clientCert": {"secretRef": "pair"}, "clientKey": {"secretRef": "pair"}});
    let access = parse(&json!({"ca": {}}), &json!({"mtls": mtls, "bearerToken": token})).unwrap();
    assert!(matches!(access.auth, Auth::ClientCertificate { .. }));
}

#[test]
fn without_authorities_those_of_the_operating_system_are_used() {
    let access = parse(&json!({"ca": {"value": ""}}), &json!({"bearerToken": {"value": TOKEN}})).unwrap();
    assert_eq!(access.ca_pem, None);
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    use RefusalKind::{Refused, SecretMissing};
    let no_ca = json!({"ca": {}});
    let token = json!({"bearerToken": {"secretRef": "token"}});
    let pair = |certificate: &str, key: &str| json!({"mtls": {"clientCert": {"secretRef": certificate}, "clientKey": {"secretRef": key}}, "bearerToken": {"value": "t"}});
    let cases = [
        (
            json!({"ca": {"secretRef": "gone"}}),
            token.clone(),
            SecretMissing,
            "tls.ca.secretRef",
            "no Secret gone",
        ),
        (
            json!({"ca": {"secretRef": "token"}}),
            token.clone(),
            SecretMissing,
            "tls.ca.secretRef",
            "Secret token has no key ca.crt",
        ),
        (
            no_ca.clone(),
            pair("gone", "pair"),
            SecretMissing,
            "auth.mtls.clientCert.secretRef",
            "no Secret gone",
        ),
        (
            no_ca.clone(),
            pair("pair", "empty"),
            SecretMissing,
            "auth.mtls.clientKey.secretRef",
            "Secret empty has no key tls.key",
        ),
        (
            no_ca.clone(),
            json!({"bearerToken": {"secretRef": "canary key"}}),
            SecretMissing,
            "auth.bearerToken.secretRef",
            "no Secret of that name",
        ),
        (
            json!({"ca": {"secretRef": "encoded"}}),
            token.clone(),
            Refused,
            "tls.ca.secretRef[ca.crt]",
            "no certificate in PEM",
        ),
        (json!({"ca": {"value": "canary!"}}), token.clone(), Refused, "tls.ca.value", "not valid base64"),
        (json!({"ca": {"value": CERTIFICATES.ca}}), token, Refused, "tls.ca.value", "encode it in base64"),
        (no_ca.clone(), json!({"bearerToken": {}}), Refused, "auth.bearerToken", "is empty"),
        (
            no_ca.clone(),
            json!({"bearerToken": {"value": "canary canary"}}),
            Refused,
            "auth.bearerToken.value",
            "spaces",
        ),
        (no_ca.clone(), json!({}), Refused, "auth", "no credentials"),
        (
            no_ca,
            json!({"mtls": {"clientCert": {}, "clientKey": {}}, "bearerToken": {"value": TOKEN}}),
            Refused,
            "auth.mtls.clientCert",
            "is empty",
        ),
    ];
    for (tls, auth, kind, field, why) in cases {
        let refusal = parse(&tls, &auth).expect_err(why);
        assert_eq!(
            (refusal.kind, refusal.field.as_str()),
            (kind, &*format!("spec.kubernetesCluster.{field}"))
        );
        assert!(refusal.why.contains(why), "{refusal}");
        assert!(!format!("{refusal:?}").contains("canary"), "{refusal:?}");
    }
}

#[test]
fn inline_addresses_are_judged_as_those_of_kubeconfigs() {
    let auth = json!({"bearerToken": {"value": TOKEN}});
    for server in [
        json!("https://169.254.169.254"),
        json!("http://api.example.com"),
        json!("https://u:canary@a.b"),
        json!(null),
    ] {
        let spec = spec(json!({"server": server, "tls": {"ca": {}}, "auth": auth}));
        let refusal = parse_inline(&spec, secret, &POLICY).expect_err("an address that is not permitted");
        assert_eq!(refusal.field, "spec.kubernetesCluster.server");
        assert!(!format!("{refusal:?}").contains("canary"));
    }
}

#[test]
fn a_kubeconfig_is_found_under_its_key_or_under_the_usual_ones() {
    let both = data(&[("value", "v"), ("kubeconfig", "k"), ("other", "o")]);
    assert_eq!(kubeconfig_key(&both, None), Ok(("kubeconfig", b"k".as_slice())));
    assert_eq!(kubeconfig_key(&both, Some("")), Ok(("kubeconfig", b"k".as_slice())));
    assert_eq!(kubeconfig_key(&both, Some("other")), Ok(("other", b"o".as_slice())));
    assert_eq!(kubeconfig_key(&data(&[("value", "v")]), None), Ok(("value", b"v".as_slice())));
}

#[test]
fn a_secret_without_the_key_is_something_missing() {
    let other = data(&[("canary-key", "canary-value"), ("kubeconfig", "k")]);
    let refusal = kubeconfig_key(&other, Some("config")).unwrap_err();
    assert_eq!(refusal.to_string(), "spec.kubernetesCluster.secretRef.key: the Secret has no key config");
    assert_eq!(refusal.kind, RefusalKind::SecretMissing);
    let refusal = kubeconfig_key(&data(&[("canary-key", "canary-value")]), None).unwrap_err();
    assert_eq!(
        (refusal.kind, refusal.field.as_str()),
        (RefusalKind::SecretMissing, "spec.kubernetesCluster.secretRef")
    );
    assert!(!refusal.why.contains("canary"));
}

#[test]
fn every_secret_of_a_data_plane_is_listed_once() {
    let inline = spec(json!({
        "server": "https://api.example.com",
        "tls": {"ca": {"secretRef": "a"}},
        "auth": {
            "mtls": {"clientCert": {"secretRef": "b"}, "clientKey": {"secretRef": "b"}},
            "bearerToken": {"secretRef": "c", "value": "x"},
        },
    }));
    assert_eq!(secret_names(&inline), ["a", "b", "c"]);
    assert_eq!(secret_names(&spec(json!({"secretRef": {"name": "kubeconfig"}}))), ["kubeconfig"]);
    assert!(secret_names(&spec(json!({"inCluster": {}}))).is_empty());
}
