//! Looking again at what a plane serves when its custom resources change.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, pin_mut};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};

use super::probe;
use crate::planes::{Capabilities, ServedKinds};

/// Custom resources come in bundles: one look for those that come together.
const SOON: Duration = Duration::from_millis(500);
/// A server serves a new kind a moment after it shows the definition: another look once that is over.
const LATER: Duration = Duration::from_secs(3);
/// For what no definition tells of: an upgraded server, an aggregated API, definitions that may not be watched.
const EVER: Duration = Duration::from_mins(10);

/// What was found on another look.
pub(super) struct News {
    /// Version of the server.
    pub(super) version: String,
    /// Optional parts of the plane.
    pub(super) capabilities: Capabilities,
    /// Whether it serves other kinds than before.
    pub(super) other_kinds: bool,
}

/// Looks again at a plane whenever its custom resource definitions change, and tells what it found. `kinds` holds
/// the kinds that the plane serves.
pub(super) async fn follow_kinds(
    watches: Client,
    probes: Client,
    deadline: Duration,
    kinds: watch::Sender<Arc<ServedKinds>>,
    news: mpsc::Sender<News>,
) {
    let definitions: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(watches);
    let events = watcher(definitions, watcher::Config::default()).default_backoff();
    pin_mut!(events);
    let mut looks = Looks::new(Instant::now());
    loop {
        tokio::select! {
            Some(event) = events.next() => match event {
                // An error is tried again by the watcher; a watch that is not allowed leaves the slow look.
                Ok(Event::Init | Event::InitApply(_)) | Err(_) => {}
                Ok(Event::InitDone | Event::Apply(_) | Event::Delete(_)) => looks.changed(Instant::now()),
            },
            () = sleep_until(looks.due()) => {
                looks.looked(Instant::now());
                // The connector's probes say whether the plane is in order.
                let Ok((version, capabilities, found)) = probe::refresh(&probes, deadline).await else {
                    looks.failed(Instant::now());
                    continue;
                };
                let other_kinds = kinds.send_if_modified(|kinds| {
                    let other = *kinds != found;
                    *kinds = found;
                    other
                });
                if news.send(News { version, capabilities, other_kinds }).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// When to look.
#[derive(Debug)]
struct Looks {
    soon: Option<Instant>,
    later: Option<Instant>,
    ever: Instant,
}

impl Looks {
    fn new(now: Instant) -> Self {
        Self { soon: None, later: None, ever: now + EVER }
    }

    fn changed(&mut self, now: Instant) {
        self.soon.get_or_insert(now + SOON);
        self.later = Some(now + LATER);
    }

    /// Nothing was seen: whatever there was to see still is.
    fn failed(&mut self, now: Instant) {
        self.later = Some(now + LATER);
    }

    fn due(&self) -> Instant {
        [self.soon, self.later].into_iter().flatten().fold(self.ever, Instant::min)
    }

    fn looked(&mut self, now: Instant) {
        self.soon.take_if(|due| *due <= now);
        self.later.take_if(|due| *due <= now);
        self.ever = now + EVER;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_of_changes_is_looked_at_soon_and_once_more_when_it_is_over() {
        let start = Instant::now();
        let mut looks = Looks::new(start);
        assert_eq!(looks.due(), start + EVER);
        let at = |millis| start + Duration::from_millis(millis);
        // A stream of changes does not put the first look off.
        for millis in [0, 100, 400] {
            looks.changed(at(millis));
        }
        assert_eq!(looks.due(), start + SOON);
        looks.looked(at(500));
        assert_eq!(looks.due(), at(400) + LATER);
        looks.looked(at(3400));
        assert_eq!(looks.due(), at(3400) + EVER);
        looks.failed(at(3500));
        assert_eq!(looks.due(), at(3500) + LATER);
    }
}
