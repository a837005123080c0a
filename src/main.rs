//! The `kantor` command.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use kantor::{
    commands::{completion, config, controller, crds, plane, rbac, version},
    config::sources::{self, Parsed},
};

/// Multi-cluster platform operator: keeps applications on registered Kubernetes clusters as declared.
#[derive(Parser)]
#[command(name = "kantor", version = kantor::VERSION, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Controller(Box<controller::ControllerArgs>),
    Config(config::ConfigArgs),
    Crds(crds::CrdsArgs),
    Version(version::VersionArgs),
    Completion(completion::CompletionArgs),
    Rbac(rbac::RbacArgs),
    Plane(plane::PlaneArgs),
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "the last word of a command that failed")]
            {
                eprintln!("kantor: {error:#}");
            }
            ExitCode::FAILURE
        }
    }
}

async fn run() -> anyhow::Result<()> {
    let Parsed { cli, settings } =
        sources::parse::<Cli>(std::env::args_os())?.unwrap_or_else(|error| error.exit());
    match cli.command {
        Command::Controller(args) => controller::run(*args).await,
        Command::Config(args) => config::run(&args, &settings),
        Command::Crds(args) => crds::run(&args),
        Command::Plane(args) => plane::run(args).await,
        Command::Rbac(args) => rbac::run(&args),
        Command::Version(args) => version::run(&args).await,
        Command::Completion(args) => completion::run(&args, sources::with_environment(Cli::command())),
    }
}
