//! Data planes: registration, credentials, faults, and what is left on them.

mod command;
mod holding;
mod refusing;
mod registering;
mod renewing;
mod trouble;
mod truth;

use std::time::Duration;

use base64::{Engine, prelude::BASE64_STANDARD};
use k8s_openapi::api::{
    core::v1::{Namespace, Secret},
    events::v1::Event,
};
use kantor_api::{DataPlane, Environment, Project};
use kantor_testbed::{
    Auth, Cluster, KubeconfigSpec,
    proxy::{Action, Fault, Match, Proxy},
    wait::{self, Seen},
};
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::json;

use crate::{
    acme::{acme, environment, object, plain_plane, plane_ready, register, secret, wait_plane_condition},
    support::{OperatorFixture, PATIENCE, condition, is_ready, plane_kubeconfig},
};

/// A namespace on a plane as the deployment of project `shop` makes it.
async fn plane_namespace(plane: &Cluster, name: &str, environment: &str) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {
        "managed-by": "choreo-deployment-controller", "belong-to": "user-workloads",
        "organization-name": "acme", "project-name": "shop", "environment-name": environment}}});
    plane.apply_yaml(&namespace.to_string()).await.unwrap();
}

async fn recorded(control: &OperatorFixture, environment: &str, namespace: &str) {
    let what = format!("environment {environment} has recorded {namespace}");
    control
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
