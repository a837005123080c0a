//! `kantor controller`: the operator.

use std::{
    hash::{BuildHasher, RandomState},
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use kube::{
    Client, Config,
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig},
    runtime::events::{Recorder, Reporter},
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{error, info, warn};

use super::telemetry::{self, LogFormat, Telemetry, parse_endpoint};
use crate::{
    VERSION,
    apply::{Engine, Writer},
    controllers::{self, Context, GatewayBook, Interest, PlaneBook, SecretBook},
    core::{
        election::Terms,
        settings::{Reach, Settings},
    },
    election::Election,
    metrics::Metrics,
    permit::{ALWAYS, Permit, gate},
    planes::{AddressPolicy, PlaneOptions, Planes},
    server::{self, Health},
    world::{SyncBoard, World},
};

/// Run the operator against the control plane.
#[derive(Args, Debug)]
pub struct ControllerArgs {
    /// Kubeconfig of the control plane. Without one: $KUBECONFIG or ~/.kube/config, else the ServiceAccount of
    /// the pod.
    #[arg(long, env = "KANTOR_KUBECONFIG", value_name = "FILE", help_heading = "Control plane")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; its current one if not set.
    #[arg(
        long,
        env = "KANTOR_CONTEXT",
        value_name = "NAME",
        help_heading = "Control plane",
        requires = "kubeconfig"
    )]
    context: Option<String>,
    /// Longest time that one write to the control plane may take, in seconds.
    #[arg(
        long,
        env = "KANTOR_WRITE_TIMEOUT",
        value_name = "SECONDS",
        default_value_t = 30,
        value_parser = clap::value_parser!(u64).range(1..=600),
        help_heading = "Control plane"
    )]
    write_timeout: u64,
    /// Allow data planes whose API server is on this machine (127.0.0.0/8, ::1).
    #[arg(long, env = "KANTOR_ALLOW_LOOPBACK_PLANES", help_heading = "Data planes")]
    allow_loopback_planes: bool,
    /// How often a connected data plane is asked whether it is still there, in seconds.
    #[arg(
        long,
        env = "KANTOR_PLANE_PROBE_INTERVAL",
        value_name = "SECONDS",
        default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(1..=600),
        help_heading = "Data planes"
    )]
    plane_probe_interval: u64,
    /// Longest time that one call to a data plane may take, in seconds.
    #[arg(
        long,
        env = "KANTOR_PLANE_TIMEOUT",
        value_name = "SECONDS",
        default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(1..=600),
        help_heading = "Data planes"
    )]
    plane_timeout: u64,
    /// Calls under way at a time, per data plane.
    #[arg(
        long,
        env = "KANTOR_PLANE_CONCURRENCY",
        value_name = "N",
        default_value_t = 32,
        value_parser = clap::value_parser!(u32).range(1..=1024),
        help_heading = "Data planes"
    )]
    plane_concurrency: u32,
    /// Calls per second, per data plane.
    #[arg(
        long,
        env = "KANTOR_PLANE_QPS",
        value_name = "N",
        default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(1..=10_000),
        help_heading = "Data planes"
    )]
    plane_qps: u32,
    /// Calls that may exceed the rate for a moment, per data plane.
    #[arg(
        long,
        env = "KANTOR_PLANE_BURST",
        value_name = "N",
        default_value_t = 200,
        value_parser = clap::value_parser!(u32).range(1..=10_000),
        help_heading = "Data planes"
    )]
    plane_burst: u32,
    /// Address of the vault as seen from data planes, for those that do not say.
    #[arg(
        long,
        env = "KANTOR_VAULT_ADDRESS",
        value_name = "URL",
        default_value = "http://hashicorp-vault:8200",
        help_heading = "Workloads"
    )]
    vault_address: String,
    /// Role with which secrets are read from the vault, for data planes that do not say.
    #[arg(
        long,
        env = "KANTOR_VAULT_ROLE",
        value_name = "NAME",
        default_value = "openchoreo-secret-reader-role",
        help_heading = "Workloads"
    )]
    vault_role: String,
    /// How long a task may run, in seconds.
    #[arg(
        long,
        env = "KANTOR_TASK_DEADLINE",
        value_name = "SECONDS",
        default_value_t = 300,
        value_parser = clap::value_parser!(i64).range(1..),
        help_heading = "Workloads"
    )]
    task_deadline: i64,
    /// How often a task that failed is tried again.
    #[arg(
        long,
        env = "KANTOR_TASK_RETRIES",
        value_name = "N",
        default_value_t = 4,
        value_parser = clap::value_parser!(i32).range(0..),
        help_heading = "Workloads"
    )]
    task_retries: i32,
    /// How long a finished run of a scheduled task is kept, in seconds.
    #[arg(
        long,
        env = "KANTOR_TASK_KEPT",
        value_name = "SECONDS",
        default_value_t = 360,
        value_parser = clap::value_parser!(i32).range(0..),
        help_heading = "Workloads"
    )]
    task_kept: i32,
    /// Namespace of the Gateways, for data planes that do not say.
    #[arg(
        long,
        env = "KANTOR_GATEWAY_NAMESPACE",
        value_name = "NAMESPACE",
        default_value = "openchoreo-data-plane",
        help_heading = "Endpoints"
    )]
    gateway_namespace: String,
    /// Domain of web applications, for data planes that do not say.
    #[arg(
        long,
        env = "KANTOR_WEB_APPLICATION_DOMAIN",
        value_name = "DOMAIN",
        default_value = "choreoapps.localhost",
        help_heading = "Endpoints"
    )]
    web_application_domain: String,
    /// Who reaches Endpoints that have no networkVisibilities.
    #[arg(
        long,
        env = "KANTOR_DEFAULT_VISIBILITY",
        value_name = "WHO",
        value_enum,
        default_value_t = DefaultVisibility::Organization,
        help_heading = "Endpoints"
    )]
    default_visibility: DefaultVisibility,
    /// Whether to lead alone: of several operators, one writes and the others stand by.
    #[arg(
        long,
        env = "KANTOR_LEADER_ELECT",
        value_name = "BOOL",
        default_value_t = true,
        num_args = 0..=1,
        default_missing_value = "true",
        action = clap::ArgAction::Set,
        help_heading = "High availability"
    )]
    leader_elect: bool,
    /// Name of the Lease that tells who leads.
    #[arg(
        long,
        env = "KANTOR_LEASE_NAME",
        value_name = "NAME",
        default_value = "kantor",
        help_heading = "High availability"
    )]
    lease_name: String,
    /// Namespace of the Lease; without it, that of the pod, or else "default".
    #[arg(
        long,
        env = "KANTOR_LEASE_NAMESPACE",
        value_name = "NAMESPACE",
        help_heading = "High availability"
    )]
    lease_namespace: Option<String>,
    /// How long a Lease has to stay unchanged until another operator takes it, in seconds.
    #[arg(
        long,
        env = "KANTOR_LEASE_DURATION",
        value_name = "SECONDS",
        default_value_t = 15,
        value_parser = clap::value_parser!(u64).range(2..=3600),
        help_heading = "High availability"
    )]
    lease_duration: u64,
    /// How long an operator goes on writing after it last renewed its Lease, in seconds.
    #[arg(
        long,
        env = "KANTOR_LEASE_RENEWAL",
        value_name = "SECONDS",
        default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(1..=3600),
        help_heading = "High availability"
    )]
    lease_renewal: u64,
    /// How often the Lease is looked at or renewed, in milliseconds.
    #[arg(
        long,
        env = "KANTOR_LEASE_RETRY",
        value_name = "MILLISECONDS",
        default_value_t = 2000,
        value_parser = clap::value_parser!(u64).range(50..=600_000),
        help_heading = "High availability"
    )]
    lease_retry: u64,
    /// Address that serves /livez, /readyz and /metrics. Port 0 takes a free one; the log says which.
    #[arg(
        long,
        env = "KANTOR_LISTEN",
        value_name = "ADDRESS",
        default_value = "0.0.0.0:8081",
        help_heading = "Observability"
    )]
    listen: SocketAddr,
    /// What is logged: error, warn, info, debug, trace, or a filter such as "info,kantor::world=debug".
    // kube logs bodies of errors that are not JSON: what a data plane's server says is not ours to repeat.
    #[arg(
        long,
        env = "KANTOR_LOG",
        value_name = "FILTER",
        default_value = "info,kube_client=error",
        value_parser = parse_filter,
        help_heading = "Observability"
    )]
    log: String,
    /// How it is logged.
    #[arg(
        long,
        env = "KANTOR_LOG_FORMAT",
        value_name = "FORMAT",
        value_enum,
        default_value_t = LogFormat::Text,
        help_heading = "Observability"
    )]
    log_format: LogFormat,
    /// Collector that traces are sent to, by OTLP over HTTP, such as http://localhost:4318. Without it
    /// $OTEL_EXPORTER_OTLP_ENDPOINT; else there are no traces.
    #[arg(
        long,
        env = "KANTOR_OTLP_ENDPOINT",
        value_name = "URL",
        value_parser = parse_endpoint,
        help_heading = "Observability"
    )]
    otlp_endpoint: Option<String>,
}

