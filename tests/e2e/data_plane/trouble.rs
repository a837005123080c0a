//! Planes in trouble, dead ones, and what is left on them.

use super::{renewing::event, *};

#[tokio::test(flavor = "multi_thread")]
async fn a_plane_in_trouble_says_so_recovers_by_itself_and_holds_up_nobody_else() {
    let (control, sick, well) = tokio::join!(acme(), plain_plane("sick"), plain_plane("well"));
    let (sick_proxy, well_proxy) = (Proxy::start(&sick).unwrap(), Proxy::start(&well).unwrap());
    register(&control, "sick", &plane_kubeconfig(&sick).await.at(sick_proxy.url(), sick_proxy.ca_pem()))
        .await;
    register(&control, "well", &plane_kubeconfig(&well).await.at(well_proxy.url(), well_proxy.ca_pem()))
        .await;
    plane_ready(&control, "sick").await;
    plane_ready(&control, "well").await;
    environment(&control, "sick", "sick").await;

    // One piece of work on the well plane: an environment with a namespace goes, through how many calls?
    let work = async |round: &str| {
        environment(&control, round, "well").await;
        plane_namespace(&well, &format!("dp-{round}"), round).await;
        recorded(&control, round, &format!("dp-{round}")).await;
        let mark = well_proxy.mark();
        control.delete::<Environment>(&format!("acme/{round}")).await;
        control.until_gone::<Environment>(&format!("acme/{round}")).await;
        namespace_is(&well, &format!("dp-{round}"), false).await;
        let calls = well_proxy.writes_since(mark);
        calls
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
        let message = wait_plane_condition(&control, "sick", status, reason).await;
        assert!(message.contains("last answered at"), "{round}: {message}");
        let said = control
            .until("the environment says so", "acme/sick", |e: Option<&Environment>| {
                condition(e?, "Ready").filter(|said| said.0 == "Unknown").map(|said| said.2)
            })
            .await;
        assert!(said.contains("data plane sick"), "{round}: {said}");
        // The same calls on the well plane as without trouble, done while the other one is in it.
        assert_eq!(work(round).await, [format!("delete namespaces dp-{round}")]);
        wait_plane_condition(&control, "sick", status, reason).await;

        match round {
            "refused" => sick_proxy.refuse(false),
            "hanging" => sick.resume().unwrap(),
            _ => fault.take().unwrap().remove(),
        }
        plane_ready(&control, "sick").await;
        control
            .until("the environment is ready", "acme/sick", |e: Option<&Environment>| {
                e.filter(|e| is_ready(*e)).map(|_| ())
            })
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_go_with_their_environment_or_project_and_not_before() {
    let (control, plane) = tokio::join!(acme(), plain_plane("plane"));
    register(&control, "plane", &plane_kubeconfig(&plane).await).await;
    plane_ready(&control, "plane").await;
    for name in ["dev", "prod", "test"] {
        environment(&control, name, "plane").await;
        plane_namespace(&plane, &format!("dp-{name}"), name).await;
        recorded(&control, name, &format!("dp-{name}")).await;
    }
    // A plane that is used says by whom, and stays.
    control.delete::<DataPlane>("acme/plane").await;
    let message = control
        .until("the plane says who uses it", "acme/plane", |plane: Option<&DataPlane>| {
            condition(plane?, "Stalled").filter(|said| said.1 == "InUse").map(|said| said.2)
        })
        .await;
    assert!(message.contains("Environment dev") && message.contains("Environment prod"), "{message}");

    control.delete::<Environment>("acme/dev").await;
    control.until_gone::<Environment>("acme/dev").await;
    namespace_is(&plane, "dp-dev", false).await;
    namespace_is(&plane, "dp-prod", true).await;

    // A project takes its namespaces of all environments; its Secret may go first.
    control.create::<Project>(&object("Project", "shop", json!({"deploymentPipelineRef": "default"}))).await;
    control
        .until("the project is followed", "acme/shop", |p: Option<&Project>| {
            (!p?.finalizers().is_empty()).then_some(())
        })
        .await;
    control.delete::<Secret>("acme/plane").await;
    control.delete::<Project>("acme/shop").await;
    control.until_gone::<Project>("acme/shop").await;
    for name in ["dp-prod", "dp-test"] {
        namespace_is(&plane, name, false).await;
    }

    // A plane that does not answer holds up what is on it, and says so; the user may let go.
    plane_namespace(&plane, "dp-late", "prod").await;
    recorded(&control, "prod", "dp-late").await;
    plane.pause().unwrap();
    control.delete::<Environment>("acme/prod").await;
    let message = control
        .until("the environment says what it waits for", "acme/prod", |e: Option<&Environment>| {
            condition(e?, "Finalizing")
                .map(|said| said.2)
                .filter(|message| message.contains("does not answer"))
        })
        .await;
    assert!(message.contains("dp-late") && message.contains("data plane plane"), "{message}");
    let orphan = json!({"metadata": {"annotations": {"openchoreo.dev/deletion-policy": "Orphan"}}});
    control.patch::<Environment>("acme/prod", orphan).await;
    control.until_gone::<Environment>("acme/prod").await;
    let left = event(&control, "LeftBehind").await;
    assert!(left.contains("dp-late"), "{left}");

    plane.resume().unwrap();
    control.delete::<Environment>("acme/test").await;
    control.until_gone::<Environment>("acme/test").await;
    control.until_gone::<DataPlane>("acme/plane").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plane_that_was_removed_by_force_may_be_another_cluster_when_it_is_made_anew() {
    let (control, old, new) = tokio::join!(acme(), plain_plane("old"), plain_plane("new"));
    register(&control, "plane", &plane_kubeconfig(&old).await).await;
    let first = plane_ready(&control, "plane").await;
    environment(&control, "dev", "plane").await;
    plane_namespace(&old, "dp-dev", "dev").await;
    recorded(&control, "dev", "dp-dev").await;
    control.delete::<DataPlane>("acme/plane").await;
    control
        .until("the plane says that it is used", "acme/plane", |plane: Option<&DataPlane>| {
            condition(plane?, "Stalled").filter(|said| said.1 == "InUse").map(|_| ())
        })
        .await;
    control.patch::<DataPlane>("acme/plane", json!({"metadata": {"finalizers": null}})).await;
    control.until_gone::<DataPlane>("acme/plane").await;

    control.delete::<Secret>("acme/plane").await;
    // It was held for as long as the plane was there.
    control.until_gone::<Secret>("acme/plane").await;
    register(&control, "plane", &plane_kubeconfig(&new).await).await;
    let second = plane_ready(&control, "plane").await;
    assert_ne!(first.status.unwrap().cluster_uid, second.status.unwrap().cluster_uid);
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_dead_planes_do_not_hold_up_a_living_one() {
    let (control, plane) = tokio::join!(acme(), plain_plane("plane"));
    let dead = |i: usize| -> DataPlane {
        // Ports that nobody listens on.
        let cluster = json!({"server": format!("https://127.0.0.1:{}", 1 + i % 9),
            "tls": {"ca": {"value": BASE64_STANDARD.encode(plane.ca_pem())}},
            "auth": {"bearerToken": {"value": "dead"}}});
        object("DataPlane", &format!("dead-{i}"), json!({"kubernetesCluster": cluster}))
    };
    futures::future::join_all((0..500).map(|i| {
        let control = &control;
        async move { control.create(&dead(i)).await }
    }))
    .await;
    wait_plane_condition(&control, "dead-499", "Unknown", "DataPlaneUnreachable").await;

    register(&control, "plane", &plane_kubeconfig(&plane).await).await;
    plane_ready(&control, "plane").await;
    environment(&control, "dev", "plane").await;
    plane_namespace(&plane, "dp-dev", "dev").await;
    recorded(&control, "dev", "dp-dev").await;
    control.delete::<Environment>("acme/dev").await;
    control.until_gone::<Environment>("acme/dev").await;
    namespace_is(&plane, "dp-dev", false).await;
    for i in [0, 250, 499] {
        wait_plane_condition(&control, &format!("dead-{i}"), "Unknown", "DataPlaneUnreachable").await;
    }
    // Quiet: planes that stay dead are tried, not written about.
    control.proxy.await_quiet(Duration::from_secs(2), PATIENCE).await.unwrap();
}
