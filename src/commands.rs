//! The subcommands of `kantor`.

pub mod completion;
pub mod config;
pub mod controller;
pub mod crds;
pub mod plane;
pub mod rbac;
pub mod version;

use std::io::Write as _;

use anyhow::Context as _;

/// Prints the result of a command. A reader that has gone is no failure of the command.
fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}
