//! Events: told beside the work, which does not wait for them.

use futures::StreamExt;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, Recorder};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;
use tracing::warn;

/// Events that wait for their turn. Where there are more, the control plane does not keep up, and needs no more of them.
const WAITING: usize = 10_000;
/// Events that are sent at a time: few, since all else is more urgent.
const AT_ONCE: usize = 4;

/// Where Events are handed in.
pub struct Events(mpsc::Sender<(Event, ObjectReference)>);

impl Events {
    /// Sends what is handed in on `tasks`, until this is dropped and all has been sent.
    pub fn new(recorder: Recorder, tasks: &TaskTracker) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        tasks.spawn(async move {
            let events = futures::stream::unfold(receiver, |mut receiver| async {
                receiver.recv().await.map(|event| (event, receiver))
            });
            events
                .for_each_concurrent(AT_ONCE, |(event, object): (Event, ObjectReference)| {
                    let recorder = &recorder;
                    async move {
                        if let Err(error) = recorder.publish(&event, &object).await {
                            warn!(%error, "could not publish an Event");
                        }
                    }
                })
                .await;
        });
        Self(sender)
    }

    /// Hands in an Event. One that is lost is no reason to do anything again.
    pub(super) fn publish(&self, event: Event, object: ObjectReference) {
        if let Err(error) = self.0.try_send((event, object)) {
            warn!(%error, "could not publish an Event");
        }
    }
}
