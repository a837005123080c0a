//! The `kantor` command.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use kantor::commands::{controller, crds, plane};

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
    Crds(crds::CrdsArgs),
    Plane(plane::PlaneArgs),
}

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Controller(args) => controller::run(*args).await,
        Command::Crds(args) => crds::run(&args),
        Command::Plane(args) => plane::run(args).await,
    };
    match done {
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
