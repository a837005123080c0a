//! Fields, addresses and credentials that are dangerous or broken.

use super::{super::fixtures::*, Table};

pub(super) fn dangerous_fields(table: &mut Table) {
    let token = token_user();
    let mut user = |lines: &str, field: &'static str, why: &'static str| {
        table.user(field, &format!("{token}{lines}"), field, why);
    };
    let exec = "exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: [canary-value]}";
    user(exec, "users[0].user.exec", "commands are never run; use a token or client-certificate-data");
    user(
        "auth-provider: {name: gcp, config: {cmd-path: /bin/sh}}",
        "users[0].user.auth-provider",
        "never run",
    );
    user(
        "tokenFile: /var/run/secrets/canary-value",
        "users[0].user.tokenFile",
        "files are never read; use token",
    );
    user(
        "client-certificate: /etc/canary-value",
        "users[0].user.client-certificate",
        "client-certificate-data",
    );
    user("client-key: /etc/canary-value", "users[0].user.client-key", "client-key-data");
    user("username: admin", "users[0].user.username", "passwords");
    user("password: canary-password", "users[0].user.password", "passwords");
    user("as: system:admin", "users[0].user.as", "impersonation");
    user("as-uid: '0'", "users[0].user.as-uid", "impersonation");
    user("as-groups: [system:masters]", "users[0].user.as-groups", "impersonation");
    user("as-user-extra: {reason: [canary-value]}", "users[0].user.as-user-extra", "impersonation");

    let unused = format!("{}- name: unused\n  user:\n    exec: {{command: canary-value}}\n", valid());
    table.add("a command in a user that is not used", unused, "users[1].user.exec", "never run");
    table.user("exec that is null", &format!("{token}exec: null"), "users[0].user.exec", "never run");

    let mut with = |lines: &str, field: &'static str, why: &'static str| {
        table.cluster(field, &format!("{}{lines}", cluster()), field, why);
    };
    with(
        "certificate-authority: /etc/canary-value",
        "clusters[0].cluster.certificate-authority",
        "never read",
    );
    with("proxy-url: http://u:canary-url-password@evil.example", "clusters[0].cluster.proxy-url", "proxies");
    with("insecure-skip-tls-verify: true", "clusters[0].cluster.insecure-skip-tls-verify", "always verified");
    with(
        "insecure-skip-tls-verify: 'false'",
        "clusters[0].cluster.insecure-skip-tls-verify",
        "always verified",
    );
    with("tls-server-name: 'canary value'", "clusters[0].cluster.tls-server-name", "neither a host name nor");
    with("tls-server-name: ''", "clusters[0].cluster.tls-server-name", "neither a host name nor");
    with("token: canary-value", "clusters[0].cluster.token", "does not belong here");
    with("canary-key: canary-value", "clusters[0].cluster", "key 3 of 3 is unknown; known are server, ");
}

pub(super) fn addresses(table: &mut Table) {
    table.server("http", "http://api.example.com", "must start with https://");
    table.server("no scheme", "api.example.com:6443", "must start with https://");
    table.server("a file", "file:///etc/passwd", "must start with https://");
    table.server("a UNIX socket", "unix:///run/canary-value.sock", "must start with https://");
    table.server("empty", "", "must start with https://");
    table.server("no host", "https://", "not a valid host name");
    table.server("only a port", "https://:6443", "not a valid host name");
    table.server("a password", "https://admin:canary-url-password@api.example.com", "user name or password");
    table.server("a query", "https://api.example.com/?token=canary-value", "a query or a fragment");
    table.server("a fragment", "https://api.example.com#canary-value", "a query or a fragment");
    table.server("a line break", "https://api.example.com/\r\nHost: canary-value", "control characters");
    table.server("a space at the end", "https://api.example.com ", "spaces");
    table.server("letters outside ASCII", "https://ехample.com", "outside ASCII");
    table.server("a backslash", "https://api.example.com\\@169.254.169.254", "user name or password");
    table.server("a backslash in the host", "https://api.example.com\\.evil", "not a valid host name");
    table.server("percent signs in the host", "https://%31%32%37.0.0.1", "four decimal numbers");
    table.server("percent signs in the path", "https://api.example.com/%2e%2e", "path that is not plain");
    table.server("dots in the path", "https://api.example.com/a/../b", "path that is not plain");
    table.server(
        "two slashes in the path",
        "https://api.example.com//evil.example",
        "path that is not plain",
    );
    table.server("port 0", "https://api.example.com:0", "between 1 and 65535");
    table.server("a port that is too high", "https://api.example.com:65536", "between 1 and 65535");
    table.server("an empty port", "https://api.example.com:", "between 1 and 65535");
    table.server("a port with a sign", "https://api.example.com:+443", "between 1 and 65535");
    table.server("IPv6 without brackets", "https://2001:db8::1", "needs brackets");
    table.server("IPv6 with one bracket", "https://[2001:db8::1", "needs brackets");
    table.server("text after a bracket", "https://[2001:db8::1]canary:443", "both brackets");
    table.server("cloud metadata", "https://169.254.169.254/latest", "link-local");
    table.server("cloud metadata by name", "https://metadata.google.internal", "metadata");
    table.server("cloud metadata over IPv6", "https://[fd00:ec2::254]", "metadata");
    table.server("cloud metadata, mapped", "https://[::ffff:169.254.169.254]", "link-local");
    table.server("loopback", "https://127.0.0.1:6443", "loopback");
    table.server("loopback over IPv6", "https://[::1]:6443", "loopback");
    table.server("loopback by name", "https://LOCALHOST.:6443", "loopback");
    table.server("loopback as one number", "https://2130706433", "four decimal numbers");
    table.server("loopback in hexadecimal", "https://0x7f.1", "four decimal numbers");
    table.server("any address", "https://0.0.0.0:6443", "unspecified");
    table.server("a zone id", "https://[fe80::1%25eth0]", "zone ids");
    table.server("too long", &format!("https://a.example/{}", "x".repeat(2048)), "longer than 2048");
}

