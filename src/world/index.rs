//! Who refers to whom, and who is to be woken by a change. Lookups are by key: nothing is scanned.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    hash::Hash,
};

use crate::core::hierarchy::{Catalog, Facts, Id, Key, Kind, Need};

/// The reverse index of all objects.
#[derive(Default)]
pub(super) struct Index {
    objects: HashMap<Id, Facts>,
    found: HashMap<Key, BTreeSet<Id>>,
    referring: HashMap<Key, BTreeSet<Id>>,
    owned: HashMap<String, BTreeSet<Id>>,
    by_uid: HashMap<String, Id>,
}

impl Index {
    /// Takes in an object as it now is; tells who is to be woken.
    pub(super) fn put(&mut self, facts: Facts) -> BTreeSet<Id> {
        let id = facts.id.clone();
        let before = self.take(&id);
        for key in facts.keys() {
            self.found.entry(key).or_default().insert(id.clone());
        }
        for key in facts.needs.iter().flat_map(Need::keys) {
            self.referring.entry(key).or_default().insert(id.clone());
        }
        for owner in &facts.owners {
            self.owned.entry(owner.clone()).or_default().insert(id.clone());
        }
        if let Some(uid) = &facts.uid {
            self.by_uid.insert(uid.clone(), id.clone());
        }
        let mut woken = BTreeSet::from([id.clone()]);
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
            self.wake_referred(before.iter().chain([&facts]), &mut woken);
        }
        self.objects.insert(id, facts);
        woken
    }

    /// Drops an object; tells who is to be woken.
    pub(super) fn remove(&mut self, id: &Id) -> BTreeSet<Id> {
        let mut woken = BTreeSet::from([id.clone()]);
        if let Some(before) = self.take(id) {
            self.wake_rivals(&before.keys(), &mut woken);
            self.wake_referring(before.keys(), &mut woken);
            self.wake_referred([&before], &mut woken);
        }
        woken
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
        self.by_uid.get(uid).cloned()
    }

    /// The objects that the object with this UID owns.
    pub(super) fn owned_by(&self, uid: &str) -> Vec<Id> {
        self.owned.get(uid).into_iter().flatten().cloned().collect()
    }

    fn take(&mut self, id: &Id) -> Option<Facts> {
        let before = self.objects.remove(id)?;
        for key in before.keys() {
            forget(&mut self.found, &key, id);
        }
        for key in before.needs.iter().flat_map(Need::keys) {
            forget(&mut self.referring, &key, id);
        }
        for owner in &before.owners {
            forget(&mut self.owned, owner, id);
        }
        if let Some(uid) = &before.uid {
            self.by_uid.remove(uid);
        }
        Some(before)
    }

    /// Wakes who refers to `keys`, and, where a reference passes changes on, who refers to them in turn.
    fn wake_referring(&self, keys: Vec<Key>, woken: &mut BTreeSet<Id>) {
        let mut next: Vec<(Key, Option<&'static [Kind]>)> = keys.into_iter().map(|key| (key, None)).collect();
        let mut seen: HashSet<_> = next.iter().cloned().collect();
        while let Some((key, only)) = next.pop() {
            let referring = self.referring.get(&key).into_iter().flatten();
            for id in referring.filter(|id| only.is_none_or(|kinds| kinds.contains(&id.kind))) {
                woken.insert(id.clone());
                let Some(facts) = self.objects.get(id) else { continue };
                let passing = |need: &&Need| !need.passes_on.is_empty() && need.keys().contains(&key);
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
            let referring = self.referring.get(key).into_iter().flatten();
            for facts in referring.filter_map(|id| self.objects.get(id)) {
                let meaning = facts.needs.iter().filter(|need| need.keys().contains(key));
                let instead =
                    meaning.flat_map(|need| facts.needs.iter().filter(|other| need.is_alternative(other)));
                let keys = instead.flat_map(Need::keys);
                woken.extend(keys.filter_map(|key| self.found.get(&key)).flatten().cloned());
            }
        }
    }

    /// Wakes whom an object refers to.
    fn wake_referred<'a>(&self, facts: impl IntoIterator<Item = &'a Facts>, woken: &mut BTreeSet<Id>) {
        for key in facts.into_iter().flat_map(|facts| &facts.needs).flat_map(Need::keys) {
            woken.extend(self.found.get(&key).into_iter().flatten().cloned());
        }
    }
}

fn forget<K: Eq + Hash>(map: &mut HashMap<K, BTreeSet<Id>>, key: &K, id: &Id) {
    if let Some(ids) = map.get_mut(key) {
        ids.remove(id);
        if ids.is_empty() {
            map.remove(key);
        }
    }
}

impl Catalog for Index {
    fn found(&self, key: &Key) -> Vec<Id> {
        self.found.get(key).into_iter().flatten().cloned().collect()
    }

    fn referring(&self, key: &Key) -> Vec<Id> {
        self.referring.get(key).into_iter().flatten().cloned().collect()
    }

    fn facts(&self, id: &Id) -> Option<&Facts> {
        self.objects.get(id)
    }
}

#[cfg(test)]
mod tests;
