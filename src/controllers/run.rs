//! How every controller runs: woken by the world, one reconcile per object at a time, failures tried again later.

use std::{fmt::Debug, sync::Arc, time::Instant};

use futures::{StreamExt, stream};
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
use tracing::{Instrument, debug, info_span, warn};

use super::{Context, retry::Retries};
use crate::{apply::WriteError, metrics::Outcome};

/// Runs `reconcile` for each object that `woken` names, until `stop` and then until those in flight have ended.
pub(super) async fn run<K, Fut>(
    name: &'static str,
    store: Store<K>,
    woken: mpsc::UnboundedReceiver<ObjectRef<K>>,
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
    let retries = Arc::new(Retries::<ObjectRef<K>>::default());
    let woken = stream::unfold(woken, |mut woken| async { woken.recv().await.map(|key| (key, woken)) });

    let done = retries.clone();
    let observed = move |object: Arc<K>, context: Arc<Context>| {
        let (reconcile, retries) = (reconcile.clone(), done.clone());
        let span = info_span!("reconcile", controller = name, object = %ObjectRef::from_obj(&*object),
            generation = object.meta().generation);
        async move {
            let started = Instant::now();
            let result = reconcile(object.clone(), context.clone()).await;
            let outcome = match &result {
                Ok(_) => Outcome::Success,
                Err(WriteError::Conflict) => Outcome::Conflict,
                Err(_) => Outcome::Error,
            };
            context.metrics.reconciled(name, outcome, started.elapsed());
            if outcome == Outcome::Success {
                retries.succeeded(&ObjectRef::from_obj(&*object));
            }
            result.map(|next| {
                if next == Action::await_change() {
                    Action::requeue(retries.spread(context.resync))
                } else {
                    next
                }
            })
        }
        .instrument(span)
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
        .for_each(|result| async move {
            match result {
                // An object that was deleted before its turn came.
                Err(controller::Error::ObjectNotFound(object)) => debug!(%object, "gone"),
                // Said above, with when it is tried again.
                Ok(_) | Err(controller::Error::ReconcilerFailed(..)) => {}
                Err(error) => warn!(controller = name, %error, "the queue failed"),
            }
        })
        .await;
}
