//! `kantor config check`: the settings as they count, before the operator is started with them.

use std::fmt::Write as _;

use clap::{Args, Subcommand};

use super::controller::ControllerArgs;
use crate::config::sources::Setting;

/// Look at settings of the operator.
#[derive(Args, Debug)]
#[command(arg_required_else_help = true, subcommand_required = true)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Subcommand, Debug)]
enum ConfigCommand {
    /// Check flags, environment and config file as `kantor controller` would, and show each setting and where it is from.
    Check(Box<ControllerArgs>),
}

/// Runs the command.
pub fn run(args: &ConfigArgs, settings: &[Setting]) -> anyhow::Result<()> {
    let ConfigCommand::Check(args) = &args.command;
    args.check()?;
    super::print(&table(settings)?)
}

fn table(settings: &[Setting]) -> Result<String, std::fmt::Error> {
    let longest = |of: fn(&Setting) -> usize| settings.iter().map(of).max().unwrap_or_default();
    let (flag, source) =
        (longest(|setting| setting.flag.len()), longest(|setting| setting.source.as_str().len()));
    let mut text = String::new();
    for setting in settings {
        let line = format!("{:flag$}  {:source$}  {}", setting.flag, setting.source.as_str(), setting.value);
        writeln!(text, "{}", line.trim_end())?;
    }
    Ok(text)
}
