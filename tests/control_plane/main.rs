//! The operator and its API on a real control plane.

#![allow(clippy::panic, clippy::unwrap_in_result, reason = "helpers fail a test as the test itself does")]

mod api_accepts;
mod api_as_kubernetes;
mod api_bounds;
mod api_discovery;
mod api_refuses;
mod api_samples;
mod api_unset;
mod support;
