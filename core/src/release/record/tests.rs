use std::collections::BTreeSet;

use proptest::{collection::vec, prelude::*, sample::subsequence};
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::changes::{Wanted, shown};

fn plane(name: &str, cluster: Option<&str>) -> PlaneRecord {
    PlaneRecord { namespace: "acme".into(), name: name.into(), cluster_uid: cluster.map(ToOwned::to_owned) }
}

fn here() -> PlaneRecord {
    plane("here", Some("cluster"))
}

/// An object from "id=apps/v1 Deployment app/web".
fn wanted(text: &str) -> Rendered {
    let (id, object) = text.split_once('=').unwrap();
    let [api_version, kind, place] = object.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let metadata = match place.split_once('/') {
        Some((namespace, name)) => json!({"namespace": namespace, "name": name}),
        None => json!({"name": place}),
    };
    let object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
    Rendered { id: id.into(), wanted: Wanted::new(serde_json::from_value(object).unwrap()) }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn recorded(before: &ReleaseStatus, plane: &PlaneRecord, all: &[&str], namespaces: &[&str]) -> Recorded {
    let all: Vec<Rendered> = all.iter().map(|text| wanted(text)).collect();
    record(before, plane, &all, names(namespaces), |_| true)
}

fn status(recorded: Recorded) -> ReleaseStatus {
    let Recorded { data_plane, resources, namespaces, removing } = recorded;
    ReleaseStatus { data_plane, resources, namespaces, removing, ..ReleaseStatus::default() }
}

/// The UID that an object has, by the cluster and by what it is, in whatever version.
fn uid_of(plane: Option<&PlaneRecord>, item: &InventoryItem) -> String {
    let cluster = plane.and_then(|plane| plane.cluster_uid.clone()).unwrap_or_default();
    format!("{cluster}:{}", shown(item))
}

/// What is known when everything that is recorded was made and is healthy.
fn made(mut recorded: Recorded) -> ReleaseStatus {
    for entry in &mut recorded.resources {
        entry.uid = Some(uid_of(recorded.data_plane.as_ref(), &item_of(entry)));
        entry.health_status = Some(Health::Healthy.as_str().to_owned());
    }
    status(recorded)
}

/// The status of a Release whose objects were made here.
fn running(all: &[&str], namespaces: &[&str]) -> ReleaseStatus {
    made(recorded(&ReleaseStatus::default(), &here(), all, namespaces))
}

fn written(item: &InventoryItem) -> String {
    let slash = if item.group.is_empty() { "" } else { "/" };
    let known = if item.uid.is_some() { " known" } else { "" };
    format!("{}{slash}{} {}{known}", item.group, item.version, shown(item))
}

fn resources(recorded: &Recorded) -> Vec<String> {
    recorded.resources.iter().map(|entry| format!("{}={}", entry.id, written(&item_of(entry)))).collect()
}

/// What is to be removed from the cluster that Releases are on here.
fn removing(recorded: &Recorded) -> Vec<String> {
    let place = recorded.removing.iter().filter(|place| is_on(&place.data_plane, &here()));
    place.flat_map(|place| &place.objects).map(written).collect()
}

const ONE: &str = "a=v1 ConfigMap app/one";
const TWO: &str = "b=v1 ConfigMap app/two";
const ROLE: &str = "c=rbac.authorization.k8s.io/v1 ClusterRole reader";

#[test]
fn a_new_release_is_recorded_before_anything_is_made() {
    let before = ReleaseStatus::default();
    let after = recorded(&before, &here(), &[ONE, ROLE], &["app"]);
    assert_eq!(resources(&after), [ONE, ROLE]);
    assert!(after.resources.iter().all(|entry| entry.health_status.as_deref() == Some("Unknown")));
    assert_eq!((&after.data_plane, &after.namespaces), (&Some(here()), &names(&["app"])));
    assert!(after.removing.is_empty() && adds_to(&before, &after));
    // Even one without objects: where it is tells where to look when it goes.
    assert!(adds_to(&before, &recorded(&before, &here(), &[], &[])));
}

#[test]
fn nothing_to_record_is_nothing_to_write() {
    let before = running(&[ONE, ROLE], &["app"]);
    let after = recorded(&before, &here(), &[ONE, ROLE], &["app"]);
    assert_eq!(after, Recorded::of(&before));
    assert!(!adds_to(&before, &after));
}

/// As [`recorded`], while ConfigMaps may not be listed.
fn without_config_maps(before: &ReleaseStatus, all: &[&str]) -> Recorded {
    let all: Vec<Rendered> = all.iter().map(|text| wanted(text)).collect();
    record(before, &here(), &all, names(&["app"]), |item| item.kind != "ConfigMap")
}

#[test]
fn what_was_never_sent_is_shown_and_is_nothing_to_remove() {
    let first = without_config_maps(&ReleaseStatus::default(), &[ONE, ROLE]);
    assert_eq!(resources(&first), [ONE, ROLE]);
    assert_eq!(first.resources.iter().map(|entry| entry.not_sent).collect::<Vec<_>>(), [true, false]);
    let going = |recorded: &Recorded| -> Vec<String> {
        recorded.everything().iter().flat_map(|place| &place.objects).map(written).collect()
    };
    assert_eq!(going(&first), ["rbac.authorization.k8s.io/v1 ClusterRole reader"]);
    assert_eq!(first.mentioned()[0].objects.len(), 2, "its kind is followed all the same");
    // A second look has nothing to write.
    let before = status(first.clone());
    assert_eq!(without_config_maps(&before, &[ONE, ROLE]), first);
    assert!(!adds_to(&before, &first));
    // Left out, it leaves nothing behind.
    assert!(removing(&without_config_maps(&before, &[ROLE])).is_empty());
    // Before it is sent, that is recorded.
    let sent = recorded(&before, &here(), &[ONE, ROLE], &["app"]);
    assert!(sent.resources.iter().all(|entry| !entry.not_sent) && adds_to(&before, &sent));
    assert_eq!(going(&sent).len(), 2);
}

#[test]
fn what_may_have_been_sent_may_be_there_although_its_kind_may_not_be_listed_any_more() {
    // Sent by an operator that died before it knew what came of it.
    let before = status(recorded(&ReleaseStatus::default(), &here(), &[ONE], &["app"]));
    let after = without_config_maps(&before, &[ONE]);
    assert!(!after.resources[0].not_sent);
    assert_eq!(removing(&without_config_maps(&before, &[])), ["v1 ConfigMap app/one"]);
    // Also what is wanted again, and was about to be removed.
    let leaving = status(recorded(&running(&[ONE], &["app"]), &here(), &[], &["app"]));
    assert!(!without_config_maps(&leaving, &[ONE]).resources[0].not_sent);
}

#[rstest]
#[case::removed(&[ONE, TWO], &[ONE], &["a=v1 ConfigMap app/one known"], &["v1 ConfigMap app/two known"], false)]
#[case::all_removed(&[ONE, TWO], &[], &[], &["v1 ConfigMap app/one known", "v1 ConfigMap app/two known"], false)]
#[case::added(&[ONE], &[TWO, ONE], &[TWO, "a=v1 ConfigMap app/one known"], &[], true)]
#[case::other_name(&[ONE], &["a=v1 ConfigMap app/1"], &["a=v1 ConfigMap app/1"], &["v1 ConfigMap app/one known"], true)]
#[case::other_namespace(&[ONE], &["a=v1 ConfigMap b/one"], &["a=v1 ConfigMap b/one"], &["v1 ConfigMap app/one known"], true)]
#[case::other_kind(&[ONE], &["a=v1 Secret app/one"], &["a=v1 Secret app/one"], &["v1 ConfigMap app/one known"], true)]
#[case::other_group(&[ONE], &["a=x/v1 ConfigMap app/one"], &["a=x/v1 ConfigMap app/one"], &["v1 ConfigMap app/one known"], true)]
#[case::other_version(&["a=x/v1 Y z"], &["a=x/v2 Y z"], &["a=x/v2 Y z known"], &[], false)]
#[case::other_id(&[ONE], &["b=v1 ConfigMap app/one"], &["b=v1 ConfigMap app/one known"], &[], false)]
#[case::exchanged_ids(
    &[ONE, TWO],
    &["b=v1 ConfigMap app/one", "a=v1 ConfigMap app/two"],
    &["b=v1 ConfigMap app/one known", "a=v1 ConfigMap app/two known"],
    &[],
    false
)]
fn what_an_edit_leaves_out_is_removed_and_what_it_keeps_stays_known(
    #[case] first: &[&str],
    #[case] then: &[&str],
    #[case] there: &[&str],
    #[case] going: &[&str],
    #[case] adds: bool,
) {
    let before = running(first, &[]);
    let after = recorded(&before, &here(), then, &[]);
    assert_eq!((resources(&after), removing(&after)), (names(there), names(going)));
    assert_eq!(adds_to(&before, &after), adds);
    // Nothing changes once it was written.
    assert_eq!(recorded(&status(after.clone()), &here(), then, &[]), after);
}

