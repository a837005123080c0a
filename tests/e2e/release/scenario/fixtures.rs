//! The objects of the Release, the plane, a gateway, and others who have nothing to do with it.

use kantor_api::DataPlane;
use kantor_testbed::{Cluster, CrdBundle};
use kube::{
    ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    acme::acme,
    release::support::{Plane, ReleaseFixture, home},
};

/// The objects of a Release by their ids.
#[derive(Clone)]
pub struct Objects(Vec<(String, Value)>);

impl Objects {
    /// All of them.
    pub fn sixty() -> Self {
        let text = include_str!("sixty.yaml").replace("HOME", &home());
        let objects = serde_saphyr::from_multiple::<Value>(&text).unwrap();
        Self(objects.into_iter().map(|object| (id_of(&object), object)).collect())
    }

    /// A few of them, of the kinds that are hard.
    pub fn few() -> Self {
        const FEW: [&str; 15] = [
            "CustomResourceDefinition/widgets.story.example",
            "Namespace/acme-extra",
            "ServiceAccount/acme-made/runner",
            "ConfigMap/settings",
            "ConfigMap/spare-1",
            "ConfigMap/spare-2",
            "ConfigMap/acme-extra/settings",
            "Secret/password",
            "Service/db",
            "Deployment/worker",
            "StatefulSet/db",
            "Job/migrate",
            "CronJob/nightly",
            "HTTPRoute/cart",
            "Widget/small",
        ];
        let mut objects = Self::sixty();
        objects.0.retain(|(id, _)| FEW.contains(&id.as_str()));
        assert_eq!(objects.0.len(), FEW.len());
        objects
    }

