//! Ways in: through which gateways, under which hosts and paths.

use std::collections::BTreeSet;

use kantor_api::{
    bounds,
    conditions::reasons,
    data_plane::PlaneGateway,
    endpoint::{BackendType, EndpointType, Visibility},
};
use kube_core::ResourceExt;

use super::{Inputs, Problem, guard::Guard, paths};
use crate::{
    hostnames::{domains::Domains, key::ClaimKey},
    net::{Allowed, outside},
    settings::Reach,
};

/// Type of components that have a host of their own.
const WEB_APPLICATION: &str = "WebApplication";

/// A way in.
#[derive(Clone, Debug)]
pub(super) struct Way {
    /// Who uses it.
    pub reach: Reach,
    /// Name and namespace of the gateway.
    pub gateway: (String, String),
    /// Hosts and paths.
    pub entrances: Vec<Entrance>,
    /// What guards it.
    pub guard: Guard,
}

/// Hosts that share a path.
#[derive(Clone, Debug)]
pub(super) struct Entrance {
    /// Whether the hosts are the Endpoint's own.
    pub custom: bool,
    /// The claims, each of one host.
    pub keys: Vec<ClaimKey>,
    /// What stands in front of the application's own path; empty for the root.
    pub prefix: String,
}

impl Way {
    /// The hosts that were granted.
    pub fn open_hosts<'a>(
        &'a self,
        granted: &'a BTreeSet<ClaimKey>,
    ) -> impl Iterator<Item = (&'a Entrance, &'a str)> {
        self.entrances.iter().flat_map(move |entrance| {
            entrance
                .keys
                .iter()
                .filter(|key| granted.contains(key))
                .map(move |key| (entrance, key.hostname.as_str()))
        })
    }
}

/// Who may reach an Endpoint, and through what.
fn sides<'a>(inputs: &Inputs<'a>) -> Vec<(Reach, Option<&'a Visibility>)> {
    let asked = inputs.endpoint.spec.network_visibilities.as_ref();
    let public = asked.and_then(|asked| asked.public.as_ref());
    let organization = asked.and_then(|asked| asked.organization.as_ref());
    if is_web_application(inputs) {
        // A page that is there for browsers: it is public unless somebody says that it is not, and never internal.
        return if public.is_none_or(|public| public.enable) {
            vec![(Reach::Public, public)]
        } else {
            vec![]
        };
    }
    if asked.is_none() {
        return vec![(inputs.settings.default_visibility, None)];
    }
    [(Reach::Public, public), (Reach::Organization, organization)]
        .into_iter()
        .filter(|(_, side)| side.is_some_and(|side| side.enable))
        .collect()
}

fn is_web_application(inputs: &Inputs<'_>) -> bool {
    inputs.component.spec.type_ == WEB_APPLICATION
}

/// The ways in that are asked for.
pub(super) fn of(inputs: &Inputs<'_>, base: &str, problems: &mut Vec<Problem>) -> Vec<Way> {
    let sides = sides(inputs);
    if sides.is_empty() {
        return vec![];
    }
    let Some(gateway) = &inputs.data_plane.spec.gateway else {
        problems.push(Problem::new(
            reasons::GATEWAY_NOT_CONFIGURED,
            format!("data plane {} has no gateway: set its spec.gateway", inputs.data_plane.name_any()),
        ));
        return vec![];
    };
    let custom = custom_hosts(inputs, gateway, problems);
    let mut ways = vec![];
    for (reach, side) in sides {
        let mut guard =
            side.map(|side| Guard::of(side, inputs.endpoint.spec.type_, problems)).unwrap_or_default();
        if let Some(token) = &mut guard.token {
            token.jwks = jwks(inputs, gateway, problems);
        }
        let Some(own) = generated(inputs, gateway, reach, base, problems) else { continue };
        let mut entrances = vec![own];
        if !custom.is_empty() {
            let keys = custom.iter().cloned().collect();
            entrances.push(Entrance { custom: true, keys, prefix: String::new() });
        }
        let name = match reach {
            Reach::Public => &gateway.public_gateway,
            Reach::Organization => &gateway.organization_gateway,
        };
        let name = name.clone().unwrap_or_else(|| reach.gateway().to_owned());
        let namespace =
            gateway.namespace.clone().unwrap_or_else(|| inputs.settings.gateway_namespace.clone());
        ways.push(Way { reach, gateway: (name, namespace), entrances, guard });
    }
    ways
}

