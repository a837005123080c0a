//! Policies: what guards are in terms of Envoy Gateway.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kantor_api::{
    conditions::reasons,
    endpoint_policy::{ApiKeyAuth, BasicAuth},
    names::{self, NameKind},
};
use kube_core::{DynamicObject, ResourceExt};
use serde_json::{Map, Value, json};
use sha1::{Digest, Sha1};

use super::{
    Inputs, Plan, Problem,
    guard::{Access, Guard, Limit, Token},
    routes::{Drawing, ENVOY},
    ways::Way,
};
use crate::{
    json::{list, map},
    settings::Reach,
};

/// What the copies of Secrets are told apart by.
const API_KEYS: &str = "api-keys";
const USERS: &str = "users";
/// Key under which the gateway reads users.
const HTPASSWD: &str = ".htpasswd";
/// Key of a Secret that holds a password.
const PASSWORD: &str = "password";

/// What a route needs before it is opened: the rules that [`security`] has for all routes of its way with what is its own.
pub(super) fn guards(
    drawing: &Drawing<'_>,
    route_kind: &str,
    name: &str,
    access: Access<'_>,
    limit: Option<&Limit>,
) -> Vec<DynamicObject> {
    let target = || json!([{"group": "gateway.networking.k8s.io", "kind": route_kind, "name": name}]);
    let mut guards = vec![];
    if !drawing.security.is_empty() {
        let mut spec = drawing.security.clone();
        let token = drawing.way.guard.token.as_ref();
        if let Some(authorization) = token.and_then(|token| authorization(token, access)) {
            spec.insert("authorization".to_owned(), authorization);
        }
        spec.insert("targetRefs".to_owned(), target());
        let body = map([("spec", spec.into())]);
        guards.push(drawing.own(ENVOY, "SecurityPolicy", name.to_owned(), body));
    }
    if let Some(limit) = limit {
        let rule = json!({"limit": {"requests": limit.requests, "unit": limit.unit}});
        let local = map([("rules", list([rule]))]);
        let limited = map([("type", "Local".into()), ("local", local)]);
        let body = map([("spec", map([("targetRefs", target()), ("rateLimit", limited)]))]);
        guards.push(drawing.own(ENVOY, "BackendTrafficPolicy", name.to_owned(), body));
    }
    guards
}

/// Everything that decides who gets in, in one policy, since a gateway takes one per route: what all routes of a way have.
pub(super) fn security(plan: &Plan, way: &Way) -> Map<String, Value> {
    let Guard { token, api_key, basic, cors, .. } = &way.guard;
    let mut spec = Map::new();
    if let Some(token) = token {
        spec.insert("jwt".to_owned(), jwt(token));
    }
    if let Some(ApiKeyAuth { key_source, .. }) = api_key {
        spec.insert(
            "apiKeyAuth".to_owned(),
            json!({
                "credentialRefs": [{"name": copy_name(plan, way.reach, API_KEYS)}],
                "extractFrom": [{"headers": [key_source.header]}],
            }),
        );
    }
    if basic.is_some() {
        spec.insert("basicAuth".to_owned(), json!({"users": {"name": copy_name(plan, way.reach, USERS)}}));
    }
    if let Some(cors) = cors {
        spec.insert(
            "cors".to_owned(),
            json!({
                "allowOrigins": cors.allow_origins,
                "allowMethods": cors.allow_methods,
                "allowHeaders": cors.allow_headers,
                "exposeHeaders": cors.expose_headers,
                "maxAge": format!("{}s", cors.max_age),
                "allowCredentials": cors.allow_credentials,
            }),
        );
    }
    spec
}

/// The one provider of an environment's tokens.
const PROVIDER: &str = "default";

fn jwt(token: &Token) -> Value {
    let mut provider = json!({"name": PROVIDER, "remoteJWKS": {"uri": token.jwks}});
    if !token.headers.is_empty() {
        let headers =
            token.headers.iter().map(|header| json!({"claim": header.name, "header": header.header}));
        provider["claimToHeaders"] = headers.collect();
    }
    json!({"providers": [provider]})
}

/// What a token must allow; nothing if every valid one will do.
fn authorization(token: &Token, access: Access<'_>) -> Option<Value> {
    let scopes = match access {
        Access::Any => return None,
        Access::Nobody => return Some(json!({"defaultAction": "Deny"})),
        Access::Scopes(scopes) => scopes,
    };
    let mut principal = Map::new();
    if !scopes.is_empty() {
        principal.insert("scopes".to_owned(), json!(scopes));
    }
    if !token.claims.is_empty() {
        let claims = token
            .claims
            .iter()
            .map(|claim| json!({"name": claim.key, "valueType": "String", "values": claim.values}));
        principal.insert("claims".to_owned(), claims.collect());
    }
    if principal.is_empty() {
        return None;
    }
    principal.insert("provider".to_owned(), PROVIDER.into());
    let rule = map([("action", "Allow".into()), ("principal", map([("jwt", principal.into())]))]);
    Some(map([("defaultAction", "Deny".into()), ("rules", list([rule]))]))
}

