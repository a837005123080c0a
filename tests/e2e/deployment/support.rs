//! Organization `acme` with planes behind proxies, project `shop`, component `cart` and what its Deployments need.

use std::time::Duration;

use kantor_api::{
    Component, DeployableArtifact, Deployment, DeploymentPipeline, DeploymentTrack, Environment, Project,
    common::InventoryItem,
};
use kantor_testbed::{
    Cluster, CrdBundle,
    wait::{self, Seen},
};
use serde_json::{Value, json};

pub use crate::release::support::Plane;
use crate::{
    acme::{acme_with, environment, object, plane_ready, register},
    support::{OperatorFixture, PATIENCE, condition, is_ready},
};

/// A plane that runs pods, with everything that Deployments may use.
pub async fn full_plane(name: &str) -> Plane {
    let cluster =
        Cluster::builder().name(name).controllers(true).scheduler(true).nodes(2).crds(&CrdBundle::USED);
    Plane::without_releases(cluster.share().await.unwrap()).await
}

/// The operator, organization `acme`, plane `plane`, environment `dev` on it, and component `cart` of project `shop`.
pub struct DeploymentFixture {
    // The operator ends before what it talks to.
    pub control: OperatorFixture,
    pub plane: Plane,
}

impl DeploymentFixture {
    pub async fn open() -> Self {
        Self::open_with(&[]).await
    }

    /// As [`DeploymentFixture::open`], with further arguments of the operator.
    pub async fn open_with(arguments: &[&str]) -> Self {
        let opening = async {
            let fixture = Self::empty_with(arguments).await;
            fixture.seed().await;
            fixture
        };
        Box::pin(opening).await
    }

    /// Nothing but the operator, organization `acme` and a plane that is not registered.
    pub async fn empty() -> Self {
        Self::empty_with(&[]).await
    }

    async fn empty_with(arguments: &[&str]) -> Self {
        let (control, plane) =
            Box::pin(async { tokio::join!(acme_with(arguments), full_plane("plane")) }).await;
        Self { control, plane }
    }

    /// Plane, environment, pipeline, project and component.
    pub async fn seed(&self) {
        self.register("plane", &self.plane).await;
        environment(&self.control, "dev", "plane").await;
        self.project().await;
    }

    /// Pipeline, project and component.
    pub async fn project(&self) {
        let pipeline =
            json!({"promotionPaths": [{"sourceEnvironmentRef": "dev", "targetEnvironmentRefs": []}]});
        self.control.create::<DeploymentPipeline>(&object("DeploymentPipeline", "default", pipeline)).await;
        self.control
            .create::<Project>(&object("Project", "shop", json!({"deploymentPipelineRef": "default"})))
            .await;
        self.component("cart", "Service").await;
    }

    pub async fn register(&self, name: &str, plane: &Plane) {
        register(&self.control, name, &plane.kubeconfig).await;
        plane_ready(&self.control, name).await;
    }

    /// A component with its track `main`.
    pub async fn component(&self, name: &str, type_: &str) {
        let component = labelled(
            "Component",
            name,
            &[("project", "shop")],
            json!({"owner": {"projectName": "shop"}, "type": type_}),
        );
        self.control.create::<Component>(&component).await;
        let labels = [("project", "shop"), ("component", name), ("name", "main")];
        self.control
            .create::<DeploymentTrack>(&labelled(
                "DeploymentTrack",
                &format!("{name}-main"),
                &labels,
                json!({}),
            ))
            .await;
    }

    /// An artifact of a component.
    pub async fn artifact(&self, component: &str, name: &str, image: &str, configuration: Value) {
        let labels = [("project", "shop"), ("component", component), ("deployment-track", "main")];
        let spec =
            json!({"targetArtifact": {"fromImageRef": {"tag": image}}, "configuration": configuration});
        self.control.create::<DeployableArtifact>(&labelled("DeployableArtifact", name, &labels, spec)).await;
    }

    /// A Deployment of a component's artifact to an environment.
    pub async fn deploy(&self, name: &str, component: &str, environment: &str, spec: Value) -> Deployment {
        let labels = [
            ("project", "shop"),
            ("component", component),
            ("deployment-track", "main"),
            ("environment", environment),
        ];
        self.control.create::<Deployment>(&labelled("Deployment", name, &labels, spec)).await
    }

    pub async fn until<T>(&self, what: &str, name: &str, seen: impl Fn(&Deployment) -> Option<T>) -> T {
        self.control.until(what, &format!("acme/{name}"), |found: Option<&Deployment>| seen(found?)).await
    }

    pub async fn ready(&self, name: &str) -> Deployment {
        self.until(&format!("Deployment {name} is ready"), name, |found| {
            is_ready(found).then(|| found.clone())
        })
        .await
    }

    /// Waits until a condition of the Deployment, as it now is, has this status and reason; returns its message.
    pub async fn wait_condition(&self, name: &str, type_: &str, status: &str, reason: &str) -> String {
        self.until(&format!("Deployment {name} says {type_}={status} {reason}"), name, |found| {
            let observed = found.status.as_ref()?.observed_generation;
            let said = condition(found, type_)?;
            (observed == found.metadata.generation && said.0 == status && said.1 == reason).then_some(said.2)
        })
        .await
    }

