//! The subcommands of `kantor`.

pub mod controller;
pub mod crds;
pub mod telemetry;
