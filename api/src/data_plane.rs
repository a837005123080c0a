//! `DataPlane`: a cluster that runs workloads.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{bounds, common::SecretText, rules, unset::none_if_default};

/// A Kubernetes cluster that runs workloads, and how to reach it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "openchoreo.dev",
    version = "v1alpha1",
    kind = "DataPlane",
    doc = "A Kubernetes cluster that runs workloads, and how to reach it.",
    namespaced,
    status = "DataPlaneStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "dp",
    shortname = "dps",
    printcolumn(
        name = "Connected",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Connected')].status"
    ),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.serverVersion")
)]
#[serde(rename_all = "camelCase")]
pub struct DataPlaneSpec {
    /// How to reach the cluster.
    pub kubernetes_cluster: KubernetesCluster,
    /// Where the images of workloads come from.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub registry: Option<Registry>,
    /// Under which hosts endpoints are exposed. Needed as soon as an Endpoint is.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub gateway: Option<PlaneGateway>,
    /// Vault that holds the secret values of configuration groups.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub vault: Option<Vault>,
    /// Kept for compatibility; not read.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub observer: Option<Observer>,
    /// Pod Security level that namespaces get which Kantor makes: what pods in them may do. Without it, what the operator
    /// was told (`--pod-security`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_security: Option<PodSecurity>,
    /// What Releases may put on this data plane. Without it: kinds with a namespace, other than those that give rights or
    /// keep organizations apart, in the namespaces of the Release's organization.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub release_policy: Option<ReleasePolicy>,
    /// How the health of kinds is told that Kantor does not know, or knows otherwise. One per kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["group".into(), "kind".into()]))]
    pub health_checks: Vec<HealthCheck>,
}

/// What Releases may put on a data plane. Kinds are written as `Kind.group` (`Deployment.apps`), kinds of the core group
/// as `Kind` alone; `*` stands for any text, so that `*.apps` is all kinds of a group and `*` all kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleasePolicy {
    /// Kinds with a namespace that are allowed. Without any: all but those that give rights (RBAC, reviews, tokens, Kantor's
    /// own) or keep organizations apart (routes, gateways and their policies, Ingress, network policies, EndpointSlices,
    /// Endpoints), which are allowed only where their group is written out, in the core group the kind. The hosts of routes
    /// and Ingresses are then claimed as those of Endpoints are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 320)))]
    pub allowed_kinds: Vec<String>,
    /// Kinds that are refused, whatever else allows them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 320)))]
    pub denied_kinds: Vec<String>,
    /// Kinds without a namespace that are allowed. Without any: none but the organization's own Namespaces. Kinds of RBAC,
    /// admission, API services, certificates, and those that keep organizations apart are allowed only where their group is
    /// written out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 320)))]
    pub cluster_scoped_kinds: Vec<String>,
    /// Namespaces, beside those of the Release's organization, that are allowed: `*` stands for any text,
    /// `{organization}` for the organization's name. Namespaces `kube-*` never are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 320)))]
    pub namespaces: Vec<String>,
    /// Keys of labels that Namespaces of Releases may have, beside `organization-name`, `openchoreo.dev/*` and
    /// `app.kubernetes.io/*`: `*` stands for any text. Gateways, network policies and Pod Security trust namespaces by their
    /// labels; keys `pod-security.kubernetes.io/…` are allowed only where they are written out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 317)))]
    pub namespace_labels: Vec<String>,
    /// ServiceAccount of the data plane in whose name the objects of Releases are written: what it may not do, Releases
    /// may not. Kantor's own credentials need the right to impersonate it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub service_account: Option<ServiceAccountRef>,
}

/// What pods may do, by the Pod Security Standards; each is stricter than the one before.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum PodSecurity {
    /// Namespaces get no level: what the cluster has as its default counts.
    None,
    /// Everything, also what makes them masters of their node.
    Privileged,
    /// What gives no power over the node.
    #[default]
    Baseline,
    /// What is recommended: not as root, without privileges.
    Restricted,
}

impl PodSecurity {
    /// The value of the label of a namespace; nothing for no label.
    pub const fn label(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Privileged => Some("privileged"),
            Self::Baseline => Some("baseline"),
            Self::Restricted => Some("restricted"),
        }
    }

    /// The level that a label says, in so far as it says one.
    pub fn of_label(value: &str) -> Self {
        [Self::Privileged, Self::Baseline, Self::Restricted]
            .into_iter()
            .find(|level| level.label() == Some(value))
            .unwrap_or(Self::None)
    }
}

