//! How every controller runs: woken by the world, one reconcile per object at a time, failures tried again later.

use std::{
    fmt::Debug,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{
    StreamExt,
    future::{self, Either},
    stream,
};
use kube::{
    Resource,
    runtime::{
        Controller,
        controller::{self, Action},
        reflector::{ObjectRef, Store},
    },
};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span, debug, field, info_span, warn};

use super::{Context, queue::Queue, retry::Retries};
use crate::{apply::WriteError, metrics::Outcome, world::Wake};

/// When to look again at an object that was written and that the watch has not told of yet: deciding on what it was before
/// would do the work twice, and its result would be refused.
const BEHIND: Duration = Duration::from_millis(20);

/// Runs `reconcile` for each object that `woken` names, until `stop` and then until those in flight have ended.
pub(super) async fn run<K, Fut>(
    name: &'static str,
    store: Store<K>,
    woken: mpsc::UnboundedReceiver<Wake<K>>,
    context: Arc<Context>,
    stop: CancellationToken,
    reconcile: impl Fn(Arc<K>, Arc<Context>) -> Fut + Send + Sync + Clone + 'static,
) where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, WriteError>> + Send + 'static,
{
    // What is not known yet must not be taken for gone.
    if stop.run_until_cancelled(context.world.sync.synced()).await.is_none() {
        return;
    }
    context.metrics.controller_starts(name);
    let retries = Arc::new(Retries::<ObjectRef<K>>::default());
    let queue = Arc::new(Queue::default());
    let queued = queue.clone();
    let woken = stream::unfold((woken, queued), |(mut woken, queued)| async {
        let wake = woken.recv().await?;
        queued.note(wake.object.clone(), wake.since, wake.cause);
        Some((wake.object, (woken, queued)))
    });

    let (done, begun) = (retries.clone(), queue.clone());
    let observed = move |object: Arc<K>, context: Arc<Context>| {
        let (reconcile, retries) = (reconcile.clone(), done.clone());
        let key = ObjectRef::from_obj(&*object);
        if context.writer.has_written_since(&*object) {
            return Either::Left(future::ready(Ok(Action::requeue(BEHIND))));
        }
        let waited = begun.take(&key);
        let span = info_span!(
            "reconcile", controller = name, object = %key, generation = object.meta().generation,
            cause = waited.as_ref().map(|(_, cause)| &**cause), result = field::Empty
        );
        if let Some((since, _)) = waited {
            context.metrics.waited(name, since.elapsed());
        }
        let turn = async move {
            let started = Instant::now();
            let result = reconcile(object.clone(), context.clone()).await;
            let outcome = match &result {
                Ok(_) => Outcome::Success,
                Err(WriteError::Conflict) => Outcome::Conflict,
                Err(_) => Outcome::Error,
            };
            Span::current().record("result", outcome.as_str());
            context.metrics.reconciled(name, outcome, started.elapsed());
            if outcome == Outcome::Success {
                retries.succeeded(&key);
            }
            result.map(|next| {
                if next == Action::await_change() {
                    Action::requeue(retries.spread(context.resync))
                } else {
                    next
                }
            })
        };
        Either::Right(turn.instrument(span))
    };
    let again = move |object: Arc<K>, error: &WriteError, _: Arc<Context>| {
        let wait = retries.after_failure(ObjectRef::from_obj(&*object));
        let object = ObjectRef::from_obj(&*object);
        if *error == WriteError::Conflict {
            debug!(%object, "changed in the meantime");
        } else {
            warn!(%object, %error, again_in = ?wait, "reconcile failed");
        }
        Action::requeue(wait)
    };

    Controller::for_stream(stream::pending(), store)
        .reconcile_on(woken)
        .graceful_shutdown_on(async move { stop.cancelled().await })
        .run(observed, again, context)
        .for_each(|result| {
            match result {
                // An object that was deleted before its turn came.
                Err(controller::Error::ObjectNotFound(object)) => {
                    debug!(%object, "gone");
                    queue.forget(&object.name, object.namespace.as_deref());
                }
                // Said above, with when it is tried again.
                Ok(_) | Err(controller::Error::ReconcilerFailed(..)) => {}
                Err(error) => warn!(controller = name, %error, "the queue failed"),
            }
            future::ready(())
        })
        .await;
}
