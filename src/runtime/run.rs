//! How every controller runs: woken by the world, one reconcile per object at a time, failures tried again later.

use std::{
    future,
    ops::Deref,
    panic::{self, AssertUnwindSafe},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::FutureExt;
use kantor_core::backoff::LONGEST_ASKED;
use kube::{
    Resource,
    runtime::reflector::{Lookup, ObjectRef, Store},
};
use tokio::{
    sync::mpsc,
    task::{JoinError, JoinSet},
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span, debug, field, info_span, warn};

use super::{
    Runtime,
    backoff::Retries,
    queue::{Next, Queue},
};
use crate::{apply::WriteError, cache::Wake, telemetry::metrics::Outcome};

/// When to look again at an object that was written and that the watch has not told of yet: deciding on what it was before
/// would do the work twice, and its result would be refused.
const BEHIND: Duration = Duration::from_millis(50);

/// What is to be done after a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Action {
    again: Option<Duration>,
}

impl Action {
    /// Look again after this time, or when something wakes the object.
    pub(crate) fn requeue(after: Duration) -> Self {
        Self { again: Some(after) }
    }

    /// Look again when something wakes the object; else as often as at everything.
    pub(crate) fn await_change() -> Self {
        Self { again: None }
    }

    /// Both: look again when the first of them says.
    pub(crate) fn sooner(self, other: Self) -> Self {
        Self { again: self.again.into_iter().chain(other.again).min() }
    }
}

/// Runs `reconcile` for each object that `woken` names, or `gone` where there is none any more, until `stop` and then until those
/// in flight have ended.
pub(crate) async fn run<K, C, Fut>(
    name: &'static str,
    store: Store<K>,
    mut woken: mpsc::UnboundedReceiver<Wake<K>>,
    context: Arc<C>,
    stop: CancellationToken,
    reconcile: impl Fn(Arc<K>, Arc<C>) -> Fut + Send + Sync + 'static,
    gone: impl Fn(&ObjectRef<K>, &C) + Send + Sync + 'static,
) where
    K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
    C: Deref<Target = Runtime> + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, WriteError>> + Send + 'static,
{
    let mut queue = Queue::<ObjectRef<K>>::default();
    // What is not known yet must not be taken for gone. Whatever a list names wakes all that refer to it: that collapses here.
    let collecting = async {
        while let Some(wake) = woken.recv().await {
            queue.wake(&wake.object, (wake.since, wake.cause));
            queue.put_off(&wake.object, Duration::ZERO);
        }
        future::pending::<()>().await;
    };
    tokio::select! {
        () = stop.cancelled() => return,
        () = context.world.sync.synced() => {}
        () = collecting => {}
    }
    context.metrics.controller_starts(name);
    let retries = Retries::<ObjectRef<K>>::default();
    // A task each, so that one that gets on wakes nobody else. They end with this.
    let mut running = JoinSet::new();
    loop {
        let object = tokio::select! {
            () = stop.cancelled() => break,
            Some(wake) = woken.recv() => {
                queue.wake(&wake.object, (wake.since, wake.cause)).then_some(wake.object)
            }
            Some(object) = queue.due() => Some(object),
            Some(ended) = running.join_next() => {
                let Some((object, result)) = result_of(ended) else { break };
                let next = next(&object, result, &retries, context.resync);
                queue.end(&object, next).then_some(object)
            }
        };
        let Some(object) = object else { continue };
        let Some(current) = store.get(&object) else {
            debug!(%object, "gone");
            gone(&object, &context);
            queue.forget(&object);
            // Another one of its name has failed at nothing yet.
            retries.succeeded(&object);
            continue;
        };
        if context.writer.has_written_since(&*current) {
            queue.put_off(&object, BEHIND);
            continue;
        }
        let waited = queue.begin(&object);
        let span = info_span!(
            "reconcile", controller = name, %object, generation = current.meta().generation,
            cause = waited.as_ref().map(|(_, cause)| &**cause), result = field::Empty
        );
        if let Some((since, _)) = waited {
            context.metrics.waited(name, since.elapsed());
        }
        // In a box of its own: a task is kept until somebody asks what it came to, and each function that a future passes through
        // makes room for it once more.
        let turn = observed(name, Box::pin(reconcile(current, context.clone())), context.clone());
        running.spawn(async move { (object, turn.await) }.instrument(span));
    }
    while let Some(ended) = running.join_next().await {
        result_of(ended);
    }
}

