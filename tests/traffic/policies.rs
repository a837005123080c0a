//! Policies of Envoy Gateway: who may ask, how often, from which page.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    routes::{route, rule},
    support::{NAMESPACE, Site},
};

/// A policy on the route of the same name.
pub fn policy(kind: &str, name: &str, spec: &Value) -> Value {
    let mut policy = json!({
        "apiVersion": "gateway.envoyproxy.io/v1alpha1", "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": name}]},
    });
    for (key, value) in spec.as_object().unwrap() {
        policy["spec"][key] = value.clone();
    }
    policy
}

/// A check of tokens of the testbed's issuer.
pub fn jwt(site: &Site) -> Value {
    let issuer = site.gateways.issuer();
    json!({"providers": [{
        "name": "idp",
        "issuer": issuer.name(),
        "remoteJWKS": {"uri": issuer.jwks_uri()},
        "claimToHeaders": [{"claim": "sub", "header": "x-subject"}],
    }]})
}

/// Only tokens with this scope.
pub fn only(scope: &str) -> Value {
    let principal = json!({"jwt": {"provider": "idp", "scopes": [scope]}});
    json!({"defaultAction": "Deny", "rules": [{"name": scope, "action": "Allow", "principal": principal}]})
}

/// The header with a token of these scopes, valid for so many seconds.
pub fn bearer(site: &Site, scopes: &[&str], seconds: i64) -> String {
    format!("Bearer {}", site.gateways.issuer().token(scopes, &json!({}), seconds).unwrap())
}

/// The host `NAME.localhost` with a policy on all of it.
async fn guarded(site: &Site, kind: &str, name: &str, spec: &Value) -> String {
    let host = format!("{name}.localhost");
    let all = route(name, &host, &rule("PathPrefix", "/", &json!([])));
    site.apply(&[policy(kind, name, spec), all]).await;
    host
}

pub async fn tokens_need_the_scope(site: &Site) {
    let spec = json!({"jwt": jwt(site), "authorization": only("read")});
    let host = guarded(site, "SecurityPolicy", "scoped", &spec).await;
    site.until(401, &host, "/", &[]).await;
    let impostor = site.gateways.issuer().impostor().unwrap();
    let forged = format!("Bearer {}", impostor.token(&["read"], &json!({}), 60).unwrap());
    let right = bearer(site, &["write", "read"], 60);
    // Until the issuer's keys have been fetched, all tokens are refused alike.
    site.until(200, &host, "/", &[("authorization", &right)]).await;
    for (what, authorization, status) in [
        ("expired, beyond the minute that Envoy allows for clocks", bearer(site, &["read"], -90), 401),
        ("of an impostor", forged, 401),
        ("with another scope", bearer(site, &["write"], 60), 403),
        ("with the scope", right.clone(), 200),
    ] {
        let answer = site.get(&host, "/", &[("authorization", &authorization)]).await;
        assert_eq!(answer.status, status, "a token {what}: {answer:?}");
    }
    let answer = site.get(&host, "/", &[("authorization", &right)]).await;
    assert_eq!(answer.told()["headers"]["x-subject"], "somebody");
    let conditions = site.conditions("SecurityPolicy", "scoped").await;
    assert_eq!(conditions, ["Accepted=True/Accepted"]);
}

/// No rule at all: whoever has a valid token is refused all the same.
pub async fn a_default_refuses_everybody(site: &Site) {
    let spec = json!({"jwt": jwt(site), "authorization": {"defaultAction": "Deny"}});
    let host = guarded(site, "SecurityPolicy", "closed", &spec).await;
    site.until(401, &host, "/", &[]).await;
    let token = bearer(site, &["read"], 60);
    assert_eq!(site.get(&host, "/", &[("authorization", &token)]).await.status, 403);
    assert_eq!(site.conditions("SecurityPolicy", "closed").await, ["Accepted=True/Accepted"]);
}

pub async fn keys_are_checked(site: &Site) {
    let from = json!([{"headers": ["x-api-key"]}, {"params": ["key"]}]);
    let keys = json!({"credentialRefs": [{"name": "keys"}], "extractFrom": from, "sanitize": true,
        "forwardClientIDHeader": "x-client"});
    let host = guarded(site, "SecurityPolicy", "keys", &json!({"apiKeyAuth": keys})).await;
    site.until(401, &host, "/", &[]).await;
    assert_eq!(site.get(&host, "/", &[("x-api-key", "wrong")]).await.status, 401);
    let told = site.get(&host, "/?key=key-of-alice&a=b", &[]).await.told();
    assert_eq!((&told["headers"]["x-client"], &told["query"]), (&json!("alice"), &json!("a=b")));
    let answer = site.get(&host, "/", &[("x-api-key", "key-of-alice")]).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.told()["headers"]["x-api-key"], Value::Null);
}

