//! Who refers to whom, and who is to be woken by a change. Lookups are by key: nothing is scanned.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    hash::{BuildHasher, Hash, RandomState},
    sync::Arc,
};

use kantor_core::hierarchy::{Catalog, Facts, Id, Key, KeyRef, Kind, Need, Place};

/// The reverse index of all objects. There are several keys to each object: what is kept of each is little.
#[derive(Default)]
pub struct Index {
    objects: HashMap<Arc<Id>, Facts>,
    found: HashMap<Mark, Ids>,
    referring: HashMap<Mark, Ids>,
    owned: HashMap<String, Ids>,
    /// By the places on data planes in which they say that they are.
    placed: HashMap<Mark, Ids>,
    /// By what they wait for at the moment, beside what they refer to.
    awaited: HashMap<Mark, Ids>,
    awaiting: HashMap<Arc<Id>, HashSet<Mark>>,
    by_uid: HashMap<String, Arc<Id>>,
    /// What is reported to those who mind, by the way in which they are referred to: each report with how many make it.
    reports: HashMap<Mark, Vec<(u64, usize)>>,
    marks: Marks,
}

/// Objects in their order. Most keys have one: a list takes less than a tree.
type Ids = Vec<Arc<Id>>;

/// What stands for a key: nothing else has the same. Names are chosen by tenants, who cannot know how they are mixed.
type Mark = [u64; 2];

/// An object as it was or is, and the [`Marks::referred`] of it.
struct Referring<'a> {
    facts: Option<&'a Facts>,
    marks: Vec<Mark>,
}

#[derive(Clone, Default)]
struct Marks([RandomState; 2]);

impl Marks {
    fn of(&self, value: impl Hash) -> Mark {
        self.0.each_ref().map(|mix| mix.hash_one(&value))
    }

    /// Those of the keys of what an object refers to, two for each reference.
    fn referred(&self, facts: &Facts) -> Vec<Mark> {
        facts.needs.iter().flat_map(Need::keys).map(|key| self.of(key)).collect()
    }

    /// What an object reports to the kinds that mind it, and how it refers to those. Who does it in the same way means the
    /// same.
    fn minded(&self, facts: &Facts) -> impl Iterator<Item = (u64, Kind, Mark)> {
        let kinds: BTreeSet<Kind> = facts.needs.iter().map(|need| need.kind).collect();
        kinds.into_iter().filter(|kind| kind.minds(facts.id.kind)).map(|kind| {
            let needs = facts.needs.iter().filter(|need| need.kind == kind);
            (facts.report, kind, self.of(needs.flat_map(Need::keys).collect::<Vec<KeyRef<'_>>>()))
        })
    }
}

impl Index {
    /// Takes in an object as it now is; tells who is to be woken.
    pub fn put(&mut self, facts: Facts) -> BTreeSet<Id> {
        let (id, before) = match self.objects.remove_entry(&facts.id) {
            Some((id, before)) => (id, Some(before)),
            None => (Arc::new(facts.id.clone()), None),
        };
        let [old, new] = [before.as_ref(), Some(&facts)].map(|facts| self.referring_of(facts));
        self.place(&id, &old, &new);
        let mut woken = BTreeSet::from([facts.id.clone()]);
        let found_anew = before.as_ref().is_none_or(|b| b.keys() != facts.keys() || b.scope != facts.scope);
        if found_anew || before.as_ref().is_some_and(|before| before.essence != facts.essence) {
            let keys: Vec<Key> = before.iter().flat_map(Facts::keys).chain(facts.keys()).collect();
            if found_anew {
                self.wake_rivals(&keys, &mut woken);
            }
            self.wake_referring(keys, &mut woken);
        }
        if before.as_ref().is_none_or(|before| (before.report, &before.needs) != (facts.report, &facts.needs))
        {
            woken.append(&mut self.tell(&old, &new));
        }
        self.objects.insert(id, facts);
        woken
    }

    /// Drops an object; tells who is to be woken.
    pub(super) fn remove(&mut self, id: &Id) -> BTreeSet<Id> {
        let mut woken = BTreeSet::from([id.clone()]);
        self.await_only(id, &[]);
        if let Some((id, before)) = self.objects.remove_entry(id) {
            let [old, new] = [Some(&before), None].map(|facts| self.referring_of(facts));
            self.place(&id, &old, &new);
            self.wake_rivals(&before.keys(), &mut woken);
            self.wake_referring(before.keys(), &mut woken);
            woken.append(&mut self.tell(&old, &new));
        }
        woken
    }

    /// Notes that an object waits for what is found by these keys, and for nothing else any more: a change of that wakes it.
    pub(super) fn await_only(&mut self, id: &Id, keys: &[Key]) {
        let Some((id, _)) = self.objects.get_key_value(id) else { return };
        let id = id.clone();
        let before = self.awaiting.remove(&id).unwrap_or_default();
        let after: HashSet<Mark> = keys.iter().map(|key| self.marks.of(key.borrowed())).collect();
        moved(&mut self.awaited, &id, [before, after.clone()]);
        if !after.is_empty() {
            self.awaiting.insert(id, after);
        }
    }

    /// Whether an object waits for anything.
    pub(super) fn is_waiting(&self, id: &Id) -> bool {
        self.awaiting.contains_key(id)
    }

    /// Those who are concerned when something outside the control plane changes for `id`, such as its connection.
    pub(super) fn concerned(&self, id: &Id) -> BTreeSet<Id> {
        let mut woken = BTreeSet::from([id.clone()]);
        if let Some(facts) = self.objects.get(id) {
            self.wake_referring(facts.keys(), &mut woken);
        }
        woken
    }

    /// The object with this UID.
    pub(super) fn with_uid(&self, uid: &str) -> Option<Id> {
        self.by_uid.get(uid).map(|id| Id::clone(id))
    }

    /// The objects that the object with this UID owns.
    pub(super) fn owned_by(&self, uid: &str) -> Vec<Id> {
        listed(self.owned.get(uid))
    }

    /// The objects that say that they are in a namespace of a data plane.
    pub(super) fn placed(&self, place: &Place) -> Vec<Id> {
        listed(self.placed.get(&self.marks.of(place)))
    }

    /// An object, if there is one, with the marks of what it refers to: they are needed several times, and may be thousands.
    fn referring_of<'f>(&self, facts: Option<&'f Facts>) -> Referring<'f> {
        Referring { facts, marks: facts.map(|facts| self.marks.referred(facts)).unwrap_or_default() }
    }

