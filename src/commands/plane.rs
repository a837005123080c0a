//! `kantor plane`: what platform teams do with data planes.

mod kubeconfig;
mod source;

use clap::{Args, Subcommand};

/// Register clusters as data planes.
#[derive(Args, Debug)]
pub struct PlaneArgs {
    #[command(subcommand)]
    command: PlaneCommand,
}

#[derive(Subcommand, Debug)]
enum PlaneCommand {
    Kubeconfig(Box<kubeconfig::KubeconfigArgs>),
}

/// Runs the command.
pub async fn run(args: PlaneArgs) -> anyhow::Result<()> {
    match args.command {
        PlaneCommand::Kubeconfig(args) => kubeconfig::run(&args).await,
    }
}
