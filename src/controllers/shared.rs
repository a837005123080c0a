//! What the controllers of several kinds share. Knows no kind's controller.

pub(crate) mod connection;
pub(crate) mod credentials_cache;
pub(crate) mod hostnames;
pub(crate) mod parents;
pub(crate) mod plane_namespaces;
pub(crate) mod plane_objects;
pub(crate) mod plane_records;
pub(crate) mod secrets;
pub(crate) mod simple_kind;
pub(crate) mod targets;
