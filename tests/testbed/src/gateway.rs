//! Real Gateway API traffic on a cluster: Envoy Gateway, an Envoy, and something that answers behind each pod.
//!
//! ```text
//! network of the test (10.200.0.1)               network of the data (10.200.0.2)
//!   clusters, operator, Envoy Gateway  ──xDS──→    Envoy (:10080) ──→ pods (10.244.0.0/16), JWKS
//! ```
//!
//! Two networks, because Envoy Gateway takes port 8080 and others on all addresses, and because pods need addresses.
//! Neither is that of the machine: see [`isolated`], in which all of this has to run. Envoy Gateway makes its usual
//! objects; kwok makes the pod of its Envoy ready, and we start the real one with the arguments of that pod. So
//! `Programmed` of the Gateway says nothing of traffic: only a request does.
//!
//! One [`Gateways`] at a time: the ports of Envoy Gateway are fixed.

mod backends;
mod client;
mod envoy;
mod envoy_gateway;
mod isolated;
mod load;
mod network;
mod server;
mod tokens;

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result};
pub use client::{Answer, Client};
pub use isolated::{again, isolated, possible, required};
pub use load::{Load, Tally};
pub use tokens::Issuer;

use self::{backends::Backends, envoy::Envoy, envoy_gateway::EnvoyGateway, network::Network};
use crate::{
    Cluster,
    assets::{self, Traffic},
};

/// How long a part may take to start, on a busy machine.
const START: Duration = Duration::from_mins(2);

/// What the gateways of a cluster shall be.
#[derive(Clone, Debug)]
pub struct GatewayOptions {
    /// The namespace of the Gateways.
    pub namespace: String,
    /// The Gateway that has a real Envoy.
    pub external: String,
    /// The Gateway that is an object only.
    pub internal: String,
    /// How long a pod goes on answering after it is deleted, as one does that is told to end and drains. Without it,
    /// requests fail that Envoy has sent before it hears of the deletion.
    pub linger: Duration,
}

impl Default for GatewayOptions {
    fn default() -> Self {
        Self {
            namespace: "choreo-system".to_owned(),
            external: "gateway-external".to_owned(),
            internal: "gateway-internal".to_owned(),
            linger: Duration::from_secs(5),
        }
    }
}

/// The running gateways of a cluster. Dropping them ends their processes.
pub struct Gateways {
    // Fields are dropped in this order: nobody loses what it depends on.
    envoy: Envoy,
    envoy_gateway: EnvoyGateway,
    _backends: Backends,
    issuer: Issuer,
    _network: Network,
    folder: PathBuf,
}

impl Gateways {
    /// Gateways with the usual names. The cluster needs controllers, a scheduler, a node and the CRDs of Gateway API
    /// and Envoy Gateway.
    pub async fn start(cluster: &Cluster) -> Result<Self> {
        Self::start_with(cluster, &GatewayOptions::default()).await
    }

    /// Returns when Envoy answers. Whatever goes wrong, nothing is left behind.
    pub async fn start_with(cluster: &Cluster, options: &GatewayOptions) -> Result<Self> {
        let start = Self::start_here(cluster, options);
        // Boxed: the future holds every step of the start.
        Box::pin(start).await.with_context(|| format!("cannot start the gateways of {}", cluster.name()))
    }

    async fn start_here(cluster: &Cluster, options: &GatewayOptions) -> Result<Self> {
        let folder = isolated::folder()?;
        let Traffic { envoy_gateway, envoy } = tokio::task::spawn_blocking(assets::traffic).await??;
        let network = Network::start(&folder).await?;
        let issuer = Issuer::start(&network).await?;
        let backends = Backends::start(cluster.client(), &network, options.linger);
        let envoy_gateway = EnvoyGateway::start(cluster, envoy_gateway, &folder).await?;
        envoy_gateway.create_gateways(cluster, options).await?;
        let envoy = Envoy::start(cluster, options, envoy, &network, &folder).await?;
        Ok(Self { envoy, envoy_gateway, _backends: backends, issuer, _network: network, folder })
    }

    /// Sends requests to the external Gateway.
    pub fn client(&self) -> Client {
        Client
    }

    /// Signs tokens that a `SecurityPolicy` can check.
    pub fn issuer(&self) -> &Issuer {
        &self.issuer
    }

    /// Kills Envoy Gateway: Envoy goes on with what it knows.
    pub fn stop_envoy_gateway(&mut self) {
        self.envoy_gateway.stop();
    }

    /// Starts Envoy Gateway again.
    pub fn restart_envoy_gateway(&mut self) -> Result<()> {
        self.envoy_gateway.serve(&self.folder)
    }

    /// The end of the logs of Envoy Gateway and of Envoy, for the message of a test that fails.
    pub fn logs(&self) -> String {
        format!("Envoy Gateway:\n{}\nEnvoy:\n{}", self.envoy_gateway.log_tail(), self.envoy.log_tail())
    }
}