/// A ServiceAccount of the data plane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceAccountRef {
    /// Its namespace.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// How the health of the objects of one kind is told: CEL expressions that are true or false. They see the object as
/// `object`, and its parts as `metadata`, `spec` and `status`. The first that is true decides, in the order `suspended`,
/// `degraded`, `progressing`, `healthy`; if none is, the object is progressing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheck {
    /// API group; empty for the core group.
    #[serde(default)]
    #[schemars(length(max = 253))]
    pub group: String,
    /// Kind.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// The object is as it should be.
    #[schemars(length(min = 1, max = 4096))]
    pub healthy: String,
    /// The object is broken and will not mend by itself.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = 4096))]
    pub degraded: Option<String>,
    /// The object is on its way.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = 4096))]
    pub progressing: Option<String>,
    /// The object rests because somebody wants it to.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = 4096))]
    pub suspended: Option<String>,
    /// A text that says why the object is not healthy.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = 4096))]
    pub message: Option<String>,
}

/// How to reach a cluster: exactly one of a kubeconfig Secret, an address with credentials, or the cluster that
/// Kantor itself runs in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "[has(self.secretRef), has(self.server) && self.server != '', has(self.inCluster)].filter(set, set).size() == 1"
    ).message("set exactly one of secretRef, server (with tls and auth) and inCluster"),
    validation = Rule::new("!has(self.server) || self.server == '' || (has(self.tls) && has(self.auth))")
        .message("server needs tls and auth"),
    validation = Rule::new("(has(self.server) && self.server != '') || (!has(self.tls) && !has(self.auth))")
        .message("tls and auth go with server only"),
)]
pub struct KubernetesCluster {
    /// A Secret, in the same namespace, that holds a kubeconfig.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<KubeconfigSecret>,
    /// Address of the API server, `https://…`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = 2048))]
    #[x_kube(validation = rules::https_url_if_set())]
    pub server: Option<String>,
    /// How the API server proves who it is. Goes with `server`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ClusterTls>,
    /// How Kantor proves who it is. Goes with `server`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<ClusterAuth>,
    /// The cluster that Kantor runs in, with the operator's own ServiceAccount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_cluster: Option<InCluster>,
}

/// A Secret that holds a kubeconfig.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeconfigSecret {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key in it. Without one, `kubeconfig` is tried first, then `value`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = 253))]
    pub key: Option<String>,
}

/// The cluster that Kantor runs in: nothing to set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InCluster {}

/// How an API server proves who it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterTls {
    /// Certificate authority, PEM in base64. In a Secret it is the key `ca.crt`, PEM. Empty: the authorities of
    /// the operating system.
    pub ca: ValueFrom,
}

/// How Kantor proves who it is. With both, the certificate is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.mtls) || has(self.bearerToken)").message("set mtls or bearerToken"))]
pub struct ClusterAuth {
    /// With a client certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtls: Option<ClientCertificate>,
    /// With a token, as it is (not in base64). In a Secret it is the key `token`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new(VALUE_PRESENT).message("bearerToken needs a secretRef or a value"))]
    pub bearer_token: Option<ValueFrom>,
}

/// A client certificate and its key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientCertificate {
    /// The certificate, PEM in base64. In a Secret it is the key `tls.crt`, PEM.
    #[x_kube(validation = Rule::new(VALUE_PRESENT).message("clientCert needs a secretRef or a value"))]
    pub client_cert: ValueFrom,
    /// Its private key, PEM in base64. In a Secret it is the key `tls.key`, PEM.
    #[x_kube(validation = Rule::new(VALUE_PRESENT).message("clientKey needs a secretRef or a value"))]
    pub client_key: ValueFrom,
}

const VALUE_PRESENT: &str =
    "(has(self.secretRef) && self.secretRef != '') || (has(self.value) && self.value != '')";

/// A value, inline or from a Secret of the same namespace. With both, the Secret is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValueFrom {
    /// Name of a Secret of the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = 253))]
    pub secret_ref: Option<String>,
    /// The value itself. Prefer a Secret: everyone who may read the DataPlane reads this.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = 65536))]
    pub value: Option<SecretText>,
}

