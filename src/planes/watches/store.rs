//! The objects of one kind, found by name and by owner.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use kube::{ResourceExt, api::DynamicObject};

use super::owner_uid;
use crate::client::decode::unpack;

/// Namespace and name.
pub(super) type Name = (Option<String>, String);

pub(super) fn name_of(object: &DynamicObject) -> Name {
    (object.namespace(), object.name_any())
}

/// An object as it is kept: as text, which takes a fifth of the memory that its parts take. Each is looked at once in a
/// while, and there are many.
pub(super) struct Packed(Box<str>);

impl Packed {
    pub(super) fn of(object: &DynamicObject) -> Self {
        Self(serde_json::to_string(object).expect("what was read as JSON can be written as such").into())
    }

    pub(super) fn object(&self) -> DynamicObject {
        unpack(&self.0).expect("what was written as JSON can be read again")
    }
}

/// What is kept of an object, with what is looked at more often than to be read off its text each time.
pub(super) struct Kept {
    pub(super) packed: Packed,
    pub(super) version: Option<String>,
    owner: Option<Arc<str>>,
}

impl Kept {
    pub(super) fn of(object: &DynamicObject) -> Self {
        let owner = owner_uid(object.labels()).map(Into::into);
        Self { packed: Packed::of(object), version: object.resource_version(), owner }
    }

    /// How much memory it takes, with its names: roughly.
    pub(super) fn bytes(&self) -> usize {
        const NAMES: usize = 256;
        self.packed.0.len() + NAMES
    }
}

/// The objects of one kind. Each call sees a consistent whole.
#[derive(Default)]
pub(super) struct Store(RwLock<Objects>);

#[derive(Default)]
struct Objects {
    by_name: HashMap<Arc<Name>, Kept>,
    by_owner: HashMap<Arc<str>, Vec<Arc<Name>>>,
    /// How much memory they take.
    bytes: usize,
}

impl Store {
    pub(super) fn get(&self, namespace: Option<&str>, name: &str) -> Option<DynamicObject> {
        let name = (namespace.map(ToOwned::to_owned), name.to_owned());
        self.read(|objects| objects.by_name.get(&name).map(|kept| kept.packed.object()))
    }

    pub(super) fn version(&self, namespace: Option<&str>, name: &str) -> Option<String> {
        let name = (namespace.map(ToOwned::to_owned), name.to_owned());
        self.read(|objects| objects.by_name.get(&name)?.version.clone())
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

    /// How many objects there are, and how much memory they take.
    pub(super) fn size(&self) -> (usize, usize) {
        self.read(|objects| (objects.by_name.len(), objects.bytes))
    }

    /// The names of all, without their namespaces.
    pub(super) fn names(&self) -> Vec<String> {
        self.read(|objects| objects.by_name.keys().map(|name| name.1.clone()).collect())
    }

    /// Adds or replaces an object; returns what it was if that was another owner's.
    pub(super) fn put(&self, object: &DynamicObject) -> Option<DynamicObject> {
        let kept = Kept::of(object);
        let owner = kept.owner.clone();
        let old = self.write(|objects| objects.put(name_of(object), kept))?;
        (old.owner != owner).then(|| old.packed.object())
    }

    /// Removes an object.
    pub(super) fn remove(&self, name: &Name) {
        self.write(|objects| objects.remove(name));
    }

    /// Replaces everything; tells what is new or another version, and what has gone.
    pub(super) fn refill(&self, all: Vec<(Name, Kept)>) -> (Vec<Name>, HashMap<Arc<Name>, Kept>) {
        self.write(|objects| {
            let mut gone = std::mem::take(objects).by_name;
            let mut changed = Vec::new();
            for (name, kept) in all {
                if gone.remove(&name).is_none_or(|known| known.version != kept.version) {
                    changed.push(name.clone());
                }
                objects.put(name, kept);
            }
            (changed, gone)
        })
    }

    fn read<T>(&self, look: impl FnOnce(&Objects) -> T) -> T {
        look(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, change: impl FnOnce(&mut Objects) -> T) -> T {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Objects {
    fn put(&mut self, name: Name, kept: Kept) -> Option<Kept> {
        // The owner may be another one now.
        let old = self.remove(&name);
        let name = Arc::new(name);
        if let Some(owner) = &kept.owner {
            self.by_owner.entry(owner.clone()).or_default().push(name.clone());
        }
        self.bytes += kept.bytes();
        self.by_name.insert(name, kept);
        old
    }

    fn remove(&mut self, name: &Name) -> Option<Kept> {
        let old = self.by_name.remove(name)?;
        self.bytes -= old.bytes();
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
    fn a_list_tells_what_is_new_or_another_version_and_what_has_gone() {
        let store = Store::default();
        let version = |name: &str, version: &str| {
            let mut object = object(name, None);
            object.metadata.resource_version = Some(version.to_owned());
            object
        };
        for name in ["same", "other", "gone"] {
            store.put(&version(name, "1"));
        }
        let list = [version("same", "1"), version("other", "2"), version("new", "2")];
        let list = list.iter().map(|object| (name_of(object), Kept::of(object))).collect();
        let (changed, gone) = store.refill(list);
        assert_eq!(changed.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>(), ["other", "new"]);
        assert_eq!(gone.keys().map(|name| name.1.as_str()).collect::<Vec<_>>(), ["gone"]);
        assert_eq!(store.all().len(), 3);
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
        let (changed, gone) = store.refill(vec![(name_of(&new), Kept::of(&new))]);
        assert_eq!((changed, gone.len()), (vec![name_of(&new)], 1));
        assert_eq!(owned(&store, "two"), ["c"]);
        store.remove(&(Some("ns".to_owned()), "c".to_owned()));
        assert_eq!(store.size(), (0, 0));
        assert!(
            store.read(|objects| objects.by_owner.is_empty()),
            "nothing is kept of owners without objects"
        );
    }
}
