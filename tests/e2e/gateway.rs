//! Plays the gateway of a plane: accepts Gateways, routes and policies as the real one does. (What real traffic makes of
//! them is tested with the real one.)

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::StreamExt;
use kantor_testbed::wait::{self, Seen};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    release::support::{Plane, resource},
    support::PATIENCE,
};

const ROUTES: [&str; 4] = [
    "gateway.networking.k8s.io/v1/HTTPRoute",
    "gateway.networking.k8s.io/v1/GRPCRoute",
    "gateway.networking.k8s.io/v1/TCPRoute",
    "gateway.networking.k8s.io/v1/UDPRoute",
];
const POLICIES: [&str; 2] =
    ["gateway.envoyproxy.io/v1alpha1/SecurityPolicy", "gateway.envoyproxy.io/v1alpha1/BackendTrafficPolicy"];
const OTHERS: [&str; 2] =
    ["gateway.networking.k8s.io/v1/GatewayClass", "gateway.networking.k8s.io/v1/Gateway"];

/// Accepts what it sees until it is dropped.
pub struct FakeGateway {
    _watches: JoinSet<()>,
    /// Kinds of policies that are left without an answer.
    undecided: Arc<Mutex<BTreeSet<&'static str>>>,
    /// Whether everything is refused.
    refusing: Arc<AtomicBool>,
    client: Client,
}

impl FakeGateway {
    pub fn on(plane: &Plane) -> Self {
        let mut watches = JoinSet::new();
        let (undecided, refusing) =
            (Arc::<Mutex<BTreeSet<&'static str>>>::default(), Arc::new(AtomicBool::new(false)));
        for kind in ROUTES.into_iter().chain(POLICIES).chain(OTHERS) {
            let (all, client) = (plane.api(kind, ""), plane.client.clone());
            let answer = Answer { client, undecided: undecided.clone(), refusing: refusing.clone() };
            watches.spawn(async move {
                let events = watcher(all, watcher::Config::default()).default_backoff();
                let mut seen = std::pin::pin!(events.applied_objects());
                while let Some(object) = seen.next().await {
                    let Ok(object) = object else { continue };
                    answer.to(kind, &object).await;
                }
            });
        }
        Self { _watches: watches, undecided, refusing, client: plane.client.clone() }
    }

    /// From now on policies get no answer.
    pub fn hesitate(&self) {
        self.hesitate_about(&POLICIES);
    }

    /// From now on policies of these kinds get no answer, and those of others do.
    pub fn hesitate_about(&self, kinds: &[&'static str]) {
        *self.undecided.lock().unwrap() = kinds.iter().copied().collect();
    }

    /// Policies are answered again, those included that had no answer.
    pub async fn decide(&self) {
        self.hesitate_about(&[]);
        self.look_again().await;
    }

    /// From now on everything is refused, or accepted again.
    pub async fn refuse(&self, refuse: bool) {
        self.refusing.store(refuse, Ordering::SeqCst);
        self.look_again().await;
    }

    async fn look_again(&self) {
        let answer = Answer {
            client: self.client.clone(),
            undecided: self.undecided.clone(),
            refusing: self.refusing.clone(),
        };
        for kind in ROUTES.into_iter().chain(POLICIES) {
            let all: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource(kind));
            for object in all.list(&kube::api::ListParams::default()).await.unwrap() {
                answer.to(kind, &object).await;
            }
        }
    }
}

struct Answer {
    client: Client,
    undecided: Arc<Mutex<BTreeSet<&'static str>>>,
    refusing: Arc<AtomicBool>,
}

impl Answer {
    async fn to(&self, kind: &str, object: &DynamicObject) {
        if ROUTES.contains(&kind) {
            self.write(kind, object, "parents", "parentRef", parents(object)).await;
            // Policies have no status before there is what they are for.
            for policy in POLICIES {
                if let Some(found) = self.get(policy, object).await {
                    self.accept_policy(policy, &found, object).await;
                }
            }
        } else if POLICIES.contains(&kind) {
            for route in ROUTES {
                if let Some(found) = self.get(route, object).await {
                    self.accept_policy(kind, object, &found).await;
                }
            }
        } else if object.data.pointer("/status/conditions/2/observedGeneration").and_then(Value::as_i64)
            != object.metadata.generation
        {
            self.patch(kind, object, json!({"conditions": conditions(object, false)})).await;
        }
    }