/// Where the images of workloads come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Registry {
    /// Goes in front of images that name no registry.
    #[schemars(length(max = 1024))]
    pub prefix: String,
    /// Name of a Secret, in the namespace of the workload, with which images are pulled.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = bounds::NAME))]
    pub secret_ref: Option<String>,
}

/// Under which hosts, and through which gateways, endpoints are exposed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlaneGateway {
    /// Host of public endpoints; the environment's `dnsPrefix` goes in front of it.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = rules::hostname())]
    pub public_virtual_host: String,
    /// Host of endpoints for the organization; the environment's `dnsPrefix` goes in front of it.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = rules::hostname())]
    pub organization_virtual_host: String,
    /// Domain of web applications; without one, the operator's default.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = 253))]
    #[x_kube(validation = rules::hostname_if_set())]
    pub web_application_domain: Option<String>,
    /// Name of the Gateway for public endpoints; without one, `gateway-external`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = 253))]
    pub public_gateway: Option<String>,
    /// Name of the Gateway for endpoints of the organization; without one, `gateway-internal`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = 253))]
    pub organization_gateway: Option<String>,
    /// Namespace of both Gateways; without one, the operator's default.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
    /// Domains in which Endpoints may have host names of their own: a host, or a domain with a dot in front
    /// (`.corp.example` is `corp.example` and everything below it). Without any: all that are not denied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 254)))]
    pub allowed_domains: Vec<String>,
    /// Domains in which Endpoints may not have host names of their own, written in the same way. They count before those
    /// that are allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 254)))]
    pub denied_domains: Vec<String>,
    /// Domains to which Endpoints with a `target` may lead, written in the same way, or IP addresses. Without any: every
    /// address and name that is public by its spelling. A gateway follows a name wherever its owner points it, also to an
    /// address inside the network: only this list keeps it from that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 254)))]
    pub target_domains: Vec<String>,
    /// Domains from which gateways fetch the keys of identity providers (`remoteJwks.uri` of Environments), written in the
    /// same way. Without any: every address and name that is public by its spelling. With `http://` in front: also by plain
    /// HTTP, which is refused otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 261)))]
    pub key_domains: Vec<String>,
}

/// The vault of a data plane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Vault {
    /// Address of the vault as seen from the data plane, `http://…` or `https://…`.
    #[schemars(length(max = 2048))]
    #[x_kube(validation = rules::http_url())]
    pub address: String,
    /// Role with which secrets are read.
    #[schemars(length(min = 1, max = 256))]
    pub role_name: String,
    /// What the path of every `vaultKey` begins with, since all organizations are read with one role: `{organization}` stands
    /// for the organization's name. Without it, what the operator was told (`--vault-path-prefix`).
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = 512))]
    #[x_kube(validation = rules::vault_prefix_if_set())]
    pub path_prefix: Option<String>,
}

/// An observer service. Not used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Observer {
    /// Address of the service.
    #[schemars(length(max = bounds::ADDRESS))]
    pub url: String,
    /// How to log in.
    pub authentication: ObserverAuthentication,
}

/// How to log in to an observer service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObserverAuthentication {
    /// With a user name and a password.
    pub basic_auth: ObserverBasicAuth,
}

/// A user name and a password.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObserverBasicAuth {
    /// User name.
    #[schemars(length(max = 256))]
    pub username: String,
    /// Password.
    #[schemars(length(max = 1024))]
    pub password: SecretText,
}

/// What Kantor knows of a data plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DataPlaneStatus {
    /// Generation of the object that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// State of the data plane: `Ready`, `Connected`, `Created`, and `Finalizing` while it is being deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Identity of the cluster: the UID of its namespace `kube-system`.
    #[serde(rename = "clusterUID", skip_serializing_if = "Option::is_none")]
    pub cluster_uid: Option<String>,
    /// Version of the API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_version: Option<String>,
    /// When the API server last answered, as far as it was known when this status was last changed for another reason: when
    /// the connection was made or lost, for example. The metric `kantor_plane_last_contact_timestamp_seconds` has the time
    /// of now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_contact_time: Option<Time>,
    /// When the credentials expire, if they say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_expire_time: Option<Time>,
    /// Optional parts that the cluster has, for example `gateway-api` or `cilium`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
}
