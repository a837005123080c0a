//! Logs, traces and metrics of the process.

pub mod logging;
pub mod metrics;
