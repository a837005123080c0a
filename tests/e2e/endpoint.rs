//! Endpoints, on real clusters.

mod claiming;
mod deleting;
mod guarding;
mod serving;
mod starting;
pub mod support;
mod telling;
