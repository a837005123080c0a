//! Remote clusters: real ones, behind a proxy that sees each request and breaks what a test asks it to.

#![allow(
    clippy::panic,
    clippy::unwrap_in_result,
    clippy::unwrap_used,
    reason = "helpers fail a test as the test itself does"
)]

mod applying;
mod connecting;
mod failing;
mod hostile;
mod many;
mod rotating;
mod secrets;
mod support;
mod watching;
