//! What was last read of each data plane's Secrets, so that they are read again only when they changed.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;

use crate::planes::{PlaneKey, Refusal};

/// What was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
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
}

/// An entry per data plane.
#[derive(Default)]
pub struct PlaneBook(Mutex<HashMap<PlaneKey, Entry>>);

impl PlaneBook {
    pub(super) fn is_seen(&self, key: &PlaneKey, seen: &Seen) -> bool {
        self.lock().get(key).is_some_and(|entry| entry.seen == *seen)
    }

    pub(super) fn note(&self, key: PlaneKey, entry: Entry) {
        self.lock().insert(key, entry);
    }

    pub(super) fn forget(&self, key: &PlaneKey) {
        self.lock().remove(key);
    }

    pub(super) fn refusal(&self, key: &PlaneKey) -> Option<Refusal> {
        self.lock().get(key).and_then(|entry| entry.refusal.clone())
    }

    pub(super) fn expires(&self, key: &PlaneKey) -> Option<Timestamp> {
        self.lock().get(key).and_then(|entry| entry.expires)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PlaneKey, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
