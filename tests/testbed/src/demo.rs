//! `kantor-testbed demo`: the whole story, on real clusters, told step by step.

use std::{
    fs,
    io::{IsTerminal, Write, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use anyhow::{Context, Result};
use clap::Args;
use kantor_testbed::{
    CrdBundle, Fleet, Operator,
    assets::{self, Binary},
    fleet::FleetSize,
    gateway, operator,
    session::{self, Session},
};

use crate::{commands::asked_to_end, kubectl::Kubectl};

/// What the demo may be told.
#[derive(Args)]
pub(crate) struct Demo {
    /// The folder for the kubeconfigs
    #[arg(long, default_value = ".kantor")]
    dir: PathBuf,
    /// The folder of the project, with crds/ and config/
    #[arg(long, default_value = ".")]
    project: PathBuf,
    /// Leave everything running at the end, until Ctrl-C (the default on a terminal)
    #[arg(long, conflicts_with = "exit")]
    keep: bool,
    /// End everything at the end (the default elsewhere)
    #[arg(long)]
    exit: bool,
}

pub(crate) async fn run(demo: Demo) -> Result<ExitCode> {
    tokio::select! {
        told = tell(&demo) => told.map(|()| ExitCode::SUCCESS),
        () = asked_to_end() => {
            say("ended; nothing is left");
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn tell(demo: &Demo) -> Result<()> {
    let started = Instant::now();
    let program = operator::beside_this_program()?;

    step("Real clusters: a control plane and two data planes");
    say("each is etcd and kube-apiserver; the data planes also have controllers, a scheduler and kwok nodes");
    let size = FleetSize { planes: 2, nodes: 2, crds: CrdBundle::ALL.to_vec() };
    let mut session = Session::begin(&demo.dir, &size.names(), false)?;
    let fleet = Fleet::start(&size, &|line| say(line)).await?;
    session.ready(&fleet)?;
    let control_plane = &fleet.control_plane;
    let kubectl = Kubectl {
        program: assets::provide(&[Binary::Kubectl])?.swap_remove(0),
        kubeconfig: demo.dir.join("control-plane.kubeconfig"),
    };

    step("The custom resources: kantor crds | kubectl apply --server-side -f -");
    let crds = control_plane.apply_dir(demo.project.join("crds")).await?;
    say(&format!("{} kinds of openchoreo.dev/v1alpha1 installed", crds.len()));

    step("The operator: kantor controller --kubeconfig control-plane.kubeconfig --allow-loopback-planes");
    say("in its own name, with the rights of config/rbac");
    let kubeconfig = control_plane.operator_kubeconfig().await?;
    let operator = Operator::start(&program, &kubeconfig, ["--allow-loopback-planes"]).await?;
    operator.ready().await?;
    say(&format!("ready; http://{}/readyz, /livez, /metrics", operator.address()));

    step("A tenant: kubectl apply -f config/samples/01-organization.yaml");
    let sample = demo.project.join("config/samples/01-organization.yaml");
    kubectl.run(&["apply", "-f", &sample.to_string_lossy()])?;
    kubectl.run(&["wait", "--for=condition=Ready", "organization/acme", "--timeout=60s"])?;
    kubectl.run(&["get", "organizations"])?;

    step("Two data planes: a kubeconfig Secret and a DataPlane each");
    for (secret, plane) in [("plane-development", "plane-1"), ("plane-production", "plane-2")] {
        let cluster = fleet.planes.iter().find(|cluster| cluster.name() == plane);
        // What config/data-plane allows, and, for the Release among the samples, any kind.
        let kubeconfig = cluster.context("a plane is missing")?.any_release_kubeconfig().await?;
        let file = demo.dir.join(format!("{plane}.kantor.kubeconfig"));
        session::write_private(&file, &kubeconfig.to_yaml())?;
        let argument = format!("--from-file=kubeconfig={}", file.display());
        let created = kubectl.run(&["-n", "acme", "create", "secret", "generic", secret, &argument]);
        fs::remove_file(&file).context("remove the kubeconfig of a plane")?;
        created?;
    }
    let samples = demo.project.join("config/samples");
    kubectl.run(&["apply", "-f", &samples.to_string_lossy()])?;
    kubectl.run(&["-n", "acme", "wait", "--for=condition=Ready", "dataplanes", "--all", "--timeout=60s"])?;
    kubectl.run(&[
        "-n",
        "acme",
        "wait",
        "--for=condition=Ready",
        "environments",
        "--all",
        "--timeout=60s",
    ])?;
    kubectl.run(&["-n", "acme", "get", "dataplanes,environments"])?;

    step("The hierarchy of a sample application");
    kubectl.run(&["-n", "acme", "wait", "--for=condition=Ready", "components", "--all", "--timeout=60s"])?;
    let kinds = "deploymentpipelines,projects,components,deploymenttracks,deployableartifacts";
    kubectl.run(&["-n", "acme", "get", kinds])?;

    deploy(&kubectl, &demo.dir)?;
    ways_in(&kubectl, &demo.dir)?;
    request(&demo.project)?;

    let keep = demo.keep || (!demo.exit && stdout().is_terminal());
    step(&format!("Done in {:.0} s. What to try next", started.elapsed().as_secs_f32()));
    next(&kubectl, &fleet, &demo.dir, keep)?;
    if keep {
        say("everything stays up until Ctrl-C");
        std::future::pending::<()>().await;
    }
    say("ending everything");
    Ok(())
}

/// The sample application on both planes, and a change of it.
fn deploy(kubectl: &Kubectl, folder: &Path) -> Result<()> {
    const DEPLOYMENTS: &str = "deployments.openchoreo.dev";
    const IMAGE: &str = "docker.io/hashicorp/http-echo:0.2.3";
    let ready = |kind: &str| {
        kubectl.run(&["-n", "acme", "wait", "--for=condition=Ready", kind, "--all", "--timeout=120s"])
    };
    step("The application: one artifact in two environments, on two data planes");
    ready(DEPLOYMENTS)?;
    kubectl.run(&["-n", "acme", "get", DEPLOYMENTS, "-o", "wide"])?;
    let on_plane = |plane: &str| Kubectl {
        program: kubectl.program.clone(),
        kubeconfig: folder.join(format!("{plane}.kubeconfig")),
    };
    for plane in ["plane-1", "plane-2"] {
        say(&format!("on {plane}:"));
        let workloads = "deployments.apps,services,pods";
        on_plane(plane).run(&["get", workloads, "-A", "-l", "belong-to=user-workloads"])?;
    }

    step("A release: any objects, kept as they are written");
    ready("releases")?;
    kubectl.run(&["-n", "acme", "get", "releases"])?;

    step("An update: another image in the artifact, rolled out in both environments");
    let patch = format!(r#"{{"spec":{{"targetArtifact":{{"fromImageRef":{{"tag":"{IMAGE}"}}}}}}}}"#);
    kubectl.run(&["-n", "acme", "patch", "deployableartifact", "greeter-1", "--type=merge", "-p", &patch])?;
    let arrived = format!("--for=jsonpath={{.status.image}}={IMAGE}");
    kubectl.run(&["-n", "acme", "wait", &arrived, DEPLOYMENTS, "--all", "--timeout=120s"])?;
    ready(DEPLOYMENTS)?;
    for plane in ["plane-1", "plane-2"] {
        let image = "custom-columns=NAME:.metadata.name,IMAGE:.spec.template.spec.containers[0].image";
        let selector = ["-l", "belong-to=user-workloads"];
        on_plane(plane).run(&["get", "deployments.apps", "-A", selector[0], selector[1], "-o", image])?;
    }

    step("Drift: somebody deletes the Service on a data plane, and Kantor creates it again");
    let plane = on_plane("plane-1");
    plane.run(&["delete", "services", "-A", "-l", "belong-to=user-workloads"])?;
    plane.wait_for_service()?;
    Ok(())
}

/// Where the application is reached.
fn ways_in(kubectl: &Kubectl, folder: &Path) -> Result<()> {
    const ENDPOINTS: &str = "endpoints.openchoreo.dev";
    step("Endpoints: one for each environment, with routes on the planes' Gateways");
    let file = folder.join("gateways.yaml");
    fs::write(&file, include_str!("gateways.yaml")).context("write the Gateways")?;
    for plane in ["plane-1", "plane-2"] {
        let kubeconfig = folder.join(format!("{plane}.kubeconfig"));
        let on_plane = Kubectl { program: kubectl.program.clone(), kubeconfig };
        on_plane.run(&["apply", "-f", &file.to_string_lossy()])?;
    }
    kubectl.run(&[
        "-n",
        "acme",
        "wait",
        "--for=jsonpath={.status.address}",
        ENDPOINTS,
        "--all",
        "--timeout=60s",
    ])?;
    kubectl.run(&["-n", "acme", "get", ENDPOINTS])?;
    kubectl.run(&["get", "hostnameclaims"])?;
    say("no gateway runs on these planes, so the Endpoints wait for one to accept their routes");
    Ok(())
}

/// A request, where Envoy is at hand.
fn request(project: &Path) -> Result<()> {
    step("A request through a real gateway: Envoy Gateway and Envoy, in a network of their own");
    // Building it takes as long as half of everything else.
    if !assets::is_traffic_at_hand()? && !gateway::required() {
        say("left out: Envoy Gateway is not here; `make assets` builds it in about 6 minutes");
        return Ok(());
    }
    match gateway::possible() {
        Ok(()) => gateway::again(&["request".as_ref(), "--project".as_ref(), project.as_os_str()]),
        Err(missing) if gateway::required() => Err(missing.context("a request has to be made")),
        Err(missing) => {
            say(&format!("left out: {missing:#}"));
            Ok(())
        }
    }
}

fn next(kubectl: &Kubectl, fleet: &Fleet, folder: &Path, keep: bool) -> Result<()> {
    if keep {
        say("in another terminal:");
    } else {
        say("run `make demo DEMO=--keep`, which leaves everything running, and in another terminal:");
    }
    let folder = fs::canonicalize(folder).context("find the folder of the kubeconfigs")?;
    let binaries = kubectl.program.parent().unwrap_or_else(|| Path::new("."));
    say("");
    say(&format!(
        "export PATH={}:$PATH KUBECONFIG={}/control-plane.kubeconfig",
        binaries.display(),
        folder.display()
    ));
    for (command, what) in [
        ("kubectl explain dataplane.spec.kubernetesCluster", "every field is documented"),
        ("kubectl -n acme describe dataplane development-plane", "version, capabilities, conditions"),
        ("kubectl -n acme describe deployments.openchoreo.dev", "image, plane, namespace, objects"),
        ("kubectl -n acme describe endpoints.openchoreo.dev", "addresses, routes, what the gateway says"),
        ("kubectl -n acme get release greeter-extras -o yaml", "the state of each object"),
        ("kubectl -n acme delete dataplane production-plane --wait=false", "waits, and says for whom"),
        ("kubectl -n acme delete secret plane-production", "see what the DataPlane says"),
        ("kubectl get events -A", "what the operator did"),
        ("kubectl delete organization acme", "takes everything along, in order"),
    ] {
        say(&format!("{command:<66} # {what}"));
    }
    for plane in &fleet.planes {
        say(&format!("kubectl --kubeconfig {}/{}.kubeconfig get nodes", folder.display(), plane.name()));
    }
    say("");
    Ok(())
}

pub(crate) fn step(title: &str) {
    let _ = writeln!(stdout(), "\n== {title}");
}

pub(crate) fn say(line: &str) {
    let _ = writeln!(stdout(), "   {line}");
}
