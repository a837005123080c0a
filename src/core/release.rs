//! Releases: which objects one wants, what is recorded of them before they are made, and what its status says.

mod hosts;
mod intervals;
mod namespaces;
mod record;
mod render;
mod status;

pub use hosts::{ROUTES, is_route, served_hosts, wanted_hosts};
pub use intervals::next_look;
pub use namespaces::{NamespaceStep, SeenNamespace, namespace_level, namespace_step};
pub use record::{Recorded, adds_to, as_now, is_on, item_of, record, uses_namespace};
pub use render::{Problem, Rendered, duplicates, label_value, namespaces, render, targeted_namespace};
pub use status::{Observed, Report, assess, listed, report, unobserved};
