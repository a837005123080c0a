//! One controller per kind. A reconcile reads as a table of contents: what it does is in [`crate::core`], how it is
//! written in [`crate::apply`].

mod organization;
mod retry;
mod run;

use std::sync::Arc;

use kube::runtime::events::Recorder;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    apply::Writer,
    metrics::Metrics,
    world::{Wakes, World},
};

/// What all controllers share.
pub struct Context {
    /// The control plane's objects.
    pub world: World,
    /// Writes to the control plane.
    pub writer: Writer,
    /// Tells users what happened.
    pub events: Recorder,
    /// Counts.
    pub metrics: Metrics,
}

/// Starts all controllers on `tasks`. They end, after the reconciles in flight, with `stop`.
pub fn start(context: &Arc<Context>, wakes: Wakes, tasks: &TaskTracker, stop: &CancellationToken) {
    tasks.spawn(organization::run(context.clone(), wakes.organizations, stop.clone()));
}
