//! Releases: which objects one wants, what is recorded of them before they are made, and what its status says.

mod intervals;
mod namespaces;
mod record;
mod render;
mod status;

pub use intervals::next_look;
pub use namespaces::{NamespaceStep, SeenNamespace, namespace_step};
pub use record::{Recorded, adds_to, is_on, item_of, record, uses_namespace};
pub use render::{Problem, Rendered, duplicates, label_value, namespaces, render, targeted_namespace};
pub use status::{Observed, Report, assess, listed, report, unobserved};