    /// Changes the spec of an artifact by a merge patch.
    pub async fn edit_artifact(&self, name: &str, spec: Value) {
        self.control.patch::<DeployableArtifact>(&format!("acme/{name}"), json!({"spec": spec})).await;
    }

    /// Waits until the operator has seen an artifact as it now is. Whoever is woken by it is woken before it says so.
    pub async fn until_seen(&self, artifact: &str) {
        self.control.until_ready::<DeployableArtifact>(&format!("acme/{artifact}")).await;
    }

    /// Changes the configuration of the workload of an artifact by a merge patch.
    pub async fn configure(&self, artifact: &str, application: Value) {
        self.edit_artifact(artifact, json!({"configuration": {"application": application}})).await;
    }

    /// The object of a kind that a Deployment has on the plane, as its status tells.
    pub async fn live(&self, deployment: &Deployment, kind: &str) -> Value {
        let item = item(deployment, kind);
        let version = if item.group.is_empty() {
            item.version.clone()
        } else {
            format!("{}/{}", item.group, item.version)
        };
        let found = self.plane.get(&format!("{version}/{kind}"), &item.namespace, &item.name).await;
        found.unwrap_or_else(|| panic!("{kind} {} is not there", item.name))
    }

    /// Waits until the workload of a Deployment, on the plane, is as `seen` says.
    pub async fn workload<T>(
        &self,
        what: &str,
        deployment: &Deployment,
        seen: impl Fn(&Value) -> Option<T>,
    ) -> T {
        let item = item(deployment, "Deployment");
        self.plane
            .until(what, ("apps/v1/Deployment", &item.namespace, &item.name), |found| seen(found?))
            .await
    }

    /// Waits until the operator asks nothing of the control plane and of the plane for a while.
    pub async fn quiet(&self) {
        let quiet = Duration::from_secs(1);
        wait::until("the operator has nothing to do", PATIENCE, || async {
            let (here, there) = (self.control.proxy.mark(), self.plane.proxy.mark());
            tokio::time::sleep(quiet).await;
            let calls = self.plane.calls_since(there);
            let requests = self.control.proxy.since(here);
            let idle = calls.is_empty() && requests.is_empty();
            Ok(if idle { Seen::Done(()) } else { Seen::NotYet(format!("{requests}\n{calls}")) })
        })
        .await
        .unwrap();
    }

    pub async fn delete(&self, name: &str) {
        self.control.delete::<Deployment>(&format!("acme/{name}")).await;
        self.control.until_gone::<Deployment>(&format!("acme/{name}")).await;
    }
}

/// The object of a kind that a Deployment has on its plane.
pub fn item<'a>(deployment: &'a Deployment, kind: &str) -> &'a InventoryItem {
    let inventory = &deployment.status.as_ref().unwrap().inventory;
    inventory.iter().find(|item| item.kind == kind).unwrap_or_else(|| panic!("no {kind}: {inventory:#?}"))
}

/// The kinds of all objects that a Deployment has on its plane, in order.
pub fn kinds(deployment: &Deployment) -> Vec<&str> {
    let inventory = &deployment.status.as_ref().unwrap().inventory;
    let mut kinds: Vec<&str> = inventory.iter().map(|item| item.kind.as_str()).collect();
    kinds.sort_unstable();
    kinds
}

/// Namespace of a Deployment on its plane.
pub fn namespace(deployment: &Deployment) -> String {
    deployment.status.as_ref().unwrap().namespace.clone().unwrap()
}

/// The image of an artifact that says no more than that.
pub const IMAGE: &str = "registry.example.com/cart:1";

/// An object of `acme` with labels of Kantor.
pub fn labelled<K: serde::de::DeserializeOwned>(
    kind: &str,
    name: &str,
    labels: &[(&str, &str)],
    spec: Value,
) -> K {
    let mut value: Value = object(kind, name, spec);
    for (key, label) in labels {
        value["metadata"]["labels"][format!("openchoreo.dev/{key}")] = json!(label);
    }
    serde_json::from_value(value).unwrap()
}

/// A port that the organization may reach.
pub fn endpoint(name: &str, port: u16) -> Value {
    json!({"metadata": {"name": name}, "spec": {"type": "HTTP",
        "backendRef": {"type": "componentRef", "basePath": "/", "componentRef": {"port": port}}}})
}

/// Points the environment to another plane.
pub(super) async fn move_to(fixture: &DeploymentFixture, plane: &str) {
    fixture.control.patch::<Environment>("acme/dev", json!({"spec": {"dataPlaneRef": plane}})).await;
}

/// Waits until the Deployment is ready on a plane and nothing is left to clean.
pub(super) async fn settled_on(fixture: &DeploymentFixture, plane: &str) -> Deployment {
    fixture
        .until(&format!("it is on {plane}"), "cart", |found| {
            let status = found.status.as_ref()?;
            let there = status.data_plane.as_ref()?.name == plane && status.cleaning.is_empty();
            (there && is_ready(found)).then(|| found.clone())
        })
        .await
}
