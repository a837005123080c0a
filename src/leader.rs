//! Leader election.

pub mod election;
