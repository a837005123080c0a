//! What an object belongs to, found in the world, and whether anything may be done under it.

use std::sync::Arc;

use kantor_api::conditions::reasons;
use kantor_core::{
    hierarchy::{Described, Id, Kind},
    lifecycle::{self, Standing},
};
use kube::{
    Resource, ResourceExt,
    runtime::reflector::{ObjectRef, Store},
};

use crate::controllers::Context;

/// The object of `kind` that `object` refers to.
pub(crate) fn find<K>(
    object: &impl Described,
    kind: Kind,
    store: &Store<K>,
    context: &Context,
) -> Result<Arc<K>, Standing>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    let id = context.world.resolve(object, kind).map_err(|error| Standing::unresolved(&error))?;
    get(store, &id).ok_or_else(|| Standing::Stalled {
        reason: reasons::REFERENCE_NOT_FOUND,
        message: format!("{id} does not exist"),
    })
}

/// An object of a store.
pub(crate) fn get<K>(store: &Store<K>, id: &Id) -> Option<Arc<K>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    store.get(&ObjectRef::new(&id.name).within(&id.namespace))
}

/// Nothing is started under what is being deleted or paused.
pub(crate) fn at_rest<K: Resource<DynamicType = ()>>(parent: &K) -> Result<(), Standing> {
    let stalled = |reason, what: &str| {
        let message = format!("{} {} is {what}", K::kind(&()), parent.name_any());
        Err(Standing::Stalled { reason, message })
    };
    if parent.meta().deletion_timestamp.is_some() {
        return stalled(reasons::PARENT_DELETING, "being deleted");
    }
    if lifecycle::is_paused(parent) {
        return stalled(reasons::PARENT_PAUSED, "paused");
    }
    Ok(())
}
