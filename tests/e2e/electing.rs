//! Several operators: one leads, the others stand by.

use std::path::Path;

use k8s_openapi::api::{coordination::v1::Lease, core::v1::Secret};
use kantor_api::{Organization, Release, organization::OrganizationSpec};
use kantor_testbed::{
    Cluster, Operator,
    proxy::{Action, Fault, Match, Proxy, Records, Verb},
    wait::{self, Seen},
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::{
    acme::{environment, plane_ready, register},
    release::support::{Plane, config_map, home, release},
    support::{OperatorFixture, PATIENCE, control_plane, is_ready},
};

/// Where the Lease is: where the operator's role is.
const LEASE_NAMESPACE: &str = "kantor-system";

/// An operator behind a proxy of its own.
struct Replica {
    operator: Operator,
    proxy: Proxy,
}

impl Replica {
    async fn start(control_plane: &Cluster, lease: u64) -> Self {
        let proxy = Proxy::start(control_plane).unwrap();
        let kubeconfig = control_plane.operator_kubeconfig().await.unwrap().at(proxy.url(), proxy.ca_pem());
        let arguments = [
            "--leader-elect".to_owned(),
            "--allow-loopback-planes".to_owned(),
            // One write to a plane at a time: the others wait for their turns.
            "--plane-concurrency=1".to_owned(),
            format!("--lease-namespace={LEASE_NAMESPACE}"),
            format!("--lease-duration={lease}"),
            format!("--lease-renewal={}", lease * 2 / 3),
            "--lease-retry=500ms".to_owned(),
        ];
        let program = Path::new(env!("CARGO_BIN_EXE_kantor"));
        let operator = Operator::start(program, &kubeconfig, arguments).await.unwrap();
        Self { operator, proxy }
    }

    async fn leads(&self) {
        leads(&self.operator).await;
    }

    /// What it wrote, beside the Lease.
    fn writes(&self) -> Records {
        self.proxy.requests().filter(|record| record.is_write() && record.resource() != "leases")
    }
}

async fn leads(operator: &Operator) {
    wait::until("it leads", PATIENCE, || async {
        let (_, metrics) = operator.get("/metrics").await?;
        let leads = metrics.contains("kantor_leader 1");
        Ok(if leads { Seen::Done(()) } else { Seen::NotYet(operator.log()) })
    })
    .await
    .unwrap();
}

async fn create(control_plane: &Cluster, name: &str) {
    let api: Api<Organization> = Api::all(control_plane.client());
    let organization = Organization::new(name, OrganizationSpec {});
    api.create(&PostParams::default(), &organization).await.unwrap();
}

async fn ready(control_plane: &Cluster, name: &str) {
    let api: Api<Organization> = Api::all(control_plane.client());
    wait::until(&format!("{name} is ready"), PATIENCE, || async {
        let found = api.get(name).await?;
        Ok(if is_ready(&found) { Seen::Done(()) } else { Seen::NotYet(format!("{found:?}")) })
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_was_stopped_writes_nothing_after_another_has_begun() {
    let (cluster, plane) = tokio::join!(control_plane(), Plane::start("plane"));
    let Replica { operator, proxy } = Replica::start(&cluster, 12).await;
    let first = OperatorFixture { operator, proxy, client: cluster.client(), control_plane: cluster };
    leads(&first.operator).await;
    create(&first.control_plane, "acme").await;
    ready(&first.control_plane, "acme").await;
    // Through the first proxy of the plane goes what the first operator asks for, through the second what the other one does.
    register(&first, "plane", &plane.kubeconfig).await;
    plane_ready(&first, "plane").await;
    environment(&first, "dev", "plane").await;
    first.create::<Release>(&release("before", &[("a", config_map("before", json!({})))])).await;
    first.until_ready::<Release>("acme/before").await;
    let second = Replica::start(&first.control_plane, 12).await;
    // It is ready to take over, and does nothing.
    second.operator.ready().await.unwrap();
    assert!(second.writes().is_empty(), "{}", second.writes());

    // A write to the plane is under way, and others wait for it; one to the control plane is, too.
    let held =
        plane.proxy.fault(Fault::when(Match::new().writes().resource("configmaps")).then(Action::HoldBefore));
    let objects: Vec<_> =
        ["a", "b", "c", "d"].map(|name| (name, config_map(name, json!({"by": "first"})))).into();
    first.create::<Release>(&release("during", &objects)).await;
    held.await_hit(PATIENCE).await.unwrap();
    let made = Match::new().verb(Verb::Create).resource("namespaces");
    let held_at_home = first.proxy.fault(Fault::when(made).then(Action::HoldBefore));
    create(&first.control_plane, "during").await;
    held_at_home.await_hit(PATIENCE).await.unwrap();
    // What happens to the Secret is not for the first one.
    let secrets = Match::new().verb(Verb::Watch).resource("secrets");
    let unheard = first.proxy.fault(Fault::when(secrets).then(Action::hide_events(|_| true)));
    first.operator.pause().unwrap();

    let elsewhere = Proxy::start(&plane.cluster).unwrap();
    let kubeconfig = plane.kubeconfig.at(elsewhere.url(), elsewhere.ca_pem()).to_yaml();
    first
        .patch::<Secret>("acme/plane", json!({"data": null, "stringData": {"kubeconfig": kubeconfig}}))
        .await;
    unheard.await_hit(PATIENCE).await.unwrap();
    second.leads().await;
    first.until_ready::<Release>("acme/during").await;
    ready(&first.control_plane, "during").await;
    create(&first.control_plane, "later").await;
    ready(&first.control_plane, "later").await;
    let made_by_second = elsewhere.requests().filter(|r| r.is_write() && r.resource() == "configmaps");
    assert_eq!(made_by_second.len(), 4, "{made_by_second}");

    // It goes on, and cannot be told for a while who leads. What it was about to send is not sent, and it ends.
    let untold = first.proxy.fault(Fault::when(Match::new().resource("leases")).then(Action::Hang));
    let (here, there) = (first.proxy.mark(), plane.proxy.mark());
    drop((held, held_at_home));
    first.operator.resume().unwrap();
    let status = first.operator.ended().await.unwrap();
    assert!(!status.success(), "{status}");
    let log = first.operator.log();
    assert!(log.contains("lost the lease"), "{log}");
    assert!(log.contains("does not lead"), "it tried to write: {log}");
    untold.await_hit(PATIENCE).await.unwrap();
    let late = plane.proxy.writes_since(there);
    assert!(late.is_empty(), "{late}");
    let late = first.proxy.writes_since(here).filter(|record| record.resource() != "leases");
    assert!(late.is_empty(), "{late}");
    assert!(plane.get("v1/ConfigMap", &home(), "d").await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_that_conflicts_with_a_change_by_somebody_else_is_made_again() {
    let control_plane = control_plane().await;
    let only = Replica::start(&control_plane, 3600).await;
    only.leads().await;
    let renewals = || Match::new().verb(Verb::Update).resource("leases");
    let held = only.proxy.fault(Fault::when(renewals().nth(2)).then(Action::HoldBefore));
    held.await_hit(PATIENCE).await.unwrap();
    let leases: Api<Lease> = Api::namespaced(control_plane.client(), LEASE_NAMESPACE);
    let touch = json!({"metadata": {"annotations": {"touched": "yes"}}});
    leases.patch("kantor", &PatchParams::default(), &Patch::Merge(touch)).await.unwrap();
    let mark = only.proxy.mark();
    held.release();
    let is_renewal = |record: &kantor_testbed::proxy::Record, code| {
        record.resource() == "leases" && record.verb() == Verb::Update && record.code() == Some(code)
    };
    only.proxy.await_request(|record| is_renewal(record, 409), PATIENCE).await.unwrap();
    only.proxy.await_request_since(mark, |record| is_renewal(record, 200), PATIENCE).await.unwrap();
    create(&control_plane, "acme").await;
    ready(&control_plane, "acme").await;
    let log = only.operator.log();
    assert!(!log.contains("lost the lease") && log.matches("\"leading\"").count() == 1, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_ends_hands_over_at_once() {
    let control_plane = control_plane().await;
    // Nobody could wait for the end of this lease.
    let first = Replica::start(&control_plane, 3600).await;
    first.leads().await;
    let second = Replica::start(&control_plane, 3600).await;
    first.operator.terminate().unwrap();
    let status = first.operator.ended().await.unwrap();
    assert!(status.success(), "{status}\n{}", first.operator.log());
    second.leads().await;
    create(&control_plane, "acme").await;
    ready(&control_plane, "acme").await;
    assert!(first.writes().is_empty(), "{}", first.writes());
    // One that only stands by ends as well.
    let third = Replica::start(&control_plane, 3600).await;
    third.operator.terminate().unwrap();
    assert!(third.operator.ended().await.unwrap().success());
    assert!(third.writes().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_cut_off_stops_by_itself_and_a_server_that_was_away_is_no_reason_to_have_two() {
    let control_plane = control_plane().await;
    let first = Replica::start(&control_plane, 12).await;
    first.leads().await;
    let second = Replica::start(&control_plane, 12).await;
    first.proxy.refuse(true);
    let status = first.operator.ended().await.unwrap();
    assert!(!status.success(), "{status}");
    second.leads().await;
    create(&control_plane, "acme").await;
    ready(&control_plane, "acme").await;

    // Away for shorter than the lease, and for long enough that it could not be renewed: nothing changes.
    let failures = || second.operator.log().matches("cannot read or renew the lease").count();
    let before = failures();
    second.proxy.refuse(true);
    wait::until("a renewal has failed", PATIENCE, || async {
        Ok(if failures() > before { Seen::Done(()) } else { Seen::NotYet(second.operator.log()) })
    })
    .await
    .unwrap();
    second.proxy.refuse(false);
    create(&control_plane, "globex").await;
    ready(&control_plane, "globex").await;
    assert!(second.operator.log().matches("\"leading\"").count() == 1, "{}", second.operator.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_that_start_at_once_one_leads() {
    let control_plane = control_plane().await;
    let replicas = futures::future::join_all((0..3).map(|_| Replica::start(&control_plane, 3600))).await;
    create(&control_plane, "acme").await;
    ready(&control_plane, "acme").await;
    let writers = replicas.iter().filter(|replica| !replica.writes().is_empty()).count();
    assert_eq!(writers, 1);
}
