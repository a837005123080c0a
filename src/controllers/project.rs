//! Projects: rid of their namespaces on data planes before they go.

use kantor_api::{Environment, Project};
use kantor_core::{
    hierarchy::{Kind, logical_name},
    lifecycle::{self, Profile},
};
use kube::runtime::reflector::ObjectRef;

use crate::{
    apply::WriteError,
    controllers::{
        Context,
        shared::{
            plane_namespaces::remove_namespaces,
            simple_kind::{Cleanup, Member},
        },
    },
};

impl Member for Project {
    const PROFILE: &'static Profile = &lifecycle::PROJECT;

    async fn clean_up(&self, context: &Context) -> Result<Cleanup, WriteError> {
        if let Some(why) = context.world.behind(Kind::Environment) {
            return Err(WriteError::Transient(why));
        }
        if !context.world.twins(self).is_empty() {
            // The namespaces are recorded under the name that both have, and in use by the other one.
            return Ok(Cleanup::Done);
        }
        let name = logical_name(self);
        let stores = &context.world.stores;
        let environments: Vec<_> = context
            .world
            .beside(self, Kind::Organization, Kind::Environment)
            .iter()
            .filter_map(|id| stores.environments.get(&ObjectRef::new(&id.name).within(&id.namespace)))
            .collect();
        let environments: Vec<&Environment> = environments.iter().map(|environment| &**environment).collect();
        remove_namespaces(self, &environments, |record| record.project == name, |_| None, context).await
    }
}
