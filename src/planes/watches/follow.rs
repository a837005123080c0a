//! One watch: it fills its store and tells what changed.
//!
//! ```text
//! list, page by page ──→ watch from the list's version ──ended, refused──→ wait ──→ watch from the last version
//!   ↑                                                  └──too old (410)──┐
//!   └────────────────────────────────────────────────────────────────────┘
//! ```
//! A watch that is refused goes on where it was: the server that sheds watches does not get a list on top.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kantor_core::backoff::Backoff;
use kube::{
    Resource as _,
    api::{ApiResource, DynamicObject, ListParams, TypeMeta, WatchEvent, WatchParams},
    core::{PartialObjectMeta, Request, error_boundary::InvalidObject},
};
use serde::de::DeserializeOwned;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};
use tracing::{info, warn};

use super::{
    Follow, FollowState, Followed, RemoteChange, Surroundings,
    progress::Progress,
    reader::{self, Lines, Stop},
    store::{Kept, Name, Store, name_of},
};
use crate::{
    client::decode::{PAGE, Read},
    planes::room::{Share, TooLarge},
};

/// What the server refuses is asked for again at least this often.
const LAST_RETRY: Duration = Duration::from_mins(1);
/// A watch that stood for this long is well.
const STANDS_AFTER: Duration = Duration::from_secs(5);
/// The server ends a watch after this many seconds; more is not allowed by some.
const WATCH_SECONDS: u32 = 290;
/// A watch that is silent for longer has been lost.
const SILENCE: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 10);
/// A watch that goes on where it was refused tells what was missed within this time.
const RESUMED: Duration = Duration::from_secs(1);

pub(in crate::planes) fn start(
    resource: &ApiResource,
    selector: &str,
    what: Follow,
    surroundings: Surroundings,
) -> Arc<Followed> {
    let followed = Arc::new(Followed {
        resource: resource.clone(),
        store: Store::default(),
        state: watch::Sender::new(FollowState::Listing),
        progress: Progress::default(),
        stop: surroundings.closed.clone(),
    });
    let (tasks, stop) = (surroundings.tasks.clone(), surroundings.closed.clone());
    let watching = Follower {
        followed: followed.clone(),
        share: Share::new(surroundings.room.clone(), resource.kind.clone()),
        surroundings,
        selector: selector.to_owned(),
        what,
        page: PAGE,
        version: None,
        listed: Vec::new(),
        listed_bytes: 0,
        stood: None,
        breaks: 0,
    };
    tasks.spawn(async move {
        stop.run_until_cancelled(Box::pin(watching.run())).await;
    });
    followed
}

struct Follower {
    followed: Arc<Followed>,
    surroundings: Surroundings,
    share: Share,
    selector: String,
    what: Follow,
    /// Objects per page. Pages that are too long are asked for again with fewer objects.
    page: u32,
    /// Where the watch goes on; none: with a list.
    version: Option<String>,
    /// What a list in progress has named so far.
    listed: Vec<(Name, Kept)>,
    listed_bytes: usize,
    /// For how long the last watch stood, if one was opened.
    stood: Option<Duration>,
    /// Watches in a row that did not stand.
    breaks: u32,
}

impl Follower {
    async fn run(mut self) {
        let mut backoff = Backoff::new(self.surroundings.first_retry, LAST_RETRY);
        loop {
            self.surroundings.kinds.borrow_and_update();
            self.stood = None;
            let stop = match self.what {
                Follow::Whole => self.follow(|object: DynamicObject| object).await,
                Follow::Metadata => self.follow(without_data).await,
            };
            let Err(stop) = stop else { continue };
            if self.goes_on(&stop) {
                continue;
            }
            let asked = self.stopped(stop);
            let wait = backoff.after(self.stood.unwrap_or_default(), asked);
            tokio::select! {
                // If the sender is gone the plane is too, and this ends with it.
                Ok(()) = self.surroundings.kinds.changed() => backoff.begin_anew(),
                () = sleep(wait) => {}
            }
        }
    }

    /// Whether a watch that was open is opened again at once: servers end watches after a while, and whether the plane is there at
    /// all is said by its probes. One that does not stand gets this once.
    fn goes_on(&mut self, stop: &Stop) -> bool {
        let Some(stood) = self.stood else { return false };
        if stood >= STANDS_AFTER {
            self.breaks = 0;
        }
        let goes_on = matches!(stop, Stop::Ended | Stop::Broken) && self.breaks == 0;
        if stood < STANDS_AFTER {
            self.breaks += 1;
        }
        goes_on
    }

