//! What registers a cluster as a data plane: an identity on it, with the rights that Kantor needs there, and on the control
//! plane a Secret with its kubeconfig and a DataPlane that names it.

use std::collections::BTreeMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use k8s_openapi::{
    ByteString,
    api::{
        core::v1::{Namespace, Secret, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kantor_api::{
    DataPlane, annotations,
    data_plane::{DataPlaneSpec, KubeconfigSecret, KubernetesCluster},
    labels,
};
use serde_json::{Value, json};

/// Key of the Secret that holds the kubeconfig.
pub const KUBECONFIG: &str = "kubeconfig";

const RBAC: &str = "rbac.authorization.k8s.io";

/// A ServiceAccount of a data plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The identity of Kantor on a data plane, and its rights.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// Where the account is.
    pub namespace: Namespace,
    /// The account.
    pub account: ServiceAccount,
    /// What it may do in the whole cluster.
    pub roles: Vec<ClusterRole>,
    /// That it may.
    pub bindings: Vec<ClusterRoleBinding>,
    /// That it may renew its own token, and no other.
    pub renewal: (Role, RoleBinding),
}

impl Identity {
    /// The account, with these roles.
    pub fn new(account: &Account, roles: Vec<ClusterRole>) -> Self {
        let bindings = roles.iter().map(|role| account.bound_to(role)).collect();
        Self {
            namespace: Namespace { metadata: named(None, &account.namespace), ..Namespace::default() },
            account: ServiceAccount {
                metadata: account.metadata(&account.name),
                ..ServiceAccount::default()
            },
            roles,
            bindings,
            renewal: account.renewal(),
        }
    }
}

impl Account {
    fn metadata(&self, name: &str) -> ObjectMeta {
        named(Some(&self.namespace), name)
    }

    fn subjects(&self) -> Vec<Subject> {
        vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: self.name.clone(),
            namespace: Some(self.namespace.clone()),
            ..Subject::default()
        }]
    }

    /// Several accounts of a cluster may have the role: each has a binding of its own.
    fn bound_to(&self, role: &ClusterRole) -> ClusterRoleBinding {
        let name = role.metadata.name.clone().unwrap_or_default();
        ClusterRoleBinding {
            metadata: named(None, &format!("{name}:{}:{}", self.namespace, self.name)),
            role_ref: role_ref("ClusterRole", name),
            subjects: Some(self.subjects()),
        }
    }

    fn renewal(&self) -> (Role, RoleBinding) {
        let metadata = self.metadata(&format!("{}-token", self.name));
        let rule = PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["serviceaccounts/token".to_owned()]),
            resource_names: Some(vec![self.name.clone()]),
            verbs: vec!["create".to_owned()],
            ..PolicyRule::default()
        };
        let binding = RoleBinding {
            metadata: metadata.clone(),
            role_ref: role_ref("Role", metadata.name.clone().unwrap_or_default()),
            subjects: Some(self.subjects()),
        };
        (Role { metadata, rules: Some(vec![rule]) }, binding)
    }
}

fn named(namespace: Option<&str>, name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: namespace.map(ToOwned::to_owned),
        ..ObjectMeta::default()
    }
}

fn role_ref(kind: &str, name: String) -> RoleRef {
    RoleRef { api_group: Some(RBAC.to_owned()), kind: kind.to_owned(), name }
}

/// How Kantor reaches a data plane: all but the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// Address of the API server.
    pub server: String,
    /// Name that the server's certificate must carry, where it is not the host of `server`.
    pub tls_server_name: Option<String>,
    /// Authorities of the server's certificate, PEM; without any, those of the operating system.
    pub ca_pem: Option<String>,
}

/// A kubeconfig with one cluster and one user. JSON is YAML, and leaves nothing to quote.
pub fn kubeconfig(way: &Way, token: &str) -> String {
    const NAME: &str = "data-plane";
    let mut cluster = json!({"server": way.server});
    if let Some(pem) = &way.ca_pem {
        cluster["certificate-authority-data"] = json!(BASE64_STANDARD.encode(pem));
    }
    if let Some(name) = &way.tls_server_name {
        cluster["tls-server-name"] = json!(name);
    }
    let document: Value = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
        "current-context": NAME,
    });
    format!("{document:#}\n")
}

