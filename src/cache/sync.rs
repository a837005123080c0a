//! Which kinds have been listed: readiness waits for all of them.

use std::{collections::BTreeMap, fmt, sync::Arc};

use kube::core::ApiResource;
use tokio::sync::watch;

/// Name of a kind on the board: `projects.openchoreo.dev`.
pub(super) fn name_of(resource: &ApiResource) -> String {
    format!("{}.{}", resource.plural, resource.group).trim_end_matches('.').to_owned()
}

/// Name of a kind that is followed in one namespace, or everywhere.
pub(super) fn place(kind: &str, namespace: Option<&str>) -> String {
    namespace.map_or_else(|| kind.to_owned(), |namespace| format!("{kind} in {namespace}"))
}

/// What is said of a kind that the API server does not know.
pub(super) const NOT_INSTALLED: &str =
    "not installed; install the custom resources: kantor crds | kubectl apply --server-side -f -";

/// What stands on the board until the watches do.
pub(super) const STARTING: &str = "custom resource definitions";

/// How far the watch of one kind is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KindState {
    /// The first list is under way.
    Listing,
    /// The store has been filled and follows the watch.
    Synced,
    /// The store follows the watch, but for objects that this operator cannot read.
    Unreadable {
        /// How many.
        count: usize,
        /// The first of them.
        first: String,
    },
    /// It cannot be listed or watched; the store, if it was filled, may be behind.
    Failing {
        /// What the API server said.
        error: String,
        /// Whether the store was filled before.
        synced_before: bool,
    },
}

/// States of all watches.
#[derive(Clone)]
pub struct SyncBoard(Arc<watch::Sender<BTreeMap<String, KindState>>>);

impl Default for SyncBoard {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::default()))
    }
}

impl SyncBoard {
    /// Notes the state of the watch of `kind`; tells whether this is news.
    pub(super) fn set(&self, kind: &str, state: KindState) -> bool {
        self.0.send_if_modified(|states| {
            states.get(kind) != Some(&state) && {
                states.insert(kind.to_owned(), state);
                true
            }
        })
    }

    /// Takes something off the board.
    pub(super) fn forget(&self, kind: &str) {
        self.0.send_if_modified(|states| states.remove(kind).is_some());
    }

    /// Notes that the watch of `kind` failed; tells whether it did not before.
    pub(super) fn set_failing(&self, kind: &str, error: String) -> bool {
        let before = self.0.borrow().get(kind).cloned();
        let synced_before = before.as_ref().is_some_and(|before| Self::why_missing(kind, before).is_none());
        self.set(kind, KindState::Failing { error, synced_before });
        !matches!(before, Some(KindState::Failing { .. }))
    }

    /// Waits until all stores have been filled once.
    pub async fn synced(&self) {
        let mut states = self.0.subscribe();
        let all = |states: &BTreeMap<String, KindState>| {
            states.iter().all(|(kind, state)| Self::why_missing(kind, state).is_none())
        };
        // The sender is part of this very value and cannot be gone.
        states.wait_for(all).await.ok();
    }

    /// Why the store of `kind` may be behind, if it may be.
    pub fn behind(&self, kind: &str) -> Option<String> {
        let states = self.0.borrow();
        let in_namespace = place(kind, Some(""));
        let mut followed =
            states.iter().filter(|(place, _)| *place == kind || place.starts_with(&in_namespace)).peekable();
        if followed.peek().is_none() {
            return Some("it is not followed".to_owned());
        }
        followed.find_map(|(_, state)| match state {
            KindState::Synced => None,
            // Which ones stands in the log: this is told to users, who need not know of each other.
            KindState::Unreadable { count, .. } => {
                Some(format!("{count} of its objects cannot be read by this operator, whose log names them"))
            }
            KindState::Failing { error, .. } => Some(error.clone()),
            KindState::Listing => Some("it has not been listed yet".to_owned()),
        })
    }

    /// Whether each kind is followed at the moment.
    pub(super) fn followed(&self) -> Vec<(String, bool)> {
        let states = self.0.borrow();
        states.iter().map(|(kind, state)| (kind.clone(), *state == KindState::Synced)).collect()
    }

    /// What is still missing until all stores have been filled once; empty when nothing is.
    pub fn missing(&self) -> Vec<String> {
        self.0.borrow().iter().filter_map(|(kind, state)| Self::why_missing(kind, state)).collect()
    }

    fn why_missing(kind: &str, state: &KindState) -> Option<String> {
        match state {
            KindState::Synced
            | KindState::Unreadable { .. }
            | KindState::Failing { synced_before: true, .. } => None,
            KindState::Listing => Some(format!("{kind}: being listed")),
            KindState::Failing { error, .. } => Some(format!("{kind}: {error}")),
        }
    }
}

impl fmt::Debug for SyncBoard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.borrow().iter()).finish()
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

    #[test]
    fn a_kind_is_behind_when_it_is_in_any_of_its_namespaces_or_not_followed() {
        let board = SyncBoard::default();
        assert_eq!(board.behind("a").as_deref(), Some("it is not followed"));
        board.set(&place("a", Some("one")), KindState::Synced);
        board.set(&place("ab", None), KindState::Listing);
        assert_eq!(board.behind("a"), None);
        board.set(&place("a", Some("two")), KindState::Listing);
        assert_eq!(board.behind("a").as_deref(), Some("it has not been listed yet"));
        board.set_failing(&place("a", Some("two")), "forbidden".into());
        assert_eq!(board.behind("a").as_deref(), Some("forbidden"));
    }
}
