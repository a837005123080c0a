//! Nothing is open before it is guarded.

use kantor_api::{Deployment, Endpoint};
use kantor_testbed::{
    proxy::{Action, Fault, Match, Record, Verb},
    wait::{self, Seen},
};
use serde_json::{Value, json};

use super::support::{
    EndpointFixture, FILTER, HTTP_ROUTE, SECURITY_POLICY, TRAFFIC_POLICY, name, oauth2, open, template,
};
use crate::{observing::looked_at, support::PATIENCE};

fn leads_somewhere(route: &Value) -> bool {
    route["spec"]["rules"][0]["backendRefs"].is_array()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_is_opened_when_its_guards_are_accepted_and_goes_before_them() {
    let fixture = EndpointFixture::open().await;
    fixture.fake_gateway.hesitate();
    let guarded = |operations: Value| {
        json!([template("api", "/v1", json!({"public": open(json!([oauth2(operations)]))}))])
    };
    let one = json!([{"target": "/items", "method": "GET", "scopes": ["items:read"]}]);
    let mark = fixture.deployment.plane.proxy.mark();
    fixture.deploy(guarded(one.clone())).await;
    fixture.wait_condition(&name("api"), "False", "PolicyPending").await;
    let endpoint = fixture.until("it exists", &name("api"), |found| Some(found.clone())).await;
    let routes = fixture.objects(HTTP_ROUTE, &endpoint).await;
    assert_eq!(routes.len(), 2);
    assert!(!routes.iter().any(leads_somewhere), "{routes:#?}");
    // Guards were there before the routes that they guard.
    let order: Vec<String> = fixture
        .deployment
        .plane
        .proxy
        .writes_since(mark)
        .iter()
        .filter(|record| record.verb() == Verb::Apply && record.committed())
        .map(|record| record.resource().to_owned())
        .filter(|resource| {
            ["securitypolicies", "httproutefilters", "httproutes"].contains(&resource.as_str())
        })
        .collect();
    let first_route = order.iter().position(|resource| resource == "httproutes").unwrap();
    assert!(
        order[..first_route].iter().filter(|resource| *resource == "securitypolicies").count() == 2,
        "{order:?}"
    );
    assert!(order[first_route..].iter().all(|resource| resource == "httproutes"), "{order:?}");

    fixture.fake_gateway.decide().await;
    let endpoint = fixture.ready(&name("api")).await;
    let routes = fixture.objects(HTTP_ROUTE, &endpoint).await;
    assert!(routes.iter().all(leads_somewhere), "{routes:#?}");

    // An operation more is closed until its own guard is accepted; what is open stays so.
    fixture.fake_gateway.hesitate();
    let two = json!([one[0], {"target": "/items", "method": "POST", "scopes": ["items:write"]}]);
    fixture.edit(guarded(two)).await;
    fixture.wait_condition(&name("api"), "False", "PolicyPending").await;
    let routes = fixture.objects(HTTP_ROUTE, &endpoint).await;
    let of = |method: &str| {
        let found = |route: &&Value| route["spec"]["rules"][0]["matches"][0]["method"] == *method;
        leads_somewhere(routes.iter().find(found).unwrap())
    };
    assert_eq!((of("GET"), of("POST")), (true, false));
    fixture.fake_gateway.decide().await;
    fixture.ready(&name("api")).await;

    // What can no longer be enforced closes all of it, guards last.
    let mark = fixture.deployment.plane.proxy.mark();
    let change = json!([{"name": "change", "type": "mediation", "policySpec": {}}]);
    fixture.edit(json!([template("api", "/v1", json!({"public": open(change)}))])).await;
    let message = fixture.wait_condition(&name("api"), "False", "PolicyNotEnforceable").await;
    assert!(message.contains("mediation"), "{message}");
    for kind in [HTTP_ROUTE, SECURITY_POLICY, FILTER, TRAFFIC_POLICY] {
        assert_eq!(fixture.names(kind, &endpoint).await, [""; 0]);
    }
    let deleted: Vec<String> = fixture
        .deployment
        .plane
        .proxy
        .writes_since(mark)
        .iter()
        .filter(|record| record.verb() == Verb::Delete)
        .map(|record| record.resource().to_owned())
        .collect();
    let first_guard = deleted.iter().position(|resource| resource != "httproutes").unwrap();
    assert!(!deleted[first_guard..].contains(&"httproutes".to_owned()), "{deleted:?}");
    fixture
        .until("it has no address", &name("api"), |found| {
            let status = found.status.as_ref()?;
            (status.address.is_none() && status.addresses.is_empty()).then_some(())
        })
        .await;
}

/// A visibility for those who have a token, and not too many of them: two guards of each route.
fn twice_guarded() -> Value {
    let limit = json!({"name": "rate", "type": "rate-limit", "policySpec": {"rateLimit": {
        "apiLevel": {"timeUnit": "Minute", "requestLimit": 100}, "operationLevel": {"rest": []}}}});
    let login = oauth2(json!([{"target": "/items", "method": "GET", "scopes": ["items:read"]}]));
    json!([template("api", "/v1", json!({"public": open(json!([login, limit]))}))])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_waits_for_each_of_its_guards_to_be_there_and_to_be_accepted() {
    let fixture = EndpointFixture::open().await;
    let endpoint = async || fixture.until("it exists", &name("api"), |found| Some(found.clone())).await;
    // One guard of two cannot be made: there is no route that it would have to guard.
    let made = Match::new().verb(Verb::Apply).resource("backendtrafficpolicies");
    let refused = fixture.deployment.plane.proxy.fault(Fault::when(made).then(Action::status(403)));
    let mark = fixture.deployment.plane.proxy.mark();
    fixture.fake_gateway.hesitate_about(&[TRAFFIC_POLICY]);
    fixture.deploy(twice_guarded()).await;
    refused.await_hit(PATIENCE).await.unwrap();
    let message = fixture.wait_condition(&name("api"), "False", "ApplyRefused").await;
    assert!(message.contains("BackendTrafficPolicy"), "{message}");
    let guards = fixture.deployment.plane.proxy.writes_since(mark).resource("securitypolicies");
    assert!(guards.iter().any(Record::committed), "the other guard is there: {guards}");
    let routes = fixture.deployment.plane.proxy.writes_since(mark).resource("httproutes");
    assert!(routes.is_empty(), "{routes}");
    refused.remove();

    // One of the two is accepted, whichever it is: the route leads nowhere.
    for (undecided, accepted) in [(TRAFFIC_POLICY, SECURITY_POLICY), (SECURITY_POLICY, TRAFFIC_POLICY)] {
        fixture.wait_condition(&name("api"), "False", "PolicyPending").await;
        let is_answered = |policy: &Value| policy["status"]["ancestors"].is_array();
        wait::until("the gateway has accepted one", PATIENCE, || async {
            let policies = fixture.objects(accepted, &endpoint().await).await;
            let answered = !policies.is_empty() && policies.iter().all(is_answered);
            Ok(if answered { Seen::Done(()) } else { Seen::NotYet(format!("{policies:#?}")) })
        })
        .await
        .unwrap();
        // Looked at with that, the route is as it was.
        let touch = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/touched": undecided}}});
        let touching = fixture.deployment.control.patch::<Deployment>("acme/cart", touch);
        looked_at(&fixture.deployment.control, &["endpoint"], touching).await;
        fixture.wait_condition(&name("api"), "False", "PolicyPending").await;
        let routes = fixture.objects(HTTP_ROUTE, &endpoint().await).await;
        assert!(!routes.is_empty() && !routes.iter().any(leads_somewhere), "{undecided}: {routes:#?}");
        let policies = fixture.objects(undecided, &endpoint().await).await;
        assert!(!policies.is_empty() && !policies.iter().any(is_answered), "{policies:#?}");
        // Made anew, with the other one undecided.
        if undecided == TRAFFIC_POLICY {
            fixture.deployment.delete("cart").await;
            fixture.fake_gateway.hesitate_about(&[SECURITY_POLICY]);
            fixture.deployment.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
        }
    }
    fixture.fake_gateway.decide().await;
    fixture.ready(&name("api")).await;
    let routes = fixture.objects(HTTP_ROUTE, &endpoint().await).await;
    assert!(routes.iter().all(leads_somewhere), "{routes:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_passwords_come_from_secrets_that_may_be_used_and_follow_them() {
    let fixture = EndpointFixture::open().await;
    let secret = |name: &str, labels: Value, value: &str| {
        serde_json::from_value::<k8s_openapi::api::core::v1::Secret>(json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": "acme", "labels": labels}, "stringData": {"partner": value}}))
        .unwrap()
    };
    fixture.deployment.control.create(&secret("keys", json!({}), "first")).await;
    let keys = json!([{"name": "keys", "type": "api-key", "policySpec": {"apiKeyAuth": {
        "keySource": {"header": "x-api-key"}, "secretRefs": ["keys"]}}}]);
    fixture.deploy(json!([template("api", "/v1", json!({"public": open(keys)}))])).await;
    // Not every Secret of the organization is for this.
    let message = fixture.wait_condition(&name("api"), "False", "SecretNotUsable").await;
    assert!(message.contains("secret-kind: application") && !message.contains("first"), "{message}");
    let label = json!({"metadata": {"labels": {"openchoreo.dev/secret-kind": "application"}}});
    fixture.deployment.control.patch::<k8s_openapi::api::core::v1::Secret>("acme/keys", label).await;
    let endpoint = fixture.ready(&name("api")).await;
    let copy = fixture.objects("v1/Secret", &endpoint).await.remove(0);
    assert_eq!(copy["data"], json!({"partner": "Zmlyc3Q="}));
    let policy = fixture.objects(SECURITY_POLICY, &endpoint).await.remove(0);
    assert_eq!(policy["spec"]["apiKeyAuth"]["credentialRefs"][0]["name"], copy["metadata"]["name"]);
    let change = json!({"stringData": {"partner": "second"}});
    fixture.deployment.control.patch::<k8s_openapi::api::core::v1::Secret>("acme/keys", change).await;
    let at = |field: &str| copy["metadata"][field].as_str().unwrap().to_owned();
    fixture
        .deployment
        .plane
        .until("the key is new", ("v1/Secret", &at("namespace"), &at("name")), |found| {
            (found?["data"]["partner"] == "c2Vjb25k").then_some(())
        })
        .await;
    // Without the Secret nobody is let in.
    fixture.deployment.control.delete::<k8s_openapi::api::core::v1::Secret>("acme/keys").await;
    fixture.wait_condition(&name("api"), "False", "SecretNotUsable").await;
    assert_eq!(fixture.names(HTTP_ROUTE, &endpoint).await, [""; 0]);
    assert_eq!(fixture.names("v1/Secret", &endpoint).await, [""; 0]);
    let log = fixture.deployment.control.operator.log();
    for key in ["first\"", "Zmlyc3Q=", "second\"", "c2Vjb25k"] {
        assert!(!log.contains(key), "a key is in the log: {key}");
    }
    drop(endpoint as Endpoint);
}