#[test]
fn what_is_known_of_an_object_goes_with_it_under_another_id_and_version() {
    let before = running(&["a=x/v1 Y z"], &[]);
    let after = recorded(&before, &here(), &["b=x/v2 Y z"], &[]);
    let expected = ResourceStatus { id: "b".into(), version: "v2".into(), ..before.resources[0].clone() };
    assert_eq!(after.resources, [expected]);
}

#[test]
fn an_object_that_is_wanted_again_is_known_by_its_uid() {
    let going = status(recorded(&running(&[ONE, TWO], &["app"]), &here(), &[], &[]));
    assert_eq!((going.removing[0].objects.len(), &going.removing[0].namespaces), (2, &names(&["app"])));
    let after = recorded(&going, &here(), &[TWO], &["app"]);
    assert_eq!(resources(&after), ["b=v1 ConfigMap app/two known"]);
    assert_eq!(removing(&after), ["v1 ConfigMap app/one known"]);
    assert!(after.removing[0].namespaces.is_empty());
    assert!(!adds_to(&going, &after), "it is recorded already, if as something to remove");
}

#[rstest]
#[case::kept(&["a"], &["a"], &[], false)]
#[case::no_longer_needed(&["a", "b"], &["b"], &["a"], false)]
#[case::added(&["a"], &["a", "b"], &[], true)]
#[case::exchanged(&["a"], &["b"], &["a"], true)]
fn namespaces_are_recorded_as_objects_are(
    #[case] first: &[&str],
    #[case] then: &[&str],
    #[case] going: &[&str],
    #[case] adds: bool,
) {
    let before = running(&[ONE], first);
    let after = recorded(&before, &here(), &[ONE], then);
    let removing: Vec<String> = after.removing.iter().flat_map(|place| place.namespaces.clone()).collect();
    assert_eq!((&after.namespaces, removing), (&names(then), names(going)));
    assert_eq!(adds_to(&before, &after), adds);
}

