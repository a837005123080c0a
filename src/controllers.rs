//! One controller per kind. A reconcile reads as a table of contents: what it does is in [`crate::core`], how it is
//! written in [`crate::apply`].

mod book;
mod data_plane;
mod deployment;
mod endpoint;
mod environment;
mod events;
mod hierarchy;
mod lines;
mod member;
mod organization;
mod owned;
mod parents;
mod place;
mod queue;
mod release;
mod remote;
mod renewal;
mod retry;
mod run;
mod secrets;
mod turns;

use std::{collections::BTreeSet, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt;
use kube::Client;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::error;

pub use self::{
    book::PlaneBook, endpoint::Grace, events::Events, lines::Lines, release::Interest, remote::GatewayBook,
    secrets::SecretBook, turns::StrandedTurns,
};
use crate::{
    apply::{Engine, Writer},
    core::{hierarchy::Kind, scope::Scope, settings::Settings},
    metrics::Metrics,
    planes::{AddressPolicy, PlaneKey, Planes},
    world::{Wakes, World},
};

/// What all controllers share.
pub struct Context {
    /// The control plane's objects.
    pub world: World,
    /// For the one kind of read that the world does not answer: the values of Secrets.
    pub client: Client,
    /// Writes to the control plane.
    pub writer: Writer,
    /// The data planes.
    pub planes: Planes,
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
    /// Turns for objects whose plane cannot be used.
    pub stranded: StrandedTurns,
    /// Since when routes are as they are, for those that wait for proxies.
    pub grace: Grace,
    /// Ends what waits, and then the process.
    pub stop: CancellationToken,
    /// What was last seen of the planes' gateways.
    pub gateways: GatewayBook,
    /// What is looked after.
    pub scope: Scope,
    /// How often objects are looked at again though nothing was heard of them.
    pub resync: Duration,
    /// What is the same for all Deployments and Endpoints.
    pub settings: Settings,
    /// Tells users what happened.
    pub events: Events,
    /// Counts.
    pub metrics: Metrics,
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
    tasks.spawn(vital(remote::run(context.clone(), stop.clone())));
    tasks.spawn(vital(renewal::run(context.clone(), stop.clone())));
    start!(Organization, organizations, organization::reconcile);
    if let Some(controller) = context.scope.controller(Kind::DataPlane) {
        start!(@ controller.name(), data_planes, data_plane::reconcile, data_plane::gone);
        tasks.spawn(vital(data_plane::let_go_of_secrets(context.clone(), stop.clone())));
    } else {
        // Others need the connections all the same.
        start!(@ "data-plane", data_planes, data_plane::connect, data_plane::gone);
    }
    start!(Environment, environments, environment::reconcile);
    start!(Project, projects, member::reconcile);
    start!(DeploymentPipeline, deployment_pipelines, member::reconcile);
    start!(Component, components, member::reconcile);
    start!(DeploymentTrack, deployment_tracks, member::reconcile);
    start!(DeployableArtifact, deployable_artifacts, member::reconcile);
    start!(Deployment, deployments, deployment::reconcile);
    start!(Endpoint, endpoints, endpoint::reconcile);
    start!(HostnameClaim, hostname_claims, endpoint::reconcile_claim);
    start!(Release, releases, release::reconcile);
}

/// Runs a part without which the operator would look well and do nothing: if it panics, the process ends, to be started anew.
async fn vital(part: impl Future<Output = ()>) {
    if AssertUnwindSafe(part).catch_unwind().await.is_err() {
        error!("a part of the operator has panicked: please report it; ending");
        std::process::exit(1);
    }
}
