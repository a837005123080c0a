//! Releases: any objects, kept on the plane of an environment exactly as they are written.

mod failing;
mod healing;
mod health;
mod keeping;
mod large;
mod moving;
pub mod neighbours;
mod ordering;
mod owning;
mod recording;
mod removing;
mod rights;
mod scenario;
pub mod support;
mod tenancy;
mod waiting;
