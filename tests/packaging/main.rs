//! The charts, the kustomize bases and the image, with the tools that people use: helm, kubectl, buildah.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

mod applying;
mod arguments;
mod definitions;
mod image;
mod rendering;
mod roles;
mod support;
