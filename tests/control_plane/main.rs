//! The operator and its API on a real control plane.

mod api_accepts;
mod api_discovery;
mod api_refuses;
mod api_samples;
mod api_unset;
mod support;
