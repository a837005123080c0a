//! `Environment`: a stage such as development or production, on one data plane.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{bounds, common::PlaneRecord, rules, unset::none_if_default};

/// A stage such as development or production. Its workloads run on one data plane.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "openchoreo.dev",
    version = "v1alpha1",
    kind = "Environment",
    doc = "A stage such as development or production. Its workloads run on one data plane.",
    namespaced,
    status = "EnvironmentStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "env",
    shortname = "envs",
    printcolumn(name = "Data Plane", type_ = "string", json_path = ".spec.dataPlaneRef"),
    printcolumn(name = "Production", type_ = "boolean", json_path = ".spec.isProduction")
)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentSpec {
    /// Name of the DataPlane, in the same namespace, that runs the workloads. Nothing can be deployed to the
    /// environment without it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = bounds::NAME))]
    pub data_plane_ref: Option<String>,
    /// Whether this is a production environment; for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_production: Option<bool>,
    /// How the environment's endpoints are reached.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub gateway: Option<EnvironmentGateway>,
}

/// How an environment's endpoints are reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentGateway {
    /// Goes in front of the data plane's virtual host: `dev` and `apis.example.com` give `dev.apis.example.com`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = 200))]
    #[x_kube(validation = rules::dns_prefix())]
    pub dns_prefix: Option<String>,
    /// How callers are authenticated.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub security: Option<EnvironmentSecurity>,
}

/// How callers of an environment's endpoints are authenticated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentSecurity {
    /// Where the keys are found that sign the tokens of `oauth2` policies.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub remote_jwks: Option<RemoteJwks>,
}

/// A JSON Web Key Set that is fetched by the gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemoteJwks {
    /// Address of the key set, `https://…`; `http://…` only where the data plane's `gateway.keyDomains` says so. It has to be
    /// public, or listed there. An empty text means that there is none.
    #[schemars(length(max = 2048))]
    #[x_kube(validation = rules::http_url_if_set())]
    pub uri: String,
}

/// What Kantor knows of an environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentStatus {
    /// Generation of the object that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// State of the environment: `Ready`, and `Finalizing` while it is being deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Namespaces of the environment's projects on data planes. They are deleted with the project or the environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<NamespaceRecord>,
}

/// A namespace on a data plane.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceRecord {
    /// Data plane that it is on.
    pub data_plane: PlaneRecord,
    /// Its name.
    pub name: String,
    /// Logical name of the project that it is for.
    pub project: String,
}
