//! Time for the proxies of a gateway to hear of a change before the next one relies on it.
//!
//! A gateway says that it has accepted a route before all its proxies have heard of it, and tells them of what belongs together
//! in no particular order.

use std::time::{Duration, Instant};

use kube::{ResourceExt, api::DynamicObject};
use moka::sync::Cache;

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
    pub(super) fn whole(&self) -> Option<Duration> {
        Some(self.time).filter(|time| !time.is_zero())
    }

    /// How long these routes are still to be left as they are; nothing if that has passed for all.
    pub(super) fn left<'a>(&self, routes: impl IntoIterator<Item = &'a DynamicObject>) -> Option<Duration> {
        let left = |route: &DynamicObject| {
            let version = (route.uid()?, route.metadata.generation.unwrap_or_default());
            self.time.checked_sub(self.seen.get_with(version, Instant::now).elapsed())
        };
        routes.into_iter().filter_map(left).max()
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
        let grace = Grace::new(Duration::from_mins(1));
        assert_eq!(grace.left([]), None);
        let first = grace.left([&route("a", 1)]).unwrap();
        let both = grace.left([&route("a", 1), &route("a", 2)]).unwrap();
        assert!(both > first, "{both:?} {first:?}");
        assert!(grace.left([&route("a", 1)]).unwrap() < first, "it goes on from when it was first seen");
    }

    #[test]
    fn grace_passes() {
        let grace = Grace::new(Duration::from_millis(1));
        while grace.left([&route("a", 1)]).is_some() {
            std::thread::yield_now();
        }
        assert!(grace.left([&route("a", 2)]).is_some(), "what is new has its own");
    }
}
