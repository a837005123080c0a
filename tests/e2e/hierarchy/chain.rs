//! One object of each kind, from the data plane down to the deployment, and what the tests do with them.

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
};

use kantor_core::hierarchy::Kind;
use kantor_testbed::wait::{self, Seen};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::support::{OperatorFixture, PATIENCE, plane_kubeconfig};

/// Kinds that say whether they are ready.
const SAYING: [Kind; 7] = [
    Kind::DataPlane,
    Kind::Environment,
    Kind::DeploymentPipeline,
    Kind::Project,
    Kind::Component,
    Kind::DeploymentTrack,
    Kind::DeployableArtifact,
];

/// An object of organization acme.
#[derive(Clone, Debug)]
pub struct Item {
    pub kind: Kind,
    pub name: &'static str,
    value: Value,
}

impl Item {
    /// An object with the logical name `logical`, below the parents that are named from the organization down.
    pub fn new(kind: Kind, name: &'static str, logical: &str, below: &[&str], spec: Value) -> Self {
        const LEVELS: [&str; 5] = ["organization", "project", "component", "deployment-track", "environment"];
        let resource = kind.resource();
        let named = LEVELS.iter().zip(below).chain([(&"name", &logical)]);
        let labels: serde_json::Map<String, Value> =
            named.map(|(level, name)| (format!("openchoreo.dev/{level}"), json!(name))).collect();
        let value = json!({
            "apiVersion": resource.api_version, "kind": resource.kind,
            "metadata": {"name": name, "namespace": "acme", "labels": labels}, "spec": spec,
        });
        Self { kind, name, value }
    }

    /// Another object that says the same of itself under another name, as a copied file makes it.
    pub fn copied(&self, name: &'static str) -> Self {
        let mut value = self.value.clone();
        value["metadata"]["name"] = json!(name);
        Self { kind: self.kind, name, value }
    }

    /// Its name for people.
    fn title(&self) -> String {
        format!("{} {}", self.kind, self.name)
    }

    pub fn api(&self, control: &OperatorFixture) -> Api<DynamicObject> {
        Api::namespaced_with(control.client.clone(), "acme", &self.kind.resource())
    }

    pub async fn create(&self, control: &OperatorFixture) {
        let object: DynamicObject = serde_json::from_value(self.value.clone()).unwrap();
        let created = self.api(control).create(&PostParams::default(), &object).await;
        created.unwrap_or_else(|error| panic!("{}: {error}", self.title()));
    }

    /// Deletes it, unless it has gone already.
    pub async fn delete(&self, control: &OperatorFixture) {
        match self.api(control).delete(self.name, &DeleteParams::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(error) => panic!("{}: {error}", self.title()),
        }
    }

