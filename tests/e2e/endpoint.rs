//! Endpoints, on real clusters.

mod claiming;
mod deleting;
mod guarding;
mod serving;
mod support;