    async fn accept_policy(&self, kind: &str, policy: &DynamicObject, route: &DynamicObject) {
        if !self.undecided.lock().unwrap().contains(kind) {
            self.write(kind, policy, "ancestors", "ancestorRef", parents(route)).await;
        }
    }

    async fn write(
        &self,
        kind: &str,
        object: &DynamicObject,
        list: &str,
        reference: &str,
        parents: Vec<Value>,
    ) {
        let refused = self.refusing.load(Ordering::SeqCst);
        let found = object.data.pointer(&format!("/status/{list}/0/conditions/0"));
        let wanted = (object.metadata.generation, Some(if refused { "False" } else { "True" }));
        let current =
            found.map(|condition| (condition["observedGeneration"].as_i64(), condition["status"].as_str()));
        if current == Some(wanted) {
            return;
        }
        let entry = |parent: Value| json!({reference: parent, "controllerName": "story.example/gateway", "conditions": conditions(object, refused)});
        self.patch(kind, object, json!({list: parents.into_iter().map(entry).collect::<Vec<_>>()})).await;
    }

    async fn patch(&self, kind: &str, object: &DynamicObject, status: Value) {
        let api = self.api(kind, object);
        let patch = Patch::Merge(json!({"status": status}));
        // It may have gone in the meantime.
        let _ = api.patch_status(&object.name_any(), &PatchParams::default(), &patch).await;
    }

    async fn get(&self, kind: &str, beside: &DynamicObject) -> Option<DynamicObject> {
        self.api(kind, beside).get_opt(&beside.name_any()).await.ok().flatten()
    }

    fn api(&self, kind: &str, object: &DynamicObject) -> Api<DynamicObject> {
        match object.namespace() {
            Some(namespace) => Api::namespaced_with(self.client.clone(), &namespace, &resource(kind)),
            None => Api::all_with(self.client.clone(), &resource(kind)),
        }
    }
}

fn parents(route: &DynamicObject) -> Vec<Value> {
    route.data.pointer("/spec/parentRefs").and_then(Value::as_array).cloned().unwrap_or_default()
}

fn conditions(object: &DynamicObject, refused: bool) -> Vec<Value> {
    let (status, reason, message) = if refused {
        ("False", "NotAllowedByListeners", "no listener takes it")
    } else {
        ("True", "Accepted", "")
    };
    ["Accepted", "ResolvedRefs", "Programmed"]
        .map(|type_| {
            json!({"type": type_, "status": status, "reason": reason, "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": object.metadata.generation})
        })
        .to_vec()
}

/// Gateways `gateway-external`, which speaks TLS, and `gateway-internal`, which does not.
pub async fn gateways(plane: &Plane) {
    let namespace = "openchoreo-data-plane";
    plane.create("v1/Namespace", "", json!({"metadata": {"name": namespace}})).await;
    for (name, listener) in [
        (
            "gateway-external",
            json!({"name": "https", "port": 443, "protocol": "HTTPS",
            "tls": {"certificateRefs": [{"name": "certificate"}]}}),
        ),
        ("gateway-internal", json!({"name": "http", "port": 8080, "protocol": "HTTP"})),
    ] {
        let spec = json!({"gatewayClassName": "gateway", "listeners": [listener]});
        let kind = "gateway.networking.k8s.io/v1/Gateway";
        plane.create(kind, namespace, json!({"metadata": {"name": name}, "spec": spec})).await;
    }
}

/// Waits until the fake gateway has answered for a Gateway, so that it is at work.
pub async fn at_work(plane: &Plane) {
    wait::until("the gateway is at work", PATIENCE, || async {
        let found = plane
            .get("gateway.networking.k8s.io/v1/Gateway", "openchoreo-data-plane", "gateway-external")
            .await;
        let accepted =
            found.as_ref().is_some_and(|found| found["status"]["conditions"][2]["observedGeneration"] == 1);
        Ok(if accepted { Seen::Done(()) } else { Seen::NotYet(format!("{found:?}")) })
    })
    .await
    .unwrap();
}
