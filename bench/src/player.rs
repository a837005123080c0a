//! Plays what these clusters lack: the controllers that make pods ready and the gateway that accepts routes. It writes the
//! status that they would write, at once, so that Deployments and Endpoints become ready.

use std::time::Duration;

use anyhow::Result;
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{sample, stand::Ground, watching::Watches};

const ROUTE: &str = "gateway.networking.k8s.io/v1/HTTPRoute";
const GATEWAY: &str = "gateway.networking.k8s.io/v1/Gateway";
const OWNED: &str = "openchoreo.dev/owner-uid";

/// Plays until it is dropped.
pub(crate) struct Players {
    _tasks: JoinSet<()>,
}

impl Players {
    /// Begins on all planes.
    pub(crate) async fn begin(ground: &Ground) -> Result<Self> {
        let mut tasks = JoinSet::new();
        for plane in &ground.planes {
            let client = plane.client.clone();
            for gateway in sample::all(&client, GATEWAY).list(&ListParams::default()).await? {
                write(&client, GATEWAY, &gateway, &json!({"conditions": conditions(&gateway)})).await;
            }
            let kinds = ["apps/v1/Deployment", "v1/Service", ROUTE];
            let mut watches =
                Watches::open(kinds.map(|kind| (sample::all(&client, kind), OWNED)).to_vec()).await?;
            tasks.spawn(async move {
                // A day is longer than any run.
                while let Some(sight) = watches.next(Duration::from_hours(24)).await {
                    if !sight.gone && sight.object.metadata.deletion_timestamp.is_none() {
                        play(&client, kinds[sight.watch], &sight.object).await;
                    }
                }
            });
        }
        Ok(Self { _tasks: tasks })
    }
}

async fn play(client: &Client, kind: &str, object: &DynamicObject) {
    match kind {
        "v1/Service" => serve(client, object).await,
        ROUTE => {
            if object
                .data
                .pointer("/status/parents/0/conditions/0/observedGeneration")
                .and_then(Value::as_i64)
                != object.metadata.generation
            {
                let parents = object.data.pointer("/spec/parentRefs").and_then(Value::as_array);
                let accepted = parents.into_iter().flatten().map(|parent| {
                    json!({"parentRef": parent, "controllerName": "bench.example/gateway",
                        "conditions": conditions(object)})
                });
                write(client, kind, object, &json!({"parents": accepted.collect::<Vec<_>>()})).await;
            }
        }
        _ => {
            if object.data.pointer("/status/observedGeneration").and_then(Value::as_i64)
                != object.metadata.generation
            {
                write(client, kind, object, &available(object)).await;
            }
        }
    }
}

/// The status of a workload whose pods all run.
fn available(workload: &DynamicObject) -> Value {
    let replicas = workload.data.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    let condition = |type_: &str, reason: &str| {
        json!({"type": type_, "status": "True", "reason": reason, "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z"})
    };
    json!({
        "observedGeneration": workload.metadata.generation,
        "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
        "conditions": [condition("Available", "MinimumReplicasAvailable"), condition("Progressing", "NewReplicaSetAvailable")],
    })
}

fn conditions(object: &DynamicObject) -> Value {
    let condition = |type_: &str| {
        json!({"type": type_, "status": "True", "reason": "Accepted", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": object.metadata.generation})
    };
    json!(["Accepted", "ResolvedRefs", "Programmed"].map(condition))
}

/// Somebody answers behind a Service: its slice, labelled as the controller labels it.
async fn serve(client: &Client, service: &DynamicObject) {
    let (name, namespace) = (service.name_any(), service.namespace().unwrap_or_default());
    let mut labels = service.labels().clone();
    labels.insert("kubernetes.io/service-name".to_owned(), name.clone());
    let slice = sample::object(json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": format!("{name}-bench"), "namespace": namespace, "labels": labels},
        "endpoints": [{"addresses": ["10.244.0.1"], "conditions": {"ready": true}}],
    }));
    // It may be there already.
    let _ = sample::api_of(client, &slice).create(&PostParams::default(), &slice).await;
}

async fn write(client: &Client, kind: &str, object: &DynamicObject, status: &Value) {
    let namespace = object.namespace().unwrap_or_default();
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &sample::resource(kind));
    let patch = Patch::Merge(json!({"status": status}));
    // It may have gone in the meantime.
    let _ = api.patch_status(&object.name_any(), &PatchParams::default(), &patch).await;
}