#[test]
fn on_another_cluster_everything_is_new_and_the_old_is_removed() {
    let before = running(&[ONE, TWO], &["app"]);
    let there = plane("here", Some("another"));
    let after = recorded(&before, &there, &[ONE], &["app"]);
    assert_eq!((resources(&after), &after.data_plane), (names(&[ONE]), &Some(there.clone())));
    let [place] = after.removing.as_slice() else { panic!("{:?}", after.removing) };
    assert_eq!((&place.data_plane, &place.namespaces), (&here(), &names(&["app"])));
    assert_eq!(removing(&after), ["v1 ConfigMap app/one known", "v1 ConfigMap app/two known"]);
    assert!(adds_to(&before, &after));
    // Where it is has to be written even when nothing is to be made.
    assert!(adds_to(&before, &recorded(&before, &there, &[], &[])));
    // And back again, before the old was gone.
    let back = recorded(&made(after), &here(), &[ONE], &["app"]);
    assert_eq!(resources(&back), ["a=v1 ConfigMap app/one known"]);
    assert_eq!(removing(&back), ["v1 ConfigMap app/two known"]);
    assert!(back.removing[0].namespaces.is_empty());
}

#[test]
fn a_plane_of_another_name_that_is_the_same_cluster_has_the_objects_already() {
    let before = running(&[ONE, TWO], &["app", "b"]);
    let renamed = plane("renamed", Some("cluster"));
    let after = recorded(&before, &renamed, &[ONE, TWO], &["app", "b"]);
    assert_eq!(after, Recorded { data_plane: Some(renamed), ..Recorded::of(&before) });
    assert!(!adds_to(&before, &after));
}

