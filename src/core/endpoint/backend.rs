//! Where requests go.

use std::net::IpAddr;

use http::Uri;
use kantor_api::{
    conditions::reasons,
    endpoint::{BackendType, EndpointType},
    names::{self, NameKind},
};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::{Inputs, Plan, Problem, paths, ways::Way};
use crate::core::{deployment, settings::Reach};

/// Where requests go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Backend {
    /// To a port of the component's Service.
    Service { name: String, port: i32 },
    /// To another address.
    Target { host: String, port: u16, tls: bool, path: String },
}

/// Where requests go, or why they cannot.
pub(super) fn of(inputs: &Inputs<'_>, problems: &mut Vec<Problem>) -> Option<Backend> {
    let spec = &inputs.endpoint.spec;
    let backend = &spec.backend_ref;
    let found = match backend.type_ {
        BackendType::ComponentRef => match &backend.component_ref {
            Some(component)
                if !matches!(inputs.component.spec.type_.as_str(), "Service" | "WebApplication") =>
            {
                Err(Problem::new(
                    reasons::BACKEND_NOT_SUPPORTED,
                    format!(
                        "component {} is of type {}, which serves no ports (port {})",
                        kube::ResourceExt::name_any(inputs.component),
                        inputs.component.spec.type_,
                        component.port
                    ),
                ))
            }
            Some(component) => Ok(Backend::Service {
                name: deployment::service_of(inputs.component, inputs.track),
                port: component.port,
            }),
            None => Err(Problem::new(reasons::INVALID_ENDPOINT, "backendRef.componentRef.port is missing")),
        },
        BackendType::Target => match &backend.target {
            Some(_) if matches!(spec.type_, EndpointType::TCP | EndpointType::UDP) => Err(Problem::new(
                reasons::BACKEND_NOT_SUPPORTED,
                "a TCP or UDP endpoint cannot lead to another address",
            )),
            Some(target) => parsed(&target.url).map_err(|why| {
                Problem::new(reasons::BACKEND_NOT_SUPPORTED, format!("backendRef.target.url: {why}"))
            }),
            None => Err(Problem::new(reasons::INVALID_ENDPOINT, "backendRef.target.url is missing")),
        },
    };
    found.map_err(|problem| problems.push(problem)).ok()
}

/// The address, if it is one that everybody outside may know: what is inside the cluster or its network belongs to
/// others, and a gateway that leads there would lead past their isolation.
fn parsed(url: &str) -> Result<Backend, String> {
    let uri: Uri = url.parse().map_err(|_| "it is not a URL".to_owned())?;
    let tls = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err("it has to begin with http:// or https://".to_owned()),
    };
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err("it must not hold a user name or password".to_owned());
    }
    if uri.query().is_some() {
        return Err("it must not have a query".to_owned());
    }
    let host = uri.host().unwrap_or_default().trim_end_matches('.').to_ascii_lowercase();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(address) if !is_outside(address) => return Err(format!("{bare} is not a public address")),
        Err(_) if !host.contains('.') || INSIDE.iter().any(|inside| host.ends_with(inside)) => {
            return Err(format!("{host} is not a public host"));
        }
        Ok(_) | Err(_) => {}
    }
    let path = paths::trimmed(uri.path()).to_owned();
    paths::check(&path, false).map_err(|why| format!("its path: {why}"))?;
    let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
    Ok(Backend::Target { host: bare.to_owned(), port, tls, path })
}

/// Ends of names that only mean something inside a cluster, a machine or a network.
const INSIDE: [&str; 6] = [".svc", ".cluster.local", ".local", ".localhost", ".internal", ".arpa"];

fn is_outside(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let shared = v4.octets()[0] == 100 && (64..128).contains(&v4.octets()[1]);
            !(v4.is_private()
                || v4.is_loopback()
                || v4.is_link_local()
                || v4.is_unspecified()
                || v4.is_multicast()
                || v4.is_broadcast()
                || v4.octets()[0] == 0
                || shared)
        }
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_outside(v4.into()),
            None => (v6.segments()[0] & 0xe000) == 0x2000,
        },
    }
}

