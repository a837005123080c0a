//! The growing list of recorded requests, and waiting for one of them.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::bail;
use hyper::body::Bytes;
use tokio::{sync::watch, time::Instant};

use super::{
    record::{Outcome, Record, Records},
    serve::Cut,
};

/// Bytes of request bodies that are kept in all; beyond that the oldest bodies are dropped, their records stay.
const KEPT_BODIES: usize = 64 << 20;

/// A point in the order of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(pub(super) u64);

/// All requests so far.
pub(super) struct Log {
    kept: Mutex<Kept>,
    /// Counts changes, so that waiters look again.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct Kept {
    /// Shared with waiters, who look at them without holding the lock.
    records: VecDeque<Arc<Record>>,
    next: u64,
    body_bytes: usize,
    /// First record that may still have its body.
    oldest_body: u64,
}

impl Kept {
    fn get(&mut self, seq: u64) -> Option<&mut Record> {
        let first = self.records.front()?.seq;
        self.records.get_mut(usize::try_from(seq.checked_sub(first)?).ok()?).map(Arc::make_mut)
    }

    fn drop_old_bodies(&mut self) {
        while self.body_bytes > KEPT_BODIES && self.oldest_body < self.next {
            let seq = self.oldest_body;
            self.oldest_body += 1;
            let freed = self.get(seq).map_or(0, |record| std::mem::take(&mut record.body.bytes).len());
            self.body_bytes -= freed;
        }
    }
}

impl Log {
    pub(super) fn new() -> Self {
        Self { kept: Mutex::default(), changes: watch::Sender::new(0) }
    }

    /// Adds a record, gives it its number, and hands back the entry that follows it to its end.
    pub(super) fn open(self: &Arc<Self>, mut record: Record, cut: Cut) -> (Record, Entry) {
        let mut kept = self.lock();
        record.seq = kept.next;
        kept.next += 1;
        kept.body_bytes += record.body.bytes.len();
        // A copy of its own size: the slice may hold a whole read buffer alive.
        record.body.bytes = Bytes::copy_from_slice(&record.body.bytes);
        kept.records.push_back(Arc::new(record.clone()));
        kept.drop_old_bodies();
        drop(kept);
        self.changed();
        let entry = Entry { log: self.clone(), seq: record.seq, cut };
        (record, entry)
    }

    pub(super) fn mark(&self) -> Mark {
        Mark(self.lock().next)
    }

    pub(super) fn since(&self, mark: Mark) -> Records {
        Records(self.shared_since(mark).into_iter().map(Arc::unwrap_or_clone).collect())
    }

    fn shared_since(&self, mark: Mark) -> Vec<Arc<Record>> {
        self.lock().records.iter().filter(|record| record.seq >= mark.0).cloned().collect()
    }

    pub(super) fn forget_before(&self, mark: Mark) {
        let mut kept = self.lock();
        while kept.records.front().is_some_and(|record| record.seq < mark.0 && record.is_over()) {
            let freed = kept.records.pop_front().map_or(0, |record| record.body.bytes.len());
            kept.body_bytes -= freed;
        }
    }

    pub(super) async fn wait(
        &self,
        mark: Mark,
        wanted: impl Fn(&Record) -> bool,
        deadline: Duration,
    ) -> anyhow::Result<Record> {
        let mut changes = self.changes.subscribe();
        let until = Instant::now() + deadline;
        loop {
            changes.mark_unchanged();
            let found = self.shared_since(mark).into_iter().find(|record| wanted(record));
            if let Some(record) = found {
                return Ok(Arc::unwrap_or_clone(record));
            }
            if tokio::time::timeout_at(until, changes.changed()).await.is_err() {
                bail!("no such request within {deadline:?}; there were:\n{}", self.since(mark));
            }
        }
    }

    /// Waits until no request arrived for as long as `quiet`.
    pub(super) async fn wait_quiet(&self, quiet: Duration, deadline: Duration) -> anyhow::Result<()> {
        let mut changes = self.changes.subscribe();
        let until = Instant::now() + deadline;
        let mut mark = self.mark();
        let mut still = Instant::now() + quiet;
        while Instant::now() < still {
            if still > until {
                bail!("not quiet for {quiet:?} within {deadline:?}; last:\n{}", self.since(mark));
            }
            if let Ok(Ok(())) = tokio::time::timeout_at(still, changes.changed()).await
                && self.mark() != mark
            {
                mark = self.mark();
                still = Instant::now() + quiet;
            }
        }
        Ok(())
    }

    fn update(&self, seq: u64, change: impl FnOnce(&mut Record)) {
        if let Some(record) = self.lock().get(seq) {
            change(record);
        }
        self.changed();
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Follows one request. Dropped before an end was set means that the connection went away under it.
pub(super) struct Entry {
    log: Arc<Log>,
    seq: u64,
    cut: Cut,
}

impl Entry {
    pub(super) fn set(&self, outcome: Outcome) {
        self.log.update(self.seq, |record| record.outcome = outcome);
    }

    pub(super) fn forwarded(&self) {
        self.log.update(self.seq, |record| record.forwarded = true);
    }

    /// Ends what is still under way as `outcome`; an end that is set already stays.
    fn end(&self, outcome: Outcome) {
        self.log.update(self.seq, |record| {
            record.outcome = match record.outcome {
                Outcome::Streaming(code) => Outcome::Closed(code),
                Outcome::ReplyHeld(code) => Outcome::ReplyLost(code),
                Outcome::Pending | Outcome::Held | Outcome::Hung => outcome,
                ref over => over.clone(),
            }
        });
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.end(if self.cut.is_cut() { Outcome::Reset } else { Outcome::ClientGone });
    }
}
