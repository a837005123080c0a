//! The one writer to clusters.

mod engine;
mod error;
mod latest;
mod patience;
mod writer;

pub use engine::{Change, Engine, Found, NO_VERSION, Placed, Remains, Removed, Site, Whose};
pub use error::WriteError;
pub use writer::{Deletion, Writer};
