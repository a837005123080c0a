//! Events: told beside the work, which does not wait for them.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures::StreamExt;
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{Condition, MicroTime, ObjectMeta},
};
use kantor_api::conditions::{self, reasons, types};
use kantor_core::{
    changes::{Outcome, shown},
    news::{self, Allowance, shortened},
};
use kube::{Resource, ResourceExt, runtime::events::EventType};
use moka::sync::Cache;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use super::Runtime;
use crate::apply::{Change, WriteError, Writer};

/// Events that wait for their turn. Where there are more, the control plane does not keep up, and needs no more of them.
const WAITING: usize = 10_000;
/// Events that are sent at a time: few, since all else is more urgent.
const AT_ONCE: usize = 4;
/// How long an Event is remembered: until then the same one counts on.
const REMEMBERED: Duration = Duration::from_mins(6);
/// How many are remembered.
const MOST: u64 = 4096;
/// Who reports them.
const CONTROLLER: &str = "kantor";

/// Where Events are handed in.
pub struct Events(mpsc::Sender<News>);

/// What is told of an object.
#[derive(Clone, Debug)]
pub(crate) struct News {
    pub object: ObjectReference,
    pub is_warning: bool,
    pub action: &'static str,
    pub reason: String,
    pub note: String,
}

/// The same news of the same object is the same Event, which counts how often it was told. Another note is another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    object: String,
    is_warning: bool,
    reason: String,
    note: String,
}

impl Events {
    /// Sends what is handed in on `tasks` in the name of `instance`, until this is dropped and all has been sent.
    pub fn new(writer: Writer, instance: Option<String>, tasks: &TaskTracker) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        let teller = Teller {
            writer,
            instance: instance.unwrap_or_else(|| CONTROLLER.to_owned()),
            told: Cache::builder().max_capacity(MOST).time_to_idle(REMEMBERED).build(),
            start: Instant::now(),
            allowances: Cache::builder().max_capacity(MOST).time_to_idle(Allowance::FULL_AFTER).build(),
        };
        tasks.spawn(async move {
            let events = futures::stream::unfold(receiver, |mut receiver| async {
                receiver.recv().await.map(|news| (news, receiver))
            });
            events.for_each_concurrent(AT_ONCE, |news| teller.tell(news)).await;
        });
        Self(sender)
    }

    /// Hands in an Event. One that is lost is no reason to do anything again.
    pub(crate) fn publish(&self, mut news: News) {
        news.note = shortened(news.note);
        if self.0.try_send(news).is_err() {
            warn!("an Event is lost: too many wait to be published");
        }
    }
}

struct Teller {
    writer: Writer,
    instance: String,
    /// The Events that were made, and how often each was told.
    told: Cache<Key, (String, i32)>,
    start: Instant,
    /// How many Events each object may still have.
    allowances: Cache<String, Arc<Mutex<Allowance>>>,
}

impl Teller {
    async fn tell(&self, news: News) {
        let object = news.object.uid.clone().unwrap_or_default();
        let now = self.start.elapsed();
        let allowance =
            self.allowances.get_with(object.clone(), || Arc::new(Mutex::new(Allowance::full(now))));
        if !allowance.lock().unwrap_or_else(PoisonError::into_inner).take(now) {
            debug!(reason = news.reason, note = news.note, "no Event: there are too many of the object");
            return;
        }
        let key =
            Key { object, is_warning: news.is_warning, reason: news.reason.clone(), note: news.note.clone() };
        if let Err(error) = self.send(news, key).await {
            warn!(%error, "could not publish an Event");
        }
    }

    async fn send(&self, news: News, key: Key) -> Result<(), WriteError> {
        let now = MicroTime(jiff::Timestamp::now());
        if let Some((name, count)) = self.told.get(&key) {
            let count = count.saturating_add(1);
            let mut event = self.event(&news, &now);
            event.metadata.name = Some(name.clone());
            let series = json!({"series": {"count": count, "lastObservedTime": now}});
            match self.writer.merge(&event, &series).await {
                // It is gone: Events do not last.
                Err(WriteError::Refused(_)) => {}
                sent => {
                    sent?;
                    self.told.insert(key, (name, count));
                    return Ok(());
                }
            }
        }
        let event = self.event(&news, &now);
        self.writer.create(&event).await?;
        self.told.insert(key, (event.name_any(), 1));
        Ok(())
    }

