use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::{
    apply::Writer,
    planes::{
        Plane,
        fake::{self, DEFINITIONS, discovery, list, refusal},
    },
};

fn site(plane: &Plane) -> Site<'_> {
    Site { plane, writer: Writer::to_plane(plane, None), manager: "kantor", selector: "owner" }
}

fn route() -> InventoryItem {
    InventoryItem {
        group: "gateway.networking.k8s.io".to_owned(),
        version: "v1".to_owned(),
        kind: "HTTPRoute".to_owned(),
        namespace: "ns".to_owned(),
        name: "api".to_owned(),
        uid: Some("uid".to_owned()),
    }
}

#[rstest]
#[case::not_served_and_not_defined(&[], list(&[]), true)]
#[case::other_definitions(&[], list(&["widgets.example.com"]), true)]
#[case::defined_and_not_served_yet(&[], list(&["httproutes.gateway.networking.k8s.io"]), false)]
#[case::its_server_does_not_answer(&["gateway.networking.k8s.io"], list(&[]), false)]
#[case::definitions_cannot_be_listed(&[], refusal(500), false)]
#[case::definitions_may_not_be_listed(&[], refusal(403), false)]
#[tokio::test]
async fn an_object_of_a_kind_that_is_not_served_is_gone_only_by_proof(
    #[case] stale: &[&str],
    #[case] definitions: (u16, Value),
    #[case] gone: bool,
) {
    let plane = fake::plane(discovery(&["/v1/Secret"], stale), move |path| match path {
        DEFINITIONS => definitions.clone(),
        _ => refusal(404),
    })
    .await;
    let owner = Owner { uid: "owner".to_owned(), ..Owner::default() };
    let removed = Engine::default().remove(&site(&plane), &owner, &[route()]).await;
    match &removed[0].remains {
        Remains::Nothing => assert!(gone),
        Remains::Failed(why) => assert!(!gone && why.contains("HTTPRoute"), "{why}"),
        other @ Remains::Waiting(_) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_list_that_cannot_be_had_keeps_what_is_recorded() {
    let plane = fake::plane(discovery(&["gateway.networking.k8s.io/v1/HTTPRoute"], &[]), |path| match path {
        DEFINITIONS => list(&[]),
        _ => refusal(500),
    })
    .await;
    let owner = Owner { uid: "owner".to_owned(), ..Owner::default() };
    let removed = Engine::default().remove(&site(&plane), &owner, &[route()]).await;
    assert!(matches!(removed[0].remains, Remains::Failed(_)), "{removed:?}");
}

fn look(kind: &str, objects: Value) -> Look {
    Look { kind: kind.to_owned(), objects: serde_json::from_value(objects).unwrap(), ..Look::default() }
}

fn owned(name: &str, kind: &str, owner: &str) -> Value {
    json!({"name": name, "uid": name, "ownerReferences": [
        {"apiVersion": "v1", "kind": kind, "name": owner, "uid": owner}]})
}

/// `Node` has no namespace, `Widget` is not served, all others have one.
fn judged(looked: &[Look]) -> Option<(String, Whose)> {
    let is_namespaced = |kind: &Kind| match kind.kind.as_str() {
        "Widget" => None,
        name => Some(name != "Node"),
    };
    judge(looked, &is_namespaced, "keeper=me").map(|found| (found.what, found.whose))
}

#[test]
fn who_keeps_a_namespace_is_told_by_what_was_seen() {
    let found = |what: &str, whose| Some((what.to_owned(), whose));
    assert_eq!(judged(&[look("ConfigMap", json!([{"name": "kube-root-ca.crt", "uid": "1"}]))]), None);
    let service = look("Service", json!([{"name": "web", "uid": "web"}]));
    let slice = || look("EndpointSlice", json!([owned("slice", "Service", "web")]));
    assert_eq!(judged(&[slice(), service]), found("Service web", Whose::Somebodys));
    // Its owner was in the namespace and has gone.
    assert_eq!(judged(&[slice()]), found("EndpointSlice slice", Whose::Going));
    // Nobody looked for an owner without a namespace, or of a kind that nobody knows.
    for kind in ["Node", "Widget"] {
        let claim = look("PersistentVolumeClaim", json!([owned("data", kind, "n1")]));
        assert_eq!(judged(&[claim]), found("PersistentVolumeClaim data", Whose::Somebodys), "{kind}");
    }
    let kept = look("Secret", json!([{"name": "s", "uid": "s", "labels": {"keeper": "me"}}]));
    assert_eq!(judged(&[slice(), kept]), found("Secret s", Whose::Kept));
    // An owner is known by its UID, whatever it is called: what goes with it is not looked at for itself.
    let kept = look("Secret", json!([{"name": "s", "uid": "s", "labels": {"keeper": "me"}}]));
    let beside = look("ConfigMap", json!([owned("copy", "Widget", "s")]));
    assert_eq!(judged(&[beside, kept]), found("Secret s", Whose::Kept));
    // What cannot be seen is not nothing.
    let (what, whose) = judged(&[Look::unserved_group("route.openshift.io")]).unwrap();
    assert!(what.contains("route.openshift.io") && whose == Whose::Unserved, "{what}");
}

#[tokio::test]
async fn a_namespace_is_not_empty_while_a_group_does_not_answer_or_is_not_served() {
    let look = async |stale: &'static [&'static str], definitions: (u16, Value)| {
        let plane = fake::plane(discovery(&["/v1/Secret"], stale), move |path| match path {
            DEFINITIONS => definitions.clone(),
            _ => list(&[]),
        })
        .await;
        Engine::default().something_in(&site(&plane), "ns").await
    };
    assert_eq!(look(&[], list(&[])).await.unwrap(), None);
    // Its objects are made up when they are asked for.
    assert_eq!(look(&["metrics.k8s.io", "custom.metrics.k8s.io"], list(&[])).await.unwrap(), None);
    assert_eq!(look(&["route.openshift.io"], list(&[])).await.unwrap().unwrap().whose, Whose::Unserved);
    assert_eq!(look(&[], list(&["widgets.example.com"])).await.unwrap().unwrap().whose, Whose::Unserved);
    look(&[], refusal(500)).await.unwrap_err();
}
