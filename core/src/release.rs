//! Releases: which objects one wants, what is recorded of them before they are made, and what its status says.

mod hosts;
mod intervals;
mod namespaces;
mod record;
mod render;
mod status;

pub use hosts::{ROUTES, is_route, served_hosts, wanted_hosts};
pub use intervals::next_look;
pub use namespaces::{
    NamespaceStep, SeenNamespace, has_objects_in, is_for_releases, is_needed_by, namespace_level,
    namespace_step, namespaces_to_leave, namespaces_to_make,
};
pub use record::{Recorded, adds_to, as_believed, as_now, is_on, item_of, record, uses_namespace};
pub use render::{Problem, Rendered, duplicates, label_value, namespaces, render, targeted_namespace};
pub use status::{Observed, Report, assess, listed, report, unobserved};