/// Who reaches an Endpoint that does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DefaultVisibility {
    /// The organization, through the internal gateway.
    Organization,
    /// Everybody, through the external gateway.
    Public,
}

impl From<DefaultVisibility> for Reach {
    fn from(visibility: DefaultVisibility) -> Self {
        match visibility {
            DefaultVisibility::Organization => Self::Organization,
            DefaultVisibility::Public => Self::Public,
        }
    }
}

fn parse_filter(text: &str) -> Result<String, String> {
    telemetry::parse_filter(text).map(|_| text.to_owned())
}

/// Runs the operator until it is asked to end.
pub async fn run(args: ControllerArgs) -> anyhow::Result<()> {
    let telemetry = Telemetry::start(&args.log, args.log_format, args.otlp_endpoint.as_deref())?;
    info!(version = VERSION, "kantor starts");
    let config = control_plane_config(&args).await?;
    info!(control_plane = %config.cluster_url, "control plane");
    let terms = args.terms()?;
    let permit: &'static Permit = if args.leader_elect { &LEADERSHIP } else { &ALWAYS };
    let metrics = Metrics::default();
    let client = ClientBuilder::try_from(config.clone())
        .context("cannot make a client of the control plane's configuration")?
        .with_layer(&metrics.control_plane_calls())
        .with_layer(&gate(permit))
        .build();
    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("cannot listen on {}; choose another address with --listen", args.listen))?;
    info!(address = %listener.local_addr()?, "serving /livez, /readyz and /metrics");

    let stop = stop_on_signal()?;
    telemetry.toggle_on_signal()?;
    // The server outlives the work: probes are answered until the last write has ended.
    let served = CancellationToken::new();
    let (work, background) = (TaskTracker::new(), TaskTracker::new());
    let sync = SyncBoard::default();
    let health = Health { sync: sync.clone(), stop: stop.clone() };
    background.spawn(server::serve(listener, health, metrics.clone(), telemetry.clone(), served.clone()));
    let mut election = None;
    if args.leader_elect {
        // Nothing is read before it leads: what is seen then is what the one before left.
        let mut candidate = args.candidate(&config, terms)?;
        if stop.run_until_cancelled(candidate.win()).await.is_some() {
            metrics.leads(true);
            election = Some(background.spawn(lead(candidate, served.clone())));
        }
    } else {
        metrics.leads(true);
    }
    let (world, wakes) = World::start(&client, sync, &metrics, &background, &served);

    let addresses = AddressPolicy { allow_loopback: args.allow_loopback_planes };
    let options = PlaneOptions {
        probe_interval: Duration::from_secs(args.plane_probe_interval),
        deadline: Duration::from_secs(args.plane_timeout),
        concurrency: usize::try_from(args.plane_concurrency)?,
        qps: args.plane_qps,
        burst: args.plane_burst,
        addresses,
        permit,
        ..PlaneOptions::default()
    };
    let planes = Planes::new(options, Some(config), metrics.clone(), &background, &served);
    let reporter = Reporter { controller: "kantor".to_owned(), instance: std::env::var("HOSTNAME").ok() };
    let context = Arc::new(Context {
        world,
        client: client.clone(),
        planes,
        addresses,
        book: PlaneBook::default(),
        engine: Engine::default(),
        releases: Interest::default(),
        secrets: SecretBook::default(),
        gateways: GatewayBook::default(),
        settings: Settings {
            vault_address: args.vault_address,
            vault_role: args.vault_role,
            task_deadline: args.task_deadline,
            task_retries: args.task_retries,
            task_kept: args.task_kept,
            gateway_namespace: args.gateway_namespace,
            web_application_domain: args.web_application_domain,
            default_visibility: args.default_visibility.into(),
        },
        writer: Writer::new(client.clone(), Duration::from_secs(args.write_timeout)),
        events: Recorder::new(client, reporter),
        metrics,
    });
    if !stop.is_cancelled() {
        controllers::start(&context, wakes, &work, &stop);
    }
    work.close();
    work.wait().await;

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

