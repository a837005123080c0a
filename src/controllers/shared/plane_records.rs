//! What is recorded of a data plane.

use kantor_api::{DataPlane, common::PlaneRecord};
use kantor_core::tenancy;
use kube::{Resource, ResourceExt};

use crate::{controllers::Context, planes::PlaneKey};

/// What is recorded of a data plane.
pub(crate) fn record_of(plane: &DataPlane) -> PlaneRecord {
    PlaneRecord {
        namespace: plane.namespace().unwrap_or_default(),
        name: plane.name_any(),
        cluster_uid: plane.status.as_ref().and_then(|status| status.cluster_uid.clone()),
    }
}

/// The key of a recorded data plane.
pub(crate) fn key_of(plane: &PlaneRecord) -> PlaneKey {
    PlaneKey { namespace: plane.namespace.clone(), name: plane.name.clone() }
}

/// All data planes that an object can be on, of its own organization, or of the platform team if it `falls_back` on that. They are
/// looked at where what its status records cannot be believed.
pub(crate) fn possible_planes<K: Resource>(
    object: &K,
    falls_back: bool,
    context: &Context,
) -> Vec<PlaneRecord> {
    let organization = object.namespace().unwrap_or_default();
    let all = context.world.stores.data_planes.state();
    let records = all.iter().map(|plane| record_of(plane));
    records.filter(|record| tenancy::may_be_on(record, &organization, falls_back)).collect()
}