/// The Secret with the kubeconfig of a data plane. It asks for its token to be renewed.
pub fn secret(organization: &str, name: &str, kubeconfig: String) -> Secret {
    let mut metadata = labelled(organization, name);
    metadata.annotations = Some(BTreeMap::from([(annotations::RENEW.to_owned(), "true".to_owned())]));
    Secret {
        metadata,
        type_: Some("Opaque".to_owned()),
        data: Some(BTreeMap::from([(KUBECONFIG.to_owned(), ByteString(kubeconfig.into_bytes()))])),
        ..Secret::default()
    }
}

/// The DataPlane that names the Secret of its name.
pub fn data_plane(organization: &str, name: &str) -> DataPlane {
    let reference = KubeconfigSecret { name: name.to_owned(), key: Some(KUBECONFIG.to_owned()) };
    let cluster = KubernetesCluster { secret_ref: Some(reference), ..KubernetesCluster::default() };
    let mut plane =
        DataPlane::new(name, DataPlaneSpec { kubernetes_cluster: cluster, ..DataPlaneSpec::default() });
    plane.metadata = labelled(organization, name);
    plane
}

fn labelled(organization: &str, name: &str) -> ObjectMeta {
    let labels = [(labels::ORGANIZATION, organization), (labels::NAME, name)]
        .map(|(k, v)| (k.to_owned(), v.to_owned()));
    ObjectMeta { labels: Some(BTreeMap::from(labels)), ..named(Some(organization), name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> Account {
        Account { namespace: "kantor-system".to_owned(), name: "kantor".to_owned() }
    }

    #[test]
    fn the_account_is_bound_to_each_role_and_may_renew_no_token_but_its_own() {
        let role = |name: &str| ClusterRole { metadata: named(None, name), ..ClusterRole::default() };
        let identity = Identity::new(&account(), vec![role("a"), role("b")]);
        let bound: Vec<_> =
            identity.bindings.iter().map(|b| (b.role_ref.name.as_str(), b.subjects.clone())).collect();
        assert_eq!(bound, [("a", Some(account().subjects())), ("b", Some(account().subjects()))]);
        assert_eq!(identity.bindings[0].metadata.name.as_deref(), Some("a:kantor-system:kantor"));
        let (role, binding) = &identity.renewal;
        assert_eq!(role.metadata.namespace.as_deref(), Some("kantor-system"));
        assert_eq!(role.rules.as_ref().unwrap()[0].resource_names, Some(vec!["kantor".to_owned()]));
        assert_eq!(binding.role_ref.kind, "Role");
    }

    #[test]
    fn a_kubeconfig_says_no_more_than_it_has_to() {
        let bare = Way { server: "https://a.example".to_owned(), tls_server_name: None, ca_pem: None };
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let document = read(&kubeconfig(&bare, "t"));
        assert_eq!(document["clusters"][0]["cluster"], json!({"server": "https://a.example"}));
        assert_eq!(document["users"][0]["user"], json!({"token": "t"}));
        let whole = Way { tls_server_name: Some("b".to_owned()), ca_pem: Some("PEM".to_owned()), ..bare };
        let cluster = &read(&kubeconfig(&whole, "t"))["clusters"][0]["cluster"];
        assert_eq!(cluster["tls-server-name"], "b");
        assert_eq!(cluster["certificate-authority-data"], BASE64_STANDARD.encode("PEM"));
    }

    #[test]
    fn the_data_plane_names_the_secret_that_asks_for_renewal() {
        let (secret, plane) = (secret("acme", "eu", "text".to_owned()), data_plane("acme", "eu"));
        assert_eq!(plane.spec.kubernetes_cluster.secret_ref.unwrap().name, "eu");
        assert_eq!(secret.metadata.annotations.unwrap()[annotations::RENEW], "true");
        assert_eq!(secret.metadata.namespace, plane.metadata.namespace);
        assert_eq!(secret.data.unwrap()[KUBECONFIG].0, b"text");
    }
}
