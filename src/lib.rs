//! Kantor: a multi-cluster control-plane / data-plane platform operator for Kubernetes.
//!
//! A change takes one road: a watch event enters the [`world`], which wakes the [`controllers`] of the objects
//! that depend on it; they let [`core`] decide, in pure code, and [`apply`] write. Imports go one way along it:
//! `kantor_api` ← `core` ← {`apply`, `planes`, `world`} ← `controllers` ← {`server`, `commands`}; [`metrics`] stands beside it, and objects are
//! read by way of [`reading`].
//!
//! Of several operators one leads ([`election`]); only it has the [`permit`] to write.

pub mod apply;
pub mod commands;
pub mod controllers;
pub mod core;
pub mod election;
pub mod limits;
pub mod metrics;
pub mod permit;
pub mod planes;
pub mod reading;
pub mod server;
pub mod world;

/// Version of this build.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
