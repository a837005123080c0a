//! The flags of `kantor controller`. Each has an environment variable and a key in the config file: see
//! [`crate::config::sources`].

use std::{
    collections::BTreeSet,
    hash::{BuildHasher, RandomState},
    net::SocketAddr,
    path::PathBuf,
    time::Duration,
};

use anyhow::bail;
use clap::{Args, ValueEnum, builder::TypedValueParser};
use kantor_api::data_plane::PodSecurity;
use kantor_core::{
    duration,
    election::Terms,
    scope::{Controller, Scope},
    settings::{Reach, Settings},
};
use kube::Config;

use crate::{
    client::{
        control_plane::{self, Limits},
        fence::Permit,
    },
    leader::election::Election,
    planes::{AddressPolicy, PlaneOptions},
    telemetry::logging::{LogColor, LogFormat, parse_endpoint, parse_filter},
};

/// Run the operator against the control plane.
///
/// Each flag has an environment variable, KANTOR_ and its name, and a key of its name in the config file. A flag goes
/// before its variable, that before the file.
#[derive(Args, Clone, Debug)]
pub struct ControllerArgs {
    /// YAML file with settings: names of flags as keys, such as planeQps for --plane-qps.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub(super) control_plane: ControlPlaneArgs,
    #[command(flatten)]
    pub(super) planes: PlaneArgs,
    #[command(flatten)]
    pub(super) workloads: WorkloadArgs,
    #[command(flatten)]
    pub(super) endpoints: EndpointArgs,
    #[command(flatten)]
    pub(super) availability: AvailabilityArgs,
    #[command(flatten)]
    pub(super) observability: ObservabilityArgs,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Control plane")]
pub(super) struct ControlPlaneArgs {
    /// Kubeconfig of the control plane. Without one: $KUBECONFIG or ~/.kube/config, else the ServiceAccount of
    /// the pod.
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; its current one if not set. Needs --kubeconfig.
    #[arg(long, value_name = "NAME")]
    pub(super) context: Option<String>,
    /// Namespaces that are looked after, those of organizations and data planes; all if not set.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = name)]
    watch_namespaces: Vec<String>,
    /// Look after the objects with this value of the label openchoreo.dev/instance-id only; without it, after those
    /// without the label. So several operators can share a control plane.
    #[arg(long, value_name = "NAME", value_parser = name)]
    instance_id: Option<String>,
    /// Controllers that run; all if not set. What none of them reads is not watched.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = controller)]
    controllers: Vec<Controller>,
    /// How often each object is looked at again though nothing was heard of it.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time("1s", "24h"))]
    pub(super) resync_interval: Duration,
    /// Longest time that one write to the control plane may take.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time("1s", "10m"))]
    pub(super) write_timeout: Duration,
    /// Longest time that the control plane may take until it begins to answer, or goes on with it. A watch that stands may be
    /// silent.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time("1s", "10m"))]
    read_timeout: Duration,
    /// Requests under way at a time.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    control_plane_concurrency: u32,
    /// Requests per second.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = rate())]
    control_plane_qps: u32,
    /// Requests that may exceed the rate for a moment.
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = rate())]
    control_plane_burst: u32,
    /// How long work in flight may go on after SIGTERM or SIGINT.
    #[arg(long, value_name = "TIME", default_value = "25s", value_parser = time("0s", "10m"))]
    pub(super) shutdown_timeout: Duration,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Data planes")]
pub(super) struct PlaneArgs {
    /// Allow data planes whose API server is on this machine (127.0.0.0/8, ::1).
    #[arg(long)]
    allow_loopback_planes: bool,
    /// How often a connected data plane is asked whether it is still there.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time("1s", "10m"))]
    plane_probe_interval: Duration,
    /// How long it may take to answer that.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time("100ms", "10m"))]
    plane_probe_timeout: Duration,
    /// How long it may take to open a connection to a data plane.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time("100ms", "10m"))]
    plane_connect_timeout: Duration,
    /// Longest time that one call to a data plane may take.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time("1s", "10m"))]
    plane_timeout: Duration,
    /// Calls under way at a time, per data plane.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    plane_concurrency: u32,
    /// Calls per second, per data plane. Servers see to a fair share themselves; this is for those that cannot.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = rate())]
    plane_qps: u32,
    /// Calls that may exceed the rate for a moment, per data plane.
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = rate())]
    plane_burst: u32,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Workloads")]