fn copy_name(plan: &Plan, reach: Reach, part: &str) -> String {
    name_of_copy(reach, &plan.name, part)
}

fn name_of_copy(reach: Reach, endpoint: &str, part: &str) -> String {
    names::generate(NameKind::Object, &[reach.gateway(), endpoint, part])
}

/// Copies of Secrets for the gateway, in the namespace of the routes.
pub(super) fn copies(plan: &Plan, reach: Reach) -> Vec<DynamicObject> {
    let own = plan.secrets.iter().filter(|(of, ..)| *of == reach);
    own.map(|(_, name, data)| {
        plan.own(reach, "v1", "Secret", name.clone(), json!({"type": "Opaque", "data": data}))
    })
    .collect()
}

/// Values, in base64, by key.
type Data = BTreeMap<String, String>;

/// What the gateway needs of the control plane's Secrets, in the form in which it needs it.
pub(super) fn secrets(
    inputs: &Inputs<'_>,
    ways: &[Way],
    problems: &mut Vec<Problem>,
) -> Vec<(Reach, String, Data)> {
    let mut copies = vec![];
    let endpoint = inputs.endpoint.name_any();
    for way in ways {
        let wanted = [
            (API_KEYS, way.guard.api_key.as_ref().map(|keys| api_keys(inputs, keys))),
            (USERS, way.guard.basic.as_ref().map(|basic| users(inputs, basic))),
        ];
        for (part, data) in wanted {
            match data {
                Some(Ok(data)) => copies.push((way.reach, name_of_copy(way.reach, &endpoint, part), data)),
                Some(Err(problem)) => problems.push(problem),
                None => {}
            }
        }
    }
    copies
}

fn values<'a>(inputs: &'a Inputs<'_>, secret: &str) -> Result<&'a BTreeMap<String, Vec<u8>>, Problem> {
    inputs.secrets.get(secret).filter(|values| !values.is_empty()).ok_or_else(|| {
        Problem::new(
            reasons::SECRET_NOT_USABLE,
            format!(
                "Secret {secret} does not exist, is empty, or lacks the label openchoreo.dev/secret-kind: application"
            ),
        )
    })
}

/// All keys of all callers, by the caller's name.
fn api_keys(inputs: &Inputs<'_>, keys: &ApiKeyAuth) -> Result<Data, Problem> {
    if keys.secret_refs.is_empty() {
        return Err(Problem::new(reasons::INVALID_ENDPOINT, "apiKeyAuth.secretRefs names no Secret"));
    }
    let mut data = Data::new();
    for secret in &keys.secret_refs {
        for (caller, key) in values(inputs, secret)? {
            let key = STANDARD.encode(key);
            if data.insert(caller.clone(), key.clone()).is_some_and(|other| other != key) {
                let message =
                    format!("two Secrets of apiKeyAuth have a key {caller}: give each caller one name");
                return Err(Problem::new(reasons::INVALID_ENDPOINT, message));
            }
        }
    }
    let different: BTreeSet<&String> = data.values().collect();
    if different.len() < data.len() {
        let message = "two callers of apiKeyAuth have the same key: give each its own";
        return Err(Problem::new(reasons::INVALID_ENDPOINT, message));
    }
    Ok(data)
}

/// The users with digests of their passwords. SHA-1 is what Envoy knows.
fn users(inputs: &Inputs<'_>, basic: &BasicAuth) -> Result<Data, Problem> {
    if basic.users.is_empty() {
        return Err(Problem::new(reasons::INVALID_ENDPOINT, "basicAuth.users is empty"));
    }
    let mut lines = String::new();
    for user in &basic.users {
        let values = values(inputs, &user.password_from_secret)?;
        let alone = if values.len() == 1 { values.values().next() } else { None };
        let Some(password) = values.get(PASSWORD).or(alone) else {
            let message =
                format!("Secret {} has several keys and none is {PASSWORD:?}", user.password_from_secret);
            return Err(Problem::new(reasons::SECRET_NOT_USABLE, message));
        };
        if user.username.contains(|c: char| c == ':' || c.is_control()) {
            let message = format!("user name {:?} has a character that is not allowed", user.username);
            return Err(Problem::new(reasons::INVALID_ENDPOINT, message));
        }
        let digest = STANDARD.encode(Sha1::digest(password));
        lines.extend([user.username.as_str(), ":{SHA}", &digest, "\n"]);
    }
    Ok(Data::from([(HTPASSWD.to_owned(), STANDARD.encode(lines))]))
}
