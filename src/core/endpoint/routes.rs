//! Routes: one for everything below the Endpoint's path, and one per operation that has rules of its own.

use std::collections::BTreeSet;

use kantor_api::{
    annotations,
    endpoint::EndpointType,
    names::{self, NameKind},
};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{
    GuardedRoute, Plan,
    backend::{self, Backend},
    guard::{Access, Limit, Operation},
    noted, paths, policies,
    ways::{Entrance, Way},
};
use crate::core::hostnames::key::ClaimKey;

/// API group and version of routes.
const GATEWAY_API: &str = "gateway.networking.k8s.io/v1";
/// API group and version of what Envoy Gateway adds.
pub(super) const ENVOY: &str = "gateway.envoyproxy.io/v1alpha1";

/// The routes of an entrance under the hosts that were granted.
pub(super) fn of(
    plan: &Plan,
    way: &Way,
    entrance: &Entrance,
    granted: &BTreeSet<ClaimKey>,
) -> Vec<GuardedRoute> {
    let keys: Vec<&ClaimKey> = entrance.keys.iter().filter(|key| granted.contains(key)).collect();
    if keys.is_empty() {
        return vec![];
    }
    let drawing = Drawing { plan, way, entrance, keys };
    let mut routes = vec![drawing.everything()];
    let mut lengths: Vec<usize> = vec![];
    for (operation, rules, wider) in way.guard.in_order() {
        let limit = rules.limit.as_ref().or(way.guard.limit.as_ref());
        let longest = wider.iter().filter_map(|i| lengths.get(*i)).max().copied();
        let (route, length) = drawing.operation(operation, &way.guard.access(rules), limit, longest);
        lengths.push(length);
        routes.push(route);
    }
    routes
}

struct Drawing<'a> {
    plan: &'a Plan,
    way: &'a Way,
    entrance: &'a Entrance,
    keys: Vec<&'a ClaimKey>,
}

impl Drawing<'_> {
    fn everything(&self) -> GuardedRoute {
        let (kind, rule) = match self.plan.type_ {
            EndpointType::TCP => ("TCPRoute", json!({})),
            EndpointType::UDP => ("UDPRoute", json!({})),
            EndpointType::Grpc => ("GRPCRoute", json!({})),
            _ => ("HTTPRoute", self.below_the_path()),
        };
        let guard = &self.way.guard;
        self.route(kind, &[], rule, &guard.elsewhere(), guard.limit.as_ref(), None)
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
        access: &Access,
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
                let route = self.route("HTTPRoute", &[method, target], rule, access, limit, Some(filter));
                (route, rewrite.pattern.len())
            }
            Operation::Grpc { service, method } => {
                let matched = json!({"type": "Exact", "service": service, "method": method});
                let rule = json!({"matches": [{"method": matched}]});
                (self.route("GRPCRoute", &[service, method], rule, access, limit, None), 0)
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
        json!({"spec": {"urlRewrite": change}})
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
        parts: &[&str],
        mut rule: Value,
        access: &Access,
        limit: Option<&Limit>,
        filter: Option<Value>,
    ) -> GuardedRoute {
        let (plan, way, name) = (self.plan, self.way, self.name(parts));
        let (gateway, namespace) = &way.gateway;
        let mut parent = json!({"name": gateway, "namespace": namespace});
        rule["backendRefs"] = json!([backend::reference(plan, way.reach)]);
        let mut spec = json!({"rules": [rule]});
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
                spec["hostnames"] = self.keys.iter().map(|key| key.hostname.as_str()).collect();
                GATEWAY_API.to_owned()
            }
        };
        spec["parentRefs"] = json!([parent]);
        let mut guards = policies::guards(plan, way, kind, &name, access, limit);
        guards
            .extend(filter.map(|filter| plan.own(way.reach, ENVOY, "HTTPRouteFilter", name.clone(), filter)));
        let mut route = plan.own(way.reach, &api_version, kind, name, json!({"spec": spec}));
        let keys: Vec<String> = self.keys.iter().map(|key| noted(key)).collect();
        route.annotations_mut().insert(annotations::HOSTNAMES.to_owned(), keys.join(" "));
        GuardedRoute { reach: way.reach, gateway: way.gateway.clone(), route, guards }
    }
}
