//! What was last read of each data plane's Secrets, so that they are read again only when they changed.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use tokio::sync::Notify;

use crate::{
    core::renewal::Plan,
    planes::{PlaneKey, Refusal},
};

/// What was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// UID of the DataPlane.
    pub uid: Option<String>,
    /// Generation of the DataPlane.
    pub generation: Option<i64>,
    /// The Secrets that it names, with their versions; none for those that do not exist.
    pub secrets: Vec<(String, Option<String>)>,
}

/// What came of it.
pub(super) struct Entry {
    /// What was looked at.
    pub seen: Seen,
    /// Why it is not used, if it is not.
    pub refusal: Option<Refusal>,
    /// When the credentials expire.
    pub expires: Option<Timestamp>,
    /// What is to be done about the token.
    pub renewal: Plan,
}

/// An entry per data plane.
#[derive(Default)]
pub struct PlaneBook {
    entries: Mutex<HashMap<PlaneKey, Entry>>,
    /// Why a token could not be renewed the last time.
    failures: Mutex<HashMap<PlaneKey, String>>,
    /// There are new entries.
    news: Notify,
}

impl PlaneBook {
    pub(super) fn is_seen(&self, key: &PlaneKey, seen: &Seen) -> bool {
        self.lock().get(key).is_some_and(|entry| entry.seen == *seen)
    }

    /// Whether what was looked at last was another DataPlane of that name.
    pub(super) fn is_of_another(&self, key: &PlaneKey, seen: &Seen) -> bool {
        self.lock().get(key).is_some_and(|entry| entry.seen.uid != seen.uid)
    }

    pub(super) fn note(&self, key: PlaneKey, entry: Entry) {
        let mut entries = self.lock();
        // What was said of another token does not hold for this one.
        if entries.get(&key).is_none_or(|before| before.renewal != entry.renewal) {
            lock(&self.failures).remove(&key);
        }
        entries.insert(key, entry);
        drop(entries);
        self.news.notify_one();
    }

    pub(super) fn forget(&self, key: &PlaneKey) {
        self.lock().remove(key);
        lock(&self.failures).remove(key);
    }

    /// Waits for a new entry.
    pub(super) async fn changed(&self) {
        self.news.notified().await;
    }

    /// What is to be done about each token.
    pub(super) fn renewals(&self) -> Vec<(PlaneKey, Plan)> {
        self.lock().iter().map(|(key, entry)| (key.clone(), entry.renewal.clone())).collect()
    }

    /// What is to be done about the token of a data plane, and why that failed the last time.
    pub(super) fn renewal(&self, key: &PlaneKey) -> Option<(Plan, Option<String>)> {
        let plan = self.lock().get(key).map(|entry| entry.renewal.clone())?;
        Some((plan, lock(&self.failures).get(key).cloned()))
    }

    /// Notes why a token could not be renewed; tells whether that is news.
    pub(super) fn renewal_failed(&self, key: &PlaneKey, why: &str) -> bool {
        lock(&self.failures).insert(key.clone(), why.to_owned()).as_deref() != Some(why)
    }

    pub(super) fn refusal(&self, key: &PlaneKey) -> Option<Refusal> {
        self.lock().get(key).and_then(|entry| entry.refusal.clone())
    }

    pub(super) fn expires(&self, key: &PlaneKey) -> Option<Timestamp> {
        self.lock().get(key).and_then(|entry| entry.expires)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PlaneKey, Entry>> {
        lock(&self.entries)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