/// Counts a reconcile.
async fn observed(
    name: &'static str,
    reconcile: impl Future<Output = Result<Action, WriteError>>,
    context: Arc<impl Deref<Target = Runtime>>,
) -> Result<Action, WriteError> {
    let started = Instant::now();
    let result = caught(reconcile).await;
    let outcome = match &result {
        Ok(_) => Outcome::Success,
        Err(WriteError::Conflict) => Outcome::Conflict,
        Err(_) => Outcome::Error,
    };
    Span::current().record("result", outcome.as_str());
    context.metrics.reconciled(name, outcome, started.elapsed());
    result
}

/// A reconcile that panics is a defect, and concerns its own object only: others are looked at as ever.
async fn caught(reconcile: impl Future<Output = Result<Action, WriteError>>) -> Result<Action, WriteError> {
    let caught = AssertUnwindSafe(reconcile).catch_unwind().await;
    caught.unwrap_or_else(|_| {
        // What it said, and where, has been written already, and may hold anything.
        Err(WriteError::Transient("it panicked, which is a defect of Kantor: please report it".to_owned()))
    })
}

/// When to look again.
fn next<K: Lookup<DynamicType = ()>>(
    object: &ObjectRef<K>,
    result: Result<Action, WriteError>,
    retries: &Retries<ObjectRef<K>>,
    resync: Duration,
) -> Next {
    let error = match result {
        Ok(action) => {
            retries.succeeded(object);
            return Next::after(action.again.unwrap_or_else(|| retries.spread(resync)));
        }
        Err(error) => error,
    };
    let mut next = Next::after(retries.after_failure(object.clone()));
    if let WriteError::Busy { after, .. } = &error {
        // However often it is woken: a server that has too much to do is left alone for as long as it asks, within reason.
        next.held = (*after).min(LONGEST_ASKED);
        next.again = next.again.max(next.held);
    }
    if error == WriteError::Conflict {
        debug!(%object, "changed in the meantime");
    } else {
        warn!(%object, %error, again_in = ?next.again, "reconcile failed");
    }
    next
}

/// What a task came to; nothing if the process ends.
fn result_of<T>(ended: Result<T, JoinError>) -> Option<T> {
    match ended.map_err(JoinError::try_into_panic) {
        Ok(result) => Some(result),
        Err(Ok(panic)) => panic::resume_unwind(panic),
        Err(Err(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use kantor_api::Organization;

    use super::*;

    #[test]
    fn a_server_that_asks_for_time_gets_it_within_reason() {
        let retries = Retries::default();
        let acme = ObjectRef::<Organization>::new("acme");
        let fail = |error| next(&acme, Err(error), &retries, Duration::from_mins(10));
        let busy = |after| WriteError::Busy { message: "later".to_owned(), after };
        let ten = Duration::from_secs(10);
        assert_eq!(fail(busy(ten)), Next { again: ten, held: ten });
        assert_eq!(fail(busy(Duration::MAX)).held, LONGEST_ASKED);
        let failed = fail(WriteError::Transient("no answer".to_owned()));
        assert!(failed.held.is_zero() && failed.again < ten, "{failed:?}");
        let done = next(&acme, Ok(Action::requeue(ten)), &retries, Duration::from_mins(10));
        assert_eq!(done, Next::after(ten));
    }

    #[tokio::test]
    async fn a_reconcile_that_panics_is_one_that_failed() {
        let ended = caught(async { Ok(Action::await_change()) }).await;
        assert_eq!(ended, Ok(Action::await_change()));
        let ended = caught(async { panic!("something unforeseen") }).await;
        assert!(matches!(ended, Err(WriteError::Transient(why)) if why.contains("report")));
    }
}