    /// Takes note of why it cannot go on; tells how long the server asks to wait.
    fn stopped(&mut self, stop: Stop) -> Option<Duration> {
        match stop {
            Stop::Expired => {
                self.version = None;
                return None;
            }
            Stop::Refused { code: 404, .. } => {
                // A kind that is not served is not a watch that fails.
                self.version = None;
                self.set(FollowState::NotInstalled);
                return None;
            }
            Stop::TooLarge(what) => {
                self.version = None;
                self.fail("it has more objects, or larger ones, than are kept");
                self.surroundings.room.exceeded(TooLarge(format!("{}: {what}", self.followed.resource.kind)));
            }
            Stop::Ended => self.fail("the watch ends at once"),
            Stop::Broken => self.fail("the connection breaks"),
            Stop::Unreadable | Stop::PageTooLong => {
                self.version = None;
                self.fail("what the server says cannot be read");
            }
            Stop::Refused { code, after } => {
                self.surroundings.metrics.watch_restarted();
                self.set(refusal(code));
                return after;
            }
        }
        None
    }

    fn fail(&self, error: &str) {
        self.surroundings.metrics.watch_restarted();
        self.set(FollowState::Failing { error: error.to_owned() });
    }

    /// Lists, if that has to be, and then takes events until the watch ends. Ok is a list that has to be made anew at once.
    async fn follow<K>(&mut self, whole: fn(K) -> DynamicObject) -> Result<(), Stop>
    where
        K: DeserializeOwned + kube::Resource + Clone,
    {
        let version = match self.version.take() {
            Some(version) => version,
            None => match self.list(whole).await {
                Err(Stop::PageTooLong) if self.page > 1 => {
                    self.page = (self.page / 10).max(1);
                    return Ok(());
                }
                Err(Stop::PageTooLong) => {
                    return Err(reader::longer_than(self.surroundings.room.limits.answer));
                }
                listed => listed?,
            },
        };
        let mut lines = match self.open(&version).await {
            Ok(lines) => lines,
            Err(stop) => {
                self.version = Some(version);
                return Err(stop);
            }
        };
        let began = Instant::now();
        self.version = Some(version);
        let ended = self.take_all(&mut lines, whole).await;
        self.stood = Some(began.elapsed());
        ended
    }

    fn request(&self) -> Request {
        Request::new(DynamicObject::url_path(&self.followed.resource, None))
    }

