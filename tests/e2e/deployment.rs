//! Deployments: an artifact, kept running on the plane of an environment.

mod configuring;
mod deleting;
mod drifting;
mod failing;
mod inheriting;
mod isolating;
mod keeping;
mod killing;
mod leaving;
mod moving;
mod observing;
mod resting;
mod running;
mod samples;
pub mod support;
mod telling;
mod types;
