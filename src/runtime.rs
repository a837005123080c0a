//! How every controller runs: queue, admission, status, Events, back-off. Knows no controller.

pub(crate) mod admission;
pub(crate) mod backoff;
pub(crate) mod events;
pub(crate) mod keyed_mutex;
pub(crate) mod queue;
pub(crate) mod run;
pub(crate) mod status;

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use self::{admission::StrandedTurns, events::Events};
use crate::{apply::Writer, cache::World, planes::Planes, telemetry::metrics::Metrics};

/// What it takes to run a controller, whatever its kind.
pub struct Runtime {
    /// The control plane's objects.
    pub world: World,
    /// Writes to the control plane.
    pub writer: Writer,
    /// The data planes.
    pub planes: Planes,
    /// Turns for objects whose plane cannot be used.
    pub stranded: StrandedTurns,
    /// Ends what waits, and then the process.
    pub stop: CancellationToken,
    /// How often objects are looked at again though nothing was heard of them.
    pub resync: Duration,
    /// Tells users what happened.
    pub events: Events,
    /// Counts.
    pub metrics: Metrics,
}
