//! Since when objects wait for their reconcile, and what woke them first.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use kube::{Resource, runtime::reflector::ObjectRef};

/// Since when, and why.
type Waiting = (Instant, Arc<str>);

/// Namespace, empty for kinds without one, and name.
type Key = (String, String);

/// The objects of one kind that wait. Several wakes make one reconcile: the first of them counts.
#[derive(Default)]
pub(super) struct Queue(Mutex<HashMap<Key, Waiting>>);

impl Queue {
    pub(super) fn note<K: Resource>(&self, object: ObjectRef<K>, since: Instant, cause: Arc<str>) {
        let key = (object.namespace.unwrap_or_default(), object.name);
        self.lock().entry(key).or_insert((since, cause));
    }

    /// Its reconcile begins. None for one that nobody woke: it was to be looked at again after a while.
    pub(super) fn take<K: Resource>(&self, object: &ObjectRef<K>) -> Option<Waiting> {
        let key = (object.namespace.clone().unwrap_or_default(), object.name.clone());
        self.lock().remove(&key)
    }

    /// It has gone before its turn came.
    pub(super) fn forget(&self, name: &str, namespace: Option<&str>) {
        self.lock().remove(&(namespace.unwrap_or_default().to_owned(), name.to_owned()));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kantor_api::{Organization, Project};

    use super::*;

    #[test]
    fn the_first_wake_counts_until_the_reconcile_begins() {
        let queue = Queue::default();
        let object = ObjectRef::<Project>::new("shop").within("acme");
        let first = Instant::now();
        queue.note(object.clone(), first, "Organization acme".into());
        queue.note(object.clone(), first + Duration::from_secs(1), "Project acme/shop".into());
        assert_eq!(queue.take(&object), Some((first, "Organization acme".into())));
        assert_eq!(queue.take(&object), None);
    }

    #[test]
    fn an_object_that_has_gone_waits_no_more() {
        let queue = Queue::default();
        let object = ObjectRef::<Organization>::new("acme");
        queue.note(object.clone(), Instant::now(), "Organization acme".into());
        queue.forget("acme", None);
        assert_eq!(queue.take(&object), None);
    }
}