#[test]
fn what_is_removed_from_a_renamed_plane_is_reached_by_its_new_name() {
    // The old name may be registered no longer: what is recorded under it would be given up.
    let before = status(recorded(&running(&[ONE, TWO, ROLE], &["app", "b"]), &here(), &[ONE, TWO], &["app"]));
    let renamed = plane("renamed", Some("cluster"));
    let after = recorded(&before, &renamed, &[ONE], &[]);
    let [place] = after.removing.as_slice() else { panic!("{:?}", after.removing) };
    assert_eq!((&place.data_plane, &place.namespaces), (&renamed, &names(&["b", "app"])));
    assert_eq!(place.objects.len(), 2);
}

#[rstest]
#[case::same_cluster(plane("a", Some("x")), plane("b", Some("x")), true)]
#[case::another_cluster(plane("a", Some("x")), plane("a", Some("y")), false)]
#[case::same_name_of_an_old_record(plane("a", None), plane("a", Some("y")), true)]
#[case::another_name_of_an_old_record(plane("a", Some("y")), plane("b", None), false)]
#[case::same_name(plane("a", None), plane("a", None), true)]
#[case::another_organization(PlaneRecord { namespace: "b".into(), ..plane("a", None) }, plane("a", None), false)]
fn planes_are_told_apart_by_cluster_and_else_by_name(
    #[case] a: PlaneRecord,
    #[case] b: PlaneRecord,
    #[case] same: bool,
) {
    assert_eq!((is_on(&a, &b), is_on(&b, &a)), (same, same));
}

#[test]
fn a_record_without_the_cluster_learns_it() {
    let old = plane("here", None);
    let first = made(recorded(&ReleaseStatus::default(), &old, &[ONE, TWO, ROLE], &[]));
    let before = status(recorded(&first, &old, &[ONE, TWO], &[]));
    let after = recorded(&before, &here(), &[ONE], &[]);
    assert_eq!(resources(&after), ["a=v1 ConfigMap app/one known"]);
    assert!(!adds_to(&before, &after));
    let places: Vec<&PlaneRecord> = after.removing.iter().map(|place| &place.data_plane).collect();
    assert_eq!((places, after.removing[0].objects.len()), (vec![&here()], 2));
    // Else what is on it would be looked for on whichever cluster gets the name next.
    let moved = recorded(&status(after), &plane("here", Some("another")), &[ONE, TWO, ROLE], &[]);
    assert_eq!(removing(&moved).len(), 3);
}

