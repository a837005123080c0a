//! One controller per kind. A reconcile reads as a table of contents: what it does is in [`crate::core`], how it is
//! written in [`crate::apply`].

mod book;
mod data_plane;
mod deployment;
mod endpoint;
mod environment;
mod hierarchy;
mod member;
mod organization;
mod owned;
mod parents;
mod place;
mod release;
mod remote;
mod renewal;
mod retry;
mod run;
mod secrets;

use std::sync::Arc;

use kube::{Client, runtime::events::Recorder};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::{book::PlaneBook, release::Interest, remote::GatewayBook, secrets::SecretBook};
use crate::{
    apply::{Engine, Writer},
    core::settings::Settings,
    metrics::Metrics,
    planes::{AddressPolicy, Planes},
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
    /// What was last seen of the planes' gateways.
    pub gateways: GatewayBook,
    /// What is the same for all Deployments and Endpoints.
    pub settings: Settings,
    /// Tells users what happened.
    pub events: Recorder,
    /// Counts.
    pub metrics: Metrics,
}

/// Starts all controllers on `tasks`. They end, after the reconciles in flight, with `stop`.
pub fn start(context: &Arc<Context>, wakes: Wakes, tasks: &TaskTracker, stop: &CancellationToken) {
    macro_rules! start {
        ($name:literal, $kinds:ident, $reconcile:path) => {
            tasks.spawn(run::run(
                $name,
                context.world.stores.$kinds.clone(),
                wakes.$kinds,
                context.clone(),
                stop.clone(),
                $reconcile,
            ));
        };
    }
    tasks.spawn(remote::run(context.clone(), stop.clone()));
    tasks.spawn(renewal::run(context.clone(), stop.clone()));
    start!("organization", organizations, organization::reconcile);
    start!("data-plane", data_planes, data_plane::reconcile);
    start!("environment", environments, environment::reconcile);
    start!("project", projects, member::reconcile);
    start!("deployment-pipeline", deployment_pipelines, member::reconcile);
    start!("component", components, member::reconcile);
    start!("deployment-track", deployment_tracks, member::reconcile);
    start!("deployable-artifact", deployable_artifacts, member::reconcile);
    start!("deployment", deployments, deployment::reconcile);
    start!("endpoint", endpoints, endpoint::reconcile);
    start!("hostname-claim", hostname_claims, endpoint::reconcile_claim);
    start!("release", releases, release::reconcile);
}