pub(super) struct WorkloadArgs {
    /// Address of the vault as seen from data planes, for those that do not say.
    #[arg(long, value_name = "URL", default_value = "http://hashicorp-vault:8200")]
    vault_address: String,
    /// Role with which secrets are read from the vault, for data planes that do not say.
    #[arg(long, value_name = "NAME", default_value = "openchoreo-secret-reader-role")]
    vault_role: String,
    /// What the path of every vaultKey begins with, for data planes that do not say, since organizations share the role:
    /// {organization} stands for the organization's name. Empty: any path, so that every organization reads what the role
    /// may read.
    #[arg(long, value_name = "PATH", default_value = "secret/data/{organization}/")]
    vault_path_prefix: String,
    /// How long a task may run.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time("1s", "720h"))]
    task_deadline: Duration,
    /// How often a task that failed is tried again.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(i32).range(0..))]
    task_retries: i32,
    /// How long a finished run of a scheduled task is kept.
    #[arg(long, value_name = "TIME", default_value = "6m", value_parser = time("0s", "8760h"))]
    task_kept: Duration,
    /// Pod Security level of the namespaces that are made on data planes, for those that do not say: what pods there may do.
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = PodSecurityLevel::Baseline)]
    pod_security: PodSecurityLevel,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Endpoints")]
pub(super) struct EndpointArgs {
    /// Namespace of the Gateways, for data planes that do not say.
    #[arg(long, value_name = "NAMESPACE", default_value = "openchoreo-data-plane", value_parser = name)]
    gateway_namespace: String,
    /// Domain of web applications, for data planes that do not say.
    #[arg(long, value_name = "DOMAIN", default_value = "choreoapps.localhost")]
    web_application_domain: String,
    /// Who reaches Endpoints that have no networkVisibilities.
    #[arg(long, value_name = "WHO", value_enum, default_value_t = DefaultVisibility::Organization)]
    default_visibility: DefaultVisibility,
    /// How long the proxies of a gateway are given, twice, when a host name is handed over: to hear of the new route before the
    /// old one is closed, and of that before the old one goes.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time("0s", "10m"))]
    pub(super) handover_grace: Duration,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "High availability")]
pub(super) struct AvailabilityArgs {
    /// Whether to lead alone: of several operators, one writes and the others stand by.
    #[arg(
        long,
        value_name = "BOOL",
        default_value_t = true,
        num_args = 0..=1,
        default_missing_value = "true",
        action = clap::ArgAction::Set
    )]
    pub(super) leader_elect: bool,
    /// Name of the Lease that tells who leads; without it, "kantor", and the instance behind it if there is one.
    #[arg(long, value_name = "NAME", value_parser = name)]
    lease_name: Option<String>,
    /// Namespace of the Lease; without it, that of the pod, or else "default".
    #[arg(long, value_name = "NAMESPACE", value_parser = name)]
    lease_namespace: Option<String>,
    /// How long a Lease has to stay unchanged until another operator takes it.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = time("2s", "1h"))]
    lease_duration: Duration,
    /// How long an operator goes on writing after it last renewed its Lease.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time("1s", "1h"))]
    lease_renewal: Duration,
    /// How often the Lease is looked at or renewed.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time("50ms", "10m"))]
    lease_retry: Duration,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Observability")]
