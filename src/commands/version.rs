//! `kantor version`: what this build is, and what the cluster has.

use std::{fmt::Write as _, path::PathBuf, time::Duration};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kantor_core::schema::{Fit, fit};
use kube::{
    Api, Client, Config, ResourceExt,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde::Serialize;

use crate::VERSION;

/// Show the version of this build and, with --cluster, of a control plane and its custom resources.
#[derive(Args, Debug)]
pub struct VersionArgs {
    /// Ask the control plane as well.
    #[arg(long)]
    cluster: bool,
    /// Kubeconfig of the control plane; without one, as for `kantor controller`.
    #[arg(long, value_name = "FILE", requires = "cluster")]
    kubeconfig: Option<PathBuf>,
    /// Form of the answer.
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Lines for people.
    Text,
    /// One JSON object.
    Json,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    kantor: &'static str,
    git_commit: &'static str,
    kubernetes_api: &'static str,
    custom_resources: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<Cluster>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Cluster {
    kubernetes: String,
    custom_resources: Vec<Installed>,
}

#[derive(Serialize)]
struct Installed {
    name: String,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum State {
    Fits,
    Older,
    Missing,
}

/// Runs the command.
pub async fn run(args: &VersionArgs) -> anyhow::Result<()> {
    let cluster = if args.cluster { Some(ask(args).await?) } else { None };
    let versions = Versions {
        kantor: VERSION,
        git_commit: env!("KANTOR_GIT_COMMIT"),
        kubernetes_api: "v1.36",
        custom_resources: format!("{}/{}", kantor_api::GROUP, kantor_api::VERSION),
        cluster,
    };
    let text = match args.output {
        Output::Json => serde_json::to_string_pretty(&versions)? + "\n",
        Output::Text => lines(&versions)?,
    };
    super::print(&text)
}

fn lines(versions: &Versions) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    writeln!(text, "kantor            {}", versions.kantor)?;
    writeln!(text, "git commit        {}", versions.git_commit)?;
    writeln!(text, "Kubernetes API    {}", versions.kubernetes_api)?;
    writeln!(text, "custom resources  {}", versions.custom_resources)?;
    let Some(cluster) = &versions.cluster else { return Ok(text) };
    writeln!(text, "\ncontrol plane")?;
    writeln!(text, "Kubernetes        {}", cluster.kubernetes)?;
    for installed in &cluster.custom_resources {
        let state = match installed.state {
            State::Fits => "fits",
            State::Older => "older than this build needs: kantor crds | kubectl apply --server-side -f -",
            State::Missing => "not installed: kantor crds | kubectl apply --server-side -f -",
        };
        writeln!(text, "{}: {state}", installed.name)?;
    }
    Ok(text)
}

async fn ask(args: &VersionArgs) -> anyhow::Result<Cluster> {
    let mut config = match &args.kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?
        }
        None => {
            Config::infer().await.context("found no control plane: name a kubeconfig with --kubeconfig")?
        }
    };
    config.connect_timeout = Some(Duration::from_secs(5));
    config.read_timeout = Some(Duration::from_secs(10));
    let client = Client::try_from(config)?;
    let version = client.apiserver_version().await.context("the control plane does not answer")?;
    let definitions: Api<CustomResourceDefinition> = Api::all(client);
    let mut custom_resources = vec![];
    for needed in kantor_api::crds() {
        let name = needed.name_any();
        let installed = definitions.get_opt(&name).await.with_context(|| format!("cannot read {name}"))?;
        let state = match installed.map(|installed| fit(&installed, &needed)) {
            None => State::Missing,
            Some(Fit::Fits) => State::Fits,
            Some(Fit::Older { .. }) => State::Older,
        };
        custom_resources.push(Installed { name, state });
    }
    Ok(Cluster { kubernetes: version.git_version, custom_resources })
}