    /// Reads all pages of a list; tells the version to go on from.
    async fn list<K>(&mut self, whole: fn(K) -> DynamicObject) -> Result<String, Stop>
    where
        K: DeserializeOwned + kube::Resource + Clone,
    {
        self.drop_list();
        let mut params = ListParams { label_selector: some(&self.selector), ..ListParams::default() };
        params.limit = Some(self.page);
        loop {
            let request = match self.what {
                Follow::Whole => self.request().list(&params),
                Follow::Metadata => self.request().list_metadata(&params),
            };
            let (client, limit) = (&self.surroundings.client, self.surroundings.room.limits.answer);
            let page = reader::page::<Read<K>>(client, request, limit).await?;
            if !self.followed.is_synced() {
                // One before it may have failed.
                self.set(FollowState::Listing);
            }
            for object in page.items {
                let object = self.stored(object, whole);
                let kept = Kept::of(&object);
                self.listed_bytes += kept.bytes();
                self.listed.push((name_of(&object), kept));
            }
            self.measure()?;
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                let version = page.metadata.resource_version.filter(|version| !version.is_empty());
                let version = version.ok_or(Stop::Unreadable)?;
                self.finish_list();
                self.measure()?;
                return Ok(version);
            }
        }
    }

    fn drop_list(&mut self) {
        self.listed = Vec::new();
        self.listed_bytes = 0;
    }

    /// Takes as much room as there is needed now.
    fn measure(&mut self) -> Result<(), Stop> {
        let (objects, bytes) = self.followed.store.size();
        let fits = self.share.set(objects.max(self.listed.len()), bytes + self.listed_bytes);
        fits.map_err(|TooLarge(what)| Stop::TooLarge(what))
    }

    async fn open(&self, version: &str) -> Result<Lines, Stop> {
        let params = WatchParams {
            label_selector: some(&self.selector),
            timeout: Some(WATCH_SECONDS),
            bookmarks: true,
            ..WatchParams::default()
        };
        let request = match self.what {
            Follow::Whole => self.request().watch(&params, version),
            Follow::Metadata => self.request().watch_metadata(&params, version),
        };
        reader::lines(&self.surroundings.client, request, self.surroundings.room.limits.answer).await
    }

    /// Takes events until the watch ends.
    async fn take_all<K>(&mut self, lines: &mut Lines, whole: fn(K) -> DynamicObject) -> Result<(), Stop>
    where
        K: DeserializeOwned + kube::Resource + Clone,
    {
        // What it tells first is what was missed.
        let mut synced = self.followed.is_synced();
        let due = Instant::now() + RESUMED;
        loop {
            let line = tokio::select! {
                line = timeout(SILENCE, lines.next()) => line.unwrap_or(Err(Stop::Broken))?,
                () = sleep_until(due), if !synced => {
                    synced = true;
                    self.set(FollowState::Synced);
                    continue;
                }
            };
            self.take(reader::event(&line)?, whole)?;
        }
    }

    fn take<K>(&mut self, event: WatchEvent<Read<K>>, whole: fn(K) -> DynamicObject) -> Result<(), Stop>
    where
        K: kube::Resource,
    {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let object = self.stored(object, whole);
                self.reached(object.metadata.resource_version.as_deref())?;
                let of_another = self.followed.store.put(&object);
                self.measure()?;
                self.followed.progress.reached(number(object.metadata.resource_version.as_deref()));
                // Whoever it belonged to has lost it.
                for object in of_another.into_iter().chain([object]) {
                    self.tell(name_of(&object), object.metadata.labels.unwrap_or_default(), false);
                }
            }
            WatchEvent::Deleted(object) => {
                let object = self.stored(object, whole);
                self.reached(object.metadata.resource_version.as_deref())?;
                let name = name_of(&object);
                self.followed.store.remove(&name);
                self.measure()?;
                self.followed.progress.reached(number(object.metadata.resource_version.as_deref()));
                self.tell(name, object.metadata.labels.unwrap_or_default(), true);
            }
            WatchEvent::Bookmark(mark) => self.reached(Some(&mark.metadata.resource_version))?,
            WatchEvent::Error(status) => {
                return Err(reader::refused(status.code, status.details.map(|d| d.retry_after_seconds)));
            }
        }
        Ok(())
    }

    /// A watch that is opened again goes on from this version.
    fn reached(&mut self, version: Option<&str>) -> Result<(), Stop> {
        let version = version.filter(|version| !version.is_empty());
        self.version = version.map(ToOwned::to_owned);
        version.map(|_| ()).ok_or(Stop::Unreadable)
    }

    /// Items of a list come without their kind, and metadata comes as a kind of its own.
    fn stored<K>(&self, object: Read<K>, whole: fn(K) -> DynamicObject) -> DynamicObject {
        let resource = &self.followed.resource;
        // What has metadata fits: there is nothing else that is asked of it.
        let nothing = |invalid: InvalidObject| DynamicObject {
            types: None,
            metadata: invalid.metadata,
            data: serde_json::Value::Null,
        };
        let mut object = object.0.map_or_else(nothing, whole);
        object.types =
            Some(TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() });
        object
    }

    /// A list tells what is there, not what has gone since the last one: that is what it no longer names.
    fn finish_list(&mut self) {
        let listed = std::mem::take(&mut self.listed);
        self.listed_bytes = 0;
        let newest = listed.iter().map(|(_, kept)| number(kept.version.as_deref())).max();
        let (changed, gone) = self.followed.store.refill(listed);
        self.set(FollowState::Synced);
        self.followed.progress.reached(newest.unwrap_or_default());
        for name in changed {
            if let Some(object) = self.followed.store.get(name.0.as_deref(), &name.1) {
                self.tell(name, object.metadata.labels.unwrap_or_default(), false);
            }
        }
        for (name, gone) in gone {
            let labels = gone.packed.object().metadata.labels;
            self.tell(Name::clone(&name), labels.unwrap_or_default(), true);
        }
    }

    fn tell(&self, (namespace, name): Name, labels: BTreeMap<String, String>, deleted: bool) {
        let resource = &self.followed.resource;
        self.surroundings.changes.tell(&RemoteChange {
            plane: self.surroundings.plane.clone(),
            group: resource.group.clone(),
            kind: resource.kind.clone(),
            namespace,
            name,
            labels,
            deleted,
        });
    }

    /// Sets the state and says so if it is another one.
    fn set(&self, new: FollowState) {
        let mut old = new.clone();
        self.followed.state.send_if_modified(|state| {
            std::mem::swap(state, &mut old);
            *state != old
        });
        if old != new {
            let (plane, kind) = (&self.surroundings.plane, &self.followed.resource.kind);
            match new {
                FollowState::Listing => {}
                FollowState::Synced => info!(%plane, kind, "following"),
                FollowState::NotInstalled => info!(%plane, kind, "not served; following once it is"),
                FollowState::Denied { error } | FollowState::Failing { error } => {
                    warn!(%plane, kind, error, "cannot follow; trying again");
                }
            }
        }
    }
}

/// Metadata in the form of whole objects, so that there is one kind of store.
fn without_data(object: PartialObjectMeta<DynamicObject>) -> DynamicObject {
    DynamicObject { types: object.types, metadata: object.metadata, data: serde_json::json!({}) }
}

/// Versions are numbers that grow, on all servers that there are; nobody waits for one that is not.
fn number(version: Option<&str>) -> u64 {
    version.and_then(|version| version.parse().ok()).unwrap_or_default()
}

fn some(selector: &str) -> Option<String> {
    (!selector.is_empty()).then(|| selector.to_owned())
}

/// In words of ours: what a server says may be anything.
fn refusal(code: u16) -> FollowState {
    match code {
        401 => FollowState::Failing { error: "the credentials are not accepted (401)".to_owned() },
        403 => FollowState::Denied {
            error: "the credentials may not list and watch it: grant the plane's role to their user"
                .to_owned(),
        },
        code => FollowState::Failing { error: format!("the server answers {code}") },
    }
}

#[cfg(test)]
mod tests;
