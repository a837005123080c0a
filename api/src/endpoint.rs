//! `Endpoint`: a port of a deployment that others may reach.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    common::{InventoryItem, PlaneRecord},
    endpoint_policy::Policy,
    rules,
    unset::none_if_default,
};

/// A port of a deployment that others may reach. Kantor makes them from the templates of artifacts.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "openchoreo.dev",
    version = "v1alpha1",
    kind = "Endpoint",
    doc = "A port of a deployment that others may reach. Kantor makes them from the templates of artifacts.",
    namespaced,
    status = "EndpointStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(name = "Address", type_ = "string", json_path = ".status.address"),
    printcolumn(
        name = "Environment",
        type_ = "string",
        json_path = r".metadata.labels.openchoreo\.dev/environment"
    ),
    printcolumn(name = "Data Plane", type_ = "string", json_path = ".status.dataPlane.name")
)]
#[serde(rename_all = "camelCase")]
pub struct EndpointSpec {
    /// What is spoken on the port.
    #[serde(rename = "type")]
    pub type_: EndpointType,
    /// Where requests go.
    pub backend_ref: BackendRef,
    /// Who may reach it. Not set: the organization.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_visibilities: Option<NetworkVisibilities>,
    /// Further host names under which it is reached. Each belongs to one organization at a time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 253)))]
    #[x_kube(validation = rules::hostnames())]
    pub hostnames: Vec<String>,
}

/// What is spoken on a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EndpointType {
    /// HTTP.
    #[default]
    HTTP,
    /// A REST API over HTTP.
    REST,
    /// gRPC.
    #[serde(rename = "gRPC")]
    Grpc,
    /// GraphQL over HTTP.
    GraphQL,
    /// WebSocket.
    Websocket,
    /// Any protocol over TCP.
    TCP,
    /// Any protocol over UDP.
    UDP,
}

/// Where requests go: to a port of the component, or to another address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.type != 'componentRef' || has(self.componentRef)")
        .message("type componentRef needs componentRef.port"),
    validation = Rule::new("self.type != 'target' || has(self.target)").message("type target needs target.url"),
)]
pub struct BackendRef {
    /// Which of the two.
    #[serde(rename = "type")]
    pub type_: BackendType,
    /// Path of the application's API; requests reach the application under it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = 1024))]
    #[x_kube(validation = rules::path())]
    pub base_path: Option<String>,
    /// A port of the component.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub component_ref: Option<ComponentPort>,
    /// Another address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetBackend>,
}

/// Kinds of back-ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum BackendType {
    /// A port of the component.
    #[default]
    ComponentRef,
    /// Another address.
    Target,
}

/// A port of the component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentPort {
    /// The port, 1 to 65535.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
}

/// Another address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetBackend {
    /// The address, `http://…` or `https://…`. It has to be public, or listed in the data plane's `gateway.targetDomains`.
    #[schemars(length(max = 2048))]
    #[x_kube(validation = rules::http_url())]
    pub url: String,
}

/// Who may reach an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkVisibilities {
    /// The organization, through the internal gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization: Option<Visibility>,
    /// Everybody, through the external gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public: Option<Visibility>,
}

/// One way in, and what guards it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Visibility {
    /// Whether it is open.
    pub enable: bool,
    /// What guards it. A policy that the data plane cannot enforce keeps the way closed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub policies: Vec<Policy>,
}

/// What Kantor knows of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointStatus {
    /// Generation of the object that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// State of the endpoint: `Ready`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Where it is reached.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub address: Option<String>,
    /// Where it is reached, per way in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<EndpointAddress>,
    /// Data plane that the routes are on, recorded before anything was written there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_plane: Option<PlaneRecord>,
    /// Namespace of the routes on the data plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Objects on the data plane.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inventory: Vec<InventoryItem>,
    /// Data planes that it was on before and that are still to be cleaned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cleaning: Vec<PlaneRecord>,
    /// Since when it moves from the data planes of `cleaning` to `dataPlane`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moving_since: Option<Time>,
    /// Names of the HostnameClaims that it holds, or is about to hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<String>,
    /// Host names that another Endpoint of the organization holds; they are handed over when it lets go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withheld_hostnames: Vec<String>,
    /// Host names of its own that another organization holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused_hostnames: Vec<String>,
}

/// Where an endpoint is reached through one way in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointAddress {
    /// `public` or `organization`.
    pub visibility: String,
    /// The address.
    pub url: String,
}