/// Leave to write, of an operator that may have to stand by.
static LEADERSHIP: Permit = Permit::ended();

/// Leads until `end`, and then gives up the Lease. An operator that no longer leads ends at once: whatever it was about to
/// do is somebody else's by now.
async fn lead(mut candidate: Election, end: CancellationToken) {
    if end.run_until_cancelled(candidate.keep()).await.is_some() {
        error!("lost the lease: another operator may lead by now; ending");
        std::process::exit(1);
    }
    candidate.release().await;
}

impl ControllerArgs {
    fn terms(&self) -> anyhow::Result<Terms> {
        let terms = Terms {
            lease: Duration::from_secs(self.lease_duration),
            renewal: Duration::from_secs(self.lease_renewal),
            retry: Duration::from_millis(self.lease_retry),
        };
        match terms.problem() {
            Some(problem) => bail!("{problem}: change --lease-duration, --lease-renewal or --lease-retry"),
            None => Ok(terms),
        }
    }

    /// This operator as one of several that may lead.
    fn candidate(&self, config: &Config, terms: Terms) -> anyhow::Result<Election> {
        // A client of its own: renewals wait for nobody, and are allowed to those who do not lead yet.
        let client = Client::try_from(config.clone())
            .context("cannot make a client of the control plane's configuration")?;
        let in_pod = std::fs::read_to_string("/var/run/secrets/kubernetes.io/serviceaccount/namespace").ok();
        let namespace = self.lease_namespace.clone().or(in_pod).unwrap_or_else(|| "default".to_owned());
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "kantor".to_owned());
        // Two operators of one host, or one after the other, are different ones.
        let unique = RandomState::new().hash_one(std::process::id());
        let me = format!("{host}_{unique:016x}");
        let at = (namespace.trim(), self.lease_name.as_str());
        Ok(Election::new(&client, at, me, terms, &LEADERSHIP))
    }
}

async fn control_plane_config(args: &ControllerArgs) -> anyhow::Result<Config> {
    let mut config = match &args.kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?;
            let options = KubeConfigOptions { context: args.context.clone(), ..KubeConfigOptions::default() };
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
