//! Data planes: registration, credentials, faults, and what is left on them.

mod registering;
mod trouble;

use std::time::Duration;

use base64::{Engine, prelude::BASE64_STANDARD};
use k8s_openapi::api::{
    core::v1::{Namespace, Secret},
    events::v1::Event,
    rbac::v1::PolicyRule,
};
use kantor_api::{DataPlane, Environment, Organization, Project};
use kantor_testbed::{
    Auth, Cluster, KubeconfigSpec, ServiceAccountAccess,
    proxy::{Action, Fault, Match, Proxy},
    wait::{self, Seen},
};
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::{Value, json};

use crate::support::{PATIENCE, Stage, condition, is_ready};

/// A control plane with organization `acme`, and the operator.
async fn acme() -> Stage {
    let stage = Stage::start().await;
    stage.create(&Organization::new("acme", kantor_api::organization::OrganizationSpec {})).await;
    stage
        .until("acme is ready", "acme", |o: Option<&Organization>| o.filter(|o| is_ready(*o)).map(|_| ()))
        .await;
    stage
}

fn object<K: serde::de::DeserializeOwned>(kind: &str, name: &str, spec: Value) -> K {
    serde_json::from_value(json!({
        "apiVersion": "openchoreo.dev/v1alpha1", "kind": kind,
        "metadata": {"name": name, "namespace": "acme", "labels": {
            "openchoreo.dev/organization": "acme", "openchoreo.dev/name": name}},
        "spec": spec,
    }))
    .unwrap()
}

async fn secret(stage: &Stage, name: &str, data: &[(&str, &str)]) {
    let data: std::collections::BTreeMap<_, _> = data.iter().copied().collect();
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": "acme"}, "stringData": data});
    stage.create::<Secret>(&serde_json::from_value(secret).unwrap()).await;
}

/// Registers a plane with a kubeconfig Secret of its name.
async fn register(stage: &Stage, name: &str, kubeconfig: &KubeconfigSpec) {
    secret(stage, name, &[("kubeconfig", &kubeconfig.to_yaml())]).await;
    stage
        .create::<DataPlane>(&object(
            "DataPlane",
            name,
            json!({"kubernetesCluster": {"secretRef": {"name": name}}}),
        ))
        .await;
}

async fn plane_ready(stage: &Stage, name: &str) -> DataPlane {
    stage
        .until(
            &format!("data plane {name} is ready"),
            &format!("acme/{name}"),
            |plane: Option<&DataPlane>| plane.filter(|plane| is_ready(*plane)).cloned(),
        )
        .await
}

/// Waits until `Ready` of a plane has this status and reason; tells the message.
async fn plane_says(stage: &Stage, name: &str, status: &str, reason: &str) -> String {
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

async fn environment(stage: &Stage, name: &str, plane: &str) {
    stage.create::<Environment>(&object("Environment", name, json!({"dataPlaneRef": plane}))).await;
    stage
        .until("the environment is ready", &format!("acme/{name}"), |e: Option<&Environment>| {
            e.filter(|e| is_ready(*e)).map(|_| ())
        })
        .await;
}

/// A namespace on a plane as the deployment of project `shop` makes it.
async fn plane_namespace(plane: &Cluster, name: &str, environment: &str) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {
        "managed-by": "choreo-deployment-controller", "belong-to": "user-workloads",
        "organization-name": "acme", "project-name": "shop", "environment-name": environment}}});
    plane.apply_yaml(&namespace.to_string()).await.unwrap();
}

async fn recorded(stage: &Stage, environment: &str, namespace: &str) {
    let what = format!("environment {environment} has recorded {namespace}");
    stage
        .until(&what, &format!("acme/{environment}"), |e: Option<&Environment>| {
            e?.status.as_ref()?.namespaces.iter().any(|record| record.name == namespace).then_some(())
        })
        .await;
}

async fn namespace_is(plane: &Cluster, name: &str, there: bool) {
    let namespaces: Api<Namespace> = Api::all(plane.client());
    wait::until(&format!("namespace {name}: there {there}"), PATIENCE, || async {
        let found = namespaces.get_opt(name).await?.is_some();
        Ok(if found == there { Seen::Done(()) } else { Seen::NotYet(format!("there: {found}")) })
    })
    .await
    .unwrap();
}

async fn plain_plane(name: &str) -> Cluster {
    // With the controllers: namespaces are really deleted, and ServiceAccounts get tokens.
    Cluster::builder().name(name).controllers(true).start().await.unwrap()
}
