//! Organization `acme`, its data planes and environments.

use k8s_openapi::api::core::v1::Secret;
use kantor_api::{DataPlane, Environment, Organization};
use kantor_testbed::{Cluster, KubeconfigSpec, SharedCluster};
use serde_json::{Value, json};

use crate::support::{OperatorFixture, condition, is_ready};

/// A control plane with organization `acme`, and the operator.
pub async fn acme() -> OperatorFixture {
    acme_with(&[]).await
}

/// As [`acme`], with further arguments of the operator.
pub async fn acme_with(arguments: &[&str]) -> OperatorFixture {
    let control = OperatorFixture::start_with(arguments).await;
    control.create(&Organization::new("acme", kantor_api::organization::OrganizationSpec {})).await;
    control
        .until("acme is ready", "acme", |o: Option<&Organization>| o.filter(|o| is_ready(*o)).map(|_| ()))
        .await;
    control
}

pub fn object<K: serde::de::DeserializeOwned>(kind: &str, name: &str, spec: Value) -> K {
    serde_json::from_value(json!({
        "apiVersion": "openchoreo.dev/v1alpha1", "kind": kind,
        "metadata": {"name": name, "namespace": "acme", "labels": {
            "openchoreo.dev/organization": "acme", "openchoreo.dev/name": name}},
        "spec": spec,
    }))
    .unwrap()
}

pub async fn secret(control: &OperatorFixture, name: &str, data: &[(&str, &str)]) {
    let data: std::collections::BTreeMap<_, _> = data.iter().copied().collect();
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": "acme"}, "stringData": data});
    control.create::<Secret>(&serde_json::from_value(secret).unwrap()).await;
}

/// Registers a plane with a kubeconfig Secret of its name.
pub async fn register(control: &OperatorFixture, name: &str, kubeconfig: &KubeconfigSpec) {
    secret(control, name, &[("kubeconfig", &kubeconfig.to_yaml())]).await;
    control
        .create::<DataPlane>(&object(
            "DataPlane",
            name,
            json!({"kubernetesCluster": {"secretRef": {"name": name}}}),
        ))
        .await;
}

pub async fn plane_ready(control: &OperatorFixture, name: &str) -> DataPlane {
    control.until_ready(&format!("acme/{name}")).await
}

/// Waits until `Ready` of a plane has this status and reason; returns the message.
pub async fn wait_plane_condition(
    control: &OperatorFixture,
    name: &str,
    status: &str,
    reason: &str,
) -> String {
    control
        .until(
            &format!("data plane {name} says {reason}"),
            &format!("acme/{name}"),
            |plane: Option<&DataPlane>| {
                let said = condition(plane?, "Ready")?;
                (said.0 == status && said.1 == reason).then_some(said.2)
            },
        )
        .await
}

pub async fn environment(control: &OperatorFixture, name: &str, plane: &str) {
    control.create::<Environment>(&object("Environment", name, json!({"dataPlaneRef": plane}))).await;
    control
        .until("the environment is ready", &format!("acme/{name}"), |e: Option<&Environment>| {
            e.filter(|e| is_ready(*e)).map(|_| ())
        })
        .await;
}

pub async fn plain_plane(name: &str) -> SharedCluster {
    // With the controllers: namespaces are really deleted, and ServiceAccounts get tokens.
    Cluster::builder().name(name).controllers(true).share().await.unwrap()
}
