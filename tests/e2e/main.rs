//! The shipped binary on real clusters.

mod organization;
mod process;
mod support;