    pub async fn patch(&self, control: &OperatorFixture, patch: Value) {
        self.api(control).patch(self.name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub async fn get(&self, control: &OperatorFixture) -> Option<DynamicObject> {
        self.api(control).get_opt(self.name).await.unwrap()
    }

    /// Waits until `seen` holds for it, or for its absence.
    pub async fn until<T>(
        &self,
        control: &OperatorFixture,
        what: &str,
        seen: impl Fn(Option<&DynamicObject>) -> Option<T>,
    ) -> T {
        let api = self.api(control);
        wait::until(&format!("{} {what}", self.title()), PATIENCE, || async {
            let object = api.get_opt(self.name).await?;
            Ok(seen(object.as_ref()).map_or_else(|| Seen::NotYet(format!("{object:#?}")), Seen::Done))
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", control.operator.log()))
    }

    pub async fn until_ready(&self, control: &OperatorFixture) {
        let says = SAYING.contains(&self.kind);
        self.until(control, "is ready", |object| (!says || is_ready(object?)).then_some(())).await;
    }

    pub async fn until_gone(&self, control: &OperatorFixture) {
        self.until(control, "is gone", |object| object.is_none().then_some(())).await;
    }

    /// Waits until the condition says so.
    pub async fn until_says(
        &self,
        control: &OperatorFixture,
        type_: &str,
        status: &str,
        reason: &str,
        message: &str,
    ) {
        let what = format!("says {type_}={status}, {reason}: {message}");
        self.until(control, &what, |object| {
            let said = condition(object?, type_)?;
            (said["status"] == status
                && said["reason"] == reason
                && said["message"].as_str()?.contains(message))
            .then_some(())
        })
        .await;
    }

    /// Waits until it says that it does not become ready, and why.
    pub async fn until_lacks(&self, control: &OperatorFixture, reason: &str, message: &str) {
        self.until_says(control, "Ready", "False", reason, message).await;
        self.until_says(control, "Stalled", "True", reason, message).await;
    }
}

fn condition(object: &DynamicObject, type_: &str) -> Option<Value> {
    let conditions = object.data["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == type_).cloned()
}

fn is_ready(object: &DynamicObject) -> bool {
    let now = object.data["status"]["observedGeneration"].as_i64() == object.metadata.generation;
    let ready = condition(object, "Ready").is_some_and(|ready| ready["status"] == "True");
    now && ready && object.metadata.deletion_timestamp.is_none()
}

/// A chain whose data plane is the control plane itself. Logical names differ from names where they may.
pub async fn chain(control: &OperatorFixture) -> Vec<Item> {
    const IN_TRACK: [&str; 5] = ["acme", "shop", "greeter", "main", "dev"];
    let kubeconfig = plane_kubeconfig(&control.control_plane).await.to_yaml();
    let mut secret = Item::new(Kind::Secret, "kubeconfig", "kubeconfig", &[], Value::Null);
    secret.value["stringData"] = json!({"kubeconfig": kubeconfig});
    secret.value.as_object_mut().unwrap().remove("spec");
    let of =
        |kind, name, logical, depth: usize, spec| Item::new(kind, name, logical, &IN_TRACK[..depth], spec);
    vec![
        secret,
        of(
            Kind::DataPlane,
            "plane",
            "plane",
            1,
            json!({
                "kubernetesCluster": {"secretRef": {"name": "kubeconfig"}},
            }),
        ),
        of(Kind::Environment, "acme-dev", "dev", 1, json!({"dataPlaneRef": "plane"})),
        of(
            Kind::DeploymentPipeline,
            "acme-pipeline",
            "pipeline",
            1,
            json!({
                "promotionPaths": [{"sourceEnvironmentRef": "dev", "targetEnvironmentRefs": []}],
            }),
        ),
        of(Kind::Project, "acme-shop", "shop", 1, json!({"deploymentPipelineRef": "pipeline"})),
        of(
            Kind::Component,
            "shop-greeter",
            "greeter",
            2,
            json!({
                "owner": {"projectName": "shop"}, "type": "Service",
            }),
        ),
        of(Kind::DeploymentTrack, "greeter-main", "main", 3, json!({})),
        of(
            Kind::Build,
            "build",
            "build",
            4,
            json!({
                "owner": {"projectName": "shop", "componentName": "greeter"},
                "repository": {"url": "https://example.com/x.git", "revision": {"branch": "main"}, "appPath": "/"},
                "templateRef": {"name": "docker"},
            }),
        ),
        of(Kind::ConfigurationGroup, "settings", "settings", 1, json!({"configurations": []})),
        of(
            Kind::DeployableArtifact,
            "artifact",
            "artifact",
            4,
            json!({
                "targetArtifact": {"fromBuildRef": {"name": "build"}},
                "configuration": {"application": {"envFrom": [{"configurationGroupRef": {"name": "settings"}}]}},
            }),
        ),
        of(Kind::Deployment, "deployment", "deployment", 5, json!({"deploymentArtifactRef": "artifact"})),
    ]
}

/// The one of that kind.
pub fn the(chain: &[Item], kind: Kind) -> &Item {
    chain.iter().find(|item| item.kind == kind).unwrap()
}

/// The items in an order that depends on `seed` alone.
pub fn shuffled(chain: &[Item], seed: u64) -> Vec<Item> {
    let mut chain = chain.to_vec();
    chain.sort_by_cached_key(|item| {
        let mut hasher = DefaultHasher::new();
        (seed, item.name).hash(&mut hasher);
        hasher.finish()
    });
    chain
}

/// Makes all, in this order, and waits until they are ready.
pub async fn create_all(control: &OperatorFixture, chain: &[Item]) {
    for item in chain {
        item.create(control).await;
    }
    for item in chain {
        item.until_ready(control).await;
    }
}

/// Waits until nothing of the kinds of the chain is left.
pub async fn until_all_gone(control: &OperatorFixture, chain: &[Item]) {
    let kinds: BTreeSet<Kind> = chain.iter().map(|item| item.kind).collect();
    wait::until("nothing is left", PATIENCE, || async {
        let mut left = vec![];
        for kind in &kinds {
            let api: Api<DynamicObject> =
                Api::namespaced_with(control.client.clone(), "acme", &kind.resource());
            let found = api.list(&ListParams::default()).await?;
            left.extend(found.into_iter().map(|object| format!("{kind} {}: {object:#?}", object.name_any())));
        }
        Ok(if left.is_empty() { Seen::Done(()) } else { Seen::NotYet(left.join("\n")) })
    })
    .await
    .unwrap_or_else(|error| panic!("{error:#}\n{}", control.operator.log()));
}
