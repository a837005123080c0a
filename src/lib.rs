//! Kantor: a multi-cluster control-plane / data-plane platform operator for Kubernetes.
//!
//! A change takes one road: a watch event enters the [`cache`], which wakes the [`controllers`] of the objects
//! that depend on it; they let [`kantor_core`] decide, in pure code, and [`apply`] write. Imports go one way along it:
//! `kantor_api` ← `kantor_core` ← [`client`] ← {[`cache`], [`planes`]} ← [`apply`] ← [`runtime`] ← [`controllers`] ←
//! {[`server`], [`commands`]}; [`telemetry`] stands after the client, which it counts the calls of.
//!
//! Of several operators one leads ([`leader`]); the [`client::fence`] stops the writes of the others.

pub mod apply;
pub mod cache;
pub mod client;
pub mod commands;
pub mod config;
pub mod controllers;
pub mod leader;
pub mod planes;
pub mod runtime;
pub mod server;
pub mod telemetry;

/// Version of this build.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