pub async fn passwords_are_checked(site: &Site) {
    let users = json!({"users": {"name": "users"}, "forwardUsernameHeader": "x-user"});
    let host = guarded(site, "SecurityPolicy", "passwords", &json!({"basicAuth": users})).await;
    site.until(401, &host, "/", &[]).await;
    // carol:pass, carol:other
    let told = site.get(&host, "/", &[("authorization", "Basic Y2Fyb2w6cGFzcw==")]).await.told();
    assert_eq!(told["headers"]["x-user"], "carol");
    assert_eq!(site.get(&host, "/", &[("authorization", "Basic Y2Fyb2w6b3RoZXI=")]).await.status, 401);
}

/// `Bearer ` may stand before a key in any header, and nothing else may.
pub async fn keys_may_be_called_bearer(site: &Site) {
    let keys = json!({"credentialRefs": [{"name": "keys"}], "extractFrom": [{"headers": ["Authorization"]}]});
    let host = guarded(site, "SecurityPolicy", "bearer", &json!({"apiKeyAuth": keys})).await;
    site.until(401, &host, "/", &[]).await;
    for (value, status) in [
        ("key-of-alice", 200),
        ("Bearer key-of-alice", 200),
        ("bearer key-of-alice", 401),
        ("ApiKey key-of-alice", 401),
    ] {
        assert_eq!(site.get(&host, "/", &[("authorization", value)]).await.status, status, "{value}");
    }
}

/// What cannot be checked is refused, and the status says why.
pub async fn a_broken_policy_closes_its_route(site: &Site) {
    let keys = json!({"credentialRefs": [{"name": "missing"}], "extractFrom": [{"headers": ["x-api-key"]}]});
    let host = guarded(site, "SecurityPolicy", "broken", &json!({"apiKeyAuth": keys})).await;
    site.until(500, &host, "/", &[("x-api-key", "key-of-alice")]).await;
    assert_eq!(site.conditions("SecurityPolicy", "broken").await, ["Accepted=False/Invalid"]);

    let spec = json!({"authorization": {"defaultAction": "Deny"}});
    let mut late = policy("SecurityPolicy", "late", &spec);
    late["spec"]["targetRefs"][0]["name"] = json!("broken");
    site.apply(&[late]).await;
    assert_eq!(site.conditions("SecurityPolicy", "late").await, ["Accepted=False/Conflicted"]);
}

/// The policy comes first, so there is no moment in which its route is open.
pub async fn a_policy_that_waits_for_its_route_leaves_no_gap(site: &Site) {
    let host = "gap.localhost";
    let load = site.gateways.client().load(2, Duration::from_millis(1), host, "/", &[]).unwrap();
    let spec = json!({"authorization": {"defaultAction": "Deny"}});
    guarded(site, "SecurityPolicy", "gap", &spec).await;
    site.until(403, host, "/", &[]).await;
    let tally = load.stop().await;
    assert!(tally.statuses.keys().all(|status| [403, 404].contains(status)), "{tally:?}");
    assert!(tally.errors.is_empty(), "{tally:?}");
}

pub async fn requests_are_limited(site: &Site) {
    let limit = json!({"requests": 5, "unit": "Hour"});
    let limits = json!({"rateLimit": {"type": "Local", "local": {"rules": [{"limit": limit}]}}});
    let host = guarded(site, "BackendTrafficPolicy", "limited", &limits).await;
    site.until(429, &host, "/", &[]).await;
    assert_eq!(site.conditions("BackendTrafficPolicy", "limited").await, ["Accepted=True/Accepted"]);
}

pub async fn pages_are_told_what_they_may_ask(site: &Site) {
    let cors = json!({"allowOrigins": ["https://app.example.com"], "allowMethods": ["GET", "PUT"],
        "allowHeaders": ["x-one"], "maxAge": "10m"});
    // Browsers send no token with the question, so it has to be answered before the check of tokens.
    let spec = json!({"cors": cors, "jwt": jwt(site)});
    let host = guarded(site, "SecurityPolicy", "pages", &spec).await;
    site.until(401, &host, "/", &[]).await;
    let asks = |origin| [("origin", origin), ("access-control-request-method", "PUT")];
    let answer = site.until_asked(200, "OPTIONS", &host, "/", &asks("https://app.example.com")).await;
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example.com"));
    assert_eq!(answer.header("access-control-allow-methods"), Some("GET, PUT"));
    assert_eq!(answer.header("access-control-max-age"), Some("600"));
    let answer = site.ask("OPTIONS", &host, "/", &asks("https://evil.example.com")).await;
    assert_eq!(answer.header("access-control-allow-origin"), None, "{answer:?}");
}
