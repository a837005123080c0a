//! Optional parts of a plane, told from the kinds that it serves.

use std::{collections::BTreeSet, fmt};

use kantor_core::known::Known;

use super::{Kind, Plane, Served};

/// An optional part of a plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Capability {
    /// Horizontal pod autoscaling, `autoscaling/v2`.
    Autoscaling,
    /// Cilium's network policies.
    Cilium,
    /// Envoy Gateway's policies.
    EnvoyGateway,
    /// Gateway API with HTTP routes.
    GatewayApi,
    /// Gateway API with gRPC routes.
    GatewayApiGrpc,
    /// Gateway API with TCP routes.
    GatewayApiTcp,
    /// Gateway API with UDP routes.
    GatewayApiUdp,
    /// KEDA.
    Keda,
    /// Secrets Store CSI driver.
    SecretsStoreCsi,
}

/// What shows that a plane has a part: a kind, and the version it is needed in (none: any).
const SIGNS: [(Capability, &str, Option<&str>, &str); 9] = [
    (Capability::Autoscaling, "autoscaling", Some("v2"), "HorizontalPodAutoscaler"),
    (Capability::Cilium, "cilium.io", Some("v2"), "CiliumNetworkPolicy"),
    (Capability::EnvoyGateway, "gateway.envoyproxy.io", Some("v1alpha1"), "SecurityPolicy"),
    (Capability::GatewayApi, "gateway.networking.k8s.io", Some("v1"), "HTTPRoute"),
    (Capability::GatewayApiGrpc, "gateway.networking.k8s.io", Some("v1"), "GRPCRoute"),
    (Capability::GatewayApiTcp, "gateway.networking.k8s.io", None, "TCPRoute"),
    (Capability::GatewayApiUdp, "gateway.networking.k8s.io", None, "UDPRoute"),
    (Capability::Keda, "keda.sh", Some("v1alpha1"), "ScaledObject"),
    (Capability::SecretsStoreCsi, "secrets-store.csi.x-k8s.io", None, "SecretProviderClass"),
];

impl Capability {
    /// The name in a DataPlane's status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Autoscaling => "autoscaling",
            Self::Cilium => "cilium",
            Self::EnvoyGateway => "envoy-gateway",
            Self::GatewayApi => "gateway-api",
            Self::GatewayApiGrpc => "gateway-api-grpc",
            Self::GatewayApiTcp => "gateway-api-tcp",
            Self::GatewayApiUdp => "gateway-api-udp",
            Self::Keda => "keda",
            Self::SecretsStoreCsi => "secrets-store-csi",
        }
    }

    /// What is known of this part on a plane: the kind that shows it.
    pub fn on(self, plane: &Plane) -> Known<Served> {
        let (_, group, version, kind) = SIGNS[self as usize];
        match version {
            Some(version) => plane.known(&Kind::new(group, version, kind)),
            None => plane.known_in(group, &[], kind),
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The optional parts that a plane has, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(BTreeSet<Capability>);

impl Capabilities {
    /// Reads the parts off the kinds that a plane serves.
    pub fn of<'a>(kinds: impl IntoIterator<Item = &'a Kind>) -> Self {
        let shown = |kind: &'a Kind| {
            SIGNS.iter().filter(move |(_, group, version, name)| {
                kind.group == *group && kind.kind == *name && version.is_none_or(|v| v == kind.version)
            })
        };
        Self(kinds.into_iter().flat_map(shown).map(|(capability, ..)| *capability).collect())
    }

    /// Whether the plane has this part.
    pub fn has(&self, capability: Capability) -> bool {
        self.0.contains(&capability)
    }

    /// The names of all parts, sorted.
    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(ToString::to_string).collect()
    }
}

impl FromIterator<Capability> for Capabilities {
    fn from_iter<I: IntoIterator<Item = Capability>>(all: I) -> Self {
        Self(all.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::plain(&["/v1/Pod", "apps/v1/Deployment"], &[])]
    #[case::standard_channel(
        &["gateway.networking.k8s.io/v1/HTTPRoute", "gateway.networking.k8s.io/v1/GRPCRoute"],
        &["gateway-api", "gateway-api-grpc"]
    )]
    #[case::only_an_old_version(&["gateway.networking.k8s.io/v1beta1/HTTPRoute"], &[])]
    #[case::experimental_channel(
        &["gateway.networking.k8s.io/v1alpha2/UDPRoute", "gateway.networking.k8s.io/v1alpha2/TCPRoute"],
        &["gateway-api-tcp", "gateway-api-udp"]
    )]
    #[case::envoy(&["gateway.envoyproxy.io/v1alpha1/SecurityPolicy"], &["envoy-gateway"])]
    #[case::same_kind_of_another_group(&["example.com/v1/HTTPRoute", "example.com/v1alpha1/SecurityPolicy"], &[])]
    #[case::cilium(&["cilium.io/v2/CiliumNetworkPolicy"], &["cilium"])]
    #[case::other_parts_of_cilium(&["cilium.io/v2/CiliumNode"], &[])]
    #[case::secrets_store(&["secrets-store.csi.x-k8s.io/v1/SecretProviderClass"], &["secrets-store-csi"])]
    #[case::keda(&["keda.sh/v1alpha1/ScaledObject"], &["keda"])]
    #[case::autoscaling(&["autoscaling/v2/HorizontalPodAutoscaler"], &["autoscaling"])]
    #[case::old_autoscaling(&["autoscaling/v1/HorizontalPodAutoscaler"], &[])]
    fn parts_are_told_from_kinds(#[case] served: &[&str], #[case] expected: &[&str]) {
        let kinds: Vec<_> = served.iter().map(|text| kind(text)).collect();
        assert_eq!(Capabilities::of(&kinds).names(), expected);
    }

    #[test]
    fn names_are_sorted() {
        let kinds: Vec<_> = SIGNS
            .iter()
            .rev()
            .map(|(_, group, version, name)| kind(&format!("{group}/{}/{name}", version.unwrap_or("v9"))))
            .collect();
        let names = Capabilities::of(&kinds).names();
        assert!(names.is_sorted() && names.len() == SIGNS.len(), "{names:?}");
    }

    #[test]
    fn each_part_has_its_sign() {
        for (position, (capability, ..)) in SIGNS.iter().enumerate() {
            assert_eq!(*capability as usize, position);
        }
    }

    fn kind(text: &str) -> Kind {
        let [group, version, kind] = text.split('/').collect::<Vec<_>>().try_into().unwrap();
        Kind::new(group, version, kind)
    }
}
