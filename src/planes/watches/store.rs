//! The objects of one kind, found by name and by owner.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use kube::{ResourceExt, api::DynamicObject};

use super::owner_uid;
use crate::reading::unpack;

/// Namespace and name.
pub(super) type Name = (Option<String>, String);

pub(super) fn name_of(object: &DynamicObject) -> Name {
    (object.namespace(), object.name_any())
}

/// An object as it is kept: as text, which takes a fifth of the memory that its parts take. Each is looked at once in a
/// while, and there are many.
#[derive(Debug)]
pub(super) struct Packed(Box<str>);

impl Packed {
    pub(super) fn of(object: &DynamicObject) -> Self {
        Self(serde_json::to_string(object).expect("what was read as JSON can be written as such").into())
    }

    pub(super) fn object(&self) -> DynamicObject {
        unpack(&self.0).expect("what was written as JSON can be read again")
    }
}

/// What has to be known of an object of a list, so that it is not read off its text again.
pub(super) struct Listed {
    pub(super) name: Name,
    pub(super) version: Option<String>,
    owner: Option<Arc<str>>,
}

impl Listed {
    pub(super) fn of(object: &DynamicObject) -> Self {
        let owner = owner_uid(object.labels()).map(Into::into);
        Self { name: name_of(object), version: object.resource_version(), owner }
    }
}

/// The objects of one kind. Each call sees a consistent whole.
#[derive(Default)]
pub(super) struct Store(RwLock<Objects>);

#[derive(Default)]
struct Objects {
    by_name: HashMap<Arc<Name>, Kept>,
    by_owner: HashMap<Arc<str>, Vec<Arc<Name>>>,
}

struct Kept {
    packed: Packed,
    owner: Option<Arc<str>>,
}

impl Store {
    pub(super) fn get(&self, namespace: Option<&str>, name: &str) -> Option<DynamicObject> {
        let name = (namespace.map(ToOwned::to_owned), name.to_owned());
        self.read(|objects| objects.by_name.get(&name).map(|kept| kept.packed.object()))
    }

    pub(super) fn all(&self) -> Vec<DynamicObject> {
        self.read(|objects| objects.by_name.values().map(|kept| kept.packed.object()).collect())
    }

    pub(super) fn owned_by(&self, owner: &str) -> Vec<DynamicObject> {
        self.read(|objects| {
            let names = objects.by_owner.get(owner).into_iter().flatten();
            names.filter_map(|name| Some(objects.by_name.get(name)?.packed.object())).collect()
        })
    }

    /// Adds or replaces an object; returns what it was if that was another owner's.
    pub(super) fn put(&self, object: &DynamicObject) -> Option<DynamicObject> {
        let packed = Packed::of(object);
        let owner = owner_uid(object.labels()).map(Into::into);
        let old = self.write(|objects| objects.put(name_of(object), packed, owner.clone()))?;
        (old.owner != owner).then(|| old.packed.object())
    }

    /// Removes an object.
    pub(super) fn remove(&self, name: &Name) {
        self.write(|objects| objects.remove(name));
    }

    /// Replaces everything; returns what there was.
    pub(super) fn refill<'a>(
        &self,
        all: impl IntoIterator<Item = (&'a Listed, Packed)>,
    ) -> HashMap<Name, DynamicObject> {
        let mut new = Objects::default();
        for (listed, packed) in all {
            new.put(listed.name.clone(), packed, listed.owner.clone());
        }
        let before = self.write(|objects| std::mem::replace(objects, new));
        before.by_name.into_iter().map(|(name, kept)| (Name::clone(&name), kept.packed.object())).collect()
    }

    fn read<T>(&self, look: impl FnOnce(&Objects) -> T) -> T {
        look(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, change: impl FnOnce(&mut Objects) -> T) -> T {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Objects {
    fn put(&mut self, name: Name, packed: Packed, owner: Option<Arc<str>>) -> Option<Kept> {
        // The owner may be another one now.
        let old = self.remove(&name);
        let name = Arc::new(name);
        if let Some(owner) = &owner {
            self.by_owner.entry(owner.clone()).or_default().push(name.clone());
        }
        self.by_name.insert(name, Kept { packed, owner });
        old
    }

    fn remove(&mut self, name: &Name) -> Option<Kept> {
        let old = self.by_name.remove(name)?;
        if let Some(owner) = &old.owner
            && let Some(owned) = self.by_owner.get_mut(owner)
        {
            owned.retain(|other| **other != *name);
            if owned.is_empty() {
                self.by_owner.remove(owner);
            }
        }
        Some(old)
    }
}

#[cfg(test)]
mod tests {
    use kantor_api::labels::OWNER_UID;
    use serde_json::json;

    use super::*;

    fn object(name: &str, owner: Option<&str>) -> DynamicObject {
        let labels = owner.map(|owner| json!({OWNER_UID: owner}));
        let object = json!({"metadata": {"namespace": "ns", "name": name, "labels": labels}});
        serde_json::from_value(object).unwrap()
    }

    fn owned(store: &Store, owner: &str) -> Vec<String> {
        let mut names: Vec<_> = store.owned_by(owner).iter().map(ResourceExt::name_any).collect();
        names.sort();
        names
    }

    #[test]
    fn objects_are_found_by_name_and_by_owner() {
        let store = Store::default();
        store.put(&object("a", Some("one")));
        store.put(&object("b", Some("one")));
        store.put(&object("c", None));
        assert!(store.get(Some("ns"), "c").is_some() && store.get(None, "c").is_none());
        assert_eq!((owned(&store, "one"), store.all().len()), (vec!["a".to_owned(), "b".to_owned()], 3));
    }

    #[test]
    fn the_owner_index_follows_changes_and_removals() {
        let store = Store::default();
        store.put(&object("a", Some("one")));
        store.put(&object("b", Some("one")));
        store.put(&object("a", Some("two")));
        assert_eq!(
            (owned(&store, "one"), owned(&store, "two")),
            (vec!["b".to_owned()], vec!["a".to_owned()])
        );
        store.remove(&(Some("ns".to_owned()), "b".to_owned()));
        assert!(owned(&store, "one").is_empty());
        let new = object("c", Some("two"));
        let before = store.refill([(&Listed::of(&new), Packed::of(&new))]);
        assert_eq!((before.len(), owned(&store, "two")), (1, vec!["c".to_owned()]));
        store.remove(&(Some("ns".to_owned()), "c".to_owned()));
        assert!(
            store.read(|objects| objects.by_owner.is_empty()),
            "nothing is kept of owners without objects"
        );
    }
}
