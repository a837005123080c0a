//! The documentation holds: links lead somewhere, commands run, objects are accepted, and what has to be written down is.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

mod commands;
mod coverage;
mod links;
mod objects;
mod pages;
