//! Endpoints, on real clusters.

mod claiming;
mod deleting;
mod guarding;
mod serving;
pub mod support;
