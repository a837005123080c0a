//! Probes, metrics and the log level over HTTP.

mod routes;

pub use routes::{Health, serve, serve_metrics};

pub use crate::telemetry::logging::LogFilter;
