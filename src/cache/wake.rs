//! Waking: a channel per controller.

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use kantor_api::{
    Component, DataPlane, DeployableArtifact, Deployment, DeploymentPipeline, DeploymentTrack, Endpoint,
    Environment, HostnameClaim, Organization, Project, Release,
};
use kantor_core::hierarchy::{Id, Kind};
use kube::{Resource, runtime::reflector::ObjectRef};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

/// An object that is to be looked at.
pub struct Wake<K: Resource> {
    /// The object.
    pub object: ObjectRef<K>,
    /// Since when.
    pub since: Instant,
    /// What has changed for it: an object, in words.
    pub cause: Arc<str>,
}

/// Declares a channel per kind that is woken.
macro_rules! channels {
    ($($kind:ident => $field:ident),+ $(,)?) => {
        /// Who is to be woken: a stream per kind.
        #[expect(missing_docs, reason = "the kinds of the API, by their names")]
        pub struct Wakes {
            $(pub $field: UnboundedReceiver<Wake<$kind>>,)+
        }

        /// The other ends of [`Wakes`].
        #[derive(Clone)]
        pub(super) struct Wakers {
            $($field: UnboundedSender<Wake<$kind>>,)+
        }

        /// All channels.
        pub(super) fn channels() -> (Wakers, Wakes) {
            $(let $field = mpsc::unbounded_channel();)+
            (Wakers { $($field: $field.0,)+ }, Wakes { $($field: $field.1,)+ })
        }

        impl Wakers {
            /// Wakes each of `ids` because of `cause`; kinds without a controller sleep on.
            pub(super) fn wake(&self, ids: &BTreeSet<Id>, cause: &Arc<str>) {
                let since = Instant::now();
                for id in ids {
                    match id.kind {
                        // A closed channel is that of a controller that has ended.
                        $(Kind::$kind => {
                            let wake = Wake { object: object_ref(id), since, cause: cause.clone() };
                            drop(self.$field.send(wake));
                        })+
                        _ => {}
                    }
                }
            }
        }
    };
}

channels! {
    Organization => organizations,
    DataPlane => data_planes,
    Environment => environments,
    DeploymentPipeline => deployment_pipelines,
    Project => projects,
    Component => components,
    DeploymentTrack => deployment_tracks,
    DeployableArtifact => deployable_artifacts,
    Deployment => deployments,
    Endpoint => endpoints,
    HostnameClaim => hostname_claims,
    Release => releases,
}

fn object_ref<K: Resource<DynamicType = ()>>(id: &Id) -> ObjectRef<K> {
    let key = ObjectRef::new(&id.name);
    if id.namespace.is_empty() { key } else { key.within(&id.namespace) }
}
