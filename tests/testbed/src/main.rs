//! The `kantor-testbed` command: real clusters on this machine, for people.

mod commands;
mod demo;
mod kubectl;
mod picture;
mod request;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

/// Real Kubernetes clusters as child processes: no container engine, no virtual machine.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make binaries and CRDs available and print the binaries' folder
    Assets(Assets),
    /// Start a control plane and data planes, until Ctrl-C or `down`
    Up(Up),
    /// End what `up` started in the folder
    Down(Place),
    /// Show what runs in the folder, and whether it answers
    Status(Place),
    /// Real clusters, the operator and a sample, step by step
    Demo(demo::Demo),

    /// Draw what a demo wrote, for the README
    #[command(hide = true)]
    Picture(picture::Picture),
    /// The demo's last scene
    #[command(hide = true)]
    Request(request::Request),
}

#[derive(Args)]
struct Assets {
    /// What they are for: the demo needs clusters only, tests need Helm, a gateway and a checker of alert rules as well
    #[arg(long = "for", value_name = "PURPOSE", default_value = "test")]
    purpose: Purpose,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Purpose {
    Demo,
    Test,
}

impl From<Purpose> for kantor_testbed::assets::Purpose {
    fn from(purpose: Purpose) -> Self {
        match purpose {
            Purpose::Demo => Self::Demo,
            Purpose::Test => Self::Test,
        }
    }
}

#[derive(Args)]
struct Place {
    /// The folder with the kubeconfigs and the state
    #[arg(long, default_value = ".kantor")]
    dir: PathBuf,
}

#[derive(Args)]
struct Up {
    #[command(flatten)]
    place: Place,
    /// The number of data planes
    #[arg(long, default_value_t = 2)]
    planes: usize,
    /// The nodes of each data plane
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// Return when everything is up and leave it running
    #[arg(long)]
    detach: bool,
    /// Set by --detach for the process that stays: whether the folder was made for it
    #[arg(long, hide = true)]
    background: Option<bool>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments.command) {
        Ok(code) => code,
        Err(error) => {
            commands::say(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new()?;
    let result = runtime.block_on(async {
        match command {
            Command::Assets(assets) => commands::assets(assets.purpose.into()).await,
            Command::Up(up) => commands::up(up).await,
            Command::Down(place) => commands::down(&place.dir).await,
            Command::Status(place) => commands::status(&place.dir).await,
            Command::Demo(demo) => demo::run(demo).await,

            Command::Picture(picture) => picture::run(&picture),
            Command::Request(request) => request::run(request).await,
        }
    });
    // Ctrl-C during a build: do not wait for the thread that waits for Go; the keeper ends Go.
    runtime.shutdown_background();
    result
}
