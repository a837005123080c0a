//! One watch: it fills its store and tells what changed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::{Stream, StreamExt, pin_mut};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, TypeMeta},
    core::{PartialObjectMeta, error_boundary::InvalidObject},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use tokio::{sync::watch, time::sleep};
use tracing::{info, warn};

use super::{
    Follow, FollowState, Followed, RemoteChange, Surroundings,
    progress::Progress,
    store::{Kept, Name, Store, name_of},
};
use crate::reading::{PAGE, Read};

/// What the server refuses is asked for again at least this often.
const LAST_RETRY: Duration = Duration::from_mins(1);

pub(super) fn start(
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
        surroundings,
        selector: selector.to_owned(),
        what,
        listed: Vec::new(),
    };
    tasks.spawn(async move {
        stop.run_until_cancelled(Box::pin(watching.run())).await;
    });
    followed
}

struct Follower {
    followed: Arc<Followed>,
    surroundings: Surroundings,
    selector: String,
    what: Follow,
    /// What a list in progress has named so far.
    listed: Vec<(Name, Kept)>,
}

impl Follower {
    async fn run(mut self) {
        let first = self.surroundings.first_retry;
        let mut wait = first;
        loop {
            self.surroundings.kinds.borrow_and_update();
            let (resource, client) = (self.followed.resource.clone(), self.surroundings.client.clone());
            let config = watcher::Config::default().page_size(PAGE);
            let config = watcher::Config { label_selector: some(&self.selector), ..config };
            let refused = match self.what {
                Follow::Whole => {
                    let api: Api<Read<DynamicObject>> = Api::all_with(client, &resource);
                    self.take_all(watcher(api, config), |object| object).await
                }
                Follow::Metadata => {
                    let api: Api<Read<PartialObjectMeta<DynamicObject>>> = Api::all_with(client, &resource);
                    self.take_all(watcher(api, config), without_data).await
                }
            };
            // A kind that is not served is not a watch that fails.
            if matches!(refused, FollowState::Failing { .. }) {
                self.surroundings.metrics.watch_restarted();
            }
            if self.set(refused) == FollowState::Synced {
                wait = first;
            }
            tokio::select! {
                // If the sender is gone the plane is too, and this ends with it.
                Ok(()) = self.surroundings.kinds.changed() => wait = first,
                () = sleep(wait) => wait = (wait * 2).min(LAST_RETRY),
            }
        }
    }

    /// Takes events until the server refuses to go on; returns the state that this is.
    ///
    /// kube's watcher says when a watch breaks, and not when it has been resumed. So a broken connection is left to it
    /// and to the plane's probes, while after a refusal all begins with a new list, whose end is told.
    async fn take_all<K>(
        &mut self,
        events: impl Stream<Item = watcher::Result<Event<Read<K>>>>,
        whole: impl Fn(K) -> DynamicObject,
    ) -> FollowState {
        let events = events.default_backoff();
        pin_mut!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.take(event, &whole),
                Err(error) => match status(&error) {
                    Some(404) => return FollowState::NotInstalled,
                    // It lists again by itself.
                    Some(410) => {}
                    Some(code) => return FollowState::Failing { error: refusal(code) },
                    None if self.followed.is_synced() => {}
                    None => {
                        self.set(FollowState::Failing { error: "the connection breaks".to_owned() });
                    }
                },
            }
        }
        FollowState::Failing { error: "the watch ended".to_owned() }
    }

    fn take<K>(&mut self, event: Event<Read<K>>, whole: impl Fn(K) -> DynamicObject) {
        let resource = &self.followed.resource;
        // Items of a list come without their kind, and metadata comes as a kind of its own.
        let kind = TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() };
        let stored = |object: Read<K>| {
            // What has metadata fits: there is nothing else that is asked of it.
            let nothing = |invalid: InvalidObject| DynamicObject {
                types: None,
                metadata: invalid.metadata,
                data: serde_json::Value::Null,
            };
            let mut object = object.0.map_or_else(nothing, whole);
            object.types = Some(kind);
            object
        };
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(object) => {
                let object = stored(object);
                if self.listed.is_empty() && !self.followed.is_synced() {
                    // One before it may have failed.
                    self.set(FollowState::Listing);
                }
                self.listed.push((name_of(&object), Kept::of(&object)));
            }
            Event::InitDone => self.finish_list(),
            Event::Apply(object) => {
                let object = stored(object);
                let of_another = self.followed.store.put(&object);
                self.set(FollowState::Synced);
                self.followed.progress.reached(number(object.metadata.resource_version.as_deref()));
                // Whoever it belonged to has lost it.
                for object in of_another.into_iter().chain([object]) {
                    self.tell(name_of(&object), object.metadata.labels.unwrap_or_default(), false);
                }
            }
            Event::Delete(object) => {
                let object = stored(object);
                let name = name_of(&object);
                self.followed.store.remove(&name);
                self.set(FollowState::Synced);
                self.followed.progress.reached(number(object.metadata.resource_version.as_deref()));
                self.tell(name, object.metadata.labels.unwrap_or_default(), true);
            }
        }
    }

    /// A list tells what is there, not what has gone since the last one: that is what it no longer names.
    fn finish_list(&mut self) {
        let listed = std::mem::take(&mut self.listed);
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

    /// Sets the state and says so if it is another one; returns what it was.
    fn set(&self, new: FollowState) -> FollowState {
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
                FollowState::Failing { error } => warn!(%plane, kind, error, "cannot follow; trying again"),
            }
        }
        old
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

fn status(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}

/// In words of ours: what a server says may be anything.
fn refusal(code: u16) -> String {
    match code {
        401 => "the credentials are not accepted (401)".to_owned(),
        403 => "the credentials may not list and watch it: grant the plane's role to their user".to_owned(),
        code => format!("the server answers {code}"),
    }
}

#[cfg(test)]
mod tests;
