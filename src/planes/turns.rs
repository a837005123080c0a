//! Turns on a plane: however many wait, few have their objects in memory, and few are worked on.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Turns of one kind that a plane has right after it was in trouble.
const FIRST_TURNS: usize = 1;
/// After each of these it has one more.
const NEXT_TURN: Duration = Duration::from_secs(5);

/// How many turns of one kind there are on a plane that was in trouble until some time ago. All that has piled up for it is ready
/// at once, and those on other planes, who share the control plane and the processors with it, are not to feel that.
fn turns_after(well_for: Duration, at_most: usize) -> usize {
    let more = well_for.as_millis() / NEXT_TURN.as_millis();
    usize::try_from(more).unwrap_or(usize::MAX).saturating_add(FIRST_TURNS).min(at_most)
}

/// The turns of all kinds.
pub(super) struct Turns {
    /// How many there are of each kind at the most.
    at_once: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Since when it is well again, if it was in trouble.
    well_since: Option<Instant>,
    /// Of each kind: the turns, and how many there are by now.
    kinds: HashMap<&'static str, (Arc<Semaphore>, usize)>,
}

impl Turns {
    pub(super) fn new(at_once: usize) -> Self {
        Self { at_once, state: Mutex::default() }
    }

    /// Waits for a turn of a kind.
    pub(super) async fn take(&self, of: &'static str) -> OwnedSemaphorePermit {
        loop {
            // Closed when all starts slowly: then those who waited wait for what there is instead.
            if let Ok(turn) = self.of(of).acquire_owned().await {
                // There may be more turns by now than when this one was asked for.
                self.of(of);
                return turn;
            }
        }
    }

    /// Has as few turns as there are after trouble, and more by and by. Those who have one keep it.
    pub(super) fn start_slowly(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.well_since = Some(Instant::now());
        for (_, (semaphore, _)) in state.kinds.drain() {
            semaphore.close();
        }
    }

    /// The turns of a kind, as many as there are by now.
    fn of(&self, kind: &'static str) -> Arc<Semaphore> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock, so that it never gets less.
        let now = state.well_since.map_or(self.at_once, |since| turns_after(since.elapsed(), self.at_once));
        let (semaphore, count) =
            state.kinds.entry(kind).or_insert_with(|| (Arc::new(Semaphore::new(now)), now));
        semaphore.add_permits(now - *count);
        *count = now;
        semaphore.clone()
    }
}

#[cfg(test)]
mod tests {
    use futures::{future::join_all, poll};

    use super::*;

    #[test]
    fn there_are_few_turns_after_trouble_and_by_and_by_all_of_them() {
        let after = |seconds| turns_after(Duration::from_secs(seconds), 16);
        assert_eq!([0, 4, 5, 10, 74, 75, u64::MAX].map(after), [1, 1, 2, 3, 15, 16, 16]);
    }

    #[tokio::test]
    async fn each_kind_has_its_turns() {
        let turns = Turns::new(2);
        let _held =
            join_all([turns.take("Deployment"), turns.take("Deployment"), turns.take("Endpoint")]).await;
        assert!(poll!(Box::pin(turns.take("Deployment"))).is_pending());
        assert!(poll!(Box::pin(turns.take("Endpoint"))).is_ready());
    }

    #[tokio::test]
    async fn after_trouble_those_who_waited_go_one_by_one() {
        let turns = Turns::new(2);
        let held = join_all([turns.take("Deployment"), turns.take("Deployment")]).await;
        let mut waiting = [1, 2].map(|_| Box::pin(turns.take("Deployment")));
        for one in &mut waiting {
            assert!(poll!(one).is_pending());
        }
        turns.start_slowly();
        drop(held);
        let [first, second] = &mut waiting;
        let turn = first.await;
        assert!(poll!(&mut *second).is_pending(), "before, there were two at a time");
        drop(turn);
        drop(second.await);
    }
}
