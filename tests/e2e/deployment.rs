//! Deployments: an artifact, kept running on the plane of an environment.

mod keeping;
mod support;
