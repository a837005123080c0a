//! Registration, what is refused, and new credentials.

use super::*;

/// All that the operator has let out: its log, Events, and the control plane's objects.
async fn everything_said(control: &OperatorFixture) -> String {
    let events: Api<Event> = Api::all(control.client.clone());
    let events = events.list(&ListParams::default()).await.unwrap();
    let planes: Api<DataPlane> = Api::all(control.client.clone());
    let planes: Vec<_> = planes
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .into_iter()
        .map(|plane| plane.status)
        .collect();
    let metrics = control.operator.get("/metrics").await.unwrap().1;
    let written = control.proxy.requests().writes();
    let written: String =
        written.0.iter().map(|record| String::from_utf8_lossy(&record.body.bytes).into_owned()).collect();
    format!("{}{}{}{metrics}{written}", control.operator.log(), json!(events.items), json!(planes))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_plane_registers_from_each_form_and_keeps_its_secrets() {
    let (control, plane) = tokio::join!(acme(), plain_plane("plane"));
    control.control_plane.allow_in_cluster().await.unwrap();
    let token_kubeconfig = plane_kubeconfig(&plane).await;
    // To the API server, who holds a certificate of its name is the account.
    let account = "system:serviceaccount:kantor-system:kantor-data-plane";
    let certificate_kubeconfig = plane.client_certificate_kubeconfig(account, &[]).unwrap();
    let (Auth::Token(token), Auth::ClientCertificate(identity)) =
        (&token_kubeconfig.auth, &certificate_kubeconfig.auth)
    else {
        panic!("a token and a certificate")
    };
    let encoded = |text: &str| BASE64_STANDARD.encode(text);
    secret(&control, "by-token", &[("kubeconfig", &token_kubeconfig.to_yaml())]).await;
    secret(&control, "by-certificate", &[("other", &certificate_kubeconfig.to_yaml())]).await;
    secret(
        &control,
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
        control.create::<DataPlane>(&object("DataPlane", name, json!({"kubernetesCluster": cluster}))).await;
    }
    let uid_of = async |cluster: &Cluster| {
        Api::<Namespace>::all(cluster.client()).get("kube-system").await.unwrap().uid().unwrap()
    };
    let (plane_uid, own_uid) = (uid_of(&plane).await, uid_of(&control.control_plane).await);
    for name in [
        "kubeconfig",
        "kubeconfig-key",
        "inline-token",
        "inline-mtls",
        "secret-token",
        "secret-mtls",
        "in-cluster",
    ] {
        let status = plane_ready(&control, name).await.status.unwrap();
        let expected = if name == "in-cluster" { &own_uid } else { &plane_uid };
        assert_eq!(status.cluster_uid.as_ref(), Some(expected), "{name}");
        assert_eq!(status.server_version.as_deref(), Some("v1.36.3"), "{name}");
        assert!(status.last_contact_time.is_some(), "{name}");
        assert_eq!(status.credentials_expire_time.is_some(), name != "in-cluster", "{name}");
        assert_eq!(status.capabilities, ["autoscaling"], "{name}");
    }

    let said = everything_said(&control).await;
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
    let (control, plane) = tokio::join!(acme(), plain_plane("plane"));
    let proxy = Proxy::start(&plane).unwrap();
    let kubeconfig = plane_kubeconfig(&plane).await.at(proxy.url(), proxy.ca_pem());
    let folder = tempfile::tempdir().unwrap();
    let proof = folder.path().join("ran");
    let exec = kubeconfig.to_yaml().replace(
        "  user: {",
        &format!(
            "  user: {{exec: {{apiVersion: client.authentication.k8s.io/v1, command: touch, args: [{proof:?}]}}, "
        ),
    );
    assert!(exec.contains("exec"), "{exec}");
    secret(&control, "hostile", &[("kubeconfig", &exec)]).await;
    for name in ["hostile", "late"] {
        let spec = json!({"kubernetesCluster": {"secretRef": {"name": name}}});
        control.create::<DataPlane>(&object("DataPlane", name, spec)).await;
    }
    let message = wait_plane_condition(&control, "hostile", "False", "KubeconfigRefused").await;
    assert!(message.contains("users[0].user.exec") && message.contains("Secret hostile"), "{message}");
    let message = wait_plane_condition(&control, "late", "False", "SecretNotFound").await;
    assert!(message.contains("Secret late"), "{message}");
    assert_eq!(proxy.requests().len(), 0, "nothing was dialled:\n{}", proxy.requests());
    assert!(!proof.exists(), "no command was run");

    control.create::<Environment>(&object("Environment", "dev", json!({"dataPlaneRef": "hostile"}))).await;
    let said = control
        .until("the environment says why", "acme/dev", |e: Option<&Environment>| {
            condition(e?, "Ready").filter(|said| said.0 == "Unknown").map(|said| said.2)
        })
        .await;
    assert!(said.contains("data plane hostile") && said.contains("users[0].user.exec"), "{said}");

    // Mended, each goes on by itself.
    secret(&control, "late", &[("value", &kubeconfig.to_yaml())]).await;
    plane_ready(&control, "late").await;
    let good = json!({"data": null, "stringData": {"kubeconfig": kubeconfig.to_yaml()}});
    control.patch::<Secret>("acme/hostile", good).await;
    plane_ready(&control, "hostile").await;
    control
        .until("the environment is ready", "acme/dev", |e: Option<&Environment>| {
            e.filter(|e| is_ready(*e)).map(|_| ())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_token_is_used_without_a_failed_reconcile_and_without_a_relist() {
    let (control, plane) = tokio::join!(acme(), plain_plane("plane"));
    let proxy = Proxy::start(&plane).unwrap();
    let token = async || {
        let kubeconfig = plane.fresh_data_plane_kubeconfig().await.unwrap();
        let kubeconfig = kubeconfig.at(proxy.url(), proxy.ca_pem());
        let Auth::Token(token) = &kubeconfig.auth else { panic!("a token") };
        (token.clone(), kubeconfig)
    };
    let (_, kubeconfig) = token().await;
    register(&control, "plane", &kubeconfig).await;
    plane_ready(&control, "plane").await;
    environment(&control, "dev", "plane").await;
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
        control
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
            recorded(&control, "dev", &format!("dp-{round}-{i}")).await;
        }
    }
    let since = proxy.since(mark);
    assert_eq!(since.clone().filter(|r| is_namespaces(r)).len(), 0, "no list and no new watch:\n{since}");
    let watch = proxy.requests().filter(|r| is_namespaces(r) && r.is_open_watch());
    assert_eq!(watch.len(), 1, "the watch from before the rotations is still open");
    let refused = since.filter(|r| r.code().is_some_and(|code| code >= 400));
    assert_eq!(refused.len(), 0, "{refused}");
    let metrics = control.operator.get("/metrics").await.unwrap().1;
    let failed =
        |line: &&str| line.starts_with("kantor_reconciles_total") && line.contains(r#"result="error""#);
    let failed: Vec<&str> = metrics.lines().filter(failed).filter(|line| !line.ends_with(" 0")).collect();
    assert!(failed.is_empty(), "{failed:?}");
    plane_ready(&control, "plane").await;
}
