//! Counting what the control plane holds.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kantor_api::conditions::{self, types};
use kantor_core::hierarchy::Kind;
use kube::runtime::reflector::Store;

use super::{World, follow::Followed};
use crate::telemetry::metrics::{Census, Standing};

impl World {
    /// Counts the objects of all kinds of the API, the claims, and the watches.
    pub(super) fn census(&self) -> Census {
        let stores = &self.stores;
        macro_rules! count {
            ($($kind:ident => $kinds:ident),+ $(,)?) => {
                vec![$((Kind::$kind, standing(&stores.$kinds, |object| {
                    object.status.as_ref().map(|status| status.conditions.as_slice())
                }))),+]
            };
        }
        let objects = count! {
            Organization => organizations,
            DataPlane => data_planes,
            Environment => environments,
            DeploymentPipeline => deployment_pipelines,
            Project => projects,
            Component => components,
            DeploymentTrack => deployment_tracks,
            Build => builds,
            ConfigurationGroup => configuration_groups,
            DeployableArtifact => deployable_artifacts,
            Deployment => deployments,
            Endpoint => endpoints,
            HostnameClaim => hostname_claims,
            Release => releases,
        };
        let claims = stores.hostname_claims.state();
        let waiting =
            claims.iter().filter_map(|claim| claim.status.as_ref()).map(|status| status.waiting.len());
        Census {
            objects,
            claims_waiting: waiting.sum(),
            claims_held: claims.len(),
            watches: self.sync.followed(),
        }
    }
}

fn standing<K: Followed>(store: &Store<K>, conditions: impl Fn(&K) -> Option<&[Condition]>) -> Standing {
    let mut standing = Standing::default();
    for object in store.state() {
        let ready = conditions(&object).and_then(|conditions| conditions::get(conditions, types::READY));
        standing.count(ready.map(|ready| ready.status.as_str()));
    }
    standing
}
