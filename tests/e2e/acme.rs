//! Organization `acme`, its data planes and environments.

use k8s_openapi::api::core::v1::Secret;
use kantor_api::{DataPlane, Environment, Organization};
use kantor_testbed::{Cluster, KubeconfigSpec, SharedCluster};
use serde_json::{Value, json};

use crate::support::{Stage, condition, is_ready};

/// A control plane with organization `acme`, and the operator.
pub async fn acme() -> Stage {
    acme_with(&[]).await
}

/// As [`acme`], with further arguments of the operator.
pub async fn acme_with(arguments: &[&str]) -> Stage {
    let stage = Stage::start_with(arguments).await;
    stage.create(&Organization::new("acme", kantor_api::organization::OrganizationSpec {})).await;
    stage
        .until("acme is ready", "acme", |o: Option<&Organization>| o.filter(|o| is_ready(*o)).map(|_| ()))
        .await;
    stage
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

pub async fn secret(stage: &Stage, name: &str, data: &[(&str, &str)]) {
    let data: std::collections::BTreeMap<_, _> = data.iter().copied().collect();
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": "acme"}, "stringData": data});
    stage.create::<Secret>(&serde_json::from_value(secret).unwrap()).await;
}

/// Registers a plane with a kubeconfig Secret of its name.
pub async fn register(stage: &Stage, name: &str, kubeconfig: &KubeconfigSpec) {
    secret(stage, name, &[("kubeconfig", &kubeconfig.to_yaml())]).await;
    stage
        .create::<DataPlane>(&object(
            "DataPlane",
            name,
            json!({"kubernetesCluster": {"secretRef": {"name": name}}}),
        ))
        .await;
}

pub async fn plane_ready(stage: &Stage, name: &str) -> DataPlane {
    stage.until_ready(&format!("acme/{name}")).await
}

/// Waits until `Ready` of a plane has this status and reason; tells the message.
pub async fn plane_says(stage: &Stage, name: &str, status: &str, reason: &str) -> String {
    stage
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

pub async fn environment(stage: &Stage, name: &str, plane: &str) {
    stage.create::<Environment>(&object("Environment", name, json!({"dataPlaneRef": plane}))).await;
    stage
        .until("the environment is ready", &format!("acme/{name}"), |e: Option<&Environment>| {
            e.filter(|e| is_ready(*e)).map(|_| ())
        })
        .await;
}

pub async fn plain_plane(name: &str) -> SharedCluster {
    // With the controllers: namespaces are really deleted, and ServiceAccounts get tokens.
    Cluster::builder().name(name).controllers(true).share().await.unwrap()
}
