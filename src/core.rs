//! Decisions: pure functions over plain data. No client, no clock, no environment, nothing to await.

pub mod hierarchy;
pub mod lifecycle;
pub mod namespaces;
pub mod organization;