/// Tells what the data plane lacks for all this.
pub(super) fn check_parts(inputs: &Inputs<'_>, ways: &[Way], problems: &mut Vec<Problem>) {
    if ways.is_empty() {
        return;
    }
    let mut lacks = |what: &str, remedy: &str| {
        let plane = kube::ResourceExt::name_any(inputs.data_plane);
        problems.push(Problem::new(
            reasons::CAPABILITY_MISSING,
            format!("data plane {plane} has no {what}: {remedy}"),
        ));
    };
    let (spec, plane) = (&inputs.endpoint.spec, &inputs.plane);
    match spec.type_ {
        EndpointType::Grpc if !plane.grpc => lacks("GRPCRoute", "install the Gateway API"),
        EndpointType::TCP if plane.tcp.is_none() => {
            lacks("TCPRoute", "install the Gateway API's experimental channel");
        }
        EndpointType::UDP if plane.udp.is_none() => {
            lacks("UDPRoute", "install the Gateway API's experimental channel");
        }
        EndpointType::HTTP | EndpointType::REST | EndpointType::GraphQL | EndpointType::Websocket
            if !plane.http =>
        {
            lacks("HTTPRoute", "install the Gateway API");
        }
        _ => {}
    }
    let guarded = ways.iter().any(|way| !way.guard.is_empty());
    if guarded && !plane.envoy {
        lacks("Envoy Gateway, which enforces policies", "install it, or remove the policies");
    }
    if spec.backend_ref.type_ == BackendType::Target && !plane.envoy {
        lacks("Envoy Gateway, which leads to other addresses", "install it");
    }
    if spec.type_ == EndpointType::Grpc
        && spec.backend_ref.base_path.as_deref().is_some_and(|base| base != "/")
    {
        problems.push(Problem::new(reasons::INVALID_ENDPOINT, "a gRPC endpoint has no basePath: remove it"));
    }
}

/// What a route refers to.
pub(super) fn reference(plan: &Plan, reach: Reach) -> Value {
    match &plan.backend {
        Backend::Service { name, port } => json!({"name": name, "port": port}),
        Backend::Target { port, .. } => json!({
            "group": "gateway.envoyproxy.io", "kind": "Backend", "name": name(plan, reach), "port": port,
        }),
    }
}

fn name(plan: &Plan, reach: Reach) -> String {
    names::generate(NameKind::Object, &[reach.gateway(), &plan.name, "backend"])
}

/// The object that stands for another address.
pub(super) fn object(plan: &Plan, reach: Reach) -> Option<DynamicObject> {
    let Backend::Target { host, port, tls, .. } = &plan.backend else { return None };
    let endpoint = match host.parse::<IpAddr>() {
        Ok(address) => json!({"ip": {"address": address.to_string(), "port": port}}),
        Err(_) => json!({"fqdn": {"hostname": host, "port": port}}),
    };
    let mut spec = json!({"endpoints": [endpoint]});
    if *tls {
        spec["tls"] = json!({"wellKnownCACertificates": "System"});
    }
    let body = json!({"spec": spec});
    Some(plan.own(reach, "gateway.envoyproxy.io/v1alpha1", "Backend", name(plan, reach), body))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("https://api.example.com/v2/", "api.example.com", 443, true, "/v2")]
    #[case("http://API.example.com:8080", "api.example.com", 8080, false, "")]
    #[case("https://203.0.113.7/x", "203.0.113.7", 443, true, "/x")]
    fn an_address_outside_is_taken(
        #[case] url: &str,
        #[case] host: &str,
        #[case] port: u16,
        #[case] tls: bool,
        #[case] path: &str,
    ) {
        let expected = Backend::Target { host: host.to_owned(), port, tls, path: path.to_owned() };
        assert_eq!(parsed(url), Ok(expected));
    }

    #[rstest]
    #[case::loopback("http://127.0.0.1")]
    #[case::localhost("http://localhost:8080")]
    #[case::cloud_credentials("http://169.254.169.254/latest")]
    #[case::private("http://10.0.0.1")]
    #[case::carrier("http://100.64.0.1")]
    #[case::v6_loopback("http://[::1]")]
    #[case::v6_mapped("http://[::ffff:10.0.0.1]")]
    #[case::v6_local("http://[fd00::1]")]
    #[case::api_server("https://kubernetes.default.svc")]
    #[case::api_server_in_full("https://kubernetes.default.svc.cluster.local.")]
    #[case::one_label("http://vault")]
    #[case::metadata("http://metadata.google.internal")]
    #[case::password("https://user:secret@example.com")]
    #[case::query("https://example.com/?x=1")]
    #[case::dots("https://example.com/a/../b")]
    #[case::no_url("example.com")]
    #[case::other_scheme("ftp://example.com")]
    fn an_address_inside_is_refused(#[case] url: &str) {
        let why = parsed(url).unwrap_err();
        assert!(!why.contains("secret"), "{why}");
    }
}
