//! The index beside a model that keeps nothing and looks at everything.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::Hash,
    sync::Arc,
};

use kantor_core::hierarchy::{Facts, Id, KeyRef, Kind, Need, Place, children, resolve, sample::Shelf};
use proptest::{collection::vec, option, prelude::*, sample::select};

use crate::cache::index::{Ids, Index};

const KINDS: [Kind; 3] = [Kind::DataPlane, Kind::Environment, Kind::Deployment];
const NAMES: [&str; 2] = ["a", "b"];
const NAMESPACES: [&str; 2] = ["acme", "default"];

/// The index is what one made from `objects` alone would be, and keeps no empty sets.
pub(super) fn assert_rebuilt(index: &Index, objects: &[Facts]) {
    let (mut found, mut referring, mut owned) = (HashMap::new(), HashMap::new(), HashMap::new());
    let mut placed = HashMap::new();
    let mut reports: HashMap<_, BTreeMap<u64, usize>> = HashMap::new();
    for facts in objects {
        for way in KINDS.iter().filter(|kind| kind.minds(facts.id.kind)).filter_map(|kind| way(facts, *kind))
        {
            *reports.entry(index.marks.of(&way)).or_default().entry(facts.report).or_default() += 1;
        }
        for owner in &facts.owners {
            owned.entry(owner.clone()).or_insert_with(BTreeSet::new).insert(facts.id.clone());
        }
        for place in &facts.places {
            placed.entry(index.marks.of(place)).or_insert_with(BTreeSet::new).insert(facts.id.clone());
        }
        for key in facts.keys() {
            found
                .entry(index.marks.of(key.borrowed()))
                .or_insert_with(BTreeSet::new)
                .insert(facts.id.clone());
        }
        for key in facts.needs.iter().flat_map(Need::keys) {
            referring.entry(index.marks.of(key)).or_insert_with(BTreeSet::new).insert(facts.id.clone());
        }
    }
    assert_eq!(plain(&index.found), plain(&listed(&found)));
    assert_eq!(plain(&index.referring), plain(&listed(&referring)));
    assert_eq!(plain(&index.owned), plain(&listed(&owned)));
    assert_eq!(plain(&index.placed), plain(&listed(&placed)));
    let kept = index.reports.iter().map(|(way, reports)| (*way, reports.iter().copied().collect()));
    assert_eq!(kept.collect::<HashMap<_, BTreeMap<u64, usize>>>(), reports);
    let objects: HashMap<_, _> =
        objects.iter().map(|facts| (Arc::new(facts.id.clone()), facts.clone())).collect();
    assert_eq!(index.objects, objects);
    assert!(index.found.values().chain(index.referring.values()).all(|ids| !ids.is_empty()));
    assert!(index.reports.values().all(|reports| !reports.is_empty()));
}

fn listed<K: Eq + Hash + Clone>(sets: &HashMap<K, BTreeSet<Id>>) -> HashMap<K, Ids> {
    sets.iter().map(|(key, ids)| (key.clone(), ids.iter().cloned().map(Arc::new).collect())).collect()
}

/// In their order, each once.
fn plain<K: Eq + Hash + Clone>(lists: &HashMap<K, Ids>) -> HashMap<K, Vec<Id>> {
    lists.iter().map(|(key, ids)| (key.clone(), ids.iter().map(|id| Id::clone(id)).collect())).collect()
}

type Objects = BTreeMap<Id, Facts>;

/// Whether `need` may be about the object of `facts`.
fn may_mean(need: &Need, facts: &Facts) -> bool {
    facts.keys().iter().any(|key| need.keys().contains(&key.borrowed()))
}

/// How an object refers to those of a kind, if it does.
fn way(facts: &Facts, kind: Kind) -> Option<Vec<KeyRef<'_>>> {
    let needs = facts.needs.iter().filter(|need| need.kind == kind);
    let keys: Vec<KeyRef<'_>> = needs.flat_map(Need::keys).collect();
    (!keys.is_empty()).then_some(keys)
}

