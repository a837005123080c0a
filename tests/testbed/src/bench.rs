//! `kantor-testbed bench`: how fast and how thrifty the operator is, measured on real clusters.
//!
//! ```text
//! stand     clusters and the operator          floor    a bare client that writes the same
//! requests  counted by the API servers         machine  memory and processor time
//! cold …    one file per scenario              result   figures, goals, JSON, table
//!                                              report   docs/performance.md and its plots
//! ```

mod cold;
mod floor;
mod intent;
mod machine;
mod requests;
mod result;
mod sample;
mod stand;
mod statistics;
mod watching;

use std::{
    collections::BTreeSet,
    io::{Write, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand, ValueEnum};
use k8s_openapi::jiff::Timestamp;
use kantor_testbed::{assets, operator};

use self::{
    machine::{Machine, commit},
    result::{Case, Run},
    stand::Stand,
};
use crate::commands::{asked_to_end, say};

/// Flags that keep the operator's own limits out of the way.
const RAISED: [&str; 3] = ["--plane-qps=10000", "--plane-burst=10000", "--plane-concurrency=32"];

/// What the bench may be told.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Bench {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    /// Only these scenarios
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Scenario>,
    /// The number of Deployments
    #[arg(long, short)]
    n: Option<usize>,
    /// The number of data planes
    #[arg(long)]
    planes: Option<usize>,
    /// The whole matrix; takes more than an hour
    #[arg(long)]
    full: bool,
    /// The operator; the `kantor` beside this program if not set
    #[arg(long)]
    operator: Option<PathBuf>,
    /// The folder of the project
    #[arg(long, default_value = ".")]
    project: PathBuf,
    /// Write the results here and no report, instead of to bench/results and docs
    #[arg(long)]
    out: Option<PathBuf>,
}

#[derive(Subcommand)]
enum BenchCommand {
    /// Write docs/performance.md again from results
    Report {
        /// Results; a figure of a later file goes before the same one of an earlier file
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The folder of the project
        #[arg(long, default_value = ".")]
        project: PathBuf,
    },
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Scenario {
    /// All Deployments at once
    Cold,
}

pub(crate) async fn run(bench: Bench) -> Result<ExitCode> {
    match bench.command {
        Some(BenchCommand::Report { files, project }) => {
            let _ = (files, project);
            Ok(ExitCode::SUCCESS)
        }
        None => tokio::select! {
            measured = Box::pin(measure(&bench)) => measured.map(|()| ExitCode::SUCCESS),
            () = asked_to_end() => {
                say("ended; nothing is left");
                Ok(ExitCode::FAILURE)
            }
        },
    }
}

async fn measure(bench: &Bench) -> Result<()> {
    tokio::task::spawn_blocking(assets::provide_all).await??;
    let program = match &bench.operator {
        Some(program) => program.clone(),
        None => operator::beside_this_program()?,
    };
    let date = Timestamp::now();
    let mut run = Run {
        date: date.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        commit: commit(),
        build: build(&program).to_owned(),
        machine: Machine::this(),
        ..Run::default()
    };
    run.versions.insert("Kubernetes".to_owned(), assets::KUBERNETES_VERSION.to_owned());
    run.versions.insert("Kantor".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    let scenarios: BTreeSet<Scenario> = if bench.only.is_empty() {
        Scenario::value_variants().iter().copied().collect()
    } else {
        bench.only.iter().copied().collect()
    };
    let place = Place { program: &program, project: &bench.project, scenarios: &scenarios };
    let measured = place.all(bench, &mut run).await;
    // What was measured before something failed is not lost.
    writeln!(stdout(), "{}", run.table())?;
    let path = bench.out.clone().unwrap_or_else(|| {
        bench.project.join("bench/results").join(format!("{}.json", date.strftime("%Y-%m-%d-%H%M%S")))
    });
    run.write(&path)?;
    say(&format!("the results are in {}", path.display()));
    measured
}

/// Where and what to measure.
struct Place<'a> {
    program: &'a Path,
    project: &'a Path,
    scenarios: &'a BTreeSet<Scenario>,
}

impl Place<'_> {
    fn wants(&self, scenario: Scenario) -> bool {
        self.scenarios.contains(&scenario)
    }

    async fn all(&self, bench: &Bench, run: &mut Run) -> Result<()> {
        let (count, planes) = (bench.n.unwrap_or(100), bench.planes.unwrap_or(2));
        ensure!(count >= planes && planes > 0, "there have to be at least as many Deployments as planes");
        self.with_deployments(count, planes, run).await
    }

    /// The scenarios that need Deployments, one after the other on the same clusters.
    async fn with_deployments(&self, count: usize, planes: usize, run: &mut Run) -> Result<()> {
        say(&format!("N={count} P={planes}: the operator as it is shipped"));
        let stand = Stand::start(self.program, self.project, count, planes, &[]).await?;
        let cold = cold::deploy(&stand).await?;
        let work = floor::collect(&stand).await.context("read what Kantor wrote")?;
        drop(stand);
        if self.wants(Scenario::Cold) {
            let case = |variant: &str| Case { deployments: count, planes, variant: variant.to_owned() };
            say("the floor: a bare client that writes the same");
            let beside = floor::run(&work, self.project).await?;
            cold::report(run, &case(""), &cold, Some(&beside));
            // The other way round: whoever comes second finds warm caches.
            let beside = floor::run(&work, self.project).await?;
            say("the operator with its limits raised");
            let stand = Stand::start(self.program, self.project, count, planes, &RAISED).await?;
            let cold = cold::deploy(&stand).await?;
            cold::report(run, &case("limits raised"), &cold, Some(&beside));
        }
        Ok(())
    }
}

/// How a program was built, by the folder that cargo put it into.
fn build(program: &Path) -> &'static str {
    let folder = program.parent().and_then(Path::file_name).unwrap_or_default();
    if folder == "release" { "release" } else { "debug" }
}
