//! Looking again at what a plane serves when its custom resources change.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Client, api::ApiResource};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};

use super::probe;
use crate::planes::{
    Capabilities, Follow, FollowState, Followed, RemoteChange, ServedKinds,
    definitions::{self, Definition, Definitions, Reading, Says},
    watches::{self, Surroundings},
};

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

/// What a plane serves is relied on without the list of its definitions, where that may not be read, when it has been connected
/// for this long.
const SETTLED: Duration = Duration::from_secs(30);

/// The custom resource definitions of a plane: what is not among them, nor served, is not there.
pub(crate) struct Defined {
    followed: Arc<Followed>,
    /// Whether the plane said that it is ready before it was asked what it serves.
    said_ready: bool,
    since: Instant,
    /// Groups that the plane was ever seen to serve, in this connection or one before.
    ever: Arc<Ever>,
    /// Definitions that are not served, by name, as they were read.
    read: Mutex<BTreeMap<String, Reading>>,
}

/// The most definitions that are read in one look: whoever has more of them that are not served waits for the next.
const MOST_READ: usize = 16;

/// Groups that a plane was ever seen to serve.
#[derive(Default)]
pub(crate) struct Ever(Mutex<BTreeSet<String>>);

impl Ever {
    fn note(&self, kinds: &ServedKinds) {
        let mut ever = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for group in kinds.groups() {
            if !ever.contains(group) {
                ever.insert(group.to_owned());
            }
        }
    }

    fn has(&self, group: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(group)
    }
}

impl Defined {
    /// Follows the definitions of a plane; nobody else is told of them.
    pub(crate) fn follow(surroundings: Surroundings, said_ready: bool, ever: Arc<Ever>) -> Self {
        let resource = ApiResource::erase::<CustomResourceDefinition>(&());
        let followed = watches::start(&resource, "", Follow::Metadata, surroundings);
        Self { followed, said_ready, since: Instant::now(), ever, read: Mutex::default() }
    }

    /// Waits until they have been listed, or may not be. False if they can be neither: the plane is not well.
    pub(crate) async fn listed(&self) -> bool {
        let state = self.followed.tried().await;
        state == FollowState::Synced || is_forbidden(&state)
    }

    /// What is known of the definitions of a group.
    pub(crate) fn of(&self, group: &str) -> Definitions {
        let state = self.followed.state();
        if state == FollowState::Synced {
            let of_group = |name: String| {
                let (plural, of) = name.split_once('.')?;
                (of == group).then(|| Definition { plural: plural.to_owned(), says: self.says(&name) })
            };
            return Definitions::Listed(self.followed.names().into_iter().filter_map(of_group).collect());
        }
        if is_forbidden(&state) {
            let settled = self.said_ready && self.since.elapsed() >= SETTLED && !self.ever.has(group);
            return Definitions::Forbidden { settled };
        }
        Definitions::Unread
    }

    /// Names of all that may have objects; none if they have not been listed.
    pub(crate) fn with_objects(&self) -> Option<Vec<String>> {
        let mut names = self.followed.is_synced().then(|| self.followed.names())?;
        names.retain(|name| self.says(name) != Says::NeverAccepted);
        Some(names)
    }

    /// What a definition says of itself, if it was read as it now is: its version is that which the watch has told.
    fn says(&self, name: &str) -> Says {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(reading) = read.get(name) else { return Says::Unread };
        let is_current = self.followed.version(None, name).is_some_and(|version| version == reading.version);
        if is_current { reading.says.clone() } else { Says::Unread }
    }

