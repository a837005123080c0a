//! `kantor controller`: the operator.

mod args;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use clap::Args as _;
use kantor_core::scope::Scope;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::Notify,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{error, info, warn};

pub use self::args::ControllerArgs;
use crate::{
    VERSION,
    apply::{Engine, Writer},
    cache::{SyncBoard, World, await_definitions, await_outdated},
    client::{
        control_plane,
        fence::{ALWAYS, Permit},
    },
    config::sources,
    controllers::{
        self, Context, Grace, Interest,
        plane_events::GatewayBook,
        shared::{credentials_cache::PlaneBook, secrets::SecretBook},
    },
    leader::election::Election,
    planes::Planes,
    runtime::{Runtime, admission::StrandedTurns, events::Events, keyed_mutex::Lines},
    server::{self, Health},
    telemetry::{logging::Telemetry, metrics::Metrics},
};

/// The command with its flags and their environment variables.
pub fn command() -> clap::Command {
    sources::with_environment(ControllerArgs::augment_args(clap::Command::new("controller")))
}

/// Runs the operator until it is asked to end.
pub async fn run(args: ControllerArgs) -> anyhow::Result<()> {
    args.check()?;
    let observability = &args.observability;
    let telemetry = Telemetry::start(
        &observability.log,
        observability.log_format,
        observability.log_color,
        observability.otlp_endpoint.as_deref(),
    )?;
    info!(version = VERSION, "kantor starts");
    let config = control_plane_config(&args).await?;
    info!(control_plane = %config.cluster_url, "control plane");
    let permit: &'static Permit = if args.availability.leader_elect { &LEADERSHIP } else { &ALWAYS };
    let metrics = Metrics::default();
    let client = control_plane::working(&args.limits()?, &config, permit, metrics.control_plane_calls())?;
    // Before it says that it is there: from then on it may be asked to end.
    let stop = stop_on_signal()?;
    telemetry.toggle_on_signal()?;
    let listener = bind(observability.listen, "--listen").await?;
    info!(address = %listener.local_addr()?, "serving /livez, /readyz and /metrics");

    // The server outlives the work: probes are answered until the last write has ended.
    let served = CancellationToken::new();
    let (work, background) = (TaskTracker::new(), TaskTracker::new());
    let sync = SyncBoard::default();
    let health = Health { sync: sync.clone(), stop: stop.clone() };
    if let Some(address) = observability.metrics_listen {
        let listener = bind(address, "--metrics-listen").await?;
        info!(address = %listener.local_addr()?, "serving /metrics");
        background.spawn(server::serve_metrics(listener, metrics.clone(), served.clone()));
    }
    background.spawn(server::serve(listener, health, metrics.clone(), telemetry.clone(), served.clone()));
    let mut election = None;
    if args.availability.leader_elect {
        // Nothing is read before it leads: what is seen then is what the one before left.
        let mut candidate = args.candidate(&config, &LEADERSHIP)?;
        if stop.run_until_cancelled(Box::pin(candidate.win())).await.is_some() {
            metrics.leads(true);
            election = Some(background.spawn(lead(candidate, served.clone())));
        }
    } else {
        metrics.leads(true);
    }
    let scope = args.scope();
    stop.run_until_cancelled(await_definitions(&client, &scope, &sync)).await;
    if !stop.is_cancelled() {
        let (world, wakes) = World::start(&client, &scope, sync, &metrics, &background, &served);
        let planes =
            Planes::new(args.plane_options(permit)?, Some(config), metrics.clone(), &background, &served);
        let doubt = Arc::new(Notify::new());
        background.spawn(end_when_outdated(client.clone(), scope.clone(), doubt.clone(), served.clone()));
        let writer = Writer::new(client.clone(), args.control_plane.write_timeout).doubting(doubt);
        let context = context(&args, (&client, writer), world, planes, scope, metrics, (&work, &stop))?;
        controllers::start(&context, wakes, &work, &stop);
        // The controllers have it; what it sends beside them ends with the last of them.
        drop(context);
        work.close();
        finish(&work, &stop, args.control_plane.shutdown_timeout).await;
    }

    served.cancel();
    if let Some(election) = election {
        // Another one goes on when the last write of this one has ended.
        election.await.ok();
    }
    background.close();
    background.wait().await;
    info!("kantor ends");
    telemetry.shutdown().await;
    Ok(())
}

