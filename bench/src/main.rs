//! `kantor-bench`: how fast and how thrifty the operator is, measured on real clusters.
//!
//! ```text
//! stand     clusters and the operator          floor    a bare client that writes the same
//! requests  counted by the API servers         machine  memory and processor time
//! cold …    one file per scenario              result   figures, goals, JSON, table
//!                                              report   docs/performance.md and its plots
//! ```

mod artifact;
mod cold;
mod delete;
mod drift;
mod edit;
mod floor;
mod flux;
mod hostile;
mod intent;
mod isolation;
mod machine;
mod noop;
mod planes;
mod player;
mod plot;
mod release;
mod report;
mod requests;
mod result;
mod sample;
mod stand;
mod statistics;
mod terminal;
mod watching;

use std::{
    collections::BTreeSet,
    io::{Write, stdout},
    path::{Path, PathBuf},
    pin::Pin,
    process::ExitCode,
};

use anyhow::{Context, Result, anyhow, ensure};
use clap::{Parser, Subcommand, ValueEnum};
use k8s_openapi::jiff::Timestamp;
use kantor_testbed::{assets, operator};

use self::{
    machine::{Machine, Ticks, commit},
    player::Players,
    result::{Case, Run},
    stand::Stand,
    terminal::{asked_to_end, say},
};

/// A load with which nothing should be measured.
const BUSY: f64 = 1.0;
/// Percent of the processors that the host may take away without being mentioned.
const STOLEN: f64 = 0.5;

/// What the bench may be told.
#[derive(Parser)]
#[command(name = "kantor-bench", version, args_conflicts_with_subcommands = true)]
struct Bench {
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
    /// Fail if a goal is missed
    #[arg(long)]
    check: bool,
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
    /// Everything is touched and nothing has changed
    Noop,
    /// The operator ends, and another one begins
    Restart,
    /// A change until it is on the data plane
    Edit,
    /// A change on the data plane until it is repaired
    Drift,
    /// Edits while half of the planes are in trouble
    Isolation,
    /// Credentials change under edits
    Rotate,
    /// Deployments go
    Delete,
    /// Many idle data planes
    Planes,
    /// Many objects in Releases
    Release,
    /// The largest objects that the API accepts
    Hostile,
}

impl Scenario {
    /// Those that go on where cold ends.
    const AFTER_COLD: [Self; 7] =
        [Self::Noop, Self::Restart, Self::Edit, Self::Drift, Self::Isolation, Self::Rotate, Self::Delete];
}

fn main() -> ExitCode {
    let bench = Bench::parse();
    let result = tokio::runtime::Runtime::new().map_err(Into::into).and_then(|runtime| {
        let result = runtime.block_on(run(bench));
        // Ctrl-C during a build: do not wait for the thread that waits for Go; the keeper ends Go.
        runtime.shutdown_background();
        result
    });
    result.unwrap_or_else(|error| {
        say(&format!("{error:#}"));
        ExitCode::FAILURE
    })
}

