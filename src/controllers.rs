//! One controller per kind. A reconcile reads as a table of contents: what it does is in [`kantor_core`], how it is
//! written in [`crate::apply`].

mod component;
mod data_plane;
mod deployable_artifact;
mod deployment;
mod deployment_pipeline;
mod deployment_track;
mod endpoint;
mod environment;
mod hostname_claim;
mod organization;
pub(crate) mod plane_events;
mod project;
mod release;
pub(crate) mod shared;

use std::{collections::BTreeSet, ops::Deref, panic::AssertUnwindSafe, sync::Arc};

use futures::FutureExt;
use kantor_core::{hierarchy::Kind, scope::Scope, settings::Settings};
use kube::Client;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::error;

pub use self::{
    endpoint::Grace,
    plane_events::GatewayBook,
    release::Interest,
    shared::{credentials_cache::PlaneBook, secrets::SecretBook},
};
use crate::{
    apply::Engine,
    cache::Wakes,
    controllers::{data_plane::token_renewal, shared::simple_kind},
    planes::{AddressPolicy, PlaneKey},
    runtime::{Runtime, keyed_mutex::Lines, run},
};

/// What all controllers share.
pub struct Context {
    /// What it takes to run any of them.
    pub runtime: Runtime,

    /// For the one kind of read that the world does not answer: the values of Secrets.
    pub client: Client,

    /// Addresses that data planes may have.
    pub addresses: AddressPolicy,
    /// What was last read of the data planes' Secrets.
    pub book: PlaneBook,
    /// Keeps objects on data planes.
    pub engine: Engine,
    /// What is kept between reconciles of Releases.
    pub releases: Interest,
    /// Values of Secrets that Deployments and Endpoints copy.
    pub secrets: SecretBook,
    /// For what Deployments share in a namespace of a plane: without turns, the first ones of an environment would all make it
    /// at once, and all but one would be refused.
    pub shared: Lines<(PlaneKey, String)>,

    /// Since when routes are as they are, for those that wait for proxies.
    pub grace: Grace,

    /// What was last seen of the planes' gateways.
    pub gateways: GatewayBook,
    /// What is looked after.
    pub scope: Scope,

    /// What is the same for all Deployments and Endpoints.
    pub settings: Settings,
}

impl Deref for Context {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        &self.runtime
    }
}

/// Group and name of the kinds that Kantor itself makes, keeps and removes on data planes, beside Namespaces. Releases
/// may bring any others.
pub fn kinds_on_planes() -> BTreeSet<(&'static str, &'static str)> {
    deployment::kinds().chain(endpoint::kinds()).collect()
}

/// Starts the controllers of the context's scope on `tasks`. They end, after the reconciles in flight, with `stop`.
pub fn start(context: &Arc<Context>, wakes: Wakes, tasks: &TaskTracker, stop: &CancellationToken) {
    macro_rules! start {
        ($kind:ident, $kinds:ident, $reconcile:path) => {
            if let Some(controller) = context.scope.controller(Kind::$kind) {
                start!(@ controller.name(), $kinds, $reconcile, |_, _| ());
            }
        };
        (@ $name:expr, $kinds:ident, $reconcile:path, $gone:expr) => {
            tasks.spawn(vital(run::run(
                $name,
                context.world.stores.$kinds.clone(),
                wakes.$kinds,
                context.clone(),
                stop.clone(),
                $reconcile,
                $gone,
            )))
        };
    }
    tasks.spawn(vital(plane_events::run(context.clone(), stop.clone())));
    tasks.spawn(vital(token_renewal::run(context.clone(), stop.clone())));
    start!(Organization, organizations, organization::reconcile);
    if let Some(controller) = context.scope.controller(Kind::DataPlane) {
        start!(@ controller.name(), data_planes, data_plane::reconcile, data_plane::gone);
        tasks.spawn(vital(data_plane::let_go_of_secrets(context.clone(), stop.clone())));
    } else {
        // Others need the connections all the same.
        start!(@ "data-plane", data_planes, data_plane::connect, data_plane::gone);
    }
    start!(Environment, environments, environment::reconcile);
    start!(Project, projects, simple_kind::reconcile);
    start!(DeploymentPipeline, deployment_pipelines, simple_kind::reconcile);
    start!(Component, components, simple_kind::reconcile);
    start!(DeploymentTrack, deployment_tracks, simple_kind::reconcile);
    start!(DeployableArtifact, deployable_artifacts, simple_kind::reconcile);
    start!(Deployment, deployments, deployment::reconcile);
    start!(Endpoint, endpoints, endpoint::reconcile);
    start!(HostnameClaim, hostname_claims, hostname_claim::reconcile_claim);
    start!(Release, releases, release::reconcile);
}

/// Runs a part without which the operator would look well and do nothing: if it panics, the process ends, to be started anew.
async fn vital(part: impl Future<Output = ()>) {
    if AssertUnwindSafe(part).catch_unwind().await.is_err() {
        error!("a part of the operator has panicked: please report it; ending");
        std::process::exit(1);
    }
}
