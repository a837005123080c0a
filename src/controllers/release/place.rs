//! Where the objects of a Release shall be.

use std::sync::Arc;

use kantor_api::{
    DataPlane, Release,
    common::{InventoryItem, PlaneRecord},
    conditions::reasons,
    data_plane::ReleasePolicy,
    managers,
};
use kube::runtime::reflector::ObjectRef;

use super::{Context, Plane, kind_of};
use crate::{
    apply::{Site, Writer},
    controllers::{
        data_plane::{self, Reach},
        environment::record_of,
        member,
        remote::follow_namespaces,
    },
    core::{health::Checks, hierarchy::Kind, lifecycle::Standing, release::Report},
    planes::{Follow, Followed, PlaneKey, Serving},
};

/// Selects the objects of all Releases.
/// Spelled out, since constants cannot be joined; a test compares it with its parts.
pub(super) const SELECTOR: &str = "openchoreo.dev/managed-by=release-controller";

/// Where the objects of a Release shall be.
pub(super) enum Located {
    /// On this plane.
    At(Box<Place>),
    /// That cannot be told, or the plane does not answer.
    Nowhere(Report),
    /// It is not known yet, and what was said last may still hold.
    NotYet,
}

/// A connected plane that Releases go to.
pub(super) struct Place {
    /// The plane.
    pub plane: Arc<Plane>,
    /// What is recorded of it.
    pub record: PlaneRecord,
    /// All namespaces of it.
    pub namespaces: Arc<Followed>,
    /// How the health of its kinds is told.
    pub checks: Arc<Checks>,
    data_plane: Arc<DataPlane>,
}

impl Place {
    /// What Releases may put there.
    pub fn policy(&self) -> Option<&ReleasePolicy> {
        self.data_plane.spec.release_policy.as_ref()
    }

    /// Where the engine writes, and in whose name.
    pub fn site(&self) -> Site<'_> {
        site(&self.plane, self.policy())
    }

    /// Writes in Kantor's own name.
    pub fn own_writer(&self) -> Writer {
        Writer::new(self.plane.calls(), self.plane.deadline).with_slots(self.plane.slots())
    }
}

/// Where the engine writes on a plane, and in whose name.
pub(super) fn site<'a>(plane: &'a Plane, policy: Option<&ReleasePolicy>) -> Site<'a> {
    let account = policy.and_then(|policy| policy.service_account.as_ref());
    let user = account.map(|a| format!("system:serviceaccount:{}:{}", a.namespace, a.name));
    Site {
        plane,
        writer: Writer::new(plane.calls_as(user.as_deref()), plane.deadline).with_slots(plane.slots()),
        manager: managers::RELEASE,
        selector: SELECTOR,
    }
}

/// Finds the plane of a Release.
pub(super) fn locate(release: &Release, context: &Context) -> Located {
    let world = &context.world;
    let environment = match world.resolve(release, Kind::Environment) {
        Ok(id) => world.stores.environments.get(&ObjectRef::new(&id.name).within(&id.namespace)),
        Err(error) => return unresolved(&error),
    };
    let Some(environment) = environment else { return Located::NotYet };
    let data_plane = match world.resolve(&*environment, Kind::DataPlane) {
        Ok(id) => world.stores.data_planes.get(&ObjectRef::new(&id.name).within(&id.namespace)),
        Err(error) => return unresolved(&error),
    };
    let Some(data_plane) = data_plane else { return Located::NotYet };
    let key = data_plane::key_of(&data_plane);
    match data_plane::reach(&key, context) {
        Reach::Connected(plane) => at(release, plane, data_plane, context),
        Reach::Unreachable(why) => {
            let message = format!("data plane {}: {why}", key.name);
            Located::Nowhere(Report::unknown(reasons::DATA_PLANE_UNREACHABLE, message))
        }
        Reach::NotYet if member::is_spoken_for(release) => Located::NotYet,
        Reach::NotYet => connecting(&key),
    }
}

fn at(release: &Release, plane: Arc<Plane>, data_plane: Arc<DataPlane>, context: &Context) -> Located {
    let namespaces = follow_namespaces(&plane);
    if !namespaces.is_synced() {
        // Woken when they are.
        let quiet = member::is_spoken_for(release);
        return if quiet { Located::NotYet } else { connecting(&plane.key) };
    }
    let record = PlaneRecord { cluster_uid: Some(plane.cluster_uid.clone()), ..record_of(&data_plane) };
    let checks = context.releases.checks(&data_plane);
    Located::At(Box::new(Place { plane, record, namespaces, checks, data_plane }))
}

fn unresolved(error: &crate::core::hierarchy::ResolveError) -> Located {
    let standing = Standing::unresolved(error);
    let Standing::Stalled { reason, message } = standing else { return Located::NotYet };
    Located::Nowhere(Report::refused(reason, message))
}

fn connecting(key: &PlaneKey) -> Located {
    let message = format!("data plane {} is not connected yet", key.name);
    Located::Nowhere(Report::unknown(reasons::DATA_PLANE_CONNECTING, message))
}

/// The watch of the kind of an object, if the plane serves it.
pub(super) fn followed(plane: &Plane, item: &InventoryItem) -> Option<Arc<Followed>> {
    match plane.serving(&kind_of(item)) {
        Serving::Served { resource, .. } => Some(plane.follow(&resource, SELECTOR, Follow::Whole)),
        Serving::Not | Serving::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use kantor_api::labels;

    use super::*;

    #[test]
    fn the_selector_is_made_of_label_and_value() {
        let expected = format!("{}={}", labels::MANAGED_BY, labels::MANAGED_BY_RELEASE_CONTROLLER);
        assert_eq!(SELECTOR, expected);
    }
}
