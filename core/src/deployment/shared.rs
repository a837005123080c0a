//! What all Deployments of a project share in an environment: the namespace, and that others cannot reach into it.

use kantor_api::labels::POD_SECURITY;
use kube_core::{DynamicObject, ResourceExt};
use serde_json::{Value, json};

use super::{Inputs, place::Place};

/// Name of the policy that isolates a namespace.
pub const ISOLATION: &str = "default-policy";

/// Networks that are inside: pods, services and nodes of the cluster, and what it shares a private network with.
const PRIVATE: [&str; 4] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"];

/// Where clouds serve the credentials of their machines.
const LINK_LOCAL: &str = "169.254.0.0/16";

/// Where machines that run a cache for DNS serve it.
const DNS_CACHE: &str = "169.254.20.10/32";

/// The namespace and its isolation.
pub(super) fn objects(inputs: &Inputs<'_>, place: &Place) -> Vec<DynamicObject> {
    let mut namespace = place.shared("v1", "Namespace", None, json!({}));
    if let Some(level) = inputs.settings.pod_security_on(inputs.data_plane).label() {
        namespace.labels_mut().insert(POD_SECURITY.to_owned(), level.to_owned());
    }
    let policy = if inputs.plane.cilium {
        place.shared("cilium.io/v2", "CiliumNetworkPolicy", Some(ISOLATION), cilium())
    } else {
        let gateway = inputs.data_plane.spec.gateway.as_ref().and_then(|g| g.namespace.as_deref());
        let spec = core(gateway.unwrap_or(&inputs.settings.gateway_namespace));
        place.shared("networking.k8s.io/v1", "NetworkPolicy", Some(ISOLATION), spec)
    };
    vec![namespace, policy]
}

/// Pods of the namespace reach each other. What else is open is said by cluster-wide policies of the data plane, which
/// select pods by their labels.
fn cilium() -> Value {
    json!({"spec": {
        "endpointSelector": {},
        "ingress": [{"fromEndpoints": [{}]}],
        "egress": [{"toEndpoints": [{}]}],
    }})
}

/// The same where there are no cluster-wide policies, so that what they open has to be opened here: ways in from the
/// gateways, ways out to DNS and to the world.
///
/// The world is every address that is not private. Addresses of pods count as addresses, so that all of them would open
/// every namespace to every other again; those of pods and services are private wherever nobody took pains to have it
/// otherwise. Machines always reach the pods that they run: probes need no rule.
fn core(gateway_namespace: &str) -> Value {
    let namespace =
        |name: &str| json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}});
    let inside: Vec<&str> = PRIVATE.into_iter().chain([LINK_LOCAL]).collect();
    json!({"spec": {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [{"podSelector": {}}, namespace(gateway_namespace)]}],
        "egress": [
            {"to": [{"podSelector": {}}]},
            {
                "to": [namespace("kube-system"), {"ipBlock": {"cidr": DNS_CACHE}}],
                "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}],
            },
            {"to": [
                {"ipBlock": {"cidr": "0.0.0.0/0", "except": inside}},
                {"ipBlock": {"cidr": "::/0", "except": ["fc00::/7", "fe80::/10"]}},
            ]},
        ],
    }})
}
