//! All metrics, declared once: what is registered, documented, drawn and alerted on comes from here.

use prometheus_client::{metrics::MetricType, registry::Metric, registry::Registry};

/// What kind of number a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Only grows, until the process ends.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by size: `_bucket`, `_sum` and `_count`.
    Histogram,
    /// Always 1; its labels say what there is to say.
    Info,
}

impl Type {
    /// Its name in OpenMetrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }
}

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name as it is scraped; those of histograms have `_bucket`, `_sum` and `_count` after it.
    pub name: &'static str,
    /// What kind of number it is.
    pub kind: Type,
    /// Its labels, and what their values are.
    pub labels: &'static [(&'static str, &'static str)],
    /// What it tells.
    pub help: &'static str,
}

impl Entry {
    /// The name without what the encoder puts after it.
    pub(super) fn family(&self) -> &'static str {
        let suffix = match self.kind {
            Type::Counter => "_total",
            Type::Info => "_info",
            Type::Gauge | Type::Histogram => "",
        };
        self.name.strip_suffix(suffix).unwrap_or(self.name)
    }

    pub(super) fn register(&self, registry: &mut Registry, metric: impl Metric) {
        registry.register(self.family(), self.help, metric);
    }

    pub(super) const fn metric_type(&self) -> MetricType {
        match self.kind {
            Type::Counter => MetricType::Counter,
            Type::Gauge => MetricType::Gauge,
            Type::Histogram => MetricType::Histogram,
            Type::Info => MetricType::Info,
        }
    }

    /// The names under which its samples are scraped.
    pub fn series(&self) -> Vec<String> {
        match self.kind {
            Type::Histogram => {
                ["_bucket", "_sum", "_count"].map(|part| format!("{}{part}", self.name)).into()
            }
            Type::Counter | Type::Gauge | Type::Info => vec![self.name.to_owned()],
        }
    }
}

macro_rules! table {
    ($($title:literal { $($entry:ident = $kind:ident $name:literal [$($label:literal $values:literal),*] $help:literal;)+ })+) => {
        $($(pub(super) const $entry: Entry =
            Entry { name: $name, kind: Type::$kind, labels: &[$(($label, $values)),*], help: $help };)+)+

        /// All metrics, by what they are about.
        pub const SECTIONS: &[(&str, &[Entry])] = &[$(($title, &[$($entry),+])),+];
    };
}

table! {
    "Reconciles" {
        RECONCILES = Counter "kantor_reconciles_total"
            ["controller" "kind of the objects, such as `deployment`", "result" "`success`, `conflict`, `error`"]
            "Reconciles";
        RECONCILE_DURATION = Histogram "kantor_reconcile_duration_seconds" ["controller" "as above"]
            "How long reconciles took, with their wait for a turn on the data plane and for its lists";
        RECONCILE_WAIT = Histogram "kantor_reconcile_wait_seconds" ["controller" "as above"]
            "How long objects waited from being woken until their reconcile began";
    }
    "Objects of the control plane" {
        OBJECTS = Gauge "kantor_objects"
            ["kind" "such as `Deployment`", "ready" "status of the condition `Ready`: `true`, `false`, `unknown`, or `none` without it"]
            "Objects of the control plane";
        CLAIMS = Gauge "kantor_hostname_claims"
            ["state" "`held`; `waiting`: Endpoints that wait for a name that another one holds"]
            "Host names that are claimed";
        WATCH_SYNCED = Gauge "kantor_watch_synced" ["kind" "such as `projects.openchoreo.dev`"]
            "Whether a kind of the control plane is followed: 0 while it cannot be listed or watched";
        WATCH_RESTARTS = Counter "kantor_watch_restarts_total" ["kind" "as above"]
            "Watches of the control plane that ended by an error and were begun anew";
        CONTROL_PLANE_CALLS = Counter "kantor_control_plane_calls_total"
            ["verb" "`get`, `list`, `watch`, `create`, `update`, `patch`, `apply`, `delete`",
             "result" "`ok`, `conflict` (409), `not_found` (404), `throttled` (429), `refused` (other 4xx), `error` (5xx), `timeout` (given up), `unreachable`"]
            "Requests to the control plane, but for those of the leader election";
        CONTROL_PLANE_IN_FLIGHT = Gauge "kantor_control_plane_calls_in_flight" []
            "Requests to the control plane that have not been answered yet";
    }
    "Data planes" {
        PLANE_CONNECTED = Gauge "kantor_plane_connected" ["data_plane" "namespace/name of the DataPlane"]
            "Whether a data plane answers. One that does not is left alone until it does";
        PLANE_LAST_CONTACT = Gauge "kantor_plane_last_contact_timestamp_seconds" ["data_plane" "as above"]
            "When a data plane answered last, in seconds since 1970; absent where it never did";
        PLANE_DISCONNECTS = Counter "kantor_plane_disconnects_total"
            ["data_plane" "as above",
             "reason" "`Unauthorized`, `Forbidden`, `Unreachable`, `TlsFailed`, `NotKubernetes`, `Unhealthy`, `IdentityChanged`, `InvalidAccess`, `AnswerTooLarge`"]
            "Times that a data plane was found not to be connected, or for another reason than before";
        PLANE_PROBE_DURATION = Histogram "kantor_plane_probe_duration_seconds" ["data_plane" "as above"]
            "How long a connected data plane took to answer a probe";
        PLANE_CALLS = Counter "kantor_plane_calls_total"
            ["data_plane" "as above", "verb" "as for the control plane", "result" "as for the control plane"]
            "Requests to a data plane, but for probes";
        PLANE_IN_FLIGHT = Gauge "kantor_plane_calls_in_flight" ["data_plane" "as above"]
            "Requests to a data plane that have not been answered yet";
        PLANE_WATCH_RESTARTS = Counter "kantor_plane_watch_restarts_total" ["data_plane" "as above"]
            "Watches of a data plane that the server ended or refused and that were begun anew";
        PLANE_CREDENTIALS_EXPIRY = Gauge "kantor_plane_credentials_expiry_timestamp_seconds" ["data_plane" "as above"]
            "When the credentials of a data plane expire, in seconds since 1970, as they say themselves; absent where they do not say";
        APPLIED = Counter "kantor_applied_objects_total"
            ["data_plane" "as above", "result" "`created`, `configured`, `repaired` (somebody else had changed it), `refused`, `failed`"]
            "Objects on data planes that were not as they shall be, by what became of them";
        DEPLOYED = Counter "kantor_deploy_operations_total"
            ["data_plane" "as above", "action" "`apply`, `remove`", "result" "`success`, `refused`, `error`"]
            "Deployments that were brought to a data plane or removed from it";
        DEPLOY_DURATION = Histogram "kantor_deploy_duration_seconds" ["action" "as above"]
            "How long that took";
    }
    "The process" {
        LEADER = Gauge "kantor_leader" [] "Whether this operator leads, where several may";
        BUILD = Info "kantor_build_info" ["version" "of this build"] "This build";
        PROCESS_MEMORY = Gauge "process_resident_memory_bytes" [] "Memory in use";
        PROCESS_CPU = Counter "process_cpu_seconds_total" [] "Processor time used";
        PROCESS_FDS = Gauge "process_open_fds" [] "Open file descriptors";
        PROCESS_MAX_FDS = Gauge "process_max_fds" [] "File descriptors that may be open";
        PROCESS_START = Gauge "process_start_time_seconds" [] "When the process began, in seconds since 1970";
    }
}

/// All metrics.
pub fn all() -> impl Iterator<Item = &'static Entry> {
    SECTIONS.iter().flat_map(|(_, entries)| entries.iter())
}