async fn bind(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    let bound = TcpListener::bind(address).await;
    bound.with_context(|| format!("cannot listen on {address}; choose another address with {flag}"))
}

/// What the controllers share.
fn context(
    args: &ControllerArgs,
    (client, writer): (&Client, Writer),
    world: World,
    planes: Planes,
    scope: Scope,
    metrics: Metrics,
    (work, stop): (&TaskTracker, &CancellationToken),
) -> anyhow::Result<Arc<Context>> {
    let teller = Writer::new(client.clone(), args.control_plane.write_timeout);
    Ok(Arc::new(Context {
        runtime: Runtime {
            world,
            writer,
            planes,
            stranded: StrandedTurns::default(),
            stop: stop.clone(),
            resync: args.control_plane.resync_interval,
            events: Events::new(teller, std::env::var("HOSTNAME").ok(), work),
            metrics,
        },
        client: client.clone(),
        addresses: args.addresses(),
        book: PlaneBook::default(),
        engine: Engine::default(),
        releases: Interest::default(),
        secrets: SecretBook::default(),
        shared: Lines::default(),
        grace: Grace::new(args.endpoints.handover_grace),
        gateways: GatewayBook::default(),
        scope,
        settings: args.settings()?,
    }))
}

/// Waits for the end of the work, and not for longer than `patience` after it was asked to end.
async fn finish(work: &TaskTracker, stop: &CancellationToken, patience: Duration) {
    let expired = async {
        stop.cancelled().await;
        tokio::time::sleep(patience).await;
    };
    tokio::select! {
        () = work.wait() => {}
        () = expired => warn!("some work has not ended in time and is given up; the next operator goes on with it"),
    }
}

/// Leave to write, of an operator that may have to stand by.
static LEADERSHIP: Permit = Permit::ended();

/// Leads until `end`, and then gives up the Lease. An operator that no longer leads ends at once: whatever it was about to
/// do is somebody else's by now.
async fn lead(mut candidate: Election, end: CancellationToken) {
    if end.run_until_cancelled(Box::pin(candidate.keep())).await.is_some() {
        error!("lost the lease: another operator may lead by now; ending");
        std::process::exit(1);
    }
    candidate.release().await;
}

/// Ends the process at once when the custom resource definitions were exchanged for older ones: the API server would not
/// take what is to be recorded. The next start waits for definitions that fit.
async fn end_when_outdated(client: Client, scope: Scope, doubt: Arc<Notify>, end: CancellationToken) {
    let outdated = Box::pin(await_outdated(&client, &scope, &doubt));
    if let Some(why) = end.run_until_cancelled(outdated).await {
        error!("{why}; ending: nothing is written until they are installed");
        std::process::exit(1);
    }
}

async fn control_plane_config(args: &ControllerArgs) -> anyhow::Result<Config> {
    let mut config = match &args.control_plane.kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?;
            let options = KubeConfigOptions {
                context: args.control_plane.context.clone(),
                ..KubeConfigOptions::default()
            };
            Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .with_context(|| format!("cannot use the kubeconfig {}", path.display()))?
        }
        None => Config::infer()
            .await
            .context("found no control plane: run in a pod, or name a kubeconfig with --kubeconfig")?,
    };
    config.connect_timeout = Some(Duration::from_secs(5));
    // Retries are ours, per object and with a deadline: kube's would wait in silence.
    config.default_retry = false;
    Ok(config)
}

/// A token that the first SIGTERM or SIGINT cancels; the second ends the process at once.
fn stop_on_signal() -> anyhow::Result<CancellationToken> {
    let stop = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stopping = stop.clone();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if stopping.is_cancelled() {
                warn!("second signal: ending at once");
                std::process::exit(130);
            }
            info!("asked to end: finishing the work in flight");
            stopping.cancel();
        }
    });
    Ok(stop)
}
