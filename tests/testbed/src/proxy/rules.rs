//! The rules in force, and the handle by which a test follows and ends one.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::bail;
use tokio::sync::{mpsc, watch};

use super::{
    fault::{Action, Fault},
    record::Record,
};

/// Everything that rules and tests do to the traffic.
pub(super) struct Rules {
    list: RwLock<Vec<Arc<Rule>>>,
    next_id: AtomicU64,
    watches: Mutex<Vec<OpenWatch>>,
    refusers: Mutex<BTreeSet<u64>>,
    refusal: watch::Sender<Refusal>,
}

/// Whether connections are refused, and how often all of them were cut.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refusal {
    pub(super) active: bool,
    pub(super) cuts: u64,
}

/// The test itself among those who refuse; rules count from 1.
pub(super) const BY_TEST: u64 = 0;

/// A watch that can be ended from outside.
struct OpenWatch {
    record: Record,
    end: mpsc::UnboundedSender<Arc<Rule>>,
}

impl Rules {
    pub(super) fn new() -> Self {
        Self {
            list: RwLock::default(),
            next_id: AtomicU64::new(BY_TEST + 1),
            watches: Mutex::default(),
            refusers: Mutex::default(),
            refusal: watch::Sender::new(Refusal::default()),
        }
    }

    pub(super) fn add(self: &Arc<Self>, fault: Fault) -> FaultHandle {
        let rule = Arc::new(Rule {
            id: self.next_id.fetch_add(1, Ordering::Relaxed),
            fault,
            state: watch::Sender::new(State::default()),
        });
        if matches!(rule.fault.action, Action::CutWatch | Action::ExpireWatch) {
            self.end_watches(&rule);
        } else {
            self.list.write().unwrap_or_else(PoisonError::into_inner).push(rule.clone());
        }
        FaultHandle { rule, rules: self.clone(), may_miss: false }
    }

    /// Counts the request on every rule it matches and returns those that choose it.
    pub(super) fn choose(&self, record: &Record) -> Vec<Arc<Rule>> {
        self.all(|rule| !rule.is_about_events() && rule.fault.when.matches(record) && rule.count())
    }

    /// The rules about events of this watch.
    pub(super) fn for_events_of(&self, record: &Record) -> Vec<Arc<Rule>> {
        self.all(|rule| rule.is_about_events() && rule.fault.when.matches(record))
    }

    fn all(&self, wanted: impl Fn(&Rule) -> bool) -> Vec<Arc<Rule>> {
        let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
        list.iter().filter(|rule| wanted(rule)).cloned().collect()
    }

    /// Makes a watch reachable for [`Action::CutWatch`] and [`Action::ExpireWatch`], until the receiver is dropped.
    pub(super) fn watch_opened(&self, record: &Record) -> mpsc::UnboundedReceiver<Arc<Rule>> {
        let (end, ends) = mpsc::unbounded_channel();
        let mut watches = locked(&self.watches);
        watches.retain(|watch| !watch.end.is_closed());
        watches.push(OpenWatch { record: record.clone(), end });
        ends
    }

    fn end_watches(&self, rule: &Arc<Rule>) {
        let mut watches = locked(&self.watches);
        watches.retain(|watch| !watch.end.is_closed());
        watches.retain(|watch| {
            let chosen = rule.fault.when.matches(&watch.record) && rule.count();
            !(chosen && watch.end.send(rule.clone()).is_ok())
        });
    }

    pub(super) fn refuse(&self, who: u64, refuse: bool) {
        let mut refusers = locked(&self.refusers);
        if refuse {
            refusers.insert(who);
        } else {
            refusers.remove(&who);
        }
        let active = !refusers.is_empty();
        self.refusal.send_modify(|refusal| {
            refusal.cuts += u64::from(active && !refusal.active);
            refusal.active = active;
        });
    }

    /// Refuses on behalf of a rule, unless it ended in the meantime.
    pub(super) fn refuse_for(&self, rule: &Rule) {
        self.refuse(rule.id, true);
        // If it ended before, its own lifting of the refusal came too early.
        if rule.state.borrow().removed {
            self.refuse(rule.id, false);
        }
    }

    pub(super) fn cut_connections(&self) {
        self.refusal.send_modify(|refusal| refusal.cuts += 1);
    }

    pub(super) fn refusal(&self) -> watch::Receiver<Refusal> {
        self.refusal.subscribe()
    }

    fn remove(&self, rule: &Rule) {
        self.list.write().unwrap_or_else(PoisonError::into_inner).retain(|other| other.id != rule.id);
        rule.state.send_modify(|state| state.removed = true);
        self.refuse(rule.id, false);
    }
}

