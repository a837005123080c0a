//! One Release of sixty mixed objects, from its first day to its last; the operator killed at each write of it; planes that
//! hang when it goes.

mod cast;
mod drift;
mod hanging;
mod killing;

use std::collections::{BTreeMap, BTreeSet};

use kantor_testbed::{
    proxy::{Mark, Verb},
    snapshot::{Options, Snapshot, assert_nothing_left},
};

use self::cast::{Objects, Others, gateway, theatre};
use super::support::{Theatre, resource};
use crate::support::PATIENCE;

#[tokio::test(flavor = "multi_thread")]
async fn sixty_mixed_objects_are_kept_as_written_and_leave_no_trace() {
    let mut theatre = theatre().await;
    let others = Others::settle(&theatre.plane).await;
    let _gateway = gateway(&theatre.plane);
    let before = theatre.snapshot().await;
    let control_before =
        Snapshot::settled(&theatre.stage.client, &Options::default(), PATIENCE).await.unwrap();
    let others_before = others.now(&theatre.plane).await;
    let mut chapters = Objects::sixty().chapters().into_iter();

    let (_, mut objects) = chapters.next().unwrap();
    assert_eq!(objects.len(), 60);
    theatre.create("story", &objects.resources()).await;
    let release = theatre.ready("story").await;
    let entries = &release.status.as_ref().unwrap().resources;
    assert!(entries.len() == 60 && entries.iter().all(|entry| entry.uid.is_some()), "{entries:#?}");

    nothing_to_do_costs_nothing(&mut theatre).await;
    drift::repaired(&theatre).await;
    theatre.ready("story").await;

    for (name, next) in chapters {
        theatre.quiet().await;
        let (mark, uids) = (theatre.plane.proxy.mark(), uids(&theatre, &objects).await);
        theatre.edit("story", &next.resources()).await;
        theatre.ready("story").await;
        let (old, new): (BTreeSet<_>, BTreeSet<_>) =
            (objects.places().into_iter().collect(), next.places().into_iter().collect());
        let going: BTreeSet<_> = old.difference(&new).cloned().collect();
        assert_eq!(deleted(&theatre, mark), deletions_of(&going), "{name}");
        let now = self::uids(&theatre, &next).await;
        for (place, uid) in &uids {
            assert_eq!(now.get(place), (!going.contains(place)).then_some(uid), "{name}: {place:?}");
        }
        assert_eq!(now.len(), next.len(), "{name}");
        objects = next;
    }
    assert_eq!(objects.len(), 50);
    nothing_to_do_costs_nothing(&mut theatre).await;
    assert_eq!(others.now(&theatre.plane).await, others_before);

    theatre.delete("story").await;
    theatre.nothing_left(&before).await;
    assert_nothing_left(&control_before, &theatre.stage.client, PATIENCE).await;
    assert_eq!(others.now(&theatre.plane).await, others_before);
}

/// Neither being woken nor starting anew costs a write, or a request beside those that tell what is there.
async fn nothing_to_do_costs_nothing(theatre: &mut Theatre) {
    theatre.quiet().await;
    let (here, there) = (theatre.stage.proxy.mark(), theatre.plane.proxy.mark());
    theatre.touch("story").await;
    nothing_asked(theatre, here, there);
    let asked = theatre.plane.asked_since(there);
    assert!(asked.is_empty(), "{asked}");

    theatre.stage.restart_operator().await;
    // Its kind is looked at last.
    let last = "validatingwebhookconfigurations";
    let is_last =
        |record: &kantor_testbed::proxy::Record| record.verb() == Verb::Watch && record.resource() == last;
    theatre.plane.proxy.await_request_since(there, is_last, PATIENCE).await.unwrap();
    theatre.quiet().await;
    // It may have looked before it knew all; now it does.
    theatre.touch("story").await;
    nothing_asked(theatre, here, there);
}

#[track_caller]
fn nothing_asked(theatre: &Theatre, here: Mark, there: Mark) {
    let calls = theatre.plane.calls_since(there);
    assert!(calls.is_empty(), "{calls}");
    theatre.stage.proxy.assert_no_writes_since(here);
}

/// The UIDs of the objects that are there.
async fn uids(theatre: &Theatre, objects: &Objects) -> BTreeMap<(String, String, String), String> {
    let mut found = BTreeMap::new();
    for (kind, namespace, name) in objects.places() {
        if let Some(object) = theatre.plane.get(&kind, &namespace, &name).await {
            let uid = object["metadata"]["uid"].as_str().unwrap().to_owned();
            found.insert((kind, namespace, name), uid);
        }
    }
    found
}

/// What the operator asked the plane to delete: resource, namespace, name.
fn deleted(theatre: &Theatre, mark: Mark) -> BTreeSet<(String, String, String)> {
    let deletions = theatre.plane.proxy.since(mark).verb(Verb::Delete);
    let deletion = |record: kantor_testbed::proxy::Record| {
        (record.resource().to_owned(), record.namespace().to_owned(), record.name().to_owned())
    };
    deletions.into_iter().map(deletion).collect()
}

fn deletions_of(going: &BTreeSet<(String, String, String)>) -> BTreeSet<(String, String, String)> {
    let deletion = |(kind, namespace, name): &(String, String, String)| {
        (resource(kind).plural, namespace.clone(), name.clone())
    };
    going.iter().map(deletion).collect()
}