    /// Takes an object from where it was found to where it is now. Some keys are those of thousands: what stays is left alone.
    fn place(&mut self, id: &Arc<Id>, before: &Referring<'_>, after: &Referring<'_>) {
        let marks = &self.marks;
        moved(&mut self.referring, id, [before, after].map(|one| one.marks.iter().copied().collect()));
        let [before, after] = [before.facts, after.facts];
        let found = |facts: &Facts| facts.keys().iter().map(|key| marks.of(key.borrowed())).collect();
        moved(&mut self.found, id, [before, after].map(|facts| facts.map(found).unwrap_or_default()));
        let placed = |facts: &Facts| facts.places.iter().map(|place| marks.of(place)).collect();
        moved(&mut self.placed, id, [before, after].map(|facts| facts.map(placed).unwrap_or_default()));
        let owners = |facts: &Facts| facts.owners.iter().cloned().collect();
        moved(&mut self.owned, id, [before, after].map(|facts| facts.map(owners).unwrap_or_default()));
        let [old, new] = [before, after].map(|facts| facts.and_then(|facts| facts.uid.as_ref()));
        if old != new {
            old.map(|uid| self.by_uid.remove(uid));
            new.map(|uid| self.by_uid.insert(uid.clone(), id.clone()));
        }
    }

