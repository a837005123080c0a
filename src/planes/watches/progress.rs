//! How far a watch is, and who waits for it to get further.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// The newest version of an object that a watch has told of. Each of those who wait is woken once, when it is their turn:
/// many write at a time, and each change would wake them all.
#[derive(Default)]
pub(super) struct Progress(Mutex<State>);

#[derive(Default)]
struct State {
    newest: u64,
    waiting: BTreeMap<u64, Vec<oneshot::Sender<()>>>,
}

impl Progress {
    /// Waits until the watch has told of `version`.
    pub(super) async fn reach(&self, version: u64) {
        let reached = {
            let mut state = self.lock();
            if state.newest >= version {
                return;
            }
            let (reached, waiting) = oneshot::channel();
            let others = state.waiting.entry(version).or_default();
            others.retain(|other| !other.is_closed());
            others.push(reached);
            waiting
        };
        // The sender is kept until it is used.
        reached.await.ok();
    }

    /// The watch has told of `version`.
    pub(super) fn reached(&self, version: u64) {
        let mut state = self.lock();
        if version <= state.newest {
            return;
        }
        state.newest = version;
        // No server has as many as fit into the number, but some may say so.
        let later = state.waiting.split_off(&version.saturating_add(1));
        for waiting in std::mem::replace(&mut state.waiting, later).into_values().flatten() {
            // Whoever does not wait any more need not be told.
            waiting.send(()).ok();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures::poll;

    use super::*;

    #[tokio::test]
    async fn those_who_wait_are_woken_by_what_they_wait_for_or_something_newer() {
        let progress = Progress::default();
        let (mut fifth, mut ninth) = (Box::pin(progress.reach(5)), Box::pin(progress.reach(9)));
        assert!(poll!(&mut fifth).is_pending() && poll!(&mut ninth).is_pending());
        progress.reached(4);
        assert!(poll!(&mut fifth).is_pending());
        progress.reached(7);
        assert!(poll!(&mut fifth).is_ready() && poll!(&mut ninth).is_pending());
        // A list may name older versions after newer ones.
        progress.reached(6);
        progress.reach(7).await;
        progress.reached(9);
        ninth.await;
        assert!(progress.lock().waiting.is_empty(), "nothing is kept of those who were woken");
    }
}