    fn event(&self, news: &News, now: &MicroTime) -> Event {
        let mut name = news.object.name.clone().unwrap_or_default();
        // Beside the rest of it there is room for so much.
        name.truncate(name.floor_char_boundary(200));
        let name = format!("{}.{:x}", name.trim_end_matches(['.', '-']), now.0.as_nanosecond());
        // Those of objects without a namespace are in this one, as for all of Kubernetes.
        let namespace = news.object.namespace.clone().unwrap_or_else(|| "default".to_owned());
        Event {
            metadata: ObjectMeta { name: Some(name), namespace: Some(namespace), ..ObjectMeta::default() },
            type_: Some(if news.is_warning { "Warning" } else { "Normal" }.to_owned()),
            action: Some(news.action.to_owned()),
            reason: Some(news.reason.clone()),
            note: Some(news.note.clone()),
            event_time: Some(now.clone()),
            regarding: Some(news.object.clone()),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            ..Event::default()
        }
    }
}

/// As [`announce`], for kinds of which there are many, and all of which are on their way at first: that is no news.
pub(crate) fn announce_news<K: Resource<DynamicType = ()>>(
    object: &K,
    before: &[Condition],
    after: &[Condition],
    runtime: &Runtime,
) {
    let says = |type_: &str, status: &str| conditions::get(after, type_).is_some_and(|c| c.status == status);
    let is_on_its_way = says(types::READY, "False") && !says(types::STALLED, "True");
    if conditions::get(before, types::READY).is_some() || !is_on_its_way {
        announce(object, before, after, runtime);
    }
}

/// Publishes an Event if the condition `Ready` changed.
pub(crate) fn announce<K: Resource<DynamicType = ()>>(
    object: &K,
    before: &[Condition],
    after: &[Condition],
    runtime: &Runtime,
) {
    let (was, is) = (conditions::get(before, types::READY), conditions::get(after, types::READY));
    let Some(is) =
        is.filter(|is| was.is_none_or(|was| (&was.status, &was.reason) != (&is.status, &is.reason)))
    else {
        return;
    };
    let stalled = conditions::get(after, types::STALLED).is_some_and(|stalled| stalled.status == "True");
    // It may go on by itself, and hardly ever does.
    let needs_somebody = stalled || is.reason == reasons::PODS_NOT_RUNNING;
    let type_ = if needs_somebody || is.status == "Unknown" { EventType::Warning } else { EventType::Normal };
    publish(object, type_, "Reconcile", &is.reason, is.message.clone(), runtime);
}

/// Publishes an Event if somebody else had changed an object on a data plane.
pub(crate) fn announce_drift<K>(owner: &K, change: &Change, runtime: &Runtime)
where
    K: Resource<DynamicType = ()>,
{
    if let Outcome::Configured { drift: Some(field) } = &change.outcome {
        let note = format!("{}: {field} had been changed by somebody else", shown(&change.item));
        publish(owner, EventType::Normal, "Apply", reasons::DRIFT_REPAIRED, note, runtime);
    }
}

/// Publishes an Event about an object.
pub(crate) fn publish<K: Resource<DynamicType = ()>>(
    object: &K,
    type_: EventType,
    action: &'static str,
    reason: &str,
    note: String,
    runtime: &Runtime,
) {
    let (object, is_warning) = (object.object_ref(&()), type_ == EventType::Warning);
    runtime.events.publish(News { object, is_warning, action, reason: reason.to_owned(), note });
}

/// Tells all that stays behind on a data plane: in the log, and in Events.
pub(crate) fn leave_behind<K: Resource<DynamicType = ()>>(
    object: &K,
    plane: &str,
    objects: &[String],
    runtime: &Runtime,
) {
    let notes = news::left_behind(plane, objects);
    for note in &notes {
        warn!(namespace = object.meta().namespace, name = object.meta().name, note, "left behind");
    }
    for note in news::as_events(notes) {
        publish(object, EventType::Warning, "Finalize", reasons::LEFT_BEHIND, note, runtime);
    }
}
