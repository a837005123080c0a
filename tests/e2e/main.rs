//! The shipped binary on real clusters.

mod data_plane;
mod hierarchy;
mod organization;
mod process;
mod support;
