//! The objects of one kind, found by name and by owner.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, PoisonError, RwLock},
};

use kube::{ResourceExt, api::DynamicObject};

use super::owner_uid;

/// Namespace and name.
pub(super) type Name = (Option<String>, String);

pub(super) fn name_of(object: &DynamicObject) -> Name {
    (object.namespace(), object.name_any())
}

/// The objects of one kind. Each call sees a consistent whole.
#[derive(Default)]
pub(super) struct Store(RwLock<Objects>);

#[derive(Default)]
struct Objects {
    by_name: HashMap<Name, Arc<DynamicObject>>,
    by_owner: HashMap<String, HashSet<Name>>,
}

impl Store {
    pub(super) fn get(&self, namespace: Option<&str>, name: &str) -> Option<Arc<DynamicObject>> {
        let name = (namespace.map(ToOwned::to_owned), name.to_owned());
        self.read(|objects| objects.by_name.get(&name).cloned())
    }

    pub(super) fn all(&self) -> Vec<Arc<DynamicObject>> {
        self.read(|objects| objects.by_name.values().cloned().collect())
    }

    pub(super) fn owned_by(&self, owner: &str) -> Vec<Arc<DynamicObject>> {
        self.read(|objects| {
            let names = objects.by_owner.get(owner).into_iter().flatten();
            names.filter_map(|name| objects.by_name.get(name).cloned()).collect()
        })
    }

    /// Adds or replaces an object; returns what it was.
    pub(super) fn put(&self, object: Arc<DynamicObject>) -> Option<Arc<DynamicObject>> {
        self.write(|objects| objects.put(object))
    }

    /// Removes an object; returns what it was.
    pub(super) fn remove(&self, name: &Name) -> Option<Arc<DynamicObject>> {
        self.write(|objects| objects.remove(name))
    }

    /// Replaces everything; returns what there was.
    pub(super) fn refill(&self, all: Vec<Arc<DynamicObject>>) -> HashMap<Name, Arc<DynamicObject>> {
        let mut new = Objects::default();
        for object in all {
            new.put(object);
        }
        self.write(|objects| std::mem::replace(objects, new)).by_name
    }

    fn read<T>(&self, look: impl FnOnce(&Objects) -> T) -> T {
        look(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, change: impl FnOnce(&mut Objects) -> T) -> T {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Objects {
    fn put(&mut self, object: Arc<DynamicObject>) -> Option<Arc<DynamicObject>> {
        let name = name_of(&object);
        // The owner may be another one now.
        let old = self.remove(&name);
        if let Some(owner) = owner_uid(object.labels()) {
            self.by_owner.entry(owner.to_owned()).or_default().insert(name.clone());
        }
        self.by_name.insert(name, object);
        old
    }

    fn remove(&mut self, name: &Name) -> Option<Arc<DynamicObject>> {
        let old = self.by_name.remove(name)?;
        if let Some(owner) = owner_uid(old.labels())
            && let Some(owned) = self.by_owner.get_mut(owner)
        {
            owned.remove(name);
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

    fn object(name: &str, owner: Option<&str>) -> Arc<DynamicObject> {
        let labels = owner.map(|owner| json!({OWNER_UID: owner}));
        let object = json!({"metadata": {"namespace": "ns", "name": name, "labels": labels}});
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn owned(store: &Store, owner: &str) -> Vec<String> {
        let mut names: Vec<_> = store.owned_by(owner).iter().map(|object| object.name_any()).collect();
        names.sort();
        names
    }

    #[test]
    fn objects_are_found_by_name_and_by_owner() {
        let store = Store::default();
        store.put(object("a", Some("one")));
        store.put(object("b", Some("one")));
        store.put(object("c", None));
        assert!(store.get(Some("ns"), "c").is_some() && store.get(None, "c").is_none());
        assert_eq!((owned(&store, "one"), store.all().len()), (vec!["a".to_owned(), "b".to_owned()], 3));
    }

    #[test]
    fn the_owner_index_follows_changes_and_removals() {
        let store = Store::default();
        store.put(object("a", Some("one")));
        store.put(object("b", Some("one")));
        store.put(object("a", Some("two")));
        assert_eq!(
            (owned(&store, "one"), owned(&store, "two")),
            (vec!["b".to_owned()], vec!["a".to_owned()])
        );
        assert!(store.remove(&(Some("ns".to_owned()), "b".to_owned())).is_some());
        assert!(owned(&store, "one").is_empty());
        let before = store.refill(vec![object("c", Some("two"))]);
        assert_eq!((before.len(), owned(&store, "two")), (1, vec!["c".to_owned()]));
        store.remove(&(Some("ns".to_owned()), "c".to_owned()));
        assert!(
            store.read(|objects| objects.by_owner.is_empty()),
            "nothing is kept of owners without objects"
        );
    }
}
