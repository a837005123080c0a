//! When a failed reconcile is tried again: later each time, per object, until one succeeds.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, RandomState},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_mins(5);

/// Failures in a row, per object.
pub struct Retries<Key> {
    failures: Mutex<HashMap<Key, u32>>,
    /// Differs from process to process, so that the objects of several do not move in step.
    jitter: RandomState,
    turns: AtomicU64,
}

impl<Key: Eq + Hash> Default for Retries<Key> {
    fn default() -> Self {
        Self { failures: Mutex::default(), jitter: RandomState::new(), turns: AtomicU64::new(0) }
    }
}

impl<Key: Eq + Hash> Retries<Key> {
    /// Notes a failure of `key`; tells how long to wait.
    pub fn after_failure(&self, key: Key) -> Duration {
        let hash = self.jitter.hash_one(&key);
        let mut failures = self.lock();
        let count = failures.entry(key).or_default();
        *count += 1;
        delay(*count, (hash.wrapping_add(u64::from(*count).wrapping_mul(0x9E37_79B9_7F4A_7C15))) >> 32)
    }

    /// A time about as long as `interval`, so that objects that were looked at together are not the next time.
    pub fn spread(&self, interval: Duration) -> Duration {
        let random = self.jitter.hash_one(self.turns.fetch_add(1, Ordering::Relaxed));
        jittered(interval, random >> 32)
    }

    /// Forgets the failures of `key`.
    pub fn succeeded(&self, key: &Key) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, u32>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Doubles with each failure up to a limit; `random` adds up to a fifth.
fn delay(failures: u32, random: u64) -> Duration {
    let base = FIRST.saturating_mul(1 << (failures - 1).min(20)).min(LONGEST);
    jittered(base, random)
}

/// Up to a fifth more.
fn jittered(base: Duration, random: u64) -> Duration {
    base + base / 5 * u32::try_from(random % 1000).unwrap_or_default() / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_a_limit() {
        assert_eq!(delay(1, 0), FIRST);
        assert_eq!(delay(4, 0), FIRST * 8);
        assert_eq!(delay(30, 0), LONGEST);
        assert_eq!(delay(u32::MAX, 0), LONGEST);
    }

    #[test]
    fn jitter_adds_up_to_a_fifth() {
        for random in 0..2000 {
            let wait = delay(3, random);
            assert!(wait >= FIRST * 4 && wait < FIRST * 4 * 6 / 5, "{wait:?}");
        }
        assert_ne!(delay(3, 1), delay(3, 500));
    }

    #[test]
    fn a_success_starts_over_and_objects_do_not_share() {
        let retries = Retries::default();
        for _ in 0..5 {
            retries.after_failure("a");
        }
        assert!(retries.after_failure("b") < FIRST * 2);
        retries.succeeded(&"a");
        assert!(retries.after_failure("a") < FIRST * 2);
    }
}
