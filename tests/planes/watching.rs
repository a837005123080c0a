use k8s_openapi::api::core::v1::ConfigMap;
use kantor::planes::{Follow, FollowState, RemoteChange};
use kantor_api::labels::OWNER_UID;
use kantor_testbed::{
    proxy::{Action, Fault, Match, Record, Verb},
    wait::{self, Seen},
};
use kube::{
    ResourceExt,
    api::{ApiResource, DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::sync::mpsc;

use crate::support::{PATIENCE, Stage, config_map, soon};

/// The next change of a ConfigMap in the stage's namespace.
async fn next(told: &mut mpsc::UnboundedReceiver<RemoteChange>, stage: &Stage) -> RemoteChange {
    loop {
        let change = soon(told.recv()).await.unwrap();
        if change.namespace.as_deref() == Some(&stage.namespace) {
            return change;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_followed_object_is_seen_from_its_making_to_its_end() {
    let (stage, plane) = Stage::connected("follow").await;
    let mut told = stage.planes.remote_changes();
    let selector = "stage=follow";
    stage
        .direct()
        .create(&PostParams::default(), &config_map("before", &[("stage", "follow")]))
        .await
        .unwrap();
    stage.direct().create(&PostParams::default(), &config_map("foreign", &[])).await.unwrap();
    let kind = ApiResource::erase::<ConfigMap>(&());
    let followed = plane.follow(&kind, selector, Follow::Whole);
    assert!(soon(followed.synced()).await);
    assert_eq!(next(&mut told, &stage).await.name, "before");

    let labels = [("stage", "follow"), (OWNER_UID, "uid-1")];
    stage.direct().create(&PostParams::default(), &config_map("made", &labels)).await.unwrap();
    let made = next(&mut told, &stage).await;
    assert_eq!((made.name.as_str(), made.owner_uid(), made.deleted), ("made", Some("uid-1"), false));
    assert_eq!((made.kind.as_str(), &made.plane), ("ConfigMap", &stage.key));

    let patch = Patch::Merge(json!({"data": {"key": "changed"}}));
    stage.direct().patch("made", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(next(&mut told, &stage).await.name, "made");
    let object = followed.get(Some(&stage.namespace), "made").unwrap();
    assert_eq!(object.data["data"]["key"], "changed");
    assert!(object.managed_fields().is_empty());
    let owned: Vec<_> = followed.owned_by("uid-1").iter().map(ResourceExt::name_any).collect();
    assert_eq!((owned, followed.all().len()), (vec!["made".to_owned()], 2));
    assert!(followed.get(Some(&stage.namespace), "foreign").is_none());
    for object in followed.all() {
        let types = object.types.as_ref().expect("listed or watched, an object has its kind");
        assert_eq!((types.api_version.as_str(), types.kind.as_str()), ("v1", "ConfigMap"));
    }

    stage.direct().delete("made", &DeleteParams::default()).await.unwrap();
    let gone = next(&mut told, &stage).await;
    assert_eq!((gone.name.as_str(), gone.owner_uid(), gone.deleted), ("made", Some("uid-1"), true));
    assert!(followed.get(Some(&stage.namespace), "made").is_none() && followed.owned_by("uid-1").is_empty());

    // Whoever asks again shares the watch.
    let mark = stage.proxy.mark();
    assert!(std::sync::Arc::ptr_eq(&followed, &plane.follow(&kind, selector, Follow::Whole)));
    let lists = stage.proxy.since(mark).resource("configmaps");
    assert!(lists.is_empty(), "{lists}");
    plane.unfollow(&kind, selector, Follow::Whole);
    assert!(followed.ended());
    stage.request(|r| r.resource() == "configmaps" && r.verb() == Verb::Watch && r.is_over()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_is_followed_without_the_rest() {
    let (stage, plane) = Stage::connected("metadata").await;
    let mut object = config_map("meta", &[("stage", "metadata")]);
    object.data = Some([("key".to_owned(), "value".to_owned())].into());
    stage.direct().create(&PostParams::default(), &object).await.unwrap();
    let kind = ApiResource::erase::<ConfigMap>(&());
    let followed = plane.follow(&kind, "stage=metadata", Follow::Metadata);
    assert!(soon(followed.synced()).await);
    let object = followed.get(Some(&stage.namespace), "meta").unwrap();
    assert!(object.data == json!({}) && object.managed_fields().is_empty());
    assert_eq!(object.labels()["stage"], "metadata");
    assert_eq!(object.types.as_ref().unwrap().kind, "ConfigMap");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_that_the_watch_did_not_tell_is_repaired_by_the_next_list() {
    let (stage, plane) = Stage::connected("missed").await;
    let labels = [("stage", "missed"), (OWNER_UID, "uid-2")];
    for name in ["missed", "kept"] {
        stage.direct().create(&PostParams::default(), &config_map(name, &labels)).await.unwrap();
    }
    let followed = plane.follow(&ApiResource::erase::<ConfigMap>(&()), "stage=missed", Follow::Whole);
    assert!(soon(followed.synced()).await);
    let watches = || Match::new().verb(Verb::Watch).resource("configmaps");
    stage.request(|r| r.resource() == "configmaps" && r.is_open_watch()).await;
    let mut told = stage.planes.remote_changes();

    let hidden = stage.proxy.fault(Fault::when(watches()).then(Action::hide_events_of("missed")));
    stage.direct().delete("missed", &DeleteParams::default()).await.unwrap();
    hidden.await_hit(PATIENCE).await.unwrap();
    assert!(followed.get(Some(&stage.namespace), "missed").is_some());
    let _expired = stage.proxy.fault(Fault::when(watches()).then(Action::ExpireWatch));
    let gone = next(&mut told, &stage).await;
    assert_eq!((gone.name.as_str(), gone.owner_uid(), gone.deleted), ("missed", Some("uid-2"), true));
    assert!(followed.get(Some(&stage.namespace), "missed").is_none());
    assert!(followed.get(Some(&stage.namespace), "kept").is_some() && followed.is_synced());
    assert!(told.try_recv().is_err(), "what did not change is not told");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_breaks_goes_on_where_it_was() {
    let (stage, plane) = Stage::connected("breaks").await;
    let followed = plane.follow(&ApiResource::erase::<ConfigMap>(&()), "stage=breaks", Follow::Whole);
    assert!(soon(followed.synced()).await);
    for kind in ["configmaps", "customresourcedefinitions"] {
        stage.request(|r| r.resource() == kind && r.is_open_watch()).await;
    }
    let mut told = stage.planes.remote_changes();
    let mark = stage.proxy.mark();
    stage.proxy.cut_connections();
    let again = |r: &Record| r.resource() == "configmaps" && r.is_open_watch();
    stage.proxy.await_request_since(mark, again, PATIENCE).await.unwrap();
    assert!(followed.is_synced(), "{:?}", followed.state());
    stage
        .direct()
        .create(&PostParams::default(), &config_map("after", &[("stage", "breaks")]))
        .await
        .unwrap();
    assert_eq!(next(&mut told, &stage).await.name, "after");
    assert!(followed.is_synced() && !plane.cancelled().is_cancelled());
    let lists = stage.proxy.since(mark).verb(Verb::List);
    assert!(lists.is_empty(), "{lists}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_is_not_installed_is_followed_once_it_is() {
    let (stage, plane) = Stage::connected("not-installed").await;
    let gvk = kube::api::GroupVersionKind::gvk("test.example.com", "v1", "Widget");
    let kind = ApiResource::from_gvk_with_plural(&gvk, "widgets");
    let followed = plane.follow(&kind, "", Follow::Whole);
    let until = async |wanted: FollowState| {
        wait::until(&format!("the watch is {wanted:?}"), PATIENCE, || async {
            let now = followed.state();
            Ok(if now == wanted { Seen::Done(()) } else { Seen::NotYet(format!("{now:?}")) })
        })
        .await
        .unwrap();
    };
    until(FollowState::NotInstalled).await;
    stage.cluster.apply_yaml(WIDGETS).await.unwrap();
    assert!(soon(followed.synced()).await);
    let widget = format!(
        "{{apiVersion: test.example.com/v1, kind: Widget, metadata: {{name: one, namespace: {}}}}}",
        stage.namespace
    );
    let mut told = stage.planes.remote_changes();
    stage.cluster.apply_yaml(&widget).await.unwrap();
    assert_eq!(next(&mut told, &stage).await.kind, "Widget");
}

const WIDGETS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.test.example.com}
spec:
  group: test.example.com
  names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
";

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_is_refused_says_so_and_recovers() {
    let (stage, plane) = Stage::connected("refused-watch").await;
    let lists = Match::new().resource("configmaps");
    let refused = stage.proxy.fault(Fault::when(lists).then(Action::status(403)));
    let followed = plane.follow(&ApiResource::erase::<ConfigMap>(&()), "stage=refused-watch", Follow::Whole);
    wait::until("the watch is failing", PATIENCE, || async {
        Ok(match followed.state() {
            FollowState::Denied { error } if error.contains("grant") => Seen::Done(()),
            other => Seen::NotYet(format!("{other:?}")),
        })
    })
    .await
    .unwrap();
    assert!(!followed.is_synced() && stage.planes.get(&stage.key).is_ok());
    refused.remove();
    assert!(soon(followed.synced()).await);
}
