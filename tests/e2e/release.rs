//! Releases: any objects, kept on the plane of an environment exactly as they are written.

mod keeping;
mod support;