/// A rule in force.
pub(super) struct Rule {
    pub(super) id: u64,
    pub(super) fault: Fault,
    state: watch::Sender<State>,
}

#[derive(Default)]
struct State {
    /// Matches so far, chosen or not.
    seen: u64,
    /// Matches so far that were chosen.
    chosen: u64,
    /// Times the action took effect.
    hits: u64,
    /// Bytes of answers without end that were handed to connections.
    sent: u64,
    releases: u64,
    removed: bool,
}

/// Why a hold is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HoldEnd {
    Released,
    Removed,
}

impl Rule {
    fn is_about_events(&self) -> bool {
        matches!(self.fault.action, Action::HideEvents(_) | Action::DelayEvents(_))
    }

    /// Counts one match; true if the rule chooses it.
    pub(super) fn count(&self) -> bool {
        let mut chosen = false;
        self.state.send_modify(|state| {
            state.seen += 1;
            chosen = self.fault.when.chooses(state.seen);
            state.chosen += u64::from(chosen);
        });
        chosen
    }

    /// Says that the action took effect.
    pub(super) fn hit(&self) {
        self.state.send_modify(|state| state.hits += 1);
    }

    /// Counts bytes of an answer without end; false if the rule has ended.
    pub(super) fn sends(&self, bytes: usize) -> bool {
        let mut removed = false;
        self.state.send_modify(|state| {
            state.sent += bytes as u64;
            removed = state.removed;
        });
        !removed
    }

    /// Whether the action took effect. Watches that shall end are told at once and end a moment later.
    fn took_effect(&self) -> bool {
        let state = self.state.borrow();
        let ends_watches = matches!(self.fault.action, Action::CutWatch | Action::ExpireWatch);
        state.hits > 0 || (ends_watches && state.chosen > 0)
    }

    /// Says that the action took effect and waits until the test lets go.
    pub(super) async fn hold(&self) -> HoldEnd {
        let mut state = self.state.subscribe();
        let mut releases = 0;
        self.state.send_modify(|state| {
            state.hits += 1;
            releases = state.releases;
        });
        let end = state.wait_for(|state| state.removed || state.releases > releases).await;
        if end.is_ok_and(|state| state.releases > releases) { HoldEnd::Released } else { HoldEnd::Removed }
    }

    /// Waits until the rule ends.
    pub(super) async fn removed(&self) {
        // The sender lives as long as `self`, so this ends for the one reason only.
        let _ = self.state.subscribe().wait_for(|state| state.removed).await;
    }
}

/// A rule in the hands of the test. Dropping it ends the rule, and fails the test if it never took effect: such a test has not
/// shown what it says.
#[must_use = "the rule ends when its handle is dropped"]
pub struct FaultHandle {
    rule: Arc<Rule>,
    rules: Arc<Rules>,
    may_miss: bool,
}

impl FaultHandle {
    /// How often the action took effect: for holds and lost replies after the server committed, for holds before
    /// forwarding when the request is held.
    pub fn hits(&self) -> u64 {
        self.rule.state.borrow().hits
    }

    /// Bytes of answers without end that were handed to connections.
    pub fn sent(&self) -> u64 {
        self.rule.state.borrow().sent
    }

    /// The rule need not take effect.
    pub fn may_miss(mut self) -> Self {
        self.may_miss = true;
        self
    }

    /// Waits for the first hit.
    pub async fn await_hit(&self, deadline: Duration) -> anyhow::Result<()> {
        self.await_hits(1, deadline).await
    }

    /// Waits until there were at least `hits`.
    pub async fn await_hits(&self, hits: u64, deadline: Duration) -> anyhow::Result<()> {
        let mut state = self.rule.state.subscribe();
        if tokio::time::timeout(deadline, state.wait_for(|state| state.hits >= hits)).await.is_err() {
            let (seen, hit) = { (self.rule.state.borrow().seen, self.hits()) };
            bail!("{hit} of {hits} hits within {deadline:?}; the rule matched {seen} times");
        }
        Ok(())
    }

    /// Lets everything go on that this rule holds now. What matches later is held again.
    pub fn release(&self) {
        self.rule.state.send_modify(|state| state.releases += 1);
    }

    /// Ends the rule, as dropping the handle does: connections of what it holds or hangs are cut.
    pub fn remove(self) {
        drop(self);
    }
}

impl Drop for FaultHandle {
    fn drop(&mut self) {
        self.rules.remove(&self.rule);
        // A test that fails already fails for its own reason.
        if !self.may_miss && !std::thread::panicking() {
            let seen = self.rule.state.borrow().seen;
            assert!(self.rule.took_effect(), "a fault rule was never hit; it matched {seen} times");
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
