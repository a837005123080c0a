//! Settings: where they come from.

pub mod sources;
