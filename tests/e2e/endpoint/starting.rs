//! A plane whose API server has just started and does not serve all kinds yet: what it does not serve is not gone.

use kantor_api::{DataPlane, Deployment, Endpoint};
use kantor_testbed::proxy::{Action, Fault, FaultHandle, Match, Verb};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::support::{EndpointFixture, HTTP_ROUTE, SECURITY_POLICY, name, oauth2, open, template};
use crate::{
    acme::{plane_ready, wait_plane_condition},
    support::{PATIENCE, condition},
};

const GATEWAY_API: &str = "gateway.networking.k8s.io";

/// A REST endpoint that asks for tokens and has a host of its own.
fn guarded() -> Value {
    let policy = oauth2(json!([{"target": "/items", "method": "GET", "scopes": ["items:read"]}]));
    let mut template = template("api", "/v1", json!({"public": open(json!([policy]))}));
    template["spec"]["hostnames"] = json!(["shop.acme.example"]);
    template
}

/// From now on the plane leaves a group out of what it says that it serves.
fn without(fixture: &EndpointFixture, group: &str) -> FaultHandle {
    let groups = Match::new().path("/apis");
    fixture.deployment.plane.proxy.fault(Fault::when(groups).then(Action::without_group(group)))
}

/// Loses the plane.
async fn lose(fixture: &EndpointFixture) {
    fixture.deployment.plane.proxy.refuse(true);
    wait_plane_condition(&fixture.deployment.control, "plane", "Unknown", "DataPlaneUnreachable").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn guards_and_isolation_stay_while_a_plane_that_starts_does_not_serve_all_kinds() {
    let fixture = EndpointFixture::open().await;
    fixture.deploy(json!([guarded()])).await;
    let endpoint = fixture.ready(&name("api")).await;
    let guards = fixture.names(SECURITY_POLICY, &endpoint).await;
    assert!(!guards.is_empty());
    fixture.deployment.quiet().await;
    let (control, proxy) = (&fixture.deployment.control, &fixture.deployment.plane.proxy);
    let mark = proxy.mark();

    lose(&fixture).await;
    let groups = [without(&fixture, GATEWAY_API), without(&fixture, "cilium.io")];
    proxy.refuse(false);
    plane_ready(control, "plane").await;
    let said = fixture
        .until("it says what is not known", &name("api"), |found| {
            let said = condition(found, "Ready")?;
            said.1.starts_with("Capability").then_some(said)
        })
        .await;
    let deleted = proxy.writes_since(mark).verb(Verb::Delete);
    assert!(deleted.is_empty(), "{deleted}");
    assert_eq!((said.0.as_str(), said.1.as_str()), ("Unknown", "CapabilityUnknown"), "{said:?}");
    assert!(said.2.contains("HTTPRoute"), "{said:?}");
    let message = fixture.deployment.wait_condition("cart", "Ready", "Unknown", "CapabilityUnknown").await;
    assert!(message.contains("CiliumNetworkPolicy"), "{message}");

    drop(groups);
    fixture.ready(&name("api")).await;
    fixture.deployment.ready("cart").await;
    assert_eq!(fixture.names(SECURITY_POLICY, &endpoint).await, guards);

    // One that says that it is not ready is not asked what it serves.
    lose(&fixture).await;
    let unready = proxy.fault(Fault::when(Match::new().path("/readyz")).then(Action::status(500)));
    let asked = proxy.mark();
    proxy.refuse(false);
    unready.await_hits(2, PATIENCE).await.unwrap();
    let told =
        |found: Option<&DataPlane>| condition(found?, "Ready").filter(|said| said.2.contains("/readyz"));
    let said = control.until("it says that it is not ready", "acme/plane", told).await;
    assert_eq!((said.0.as_str(), said.1.as_str()), ("Unknown", "DataPlaneUnreachable"), "{said:?}");
    let since = proxy.since(asked).filter(|request| request.target.path == "/apis");
    assert!(since.is_empty(), "{since}");
    unready.remove();
    fixture.ready(&name("api")).await;
    fixture.deployment.ready("cart").await;
    let written = proxy.writes_since(mark);
    let other = written.filter(|write| write.verb() == Verb::Delete || write.resource() == "networkpolicies");
    assert!(other.is_empty(), "{other}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_deleted_meanwhile_is_held_until_its_routes_have_gone() {
    let fixture = EndpointFixture::open().await;
    fixture.deploy(json!([guarded()])).await;
    let endpoint = fixture.ready(&name("api")).await;
    let path = format!("acme/{}", name("api"));
    let control = &fixture.deployment.control;
    lose(&fixture).await;
    control.delete::<Deployment>("acme/cart").await;
    let partial = without(&fixture, GATEWAY_API);
    fixture.deployment.plane.proxy.refuse(false);
    plane_ready(control, "plane").await;
    // The first kind of routes that the plane defines and does not serve is named.
    let unserved = format!("{GATEWAY_API} is defined there and not served yet");
    let told = |found: &Endpoint| condition(found, "Finalizing").filter(|said| said.2.contains(&unserved));
    let held = control
        .until("it waits, or has gone", &path, |found: Option<&Endpoint>| match found {
            Some(found) => told(found).map(|_| true),
            None => Some(false),
        })
        .await;
    assert!(held, "its routes are still there: {:?}", fixture.names(HTTP_ROUTE, &endpoint).await);
    // Nobody gets the host while the route may still be there, nor do guards go before routes.
    assert!(fixture.claims().await.iter().any(|(host, _)| host == "shop.acme.example"));
    assert!(!fixture.names(SECURITY_POLICY, &endpoint).await.is_empty());
    assert!(!control.wait_exists::<Endpoint>(&path).await.finalizers().is_empty());

    partial.remove();
    control.until_gone::<Deployment>("acme/cart").await;
    assert_eq!(fixture.names(HTTP_ROUTE, &endpoint).await, [""; 0]);
    assert_eq!(fixture.claims().await, []);
}
