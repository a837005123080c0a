//! The testbed's own behaviour, on real clusters.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy takes only #[test] functions for tests, not their helpers"
)]

mod access;
mod assets;
mod clusters;
mod command;
mod ending;
mod faults;
mod observe;
mod sharing;
