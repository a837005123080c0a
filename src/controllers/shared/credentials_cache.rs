//! What was last read of each data plane's Secrets, so that they are read again only when they changed.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use kantor_core::renewal::Plan;
use tokio::sync::Notify;

use crate::planes::{PlaneKey, Refusal, RefusalKind};

/// How long nothing need be known of a data plane before that is said: until then what was said last may still hold.
pub(crate) const OVERDUE: Duration = Duration::from_mins(1);

/// What was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// UID of the DataPlane.
    pub uid: Option<String>,
    /// Generation of the DataPlane.
    pub generation: Option<i64>,
    /// The Secrets that it names, with their versions; none for those that do not exist.
    pub secrets: Vec<(String, Option<String>)>,
}

/// What came of it.
pub(crate) struct Entry {
    /// What was looked at.
    pub seen: Seen,
    /// Why it is not used, if it is not.
    pub refusal: Option<Refusal>,
    /// When the credentials expire.
    pub expires: Option<Timestamp>,
    /// What is to be done about the token.
    pub renewal: Plan,
}

impl Entry {
    fn is_unreadable(&self) -> bool {
        self.refusal.as_ref().is_some_and(|refusal| refusal.kind == RefusalKind::SecretUnreadable)
    }
}

/// An entry per data plane.
#[derive(Default)]
pub struct PlaneBook {
    entries: Mutex<HashMap<PlaneKey, Entry>>,
    /// Why a token could not be renewed the last time.
    failures: Mutex<HashMap<PlaneKey, String>>,
    /// There are new entries.
    news: Notify,
    /// There may be Secrets that no data plane names any more.
    freed: Notify,
    /// Since when nothing is known of a data plane.
    unknown: Mutex<HashMap<PlaneKey, Instant>>,
    /// Why its Secrets could not be read this time.
    unread: Mutex<HashMap<PlaneKey, String>>,
}

impl PlaneBook {
    /// Whether nothing is new. What may not be read may be granted without a word: that is tried again each time.
    pub(crate) fn is_seen(&self, key: &PlaneKey, seen: &Seen) -> bool {
        self.lock().get(key).is_some_and(|entry| entry.seen == *seen && !entry.is_unreadable())
    }

    /// Notes that nothing is known of a data plane; tells whether that has lasted for too long.
    pub(crate) fn is_overdue(&self, key: &PlaneKey) -> bool {
        self.is_overdue_at(key, Instant::now())
    }

    fn is_overdue_at(&self, key: &PlaneKey, now: Instant) -> bool {
        now.duration_since(*lock(&self.unknown).entry(key.clone()).or_insert(now)) >= OVERDUE
    }

    /// Notes that something is known of a data plane.
    pub(crate) fn is_settled(&self, key: &PlaneKey) {
        lock(&self.unknown).remove(key);
    }

    /// Notes why the Secrets of a data plane could not be read this time.
    pub(crate) fn note_unread(&self, key: &PlaneKey, why: String) {
        lock(&self.unread).insert(key.clone(), why);
    }

    /// Why the Secrets of a data plane could not be read the last time.
    pub(crate) fn unread(&self, key: &PlaneKey) -> Option<String> {
        lock(&self.unread).get(key).cloned()
    }

    /// Whether what was looked at last was another DataPlane of that name.
    pub(crate) fn is_of_another(&self, key: &PlaneKey, seen: &Seen) -> bool {
        self.lock().get(key).is_some_and(|entry| entry.seen.uid != seen.uid)
    }

    /// Notes that there may be Secrets that no data plane names any more.
    pub(crate) fn free_secrets(&self) {
        self.freed.notify_one();
    }

    /// Waits until there may be Secrets that no data plane names any more.
    pub(crate) async fn secrets_freed(&self) {
        self.freed.notified().await;
    }

    pub(crate) fn note(&self, key: PlaneKey, entry: Entry) {
        self.is_settled(&key);
        lock(&self.unread).remove(&key);
        let mut entries = self.lock();
        let is_named = |name: &String| entry.seen.secrets.iter().any(|(now, _)| now == name);
        if entries.get(&key).is_some_and(|before| before.seen.secrets.iter().any(|(name, _)| !is_named(name)))
        {
            self.free_secrets();
        }
        // What was said of another token does not hold for this one.
        if entries.get(&key).is_none_or(|before| before.renewal != entry.renewal) {
            lock(&self.failures).remove(&key);
        }
        entries.insert(key, entry);
        drop(entries);
        self.news.notify_one();
    }

    pub(crate) fn forget(&self, key: &PlaneKey) {
        self.lock().remove(key);
        lock(&self.failures).remove(key);
        lock(&self.unread).remove(key);
        self.is_settled(key);
    }

    /// Waits for a new entry.
    pub(crate) async fn changed(&self) {
        self.news.notified().await;
    }

    /// What is to be done about each token.
    pub(crate) fn renewals(&self) -> Vec<(PlaneKey, Plan)> {
        self.lock().iter().map(|(key, entry)| (key.clone(), entry.renewal.clone())).collect()
    }

    /// What is to be done about the token of a data plane, and why that failed the last time.
    pub(crate) fn renewal(&self, key: &PlaneKey) -> Option<(Plan, Option<String>)> {
        let plan = self.lock().get(key).map(|entry| entry.renewal.clone())?;
        Some((plan, lock(&self.failures).get(key).cloned()))
    }

    /// Notes why a token could not be renewed; tells whether that is news.
    pub(crate) fn renewal_failed(&self, key: &PlaneKey, why: &str) -> bool {
        lock(&self.failures).insert(key.clone(), why.to_owned()).as_deref() != Some(why)
    }

    pub(crate) fn refusal(&self, key: &PlaneKey) -> Option<Refusal> {
        self.lock().get(key).and_then(|entry| entry.refusal.clone())
    }

    pub(crate) fn expires(&self, key: &PlaneKey) -> Option<Timestamp> {
        self.lock().get(key).and_then(|entry| entry.expires)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PlaneKey, Entry>> {
        lock(&self.entries)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nothing_is_known_of_is_waited_for_for_a_minute() {
        let (book, key) = (PlaneBook::default(), PlaneKey { namespace: "acme".into(), name: "a".into() });
        let start = Instant::now();
        let after = |seconds| book.is_overdue_at(&key, start + Duration::from_secs(seconds));
        assert_eq!([0, 59, 60, 160].map(after), [false, false, true, true]);
        // From then on it is known, and may be lost again.
        book.is_settled(&key);
        assert_eq!([200, 259, 260].map(after), [false, false, true]);
    }

    #[test]
    fn what_may_not_be_read_is_tried_again_and_what_is_wrong_is_not() {
        let (book, key) = (PlaneBook::default(), PlaneKey { namespace: "acme".into(), name: "a".into() });
        let seen = Seen { uid: None, generation: Some(1), secrets: vec![] };
        for (kind, expected) in [
            (RefusalKind::Refused, true),
            (RefusalKind::SecretMissing, true),
            (RefusalKind::SecretUnreadable, false),
        ] {
            let refusal = Some(Refusal { kind, field: String::new(), why: String::new() });
            let entry = Entry { seen: seen.clone(), refusal, expires: None, renewal: Plan::NotAsked };
            book.note(key.clone(), entry);
            assert_eq!(book.is_seen(&key, &seen), expected, "{kind:?}");
        }
    }
}
