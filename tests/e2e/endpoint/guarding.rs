//! Nothing is open before it is guarded.

use kantor_api::Endpoint;
use kantor_testbed::proxy::Verb;
use serde_json::{Value, json};

use super::support::{
    FILTER, HTTP_ROUTE, Mall, SECURITY_POLICY, TRAFFIC_POLICY, name, oauth2, open, template,
};

fn leads_somewhere(route: &Value) -> bool {
    route["spec"]["rules"][0]["backendRefs"].is_array()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_is_opened_when_its_guards_are_accepted_and_goes_before_them() {
    let mall = Mall::open().await;
    mall.stand_in.hesitate();
    let guarded = |operations: Value| {
        json!([template("api", "/v1", json!({"public": open(json!([oauth2(operations)]))}))])
    };
    let one = json!([{"target": "/items", "method": "GET", "scopes": ["items:read"]}]);
    let mark = mall.shop.plane.proxy.mark();
    mall.deploy(guarded(one.clone())).await;
    mall.says(&name("api"), "False", "PolicyPending").await;
    let endpoint = mall.until("it exists", &name("api"), |found| Some(found.clone())).await;
    let routes = mall.objects(HTTP_ROUTE, &endpoint).await;
    assert_eq!(routes.len(), 2);
    assert!(!routes.iter().any(leads_somewhere), "{routes:#?}");
    // Guards were there before the routes that they guard.
    let order: Vec<String> = mall
        .shop
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

    mall.stand_in.decide().await;
    let endpoint = mall.ready(&name("api")).await;
    let routes = mall.objects(HTTP_ROUTE, &endpoint).await;
    assert!(routes.iter().all(leads_somewhere), "{routes:#?}");

    // An operation more is closed until its own guard is accepted; what is open stays so.
    mall.stand_in.hesitate();
    let two = json!([one[0], {"target": "/items", "method": "POST", "scopes": ["items:write"]}]);
    mall.edit(guarded(two)).await;
    mall.says(&name("api"), "False", "PolicyPending").await;
    let routes = mall.objects(HTTP_ROUTE, &endpoint).await;
    let of = |method: &str| {
        let found = |route: &&Value| route["spec"]["rules"][0]["matches"][0]["method"] == *method;
        leads_somewhere(routes.iter().find(found).unwrap())
    };
    assert_eq!((of("GET"), of("POST")), (true, false));
    mall.stand_in.decide().await;
    mall.ready(&name("api")).await;

    // What can no longer be enforced closes all of it, guards last.
    let mark = mall.shop.plane.proxy.mark();
    let change = json!([{"name": "change", "type": "mediation", "policySpec": {}}]);
    mall.edit(json!([template("api", "/v1", json!({"public": open(change)}))])).await;
    let message = mall.says(&name("api"), "False", "PolicyNotEnforceable").await;
    assert!(message.contains("mediation"), "{message}");
    for kind in [HTTP_ROUTE, SECURITY_POLICY, FILTER, TRAFFIC_POLICY] {
        assert_eq!(mall.names(kind, &endpoint).await, [""; 0]);
    }
    let deleted: Vec<String> = mall
        .shop
        .plane
        .proxy
        .writes_since(mark)
        .iter()
        .filter(|record| record.verb() == Verb::Delete)
        .map(|record| record.resource().to_owned())
        .collect();
    let first_guard = deleted.iter().position(|resource| resource != "httproutes").unwrap();
    assert!(!deleted[first_guard..].contains(&"httproutes".to_owned()), "{deleted:?}");
    mall.until("it has no address", &name("api"), |found| {
        let status = found.status.as_ref()?;
        (status.address.is_none() && status.addresses.is_empty()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_passwords_come_from_secrets_that_may_be_used_and_follow_them() {
    let mall = Mall::open().await;
    let secret = |name: &str, labels: Value, value: &str| {
        serde_json::from_value::<k8s_openapi::api::core::v1::Secret>(json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": "acme", "labels": labels}, "stringData": {"partner": value}}))
        .unwrap()
    };
    mall.shop.stage.create(&secret("keys", json!({}), "first")).await;
    let keys = json!([{"name": "keys", "type": "api-key", "policySpec": {"apiKeyAuth": {
        "keySource": {"header": "x-api-key"}, "secretRefs": ["keys"]}}}]);
    mall.deploy(json!([template("api", "/v1", json!({"public": open(keys)}))])).await;
    // Not every Secret of the organization is for this.
    let message = mall.says(&name("api"), "False", "SecretNotUsable").await;
    assert!(message.contains("secret-kind: application") && !message.contains("first"), "{message}");
    let label = json!({"metadata": {"labels": {"openchoreo.dev/secret-kind": "application"}}});
    mall.shop.stage.patch::<k8s_openapi::api::core::v1::Secret>("acme/keys", label).await;
    let endpoint = mall.ready(&name("api")).await;
    let copy = mall.objects("v1/Secret", &endpoint).await.remove(0);
    assert_eq!(copy["data"], json!({"partner": "Zmlyc3Q="}));
    let policy = mall.objects(SECURITY_POLICY, &endpoint).await.remove(0);
    assert_eq!(policy["spec"]["apiKeyAuth"]["credentialRefs"][0]["name"], copy["metadata"]["name"]);
    let change = json!({"stringData": {"partner": "second"}});
    mall.shop.stage.patch::<k8s_openapi::api::core::v1::Secret>("acme/keys", change).await;
    let at = |field: &str| copy["metadata"][field].as_str().unwrap().to_owned();
    mall.shop
        .plane
        .until("the key is new", ("v1/Secret", &at("namespace"), &at("name")), |found| {
            (found?["data"]["partner"] == "c2Vjb25k").then_some(())
        })
        .await;
    // Without the Secret nobody is let in.
    mall.shop.stage.delete::<k8s_openapi::api::core::v1::Secret>("acme/keys").await;
    mall.says(&name("api"), "False", "SecretNotUsable").await;
    assert_eq!(mall.names(HTTP_ROUTE, &endpoint).await, [""; 0]);
    assert_eq!(mall.names("v1/Secret", &endpoint).await, [""; 0]);
    let log = mall.shop.stage.operator.log();
    assert!(!log.contains("first\"") && !log.contains("Zmlyc3Q="), "a key is in the log");
    drop(endpoint as Endpoint);
}
