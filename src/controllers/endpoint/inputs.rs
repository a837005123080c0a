//! What an Endpoint is rendered from, found in the world.

use std::sync::Arc;

use kantor_api::{Component, DataPlane, Deployment, DeploymentTrack, Endpoint, Environment, Project};
use kantor_core::{
    endpoint::{self, Inputs, Plan, PlaneParts, Problem},
    hierarchy::Kind,
    lifecycle::Standing,
    settings::Settings,
};
use kube::ResourceExt;

use crate::{
    apply::WriteError,
    controllers::{
        Context,
        shared::{
            parents::{at_rest, find},
            secrets,
            targets::Place,
        },
    },
    planes::{Capability, Plane},
};

/// Everything that an Endpoint refers to.
pub(super) struct Resolved {
    pub project: Arc<Project>,
    pub component: Arc<Component>,
    pub track: Arc<DeploymentTrack>,
    pub environment: Arc<Environment>,
    pub deployment: Arc<Deployment>,
}

/// Finds what an Endpoint refers to, and whether it may be served.
pub(super) fn resolve(endpoint: &Endpoint, context: &Context) -> Result<Resolved, Standing> {
    let stores = &context.world.stores;
    let project = find(endpoint, Kind::Project, &stores.projects, context)?;
    let component = find(endpoint, Kind::Component, &stores.components, context)?;
    let track = find(endpoint, Kind::DeploymentTrack, &stores.deployment_tracks, context)?;
    let environment = find(endpoint, Kind::Environment, &stores.environments, context)?;
    let deployment = find(endpoint, Kind::Deployment, &stores.deployments, context)?;
    for parent in [
        at_rest(&*project),
        at_rest(&*component),
        at_rest(&*track),
        at_rest(&*environment),
        at_rest(&*deployment),
    ] {
        parent?;
    }
    Ok(Resolved { project, component, track, environment, deployment })
}

impl Resolved {
    /// What is asked for, or what stands against it.
    pub async fn plan(
        &self,
        endpoint: &Endpoint,
        place: &Place,
        context: &Context,
    ) -> Result<Result<Plan, Vec<Problem>>, WriteError> {
        let names = endpoint::secrets_used(endpoint);
        let secrets = secrets::read(&endpoint.namespace().unwrap_or_default(), &names, context).await?;
        let provided = if endpoint.spec.hostnames.is_empty() { vec![] } else { provided(context) };
        Ok(endpoint::plan(&Inputs {
            endpoint,
            project: &self.project,
            component: &self.component,
            track: &self.track,
            environment: &self.environment,
            deployment: &self.deployment,
            data_plane: &place.data_plane,
            cluster_uid: &place.plane.cluster_uid,
            provided: &provided,
            secrets,
            plane: parts(&place.plane),
            settings: &context.settings,
        }))
    }
}

fn parts(plane: &Plane) -> PlaneParts {
    let known = |capability: Capability| capability.on(plane).map(drop);
    let version = |kind: &str| {
        let known = plane.known_in("gateway.networking.k8s.io", &["v1", "v1alpha2"], kind);
        known.map(|served| served.resource.version)
    };
    PlaneParts {
        http: known(Capability::GatewayApi),
        grpc: known(Capability::GatewayApiGrpc),
        tcp: version("TCPRoute"),
        udp: version("UDPRoute"),
        envoy: known(Capability::EnvoyGateway),
    }
}

/// The domains that all data planes together provide for everybody.
pub(in crate::controllers) fn provided(context: &Context) -> Vec<String> {
    let of = |plane: &DataPlane, settings: &Settings| -> Vec<String> {
        let Some(gateway) = &plane.spec.gateway else { return vec![] };
        let web = gateway.web_application_domain.as_ref().unwrap_or(&settings.web_application_domain);
        vec![gateway.public_virtual_host.clone(), gateway.organization_virtual_host.clone(), web.clone()]
    };
    let planes = context.world.stores.data_planes.state();
    let mut domains: Vec<String> = planes.iter().flat_map(|plane| of(plane, &context.settings)).collect();
    domains.sort();
    domains.dedup();
    domains
}
