//! Several operators: one leads, the others stand by.

use std::{collections::BTreeMap, path::Path};

use k8s_openapi::api::core::v1::Namespace;
use kantor_api::{Organization, organization::OrganizationSpec};
use kantor_testbed::{
    Cluster, Operator,
    proxy::{Proxy, Record, Records},
    wait::{self, Seen},
};
use kube::{
    Api,
    api::{ListParams, PostParams},
};

use crate::support::{PATIENCE, control_plane, is_ready};

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
            // Where its role is.
            "--lease-namespace=kantor-system".to_owned(),
            format!("--lease-duration={lease}"),
            format!("--lease-renewal={}", lease * 2 / 3),
            "--lease-retry=500ms".to_owned(),
        ];
        let program = Path::new(env!("CARGO_BIN_EXE_kantor"));
        let operator = Operator::start(program, &kubeconfig, arguments).await.unwrap();
        Self { operator, proxy }
    }

    async fn leads(&self) {
        wait::until("it leads", PATIENCE, || async {
            let (_, metrics) = self.operator.get("/metrics").await?;
            let leads = metrics.contains("kantor_leader 1");
            Ok(if leads { Seen::Done(()) } else { Seen::NotYet(self.operator.log()) })
        })
        .await
        .unwrap();
    }

    /// What it wrote, beside the Lease.
    fn writes(&self) -> Records {
        self.proxy.requests().filter(|record| record.is_write() && record.resource() != "leases")
    }
}

async fn stage() -> Cluster {
    let control_plane = control_plane().await;
    control_plane.apply_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("crds")).await.unwrap();
    control_plane
}

async fn create(control_plane: &Cluster, name: &str) {
    let api: Api<Organization> = Api::all(control_plane.client());
    let organization = Organization::new(name, OrganizationSpec {});
    api.create(&PostParams::default(), &organization).await.unwrap();
}

/// Versions of all that operators write here, by resource and name.
async fn versions(control_plane: &Cluster) -> BTreeMap<(String, String), Option<String>> {
    let organizations: Api<Organization> = Api::all(control_plane.client());
    let namespaces: Api<Namespace> = Api::all(control_plane.client());
    let organizations = organizations.list_metadata(&ListParams::default()).await.unwrap();
    let namespaces = namespaces.list_metadata(&ListParams::default()).await.unwrap();
    let all = organizations.items.into_iter().map(|found| ("organizations", found.metadata));
    let all = all.chain(namespaces.items.into_iter().map(|found| ("namespaces", found.metadata)));
    all.map(|(of, found)| ((of.to_owned(), found.name.unwrap_or_default()), found.resource_version)).collect()
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
    let control_plane = stage().await;
    let first = Replica::start(&control_plane, 12).await;
    first.leads().await;
    let second = Replica::start(&control_plane, 12).await;
    create(&control_plane, "before").await;
    ready(&control_plane, "before").await;
    // It is ready to take over, and does nothing.
    second.operator.ready().await.unwrap();
    assert!(second.writes().is_empty(), "{}", second.writes());

    // Stopped in the middle of its work.
    for number in 0..30 {
        create(&control_plane, &format!("during-{number}")).await;
        if number == 15 {
            first.operator.pause().unwrap();
        }
    }
    second.leads().await;
    for number in 0..30 {
        ready(&control_plane, &format!("during-{number}")).await;
    }
    let done = first.writes().len();
    let before = versions(&control_plane).await;
    first.operator.resume().unwrap();
    // What it was about to do is not done, and it ends.
    create(&control_plane, "after").await;
    let status = first.operator.ended().await.unwrap();
    assert!(!status.success(), "{status}");
    assert!(first.operator.log().contains("lost the lease"), "{}", first.operator.log());
    ready(&control_plane, "after").await;
    // What it had looked up the lease for and not sent when it was stopped comes late: it has no effect, because it says of
    // which version of the object it is. An Event has no effect either, and tells of what was done before.
    let after = versions(&control_plane).await;
    let changed = |record: &Record| {
        let key = (record.resource().split('/').next().unwrap().to_owned(), record.name().to_owned());
        before.get(&key) != after.get(&key)
    };
    // It may have ended before the answer came.
    let has_effect = |record: &Record| match record.code() {
        _ if record.resource() == "events" => false,
        Some(code) => code != 409,
        None => changed(record),
    };
    let late: Vec<_> = first.writes().into_iter().skip(done).filter(has_effect).collect();
    assert!(late.is_empty(), "{late:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_ends_hands_over_at_once() {
    let control_plane = stage().await;
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
    let control_plane = stage().await;
    let first = Replica::start(&control_plane, 12).await;
    first.leads().await;
    let second = Replica::start(&control_plane, 12).await;
    first.proxy.refuse(true);
    let status = first.operator.ended().await.unwrap();
    assert!(!status.success(), "{status}");
    second.leads().await;
    create(&control_plane, "acme").await;
    ready(&control_plane, "acme").await;

    // Away for shorter than the lease: nothing changes.
    second.proxy.refuse(true);
    second.proxy.cut_connections();
    second.proxy.refuse(false);
    create(&control_plane, "globex").await;
    ready(&control_plane, "globex").await;
    assert!(second.operator.log().matches("\"leading\"").count() == 1, "{}", second.operator.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_that_start_at_once_one_leads() {
    let control_plane = stage().await;
    let replicas = futures::future::join_all((0..3).map(|_| Replica::start(&control_plane, 3600))).await;
    create(&control_plane, "acme").await;
    ready(&control_plane, "acme").await;
    let writers = replicas.iter().filter(|replica| !replica.writes().is_empty()).count();
    assert_eq!(writers, 1);
}
