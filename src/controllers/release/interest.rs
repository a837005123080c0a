//! What is kept between reconciles: who follows which kinds on which plane, and the compiled health checks.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use kantor_api::DataPlane;
use kantor_core::health::Checks;

use crate::{
    controllers::shared::connection,
    planes::{Kind, PlaneKey},
};

/// Who follows what.
#[derive(Default)]
pub struct Interest {
    kinds: Mutex<HashMap<(PlaneKey, Kind), HashSet<String>>>,
    checks: Mutex<HashMap<PlaneKey, Compiled>>,
}

/// The checks of a generation of a DataPlane.
type Compiled = (Option<i64>, Arc<Checks>);

impl Interest {
    /// Notes that the Release with this UID has objects of these kinds on a plane, and no longer of those that it `had`
    /// or was noted for; returns the kinds that nobody has objects of any more.
    pub(super) fn set(
        &self,
        plane: &PlaneKey,
        uid: &str,
        kinds: &HashSet<Kind>,
        had: &HashSet<Kind>,
    ) -> Vec<Kind> {
        let mut interested = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        // Also of what it had: a removal follows kinds, and may be the second one.
        for kind in kinds.union(had) {
            interested.entry((plane.clone(), kind.clone())).or_default().insert(uid.to_owned());
        }
        let mut free = vec![];
        interested.retain(|(of, kind), uids| {
            if of == plane && !kinds.contains(kind) && uids.remove(uid) && uids.is_empty() {
                free.push(kind.clone());
            }
            !uids.is_empty()
        });
        free
    }

    /// The health checks of a plane, compiled once.
    pub(super) fn checks(&self, plane: &DataPlane) -> Arc<Checks> {
        let generation = plane.metadata.generation;
        let mut known = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = known.entry(connection::key_of(plane));
        let (seen, checks) =
            entry.or_insert_with(|| (generation, Arc::new(Checks::compile(&plane.spec.health_checks))));
        if *seen != generation {
            (*seen, *checks) = (generation, Arc::new(Checks::compile(&plane.spec.health_checks)));
        }
        checks.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_free_when_the_last_release_has_left_it() {
        let interest = Interest::default();
        let plane = PlaneKey { namespace: "acme".into(), name: "plane".into() };
        let kinds =
            |names: &[&str]| names.iter().map(|name| Kind::new("", "v1", *name)).collect::<HashSet<_>>();
        let set = |uid, now: &[&str], had: &[&str]| interest.set(&plane, uid, &kinds(now), &kinds(had));
        let kind = |name: &str| Kind::new("", "v1", name);
        assert!(set("a", &["ConfigMap", "Secret"], &[]).is_empty());
        assert!(set("b", &["ConfigMap"], &[]).is_empty());
        assert_eq!(set("a", &["ConfigMap"], &["ConfigMap", "Secret"]), [kind("Secret")]);
        assert!(set("a", &[], &["ConfigMap"]).is_empty());
        assert_eq!(set("b", &[], &["ConfigMap"]), [kind("ConfigMap")]);
        // It was removed once more, and its kinds followed for that.
        assert_eq!(set("b", &[], &["ConfigMap"]), [kind("ConfigMap")]);
    }
}
