//! Certificates and kubeconfigs to start from.

use std::sync::LazyLock;

use base64::{Engine, engine::general_purpose::STANDARD};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, PKCS_ED25519, date_time_ymd};

use crate::planes::{AddressPolicy, RemoteAccess, kubeconfig::Refusal, parse_kubeconfig};

/// Loopback is refused: the tables test the policy of a real operator.
pub const POLICY: AddressPolicy = AddressPolicy { allow_loopback: false };

/// A token that must not appear in anything that is said.
pub const TOKEN: &str = "canary-token-5up3r";

pub struct Certificates {
    pub ca: String,
    pub certificate: String,
    pub key: String,
    pub other_key: String,
    pub ed25519: (String, String),
}

/// notAfter of the client certificates.
pub const EXPIRY: &str = "2031-02-03T00:00:00Z";

pub static CERTIFICATES: LazyLock<Certificates> = LazyLock::new(|| {
    let ca_key = KeyPair::generate().unwrap();
    let mut ca_params = CertificateParams::new(vec![]).unwrap();
    ca_params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = ca_params.self_signed(&ca_key).unwrap();
    let issuer = Issuer::new(ca_params, ca_key);
    let client = |key: &KeyPair| {
        let mut params = CertificateParams::new(vec!["client".to_owned()]).unwrap();
        params.not_after = date_time_ymd(2031, 2, 3);
        params.signed_by(key, &issuer).unwrap().pem()
    };
    let key = KeyPair::generate().unwrap();
    let ed25519 = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    Certificates {
        ca: ca.pem(),
        certificate: client(&key),
        key: key.serialize_pem(),
        other_key: KeyPair::generate().unwrap().serialize_pem(),
        ed25519: (client(&ed25519), ed25519.serialize_pem()),
    }
});

pub fn base64(text: impl AsRef<[u8]>) -> String {
    STANDARD.encode(text)
}

/// A kubeconfig as kubectl writes it, with the lines of its cluster and of its user.
pub fn kubeconfig(cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\npreferences: {{}}\ncurrent-context: main\nclusters:\n- name: main\n  \
         cluster:\n{}contexts:\n- name: main\n  context:\n    cluster: main\n    user: main\n    namespace: \
         default\nusers:\n- name: main\n  user:\n{}",
        indented(cluster),
        indented(user)
    )
}

fn indented(lines: &str) -> String {
    lines.lines().flat_map(|line| ["    ", line, "\n"]).collect()
}

/// The lines of a cluster that is accepted.
pub fn cluster() -> String {
    format!(
        "server: https://api.example.com:6443\ncertificate-authority-data: {}\n",
        base64(&CERTIFICATES.ca)
    )
}

/// The lines of a user with a token.
pub fn token_user() -> String {
    format!("token: {TOKEN}\n")
}

/// The lines of a user with a certificate.
pub fn certificate_user() -> String {
    let Certificates { certificate, key, .. } = &*CERTIFICATES;
    format!("client-certificate-data: {}\nclient-key-data: {}\n", base64(certificate), base64(key))
}

pub fn valid() -> String {
    kubeconfig(&cluster(), &token_user())
}

pub fn parse(document: impl AsRef<[u8]>) -> Result<RemoteAccess, Refusal> {
    parse_kubeconfig(document.as_ref(), &POLICY)
}
