//! Organization `acme` with a plane behind a proxy, environment `dev` on it, and Releases.

use std::time::Duration;

use kantor::core::tenancy::{Tenant, own_namespace};
use kantor_api::{DataPlane, Release, release::ResourceStatus};
use kantor_testbed::{
    Cluster,
    proxy::{Proxy, Records, Verb},
    snapshot::{Options, Snapshot, assert_nothing_left},
    wait::{self, Seen},
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    acme::{acme, environment, object, plane_ready, register},
    support::{PATIENCE, Stage, condition, is_ready},
};

/// A plane and a proxy that sees every request of the operator to it.
pub struct Plane {
    pub proxy: Proxy,
    pub cluster: Cluster,
    pub client: Client,
}

impl Plane {
    /// A plane with the controllers of Kubernetes: what is deleted really goes.
    pub async fn start(name: &str) -> Self {
        Self::on(Cluster::builder().name(name).controllers(true).start().await.unwrap())
    }

    pub fn on(cluster: Cluster) -> Self {
        let (client, proxy) = (cluster.client(), Proxy::start(&cluster).unwrap());
        Self { proxy, cluster, client }
    }

    /// The API of a kind, `v1/ConfigMap` or `apps/v1/Deployment`, in a namespace or without.
    pub fn api(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let resource = resource(kind);
        if namespace.is_empty() {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), namespace, &resource)
        }
    }

    /// Makes an object straight on the plane, as somebody else would.
    pub async fn create(&self, kind: &str, namespace: &str, mut value: Value) -> DynamicObject {
        let resource = resource(kind);
        value["apiVersion"] = json!(resource.api_version);
        value["kind"] = json!(resource.kind);
        let object: DynamicObject = serde_json::from_value(value).unwrap();
        self.api(kind, namespace).create(&PostParams::default(), &object).await.unwrap()
    }

    /// Changes an object straight on the plane by a merge patch, as somebody else would.
    pub async fn patch(&self, kind: &str, namespace: &str, name: &str, patch: Value) {
        let params = PatchParams { field_manager: Some("somebody".into()), ..PatchParams::default() };
        self.api(kind, namespace).patch(name, &params, &Patch::Merge(patch)).await.unwrap();
    }

    pub async fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let found = self.api(kind, namespace).get_opt(name).await.unwrap();
        found.map(|found| serde_json::to_value(found).unwrap())
    }

    /// Waits until `seen` holds for an object of the plane, or for its absence.
    pub async fn until<T>(
        &self,
        what: &str,
        (kind, namespace, name): (&str, &str, &str),
        seen: impl Fn(Option<&Value>) -> Option<T>,
    ) -> T {
        let api = self.api(kind, namespace);
        wait::until(what, PATIENCE, || async {
            let found = api.get_opt(name).await?.map(|found| serde_json::to_value(found).unwrap());
            Ok(seen(found.as_ref()).map_or_else(|| Seen::NotYet(format!("{found:#?}")), Seen::Done))
        })
        .await
        .unwrap()
    }

    /// What the operator asked of the plane since `mark`, beside lists, watches, probes and discovery.
    pub fn calls_since(&self, mark: kantor_testbed::proxy::Mark) -> Records {
        self.proxy.since(mark).filter(|record| {
            !matches!(record.verb(), Verb::List | Verb::Watch)
                && !record.resource().is_empty()
                && !(record.resource() == "namespaces" && record.name() == "kube-system")
        })
    }
}

/// The resource of `group/version/Kind`; plurals as Kubernetes makes them by rule.
pub fn resource(kind: &str) -> ApiResource {
    let parts: Vec<&str> = kind.split('/').collect();
    let gvk = match parts[..] {
        [version, kind] => GroupVersionKind::gvk("", version, kind),
        [group, version, kind] => GroupVersionKind::gvk(group, version, kind),
        _ => panic!("{kind}"),
    };
    ApiResource::from_gvk(&gvk)
}

/// The operator, organization `acme`, plane `plane` and environment `dev` on it.
pub struct Theatre {
    // The operator ends before what it talks to.
    pub stage: Stage,
    pub plane: Plane,
}

impl Theatre {
    pub async fn open() -> Self {
        let (stage, plane) = tokio::join!(acme(), Plane::start("plane"));
        Self::with(stage, plane).await
    }

    pub async fn with(stage: Stage, plane: Plane) -> Self {
        let theatre = Self { stage, plane };
        theatre.register("plane", &theatre.plane).await;
        environment(&theatre.stage, "dev", "plane").await;
        theatre
    }

