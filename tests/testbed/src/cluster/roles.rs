//! The identities that Kantor itself has: accounts with the roles that it is shipped with, and no others.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::{Cluster, access::token};
use crate::{
    kubeconfig::{Auth, KubeconfigSpec},
    wait::{Seen, until},
};

/// Where the manifests have the accounts.
const NAMESPACE: &str = "kantor-system";
const OPERATOR: &str = include_str!("../../../../config/rbac/operator.yaml");
const DATA_PLANE: &str = include_str!("../../../../config/data-plane/rbac.yaml");
const ANY_RELEASE: &str = include_str!("../../../../config/data-plane/any-release.yaml");
/// The role that gathers what Releases need.
const RELEASES: &str = "kantor-data-plane-releases";
const LIMIT: Duration = Duration::from_mins(1);

/// Kubeconfigs that were made already: installing the roles once is enough.
#[derive(Default)]
pub(super) struct Roles {
    operator: OnceCell<KubeconfigSpec>,
    data_plane: OnceCell<KubeconfigSpec>,
    any_release: OnceCell<()>,
}

impl Cluster {
    /// The operator's kubeconfig for this cluster as its control plane: it may do what `config/rbac` says.
    pub async fn operator_kubeconfig(&self) -> Result<KubeconfigSpec> {
        let make = || async {
            let namespace = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {NAMESPACE}}}\n");
            self.apply_yaml(&namespace).await?;
            self.apply_yaml(OPERATOR).await?;
            self.kubeconfig_of("kantor").await
        };
        self.roles.operator.get_or_try_init(make).await.cloned()
    }

    /// The operator's kubeconfig for this cluster as a data plane: it may do what `config/data-plane/rbac.yaml` says.
    pub async fn data_plane_kubeconfig(&self) -> Result<KubeconfigSpec> {
        let make = || async {
            self.apply_yaml(DATA_PLANE).await?;
            self.kubeconfig_of("kantor-data-plane").await
        };
        self.roles.data_plane.get_or_try_init(make).await.cloned()
    }

    /// The same, where Releases may bring anything: with the role of `config/data-plane/any-release.yaml`, which
    /// kube-controller-manager adds to the other one.
    pub async fn any_release_kubeconfig(&self) -> Result<KubeconfigSpec> {
        let kubeconfig = self.data_plane_kubeconfig().await?;
        let allow = || async {
            self.apply_yaml(ANY_RELEASE).await?;
            if !self.components.has_controllers() {
                // Nobody is there who would add them.
                return self.bind("kantor-data-plane-any-release", "kantor-data-plane").await;
            }
            self.gathered("kantor-data-plane-any-release").await
        };
        self.roles.any_release.get_or_try_init(allow).await?;
        Ok(kubeconfig)
    }

    /// Lets Kantor do more on this data plane: by a role with the label of those that are added to its own.
    pub async fn allow_on_data_plane(&self, name: &str, rules: Value) -> Result<()> {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name, "labels": {"openchoreo.dev/aggregate-to-data-plane": "true"}},
            "rules": rules,
        });
        self.apply_yaml(&role.to_string()).await?;
        self.gathered(name).await
    }

    /// Waits until the rules of a role have been added to those of the data plane.
    async fn gathered(&self, name: &str) -> Result<()> {
        let roles: Api<ClusterRole> = Api::all(self.client());
        let added = roles.get(name).await?.rules.unwrap_or_default();
        until(&format!("the rules of {name} are added"), LIMIT, || async {
            let granted = roles.get(RELEASES).await?.rules.unwrap_or_default();
            let all = added.iter().all(|rule| granted.contains(rule));
            Ok(if all { Seen::Done(()) } else { Seen::NotYet(format!("{granted:?}")) })
        })
        .await
    }

    /// As [`Cluster::data_plane_kubeconfig`], with a token of its own each time.
    pub async fn fresh_data_plane_kubeconfig(&self) -> Result<KubeconfigSpec> {
        self.data_plane_kubeconfig().await?;
        self.kubeconfig_of("kantor-data-plane").await
    }

    /// Lets the operator of this control plane use it as a data plane too.
    pub async fn allow_in_cluster(&self) -> Result<()> {
        self.operator_kubeconfig().await?;
        self.data_plane_kubeconfig().await?;
        self.bind("kantor-data-plane", "kantor").await
    }

    async fn bind(&self, role: &str, account: &str) -> Result<()> {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": format!("{role}-of-{account}")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
        });
        self.apply_yaml(&binding.to_string()).await.map(drop)
    }

    async fn kubeconfig_of(&self, account: &str) -> Result<KubeconfigSpec> {
        let token = token(&self.client(), NAMESPACE, account, Duration::from_hours(1))
            .await
            .with_context(|| format!("enter {} as {account}", self.name()))?;
        Ok(KubeconfigSpec { auth: Auth::Token(token), ..self.kubeconfig() })
    }
}