pub(super) fn credentials(table: &mut Table) {
    let token = "users[0].user.token";
    table.user("no credentials", "{}", "users[0].user", "has no credentials");
    table.user("an empty token", "token: ''", token, "is empty");
    table.user("a token of line breaks", "token: \"\\n\\n\"", token, "is empty");
    table.user("a token with a header", "token: \"canary-value\\r\\nX-Evil: 1\"", token, "line breaks");
    table.user("a token with a space", "token: canary-value canary-value", token, "spaces");
    table.user("a token with a space at its end", "token: 'canary-value '", token, "spaces");
    table.user("a token with a bell", "token: \"canary-value\\a\"", token, "cannot have");
    table.user("a token outside ASCII", "token: canary-välue", token, "cannot have");
    table.user("a token that is a number", "token: 12345", token, "in quotes");
    table.user(
        "a token that is too large",
        &format!("token: {}", "x".repeat(17_000)),
        token,
        "larger than 16384",
    );

    let authority = "clusters[0].cluster.certificate-authority-data";
    let mut ca = |what: &'static str, data: &str, why: &'static str| {
        let lines = format!("server: https://api.example.com\ncertificate-authority-data: '{data}'\n");
        table.cluster(what, &lines, authority, why);
    };
    ca("an empty authority", "", "is empty");
    ca("an authority that is not base64", "canary-value!", "not valid base64");
    ca("an authority that is not PEM", &base64("canary-value"), "no certificate in PEM");
    ca("an authority that is only a key", &base64(&CERTIFICATES.key), "no certificate in PEM");
    ca("an authority that is cut off", &base64(&CERTIFICATES.ca[..200]), "not valid PEM");
    ca("an authority that is not X.509", &base64(not_x509()), "certificate 1 is not X.509");
    ca(
        "a broken second authority",
        &base64(CERTIFICATES.ca.clone() + &not_x509()),
        "certificate 2 is not X.509",
    );
    ca("an authority that is too large", &base64(CERTIFICATES.ca.repeat(70)), "larger than 32768");
    ca("an authority as PEM", &CERTIFICATES.ca.replace('\n', "\n\n    "), "encode it in base64");

    let certificate = "users[0].user.client-certificate-data";
    let key = "users[0].user.client-key-data";
    let mut pair =
        |what: &'static str, certificate: &str, private: &str, field: &'static str, why: &'static str| {
            let lines = format!(
                "client-certificate-data: {}\nclient-key-data: {}\n",
                base64(certificate),
                base64(private)
            );
            table.user(what, &lines, field, why);
        };
    let good = &*CERTIFICATES;
    pair(
        "a key of another certificate",
        &good.certificate,
        &good.other_key,
        key,
        "does not belong to the client",
    );
    pair(
        "a certificate in place of the key",
        &good.certificate,
        &good.certificate,
        key,
        "no private key in PEM",
    );
    pair("a key in place of the certificate", &good.key, &good.key, certificate, "no certificate in PEM");
    pair(
        "two keys",
        &good.certificate,
        &(good.key.clone() + &good.other_key),
        key,
        "more than one private key",
    );
    let nonsense = good.key.replace(&good.key[30..60], &"A".repeat(30));
    pair("a key that is none", &good.certificate, &nonsense, key, "not a key that can be used");
    let encrypted = good.key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    pair("an encrypted key", &good.certificate, &encrypted, key, "encrypted keys cannot be used");
    pair(
        "a certificate that is not X.509",
        &not_x509(),
        &good.key,
        certificate,
        "certificate 1 is not X.509",
    );
    pair(
        "a broken chain",
        &(good.certificate.clone() + &not_x509()),
        &good.key,
        certificate,
        "certificate 2",
    );

    let (both, only_token) = (certificate_user(), token_user());
    let (first, second) = both.split_once('\n').unwrap();
    table.user("a certificate without key", first, key, "is missing");
    table.user(
        "a certificate without key, and a token",
        &format!("{first}\n{only_token}"),
        key,
        "is missing",
    );
    table.user("a key without certificate", second, certificate, "is missing");
}

/// PEM of a certificate whose content is none.
fn not_x509() -> String {
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", base64("canary-value"))
}
