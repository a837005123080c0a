//! Routes: one for everything below the Endpoint's path, and one per operation that has rules of its own.

use std::collections::{BTreeMap, BTreeSet};

use kantor_api::{
    annotations,
    endpoint::EndpointType,
    names::{self, NameKind},
};
use kube_core::{DynamicObject, ResourceExt};
use serde_json::{Map, Value, json};

use super::{
    GuardedRoute, Plan,
    backend::{self, Backend},
    guard::{Access, Limit, Operation, Ordered},
    noted, paths, policies,
    ways::{Entrance, Way},
};
use crate::{
    hostnames::key::ClaimKey,
    json::{list, map},
};

/// API group and version of routes.
const GATEWAY_API: &str = "gateway.networking.k8s.io/v1";
/// API group and version of what Envoy Gateway adds.
pub(super) const ENVOY: &str = "gateway.envoyproxy.io/v1alpha1";

/// The routes of an entrance under the hosts that were granted; `operations` are those of the way, in order.
pub(super) fn of(
    plan: &Plan,
    way: &Way,
    entrance: &Entrance,
    operations: &[Ordered<'_>],
    granted: &BTreeSet<ClaimKey>,
) -> Vec<GuardedRoute> {
    let keys: Vec<&ClaimKey> = entrance.keys.iter().filter(|key| granted.contains(key)).collect();
    if keys.is_empty() {
        return vec![];
    }
    let drawing = Drawing::new(plan, way, entrance, &keys);
    let mut routes = vec![drawing.everything()];
    let mut lengths: Vec<usize> = vec![];
    for (operation, rules, wider) in operations {
        let limit = rules.limit.as_ref().or(way.guard.limit.as_ref());
        let longest = wider.iter().filter_map(|i| lengths.get(*i)).max().copied();
        let (route, length) = drawing.operation(operation, way.guard.access(rules), limit, longest);
        lengths.push(length);
        routes.push(route);
    }
    routes
}

/// What the routes of an entrance are drawn with. There may be hundreds: what they have in common is made once.
pub(super) struct Drawing<'a> {
    plan: &'a Plan,
    pub(super) way: &'a Way,
    entrance: &'a Entrance,
    labels: BTreeMap<String, String>,
    hostnames: Value,
    /// The claims as routes note them.
    noted: String,
    backend: Value,
    /// What all security policies have.
    pub(super) security: Map<String, Value>,
}

impl<'a> Drawing<'a> {
    fn new(plan: &'a Plan, way: &'a Way, entrance: &'a Entrance, keys: &[&ClaimKey]) -> Self {
        let notes: Vec<String> = keys.iter().map(|key| noted(key)).collect();
        Self {
            plan,
            way,
            entrance,
            labels: plan.labels(way.reach),
            hostnames: keys.iter().map(|key| key.hostname.as_str()).collect(),
            noted: notes.join(" "),
            backend: backend::reference(plan, way.reach),
            security: policies::security(plan, way),
        }
    }

    /// An object that goes with the routes.
    pub(super) fn own(&self, api_version: &str, kind: &str, name: String, body: Value) -> DynamicObject {
        self.plan.labelled(self.labels.clone(), api_version, kind, name, body)
    }

    fn everything(&self) -> GuardedRoute {
        let (kind, rule) = match self.plan.type_ {
            EndpointType::TCP => ("TCPRoute", json!({})),
            EndpointType::UDP => ("UDPRoute", json!({})),
            EndpointType::Grpc => ("GRPCRoute", json!({})),
            _ => ("HTTPRoute", self.below_the_path()),
        };
        let guard = &self.way.guard;
        self.route(kind, self.name(&[]), rule, guard.elsewhere(), guard.limit.as_ref(), None)
    }

