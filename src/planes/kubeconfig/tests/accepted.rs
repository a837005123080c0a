//! Kubeconfigs that are accepted, and what is left of them.

use secrecy::ExposeSecret;

use super::fixtures::*;
use crate::planes::{Auth, RemoteAccess, credentials_expiry};

fn accepted(document: impl AsRef<[u8]>) -> RemoteAccess {
    parse(document).unwrap_or_else(|refusal| panic!("refused: {refusal}"))
}

fn token_of(access: &RemoteAccess) -> &str {
    match &access.auth {
        Auth::Token(token) => token.expose_secret(),
        Auth::ClientCertificate { .. } => panic!("a certificate"),
    }
}

fn pair_of(access: &RemoteAccess) -> (&str, &str) {
    match &access.auth {
        Auth::ClientCertificate { certificate_pem, key_pem } => {
            (certificate_pem.expose_secret(), key_pem.expose_secret())
        }
        Auth::Token(_) => panic!("a token"),
    }
}

/// PEM with one kind of line break.
fn lines(pem: &str) -> String {
    pem.replace("\r\n", "\n")
}

#[test]
fn a_token_is_accepted() {
    let access = accepted(valid());
    assert_eq!(access.server, "https://api.example.com:6443/");
    assert_eq!(access.ca_pem.as_deref(), Some(lines(&CERTIFICATES.ca).as_str()));
    assert_eq!(access.tls_server_name, None);
    assert_eq!(token_of(&access), TOKEN);
    assert_eq!(credentials_expiry(&access), None);
}

#[test]
fn a_certificate_is_accepted_and_tells_when_it_expires() {
    let access = accepted(kubeconfig(&cluster(), &certificate_user()));
    let (certificate, key) = pair_of(&access);
    assert_eq!(certificate, lines(&CERTIFICATES.certificate));
    assert_eq!(key, lines(&CERTIFICATES.key));
    assert_eq!(credentials_expiry(&access), Some(EXPIRY.parse().unwrap()));
}

#[test]
fn an_ed25519_certificate_with_its_chain_is_accepted() {
    let (certificate, key) = &CERTIFICATES.ed25519;
    let chain = certificate.clone() + &CERTIFICATES.ca;
    let user = format!("client-certificate-data: {}\nclient-key-data: {}\n", base64(&chain), base64(key));
    let access = accepted(kubeconfig(&cluster(), &user));
    assert_eq!(pair_of(&access).0, lines(&chain));
}

#[test]
fn a_certificate_goes_before_a_token() {
    let access = accepted(kubeconfig(&cluster(), &(token_user() + &certificate_user())));
    assert_eq!(pair_of(&access).1, lines(&CERTIFICATES.key));
}

#[test]
fn addresses_are_kept_in_one_spelling() {
    for (server, expected) in [
        ("https://api.example.com", "https://api.example.com/"),
        ("https://api.example.com/", "https://api.example.com/"),
        ("HTTPS://API.Example.COM:443", "https://api.example.com:443/"),
        ("https://api.example.com.", "https://api.example.com./"),
        ("https://rancher.example.com/k8s/clusters/c-m-1", "https://rancher.example.com/k8s/clusters/c-m-1"),
        ("https://kcp.example.com:6443/clusters/root:org/", "https://kcp.example.com:6443/clusters/root:org"),
        ("https://[2001:DB8:0::1]:6443", "https://[2001:db8::1]:6443/"),
        ("https://[fd00::1]", "https://[fd00::1]/"),
        ("https://10.0.0.1:6443", "https://10.0.0.1:6443/"),
    ] {
        let access = accepted(kubeconfig(&format!("server: '{server}'"), &token_user()));
        assert_eq!(access.server, expected, "{server}");
        assert_eq!(access.ca_pem, None);
    }
}

#[test]
fn json_is_accepted() {
    let document = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": "https://api.example.com"}}],
        "users": [{"name": "a", "user": {"token": TOKEN}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    });
    assert_eq!(token_of(&accepted(document.to_string())), TOKEN);
}

#[test]
fn the_only_context_needs_not_be_current() {
    accepted(valid().replace("current-context: main\n", ""));
    accepted(valid().replace("current-context: main", "current-context: ''"));
}

#[test]
fn the_current_one_of_many_contexts_is_used_and_the_values_of_the_others_are_not_looked_at() {
    let document = "\
current-context: second
clusters:
- {name: one, cluster: {server: 'http://one.example', certificate-authority-data: broken}}
- {name: two, cluster: {server: 'https://two.example'}}
contexts:
- {name: first, context: {cluster: one, user: one}}
- {name: second, context: {cluster: two, user: two}}
users:
- {name: one, user: {client-key-data: broken}}
- {name: two, user: {token: second-token}}
";
    let access = accepted(document);
    assert_eq!(access.server, "https://two.example/");
    assert_eq!(token_of(&access), "second-token");
}

#[test]
fn harmless_fields_of_real_kubeconfigs_are_ignored() {
    let extension =
        "extensions:\n- extension: {provider: minikube.sigs.k8s.io, version: v1.30}\n  name: cluster_info\n";
    let cluster =
        format!("{}disable-compression: true\ninsecure-skip-tls-verify: false\n{extension}", cluster());
    let user = format!("{}{extension}", token_user());
    let document = kubeconfig(&cluster, &user)
        .replace("preferences: {}", "preferences: {colors: true}\nextensions: []")
        .replace(
            "    namespace: default\n",
            "    namespace: default\n    extensions: [{name: a, extension: {}}]\n",
        );
    accepted(format!("# a comment\n---\n{document}"));
}

#[test]
fn a_name_for_the_certificate_of_the_server_is_kept() {
    for name in ["kubernetes.default.svc", "10.0.0.1", "2001:db8::1"] {
        let cluster = format!("{}tls-server-name: '{name}'\n", cluster());
        assert_eq!(accepted(kubeconfig(&cluster, &token_user())).tls_server_name.as_deref(), Some(name));
    }
}

#[test]
fn line_breaks_at_the_end_of_a_token_are_not_part_of_it() {
    let access = accepted(kubeconfig(&cluster(), "token: |\n  abc\n"));
    assert_eq!(token_of(&access), "abc");
}

#[test]
fn base64_may_be_broken_into_lines() {
    let data = base64(&CERTIFICATES.ca);
    let (head, tail) = data.split_at(76);
    let cluster =
        format!("server: https://api.example.com\ncertificate-authority-data: |\n  {head}\n  {tail}\n");
    assert_eq!(accepted(kubeconfig(&cluster, &token_user())).ca_pem, Some(lines(&CERTIFICATES.ca)));
}

#[test]
fn only_certificates_are_left_of_the_authorities() {
    let mixed = format!("{}\nsubject=/CN=a\n{}", CERTIFICATES.key, CERTIFICATES.ca);
    let cluster = format!("server: https://api.example.com\ncertificate-authority-data: {}\n", base64(mixed));
    assert_eq!(accepted(kubeconfig(&cluster, &token_user())).ca_pem, Some(lines(&CERTIFICATES.ca)));
}
