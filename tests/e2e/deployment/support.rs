//! Organization `acme` with planes behind proxies, project `shop`, component `cart` and what its Deployments need.

use kantor_api::{
    Component, DeployableArtifact, Deployment, DeploymentPipeline, DeploymentTrack, Environment, Project,
};
use kantor_testbed::{Cluster, CrdBundle};
use serde_json::{Value, json};

pub use crate::release::support::Plane;
use crate::{
    acme::{acme, environment, object, plane_ready, register},
    support::{Stage, condition, is_ready},
};

/// A plane that runs pods, with everything that Deployments may use.
pub async fn full_plane(name: &str) -> Plane {
    let cluster =
        Cluster::builder().name(name).controllers(true).scheduler(true).nodes(2).crds(&CrdBundle::ALL);
    Plane::on(cluster.start().await.unwrap())
}

/// The operator, organization `acme`, plane `plane`, environment `dev` on it, and component `cart` of project `shop`.
pub struct Shop {
    // The operator ends before what it talks to.
    pub stage: Stage,
    pub plane: Plane,
}

impl Shop {
    pub async fn open() -> Self {
        let (stage, plane) = tokio::join!(acme(), full_plane("plane"));
        let shop = Self { stage, plane };
        shop.register("plane", &shop.plane).await;
        environment(&shop.stage, "dev", "plane").await;
        let pipeline =
            json!({"promotionPaths": [{"sourceEnvironmentRef": "dev", "targetEnvironmentRefs": []}]});
        shop.stage.create::<DeploymentPipeline>(&object("DeploymentPipeline", "default", pipeline)).await;
        shop.stage
            .create::<Project>(&object("Project", "shop", json!({"deploymentPipelineRef": "default"})))
            .await;
        shop.component("cart", "Service").await;
        shop
    }

    pub async fn register(&self, name: &str, plane: &Plane) {
        let kubeconfig = plane.cluster.kubeconfig().at(plane.proxy.url(), plane.proxy.ca_pem());
        register(&self.stage, name, &kubeconfig).await;
        plane_ready(&self.stage, name).await;
    }

    /// A component with its track `main`.
    pub async fn component(&self, name: &str, type_: &str) {
        let component = labelled(
            "Component",
            name,
            &[("project", "shop")],
            json!({"owner": {"projectName": "shop"}, "type": type_}),
        );
        self.stage.create::<Component>(&component).await;
        let labels = [("project", "shop"), ("component", name), ("name", "main")];
        self.stage
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
        self.stage.create::<DeployableArtifact>(&labelled("DeployableArtifact", name, &labels, spec)).await;
    }

    /// A Deployment of a component's artifact to an environment.
    pub async fn deploy(&self, name: &str, component: &str, environment: &str, spec: Value) -> Deployment {
        let labels = [
            ("project", "shop"),
            ("component", component),
            ("deployment-track", "main"),
            ("environment", environment),
        ];
        self.stage.create::<Deployment>(&labelled("Deployment", name, &labels, spec)).await
    }

    pub async fn until<T>(&self, what: &str, name: &str, seen: impl Fn(&Deployment) -> Option<T>) -> T {
        self.stage.until(what, &format!("acme/{name}"), |found: Option<&Deployment>| seen(found?)).await
    }

    pub async fn ready(&self, name: &str) -> Deployment {
        self.until(&format!("Deployment {name} is ready"), name, |found| {
            is_ready(found).then(|| found.clone())
        })
        .await
    }

    /// Waits until a condition of the Deployment, as it now is, has this status and reason; returns its message.
    pub async fn says(&self, name: &str, type_: &str, status: &str, reason: &str) -> String {
        self.until(&format!("Deployment {name} says {type_}={status} {reason}"), name, |found| {
            let observed = found.status.as_ref()?.observed_generation;
            let said = condition(found, type_)?;
            (observed == found.metadata.generation && said.0 == status && said.1 == reason).then_some(said.2)
        })
        .await
    }

    pub async fn delete(&self, name: &str) {
        self.stage.delete::<Deployment>(&format!("acme/{name}")).await;
        self.stage.until_gone::<Deployment>(&format!("acme/{name}")).await;
    }
}

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
