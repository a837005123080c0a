//! Logs and traces of the process.

mod traces;

use std::{
    io::IsTerminal,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context as _;
use clap::ValueEnum;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{Level, info, warn};
use tracing_subscriber::{
    EnvFilter, Layer as _, Registry,
    filter::Targets,
    layer::SubscriberExt as _,
    reload::{self, Handle},
    util::SubscriberInitExt as _,
};

pub use self::traces::parse_endpoint;

/// Forms of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Whether lines for people have colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogColor {
    /// If they are written to a terminal, and `NO_COLOR` is not set.
    Auto,
    /// Yes.
    Always,
    /// No.
    Never,
}

impl LogColor {
    fn is_on(self) -> bool {
        // As https://no-color.org says: whatever it is set to, if it is not empty.
        let unwanted = || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        match self {
            Self::Auto => std::io::stderr().is_terminal() && !unwanted(),
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// What is logged and where spans go, for the whole process.
pub struct Telemetry {
    filter: Handle<EnvFilter, Registry>,
    said: Mutex<Said>,
    traces: Option<SdkTracerProvider>,
}

/// What the filter is made of.
struct Said {
    filter: String,
    /// Whether everything of ours is logged on top of it.
    debugging: bool,
}

impl Said {
    fn effective(&self) -> String {
        if self.debugging { format!("{},kantor=debug", self.filter) } else { self.filter.clone() }
    }
}

impl Telemetry {
    /// Begins to log what `filter` lets through to standard error, and to send spans to a collector of OpenTelemetry, if there
    /// is one. Once per process, and inside of its runtime.
    pub fn start(
        filter: &str,
        format: LogFormat,
        color: LogColor,
        otlp: Option<&str>,
    ) -> anyhow::Result<Arc<Self>> {
        let elsewhere =
            std::env::var("OTEL_EXPORTER_OTLP_ENDPOINT").ok().filter(|endpoint| !endpoint.is_empty());
        let otlp = otlp.or(elsewhere.as_deref());
        let parsed = parse_filter(filter).map_err(anyhow::Error::msg).context("the log filter")?;
        let (reloading, handle) = reload::Layer::new(parsed);
        let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(color.is_on());
        let log = match format {
            LogFormat::Text => log.boxed(),
            LogFormat::Json => log.json().flatten_event(true).boxed(),
        };
        let traces = otlp.map(traces::provider).transpose()?;
        // By a filter of their own: a trace without its writes would be of little use.
        let ours = Targets::new().with_target("kantor", Level::DEBUG);
        let spans = traces.as_ref().map(|provider| {
            tracing_opentelemetry::layer()
                .with_tracer(provider.tracer("kantor"))
                .with_location(false)
                .with_threads(false)
                .with_tracked_inactivity(false)
                .with_filter(ours)
        });
        tracing_subscriber::registry().with(log.with_filter(reloading)).with(spans).try_init()?;
        let said = Mutex::new(Said { filter: filter.to_owned(), debugging: false });
        Ok(Arc::new(Self { filter: handle, said, traces }))
    }

    /// What is logged.
    pub fn filter(&self) -> String {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).effective()
    }

    /// Logs what `filter` lets through from now on; an error says what was expected.
    pub fn set_filter(&self, filter: &str) -> Result<(), String> {
        parse_filter(filter)?;
        self.change(|said| *said = Said { filter: filter.to_owned(), debugging: false })
    }

    /// Each SIGUSR1, from now on, has everything of ours logged, or no longer.
    pub fn toggle_on_signal(self: &Arc<Self>) -> anyhow::Result<()> {
        let mut signals = signal(SignalKind::user_defined1())?;
        let telemetry = self.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                if let Err(error) = telemetry.change(|said| said.debugging = !said.debugging) {
                    warn!(error, "cannot change what is logged");
                }
            }
        });
        Ok(())
    }

    fn change(&self, change: impl FnOnce(&mut Said)) -> Result<(), String> {
        // Held until it is in force: who asks is told what holds.
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut said);
        let effective = said.effective();
        self.filter.reload(parse_filter(&effective)?).map_err(|error| error.to_string())?;
        drop(said);
        info!(filter = effective, "logging");
        Ok(())
    }

    /// Sends the spans that are left. Nothing is sent after that.
    pub async fn shutdown(&self) {
        let Some(traces) = self.traces.clone() else { return };
        // It waits for the collector, for a while.
        let ended =
            tokio::task::spawn_blocking(move || traces.shutdown_with_timeout(traces::LAST_WORDS)).await;
        if !matches!(ended, Ok(Ok(()))) {
            warn!("could not send the last spans");
        }
    }
}

impl LogFilter for Telemetry {
    fn current(&self) -> String {
        self.filter()
    }

    fn set(&self, filter: &str) -> Result<(), String> {
        self.set_filter(filter)
    }
}

/// A filter of logs, or what is wrong with it.
pub fn parse_filter(text: &str) -> Result<EnvFilter, String> {
    EnvFilter::try_new(text).map_err(|error| {
        format!("{error}; expected a level (error, warn, info, debug, trace) or a filter such as info,kantor::world=debug")
    })
}

/// What is logged, and can be changed.
pub trait LogFilter: Send + Sync {
    /// What is logged.
    fn current(&self) -> String;
    /// Logs what another filter lets through; an error says what was expected.
    fn set(&self, filter: &str) -> Result<(), String>;
}
