//! Which kinds have been listed: readiness waits for all of them.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// How far the watch of one kind is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KindState {
    /// The first list is under way.
    Listing,
    /// The store has been filled and follows the watch.
    Synced,
    /// It cannot be listed or watched; the store, if it was filled, may be behind.
    Failing {
        /// What the API server said.
        error: String,
        /// Whether the store was filled before.
        synced_before: bool,
    },
}

/// States of all watches.
#[derive(Clone, Default)]
pub struct SyncBoard(Arc<Mutex<BTreeMap<String, KindState>>>);

impl SyncBoard {
    /// Notes the state of the watch of `kind`, and tells what it was before.
    pub(super) fn set(&self, kind: &str, state: KindState) -> Option<KindState> {
        self.lock().insert(kind.to_owned(), state)
    }

    /// Notes that the watch of `kind` failed, and tells whether this is news.
    pub(super) fn set_failing(&self, kind: &str, error: String) -> bool {
        let mut states = self.lock();
        let before = states.get(kind);
        let news = !matches!(before, Some(KindState::Failing { .. }));
        let synced_before =
            matches!(before, Some(KindState::Synced | KindState::Failing { synced_before: true, .. }));
        states.insert(kind.to_owned(), KindState::Failing { error, synced_before });
        news
    }

    /// What is still missing until all stores have been filled once; empty when nothing is.
    pub fn missing(&self) -> Vec<String> {
        self.lock().iter().filter_map(|(kind, state)| Self::why_missing(kind, state)).collect()
    }

    fn why_missing(kind: &str, state: &KindState) -> Option<String> {
        match state {
            KindState::Synced | KindState::Failing { synced_before: true, .. } => None,
            KindState::Listing => Some(format!("{kind}: being listed")),
            KindState::Failing { error, .. } => Some(format!("{kind}: {error}")),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, KindState>> {
        // The map is valid between any two of its operations, so a panic elsewhere does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SyncBoard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.lock().iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_waits_for_the_first_list_of_each_kind_and_not_for_later_failures() {
        let board = SyncBoard::default();
        board.set("a", KindState::Listing);
        board.set("b", KindState::Synced);
        assert_eq!(board.missing(), ["a: being listed"]);
        assert!(board.set_failing("a", "no such kind".into()));
        assert!(!board.set_failing("a", "no such kind".into()));
        assert_eq!(board.missing(), ["a: no such kind"]);
        board.set("a", KindState::Synced);
        board.set_failing("a", "gone".into());
        board.set_failing("a", "gone".into());
        assert_eq!(board.missing(), Vec::<String>::new());
    }
}