/// Whom a change of an object from `before` to `after` concerns. `objects` are all others.
fn woken(objects: &Objects, id: &Id, before: Option<&Facts>, after: Option<&Facts>) -> BTreeSet<Id> {
    let versions: Vec<&Facts> = before.into_iter().chain(after).collect();
    let places = |facts: Option<&Facts>| facts.map(|facts| (facts.keys(), facts.scope.clone()));
    let differs = |of: fn(&Facts) -> u64| before.map(of) != after.map(of);
    let moved = places(before) != places(after);
    let mut woken = BTreeSet::from([id.clone()]);
    if moved || differs(|facts| facts.essence) {
        let mut next: Vec<(&Facts, Option<&[Kind]>)> = versions.iter().map(|facts| (*facts, None)).collect();
        let mut seen: Vec<(Id, Option<&[Kind]>)> = vec![];
        while let Some((facts, only)) = next.pop() {
            for other in objects.values().filter(|o| only.is_none_or(|kinds| kinds.contains(&o.id.kind))) {
                for need in other.needs.iter().filter(|need| may_mean(need, facts)) {
                    woken.insert(other.id.clone());
                    let passed_on = (other.id.clone(), Some(need.passes_on));
                    if !seen.contains(&passed_on) {
                        seen.push(passed_on);
                        next.push((other, Some(need.passes_on)));
                    }
                }
            }
        }
    }
    if moved {
        for other in objects.values() {
            for need in other.needs.iter().filter(|need| versions.iter().any(|v| may_mean(need, v))) {
                let instead = other.needs.iter().filter(|n| (n.kind, &n.name) == (need.kind, &need.name));
                for need in instead {
                    woken.extend(objects.values().filter(|o| may_mean(need, o)).map(|o| o.id.clone()));
                }
            }
        }
    }
    if differs(|facts| facts.report) || before.map(|f| &f.needs) != after.map(|f| &f.needs) {
        for need in versions.iter().flat_map(|facts| &facts.needs) {
            let heard = |changed: Option<&Facts>| -> BTreeSet<(String, u64)> {
                let all = objects.values().chain(changed).filter(|o| need.kind.minds(o.id.kind));
                all.filter_map(|o| Some((format!("{:?}", way(o, need.kind)?), o.report))).collect()
            };
            let (heard_before, heard_now) = (heard(before), heard(after));
            let of_this = |version: &&&Facts| version.needs.contains(need);
            let is_news = heard_before.symmetric_difference(&heard_now).any(|(news, _)| {
                versions.iter().filter(of_this).any(|v| *news == format!("{:?}", way(v, need.kind).unwrap()))
            });
            let concerned = objects.values().filter(|o| may_mean(need, o) && (o.deleting || is_news));
            woken.extend(concerned.map(|o| o.id.clone()));
        }
    }
    woken
}

fn name() -> impl Strategy<Value = String> {
    select(&NAMES[..]).prop_map(str::to_owned)
}

fn id() -> impl Strategy<Value = Id> {
    (select(&KINDS[..]), select(&NAMESPACES[..]), name())
        .prop_map(|(kind, namespace, name)| Id::new(kind, namespace, name))
}

