//! Hostile and broken kubeconfigs: each is refused with its field, and none makes the parser tell a secret.

mod documents;
mod values;

use super::fixtures::*;
use crate::planes::kubeconfig::RefusalKind;

struct Case {
    what: &'static str,
    document: Vec<u8>,
    field: &'static str,
    why: &'static str,
}

/// Texts that stand for secrets in the documents of the table.
const CANARIES: [&str; 7] =
    [TOKEN, "canary-password", "canary-url-password", "canary-key", "canary-value", "canary-name", "BEGIN"];

#[derive(Default)]
struct Table(Vec<Case>);

impl Table {
    fn add(
        &mut self,
        what: &'static str,
        document: impl Into<Vec<u8>>,
        field: &'static str,
        why: &'static str,
    ) {
        self.0.push(Case { what, document: document.into(), field, why });
    }

    /// The valid kubeconfig with other lines for its cluster.
    fn cluster(&mut self, what: &'static str, lines: &str, field: &'static str, why: &'static str) {
        self.add(what, kubeconfig(lines, &token_user()), field, why);
    }

    /// The valid kubeconfig with another address.
    fn server(&mut self, what: &'static str, server: &str, why: &'static str) {
        let lines = format!("server: {}\n", serde_json::to_string(server).unwrap());
        self.cluster(what, &lines, "clusters[0].cluster.server", why);
    }

    /// The valid kubeconfig with other lines for its user.
    fn user(&mut self, what: &'static str, lines: &str, field: &'static str, why: &'static str) {
        self.add(what, kubeconfig(&cluster(), lines), field, why);
    }

    /// The valid kubeconfig with a part of it replaced.
    fn edit(&mut self, what: &'static str, (from, to): (&str, &str), field: &'static str, why: &'static str) {
        let valid = valid();
        assert!(valid.contains(from), "{what}: the valid kubeconfig has no {from:?}");
        self.add(what, valid.replacen(from, to, 1), field, why);
    }
}

fn table() -> Vec<Case> {
    let mut table = Table::default();
    documents::documents(&mut table);
    values::dangerous_fields(&mut table);
    values::addresses(&mut table);
    documents::structure(&mut table);
    values::credentials(&mut table);
    table.0
}

#[test]
fn hostile_and_broken_kubeconfigs_are_refused_with_the_field() {
    let table = table();
    assert!(table.len() >= 100, "the table has shrunk to {}", table.len());
    let mut wrong = vec![];
    for Case { what, document, field, why } in table {
        match parse(&document) {
            Ok(access) => wrong.push(format!("{what}: accepted: {access:?}")),
            Err(refusal)
                if refusal.field != field
                    || !refusal.why.contains(why)
                    || refusal.kind != RefusalKind::Refused =>
            {
                wrong.push(format!("{what}: expected {field}: …{why}…, got {refusal:?}"));
            }
            Err(_) => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn nothing_of_a_document_is_in_what_is_said_about_it() {
    let mut documents: Vec<(&str, Vec<u8>)> =
        table().into_iter().map(|case| (case.what, case.document)).collect();
    documents.push(("token", valid().into()));
    documents.push(("certificate", kubeconfig(&cluster(), &certificate_user()).into()));
    // A bundle that was meant to be in another field.
    let bundle = format!("{}{}", CERTIFICATES.key, CERTIFICATES.ca);
    let lines = format!("server: https://api.example.com\ncertificate-authority-data: {}\n", base64(bundle));
    documents.push(("a key among the authorities", kubeconfig(&lines, &certificate_user()).into()));

    let Certificates { key, other_key, .. } = &*CERTIFICATES;
    let mut secrets: Vec<String> = CANARIES.iter().map(|canary| (*canary).to_owned()).collect();
    for pem in [key, other_key] {
        secrets.extend(
            pem.lines().filter(|line| !line.starts_with("-----") && line.len() > 20).map(str::to_owned),
        );
        secrets.push(base64(pem)[60..100].to_owned());
    }
    for (what, document) in documents {
        let said = match parse(&document) {
            // The authorities are public and are shown.
            Ok(access) => format!("{access:?} {:?}", access.auth).replace("BEGIN CERTIFICATE", ""),
            Err(refusal) => format!("{refusal} {refusal:?} {refusal:#?}"),
        };
        for secret in &secrets {
            assert!(!said.contains(secret), "{what}: {said}");
        }
    }
}
