//! Decisions: pure functions over plain data. No client, no clock, no environment, nothing to await.

pub mod backoff;
pub mod changes;
pub mod covers;
pub mod deployment;
pub mod duration;
pub mod election;
pub mod endpoint;
pub mod health;
pub mod hierarchy;
pub mod hostnames;
mod json;
pub mod known;
pub mod lifecycle;
pub mod moving;
pub mod namespaces;
pub mod net;
pub mod news;
pub mod organization;
pub mod registration;
pub mod release;
pub mod renewal;
pub mod schema;
pub mod scope;
pub mod settings;
pub mod tenancy;
