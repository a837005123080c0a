//! One Release of sixty mixed objects, from its first day to its last; the operator killed at each write of it; planes that
//! hang when it goes.

mod drift;
mod fixtures;
mod hanging;
mod killing;

use std::collections::{BTreeMap, BTreeSet};

use kantor_testbed::{
    proxy::{Mark, Verb},
    snapshot::{Options, Snapshot, assert_nothing_left},
};

use self::fixtures::{Objects, Others, gateway, release_fixture};
use super::support::{ReleaseFixture, resource};
use crate::support::PATIENCE;

#[tokio::test(flavor = "multi_thread")]
async fn sixty_mixed_objects_are_kept_as_written_and_leave_no_trace() {
    let mut fixture = release_fixture().await;
    let others = Others::settle(&fixture.plane).await;
    let _gateway = gateway(&fixture.plane);
    let before = fixture.snapshot().await;
    let control_before =
        Snapshot::settled(&fixture.control.client, &Options::default(), PATIENCE).await.unwrap();
    let others_before = others.now(&fixture.plane).await;
    let mut phases = Objects::sixty().phases().into_iter();

    let (_, mut objects) = phases.next().unwrap();
    assert_eq!(objects.len(), 60);
    fixture.create("story", &objects.resources()).await;
    let release = fixture.ready("story").await;
    let entries = &release.status.as_ref().unwrap().resources;
    assert!(entries.len() == 60 && entries.iter().all(|entry| entry.uid.is_some()), "{entries:#?}");

    nothing_to_do_costs_nothing(&mut fixture).await;
    drift::repaired(&fixture).await;
    fixture.ready("story").await;

    for (name, next) in phases {
        fixture.quiet().await;
        let (mark, uids) = (fixture.plane.proxy.mark(), uids(&fixture, &objects).await);
        fixture.edit("story", &next.resources()).await;
        fixture.ready("story").await;
        let (old, new): (BTreeSet<_>, BTreeSet<_>) =
            (objects.places().into_iter().collect(), next.places().into_iter().collect());
        let going: BTreeSet<_> = old.difference(&new).cloned().collect();
        assert_eq!(deleted(&fixture, mark), deletions_of(&going), "{name}");
        let now = self::uids(&fixture, &next).await;
        for (place, uid) in &uids {
            assert_eq!(now.get(place), (!going.contains(place)).then_some(uid), "{name}: {place:?}");
        }
        assert_eq!(now.len(), next.len(), "{name}");
        objects = next;
    }
    assert_eq!(objects.len(), 50);
    nothing_to_do_costs_nothing(&mut fixture).await;
    assert_eq!(others.now(&fixture.plane).await, others_before);

    fixture.delete("story").await;
    fixture.nothing_left(&before).await;
    assert_nothing_left(&control_before, &fixture.control.client, PATIENCE).await;
    assert_eq!(others.now(&fixture.plane).await, others_before);
}

/// Neither being woken nor starting anew costs a write, or a request beside those that tell what is there.
async fn nothing_to_do_costs_nothing(fixture: &mut ReleaseFixture) {
    fixture.quiet().await;
    let (here, there) = (fixture.control.proxy.mark(), fixture.plane.proxy.mark());
    fixture.touch("story").await;
    nothing_asked(fixture, here, there);
    let asked = fixture.plane.asked_since(there);
    assert!(asked.is_empty(), "{asked}");

    fixture.control.restart_operator().await;
    // Its kind is looked at last.
    let last = "validatingwebhookconfigurations";
    let is_last =
        |record: &kantor_testbed::proxy::Record| record.verb() == Verb::Watch && record.resource() == last;
    fixture.plane.proxy.await_request_since(there, is_last, PATIENCE).await.unwrap();
    fixture.quiet().await;
    // It may have looked before it knew all; now it does.
    fixture.touch("story").await;
    nothing_asked(fixture, here, there);
}

#[track_caller]
fn nothing_asked(fixture: &ReleaseFixture, here: Mark, there: Mark) {
    let calls = fixture.plane.calls_since(there);
    assert!(calls.is_empty(), "{calls}");
    fixture.control.proxy.assert_no_writes_since(here);
}

/// The UIDs of the objects that are there.
async fn uids(fixture: &ReleaseFixture, objects: &Objects) -> BTreeMap<(String, String, String), String> {
    let mut found = BTreeMap::new();
    for (kind, namespace, name) in objects.places() {
        if let Some(object) = fixture.plane.get(&kind, &namespace, &name).await {
            let uid = object["metadata"]["uid"].as_str().unwrap().to_owned();
            found.insert((kind, namespace, name), uid);
        }
    }
    found
}

/// What the operator asked the plane to delete: resource, namespace, name.
fn deleted(fixture: &ReleaseFixture, mark: Mark) -> BTreeSet<(String, String, String)> {
    let deletions = fixture.plane.proxy.since(mark).verb(Verb::Delete);
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
