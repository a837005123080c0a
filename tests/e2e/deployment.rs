//! Deployments: an artifact, kept running on the plane of an environment.

mod configuring;
mod deleting;
mod drifting;
mod failing;
mod inheriting;
mod keeping;
mod killing;
mod moving;
mod resting;
mod samples;
pub mod support;
mod types;