    /// Wakes who refers to `keys` or waits for them, and, where a reference passes changes on, who refers to those in turn.
    fn wake_referring(&self, keys: Vec<Key>, woken: &mut BTreeSet<Id>) {
        let waiting =
            keys.iter().filter_map(|key| self.awaited.get(&self.marks.of(key.borrowed()))).flatten();
        woken.extend(waiting.map(|id| Id::clone(id)));
        let mut next: Vec<(Key, Option<&'static [Kind]>)> = keys.into_iter().map(|key| (key, None)).collect();
        let mut seen: HashSet<_> = next.iter().cloned().collect();
        while let Some((key, only)) = next.pop() {
            let referring = self.referring.get(&self.marks.of(key.borrowed())).into_iter().flatten();
            for id in referring.filter(|id| only.is_none_or(|kinds| kinds.contains(&id.kind))) {
                woken.insert(Id::clone(id));
                let Some(facts) = self.objects.get(id) else { continue };
                let passing =
                    |need: &&Need| !need.passes_on.is_empty() && need.keys().contains(&key.borrowed());
                for need in facts.needs.iter().filter(passing) {
                    let passed_on = facts.keys().into_iter().map(|key| (key, Some(need.passes_on)));
                    next.extend(passed_on.filter(|passed_on| seen.insert(passed_on.clone())));
                }
            }
        }
    }

    /// Wakes whom those who refer to `keys` may mean instead: they gain or lose children by what is found there.
    fn wake_rivals(&self, keys: &[Key], woken: &mut BTreeSet<Id>) {
        for key in keys {
            let key = key.borrowed();
            let referring = self.referring.get(&self.marks.of(key)).into_iter().flatten();
            for facts in referring.filter_map(|id| self.objects.get(id)) {
                let meaning = facts.needs.iter().filter(|need| need.keys().contains(&key));
                let instead =
                    meaning.flat_map(|need| facts.needs.iter().filter(|other| need.is_alternative(other)));
                let keys = instead.flat_map(Need::keys);
                woken.extend(
                    keys.filter_map(|key| self.found.get(&self.marks.of(key)))
                        .flatten()
                        .map(|id| Id::clone(id)),
                );
            }
        }
    }

    /// Tells those whom an object refers to what it now reports, instead of what it reported before: those who are being
    /// deleted of each change, those who mind of what they have not heard from another one yet.
    fn tell(&mut self, before: &Referring<'_>, after: &Referring<'_>) -> BTreeSet<Id> {
        let (mut news, marks) = (HashSet::new(), self.marks.clone());
        let both = [before, after];
        let (before, after) = (before.facts, after.facts);
        // What no longer counts comes last: what stays as it is, is no news.
        for (report, _, way) in after.into_iter().flat_map(|facts| marks.minded(facts)) {
            let reports = self.reports.entry(way).or_default();
            if let Some((_, count)) = reports.iter_mut().find(|(made, _)| *made == report) {
                *count += 1;
            } else {
                reports.push((report, 1));
                news.insert(way);
            }
        }
        for (report, _, way) in before.into_iter().flat_map(|facts| marks.minded(facts)) {
            let Some(reports) = self.reports.get_mut(&way) else { continue };
            match reports.iter_mut().find(|(made, _)| *made == report) {
                Some((_, count)) if *count > 1 => *count -= 1,
                _ => {
                    reports.retain(|(made, _)| *made != report);
                    if reports.is_empty() {
                        self.reports.remove(&way);
                    }
                    news.insert(way);
                }
            }
        }
        let mut woken = BTreeSet::new();
        for Referring { facts, marks: referred } in both {
            let Some(facts) = facts else { continue };
            let minding: Vec<Kind> =
                marks.minded(facts).filter(|(.., way)| news.contains(way)).map(|(_, kind, _)| kind).collect();
            for (need, keys) in facts.needs.iter().zip(referred.chunks(2)) {
                let is_news = minding.contains(&need.kind);
                let is_going = |id: &Id| self.objects.get(id).is_some_and(|facts| facts.deleting);
                let found = keys.iter().filter_map(|key| self.found.get(key)).flatten();
                woken.extend(found.filter(|id| is_news || is_going(id)).map(|id| Id::clone(id)));
            }
        }
        woken
    }
}

/// Looked up, not searched for: an object may have as many keys as it has room for.
fn moved<K: Eq + Hash>(map: &mut HashMap<K, Ids>, id: &Arc<Id>, [before, after]: [HashSet<K>; 2]) {
    for key in before.difference(&after) {
        forget(map, key, id);
    }
    for key in after.into_iter().filter(|key| !before.contains(key)) {
        note(map.entry(key).or_default(), id);
    }
}

fn note(ids: &mut Ids, id: &Arc<Id>) {
    if let Err(place) = ids.binary_search(id) {
        ids.insert(place, id.clone());
    }
}

fn forget<K: Eq + Hash>(map: &mut HashMap<K, Ids>, key: &K, id: &Id) {
    if let Some(ids) = map.get_mut(key) {
        if let Ok(place) = ids.binary_search_by(|other| Id::cmp(other, id)) {
            ids.remove(place);
        }
        if ids.is_empty() {
            map.remove(key);
        }
    }
}

fn listed(ids: Option<&Ids>) -> Vec<Id> {
    ids.into_iter().flatten().map(|id| Id::clone(id)).collect()
}

impl Catalog for Index {
    fn found(&self, key: KeyRef<'_>) -> Vec<Id> {
        listed(self.found.get(&self.marks.of(key)))
    }

    fn referring(&self, key: KeyRef<'_>) -> Vec<Id> {
        listed(self.referring.get(&self.marks.of(key)))
    }

    fn facts(&self, id: &Id) -> Option<&Facts> {
        self.objects.get(id)
    }
}

#[cfg(test)]
mod tests;
