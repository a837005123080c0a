//! What the operator was told, and is the same for all objects.

use kantor_api::{DataPlane, data_plane::PodSecurity};

/// What is the same for all Deployments and Endpoints of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Address of the vault, for data planes that do not say.
    pub vault_address: String,
    /// Role with which secrets are read from it, for data planes that do not say.
    pub vault_role: String,
    /// What paths in it begin with, for data planes that do not say; `{organization}` stands for the organization's name.
    /// Empty: anything, so that organizations are not kept apart.
    pub vault_path_prefix: String,
    /// How long a task may run, in seconds.
    pub task_deadline: i64,
    /// How often a failed task is tried again.
    pub task_retries: i32,
    /// How long a finished run of a scheduled task is kept, in seconds.
    pub task_kept: i32,
    /// Namespace of the gateways, for data planes that do not say.
    pub gateway_namespace: String,
    /// Domain of web applications, for data planes that do not say.
    pub web_application_domain: String,
    /// Who reaches Endpoints that do not say.
    pub default_visibility: Reach,
    /// Pod Security level of namespaces, for data planes that do not say.
    pub pod_security: PodSecurity,
}

impl Settings {
    /// The Pod Security level of namespaces on a data plane.
    pub fn pod_security_on(&self, plane: &DataPlane) -> PodSecurity {
        plane.spec.pod_security.unwrap_or(self.pod_security)
    }
}

/// Who reaches an Endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reach {
    /// Everybody, through the external gateway.
    Public,
    /// The organization, through the internal gateway.
    Organization,
}

impl Reach {
    /// Both, in the order in which they are shown.
    pub const ALL: [Self; 2] = [Self::Public, Self::Organization];

    /// As it is written in a spec and in a status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Organization => "organization",
        }
    }

    /// The gateway's name where nobody gives it another one. It is part of the names and labels of all routes.
    pub const fn gateway(self) -> &'static str {
        match self {
            Self::Public => "gateway-external",
            Self::Organization => "gateway-internal",
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            vault_address: "http://hashicorp-vault:8200".to_owned(),
            vault_role: "openchoreo-secret-reader-role".to_owned(),
            vault_path_prefix: "secret/data/{organization}/".to_owned(),
            task_deadline: 300,
            task_retries: 4,
            task_kept: 360,
            gateway_namespace: "openchoreo-data-plane".to_owned(),
            web_application_domain: "choreoapps.localhost".to_owned(),
            default_visibility: Reach::Organization,
            pod_security: PodSecurity::Baseline,
        }
    }
}
