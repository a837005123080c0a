//! Host names that go from one Endpoint to another, so that no request is lost.
//!
//! A gateway says that it has accepted a route before all its proxies have heard of it, and tells them of what belongs together
//! in no particular order. So they are given time to hear of a change before the next one relies on it.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use kantor_core::{
    changes::{ObjectKey, Wanted, object_key},
    endpoint::{Plan, Rendered, is_open},
    hostnames::{claims::Decision, key::ClaimKey},
};
use kube::{ResourceExt, api::DynamicObject};
use moka::sync::Cache;

use super::{
    EndpointTurn,
    observe::{self, Live, item},
};
use crate::controllers::shared::{
    hostnames,
    plane_objects::{OWNED, site},
};

/// How long it is remembered since when a route is as it is, if nobody asks: longer than the longest grace.
const UNUSED: Duration = Duration::from_mins(20);

/// The time that each version of a route has.
pub struct Grace {
    time: Duration,
    /// Since when routes are seen as they are, by UID and generation.
    seen: Cache<(String, i64), Instant>,
}

impl Grace {
    /// Grace of this time.
    pub fn new(time: Duration) -> Self {
        Self { time, seen: Cache::builder().time_to_idle(UNUSED).build() }
    }

    /// How long routes that have just become as they are have; nothing if there is no grace.
    fn whole(&self) -> Option<Duration> {
        Some(self.time).filter(|time| !time.is_zero())
    }

    /// How long these routes are still to be left as they are; nothing if that has passed for all.
    fn left<'a>(
        &self,
        routes: impl IntoIterator<Item = &'a DynamicObject>,
        now: Instant,
    ) -> Option<Duration> {
        let left = |route: &DynamicObject| {
            let version = (route.uid()?, route.metadata.generation.unwrap_or_default());
            let since = self.seen.get_with(version, || now);
            self.time.checked_sub(now.duration_since(since)).filter(|left| !left.is_zero())
        };
        routes.into_iter().filter_map(left).max()
    }
}

impl EndpointTurn<'_> {
    /// Whether there is somebody behind it to answer requests under what is handed to it, if anything is.
    pub(super) async fn answers(&self, plan: &Plan, wanted: &BTreeSet<ClaimKey>) -> bool {
        if hostnames::decision(&self.me, wanted, self.context).incoming().next().is_none() {
            return false;
        }
        let uid = self.resolved.deployment.uid().unwrap_or_default();
        match &plan.service {
            Some(service) => observe::backend(self.plane(), &uid, service).await.is_none(),
            None => true,
        }
    }

    /// Leads no request any more to the routes that go because their hosts were handed over. Tells what is to stay for them, and how
    /// long: a gateway drops what is behind a route with it, and a proxy that hears of that first answers requests with errors.
    pub(super) async fn retire(
        &self,
        plan: &Plan,
        granted: &BTreeSet<ClaimKey>,
        handed_over: &BTreeSet<ClaimKey>,
    ) -> (Vec<ObjectKey>, Option<Duration>) {
        if handed_over.is_empty() {
            return (vec![], None);
        }
        let leaving = plan.leaving(granted, handed_over);
        let (site, owner) = (site(self.plane(), OWNED), self.owner(Some(&leaving)));
        let live = Live::of(self.plane(), &leaving.routes);
        let mut done = vec![];
        // One after the other, that for everything first: while one for an operation is retired alone, its requests would go there.
        for seen in live.seen(&leaving.routes) {
            // One that is closed leads nobody as it is.
            let Some(retired) = seen.wanted.retired().filter(|_| seen.route.is_some_and(is_open)) else {
                continue;
            };
            let retired = [(Wanted::new(retired), None)];
            done.extend(self.context.engine.sync(&site, &owner, &retired).await);
        }
        for change in &done {
            self.plane().metrics().applied(&change.outcome);
        }
        // Where that cannot be, they go as they are.
        if done.is_empty() || !done.iter().all(|change| change.outcome.is_in_place()) {
            return (vec![], None);
        }
        let live = Live::of(self.plane(), &leaving.routes);
        let is_new = done.iter().any(|change| change.version.is_some());
        let grace = if is_new {
            self.context.grace.whole()
        } else {
            self.context.grace.left(live.routes(), Instant::now())
        };
        let stays = grace.map(|_| leaving.objects().map(|object| object_key(&item(object))).collect());
        (stays.unwrap_or_default(), grace)
    }

    /// How long its routes, which are ready, have to stay as they are until it takes over what shall be handed to it.
    pub(super) fn grace(&self, rendered: &Rendered, decision: &Decision) -> Option<Duration> {
        decision.incoming().next()?;
        let live = Live::of(self.plane(), &rendered.routes);
        self.context.grace.left(live.routes(), Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use kube::core::ObjectMeta;

    use super::*;

    fn route(uid: &str, generation: i64) -> DynamicObject {
        let metadata =
            ObjectMeta { uid: Some(uid.to_owned()), generation: Some(generation), ..Default::default() };
        DynamicObject { metadata, types: None, data: serde_json::Value::Null }
    }

    #[test]
    fn each_version_of_a_route_has_its_grace_and_the_longest_counts() {
        let second = Duration::from_secs(1);
        let (grace, start) = (Grace::new(2 * second), Instant::now());
        let left = |generations: &[i64], after: Duration| {
            let routes: Vec<_> = generations.iter().map(|generation| route("a", *generation)).collect();
            grace.left(&routes, start + after)
        };
        assert_eq!(left(&[], Duration::ZERO), None);
        assert_eq!(left(&[1], Duration::ZERO), Some(2 * second));
        assert_eq!(left(&[1], second), Some(second), "since it was first seen");
        assert_eq!(left(&[1, 2], second), Some(2 * second), "what is new has its own");
        assert_eq!(left(&[1, 2], 2 * second), Some(second));
        assert_eq!(left(&[1, 2], 3 * second), None);
        assert_eq!(Grace::new(Duration::ZERO).left(&[route("a", 1)], start), None);
    }
}