    /// Everything below the path, with the public part of it taken off.
    fn below_the_path(&self) -> Value {
        let public = format!("{}{}", self.entrance.prefix, self.plan.base);
        let (target_path, hostname) = match &self.plan.backend {
            Backend::Service { .. } => ("", None),
            Backend::Target { host, path, .. } => (path.as_str(), Some(host)),
        };
        let own = format!("{target_path}{}", self.plan.base);
        let mut rewrite = json!({
            "path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": paths::or_root(&own)},
        });
        if let Some(hostname) = hostname {
            rewrite["hostname"] = hostname.as_str().into();
        }
        json!({
            "matches": [{"path": {"type": "PathPrefix", "value": paths::or_root(&public)}}],
            "filters": [{"type": "URLRewrite", "urlRewrite": rewrite}],
        })
    }

    /// The route of an operation, whose pattern is longer than the `longest` of those that match its requests as well; and
    /// how long it is.
    fn operation(
        &self,
        operation: &Operation,
        access: Access<'_>,
        limit: Option<&Limit>,
        longest: Option<usize>,
    ) -> (GuardedRoute, usize) {
        match operation {
            Operation::Rest { method, target } => {
                let prefix = &self.entrance.prefix;
                let mut rewrite = paths::operation(prefix, &self.plan.base, target);
                if let Some(longest) = longest {
                    rewrite = rewrite.before(prefix, longest);
                }
                let name = self.name(&[method, target]);
                let rule = json!({
                    "matches": [{
                        "path": {"type": "RegularExpression", "value": rewrite.pattern},
                        "method": method,
                    }],
                    "filters": [{"type": "ExtensionRef", "extensionRef": {
                        "group": "gateway.envoyproxy.io", "kind": "HTTPRouteFilter", "name": name,
                    }}],
                });
                let filter = self.filter(&rewrite);
                let route = self.route("HTTPRoute", name, rule, access, limit, Some(filter));
                (route, rewrite.pattern.len())
            }
            Operation::Grpc { service, method } => {
                let matched = json!({"type": "Exact", "service": service, "method": method});
                let rule = json!({"matches": [{"method": matched}]});
                let name = self.name(&[service, method]);
                (self.route("GRPCRoute", name, rule, access, limit, None), 0)
            }
        }
    }

    fn filter(&self, rewrite: &paths::Rewrite) -> Value {
        let (target_path, hostname) = match &self.plan.backend {
            Backend::Service { .. } => ("", None),
            Backend::Target { path, .. } => (path.as_str(), Some(json!({"type": "Backend"}))),
        };
        let mut change = json!({"path": {"type": "ReplaceRegexMatch", "replaceRegexMatch": {
            "pattern": rewrite.pattern,
            "substitution": format!("{target_path}{}", rewrite.substitution),
        }}});
        if let Some(hostname) = hostname {
            change["hostname"] = hostname;
        }
        map([("spec", map([("urlRewrite", change)]))])
    }

    /// Name of a route, and of all that goes with it.
    fn name(&self, parts: &[&str]) -> String {
        let mut all = vec![self.way.reach.gateway(), self.plan.name.as_str()];
        if self.entrance.custom {
            all.push("hostnames");
        }
        all.extend(parts);
        names::generate(NameKind::Object, &all)
    }

    fn route(
        &self,
        kind: &str,
        name: String,
        mut rule: Value,
        access: Access<'_>,
        limit: Option<&Limit>,
        filter: Option<Value>,
    ) -> GuardedRoute {
        let (plan, way) = (self.plan, self.way);
        let (gateway, namespace) = &way.gateway;
        let mut parent = json!({"name": gateway, "namespace": namespace});
        rule["backendRefs"] = list([self.backend.clone()]);
        let mut spec = Map::new();
        spec.insert("rules".to_owned(), list([rule]));
        let api_version = match plan.type_ {
            EndpointType::TCP | EndpointType::UDP => {
                if let Backend::Service { port, .. } = &plan.backend {
                    parent["port"] = (*port).into();
                }
                let version = if plan.type_ == EndpointType::TCP { &plan.plane.tcp } else { &plan.plane.udp };
                // Without the kind there is no plan.
                let version = version.clone().if_present().unwrap_or_else(|| "v1alpha2".to_owned());
                format!("gateway.networking.k8s.io/{version}")
            }
            _ => {
                spec.insert("hostnames".to_owned(), self.hostnames.clone());
                GATEWAY_API.to_owned()
            }
        };
        spec.insert("parentRefs".to_owned(), list([parent]));
        let mut guards = policies::guards(self, kind, &name, access, limit);
        guards.extend(filter.map(|filter| self.own(ENVOY, "HTTPRouteFilter", name.clone(), filter)));
        let mut route = self.own(&api_version, kind, name, map([("spec", spec.into())]));
        route.annotations_mut().insert(annotations::HOSTNAMES.to_owned(), self.noted.clone());
        GuardedRoute { reach: way.reach, gateway: way.gateway.clone(), route, guards }
    }
}
