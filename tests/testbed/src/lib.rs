//! Real Kubernetes clusters as child processes, for Kantor's tests and its demo.
//!
//! ```text
//! assets   the binaries and CRDs that clusters are made of: found, or built once from Go modules
//! keeper   ends what we started when we die, however we die
//! Cluster  etcd + kube-apiserver, on request with controllers, a scheduler and kwok nodes
//! Fleet    one control plane and some data planes
//! gateway  real traffic through Envoy Gateway and Envoy
//! ```

pub mod apply;
pub mod assets;
pub mod certificates;
pub mod cluster;
pub mod fleet;
pub mod flux;
mod folder;
#[cfg(target_os = "linux")]
pub mod gateway;
mod keeper;
pub mod kubeconfig;
pub mod operator;
mod process;
pub mod proxy;
pub mod session;
pub mod snapshot;
pub mod wait;

pub use assets::CrdBundle;
pub use cluster::{Cluster, ClusterBuilder, ServiceAccountAccess, SharedCluster};
pub use fleet::Fleet;
pub use flux::Flux;
pub use kubeconfig::{Auth, KubeconfigSpec};
pub use operator::Operator;