pub(super) struct ObservabilityArgs {
    /// Address that serves /livez, /readyz and /metrics. Port 0 takes a free one; the log says which.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8081")]
    pub(super) listen: SocketAddr,
    /// Further address that serves /metrics, and nothing else.
    #[arg(long, value_name = "ADDRESS")]
    pub(super) metrics_listen: Option<SocketAddr>,
    /// What is logged: error, warn, info, debug, trace, or a filter such as "info,kantor::cache=debug".
    // kube logs bodies of errors that are not JSON: what a data plane's server says is not ours to repeat. Of watches that fail
    // it prints the whole answer as a structure, beside the line in which this operator says what is wrong.
    #[arg(
        long,
        value_name = "FILTER",
        default_value = "info,kube_client=error,kube_runtime=error",
        value_parser = filter
    )]
    pub(super) log: String,
    /// How it is logged.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub(super) log_format: LogFormat,
    /// Whether lines of text have colours. "auto": if they are written to a terminal, and $NO_COLOR is not set.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = LogColor::Auto)]
    pub(super) log_color: LogColor,
    /// Collector that traces are sent to, by OTLP over HTTP, such as http://localhost:4318. Without it
    /// $OTEL_EXPORTER_OTLP_ENDPOINT; else there are no traces.
    #[arg(long, value_name = "URL", value_parser = parse_endpoint)]
    pub(super) otlp_endpoint: Option<String>,
}

/// What pods may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PodSecurityLevel {
    /// What the cluster has as its default: namespaces get no label.
    None,
    /// Everything.
    Privileged,
    /// What gives no power over the node.
    Baseline,
    /// What is recommended: not as root, without privileges.
    Restricted,
}

impl From<PodSecurityLevel> for PodSecurity {
    fn from(level: PodSecurityLevel) -> Self {
        match level {
            PodSecurityLevel::None => Self::None,
            PodSecurityLevel::Privileged => Self::Privileged,
            PodSecurityLevel::Baseline => Self::Baseline,
            PodSecurityLevel::Restricted => Self::Restricted,
        }
    }
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

impl ControllerArgs {
    /// What is wrong with settings that are fine one by one.
    pub fn check(&self) -> anyhow::Result<()> {
        if self.control_plane.context.is_some() && self.control_plane.kubeconfig.is_none() {
            bail!("--context needs --kubeconfig: say which file it is a context of");
        }
        if let Some(problem) = self.terms().problem() {
            bail!("{problem}: change --lease-duration, --lease-renewal or --lease-retry");
        }
        Ok(())
    }

    pub(super) fn terms(&self) -> Terms {
        let AvailabilityArgs { lease_duration, lease_renewal, lease_retry, .. } = self.availability;
        Terms { lease: lease_duration, renewal: lease_renewal, retry: lease_retry }
    }

    pub(super) fn scope(&self) -> Scope {
        let mut scope = Scope::default();
        let ControlPlaneArgs { controllers, watch_namespaces, instance_id, .. } = &self.control_plane;
        if !controllers.is_empty() {
            scope.controllers = controllers.iter().copied().collect();
        }
        scope.namespaces = watch_namespaces.iter().cloned().collect::<BTreeSet<_>>();
        scope.instance.clone_from(instance_id);
        scope
    }

    /// What the control plane is asked for.
    pub(super) fn limits(&self) -> anyhow::Result<Limits> {
        let args = &self.control_plane;
        Ok(Limits {
            concurrency: usize::try_from(args.control_plane_concurrency)?,
            qps: args.control_plane_qps,
            burst: args.control_plane_burst,
            read: args.read_timeout,
            write: args.write_timeout,
        })
    }

    pub(super) fn addresses(&self) -> AddressPolicy {
        AddressPolicy { allow_loopback: self.planes.allow_loopback_planes }
    }

    pub(super) fn plane_options(&self, permit: &'static Permit) -> anyhow::Result<PlaneOptions> {
        let planes = &self.planes;
        Ok(PlaneOptions {
            probe_interval: planes.plane_probe_interval,
            probe_timeout: planes.plane_probe_timeout,
            connect_timeout: planes.plane_connect_timeout,
            deadline: planes.plane_timeout,
            concurrency: usize::try_from(planes.plane_concurrency)?,
            qps: planes.plane_qps,
            burst: planes.plane_burst,
            addresses: self.addresses(),
            permit,
            ..PlaneOptions::default()
        })
    }

    pub(super) fn settings(&self) -> anyhow::Result<Settings> {
        let (workloads, endpoints) = (&self.workloads, &self.endpoints);
        Ok(Settings {
            vault_address: workloads.vault_address.clone(),
            vault_role: workloads.vault_role.clone(),
            vault_path_prefix: workloads.vault_path_prefix.clone(),
            task_deadline: i64::try_from(workloads.task_deadline.as_secs())?,
            task_retries: workloads.task_retries,
            task_kept: i32::try_from(workloads.task_kept.as_secs())?,
            gateway_namespace: endpoints.gateway_namespace.clone(),
            web_application_domain: endpoints.web_application_domain.clone(),
            default_visibility: endpoints.default_visibility.into(),
            pod_security: workloads.pod_security.into(),
        })
    }