    pub async fn register(&self, name: &str, plane: &Plane) {
        let kubeconfig = plane.cluster.kubeconfig().at(plane.proxy.url(), plane.proxy.ca_pem());
        register(&self.stage, name, &kubeconfig).await;
        plane_ready(&self.stage, name).await;
    }

    /// Changes what Releases may put on the plane.
    pub async fn allow(&self, policy: Value) {
        self.stage.patch::<DataPlane>("acme/plane", json!({"spec": {"releasePolicy": policy}})).await;
    }

    pub async fn create(&self, name: &str, resources: &[(&str, Value)]) -> Release {
        self.stage.create(&release(name, resources)).await
    }

    /// Replaces the objects of a Release.
    pub async fn edit(&self, name: &str, resources: &[(&str, Value)]) {
        let spec = json!({"spec": {"resources": entries(resources)}});
        self.stage.patch::<Release>(&format!("acme/{name}"), spec).await;
    }

    pub async fn annotate(&self, name: &str, key: &str, value: &str) {
        let patch = json!({"metadata": {"annotations": {key: value}}});
        self.stage.patch::<Release>(&format!("acme/{name}"), patch).await;
    }

    pub async fn until<T>(&self, what: &str, name: &str, seen: impl Fn(&Release) -> Option<T>) -> T {
        self.stage.until(what, &format!("acme/{name}"), |release: Option<&Release>| seen(release?)).await
    }

    pub async fn ready(&self, name: &str) -> Release {
        self.until(&format!("Release {name} is ready"), name, |release| {
            is_ready(release).then(|| release.clone())
        })
        .await
    }

    /// Waits until a condition of the Release, as it now is, has this status and reason; returns its message.
    pub async fn says(&self, name: &str, type_: &str, status: &str, reason: &str) -> String {
        self.until(&format!("Release {name} says {type_}={status} {reason}"), name, |release| {
            let observed = release.status.as_ref()?.observed_generation;
            let said = condition(release, type_)?;
            (observed == release.metadata.generation && said.0 == status && said.1 == reason)
                .then_some(said.2)
        })
        .await
    }

    pub async fn delete(&self, name: &str) {
        self.stage.delete::<Release>(&format!("acme/{name}")).await;
        self.stage.until_gone::<Release>(&format!("acme/{name}")).await;
    }

    /// The plane as it is now.
    pub async fn snapshot(&self) -> Snapshot {
        Snapshot::settled(&self.plane.client, &Options::default(), PATIENCE).await.unwrap()
    }

    pub async fn nothing_left(&self, before: &Snapshot) {
        assert_nothing_left(before, &self.plane.client, PATIENCE).await;
    }

    /// Waits until the operator asks nothing of the control plane and of the plane for a while.
    pub async fn quiet(&self) {
        let quiet = Duration::from_secs(1);
        wait::until("the operator has nothing to do", PATIENCE, || async {
            let (here, there) = (self.stage.proxy.mark(), self.plane.proxy.mark());
            tokio::time::sleep(quiet).await;
            let calls = self.plane.calls_since(there);
            let requests = self.stage.proxy.since(here);
            let idle = calls.is_empty() && requests.is_empty();
            Ok(if idle { Seen::Done(()) } else { Seen::NotYet(format!("{requests}\n{calls}")) })
        })
        .await
        .unwrap();
    }
}

/// The state of one object of a Release.
pub fn entry<'a>(release: &'a Release, id: &str) -> &'a ResourceStatus {
    let resources = &release.status.as_ref().unwrap().resources;
    resources.iter().find(|entry| entry.id == id).unwrap_or_else(|| panic!("no entry {id}: {resources:#?}"))
}

/// The namespace that project `shop` of `acme` has in environment `dev` by its name.
pub fn home() -> String {
    own_namespace(&Tenant { organization: "acme", project: "shop", environment: "dev" })
}

pub fn release(name: &str, resources: &[(&str, Value)]) -> Release {
    object(
        "Release",
        name,
        json!({
            "owner": {"projectName": "shop", "componentName": "cart"},
            "environmentName": "dev",
            "resources": entries(resources),
        }),
    )
}

fn entries(resources: &[(&str, Value)]) -> Value {
    resources.iter().map(|(id, object)| json!({"id": id, "object": object})).collect()
}

/// A ConfigMap in the home namespace.
pub fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": home()}, "data": data})
}