async fn run(bench: Bench) -> Result<ExitCode> {
    match bench.command {
        Some(BenchCommand::Report { files, project }) => {
            let runs = files.iter().map(|file| Run::read(file)).collect::<Result<Vec<_>>>()?;
            report::write(&project, &runs)?;
            Ok(ExitCode::SUCCESS)
        }
        None => {
            let run = Box::pin(measure(&bench)).await?;
            let missed = run.missed();
            for figure in &missed {
                say(&format!("missed: {} {}: {}", figure.scenario, figure.case, figure.what));
            }
            Ok(if bench.check && !missed.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
        }
    }
}

async fn measure(bench: &Bench) -> Result<Run> {
    if bench.only != [Scenario::Hostile] {
        tokio::task::spawn_blocking(assets::provide_all).await??;
    }
    let program = match &bench.operator {
        Some(program) => program.clone(),
        // It runs no operator.
        None if bench.only == [Scenario::Hostile] => std::env::current_exe().context("find this program")?,
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
    if let Some(load) = machine::load().filter(|load| *load > BUSY) {
        run.remarks.push(format!(
            "THE MACHINE WAS BUSY: its load was {load:.1} before the run, so that times are longer than they should be."
        ));
        say("the machine is busy with something else: times will be longer than they should be");
    }
    run.versions.insert("Kubernetes".to_owned(), assets::KUBERNETES_VERSION.to_owned());
    run.versions.insert("Kantor".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    let scenarios: BTreeSet<Scenario> = if bench.only.is_empty() {
        Scenario::value_variants().iter().copied().collect()
    } else {
        bench.only.iter().copied().collect()
    };
    let place = Place { program: &program, project: &bench.project, scenarios: &scenarios };
    let ticks = Ticks::now();
    let measured = tokio::select! {
        measured = place.all(bench, &mut run) => measured,
        () = asked_to_end() => Err(anyhow!("asked to end; nothing is left running")),
    };
    let stolen = Ticks::now().stolen_since(ticks) * 100.0;
    if stolen >= STOLEN {
        run.remarks
            .push(format!("The machine's host took {stolen:.1} % of the processors away during the run."));
    }
    // What was measured before something failed is not lost.
    writeln!(stdout(), "{}", run.table())?;
    let path = bench.out.clone().unwrap_or_else(|| {
        bench.project.join("bench/results").join(format!("{}.json", date.strftime("%Y-%m-%d-%H%M%S")))
    });
    run.write(&path)?;
    say(&format!("the results are in {}", path.display()));
    measured?;
    // What was measured in part, or elsewhere, is no report.
    if bench.out.is_none() && scenarios.len() == Scenario::value_variants().len() {
        report::write(&bench.project, std::slice::from_ref(&run))?;
    }
    Ok(run)
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
        let plan = Plan::of(bench);
        for (count, planes) in plan.cold {
            ensure!(count >= planes && planes > 0, "there have to be at least as many Deployments as planes");
            let rest = (count, planes) == plan.rest;
            if self.wants(Scenario::Cold) || (rest && self.wants_any(&Scenario::AFTER_COLD)) {
                self.with_deployments(count, planes, rest, run).await?;
            }
        }
        if self.wants(Scenario::Planes) {
            planes::measure(self.program, self.project, plan.planes, run).await?;
        }
        if self.wants(Scenario::Release) {
            let (program, project, objects) = (self.program, self.project, plan.objects);
            release::measure(program, project, objects, run).await?;
            flux::measure(project, objects, run).await?;
        }
        if self.wants(Scenario::Hostile) {
            hostile::measure(self.program, run).await?;
        }
        Ok(())
    }

    fn wants_any(&self, scenarios: &[Scenario]) -> bool {
        scenarios.iter().any(|scenario| self.wants(*scenario))
    }

    /// The scenarios that need Deployments, one after the other on the same clusters.
    async fn with_deployments(&self, count: usize, planes: usize, rest: bool, run: &mut Run) -> Result<()> {
        let case = Case { deployments: count, planes, variant: String::new() };
        say(&format!("N={count} P={planes}: the operator as it is shipped"));
        let mut stand = Stand::start(self.program, self.project, count, planes).await?;
        let cold = cold::deploy(&stand).await?;
        let work = if self.wants(Scenario::Cold) {
            Some(floor::collect(&stand).await.context("read what Kantor wrote")?)
        } else {
            None
        };
        if rest && self.wants_any(&Scenario::AFTER_COLD) {
            self.after_cold(&mut stand, &case, run).await?;
        }
        drop(stand);
        let Some(work) = work else { return Ok(()) };
        say("the floor: a bare client that writes the same");
        let beside = floor::run(&work, self.project).await?;
        cold::report(run, &case, &cold, &beside);
        Ok(())
    }

    /// What goes on where cold ends, with workloads that are ready.
    async fn after_cold(&self, stand: &mut Stand, case: &Case, run: &mut Run) -> Result<()> {
        const EDITS: usize = 100;
        let _players = Players::begin(&stand.ground).await?;
        for kind in ["Deployment", "Endpoint"] {
            stand.ready(kind, stand.count).await?;
        }
        for scenario in Scenario::AFTER_COLD {
            if !self.wants(scenario) {
                continue;
            }
            say(&format!("{scenario:?}").to_lowercase());
            let measuring: Pin<Box<dyn Future<Output = Result<()>> + '_>> = match scenario {
                Scenario::Noop => Box::pin(noop::touch(stand, case, run)),
                Scenario::Restart => Box::pin(noop::restart(stand, case, run)),
                Scenario::Edit => Box::pin(edit::measure(stand, case, EDITS, run)),
                Scenario::Drift => Box::pin(drift::measure(stand, case, EDITS / 2, run)),
                Scenario::Isolation => Box::pin(isolation::measure(stand, case, (3, 4 * EDITS), run)),
                Scenario::Rotate => Box::pin(isolation::rotate(stand, case, 5, run)),
                Scenario::Delete => Box::pin(delete::measure(stand, case, run)),
                Scenario::Cold | Scenario::Planes | Scenario::Release | Scenario::Hostile => continue,
            };
            measuring.await.with_context(|| format!("scenario {scenario:?}"))?;
        }
        Ok(())
    }
}

/// How much is measured.
struct Plan {
    /// Deployments and planes of each cold start.
    cold: Vec<(usize, usize)>,
    /// After which of them the other scenarios go on.
    rest: (usize, usize),
    /// Idle planes.
    planes: usize,
    /// Objects in Releases.
    objects: usize,
}

impl Plan {
    fn of(bench: &Bench) -> Self {
        let one = (bench.n.unwrap_or(100), bench.planes.unwrap_or(2));
        if !bench.full {
            let (planes, objects) = (bench.n.unwrap_or(100), bench.n.unwrap_or(400));
            return Self {
                cold: vec![one],
                rest: one,
                planes: planes.max(2),
                objects: objects.max(2 * release::EACH),
            };
        }
        let counts = bench.n.map_or_else(|| vec![100, 1000, 3000], |n| vec![n]);
        let planes = bench.planes.map_or_else(|| vec![1, 2, 4], |planes| vec![planes]);
        let all = counts.iter().flat_map(|n| planes.iter().map(|p| (*n, *p))).collect::<Vec<_>>();
        let rest = if all.contains(&(1000, 4)) { (1000, 4) } else { all[0] };
        Self { cold: all, rest, planes: 1000, objects: 2000 }
    }
}

/// How a program was built, by the folder that cargo put it into.
fn build(program: &Path) -> &'static str {
    let folder = program.parent().and_then(Path::file_name).unwrap_or_default();
    if folder == "release" { "release" } else { "debug" }
}