    /// This operator as one of several that may lead.
    pub(super) fn candidate(&self, config: &Config, permit: &'static Permit) -> anyhow::Result<Election> {
        // A client of its own: renewals wait for nobody, and are allowed to those who do not lead yet.
        let client = control_plane::electing(&self.limits()?, config)?;
        let in_pod = std::fs::read_to_string("/var/run/secrets/kubernetes.io/serviceaccount/namespace").ok();
        let namespace = self.availability.lease_namespace.clone().or(in_pod);
        let namespace = namespace.unwrap_or_else(|| "default".to_owned());
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "kantor".to_owned());
        // Two operators of one host, or one after the other, are different ones.
        let unique = RandomState::new().hash_one(std::process::id());
        let me = format!("{host}_{unique:016x}");
        let name = self.lease_name();
        Ok(Election::new(&client, (namespace.trim(), &name), me, self.terms(), permit))
    }

    fn lease_name(&self) -> String {
        let instance = self.control_plane.instance_id.as_deref();
        let of_instance = || instance.map_or_else(|| "kantor".to_owned(), |id| format!("kantor-{id}"));
        self.availability.lease_name.clone().unwrap_or_else(of_instance)
    }
}

fn filter(text: &str) -> Result<String, String> {
    parse_filter(text).map(|_| text.to_owned())
}

fn controller(name: &str) -> Result<Controller, String> {
    Controller::named(name).ok_or_else(|| {
        let names: Vec<_> = Controller::all().map(Controller::name).collect();
        format!("expected one of {}", names.join(", "))
    })
}

/// A name as Kubernetes has them in labels and for namespaces.
fn name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let edge = |c: Option<char>| c.is_some_and(|c| c != '-' && fits(c));
    let valid = text.len() <= 63
        && text.chars().all(fits)
        && edge(text.chars().next())
        && edge(text.chars().next_back());
    if valid {
        Ok(text.to_owned())
    } else {
        Err("expected lower-case letters, digits and dashes, 63 at most, with a letter or digit at both ends"
            .to_owned())
    }
}

fn rate() -> impl TypedValueParser<Value = u32> {
    clap::value_parser!(u32).range(1..=100_000)
}

/// A time between two others. A number alone is one of seconds.
fn time(least: &'static str, most: &'static str) -> impl Fn(&str) -> Result<Duration, String> + Clone {
    move |text| {
        let with_unit =
            if text.bytes().all(|c| c.is_ascii_digit()) { format!("{text}s") } else { text.to_owned() };
        let bounds = duration::parse(least).zip(duration::parse(most));
        duration::parse(&with_unit)
            .filter(|_| !text.is_empty())
            .filter(|time| bounds.is_some_and(|(least, most)| (least..=most).contains(time)))
            .ok_or_else(|| format!("expected a time from {least} to {most}, such as 30s, 1m30s or 500ms"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_bounds() {
        let parse = time("1s", "10m");
        assert_eq!(parse("90"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("1m30s"), Ok(Duration::from_secs(90)));
        for bad in ["", "0", "11m", "1d", "-1s", "s", "1e3"] {
            let refused = parse(bad).unwrap_err();
            assert!(refused.contains("from 1s to 10m"), "{bad}: {refused}");
        }
    }

    #[test]
    fn names_are_those_of_kubernetes() {
        for good in ["a", "blue-2", "0"] {
            assert_eq!(name(good).as_deref(), Ok(good));
        }
        for bad in ["", "-a", "a-", "A", "a.b", "a b", &"a".repeat(64)] {
            assert!(name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn controllers_that_are_not_there_are_answered_with_those_that_are() {
        assert_eq!(controller("release").map(Controller::name), Ok("release"));
        let refused = controller("releases").unwrap_err();
        assert!(refused.contains("organization, data-plane") && refused.contains("release"), "{refused}");
    }
}
