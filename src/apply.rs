//! The one writer to clusters.

mod error;
mod writer;

pub use error::WriteError;
pub use writer::Writer;