/// What stands against the routes of all ways in together: each operation has one for each way and for each of its two sorts
/// of hosts, and each repeats the rules of its way. All of them are recorded in the status, and read in one go.
pub(super) fn too_many(ways: &[Way]) -> Option<Problem> {
    let routes: usize = ways.iter().map(|way| way.guard.operations.len() * way.entrances.len()).sum();
    if routes > bounds::ROUTES as usize {
        let message = format!(
            "its operations with rules of their own make {routes} routes, since each way in and each sort of host has its own; \
             at most {} are possible: use parameters, or split the endpoint",
            bounds::ROUTES
        );
        return Some(Problem::new(reasons::INVALID_ENDPOINT, message));
    }
    let size: usize = ways.iter().map(repeated).sum();
    (size > bounds::REPEATED as usize).then(|| {
        let message = format!(
            "its routes repeat their host names, claims, headers, origins and scopes, which makes {size} bytes; at most {} are \
             possible: use fewer of them, or split the endpoint",
            bounds::REPEATED
        );
        Problem::new(reasons::INVALID_ENDPOINT, message)
    })
}

/// How many bytes the routes of a way repeat. Each text counts with what it takes beside its characters.
fn repeated(way: &Way) -> usize {
    const BESIDE: usize = 64;
    let size = |text: &String| text.len() + BESIDE;
    let rules: usize = way.guard.repeated().map(size).sum();
    let scopes: usize = way.guard.scopes().map(size).sum();
    let of_entrance = |entrance: &Entrance| {
        let hosts: usize = entrance.keys.iter().map(|key| size(&key.hostname)).sum();
        (way.guard.operations.len() + 1) * (rules + hosts) + scopes
    };
    way.entrances.iter().map(of_entrance).sum()
}

/// Where the keys are found that sign the environment's tokens.
fn jwks(inputs: &Inputs<'_>, gateway: &PlaneGateway, problems: &mut Vec<Problem>) -> String {
    let security = inputs.environment.spec.gateway.as_ref().and_then(|gateway| gateway.security.as_ref());
    let uri = security.and_then(|security| security.remote_jwks.as_ref()).map(|jwks| jwks.uri.as_str());
    let environment = inputs.environment.name_any();
    let Some(uri) = uri.filter(|uri| !uri.is_empty()) else {
        let message = format!(
            "oauth2 needs the keys of the identity provider: set gateway.security.remoteJwks.uri of environment {environment}"
        );
        problems.push(Problem::new(reasons::IDENTITY_PROVIDER_MISSING, message));
        return String::new();
    };
    // Whoever serves the keys decides who gets in; and a gateway that asks anywhere asks in the name of whoever wrote this.
    let allowed = Allowed { domains: &gateway.key_domains, list: "gateway.keyDomains", plain: false };
    match outside(uri, allowed) {
        Ok(address) => address.url(),
        Err(why) => {
            let message = format!("gateway.security.remoteJwks.uri of environment {environment}: {why}");
            problems.push(Problem::new(reasons::IDENTITY_PROVIDER_NOT_ALLOWED, message));
            String::new()
        }
    }
}

/// The host that the data plane provides, and the part of it that is the Endpoint's.
fn generated(
    inputs: &Inputs<'_>,
    gateway: &PlaneGateway,
    reach: Reach,
    base: &str,
    problems: &mut Vec<Problem>,
) -> Option<Entrance> {
    let (project, component) = (inputs.project.name_any(), inputs.component.name_any());
    let type_ = inputs.endpoint.spec.type_;
    let virtual_host = match reach {
        Reach::Public => &gateway.public_virtual_host,
        Reach::Organization => &gateway.organization_virtual_host,
    };
    let prefix = inputs.environment.spec.gateway.as_ref().and_then(|gateway| gateway.dns_prefix.as_deref());
    let shared = match prefix.filter(|prefix| !prefix.is_empty()) {
        Some(prefix) => format!("{prefix}.{virtual_host}"),
        None => virtual_host.clone(),
    };
    let (host, prefix, path) = if is_web_application(inputs) {
        let domain =
            gateway.web_application_domain.as_ref().unwrap_or(&inputs.settings.web_application_domain);
        let host = format!("{component}-{}.{domain}", inputs.environment.name_any());
        (host, String::new(), paths::or_root(base).to_owned())
    } else {
        match type_ {
            // gRPC has no room for a path in front of its own: it gets a host below the shared one.
            EndpointType::Grpc => (format!("{component}.{project}.{shared}"), String::new(), "/".to_owned()),
            // Ports are all that tells one from another: the claim stands for the port.
            EndpointType::TCP => (shared, String::new(), format!("/tcp/{}", port(inputs))),
            EndpointType::UDP => (shared, String::new(), format!("/udp/{}", port(inputs))),
            _ => {
                let prefix = format!("/{project}/{component}");
                let path = format!("{prefix}{base}");
                (shared, prefix, path)
            }
        }
    };
    if host.starts_with("*.") {
        let message =
            format!("{host} is a wildcard: give data plane {} a whole host", inputs.data_plane.name_any());
        problems.push(Problem::new(reasons::GATEWAY_NOT_CONFIGURED, message));
        return None;
    }
    match ClaimKey::provided(&host, &path, inputs.cluster_uid) {
        Ok(key) => Some(Entrance { custom: false, keys: vec![key], prefix }),
        Err(why) => {
            let message = format!("{why}; shorten the name of the component, or the host of the data plane");
            problems.push(Problem::new(reasons::INVALID_ENDPOINT, message));
            None
        }
    }
}

