//! Probes and metrics over HTTP.

mod routes;

pub use routes::{Health, serve};
