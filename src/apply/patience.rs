//! What failed is tried again later each time, however often its owner is woken meanwhile.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use kantor_api::common::InventoryItem;
use kantor_core::changes::Outcome;
use moka::sync::Cache;

/// What failed, per owner and object.
#[derive(Default)]
pub(super) struct Patience(Mutex<HashMap<String, HashMap<InventoryItem, Failure>>>);

struct Failure {
    /// What was tried: something else is tried at once.
    tried: String,
    count: u32,
    until: Instant,
    outcome: Outcome,
}

impl Patience {
    /// What came of the last try, if it is too early for another one; with when that is.
    pub(super) fn hold(
        &self,
        owner: &str,
        item: &InventoryItem,
        tried: &str,
        now: Instant,
    ) -> Option<(Outcome, Duration)> {
        let failures = self.lock();
        let failure = failures.get(owner)?.get(item).filter(|failure| failure.tried == tried)?;
        let wait = failure.until.checked_duration_since(now).filter(|wait| !wait.is_zero())?;
        Some((failure.outcome.clone(), wait))
    }

    /// Notes a failure; tells when to try again.
    pub(super) fn failed(
        &self,
        owner: &str,
        item: &InventoryItem,
        tried: &str,
        outcome: &Outcome,
        at_least: Duration,
        now: Instant,
    ) -> Duration {
        let mut failures = self.lock();
        let failures = failures.entry(owner.to_owned()).or_default();
        let before = failures.get(item).filter(|failure| failure.tried == tried);
        let count = before.map_or(0, |failure| failure.count) + 1;
        let wait = delay(count, matches!(outcome, Outcome::Refused(_))).max(at_least);
        let until = now + wait;
        let failure = Failure { tried: tried.to_owned(), count, until, outcome: outcome.clone() };
        failures.insert(item.clone(), failure);
        wait
    }

    /// Forgets an object that did not fail.
    pub(super) fn forget(&self, owner: &str, item: &InventoryItem) {
        let mut failures = self.lock();
        if let Some(of_owner) = failures.get_mut(owner) {
            of_owner.remove(item);
            if of_owner.is_empty() {
                failures.remove(owner);
            }
        }
    }

    /// Forgets an owner.
    pub(super) fn forget_owner(&self, owner: &str) {
        self.lock().remove(owner);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, HashMap<InventoryItem, Failure>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was refused is refused again until somebody changes something that is not seen from here, such as a role or a
/// quota; anything else may be over in a moment.
fn delay(failures: u32, refused: bool) -> Duration {
    let (first, longest) = if refused {
        (Duration::from_secs(5), Duration::from_mins(1))
    } else {
        (Duration::from_millis(500), Duration::from_mins(2))
    };
    first.saturating_mul(1 << failures.saturating_sub(1).min(20)).min(longest)
}

/// Objects that somebody else changes again and again: each is repaired a few times at once, and then less and less often,
/// so that two who do not agree do not keep a cluster busy.
pub(super) struct Repairs(Cache<(String, InventoryItem), (u32, Instant)>);

/// After so long without a repair the next one is the first again.
const AT_PEACE: Duration = Duration::from_mins(5);

impl Default for Repairs {
    fn default() -> Self {
        Self(Cache::builder().time_to_live(AT_PEACE).build())
    }
}

impl Repairs {
    /// How long an object is left as somebody else made it, if it is too early to repair it.
    pub(super) fn hold(&self, owner: &str, item: &InventoryItem, now: Instant) -> Option<Duration> {
        let (count, last) = self.0.get(&(owner.to_owned(), item.clone()))?;
        (last + rest(count)).checked_duration_since(now).filter(|wait| !wait.is_zero())
    }

    /// Notes a repair.
    pub(super) fn repaired(&self, owner: &str, item: &InventoryItem, now: Instant) {
        let key = (owner.to_owned(), item.clone());
        let count = self.0.get(&key).map_or(0, |(count, _)| count);
        self.0.insert(key, (count.saturating_add(1), now));
    }
}

/// How long an object rests after so many repairs in a row.
fn rest(repairs: u32) -> Duration {
    /// As often as people who try things out, and tests, change one object.
    const AT_ONCE: u32 = 5;
    match repairs.checked_sub(AT_ONCE) {
        None => Duration::ZERO,
        Some(more) => Duration::from_secs(2).saturating_mul(1 << more.min(10)).min(Duration::from_mins(2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_changes_an_object_again_and_again_waits_longer_each_time() {
        let (repairs, start) = (Repairs::default(), Instant::now());
        let mut now = start;
        let mut rests = vec![];
        for _ in 0..14 {
            let wait = repairs.hold("me", &item("a"), now).unwrap_or_default();
            rests.push(wait.as_secs());
            now += wait;
            assert_eq!(repairs.hold("me", &item("a"), now), None);
            repairs.repaired("me", &item("a"), now);
        }
        assert_eq!(rests, [0, 0, 0, 0, 0, 2, 4, 8, 16, 32, 64, 120, 120, 120]);
        // Nobody else waits for it.
        assert_eq!(repairs.hold("me", &item("b"), now), None);
        assert_eq!(repairs.hold("you", &item("a"), now), None);
        assert!(rest(u32::MAX) < AT_PEACE, "it would be forgotten while it rests");
    }

    fn item(name: &str) -> InventoryItem {
        InventoryItem { kind: "ConfigMap".into(), name: name.into(), ..InventoryItem::default() }
    }

    fn failed() -> Outcome {
        Outcome::Failed("the API server answered 500".into())
    }

    #[test]
    fn a_failure_is_held_until_its_time_and_longer_each_time() {
        let (patience, now) = (Patience::default(), Instant::now());
        let first = patience.failed("me", &item("a"), "1", &failed(), Duration::ZERO, now);
        assert_eq!(patience.hold("me", &item("a"), "1", now), Some((failed(), first)));
        assert_eq!(patience.hold("me", &item("a"), "1", now + first), None);
        assert_eq!(patience.failed("me", &item("a"), "1", &failed(), Duration::ZERO, now), first * 2);
    }

    #[test]
    fn only_what_failed_is_held() {
        let (patience, now) = (Patience::default(), Instant::now());
        patience.failed("me", &item("a"), "1", &failed(), Duration::ZERO, now);
        assert!(patience.hold("me", &item("a"), "1", now).is_some());
        assert_eq!(patience.hold("me", &item("b"), "1", now), None);
        assert_eq!(patience.hold("you", &item("a"), "1", now), None);
        // What is wanted now was not tried yet.
        assert_eq!(patience.hold("me", &item("a"), "2", now), None);
        patience.forget("me", &item("a"));
        assert_eq!(patience.hold("me", &item("a"), "1", now), None);
    }

    #[test]
    fn the_server_may_ask_for_more_time() {
        let patience = Patience::default();
        let long = Duration::from_secs(30);
        assert_eq!(patience.failed("me", &item("a"), "1", &failed(), long, Instant::now()), long);
    }

    #[test]
    fn waits_are_bounded() {
        assert_eq!(delay(u32::MAX, true), Duration::from_mins(1));
        assert_eq!(delay(u32::MAX, false), Duration::from_mins(2));
        assert!(delay(1, false) < delay(1, true));
    }
}
