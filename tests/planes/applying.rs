//! The apply engine on a real plane, without controllers around it.

mod manifests;
mod replaced;

use std::time::Duration;

use kantor::{
    apply::{Engine, Placed, Remains, Site, Writer},
    planes::Plane,
};
use kantor_api::{common::InventoryItem, labels, managers};
use kantor_core::{
    changes::{Outcome, Owner, Wanted},
    covers,
};
use kantor_testbed::{
    proxy::{Action, Fault, Match, StatusReply, Verb},
    wait::{self, Seen},
};
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::support::{PATIENCE, Stage, full, options, reads_an_object, soon};

const SELECTOR: &str = "openchoreo.dev/managed-by=release-controller";

fn owner(uid: &str) -> Owner {
    let organization = "acme".to_owned();
    Owner { uid: uid.to_owned(), label: labels::RELEASE_UID, organization, ..Owner::default() }
}

fn site(plane: &Plane) -> Site<'_> {
    let writer = Writer::new(plane.calls(), plane.deadline).with_slots(plane.slots());
    Site { plane, writer, manager: managers::RELEASE, selector: SELECTOR }
}

/// An object of `owner`, in `namespace` unless its kind has none.
fn wanted(owner: &Owner, namespace: &str, mut object: Value) -> Placed {
    if object["metadata"]["namespace"].is_null() && object["kind"] != "Namespace" {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object["metadata"]["labels"][labels::MANAGED_BY] = json!("release-controller");
    object["metadata"]["labels"][labels::RELEASE_UID] = json!(owner.uid);
    object["metadata"]["labels"][labels::RELEASE_NAMESPACE] = json!(owner.organization);
    (Wanted::new(serde_json::from_value(object).unwrap()), None)
}

fn settings(owner: &Owner, namespace: &str, name: &str, value: &str) -> Placed {
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": value}});
    wanted(owner, namespace, object)
}

fn items(wanted: &[Placed]) -> Vec<InventoryItem> {
    wanted.iter().map(|(wanted, _)| wanted.item()).collect()
}

/// A stage on the cluster with all optional parts.
async fn stage(name: &str) -> (Stage, std::sync::Arc<Plane>) {
    let stage = Stage::on(full(), name, options()).await;
    stage.want(&stage.cluster.kubeconfig());
    let plane = stage.plane().await;
    (stage, plane)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_applied_is_covered_whatever_the_server_makes_of_it_and_then_costs_nothing() {
    let (stage, plane) = stage("applying-all-kinds").await;
    let (engine, owner) = (Engine::default(), owner("all-kinds"));
    let all: Vec<Placed> =
        manifests::all().into_iter().map(|object| wanted(&owner, &stage.namespace, object)).collect();
    let changes = soon(engine.sync(&site(&plane), &owner, &all)).await;
    for change in &changes {
        assert_eq!(change.outcome, Outcome::Created, "{:?}", change.item);
    }
    for ((wanted, _), change) in all.iter().zip(&changes) {
        let live = read(&stage, wanted).await;
        assert_eq!(live.uid(), change.item.uid);
        let live = serde_json::to_value(live).unwrap();
        assert_eq!(covers::first_difference(&live, &wanted.intent()), None, "{:?}: {live:#}", change.item);
    }

    let mark = stage.proxy.mark();
    for engine in [&engine, &Engine::default()] {
        for change in soon(engine.sync(&site(&plane), &owner, &all)).await {
            assert_eq!(change.outcome, Outcome::Unchanged, "{:?}", change.item);
        }
    }
    stage.proxy.assert_no_writes_since(mark);
    let reads = stage.proxy.since(mark).filter(reads_an_object);
    assert!(reads.is_empty(), "{reads}");

    // Without controllers a namespace stays for ever, and claims keep their finalizer until it is taken off.
    let going: Vec<Placed> =
        all.into_iter().filter(|(wanted, _)| wanted.item().kind != "Namespace").collect();
    wait::until("all have gone", PATIENCE, || async {
        let removed = engine.remove(&site(&plane), &owner, &items(&going)).await;
        let (gone, left): (Vec<_>, Vec<_>) =
            removed.into_iter().partition(|removed| removed.remains == Remains::Nothing);
        for (wanted, _) in &going {
            if gone
                .iter()
                .any(|gone| (&gone.item.kind, &gone.item.name) == (&wanted.item().kind, &wanted.item().name))
            {
                assert!(
                    api(&stage, wanted).get_opt(&wanted.object.name_any()).await?.is_none(),
                    "{:?}",
                    wanted.item()
                );
            }
        }
        let claims = going.iter().filter(|(wanted, _)| wanted.item().kind == "PersistentVolumeClaim");
        for (claim, _) in claims {
            let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            let _ = api(&stage, claim).patch(&claim.object.name_any(), &PatchParams::default(), &patch).await;
        }
        Ok(if left.is_empty() { Seen::Done(()) } else { Seen::NotYet(format!("{left:#?}")) })
    })
    .await
    .unwrap();
    for (wanted, _) in &going {
        assert!(api(&stage, wanted).get_opt(&wanted.object.name_any()).await.unwrap().is_none());
    }
}

/// Some kinds answer with a status, others with the object that was there.
#[tokio::test(flavor = "multi_thread")]
async fn what_goes_at_once_is_not_looked_for_again() {
    let (stage, plane) = stage("applying-going").await;
    let (engine, owner) = (Engine::default(), owner("going"));
    let kinds = ["ConfigMap", "Service", "ServiceAccount", "Deployment"];
    let all: Vec<Placed> = manifests::all()
        .into_iter()
        .map(|object| wanted(&owner, &stage.namespace, object))
        .filter(|(wanted, _)| kinds.contains(&wanted.item().kind.as_str()))
        .collect();
    soon(engine.sync(&site(&plane), &owner, &all)).await;
    let mark = stage.proxy.mark();
    for removed in soon(engine.remove(&site(&plane), &owner, &items(&all))).await {
        assert_eq!(removed.remains, Remains::Nothing, "{:?}", removed.item);
    }
    let asked = stage.proxy.since(mark);
    assert_eq!(asked.clone().verb(Verb::Delete).len(), all.len(), "{asked}");
    let reads = asked.filter(reads_an_object);
    assert!(reads.is_empty(), "{reads}");
    for (wanted, _) in &all {
        assert!(api(&stage, wanted).get_opt(&wanted.object.name_any()).await.unwrap().is_none());
    }
}

async fn read(stage: &Stage, wanted: &Wanted) -> DynamicObject {
    api(stage, wanted).get(&wanted.object.name_any()).await.unwrap()
}

fn api(stage: &Stage, wanted: &Wanted) -> Api<DynamicObject> {
    let item = wanted.item();
    let gvk = kube::api::GroupVersionKind::gvk(&item.group, &item.version, &item.kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, &manifests::plural(&item.kind));
    if item.namespace.is_empty() {
        Api::all_with(stage.cluster.client(), &resource)
    } else {
        Api::namespaced_with(stage.cluster.client(), &item.namespace, &resource)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_others_is_overwritten_or_deleted() {
    let (stage, plane) = stage("applying-strangers").await;
    let (engine, me, you) = (Engine::default(), owner("me"), owner("you"));
    let of_nobody = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "theirs"},
        "metadata": {"name": "of-nobody", "namespace": stage.namespace}});
    stage.direct().create(&PostParams::default(), &serde_json::from_value(of_nobody).unwrap()).await.unwrap();
    let yours = [settings(&you, &stage.namespace, "yours", "yours")];
    soon(engine.sync(&site(&plane), &you, &yours)).await;
    let before = stage.direct().list(&ListParams::default()).await.unwrap().items;

    let mine =
        [settings(&me, &stage.namespace, "of-nobody", "1"), settings(&me, &stage.namespace, "yours", "1")];
    for change in soon(engine.sync(&site(&plane), &me, &mine)).await {
        assert!(
            matches!(&change.outcome, Outcome::Refused(why) if why.contains(&change.item.name)),
            "{change:?}"
        );
    }
    let removed = soon(engine.remove(&site(&plane), &me, &items(&mine))).await;
    assert!(removed.iter().all(|removed| removed.remains == Remains::Nothing), "{removed:?}");
    assert_eq!(stage.direct().list(&ListParams::default()).await.unwrap().items, before);

    // Asked to, it takes them over, and the other one then leaves them alone.
    let adopting = Owner { adopt: true, ..me };
    let engine = Engine::default();
    for change in soon(engine.sync(&site(&plane), &adopting, &mine)).await {
        assert!(change.outcome.is_in_place(), "{change:?}");
    }
    let refused = soon(engine.sync(&site(&plane), &you, &yours)).await;
    assert!(matches!(refused[0].outcome, Outcome::Refused(_)), "{refused:?}");
    soon(engine.remove(&site(&plane), &you, &items(&yours))).await;
    assert_eq!(stage.direct().get("yours").await.unwrap().data.unwrap()["a"], "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_appears_at_the_last_moment_is_not_overwritten() {
    let (stage, plane) = stage("applying-races").await;
    let (engine, me) = (Engine::default(), owner("me"));
    let mine = [settings(&me, &stage.namespace, "raced", "mine")];
    let apply = Match::new().verb(Verb::Apply).name("raced");
    let fault = stage.proxy.fault(Fault::when(apply.clone()).then(Action::HoldBefore));
    let site = site(&plane);
    let syncing = engine.sync(&site, &me, &mine);
    let racing = async {
        fault.await_hit(PATIENCE).await.unwrap();
        let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "theirs"},
            "metadata": {"name": "raced", "namespace": stage.namespace}});
        stage
            .direct()
            .create(&PostParams::default(), &serde_json::from_value(theirs).unwrap())
            .await
            .unwrap();
        fault.release();
    };
    let (changes, ()) = soon(async { tokio::join!(syncing, racing) }).await;
    assert!(matches!(&changes[0].outcome, Outcome::Refused(_)), "{changes:?}");
    assert_eq!(stage.direct().get("raced").await.unwrap().data.unwrap()["a"], "theirs");
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_per_object_and_wait_their_time_however_often_the_engine_is_called() {
    let (stage, plane) = stage("applying-failures").await;
    let (engine, me) = (Engine::default(), owner("me"));
    let names = ["busy", "conflicting", "failing", "fine", "forbidden"];
    let mine: Vec<Placed> = names.iter().map(|name| settings(&me, &stage.namespace, name, "1")).collect();
    let answers = [
        ("busy", StatusReply::new(429).retry_after(60)),
        ("conflicting", StatusReply::new(409)),
        ("failing", StatusReply::new(500)),
        ("forbidden", StatusReply::new(403)),
    ];
    let faults: Vec<_> = answers
        .into_iter()
        .map(|(name, reply)| {
            let apply = Match::new().verb(Verb::Apply).name(name);
            stage.proxy.fault(Fault::when(apply).then(Action::Status(reply)))
        })
        .collect();
    let changes = soon(engine.sync(&site(&plane), &me, &mine)).await;
    let of = |name: &str| changes.iter().find(|change| change.item.name == name).unwrap();
    assert_eq!(of("fine").outcome, Outcome::Created);
    for name in ["busy", "conflicting", "failing"] {
        assert!(matches!(of(name).outcome, Outcome::Failed(_)), "{:?}", of(name));
    }
    assert!(matches!(of("forbidden").outcome, Outcome::Refused(_)), "{:?}", of("forbidden"));
    assert!(of("busy").again.unwrap() >= Duration::from_mins(1), "{:?}", of("busy"));
    assert!(of("forbidden").again.unwrap() > of("failing").again.unwrap());

    // Called again at once: only the ones whose time has come are tried, and the server gets its minute.
    let mark = stage.proxy.mark();
    for _ in 0..5 {
        soon(engine.sync(&site(&plane), &me, &mine)).await;
    }
    let tried = stage.proxy.writes_since(mark);
    assert!(!tried.iter().any(|r| ["busy", "forbidden", "fine"].contains(&r.name())), "{tried}");

    // What is wanted now is something else: that is tried at once.
    drop(faults);
    let other: Vec<Placed> = names.iter().map(|name| settings(&me, &stage.namespace, name, "2")).collect();
    for change in soon(engine.sync(&site(&plane), &me, &other)).await {
        assert!(change.outcome.is_in_place(), "{change:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn absence_is_never_inferred_from_an_error() {
    let (stage, plane) = stage("applying-removal").await;
    let (engine, me) = (Engine::default(), owner("me"));
    let mine =
        [settings(&me, &stage.namespace, "a", "1"), settings(&me, &stage.namespace, "never-made", "1")];
    soon(engine.sync(&site(&plane), &me, &mine[..1])).await;
    for code in [500, 503, 403, 409, 429] {
        let calls = Match::new().verb(Verb::Delete).verb(Verb::Get).resource("configmaps");
        let fault = stage.proxy.fault(Fault::when(calls).then(Action::status(code)));
        let removed = soon(engine.remove(&site(&plane), &me, &items(&mine))).await;
        for removed in removed {
            assert!(matches!(&removed.remains, Remains::Failed(_)), "{code}: {removed:?}");
        }
        fault.remove();
    }
    assert!(stage.direct().get_opt("a").await.unwrap().is_some());
    let removed = soon(engine.remove(&site(&plane), &me, &items(&mine))).await;
    assert!(removed.iter().all(|removed| removed.remains == Remains::Nothing), "{removed:?}");
    assert!(stage.direct().get_opt("a").await.unwrap().is_none());
}
