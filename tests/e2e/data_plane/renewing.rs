//! Tokens that are renewed before they end.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::RoleBinding;
use kantor_testbed::proxy::Record;
use kube::api::{DeleteParams, PostParams};

use super::{
    command::{Desk, may, text, token_of},
    *,
};

const HOUR: Duration = Duration::from_hours(1);

/// A token of the plane's identity that was issued an hour ago and has ten minutes left: it is due.
async fn ending(plane: &Cluster) -> String {
    plane.service_account_token("kantor-system", "kantor", HOUR, HOUR / 6).await.unwrap()
}

/// Puts a token into the Secret of `plane`.
async fn put(control: &OperatorFixture, kubeconfig: &KubeconfigSpec, token: &str) {
    let yaml = KubeconfigSpec { auth: Auth::Token(token.to_owned()), ..kubeconfig.clone() }.to_yaml();
    let encoded = BTreeMap::from([("kubeconfig", BASE64_STANDARD.encode(yaml))]);
    control.patch::<Secret>("acme/plane", json!({"data": encoded})).await;
}

/// Waits until the Secret has another kubeconfig than one with `token`; returns its token.
async fn renewed(control: &OperatorFixture, token: &str) -> String {
    control
        .until("the Secret has a new token", "acme/plane", |secret: Option<&Secret>| {
            let data = &secret?.data.as_ref()?["kubeconfig"].0;
            (!text(data).contains(token)).then_some(())
        })
        .await;
    token_of(control, "plane").await
}

pub async fn event(control: &OperatorFixture, reason: &str) -> String {
    let events: Api<Event> = Api::namespaced(control.client.clone(), "acme");
    wait::until(&format!("there is an Event {reason}"), PATIENCE, || async {
        let list = events.list(&ListParams::default()).await?;
        let found = list.items.into_iter().find(|event| event.reason.as_deref() == Some(reason));
        Ok(found.map_or_else(
            || Seen::NotYet("no such Event".to_owned()),
            |event| Seen::Done(event.note.unwrap_or_default()),
        ))
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_renewed_before_it_ends_and_no_watch_notices() {
    let (control, plane) = tokio::join!(acme(), plain_plane("plane"));
    let proxy = Proxy::start(&plane).unwrap();
    let desk = Desk::new();
    let file = desk.file("plane", &plane.kubeconfig());
    let registered = Desk::run(&file, "plane", &["--allow-loopback-planes", "--with-data-plane"]);
    assert!(registered.status.success(), "{}", text(&registered.stderr));
    control.control_plane.apply_yaml(&text(&registered.stdout)).await.unwrap();
    let kubeconfig = plane.kubeconfig().at(proxy.url(), proxy.ca_pem());
    // Through the proxy, with the token that the command got: it is not due for weeks.
    put(&control, &kubeconfig, &token_of(&control, "plane").await).await;
    plane_ready(&control, "plane").await;
    environment(&control, "dev", "plane").await;
    let is_namespaces = |r: &Record| r.resource() == "namespaces" && r.name().is_empty();
    proxy.await_request(|r| is_namespaces(r) && r.is_open_watch(), PATIENCE).await.unwrap();

    let (old, mark) = (ending(&plane).await, proxy.mark());
    put(&control, &kubeconfig, &old).await;
    let new = renewed(&control, &old).await;
    proxy.await_request_since(mark, |r| r.credential.is_token(&new), PATIENCE).await.unwrap();
    let said = event(&control, "TokenRenewed").await;
    plane_ready(&control, "plane").await;
    control
        .until("the plane says when it is due again", "acme/plane", |plane: Option<&DataPlane>| {
            condition(plane?, "TokenRenewed").filter(|said| said.0 == "True").map(drop)
        })
        .await;
    let since = proxy.since(mark);
    assert_eq!(since.clone().filter(|r| r.resource() == "serviceaccounts").len(), 1, "asked once:\n{since}");
    assert_eq!(since.clone().filter(|r| is_namespaces(r)).len(), 0, "no list and no new watch:\n{since}");
    let refused = since.filter(|r| r.code().is_some_and(|code| code >= 400));
    assert_eq!(refused.len(), 0, "{refused}");
    let open = proxy.requests().filter(|r| is_namespaces(r) && r.is_open_watch());
    assert_eq!(open.len(), 1, "the watch from before is still open");

    // Not allowed any more: said, tried again, and in nobody's way.
    let bindings: Api<RoleBinding> = Api::namespaced(plane.client(), "kantor-system");
    let binding = bindings.get("kantor-token").await.unwrap();
    bindings.delete("kantor-token", &DeleteParams::default()).await.unwrap();
    let old = ending(&plane).await;
    let account =
        KubeconfigSpec { auth: Auth::Token(old.clone()), ..plane.kubeconfig() }.client().await.unwrap();
    wait::until("the account may make no tokens", PATIENCE, || async {
        let allowed = may(&account, "create", "", "serviceaccounts/token", "kantor").await;
        Ok(if allowed { Seen::NotYet("it may".to_owned()) } else { Seen::Done(()) })
    })
    .await
    .unwrap();
    put(&control, &kubeconfig, &old).await;
    let why = control
        .until("the plane says that it cannot", "acme/plane", |plane: Option<&DataPlane>| {
            let said = condition(plane?, "TokenRenewed")?;
            (said.0 == "False" && said.1 == "TokenRenewalFailed").then_some(said.2)
        })
        .await;
    assert!(why.contains("forbidden") && why.contains("serviceaccounts"), "{why}");
    let warned = event(&control, "TokenRenewalFailed").await;
    plane_ready(&control, "plane").await;
    environment(&control, "test", "plane").await;
    assert_eq!(token_of_yaml(&control).await, old, "the Secret is left alone");

    let mut again = binding;
    again.metadata.resource_version = None;
    again.metadata.uid = None;
    bindings.create(&PostParams::default(), &again).await.unwrap();
    let newest = renewed(&control, &old).await;
    plane_ready(&control, "plane").await;
    for token in [&old, &new, &newest] {
        for said in [&control.operator.log(), &said, &why, &warned] {
            assert!(!said.contains(token.as_str()), "a token was let out");
        }
    }
}

/// The token in the kubeconfig that the test wrote.
async fn token_of_yaml(control: &OperatorFixture) -> String {
    let secret: Secret = control.wait_exists("acme/plane").await;
    let yaml = text(&secret.data.unwrap()["kubeconfig"].0);
    yaml.split("token: \"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default().to_owned()
}
