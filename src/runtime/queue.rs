//! Which objects of one kind are being looked at, which are to be, and when.
//!
//! Each is looked at by one reconcile at a time; whatever wakes it meanwhile makes one more. All that happens to an object costs
//! the same however many others there are: kube's queue looks at all that are under way each time.

use std::{collections::HashMap, future::poll_fn, hash::Hash, sync::Arc, time::Duration};

use tokio::time::Instant;
use tokio_util::time::{DelayQueue, delay_queue};

/// Since when an object waits for its reconcile, and what woke it first.
pub(crate) type Waiting = (std::time::Instant, Arc<str>);

/// When an object is to be looked at next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    /// If nothing wakes it.
    pub(crate) again: Duration,
    /// Whatever wakes it, not before this.
    pub(crate) held: Duration,
}

impl Next {
    /// After a while, or when something wakes it.
    pub(crate) const fn after(again: Duration) -> Self {
        Self { again, held: Duration::ZERO }
    }
}

/// Timers count no further than two years.
const LATEST: Duration = Duration::from_hours(24 * 365);

/// The objects of one kind.
pub(crate) struct Queue<Key> {
    objects: HashMap<Key, Entry>,
    later: DelayQueue<Key>,
}

/// What is known of an object, as long as there is something to do.
#[derive(Default)]
struct Entry {
    is_running: bool,
    /// Several wakes make one reconcile: the first of them counts.
    woken: Option<Waiting>,
    later: Option<(delay_queue::Key, Instant)>,
    /// Whatever wakes it is not looked at before this: the server asked to be left alone.
    held: Option<Instant>,
}

impl Entry {
    /// For how long it is held.
    fn left(&self) -> Option<Duration> {
        self.held?.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }
}

impl<Key> Default for Queue<Key> {
    fn default() -> Self {
        Self { objects: HashMap::new(), later: DelayQueue::new() }
    }
}

impl<Key: Clone + Eq + Hash> Queue<Key> {
    /// Notes that an object was woken. True if its reconcile can begin; else it does when the one before has ended, or when it
    /// is no longer held.
    pub(crate) fn wake(&mut self, key: &Key, waiting: Waiting) -> bool {
        let entry = match self.objects.get_mut(key) {
            Some(entry) => entry,
            None => self.objects.entry(key.clone()).or_default(),
        };
        entry.woken.get_or_insert(waiting);
        if entry.is_running {
            return false;
        }
        let Some(left) = entry.left() else { return true };
        self.put_off(key, left);
        false
    }

    /// Waits for the next object that is to be looked at again by now; nothing if there is none to wait for.
    pub(crate) async fn due(&mut self) -> Option<Key> {
        let key = poll_fn(|cx| self.later.poll_expired(cx)).await?.into_inner();
        if let Some(entry) = self.objects.get_mut(&key) {
            entry.later = None;
        }
        Some(key)
    }

    /// Its reconcile begins. None for one that nobody woke: it was to be looked at again after a while.
    pub(crate) fn begin(&mut self, key: &Key) -> Option<Waiting> {
        let entry = self.objects.entry(key.clone()).or_default();
        entry.is_running = true;
        entry.held = None;
        if let Some((later, _)) = entry.later.take() {
            self.later.remove(&later);
        }
        entry.woken.take()
    }

    /// Its reconcile has ended, and asks to be looked at again after a while. True if it was woken meanwhile: then the next one can
    /// begin.
    pub(crate) fn end(&mut self, key: &Key, next: Next) -> bool {
        let Some(entry) = self.objects.get_mut(key) else { return false };
        entry.is_running = false;
        entry.held = (!next.held.is_zero()).then(|| Instant::now() + next.held);
        match (&entry.woken, entry.left()) {
            (None, _) => self.put_off(key, next.again.max(next.held)),
            (Some(_), Some(left)) => self.put_off(key, left),
            (Some(_), None) => return true,
        }
        false
    }

    /// It is to be looked at again after a while, or at the time that was asked for before if that is earlier.
    pub(crate) fn put_off(&mut self, key: &Key, again: Duration) {
        let entry = self.objects.entry(key.clone()).or_default();
        let at = Instant::now() + again.min(LATEST);
        match &mut entry.later {
            None => entry.later = Some((self.later.insert_at(key.clone(), at), at)),
            Some((later, before)) if at < *before => {
                self.later.reset_at(later, at);
                *before = at;
            }
            Some(_) => {}
        }
    }

