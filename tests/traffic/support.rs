//! A plane with real gateways, and what tests ask of it.

use std::time::Duration;

use anyhow::Result;
use kantor_testbed::{
    Cluster, CrdBundle,
    gateway::{Answer, Gateways},
    wait::{self, Seen},
};
use kube::{
    Api,
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

/// How long anything may take. It only passes when something is broken.
pub const PATIENCE: Duration = Duration::from_mins(2);
/// The namespace of the manifests.
pub const NAMESPACE: &str = "shop";

/// A plane with real gateways.
pub struct Site {
    // The gateways end before the cluster that they look at.
    pub gateways: Gateways,
    pub cluster: Cluster,
}

impl Site {
    pub async fn start() -> Result<Self> {
        let cluster = Cluster::builder().name("plane").controllers(true).scheduler(true).nodes(2);
        let cluster = cluster.crds(&[CrdBundle::GatewayApi, CrdBundle::EnvoyGateway]).start().await?;
        let gateways = Gateways::start(&cluster).await?;
        Ok(Self { gateways, cluster })
    }

    /// Applies objects to the plane.
    pub async fn apply(&self, objects: &[Value]) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        self.cluster.apply_yaml(&list.to_string()).await.unwrap();
    }

    /// A request that is answered somehow.
    pub async fn ask(&self, method: &str, host: &str, target: &str, headers: &[(&str, &str)]) -> Answer {
        self.gateways.client().request(method, host, target, headers).await.unwrap()
    }

    pub async fn get(&self, host: &str, target: &str, headers: &[(&str, &str)]) -> Answer {
        self.ask("GET", host, target, headers).await
    }

    /// Asks until the answer has this status: what was applied takes a moment to reach Envoy.
    pub async fn until(&self, status: u16, host: &str, target: &str, headers: &[(&str, &str)]) -> Answer {
        self.until_asked(status, "GET", host, target, headers).await
    }

    /// As [`Site::until`], by another method. What one request shows of a policy need not hold for the next: its parts reach
    /// Envoy one after the other.
    pub async fn until_asked(
        &self,
        status: u16,
        method: &str,
        host: &str,
        target: &str,
        headers: &[(&str, &str)],
    ) -> Answer {
        self.until_seen(&format!("answers {status}"), method, host, target, headers, |answer| {
            answer.status == status
        })
        .await
    }

    /// As [`Site::until_asked`], until the answer is as `seen` says.
    pub async fn until_seen(
        &self,
        what: &str,
        method: &str,
        host: &str,
        target: &str,
        headers: &[(&str, &str)],
        seen: impl Fn(&Answer) -> bool,
    ) -> Answer {
        wait::until(&format!("{method} {host}{target} {what}"), PATIENCE, || async {
            let answer = self.ask(method, host, target, headers).await;
            Ok(if seen(&answer) { Seen::Done(answer) } else { Seen::NotYet(format!("{answer:?}")) })
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", self.gateways.logs()))
    }

    /// The conditions of an object for its first parent or ancestor, as `Accepted=True/Accepted`, once there are any.
    pub async fn conditions(&self, kind: &str, name: &str) -> Vec<String> {
        self.until_conditions(kind, name, |told| !told.is_empty()).await
    }

    /// Waits for one of these conditions.
    pub async fn until_condition(&self, kind: &str, name: &str, wanted: &str) {
        self.until_conditions(kind, name, |told| told.iter().any(|condition| condition == wanted)).await;
    }

    async fn until_conditions(
        &self,
        kind: &str,
        name: &str,
        seen: impl Fn(&[String]) -> bool,
    ) -> Vec<String> {
        // Routes tell each parent apart, policies each ancestor; a Backend has neither.
        let (group, version, list) = match kind {
            "HTTPRoute" => ("gateway.networking.k8s.io", "v1", "/parents/0/conditions"),
            "Backend" => ("gateway.envoyproxy.io", "v1alpha1", "/conditions"),
            _ => ("gateway.envoyproxy.io", "v1alpha1", "/ancestors/0/conditions"),
        };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api: Api<DynamicObject> = Api::namespaced_with(self.cluster.client(), NAMESPACE, &resource);
        wait::until(&format!("{kind} {name} tells its conditions"), PATIENCE, || async {
            let object = api.get(name).await?;
            let conditions = object.data["status"].pointer(list).and_then(Value::as_array);
            let told: Vec<_> = conditions.into_iter().flatten().map(brief).collect();
            Ok(if seen(&told) { Seen::Done(told) } else { Seen::NotYet(object.data.to_string()) })
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", self.gateways.logs()))
    }
}

fn brief(condition: &Value) -> String {
    let text = |key: &str| condition[key].as_str().unwrap_or_default();
    format!("{}={}/{}", text("type"), text("status"), text("reason"))
}
