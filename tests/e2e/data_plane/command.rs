//! `kantor plane kubeconfig`: a plane is registered by what it prints.

use std::{
    path::Path,
    process::{Command, Output},
};

use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec},
    core::v1::ServiceAccount,
};
use kube::{Client, api::PostParams};

use super::*;

/// A folder with kubeconfigs, and the command.
pub(super) struct Desk(tempfile::TempDir);

impl Desk {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(super) fn file(&self, name: &str, kubeconfig: &KubeconfigSpec) -> String {
        let path = self.0.path().join(name);
        std::fs::write(&path, kubeconfig.to_yaml()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// `kantor plane kubeconfig` for data plane `name` of acme.
    pub(super) fn run(kubeconfig: &str, name: &str, more: &[&str]) -> Output {
        Command::new(Path::new(env!("CARGO_BIN_EXE_kantor")))
            .args(["plane", "kubeconfig", "--organization", "acme", "--name", name])
            .args(["--kubeconfig", kubeconfig])
            .args(more)
            .env_remove("KUBECONFIG")
            .output()
            .unwrap()
    }
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

async fn accounts(plane: &Cluster) -> usize {
    let accounts: Api<ServiceAccount> = Api::all(plane.client());
    let params = ListParams::default().fields("metadata.name=kantor");
    accounts.list(&params).await.unwrap().items.len()
}

/// The token in the kubeconfig of a Secret.
pub(super) async fn token_of(control: &OperatorFixture, secret: &str) -> String {
    let secret: Secret = control.wait_exists(&format!("acme/{secret}")).await;
    let kubeconfig = text(&secret.data.unwrap()["kubeconfig"].0);
    let kubeconfig: serde_json::Value = serde_json::from_str(&kubeconfig).unwrap();
    kubeconfig["users"][0]["user"]["token"].as_str().unwrap().to_owned()
}

/// Whether the client's user may do so to an object of `kantor-system`.
pub(super) async fn may(client: &Client, verb: &str, group: &str, resource: &str, name: &str) -> bool {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let attributes = ResourceAttributes {
        verb: Some(verb.to_owned()),
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource: Some(subresource.to_owned()),
        namespace: Some("kantor-system".to_owned()),
        name: Some(name.to_owned()),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    reviews.create(&PostParams::default(), &review).await.unwrap().status.unwrap().allowed
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plane_is_registered_by_nothing_but_what_the_command_prints_or_applies() {
    let (control, plane) = tokio::join!(acme(), plain_plane("plane"));
    let desk = Desk::new();
    let kubeconfig = desk.file("plane", &plane.kubeconfig());

    // Refused before anything is written: what the operator would refuse.
    let refused = Desk::run(&kubeconfig, "eu", &[]);
    assert!(!refused.status.success());
    let why = text(&refused.stderr);
    assert!(why.contains("clusters[0].cluster.server") && why.contains("--server"), "{why}");
    let refused = Desk::run(&kubeconfig, "eu", &["--context=nowhere"]);
    assert!(text(&refused.stderr).contains("it has plane"), "{}", text(&refused.stderr));
    let local = "--allow-loopback-planes";
    let dry = Desk::run(&kubeconfig, "eu", &[local, "--dry-run", "--with-data-plane"]);
    assert!(dry.status.success() && text(&dry.stdout).contains("kind: DataPlane"), "{}", text(&dry.stderr));
    assert_eq!(accounts(&plane).await, 0, "nothing was written");

    let done = Desk::run(&kubeconfig, "eu", &[local, "--with-data-plane", "--expires=1h"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    control.control_plane.apply_yaml(&text(&done.stdout)).await.unwrap();
    let eu = plane_ready(&control, "eu").await;
    assert!(eu.status.as_ref().unwrap().credentials_expire_time.is_some());
    let (status, reason, _) = condition(&eu, "TokenRenewed").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("True", "TokenRenewalPlanned"));
    let token = token_of(&control, "eu").await;
    assert!(!text(&done.stderr).contains(&token) && text(&done.stderr).contains("ends at"));

    // A second time, with the control plane written to: nothing is asked for that is there.
    let control_plane = desk.file("control-plane", &control.control_plane.kubeconfig());
    let apply = [
        local,
        "--with-data-plane",
        "--apply",
        "--control-plane-kubeconfig",
        &control_plane,
        "--control-plane-context=control-plane",
    ];
    let done = Desk::run(&kubeconfig, "us", &apply);
    assert!(done.status.success() && done.stdout.is_empty(), "{}", text(&done.stderr));
    plane_ready(&control, "us").await;
    assert_eq!(accounts(&plane).await, 1);
    for said in [text(&done.stderr), control.operator.log()] {
        assert!(
            !said.contains(&token) && !said.contains(&token_of(&control, "us").await),
            "a token was let out"
        );
    }

    // It may do what Kantor does, and hand nothing on.
    let client = KubeconfigSpec { auth: Auth::Token(token), ..plane.kubeconfig() }.client().await.unwrap();
    let may = async |verb: &str, group: &str, resource: &str, name: &str| {
        may(&client, verb, group, resource, name).await
    };
    assert!(may("patch", "apps", "deployments", "a").await);
    assert!(may("create", "", "serviceaccounts/token", "kantor").await, "its own token");
    assert!(!may("create", "", "serviceaccounts/token", "default").await, "a token of somebody else");
    assert!(!may("patch", "rbac.authorization.k8s.io", "rolebindings", "kantor-token").await);
    assert!(!may("create", "", "pods/exec", "a").await);
}
