//! Where an environment's objects are: its plane, if it can be used now.

use std::sync::Arc;

use kantor_api::{DataPlane, Environment, common::PlaneRecord, conditions::reasons};
use kube::runtime::reflector::ObjectRef;

use super::{
    Context,
    data_plane::{self, Reach},
    environment::record_of,
    remote::follow_namespaces,
};
use crate::{
    apply::Writer,
    core::{hierarchy::Kind, lifecycle::Standing},
    planes::{Followed, Plane},
};

/// The plane of an environment.
pub(super) enum Located {
    /// It can be used.
    At(Box<Place>),
    /// It is not known, or does not answer.
    Nowhere(Standing),
    /// The first attempt to connect has not ended: what was said last may still hold.
    NotYet(Standing),
}

/// A plane that can be used.
pub(super) struct Place {
    /// The plane.
    pub plane: Arc<Plane>,
    /// What is recorded of it.
    pub record: PlaneRecord,
    /// All namespaces of it.
    pub namespaces: Arc<Followed>,
    /// The DataPlane.
    pub data_plane: Arc<DataPlane>,
}

/// Finds the plane of an environment.
pub(super) fn locate(environment: &Environment, context: &Context) -> Located {
    let stores = &context.world.stores;
    let data_plane = match context.world.resolve(environment, Kind::DataPlane) {
        Ok(id) => stores.data_planes.get(&ObjectRef::new(&id.name).within(&id.namespace)),
        Err(error) => return Located::Nowhere(Standing::unresolved(&error)),
    };
    let Some(data_plane) = data_plane else {
        let name = environment.spec.data_plane_ref.clone().unwrap_or_default();
        return Located::NotYet(connecting(&name));
    };
    let key = data_plane::key_of(&data_plane);
    match data_plane::reach(&key, context) {
        Reach::Connected(plane) => {
            let namespaces = follow_namespaces(&plane);
            if !namespaces.is_synced() {
                // Woken when they are.
                return Located::NotYet(connecting(&key.name));
            }
            let record =
                PlaneRecord { cluster_uid: Some(plane.cluster_uid.clone()), ..record_of(&data_plane) };
            Located::At(Box::new(Place { plane, record, namespaces, data_plane }))
        }
        Reach::Unreachable(why) => Located::Nowhere(Standing::Unknown {
            reason: reasons::DATA_PLANE_UNREACHABLE,
            message: format!("data plane {}: {why}", key.name),
        }),
        Reach::NotYet => Located::NotYet(connecting(&key.name)),
    }
}

fn connecting(plane: &str) -> Standing {
    let message = format!("data plane {plane} is not connected yet");
    Standing::Unknown { reason: reasons::DATA_PLANE_CONNECTING, message }
}

/// Why a recorded plane cannot be used.
pub(super) enum Unreachable {
    /// Nobody will ever reach it through us: it is no longer registered.
    GivenUp,
    /// It does not answer now, and why.
    For(String),
}

/// The plane that was recorded, if it can be used and still is the same cluster.
pub(super) fn reach_recorded(record: &PlaneRecord, context: &Context) -> Result<Arc<Plane>, Unreachable> {
    let Some(data_plane) = data_plane_of(record, context) else {
        return Err(match context.world.behind(Kind::DataPlane) {
            None => Unreachable::GivenUp,
            Some(why) => Unreachable::For(why),
        });
    };
    match data_plane::reach(&data_plane::key_of(&data_plane), context) {
        Reach::Connected(plane)
            if record.cluster_uid.as_deref().is_none_or(|uid| uid == plane.cluster_uid) =>
        {
            Ok(plane)
        }
        Reach::Connected(_) => Err(Unreachable::For("it is another cluster by now".to_owned())),
        Reach::Unreachable(why) => Err(Unreachable::For(format!("it does not answer: {why}"))),
        Reach::NotYet => Err(Unreachable::For("it is not connected yet".to_owned())),
    }
}

/// The DataPlane that was recorded, if it is still registered: under its name, or the same cluster under another one.
pub(super) fn data_plane_of(record: &PlaneRecord, context: &Context) -> Option<Arc<DataPlane>> {
    let planes = &context.world.stores.data_planes;
    let uid = |plane: &DataPlane| plane.status.as_ref().and_then(|status| status.cluster_uid.clone());
    let known = record.cluster_uid.is_some();
    planes
        .get(&ObjectRef::new(&record.name).within(&record.namespace))
        .or_else(|| planes.find(|plane| known && uid(plane) == record.cluster_uid))
}

/// Writes to a plane in Kantor's own name.
pub(super) fn own_writer(plane: &Plane) -> Writer {
    Writer::to_plane(plane, None)
}
