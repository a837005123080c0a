//! Breaking a cluster on purpose, and healing it.

use std::sync::atomic::Ordering;

use anyhow::Result;

use super::{Cluster, builder};
use crate::{assets::Binary, process::Process};

impl Cluster {
    /// Stops the API server in its tracks: connections are accepted by the system, and nothing answers.
    pub fn pause(&self) -> Result<()> {
        self.is_broken.store(true, Ordering::Relaxed);
        self.components.with(Binary::KubeApiserver, Process::pause)
    }

    /// Lets a paused API server go on.
    pub fn resume(&self) -> Result<()> {
        self.components.with(Binary::KubeApiserver, Process::resume)
    }

    /// Kills the API server: connections are refused. The data stays.
    pub fn kill_apiserver(&self) {
        self.is_broken.store(true, Ordering::Relaxed);
        self.components.stop(Binary::KubeApiserver);
    }

    /// Starts the API server again at the same address, after killing one that runs, and waits until it is ready.
    pub async fn restart_apiserver(&self) -> Result<()> {
        self.kill_apiserver();
        self.components.start(Binary::KubeApiserver, &self.files)?;
        builder::ready(&self.components, &self.client()).await
    }
}