#[test]
fn everything_is_all_that_may_be_anywhere_and_each_of_it_once() {
    let elsewhere = plane("elsewhere", Some("another"));
    let moved = recorded(&running(&[TWO], &["app"]), &elsewhere, &[TWO], &["app"]);
    let back = recorded(&made(moved), &here(), &[ONE], &["app", "b"]);
    let mut all = Recorded::of(&made(back));
    // As after a crash: to be removed, and there again.
    all.removing[0].objects.push(InventoryItem { uid: Some("old".into()), ..wanted(ONE).item() });
    all.removing[0].namespaces.push("b".into());
    let everything = all.everything();
    let on = |plane: &PlaneRecord| {
        let [place] = everything.iter().filter(|p| p.data_plane == *plane).collect::<Vec<_>>()[..] else {
            panic!()
        };
        (place.objects.iter().map(shown).collect::<Vec<_>>(), place.namespaces.clone())
    };
    assert_eq!(on(&here()), (names(&["ConfigMap app/two", "ConfigMap app/one"]), names(&["b", "app"])));
    assert_eq!(on(&elsewhere), (names(&["ConfigMap app/two"]), names(&["app"])));
    assert_eq!(everything[0].objects[1].uid.as_deref(), Some("cluster:ConfigMap app/one"));
    assert!(Recorded { data_plane: Some(here()), ..Recorded::default() }.everything().is_empty());
}

#[rstest]
#[case::object_there(here(), "app", true)]
#[case::object_to_be_removed(here(), "old", true)]
#[case::made_for_it(here(), "made", true)]
#[case::to_be_removed(here(), "gone", true)]
#[case::nobody_there(here(), "other", false)]
#[case::without_a_namespace(here(), "reader", false)]
#[case::another_cluster(plane("here", Some("another")), "app", false)]
#[case::renamed(plane("renamed", Some("cluster")), "app", true)]
fn a_namespace_is_used_while_anything_may_be_there(
    #[case] plane: PlaneRecord,
    #[case] namespace: &str,
    #[case] used: bool,
) {
    let before = running(&[ONE, ROLE, "d=v1 ConfigMap old/it"], &["made", "gone"]);
    let status = status(recorded(&before, &here(), &[ONE, ROLE], &["made"]));
    assert_eq!(uses_namespace(&status, &plane, namespace), used);
}

/// One state of the spec: the cluster, the name of its plane, the objects and the namespaces.
fn edits() -> impl Strategy<Value = Vec<(usize, usize, Vec<&'static str>, Vec<&'static str>)>> {
    let pool = vec![ONE, TWO, ROLE, "d=v1 Secret app/one", "e=x/v1 Y app/one", "f=v1 ConfigMap b/one"];
    let edit = (0..2_usize, 0..2_usize, subsequence(pool, 0..=6), subsequence(vec!["app", "b"], 0..=2));
    vec(edit, 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn nothing_that_was_made_is_ever_forgotten(edits in edits()) {
        let mut ever: BTreeSet<(Option<String>, String)> = BTreeSet::new();
        let mut before = ReleaseStatus::default();
        for (cluster, name, all, namespaces) in edits {
            let plane = plane(["blue", "green"][name], Some(["x", "y"][cluster]));
            let after = recorded(&before, &plane, &all, &namespaces);
            prop_assert_eq!(after.resources.len(), all.len());
            // What was made before keeps its UID wherever it is listed.
            for entry in &after.resources {
                let uid = uid_of(Some(&plane), &item_of(entry));
                let was_made = ever.contains(&(plane.cluster_uid.clone(), uid.clone()));
                prop_assert_eq!(entry.uid.clone(), was_made.then_some(uid));
            }
            before = made(after);
            let mut listed = vec![];
            let there = RemovingObjects {
                data_plane: plane.clone(),
                objects: before.resources.iter().map(item_of).collect(),
                namespaces: before.namespaces.clone(),
            };
            for place in before.removing.iter().chain([&there]) {
                let cluster = place.data_plane.cluster_uid.clone();
                prop_assert!(cluster != plane.cluster_uid || place.data_plane == plane, "{:?}", place);
                let uids = place.objects.iter().map(|item| item.uid.clone().unwrap_or_default());
                listed.extend(uids.chain(place.namespaces.clone()).map(|what| (cluster.clone(), what)));
            }
            ever.extend(listed.iter().cloned());
            // All of it, and each at one place only.
            prop_assert_eq!(listed.len(), ever.len());
            prop_assert_eq!(&listed.into_iter().collect::<BTreeSet<_>>(), &ever);
        }
    }
}