    /// As a Release has them.
    pub fn resources(&self) -> Vec<(&str, Value)> {
        self.0.iter().map(|(id, object)| (id.as_str(), object.clone())).collect()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// What they are on the plane: kind with its version, namespace, name.
    pub fn places(&self) -> Vec<(String, String, String)> {
        self.0.iter().map(|(_, object)| place_of(object)).collect()
    }

    /// As they are after the edits of the second phase: an image, the environment, quantities, data.
    fn edited(mut self) -> Self {
        let edits = [
            (
                "Deployment/worker",
                "/spec/template/spec/containers/0/image",
                json!("registry.example/worker:2"),
            ),
            ("Deployment/worker", "/spec/template/spec/containers/0/resources/requests/cpu", json!("0.3")),
            ("StatefulSet/db", "/spec/template/spec/containers/0/env/0/value", json!("test")),
            ("ConfigMap/settings", "/data/size", json!("11")),
            ("Secret/password", "/stringData/password", json!("battery staple")),
            ("CronJob/nightly", "/spec/schedule", json!("0 4 1 1 *")),
            ("HTTPRoute/cart", "/spec/hostnames/0", json!("basket.example")),
            ("Widget/small", "/spec/size", json!(2)),
        ];
        for (id, pointer, value) in edits {
            let (_, object) = self.0.iter_mut().find(|(found, _)| found == id).unwrap();
            *object.pointer_mut(pointer).unwrap() = value;
        }
        self
    }

    /// As they are when one has another name, and one another kind, under the ids that they had.
    fn renamed(mut self) -> Self {
        for (id, object) in &mut self.0 {
            match id.as_str() {
                "ConfigMap/spare-1" => object["metadata"]["name"] = json!("spare-one"),
                "ConfigMap/spare-2" => object["kind"] = json!("Secret"),
                _ => {}
            }
            if id == "ConfigMap/spare-2" {
                object["data"] = json!({"n": "Mg=="});
            }
        }
        self
    }

    /// As they are without ten of sixty.
    fn pruned(mut self) -> Self {
        const GOING: [&str; 10] = [
            "ConfigMap/binary",
            "Secret/basic",
            "Service/elsewhere",
            "EndpointSlice/by-hand",
            "DaemonSet/agent",
            "CronJob/nightly",
            "NetworkPolicy/allow",
            "GRPCRoute/cart",
            "Widget/small",
            "Pod/toolbox",
        ];
        self.0.retain(|(id, _)| !GOING.contains(&id.as_str()));
        self
    }

    /// How the Release changes in the course of the scenario.
    pub fn phases(self) -> Vec<(&'static str, Self)> {
        let edited = self.clone().edited();
        let renamed = edited.clone().renamed();
        let pruned = renamed.clone().pruned();
        vec![("applied", self), ("edited", edited), ("renamed", renamed), ("pruned", pruned)]
    }
}

fn id_of(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (kind, namespace, name) = (text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
    if namespace.is_empty() || namespace == home() {
        format!("{kind}/{name}")
    } else {
        format!("{kind}/{namespace}/{name}")
    }
}

fn place_of(object: &Value) -> (String, String, String) {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let kind = format!("{}/{}", text("/apiVersion"), text("/kind"));
    (kind, text("/metadata/namespace"), text("/metadata/name"))
}

/// A plane with all that the objects need to be healthy, and a policy that lets all of them in.
pub async fn release_fixture() -> ReleaseFixture {
    let plane = Cluster::builder()
        .name("plane")
        .controllers(true)
        .scheduler(true)
        .nodes(2)
        .crds(&[CrdBundle::GatewayApi])
        .share();
    let (control, plane) = tokio::join!(Box::pin(acme()), plane);
    let fixture = Box::pin(ReleaseFixture::with(control, Plane::on(plane.unwrap()).await)).await;
    let able = "status.conditions.exists(c, c.type == 'AbleToScale' && c.status == 'True')";
    let spec = json!({"spec": {
        "releasePolicy": {
            "allowedKinds": ["*", "*.rbac.authorization.k8s.io", "*.gateway.networking.k8s.io",
                "*.networking.k8s.io", "*.discovery.k8s.io"],
            "clusterScopedKinds": ["*", "*.rbac.authorization.k8s.io", "*.admissionregistration.k8s.io",
                "*.gateway.networking.k8s.io", "*.networking.k8s.io"],
            "namespaces": ["{organization}-*"],
        },
        // There are no metrics: that it is able to scale has to be enough.
        "healthChecks": [{"group": "autoscaling", "kind": "HorizontalPodAutoscaler", "healthy": able}],
    }});
    fixture.control.patch::<DataPlane>("acme/plane", spec).await;
    fixture
}

/// Accepts all Gateways and Routes, as a gateway would, until it is dropped.
pub fn gateway(plane: &Plane) -> JoinSet<()> {
    let mut kinds = JoinSet::new();
    for kind in ["GatewayClass", "Gateway", "HTTPRoute", "GRPCRoute"] {
        let kind = format!("gateway.networking.k8s.io/v1/{kind}");
        let all = plane.api(&kind, "");
        let client = plane.client.clone();
        kinds.spawn(async move {
            let events = watcher(all, watcher::Config::default()).default_backoff();
            let mut seen = std::pin::pin!(events.applied_objects());
            while let Some(object) = futures::StreamExt::next(&mut seen).await {
                let Ok(object) = object else { continue };
                if let Some(status) = accepted(&object) {
                    let at = crate::release::support::resource(&kind);
                    let api = match object.namespace() {
                        Some(namespace) => kube::Api::namespaced_with(client.clone(), &namespace, &at),
                        None => kube::Api::<DynamicObject>::all_with(client.clone(), &at),
                    };
                    let patch = Patch::Merge(json!({"status": status}));
                    // It may have gone in the meantime.
                    let _ = api.patch_status(&object.name_any(), &PatchParams::default(), &patch).await;
                }
            }
        });
    }
    kinds
}

/// The status of an object that is accepted as it now is, unless it has it.
fn accepted(object: &DynamicObject) -> Option<Value> {
    let generation = object.metadata.generation;
    let conditions: Vec<Value> = ["Accepted", "ResolvedRefs", "Programmed"]
        .map(|type_| {
            json!({"type": type_, "status": "True", "reason": type_, "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": generation})
        })
        .to_vec();
    let observed = |pointer: &str| object.data.pointer(pointer).and_then(Value::as_i64);
    let Some(parents) = object.data.pointer("/spec/parentRefs").and_then(Value::as_array) else {
        let current = observed("/status/conditions/2/observedGeneration") == generation;
        return (!current).then(|| json!({"conditions": conditions}));
    };
    let current = observed("/status/parents/0/conditions/0/observedGeneration") == generation;
    let entry = |parent| json!({"parentRef": parent, "controllerName": "story.example/gateway", "conditions": conditions});
    (!current).then(|| json!({"parents": parents.iter().map(entry).collect::<Vec<_>>()}))
}

/// Objects of somebody else, in the namespaces of the Release too.
pub struct Others(Vec<(&'static str, String, &'static str)>);

impl Others {
    pub async fn settle(plane: &Plane) -> Self {
        let home = home();
        plane.create("v1/Namespace", "", json!({"metadata": {"name": home}})).await;
        plane.create("v1/Namespace", "", json!({"metadata": {"name": "elsewhere"}})).await;
        let mut others = Self(vec![("v1/Namespace", String::new(), "elsewhere")]);
        let nobody = json!({"selector": {"matchLabels": {"app": "other"}}, "replicas": 0, "template": {
            "metadata": {"labels": {"app": "other"}},
            "spec": {"containers": [{"name": "app", "image": "registry.example/other"}]}}});
        let pretender = json!({"openchoreo.dev/managed-by": "release-controller",
            "openchoreo.dev/release-uid": "00000000-0000-0000-0000-000000000000",
            "openchoreo.dev/release-name": "story", "openchoreo.dev/release-namespace": "acme"});
        for (kind, namespace, name, value) in [
            ("v1/ConfigMap", &*home, "other", json!({"data": {"whose": "not yours"}})),
            ("v1/Secret", &home, "other", json!({"stringData": {"whose": "not yours"}})),
            ("v1/Service", &home, "other", json!({"spec": {"ports": [{"port": 80}]}})),
            ("apps/v1/Deployment", &home, "other", json!({"spec": nobody})),
            ("v1/ConfigMap", &home, "pretender", json!({"metadata": {"labels": pretender}})),
            ("v1/ConfigMap", "elsewhere", "settings", json!({"data": {"colour": "black"}})),
        ] {
            let mut value = value;
            value["metadata"]["name"] = json!(name);
            plane.create(kind, namespace, value).await;
            others.0.push((kind, namespace.to_owned(), name));
        }
        // Kubernetes writes to it as well, until it has rolled out.
        plane
            .until("it has rolled out", ("apps/v1/Deployment", &home, "other"), |found| {
                let conditions = found?["status"]["conditions"].as_array()?;
                conditions.iter().any(|said| said["reason"] == "NewReplicaSetAvailable").then_some(())
            })
            .await;
        others
    }

    /// What they are now, to the last byte but that of their version.
    pub async fn now(&self, plane: &Plane) -> Vec<Value> {
        let mut found = vec![];
        for (kind, namespace, name) in &self.0 {
            let mut object = plane.get(kind, namespace, name).await.unwrap();
            object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
            found.push(object);
        }
        found
    }
}
