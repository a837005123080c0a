//! `kantor completion`: what shells need to complete the command.

use clap::{Args, Command};
use clap_complete::Shell;

/// Print a completion script, for example: source <(kantor completion bash).
#[derive(Args, Debug)]
pub struct CompletionArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs the command.
pub fn run(args: &CompletionArgs, mut command: Command) -> anyhow::Result<()> {
    let mut script = vec![];
    clap_complete::generate(args.shell, &mut command, "kantor", &mut script);
    super::print(&String::from_utf8(script)?)
}
