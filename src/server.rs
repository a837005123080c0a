//! Probes, metrics and the log level over HTTP.

mod routes;

pub use routes::{Health, LogFilter, serve, serve_metrics};
