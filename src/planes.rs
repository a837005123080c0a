//! Remote clusters: how to reach them, whether they answer, and clients for them.
//!
//! ```text
//! DataPlane + Secrets ─→ kubeconfig (hostile input) ─→ Access ─→ Planes ─→ one connector per DataPlane
//! controllers ─→ Planes::get: a connected Plane at once, or why there is none at once
//! ```

mod access;
mod capabilities;
mod client;
mod connector;
mod definitions;
#[cfg(test)]
pub(crate) mod fake;
mod kinds;
mod kubeconfig;
mod plane;
mod registry;
mod room;
mod subscribers;
mod turns;
mod watches;

pub use access::{Access, Auth, PlaneKey, RemoteAccess};
pub use capabilities::{Capabilities, Capability};
pub use client::AccessChange;
pub use connector::{DisconnectReason, PlaneState};
pub use kantor_core::net::AddressPolicy;
pub use kinds::{Kind, Served, ServedKinds};
pub use kubeconfig::{
    MAX_DOCUMENT_BYTES, Refusal, RefusalKind, credentials_expiry, kubeconfig_key, parse_inline,
    parse_kubeconfig, secret_names, token_claims,
};
pub use plane::Plane;
pub use registry::{NotConnected, PlaneOptions, Planes};
pub use room::Limits;
pub use watches::{Follow, FollowState, Followed, RemoteChange};
