//! The shipped binary on real clusters.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]
#![allow(
    clippy::needless_pass_by_value,
    clippy::similar_names,
    reason = "json!(…) is passed as it is written"
)]
#![allow(clippy::large_futures, reason = "tests have room on their stacks")]

mod acme;
mod apart;
mod data_plane;
mod definitions;
mod deployment;
mod electing;
mod endpoint;
mod gateway;
mod hierarchy;
mod killing;
mod observing;
mod organization;
mod process;
mod release;
mod restoring;
mod scoping;
mod silence;
mod support;
