use std::collections::BTreeMap;

use kantor_api::labels::{self, plane};

use super::*;

mod kind;
mod pattern;
mod place;
mod properties;

type Labels = BTreeMap<String, String>;

const ACME: Tenant<'static> = Tenant { organization: "acme", project: "shop", environment: "dev" };

/// `Kind.group`, the way policies write it.
#[derive(Clone, Copy)]
struct Object<'a> {
    kind: &'a str,
    namespaced: bool,
    namespace: &'a str,
    name: &'a str,
}

fn in_namespace<'a>(kind: &'a str, namespace: &'a str) -> Object<'a> {
    Object { kind, namespaced: true, namespace, name: "thing" }
}

fn cluster_wide(kind: &str) -> Object<'_> {
    Object { kind, namespaced: false, namespace: "", name: "thing" }
}

fn namespace(name: &str) -> Object<'_> {
    Object { kind: "Namespace", namespaced: false, namespace: "", name }
}

impl<'a> Object<'a> {
    fn asked(self, labels: &'a Labels) -> Asked<'a> {
        let (kind, group) = self.kind.split_once('.').unwrap_or((self.kind, ""));
        let Self { namespaced, namespace, name, .. } = self;
        Asked { group, kind, namespaced, namespace, name, labels }
    }
}

fn labelled(labels: &[(&str, &str)]) -> Labels {
    labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// The plane's namespaces, with one for each way to belong to somebody.
fn live(name: &str) -> Option<Labels> {
    match name {
        "default" | "kube-system" | "monitoring" | "dp-old" => Some(Labels::new()),
        "acme-a" => Some(labelled(&[(plane::ORGANIZATION_NAME, "acme")])),
        "acme-b" => Some(labelled(&[(labels::ORGANIZATION, "acme")])),
        "dp-acme-other" => {
            Some(labelled(&[(plane::ORGANIZATION_NAME, "acme"), (plane::PROJECT_NAME, "other")]))
        }
        "globex-a" => Some(labelled(&[(plane::ORGANIZATION_NAME, "globex")])),
        "globex-b" => Some(labelled(&[(labels::ORGANIZATION, "globex")])),
        "torn" => Some(labelled(&[(labels::ORGANIZATION, "acme"), (plane::ORGANIZATION_NAME, "globex")])),
        "nobody" => Some(labelled(&[(plane::ORGANIZATION_NAME, "")])),
        "shouting" => Some(labelled(&[(plane::ORGANIZATION_NAME, "ACME")])),
        "acme" => Some(labelled(&[
            (labels::MANAGED_BY, labels::MANAGED_BY_CONTROL_PLANE),
            (labels::ORGANIZATION, "acme"),
        ])),
        _ => None,
    }
}

/// The refusal, which always begins with what is refused.
fn refused(policy: Option<&ReleasePolicy>, object: Object<'_>, written: &Labels) -> Option<String> {
    let asked = object.asked(written);
    let message = refusal(&ACME, policy, &asked, &live);
    if let Some(message) = &message {
        let start = format!("{} {}: ", asked.kind, asked.name);
        assert!(message.starts_with(&start) && message.len() > start.len(), "{message}");
    }
    message
}

/// Asserts that the message of a refusal has `part`; without one, that there is none.
#[track_caller]
fn assert_refused(message: Option<&String>, part: Option<&str>) {
    match (message, part) {
        (None, None) => {}
        (Some(message), Some(part)) => assert!(message.contains(part), "{message:?} does not say {part:?}"),
        _ => panic!("expected {part:?}, got {message:?}"),
    }
}

#[test]
fn the_own_namespace_is_the_one_that_deployments_use() {
    assert_eq!(own_namespace(&ACME), names::generate(NameKind::Namespace, &["dp", "acme", "shop", "dev"]));
    assert!(own_namespace(&ACME).starts_with("dp-acme-shop-dev-"));
}

#[test]
fn messages_are_neither_endless_nor_invisible() {
    let name = "x\n".repeat(1 << 20);
    let labels = Labels::new();
    let asked = Object { name: &name, ..in_namespace("ConfigMap", "acme-a") }.asked(&labels);
    let message = refusal(&ACME, None, &asked, &live).unwrap();
    assert!(message.len() < 1024 && !message.contains('\n'), "{message}");
}
