//! Routes: what they match, what they rewrite, what they do without a back-end.

use serde_json::{Value, json};

use crate::support::{NAMESPACE, Site};

/// A route of host `NAME.localhost` to the application, all of it unless told otherwise by `rule`.
pub fn route(name: &str, host: &str, rule: &Value) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "parentRefs": [{"name": "gateway-external", "namespace": "choreo-system"}],
            "hostnames": [host],
            "rules": [rule],
        },
    })
}

/// A rule for a path, to the application.
pub fn rule(path_type: &str, path: &str, filters: &Value) -> Value {
    json!({
        "matches": [{"path": {"type": path_type, "value": path}}],
        "filters": filters,
        "backendRefs": [{"name": "greeter", "port": 80}],
    })
}

/// A filter of Envoy Gateway that rewrites a path by a regular expression.
pub fn rewrite(name: &str, pattern: &str, substitution: &str) -> Value {
    json!({
        "apiVersion": "gateway.envoyproxy.io/v1alpha1", "kind": "HTTPRouteFilter",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"urlRewrite": {"path": {
            "type": "ReplaceRegexMatch",
            "replaceRegexMatch": {"pattern": pattern, "substitution": substitution},
        }}},
    })
}

/// The use of such a filter in a rule.
pub fn rewritten_by(name: &str) -> Value {
    let reference = json!({"group": "gateway.envoyproxy.io", "kind": "HTTPRouteFilter", "name": name});
    json!({"type": "ExtensionRef", "extensionRef": reference})
}

pub async fn prefixes_are_rewritten(site: &Site) {
    let to_root = json!({"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}});
    let filters = json!([{"type": "URLRewrite", "urlRewrite": to_root}]);
    site.apply(&[route("plain", "plain.localhost", &rule("PathPrefix", "/shop/greeter", &filters))]).await;

    let answer = site.until(200, "plain.localhost", "/shop/greeter/hello?x=1", &[("x-one", "1")]).await;
    let told = answer.told();
    assert!(told["pod"].as_str().unwrap().starts_with("greeter-"), "{told}");
    assert_eq!(told["image"], "registry.example.com/greeter:1");
    assert_eq!((&told["path"], &told["query"]), (&json!("/hello"), &json!("x=1")));
    assert_eq!((&told["method"], &told["headers"]["x-one"]), (&json!("GET"), &json!("1")));
    assert_eq!(site.get("plain.localhost", "/shop/greeter", &[]).await.told()["path"], "/");
    for (host, path) in [
        ("plain.localhost", "/shop/greeterx"),
        ("plain.localhost", "/nope"),
        ("other.localhost", "/shop/greeter"),
    ] {
        assert_eq!(site.get(host, path, &[]).await.status, 404, "{host}{path}");
    }
    let conditions = site.conditions("HTTPRoute", "plain").await;
    assert!(conditions.contains(&"Accepted=True/Accepted".to_owned()), "{conditions:?}");
    assert!(conditions.contains(&"ResolvedRefs=True/ResolvedRefs".to_owned()), "{conditions:?}");
}

pub async fn paths_are_rewritten_by_expressions(site: &Site) {
    let rule = rule("RegularExpression", "/shop/v[0-9]+/.*", &json!([rewritten_by("regex")]));
    let filter = rewrite("regex", "^/shop/v([0-9]+)/(.*)$", r"/\2/api\1");
    site.apply(&[filter, route("regex", "regex.localhost", &rule)]).await;
    let answer = site.until(200, "regex.localhost", "/shop/v2/items", &[]).await;
    assert_eq!(answer.told()["path"], "/items/api2");
}

/// Nothing tells in its status that it cannot work.
pub async fn a_route_without_a_back_end_fails(site: &Site) {
    let mut rule = rule("PathPrefix", "/", &json!([]));
    rule.as_object_mut().unwrap().remove("backendRefs");
    site.apply(&[route("nowhere", "nowhere.localhost", &rule)]).await;
    site.until(500, "nowhere.localhost", "/", &[]).await;
    let conditions = site.conditions("HTTPRoute", "nowhere").await;
    assert_eq!(conditions, ["Accepted=True/Accepted", "ResolvedRefs=True/ResolvedRefs"]);
}

pub async fn the_older_of_two_routes_wins(site: &Site) {
    let host = "same.localhost";
    for name in ["first", "second"] {
        let set = json!({"set": [{"name": "x-route", "value": name}]});
        let filters = json!([{"type": "RequestHeaderModifier", "requestHeaderModifier": set}]);
        site.apply(&[route(name, host, &rule("PathPrefix", "/", &filters))]).await;
        site.until(200, host, "/", &[]).await;
    }
    let overlap = "RouteRulesOverlap=True/RouteRulesOverlap".to_owned();
    site.until_condition("HTTPRoute", "second", &overlap).await;
    assert_eq!(site.get(host, "/", &[]).await.told()["headers"]["x-route"], "first");
}

/// A host outside of the cluster; the testbed's issuer stands for it.
pub async fn a_route_may_lead_out_of_the_cluster(site: &Site) {
    let address = site.gateways.issuer().name().replace("http://", "");
    let (address, port) = address.split_once(':').unwrap();
    let outside = json!({
        "apiVersion": "gateway.envoyproxy.io/v1alpha1", "kind": "Backend",
        "metadata": {"name": "outside", "namespace": NAMESPACE},
        "spec": {"endpoints": [{"ip": {"address": address, "port": port.parse::<u16>().unwrap()}}]},
    });
    let mut rule = rule("PathPrefix", "/", &json!([]));
    rule["backendRefs"] = json!([{"group": "gateway.envoyproxy.io", "kind": "Backend", "name": "outside"}]);
    site.apply(&[outside, route("outside", "outside.localhost", &rule)]).await;
    let answer = site.until(200, "outside.localhost", "/jwks.json", &[]).await;
    assert!(answer.body.contains("\"keys\""), "{answer:?}");
    site.until_condition("Backend", "outside", "Accepted=True/Accepted").await;
}
