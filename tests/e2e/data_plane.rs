//! Data planes: registration, credentials, faults, and what is left on them.

use std::time::Duration;

use base64::{Engine, prelude::BASE64_STANDARD};
use k8s_openapi::api::{
    core::v1::{Namespace, Secret},
    events::v1::Event,
    rbac::v1::PolicyRule,
};
use kantor_api::{DataPlane, Environment, Organization, Project};
use kantor_testbed::{
    Auth, Cluster, KubeconfigSpec, ServiceAccountAccess,
    proxy::{Action, Fault, Match, Proxy},
    wait::{self, Seen},
};
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::{Value, json};

use crate::support::{PATIENCE, Stage, condition, is_ready};

/// A control plane with organization `acme`, and the operator.
async fn acme() -> Stage {
    let stage = Stage::start().await;
    stage.create(&Organization::new("acme", kantor_api::organization::OrganizationSpec {})).await;
    stage
        .until("acme is ready", "acme", |o: Option<&Organization>| o.filter(|o| is_ready(*o)).map(|_| ()))
        .await;
    stage
}

fn object<K: serde::de::DeserializeOwned>(kind: &str, name: &str, spec: Value) -> K {
    serde_json::from_value(json!({
        "apiVersion": "openchoreo.dev/v1alpha1", "kind": kind,
        "metadata": {"name": name, "namespace": "acme", "labels": {
            "openchoreo.dev/organization": "acme", "openchoreo.dev/name": name}},
        "spec": spec,
    }))
    .unwrap()
}

async fn secret(stage: &Stage, name: &str, data: &[(&str, &str)]) {
    let data: std::collections::BTreeMap<_, _> = data.iter().copied().collect();
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": "acme"}, "stringData": data});
    stage.create::<Secret>(&serde_json::from_value(secret).unwrap()).await;
}

/// Registers a plane with a kubeconfig Secret of its name.
async fn register(stage: &Stage, name: &str, kubeconfig: &KubeconfigSpec) {
    secret(stage, name, &[("kubeconfig", &kubeconfig.to_yaml())]).await;
    stage
        .create::<DataPlane>(&object(
            "DataPlane",
            name,
            json!({"kubernetesCluster": {"secretRef": {"name": name}}}),
        ))
        .await;
}

async fn plane_ready(stage: &Stage, name: &str) -> DataPlane {
    stage
        .until(
            &format!("data plane {name} is ready"),
            &format!("acme/{name}"),
            |plane: Option<&DataPlane>| plane.filter(|plane| is_ready(*plane)).cloned(),
        )
        .await
}

/// Waits until `Ready` of a plane has this status and reason; tells the message.
async fn plane_says(stage: &Stage, name: &str, status: &str, reason: &str) -> String {
    stage
        .until(
            &format!("data plane {name} says {reason}"),
            &format!("acme/{name}"),
            |plane: Option<&DataPlane>| {
                let said = condition(plane?, "Ready")?;
                (said.0 == status && said.1 == reason).then_some(said.2)
            },
        )
        .await
}

async fn environment(stage: &Stage, name: &str, plane: &str) {
    stage.create::<Environment>(&object("Environment", name, json!({"dataPlaneRef": plane}))).await;
    stage
        .until("the environment is ready", &format!("acme/{name}"), |e: Option<&Environment>| {
            e.filter(|e| is_ready(*e)).map(|_| ())
        })
        .await;
}

/// A namespace on a plane as the deployment of project `shop` makes it.
async fn plane_namespace(plane: &Cluster, name: &str, environment: &str) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {
        "managed-by": "choreo-deployment-controller", "belong-to": "user-workloads",
        "organization-name": "acme", "project-name": "shop", "environment-name": environment}}});
    plane.apply_yaml(&namespace.to_string()).await.unwrap();
}

async fn recorded(stage: &Stage, environment: &str, namespace: &str) {
    let what = format!("environment {environment} has recorded {namespace}");
    stage
        .until(&what, &format!("acme/{environment}"), |e: Option<&Environment>| {
            e?.status.as_ref()?.namespaces.iter().any(|record| record.name == namespace).then_some(())
        })
        .await;
}

async fn namespace_is(plane: &Cluster, name: &str, there: bool) {
    let namespaces: Api<Namespace> = Api::all(plane.client());
    wait::until(&format!("namespace {name}: there {there}"), PATIENCE, || async {
        let found = namespaces.get_opt(name).await?.is_some();
        Ok(if found == there { Seen::Done(()) } else { Seen::NotYet(format!("there: {found}")) })
    })
    .await
    .unwrap();
}

