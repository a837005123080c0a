//! Where requests go.

use kantor_api::{
    conditions::reasons,
    endpoint::{BackendType, EndpointType},
    names::{self, NameKind},
};
use kube_core::DynamicObject;
use serde_json::{Value, json};

use super::{Inputs, Plan, Problem, paths, ways::Way};
use crate::{
    deployment,
    known::Known,
    net::{Allowed, Host, outside},
    settings::Reach,
};

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
                        kube_core::ResourceExt::name_any(inputs.component),
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
            Some(target) => parsed(&target.url, domains(inputs)).map_err(|why| {
                Problem::new(reasons::BACKEND_NOT_SUPPORTED, format!("backendRef.target.url: {why}"))
            }),
            None => Err(Problem::new(reasons::INVALID_ENDPOINT, "backendRef.target.url is missing")),
        },
    };
    found.map_err(|problem| problems.push(problem)).ok()
}

/// Domains to which the data plane lets targets lead.
fn domains<'a>(inputs: &Inputs<'a>) -> &'a [String] {
    inputs.data_plane.spec.gateway.as_ref().map_or(&[], |gateway| &gateway.target_domains)
}

/// The address, if gateways may connect to it for a tenant.
fn parsed(url: &str, domains: &[String]) -> Result<Backend, String> {
    let address = outside(url, Allowed { domains, list: "gateway.targetDomains", plain: true })?;
    if address.query.is_some() {
        return Err("it must not have a query".to_owned());
    }
    let path = paths::trimmed(&address.path).to_owned();
    paths::check(&path, false).map_err(|why| format!("its path: {why}"))?;
    let port = address.port.unwrap_or(if address.tls { 443 } else { 80 });
    Ok(Backend::Target { host: address.host.to_string(), port, tls: address.tls, path })
}

/// Tells what the data plane lacks for all this, and of what nobody can tell whether it does.
pub(super) fn check_parts(inputs: &Inputs<'_>, ways: &[Way], problems: &mut Vec<Problem>) {
    if ways.is_empty() {
        return;
    }
    let (spec, plane) = (&inputs.endpoint.spec, &inputs.plane);
    let mut need = |known: Known<()>, what: &str, remedy: &str| {
        let name = kube_core::ResourceExt::name_any(inputs.data_plane);
        problems.extend(match known {
            Known::Present(()) => None,
            Known::Absent(_) => Some(Problem::new(
                reasons::CAPABILITY_MISSING,
                format!("data plane {name} has no {what}: {remedy}"),
            )),
            Known::Unknown(why) => Some(Problem::new(
                reasons::CAPABILITY_UNKNOWN,
                format!("whether data plane {name} has {what} cannot be told: {why}"),
            )),
        });
    };
    match spec.type_ {
        EndpointType::Grpc => need(plane.grpc.clone(), "GRPCRoute", "install the Gateway API"),
        EndpointType::TCP => {
            need(plane.tcp.clone().map(drop), "TCPRoute", "install the Gateway API's experimental channel");
        }
        EndpointType::UDP => {
            need(plane.udp.clone().map(drop), "UDPRoute", "install the Gateway API's experimental channel");
        }
        EndpointType::HTTP | EndpointType::REST | EndpointType::GraphQL | EndpointType::Websocket => {
            need(plane.http.clone(), "HTTPRoute", "install the Gateway API");
        }
    }
    if ways.iter().any(|way| !way.guard.is_empty()) {
        let remedy = "install it, or remove the policies";
        need(plane.envoy.clone(), "Envoy Gateway, which enforces policies", remedy);
    }
    if spec.backend_ref.type_ == BackendType::Target {
        need(plane.envoy.clone(), "Envoy Gateway, which leads to other addresses", "install it");
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
    let endpoint = match Host::parse(host) {
        Ok(Host::Ip(address)) => json!({"ip": {"address": address.to_string(), "port": port}}),
        _ => json!({"fqdn": {"hostname": host, "port": port}}),
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
        assert_eq!(parsed(url, &[]), Ok(expected));
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
    #[case::two_numbers("http://127.1/")]
    #[case::hexadecimal("http://0x7f.1/")]
    #[case::octal("http://0177.0.0.1/")]
    #[case::one_number("http://2130706433/")]
    #[case::three_numbers("http://169.254.43518/")]
    #[case::dot_at_the_end("http://169.254.169.254./")]
    #[case::wire_server("http://168.63.129.16/")]
    #[case::older_metadata("http://192.0.0.192/")]
    #[case::other_metadata("http://100.100.100.200/")]
    #[case::metadata_mapped("http://[::ffff:169.254.169.254]/")]
    #[case::metadata_translated("http://[64:ff9b::a9fe:a9fe]/")]
    #[case::metadata_tunnelled("http://[2002:a9fe:a9fe::1]/")]
    #[case::teredo("http://[2001:0:4136:e378::1]/")]
    #[case::benchmarks("http://198.18.0.1/")]
    #[case::reserved("http://250.0.0.1/")]
    #[case::any_address("http://169.254.169.254.nip.io/")]
    #[case::any_address_with_dashes("http://10-0-0-5.sslip.io/")]
    #[case::any_address_of_a_tree("http://a.b.10.0.0.5.xip.io/")]
    #[case::always_loopback("http://app.localtest.me/")]
    #[case::metadata_of_another_name("http://metadata.goog/")]
    #[case::home("http://router.lan/")]
    #[case::zone("http://[fe80::1%25eth0]/")]
    #[case::password("https://user:secret@example.com")]
    #[case::query("https://example.com/?x=1")]
    #[case::dots("https://example.com/a/../b")]
    #[case::no_url("example.com")]
    #[case::other_scheme("ftp://example.com")]
    fn an_address_inside_is_refused(#[case] url: &str) {
        let why = parsed(url, &[]).unwrap_err();
        assert!(!why.contains("secret"), "{why}");
    }

    #[test]
    fn with_a_list_of_domains_targets_lead_there_and_nowhere_else() {
        let domains = [".partner.example".to_owned(), "10.1.2.3".to_owned()];
        assert!(parsed("https://api.partner.example/v1", &domains).is_ok());
        assert!(parsed("http://10.1.2.3", &domains).is_ok());
        let why = parsed("https://api.example.com", &domains).unwrap_err();
        assert!(why.contains("gateway.targetDomains"), "{why}");
        assert!(parsed("http://169.254.169.254", &["169.254.169.254".to_owned()]).is_err());
    }
}