    /// Reads those definitions that are not among `served` and have not been read as they now are, as far as there is time until
    /// the `deadline`. Tells whether more is known than before.
    pub(crate) async fn read(&self, client: &Client, served: &ServedKinds, deadline: Duration) -> bool {
        let names = if self.followed.is_synced() { self.followed.names() } else { vec![] };
        let unserved: BTreeSet<String> = names.into_iter().filter(|name| served.is_unserved(name)).collect();
        self.read.lock().unwrap_or_else(PoisonError::into_inner).retain(|name, _| unserved.contains(name));
        let unread = unserved.into_iter().filter(|name| self.says(name) == Says::Unread);
        let (mut is_news, end) = (false, Instant::now() + deadline);
        for name in unread.filter(|name| definitions::is_name(name)).take(MOST_READ) {
            // What cannot be read is not known, and looked for again.
            let left = end.saturating_duration_since(Instant::now());
            let Ok(Some(reading)) = probe::definition(client, &name, left).await else { continue };
            self.read.lock().unwrap_or_else(PoisonError::into_inner).insert(name, reading);
            is_news = true;
        }
        is_news
    }
}

fn is_forbidden(state: &FollowState) -> bool {
    matches!(state, FollowState::Denied { .. })
}

/// Looks again at a plane whenever its custom resource definitions change, as `told`, and tells what it found. `kinds` holds
/// the kinds that the plane serves.
pub(super) async fn follow_kinds(
    defined: Arc<Defined>,
    mut told: mpsc::UnboundedReceiver<RemoteChange>,
    probes: Client,
    deadline: Duration,
    kinds: watch::Sender<Arc<ServedKinds>>,
    news: mpsc::Sender<News>,
) {
    let mut states = defined.followed.states();
    let mut looks = Looks::new(Instant::now());
    defined.ever.note(&kinds.borrow());
    let mut changed = false;
    loop {
        tokio::select! {
            Some(_) = told.recv() => {
                while told.try_recv().is_ok() {}
                changed = true;
                looks.changed(Instant::now());
            }
            // Listed again, or not to be listed any more: what is known of kinds that are not served is something else.
            Ok(()) = states.changed() => {
                changed = true;
                looks.changed(Instant::now());
            }
            () = sleep_until(looks.due()) => {
                looks.looked(Instant::now());
                // The connector's probes say whether the plane is in order.
                let Ok((version, capabilities, found)) = probe::refresh(&probes, deadline).await else {
                    looks.again(Instant::now());
                    continue;
                };
                defined.ever.note(&found);
                changed |= defined.read(&probes, &found, deadline).await;
                let names = defined.with_objects().unwrap_or_default();
                if !found.unseen(names.iter().map(String::as_str)).is_empty() {
                    looks.again(Instant::now());
                }
                let other = kinds.send_if_modified(|kinds| {
                    let other = *kinds != found;
                    *kinds = found;
                    other
                });
                let other_kinds = other || std::mem::take(&mut changed);
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
    /// How long to wait before what cannot be seen is looked for again.
    patience: Duration,
}

impl Looks {
    fn new(now: Instant) -> Self {
        Self { soon: None, later: None, ever: now + EVER, patience: LATER }
    }

    fn changed(&mut self, now: Instant) {
        self.soon.get_or_insert(now + SOON);
        self.later = Some(now + LATER);
        self.patience = LATER;
    }

    /// Not all was seen, or nothing: whatever there was to see still is. It may never be seen, so waits grow.
    fn again(&mut self, now: Instant) {
        let due = now + self.patience;
        self.later = Some(self.later.map_or(due, |later| later.min(due)));
        self.patience = (self.patience * 2).min(EVER);
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
    }

    #[test]
    fn what_cannot_be_seen_is_looked_for_again_and_what_is_well_is_left_alone() {
        let mut now = Instant::now();
        let mut looks = Looks::new(now);
        let mut waits = vec![];
        for _ in 0..10 {
            looks.looked(now);
            looks.again(now);
            waits.push((looks.due() - now).as_secs());
            now = looks.due();
        }
        assert_eq!(waits[..5], [3, 6, 12, 24, 48]);
        looks.changed(now);
        looks.looked(now + LATER);
        looks.again(now + LATER);
        assert_eq!(looks.due(), now + LATER * 2, "something new is looked for soon");
        // A look at a plane on which nothing happens costs it an answer of a megabyte.
        looks.looked(looks.due());
        assert!(looks.due() - now >= Duration::from_mins(9), "{:?}", looks.due() - now);
    }
}