async fn plain_plane(name: &str) -> Cluster {
    // With the controllers: namespaces are really deleted, and ServiceAccounts get tokens.
    Cluster::builder().name(name).controllers(true).start().await.unwrap()
}

/// All that the operator has let out: its log, Events, and the control plane's objects.
async fn everything_said(stage: &Stage) -> String {
    let events: Api<Event> = Api::all(stage.client.clone());
    let events = events.list(&ListParams::default()).await.unwrap();
    let planes: Api<DataPlane> = Api::all(stage.client.clone());
    let planes: Vec<_> = planes
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .into_iter()
        .map(|plane| plane.status)
        .collect();
    let metrics = stage.operator.get("/metrics").await.unwrap().1;
    let written = stage.proxy.requests().writes();
    let written: String =
        written.0.iter().map(|record| String::from_utf8_lossy(&record.body.bytes).into_owned()).collect();
    format!("{}{}{}{metrics}{written}", stage.operator.log(), json!(events.items), json!(planes))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_plane_registers_from_each_form_and_keeps_its_secrets() {
    let (stage, plane) = tokio::join!(acme(), plain_plane("plane"));
    let token_kubeconfig = plane.kubeconfig();
    let certificate_kubeconfig = plane.client_certificate_kubeconfig("kantor", &["system:masters"]).unwrap();
    let (Auth::Token(token), Auth::ClientCertificate(identity)) =
        (&token_kubeconfig.auth, &certificate_kubeconfig.auth)
    else {
        panic!("a token and a certificate")
    };
    let encoded = |text: &str| BASE64_STANDARD.encode(text);
    secret(&stage, "by-token", &[("kubeconfig", &token_kubeconfig.to_yaml())]).await;
    secret(&stage, "by-certificate", &[("other", &certificate_kubeconfig.to_yaml())]).await;
    secret(
        &stage,
        "values",
        &[
            ("ca.crt", plane.ca_pem()),
            ("token", token),
            ("tls.crt", &identity.certificate_pem),
            ("tls.key", &identity.key_pem),
        ],
    )
    .await;
    let server = plane.url();
    for (name, cluster) in [
        ("kubeconfig", json!({"secretRef": {"name": "by-token"}})),
        ("kubeconfig-key", json!({"secretRef": {"name": "by-certificate", "key": "other"}})),
        (
            "inline-token",
            json!({"server": server, "tls": {"ca": {"value": encoded(plane.ca_pem())}},
            "auth": {"bearerToken": {"value": token}}}),
        ),
        (
            "inline-mtls",
            json!({"server": server, "tls": {"ca": {"value": encoded(plane.ca_pem())}},
            "auth": {"mtls": {"clientCert": {"value": encoded(&identity.certificate_pem)},
                              "clientKey": {"value": encoded(&identity.key_pem)}}}}),
        ),
        (
            "secret-token",
            json!({"server": server, "tls": {"ca": {"secretRef": "values"}},
            "auth": {"bearerToken": {"secretRef": "values"}}}),
        ),
        (
            "secret-mtls",
            json!({"server": server, "tls": {"ca": {"secretRef": "values"}},
            "auth": {"mtls": {"clientCert": {"secretRef": "values"}, "clientKey": {"secretRef": "values"}}}}),
        ),
        ("in-cluster", json!({"inCluster": {}})),
    ] {
        stage.create::<DataPlane>(&object("DataPlane", name, json!({"kubernetesCluster": cluster}))).await;
    }
    let uid_of = async |cluster: &Cluster| {
        Api::<Namespace>::all(cluster.client()).get("kube-system").await.unwrap().uid().unwrap()
    };
    let (plane_uid, own_uid) = (uid_of(&plane).await, uid_of(&stage.control_plane).await);
    for name in [
        "kubeconfig",
        "kubeconfig-key",
        "inline-token",
        "inline-mtls",
        "secret-token",
        "secret-mtls",
        "in-cluster",
    ] {
        let status = plane_ready(&stage, name).await.status.unwrap();
        let expected = if name == "in-cluster" { &own_uid } else { &plane_uid };
        assert_eq!(status.cluster_uid.as_ref(), Some(expected), "{name}");
        assert_eq!(status.server_version.as_deref(), Some("v1.36.3"), "{name}");
        assert!(status.last_contact_time.is_some(), "{name}");
        assert_eq!(
            status.credentials_expire_time.is_some(),
            name.contains("mtls") || name == "kubeconfig-key",
            "{name}"
        );
        assert_eq!(status.capabilities, ["autoscaling"], "{name}");
    }

    let said = everything_said(&stage).await;
    for canary in [token.as_str(), &encoded(token), &identity.key_pem, &encoded(&identity.key_pem)] {
        // The key's lines one by one: a text form may fold it.
        let lines = canary.lines().filter(|line| line.len() > 20 && !line.contains("-----"));
        for line in lines {
            assert!(!said.contains(line), "a secret was let out");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_kubeconfig_may_not_ask_for_is_refused_by_field_and_a_missing_secret_is_awaited() {
    let (stage, plane) = tokio::join!(acme(), plain_plane("plane"));
    let proxy = Proxy::start(&plane).unwrap();
    let kubeconfig = plane.kubeconfig().at(proxy.url(), proxy.ca_pem());
    let folder = tempfile::tempdir().unwrap();
    let proof = folder.path().join("ran");
    let exec = kubeconfig.to_yaml().replace(
        "  user: {",
        &format!(
            "  user: {{exec: {{apiVersion: client.authentication.k8s.io/v1, command: touch, args: [{proof:?}]}}, "
        ),
    );
    assert!(exec.contains("exec"), "{exec}");
    secret(&stage, "hostile", &[("kubeconfig", &exec)]).await;
    for name in ["hostile", "late"] {
        let spec = json!({"kubernetesCluster": {"secretRef": {"name": name}}});
        stage.create::<DataPlane>(&object("DataPlane", name, spec)).await;
    }
    let message = plane_says(&stage, "hostile", "False", "KubeconfigRefused").await;
    assert!(message.contains("users[0].user.exec") && message.contains("Secret hostile"), "{message}");
    let message = plane_says(&stage, "late", "False", "SecretNotFound").await;
    assert!(message.contains("Secret late"), "{message}");
    assert_eq!(proxy.requests().len(), 0, "nothing was dialled:\n{}", proxy.requests());
    assert!(!proof.exists(), "no command was run");

    stage.create::<Environment>(&object("Environment", "dev", json!({"dataPlaneRef": "hostile"}))).await;
    let said = stage
        .until("the environment says why", "acme/dev", |e: Option<&Environment>| {
            condition(e?, "Ready").filter(|said| said.0 == "Unknown").map(|said| said.2)
        })
        .await;
    assert!(said.contains("data plane hostile") && said.contains("users[0].user.exec"), "{said}");

    // Mended, each goes on by itself.
    secret(&stage, "late", &[("value", &kubeconfig.to_yaml())]).await;
    plane_ready(&stage, "late").await;
    let good = json!({"data": null, "stringData": {"kubeconfig": kubeconfig.to_yaml()}});
    stage.patch::<Secret>("acme/hostile", good).await;
    plane_ready(&stage, "hostile").await;
    stage
        .until("the environment is ready", "acme/dev", |e: Option<&Environment>| {
            e.filter(|e| is_ready(*e)).map(|_| ())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_token_is_used_without_a_failed_reconcile_and_without_a_relist() {
    let (stage, plane) = tokio::join!(acme(), plain_plane("plane"));
    let proxy = Proxy::start(&plane).unwrap();
    let everything = PolicyRule {
        api_groups: Some(vec!["*".into()]),
        resources: Some(vec!["*".into()]),
        verbs: vec!["*".into()],
        ..PolicyRule::default()
    };
    let account = ServiceAccountAccess::new("kube-system", "kantor").cluster_wide(&[everything]);
    let token = async || {
        let kubeconfig =
            plane.service_account_kubeconfig(&account).await.unwrap().at(proxy.url(), proxy.ca_pem());
        let Auth::Token(token) = &kubeconfig.auth else { panic!("a token") };
        (token.clone(), kubeconfig)
    };
    let (_, kubeconfig) = token().await;
    register(&stage, "plane", &kubeconfig).await;
    plane_ready(&stage, "plane").await;
    environment(&stage, "dev", "plane").await;
    let is_namespaces =
        |r: &kantor_testbed::proxy::Record| r.resource() == "namespaces" && r.name().is_empty();
    proxy.await_request(|r| is_namespaces(r) && r.is_open_watch(), PATIENCE).await.unwrap();
    let mark = proxy.mark();

    // Load: namespaces come and are recorded while the token changes under them.
    for round in 0..4 {
        let (new, kubeconfig) = token().await;
        let before = proxy.mark();
        for i in 0..5 {
            plane_namespace(&plane, &format!("dp-{round}-{i}"), "dev").await;
        }
        stage
            .patch::<Secret>(
                "acme/plane",
                json!({"data": null, "stringData": {"kubeconfig": kubeconfig.to_yaml()}}),
            )
            .await;
        for i in 5..10 {
            plane_namespace(&plane, &format!("dp-{round}-{i}"), "dev").await;
        }
        // The next call of the operator, a probe or a clean-up, carries the new token.
        proxy.await_request_since(before, |r| r.credential.is_token(&new), PATIENCE).await.unwrap();
        for i in 0..10 {
            recorded(&stage, "dev", &format!("dp-{round}-{i}")).await;
        }
    }
    let since = proxy.since(mark);
    assert_eq!(since.clone().filter(|r| is_namespaces(r)).len(), 0, "no list and no new watch:\n{since}");
    let watch = proxy.requests().filter(|r| is_namespaces(r) && r.is_open_watch());
    assert_eq!(watch.len(), 1, "the watch from before the rotations is still open");
    let refused = since.filter(|r| r.code().is_some_and(|code| code >= 400));
    assert_eq!(refused.len(), 0, "{refused}");
    let metrics = stage.operator.get("/metrics").await.unwrap().1;
    assert!(!metrics.contains(r#"result="error""#), "{metrics}");
    plane_ready(&stage, "plane").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plane_in_trouble_says_so_recovers_by_itself_and_holds_up_nobody_else() {
    let (stage, sick, well) = tokio::join!(acme(), plain_plane("sick"), plain_plane("well"));
    let (sick_proxy, well_proxy) = (Proxy::start(&sick).unwrap(), Proxy::start(&well).unwrap());
    register(&stage, "sick", &sick.kubeconfig().at(sick_proxy.url(), sick_proxy.ca_pem())).await;
    register(&stage, "well", &well.kubeconfig().at(well_proxy.url(), well_proxy.ca_pem())).await;
    plane_ready(&stage, "sick").await;
    plane_ready(&stage, "well").await;
    environment(&stage, "sick", "sick").await;

    // One piece of work on the well plane: an environment with a namespace goes, through how many calls?
    let work = async |round: &str| {
        environment(&stage, round, "well").await;
        plane_namespace(&well, &format!("dp-{round}"), round).await;
        recorded(&stage, round, &format!("dp-{round}")).await;
        let mark = well_proxy.mark();
        stage.delete::<Environment>(&format!("acme/{round}")).await;
        stage.until_gone::<Environment>(&format!("acme/{round}")).await;
        namespace_is(&well, &format!("dp-{round}"), false).await;
        let calls = well_proxy.writes_since(mark);
        calls
            .0
            .iter()
            .map(|r| format!("{} {} {}", r.verb().as_str(), r.resource(), r.name()))
            .collect::<Vec<_>>()
    };
    assert_eq!(work("calm").await, ["delete namespaces dp-calm"]);

    let trouble = |status: &'static str, reason: &'static str| (status, reason);
    for (round, (status, reason)) in [
        ("unauthorized", trouble("False", "CredentialsRejected")),
        ("refused", trouble("Unknown", "DataPlaneUnreachable")),
        ("hanging", trouble("Unknown", "DataPlaneUnreachable")),
        ("silent", trouble("Unknown", "DataPlaneUnreachable")),
    ] {
        let mut fault = None;
        match round {
            "unauthorized" => {
                fault = Some(sick_proxy.fault(Fault::when(Match::new()).then(Action::status(401))));
            }
            "refused" => sick_proxy.refuse(true),
            "hanging" => sick.pause().unwrap(),
            _ => fault = Some(sick_proxy.fault(Fault::when(Match::new()).then(Action::Hang))),
        }
        let message = plane_says(&stage, "sick", status, reason).await;
        assert!(message.contains("last answered at"), "{round}: {message}");
        let said = stage
            .until("the environment says so", "acme/sick", |e: Option<&Environment>| {
                condition(e?, "Ready").filter(|said| said.0 == "Unknown").map(|said| said.2)
            })
            .await;
        assert!(said.contains("data plane sick"), "{round}: {said}");
        // The same calls on the well plane as without trouble, done while the other one is in it.
        assert_eq!(work(round).await, [format!("delete namespaces dp-{round}")]);
        plane_says(&stage, "sick", status, reason).await;

        match round {
            "refused" => sick_proxy.refuse(false),
            "hanging" => sick.resume().unwrap(),
            _ => fault.take().unwrap().remove(),
        }
        plane_ready(&stage, "sick").await;
        stage
            .until("the environment is ready", "acme/sick", |e: Option<&Environment>| {
                e.filter(|e| is_ready(*e)).map(|_| ())
            })
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_go_with_their_environment_or_project_and_not_before() {
    let (stage, plane) = tokio::join!(acme(), plain_plane("plane"));
    register(&stage, "plane", &plane.kubeconfig()).await;
    plane_ready(&stage, "plane").await;
    for name in ["dev", "prod", "test"] {
        environment(&stage, name, "plane").await;
        plane_namespace(&plane, &format!("dp-{name}"), name).await;
        recorded(&stage, name, &format!("dp-{name}")).await;
    }
    // A plane that is used says by whom, and stays.
    stage.delete::<DataPlane>("acme/plane").await;
    let message = stage
        .until("the plane says who uses it", "acme/plane", |plane: Option<&DataPlane>| {
            condition(plane?, "Stalled").filter(|said| said.1 == "InUse").map(|said| said.2)
        })
        .await;
    assert!(message.contains("Environment dev") && message.contains("Environment prod"), "{message}");

    stage.delete::<Environment>("acme/dev").await;
    stage.until_gone::<Environment>("acme/dev").await;
    namespace_is(&plane, "dp-dev", false).await;
    namespace_is(&plane, "dp-prod", true).await;

    // A project takes its namespaces of all environments; its Secret may go first.
    stage.create::<Project>(&object("Project", "shop", json!({"deploymentPipelineRef": "default"}))).await;
    stage
        .until("the project is followed", "acme/shop", |p: Option<&Project>| {
            (!p?.finalizers().is_empty()).then_some(())
        })
        .await;
    stage.delete::<Secret>("acme/plane").await;
    stage.delete::<Project>("acme/shop").await;
    stage.until_gone::<Project>("acme/shop").await;
    for name in ["dp-prod", "dp-test"] {
        namespace_is(&plane, name, false).await;
    }

    // A plane that does not answer holds up what is on it, and says so; the user may let go.
    plane_namespace(&plane, "dp-late", "prod").await;
    recorded(&stage, "prod", "dp-late").await;
    plane.pause().unwrap();
    stage.delete::<Environment>("acme/prod").await;
    let message = stage
        .until("the environment says what it waits for", "acme/prod", |e: Option<&Environment>| {
            condition(e?, "Finalizing")
                .map(|said| said.2)
                .filter(|message| message.contains("does not answer"))
        })
        .await;
    assert!(message.contains("dp-late") && message.contains("data plane plane"), "{message}");
    let orphan = json!({"metadata": {"annotations": {"openchoreo.dev/deletion-policy": "Orphan"}}});
    stage.patch::<Environment>("acme/prod", orphan).await;
    stage.until_gone::<Environment>("acme/prod").await;
    let events: Api<Event> = Api::namespaced(stage.client.clone(), "acme");
    let left = events.list(&ListParams::default().fields("reason=LeftBehind")).await.unwrap();
    assert!(left.items[0].note.as_ref().unwrap().contains("dp-late"), "{left:?}");

    plane.resume().unwrap();
    stage.delete::<Environment>("acme/test").await;
    stage.until_gone::<Environment>("acme/test").await;
    stage.until_gone::<DataPlane>("acme/plane").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_dead_planes_do_not_hold_up_a_living_one() {
    let (stage, plane) = tokio::join!(acme(), plain_plane("plane"));
    let dead = |i: usize| -> DataPlane {
        // Ports that nobody listens on.
        let cluster = json!({"server": format!("https://127.0.0.1:{}", 1 + i % 9),
            "tls": {"ca": {"value": BASE64_STANDARD.encode(plane.ca_pem())}},
            "auth": {"bearerToken": {"value": "dead"}}});
        object("DataPlane", &format!("dead-{i}"), json!({"kubernetesCluster": cluster}))
    };
    futures::future::join_all((0..500).map(|i| {
        let stage = &stage;
        async move { stage.create(&dead(i)).await }
    }))
    .await;
    plane_says(&stage, "dead-499", "Unknown", "DataPlaneUnreachable").await;

    register(&stage, "plane", &plane.kubeconfig()).await;
    plane_ready(&stage, "plane").await;
    environment(&stage, "dev", "plane").await;
    plane_namespace(&plane, "dp-dev", "dev").await;
    recorded(&stage, "dev", "dp-dev").await;
    stage.delete::<Environment>("acme/dev").await;
    stage.until_gone::<Environment>("acme/dev").await;
    namespace_is(&plane, "dp-dev", false).await;
    for i in [0, 250, 499] {
        plane_says(&stage, &format!("dead-{i}"), "Unknown", "DataPlaneUnreachable").await;
    }
    // Quiet: planes that stay dead are tried, not written about.
    stage.proxy.await_quiet(Duration::from_secs(2), PATIENCE).await.unwrap();
}