    /// It has gone before its turn came.
    pub(crate) fn forget(&mut self, key: &Key) {
        if let Some((later, _)) = self.objects.remove(key).and_then(|entry| entry.later) {
            self.later.remove(&later);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::poll;

    use super::*;

    /// Longer than any test takes.
    const LONG: Duration = Duration::from_hours(1);

    fn cause(text: &str) -> Waiting {
        (std::time::Instant::now(), text.into())
    }

    async fn nothing_is_due(queue: &mut Queue<&str>) -> bool {
        poll!(Box::pin(queue.due())).is_pending()
    }

    #[tokio::test]
    async fn what_is_put_off_for_ever_waits_for_long() {
        let mut queue = Queue::default();
        queue.put_off(&"shop", Duration::MAX);
        assert!(nothing_is_due(&mut queue).await);
        queue.put_off(&"shop", Duration::ZERO);
        assert_eq!(queue.due().await, Some("shop"));
    }

    #[tokio::test]
    async fn the_first_wake_counts_until_the_reconcile_begins() {
        let mut queue = Queue::default();
        let first = cause("Organization acme");
        assert!(queue.wake(&"shop", first.clone()));
        assert!(queue.wake(&"shop", cause("Project acme/shop")));
        assert_eq!(queue.begin(&"shop"), Some(first));
        assert_eq!(queue.begin(&"shop"), None);
    }

    #[tokio::test]
    async fn what_wakes_an_object_while_it_is_looked_at_makes_one_reconcile_more() {
        let mut queue = Queue::default();
        queue.begin(&"shop");
        let first = cause("first");
        assert!(!queue.wake(&"shop", first.clone()) && !queue.wake(&"shop", cause("second")));
        assert!(queue.wake(&"other", cause("another object does not wait for it")));
        assert!(queue.end(&"shop", Next::after(LONG)), "at once, not after the while that it asked for");
        assert_eq!(queue.begin(&"shop"), Some(first));
        assert!(!queue.end(&"shop", Next::after(Duration::ZERO)));
        assert_eq!(queue.due().await, Some("shop"), "after the while that the last one asked for");
        assert_eq!(queue.begin(&"shop"), None);
    }

    #[tokio::test]
    async fn a_wake_comes_before_the_time_that_was_asked_for_and_takes_its_place() {
        let mut queue = Queue::default();
        queue.begin(&"shop");
        queue.end(&"shop", Next::after(LONG));
        assert!(nothing_is_due(&mut queue).await);
        assert!(queue.wake(&"shop", cause("Project acme/shop")));
        queue.begin(&"shop");
        queue.end(&"shop", Next::after(Duration::ZERO));
        assert_eq!(queue.due().await, Some("shop"));
        assert_eq!(queue.due().await, None, "nothing is left of what was asked for first");
    }

    #[tokio::test]
    async fn one_that_is_put_off_more_than_once_is_due_at_the_earliest_time() {
        for times in [[Duration::ZERO, LONG], [LONG, Duration::ZERO]] {
            let mut queue = Queue::default();
            queue.wake(&"shop", cause("first"));
            for time in times {
                queue.put_off(&"shop", time);
            }
            assert_eq!(queue.due().await, Some("shop"));
            assert_eq!(queue.begin(&"shop").map(|(_, cause)| cause), Some("first".into()));
            assert_eq!(queue.due().await, None);
        }
    }

    #[tokio::test]
    async fn what_is_held_waits_whatever_wakes_it_and_then_is_looked_at() {
        let again = Duration::from_millis(1);
        for woken_before_the_end in [true, false] {
            let mut queue = Queue::default();
            queue.begin(&"shop");
            if woken_before_the_end {
                assert!(!queue.wake(&"shop", cause("first")));
            }
            assert!(!queue.end(&"shop", Next { again, held: LONG }), "not even if it was woken meanwhile");
            assert!(!queue.wake(&"shop", cause("second")));
            tokio::time::sleep(again * 2).await;
            assert!(nothing_is_due(&mut queue).await);
            assert!(queue.wake(&"other", cause("another object is not held")));
        }
        let mut queue = Queue::default();
        queue.begin(&"shop");
        queue.end(&"shop", Next { again: LONG, held: again });
        assert!(!queue.wake(&"shop", cause("first")) || queue.objects[&"shop"].left().is_none());
        let due = tokio::time::timeout(LONG, queue.due()).await.unwrap();
        assert!(due == Some("shop") && queue.objects[&"shop"].left().is_none());
        assert!(queue.begin(&"shop").is_some());
    }

    #[tokio::test]
    async fn nothing_is_kept_of_an_object_that_has_gone() {
        let mut queue = Queue::default();
        queue.wake(&"shop", cause("Organization acme"));
        queue.put_off(&"shop", LONG);
        queue.forget(&"shop");
        assert_eq!(queue.due().await, None);
        assert!(queue.objects.is_empty());
    }
}
