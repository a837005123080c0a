//! The proxy in front of a real kube-apiserver, used by a real client.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, which may fail by panic")]

mod answers;
mod faults;
mod holds;
mod identity;
mod lifetime;
mod records;
mod stand;
mod watches;