fn port(inputs: &Inputs<'_>) -> i32 {
    inputs.endpoint.spec.backend_ref.component_ref.as_ref().map_or(0, |component| component.port)
}

/// The host names of the Endpoint's own.
fn custom_hosts(
    inputs: &Inputs<'_>,
    gateway: &PlaneGateway,
    problems: &mut Vec<Problem>,
) -> BTreeSet<ClaimKey> {
    let spec = &inputs.endpoint.spec;
    if matches!(spec.type_, EndpointType::TCP | EndpointType::UDP) && !spec.hostnames.is_empty() {
        let message = "TCP and UDP know no host names: remove spec.hostnames";
        problems.push(Problem::new(reasons::INVALID_ENDPOINT, message));
        return BTreeSet::new();
    }
    let domains = Domains::of(&gateway.allowed_domains, &gateway.denied_domains, inputs.provided);
    let mut hosts = BTreeSet::new();
    for host in &spec.hostnames {
        match ClaimKey::custom(host) {
            Ok(key) => {
                if let Err(why) = domains.allow(&key.hostname) {
                    problems.push(Problem::new(reasons::HOSTNAME_NOT_ALLOWED, why));
                }
                hosts.insert(key);
            }
            Err(why) => problems.push(Problem::new(reasons::INVALID_ENDPOINT, why)),
        }
    }
    if spec.backend_ref.type_ == BackendType::Target && spec.type_ == EndpointType::Grpc {
        problems.push(Problem::new(
            reasons::BACKEND_NOT_SUPPORTED,
            "a gRPC endpoint cannot lead to another address; use type HTTP",
        ));
    }
    hosts
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    /// A way with so many operations, each with so many scopes, under the shared host and under so many of its own.
    fn way(operations: usize, scopes: usize, hosts: usize) -> Way {
        let scopes: Vec<String> = (0..scopes).map(|i| format!("scope-{i}")).collect();
        let operations =
            (0..operations).map(|i| json!({"target": format!("/x{i}"), "method": "GET", "scopes": scopes}));
        let rest = json!({"claimsToHeaders": [], "operations": operations.collect::<Vec<_>>()});
        let side = json!({"enable": true, "policies": [{"name": "tokens", "type": "oauth2", "policySpec": {"oauth2": {"jwt": {
            "claims": [{"key": "group", "values": ["a", "b"]}], "authorization": {"apiType": "REST", "rest": rest},
        }}}}]});
        let mut problems = vec![];
        let guard = Guard::of(&serde_json::from_value(side).unwrap(), EndpointType::REST, &mut problems);
        assert_eq!(problems, []);
        let shared = ClaimKey::provided("apis.example.com", "/p/c", "cluster").unwrap();
        let own = (0..hosts).map(|i| ClaimKey::custom(&format!("h{i}.shop.example")).unwrap()).collect();
        let entrances = vec![
            Entrance { custom: false, keys: vec![shared], prefix: "/p/c".into() },
            Entrance { custom: true, keys: own, prefix: String::new() },
        ];
        Way { reach: Reach::Public, gateway: ("g".into(), "n".into()), entrances, guard }
    }

    #[rstest]
    #[case::no_operations(vec![way(0, 0, 32), way(0, 0, 32)], None)]
    #[case::as_many_as_one_way_may_have(vec![way(256, 32, 32)], None)]
    #[case::as_many_as_two_ways_may_have(vec![way(128, 8, 32), way(128, 8, 32)], None)]
    #[case::too_many_routes(vec![way(129, 0, 1), way(128, 0, 1)], Some("514 routes"))]
    #[case::too_much_repeated(vec![way(256, 64, 32)], Some("bytes; at most 2097152"))]
    fn the_routes_of_all_ways_have_a_bound(#[case] ways: Vec<Way>, #[case] expected: Option<&str>) {
        let problem = too_many(&ways).map(|problem| problem.message);
        assert_eq!(problem.is_some(), expected.is_some(), "{problem:?}");
        assert!(problem.unwrap_or_default().contains(expected.unwrap_or_default()));
    }
}
