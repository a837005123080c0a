//! The testbed's own behaviour, on real clusters.

mod access;
mod assets;
mod clusters;
mod command;
mod ending;
mod faults;
mod observe;
mod timing;
