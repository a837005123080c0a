//! Between a look at an object and the write that follows from it, somebody puts another object in its place: that one is
//! not ours to change or to delete.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kantor::apply::{Engine, Remains};
use kantor_api::labels;
use kantor_core::changes::{Outcome, Owner};
use kantor_testbed::proxy::{Action, Fault, FaultHandle, Match, Verb};
use kube::api::{DeleteParams, ObjectMeta, PostParams};

use super::{items, owner, settings, site, stage};
use crate::support::{PATIENCE, Stage, soon};

const NAME: &str = "swapped";

/// Holds the writes of a verb to the object.
fn held(stage: &Stage, verb: Verb) -> FaultHandle {
    let writes = Match::new().verb(verb).resource("configmaps").name(NAME);
    stage.proxy.fault(Fault::when(writes).then(Action::HoldBefore))
}

/// Deletes the object and makes another one of its name, whose labels say that it is the owner's: only its UID tells that
/// it is not the one that was looked at.
async fn swap(stage: &Stage, owner: &Owner) -> ConfigMap {
    stage.direct().delete(NAME, &DeleteParams::default()).await.unwrap();
    let labels = [(labels::MANAGED_BY, "release-controller"), (labels::RELEASE_UID, owner.uid.as_str())];
    let labels: BTreeMap<String, String> =
        labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let metadata = ObjectMeta { name: Some(NAME.to_owned()), labels: Some(labels), ..ObjectMeta::default() };
    let data = BTreeMap::from([("a".to_owned(), "theirs".to_owned())]);
    let theirs = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
    stage.direct().create(&PostParams::default(), &theirs).await.unwrap()
}

/// Fails unless the object is exactly as it was made.
async fn untouched(stage: &Stage, theirs: &ConfigMap) {
    let found = stage.direct().get_opt(NAME).await.unwrap().expect("it was deleted");
    assert_eq!(found, *theirs);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_takes_the_place_of_an_object_while_it_is_deleted_stays() {
    let (stage, plane) = stage("replaced-deletion").await;
    let (engine, me) = (Engine::default(), owner("me"));
    let mine = [settings(&me, &stage.namespace, NAME, "mine")];
    let made = soon(engine.sync(&site(&plane), &me, &mine)).await;
    assert_eq!(made[0].outcome, Outcome::Created);

    let fault = held(&stage, Verb::Delete);
    let (site, items) = (site(&plane), items(&mine));
    let swapping = async {
        fault.await_hit(PATIENCE).await.unwrap();
        let theirs = swap(&stage, &me).await;
        fault.release();
        theirs
    };
    let (removed, theirs) = soon(async { tokio::join!(engine.remove(&site, &me, &items), swapping) }).await;
    // It is tried again, with a look at what is there by then.
    assert!(matches!(removed[0].remains, Remains::Failed(_)), "{removed:?}");
    untouched(&stage, &theirs).await;
    assert_eq!(fault.hits(), 1, "one deletion was under way");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_takes_the_place_of_an_object_while_it_is_changed_stays_as_it_is() {
    let (stage, plane) = stage("replaced-change").await;
    let (engine, me) = (Engine::default(), owner("me"));
    let before = [settings(&me, &stage.namespace, NAME, "mine")];
    soon(engine.sync(&site(&plane), &me, &before)).await;

    let after = [settings(&me, &stage.namespace, NAME, "changed")];
    let fault = held(&stage, Verb::Apply);
    let site = site(&plane);
    let swapping = async {
        fault.await_hit(PATIENCE).await.unwrap();
        let theirs = swap(&stage, &me).await;
        fault.release();
        theirs
    };
    let (changes, theirs) = soon(async { tokio::join!(engine.sync(&site, &me, &after), swapping) }).await;
    assert!(!changes[0].outcome.is_in_place(), "{changes:?}");
    untouched(&stage, &theirs).await;
    assert_eq!(fault.hits(), 1);
}

/// An object that cannot be changed is deleted and made anew: the one that was looked at, and no other.
#[tokio::test(flavor = "multi_thread")]
async fn what_takes_the_place_of_an_object_while_it_makes_way_stays() {
    let (stage, plane) = stage("replaced-replacement").await;
    let engine = Engine::default();
    let me = Owner { replace: true, ..owner("me") };
    let frozen = |value: &str| {
        let (mut wanted, policy) = settings(&me, &stage.namespace, NAME, value);
        wanted.object.data["immutable"] = true.into();
        (kantor_core::changes::Wanted::new(wanted.object), policy)
    };
    let made = soon(engine.sync(&site(&plane), &me, &[frozen("mine")])).await;
    assert_eq!(made[0].outcome, Outcome::Created);

    let fault = held(&stage, Verb::Delete);
    let (site, after) = (site(&plane), [frozen("changed")]);
    let swapping = async {
        fault.await_hit(PATIENCE).await.unwrap();
        let theirs = swap(&stage, &me).await;
        fault.release();
        theirs
    };
    let (changes, theirs) = soon(async { tokio::join!(engine.sync(&site, &me, &after), swapping) }).await;
    assert!(!changes[0].outcome.is_in_place(), "{changes:?}");
    untouched(&stage, &theirs).await;
    assert_eq!(fault.hits(), 1);
}