fn need() -> impl Strategy<Value = Need> {
    let passes_on: &[&'static [Kind]] = &[&[], &[Kind::Environment], &[Kind::Deployment, Kind::DataPlane]];
    (id(), name(), select(passes_on)).prop_map(|(id, scope, passes_on)| Need {
        kind: id.kind,
        namespace: id.namespace,
        scope: vec![scope],
        name: id.name,
        passes_on,
    })
}

/// References go from kind to kind: nothing refers to its own.
fn facts() -> impl Strategy<Value = Facts> {
    let owners = vec(select(&["u1", "u2"][..]).prop_map(str::to_owned), 0..3);
    let digests = (0..2_u64, 0..2_u64);
    let places = vec((name(), name()), 0..3);
    let rest = (owners, digests, places);
    (id(), option::of(name()), option::of(name()), vec(need(), 0..4), rest, any::<bool>()).prop_map(
        |(id, scope, logical_name, needs, (owners, (essence, report), places), deleting)| Facts {
            places: places
                .into_iter()
                .map(|(plane, namespace)| Place { plane: ("acme".to_owned(), plane), namespace })
                .collect(),
            needs: needs.into_iter().filter(|need| need.kind != id.kind).collect(),
            id,
            uid: None,
            owners,
            deleting,
            scope: vec![scope],
            logical_name,
            missing_labels: vec![],
            essence,
            report,
        },
    )
}

#[derive(Clone, Debug)]
enum Step {
    Put(Facts),
    Remove(Id),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![3 => facts().prop_map(Step::Put), 1 => id().prop_map(Step::Remove)]
}

proptest! {
    #[test]
    fn after_any_changes_the_index_is_as_if_built_anew_and_has_woken_whom_each_change_concerned(
        steps in vec(step(), 1..40)
    ) {
        let (mut index, mut objects) = (Index::default(), Objects::new());
        for step in steps {
            let (id, after) = match step {
                Step::Put(facts) => (facts.id.clone(), Some(facts)),
                Step::Remove(id) => (id, None),
            };
            let before = objects.remove(&id);
            let expected = woken(&objects, &id, before.as_ref(), after.as_ref());
            let told = match &after {
                Some(facts) => index.put(facts.clone()),
                None => index.remove(&id),
            };
            prop_assert_eq!(told, expected, "{:?} became {:?}", before, after);
            objects.extend(after.map(|facts| (id, facts)));
            assert_rebuilt(&index, &objects.values().cloned().collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_refers_to_what_does_not_depend_on_the_order_in_which_objects_came(
        objects in vec(facts(), 1..30).prop_map(|all| all.into_iter().map(|f| (f.id.clone(), f)).collect::<Objects>()),
        turn in 0..12_usize,
    ) {
        let mut order: Vec<Facts> = objects.values().cloned().collect();
        let shelf = Shelf(order.clone());
        let turn = turn % order.len();
        order.rotate_left(turn);
        let (mut forwards, mut backwards) = (Index::default(), Index::default());
        for (first, last) in order.iter().zip(order.iter().rev()) {
            forwards.put(first.clone());
            backwards.put(last.clone());
        }
        for facts in objects.values() {
            for kind in KINDS {
                let expected = resolve(&shelf, facts, kind);
                prop_assert_eq!(&resolve(&forwards, facts, kind), &expected);
                prop_assert_eq!(&resolve(&backwards, facts, kind), &expected);
                let expected = children(&shelf, facts, kind);
                prop_assert_eq!(&children(&forwards, facts, kind), &expected);
                prop_assert_eq!(&children(&backwards, facts, kind), &expected);
            }
        }
    }

    /// Whoever decides by what refers to it or by what it refers to, decides anew when that changes.
    #[test]
    fn who_sees_something_else_after_a_change_is_woken_by_it(
        steps in vec(step(), 1..30)
    ) {
        let mut index = Index::default();
        for step in steps {
            let seen_before = views(&index);
            let woken = match step {
                Step::Put(facts) => index.put(facts),
                Step::Remove(id) => index.remove(&id),
            };
            for (id, view) in views(&index) {
                if seen_before.get(&id).is_some_and(|before| *before != view) {
                    prop_assert!(woken.contains(&id), "{} sees a change and sleeps", id);
                }
            }
        }
    }
}

/// What each object sees of the others: what it refers to, who refers to it if it is being deleted, and what those report
/// whom it minds.
fn views(index: &Index) -> HashMap<Id, Vec<String>> {
    let view = |facts: &Facts| {
        let of = |kind| {
            let children = children(index, facts, kind);
            let report = |id: &Id| index.objects[id].report;
            let reports: BTreeSet<u64> = children.iter().map(report).collect();
            let reports = facts.id.kind.minds(kind).then_some(reports);
            let children = facts.deleting.then_some(children);
            format!("{:?} {children:?} {reports:?}", resolve(index, facts, kind))
        };
        KINDS.map(of).to_vec()
    };
    index.objects.iter().map(|(id, facts)| (Id::clone(id), view(facts))).collect()
}
