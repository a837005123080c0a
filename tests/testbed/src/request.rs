//! `kantor-testbed request`: the sample application behind a real gateway, and a request to it. The demo's last scene; it
//! has to run in a network of its own.

use std::{
    fs,
    path::PathBuf,
    process::{Command, ExitCode},
    time::Duration,
};

use anyhow::{Context, Result};
use clap::Args;
use kantor_testbed::{
    Cluster, CrdBundle, Operator,
    assets::{self, Binary},
    gateway::{GatewayOptions, Gateways},
    operator,
    wait::{Seen, until},
};

use crate::{demo::say, kubectl::Kubectl};

/// What the scene may be told.
#[derive(Args)]
pub(crate) struct Request {
    /// The folder of the project, with crds/ and config/
    #[arg(long, default_value = ".")]
    project: PathBuf,
}

pub(crate) async fn run(request: Request) -> Result<ExitCode> {
    let program = operator::beside_this_program()?;
    let plane = Cluster::builder().name("plane").controllers(true).scheduler(true).nodes(1);
    let plane = plane.crds(&CrdBundle::ALL).start();
    let control_plane = Cluster::builder().name("control-plane").start();
    let (plane, control_plane) = futures::future::try_join(plane, control_plane).await?;
    let options =
        GatewayOptions { namespace: "openchoreo-data-plane".to_owned(), ..GatewayOptions::default() };
    let gateways = Gateways::start_with(&plane, &options).await?;
    control_plane.apply_dir(request.project.join("crds")).await?;
    let operator =
        Operator::start(&program, &control_plane.kubeconfig(), ["--allow-loopback-planes"]).await?;
    operator.ready().await?;
    say("a data plane with Envoy Gateway and Envoy, a control plane and the operator are up");

    let folder = tempfile::tempdir().context("make a folder")?;
    for (name, cluster) in [("control-plane", &control_plane), ("plane", &plane)] {
        let file = folder.path().join(format!("{name}.kubeconfig"));
        fs::write(file, cluster.kubeconfig().to_yaml()).context("write a kubeconfig")?;
    }
    let kubectl = Kubectl {
        program: assets::provide(&[Binary::Kubectl])?.swap_remove(0),
        kubeconfig: folder.path().join("control-plane.kubeconfig"),
    };
    let samples = request.project.join("config/samples");
    kubectl.quietly(&["apply", "-f", &samples.join("01-organization.yaml").to_string_lossy()])?;
    kubectl.quietly(&["wait", "--for=condition=Ready", "organization/acme", "--timeout=60s"])?;
    let file = format!("--from-file=kubeconfig={}", folder.path().join("plane.kubeconfig").display());
    kubectl.quietly(&["-n", "acme", "create", "secret", "generic", "plane-development", &file])?;
    kubectl.quietly(&["apply", "-f", &samples.to_string_lossy()])?;
    let endpoint = "endpoints.openchoreo.dev";
    let selector = "openchoreo.dev/environment=development";
    kubectl.appears(&["-n", "acme", "get", endpoint, "-l", selector, "-o", "name"])?;
    kubectl.quietly(&[
        "-n",
        "acme",
        "wait",
        "--for=condition=Ready",
        endpoint,
        "-l",
        selector,
        "--timeout=120s",
    ])?;
    kubectl.run(&["-n", "acme", "get", endpoint, "-l", selector])?;

    let (host, path) = ("dev.apis.development.example.com", "/shop/greeter/greeter/hello");
    let address = gateways.client().address();
    say(&format!("$ curl -H 'Host: {host}' http://{address}{path}"));
    // The gateway has accepted the route; its proxy hears of it some time later.
    let told = until("the application is reached", Duration::from_mins(1), || async {
        let curl = Command::new("curl")
            .args(["--silent", "--show-error", "--max-time", "30", "-H", &format!("Host: {host}")])
            .arg(format!("http://{address}{path}"))
            .output();
        let answer = match curl {
            Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
            // Without curl, the same request by hand.
            _ => gateways.client().request("GET", host, path, &[]).await?.body,
        };
        let told: serde_json::Value = serde_json::from_str(&answer).unwrap_or_default();
        Ok(if told["path"] == "/greeter/hello" { Seen::Done(told) } else { Seen::NotYet(answer) })
    })
    .await?;
    say(&format!("200: pod {} saw {} {}", told["pod"], told["method"], told["path"]));
    Ok(ExitCode::SUCCESS)
}
