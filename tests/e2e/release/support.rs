//! Organization `acme` with a plane behind a proxy, environment `dev` on it, and Releases.

use std::time::Duration;

use k8s_openapi::api::events::v1::Event;
use kantor_api::{DataPlane, Release, release::ResourceStatus};
use kantor_core::tenancy::{Tenant, own_namespace};
use kantor_testbed::{
    Cluster, KubeconfigSpec, SharedCluster,
    proxy::{Mark, Proxy, Record, Records, Verb},
    snapshot::{Options, Snapshot, assert_nothing_left},
    wait::{self, Seen},
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    acme::{acme, environment, object, plane_ready, register},
    observing::looked_at,
    support::{OperatorFixture, PATIENCE, condition, is_ready},
};

/// A plane and a proxy that sees every request of the operator to it.
pub struct Plane {
    pub proxy: Proxy,
    pub cluster: SharedCluster,
    pub client: Client,
    /// What it hands to Kantor: an account with the rights that Kantor is shipped with, behind the proxy.
    pub kubeconfig: KubeconfigSpec,
}

impl Plane {
    /// A plane with the controllers of Kubernetes: what is deleted really goes.
    pub async fn start(name: &str) -> Self {
        Self::on(Cluster::builder().name(name).controllers(true).share().await.unwrap()).await
    }

    /// A plane where Releases may bring anything.
    pub async fn on(cluster: SharedCluster) -> Self {
        let kubeconfig = cluster.any_release_kubeconfig().await.unwrap();
        Self::with(cluster, &kubeconfig)
    }

    /// A plane for Deployments and Endpoints.
    pub async fn without_releases(cluster: SharedCluster) -> Self {
        let kubeconfig = cluster.data_plane_kubeconfig().await.unwrap();
        Self::with(cluster, &kubeconfig)
    }

    fn with(cluster: SharedCluster, kubeconfig: &KubeconfigSpec) -> Self {
        let (client, proxy) = (cluster.client(), Proxy::start(&cluster).unwrap());
        let kubeconfig = kubeconfig.at(proxy.url(), proxy.ca_pem());
        Self { proxy, cluster, client, kubeconfig }
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

    /// The object, once it is there.
    pub async fn wait_exists(&self, kind: &str, namespace: &str, name: &str) -> Value {
        self.until(&format!("{kind} {name} is there"), (kind, namespace, name), |found| Some(found?.clone()))
            .await
    }

    pub async fn gone(&self, kind: &str, namespace: &str, name: &str) {
        let what = format!("{kind} {name} is gone");
        self.until(&what, (kind, namespace, name), |found| found.is_none().then_some(())).await;
    }

    /// Changes the status of an object, as its controller would.
    pub async fn report(&self, kind: &str, namespace: &str, name: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        self.api(kind, namespace).patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// What the operator asked of the plane since `mark`, beside lists, watches, probes and discovery: for an operator that
    /// has begun anew.
    pub fn calls_since(&self, mark: Mark) -> Records {
        self.asked_since(mark).filter(|record| !matches!(record.verb(), Verb::List | Verb::Watch))
    }

    /// What the operator asked of the plane since `mark`, beside probes and discovery: for one that has listed everything.
    /// What a plane serves is asked again some seconds after it was found.
    pub fn asked_since(&self, mark: Mark) -> Records {
        self.all_since(mark).filter(|record| !record.resource().is_empty())
    }

    /// All that the operator asked of the plane since `mark`, beside probes: for one that has come to rest.
    pub fn all_since(&self, mark: Mark) -> Records {
        self.proxy.since(mark).filter(|record| !is_probe(record))
    }
}

/// Whether a request only asks whether a plane is still there.
pub fn is_probe(record: &Record) -> bool {
    (record.resource() == "namespaces" && record.name() == "kube-system")
        || record.target.path.starts_with("/readyz")
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
pub struct ReleaseFixture {
    // The operator ends before what it talks to.
    pub control: OperatorFixture,
    pub plane: Plane,
}

impl ReleaseFixture {
    pub async fn open() -> Self {
        let (control, plane) = tokio::join!(acme(), Plane::start("plane"));
        Self::with(control, plane).await
    }

    pub async fn with(control: OperatorFixture, plane: Plane) -> Self {
        let fixture = Self { control, plane };
        fixture.register("plane", &fixture.plane).await;
        environment(&fixture.control, "dev", "plane").await;
        fixture
    }

    pub async fn register(&self, name: &str, plane: &Plane) {
        register(&self.control, name, &plane.kubeconfig).await;
        plane_ready(&self.control, name).await;
    }

    /// Changes what Releases may put on the plane.
    pub async fn allow(&self, policy: Value) {
        self.control.patch::<DataPlane>("acme/plane", json!({"spec": {"releasePolicy": policy}})).await;
        // It has been seen then.
        plane_ready(&self.control, "plane").await;
    }

    pub async fn create(&self, name: &str, resources: &[(&str, Value)]) -> Release {
        self.control.create(&release(name, resources)).await
    }

    /// Replaces the objects of a Release.
    pub async fn edit(&self, name: &str, resources: &[(&str, Value)]) {
        let spec = json!({"spec": {"resources": entries(resources)}});
        self.control.patch::<Release>(&format!("acme/{name}"), spec).await;
    }

    pub async fn annotate(&self, name: &str, key: &str, value: &str) {
        let patch = json!({"metadata": {"annotations": {key: value}}});
        self.control.patch::<Release>(&format!("acme/{name}"), patch).await;
    }

    /// Wakes a Release by what changes nothing, and waits until it was looked at and the operator asks nothing more.
    pub async fn touch(&self, name: &str) {
        // Another value each time.
        let value = format!("{:?}", self.control.proxy.mark());
        looked_at(&self.control, &["release"], self.annotate(name, "touched", &value)).await;
        self.quiet().await;
    }

    pub async fn until<T>(&self, what: &str, name: &str, seen: impl Fn(&Release) -> Option<T>) -> T {
        self.control.until(what, &format!("acme/{name}"), |release: Option<&Release>| seen(release?)).await
    }

    pub async fn ready(&self, name: &str) -> Release {
        self.until(&format!("Release {name} is ready"), name, |release| {
            is_ready(release).then(|| release.clone())
        })
        .await
    }

    /// Waits until a condition of the Release, as it now is, has this status and reason; returns its message.
    pub async fn wait_condition(&self, name: &str, type_: &str, status: &str, reason: &str) -> String {
        self.until(&format!("Release {name} says {type_}={status} {reason}"), name, |release| {
            let observed = release.status.as_ref()?.observed_generation;
            let said = condition(release, type_)?;
            (observed == release.metadata.generation && said.0 == status && said.1 == reason)
                .then_some(said.2)
        })
        .await
    }

    pub async fn delete(&self, name: &str) {
        self.control.delete::<Release>(&format!("acme/{name}")).await;
        self.control.until_gone::<Release>(&format!("acme/{name}")).await;
    }

    /// Asks for the deletion of a Release, and does not wait for it.
    pub async fn ask_to_delete(&self, name: &str) {
        self.control.delete::<Release>(&format!("acme/{name}")).await;
    }

    pub async fn until_gone(&self, name: &str) {
        self.control.until_gone::<Release>(&format!("acme/{name}")).await;
    }

    /// Waits until a Release that is being deleted says why it is still there in words that `told` accepts; returns
    /// them with the reason.
    pub async fn finalizing(&self, name: &str, told: impl Fn(&str) -> bool) -> (String, String) {
        self.until(&format!("Release {name} says what it waits for"), name, |release| {
            assert!(!release.finalizers().is_empty(), "let go: {release:#?}");
            let (status, reason, message) = condition(release, "Finalizing")?;
            (status == "True" && told(&message)).then_some((reason, message))
        })
        .await
    }

    /// The note of the newest Event about a Release with this reason, once there is one.
    pub async fn event(&self, name: &str, reason: &str) -> String {
        wait::until(&format!("an Event {reason} about {name}"), PATIENCE, || async {
            let notes = self.events(name, reason).await;
            Ok(notes.last().cloned().map_or_else(|| Seen::NotYet(format!("{notes:?}")), Seen::Done))
        })
        .await
        .unwrap()
    }

    /// The notes of the Events about a Release with this reason, the newest last.
    pub async fn events(&self, name: &str, reason: &str) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(self.control.client.clone(), "acme");
        let fields = ListParams::default().fields(&format!("reason={reason},regarding.name={name}"));
        let mut found = events.list(&fields).await.unwrap().items;
        found.sort_by_key(|event| event.event_time.clone().map(|time| time.0));
        found.into_iter().filter_map(|event| event.note).collect()
    }

    /// The statuses of a Release that the operator wrote since `mark`.
    pub fn statuses_since(&self, mark: Mark, name: &str) -> Vec<Value> {
        let writes = self.control.proxy.writes_since(mark).resource("releases/status").name(name);
        writes.into_iter().map(|write| write.body.json().unwrap()["status"].take()).collect()
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

/// An object of a kind, `v1/ConfigMap` or `apps/v1/Deployment`, in the home namespace, with `rest`.
pub fn at_home(kind: &str, name: &str, rest: Value) -> Value {
    let ApiResource { api_version, kind, .. } = resource(kind);
    let mut object = json!({"apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "namespace": home()}});
    object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    object
}

/// A Deployment in the home namespace.
pub fn deployment(name: &str, replicas: u32, image: &str) -> Value {
    let labels = json!({"app": name});
    let spec =
        json!({"replicas": replicas, "selector": {"matchLabels": labels}, "template": pods(name, image)});
    at_home("apps/v1/Deployment", name, json!({"spec": spec}))
}

/// A template of Pods with the label `app`.
pub fn pods(name: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}

/// The definition of a kind of `example.com` with any content and a status of its own.
pub fn definition(kind: &str) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

/// Starts an operator, with further arguments, in the place of one that has ended. It serves its probes by then; what
/// it finds there is its own matter.
pub async fn start_operator(control: &mut OperatorFixture, arguments: &[&str]) {
    let kubeconfig = control.control_plane.operator_kubeconfig().await.unwrap();
    let kubeconfig = kubeconfig.at(control.proxy.url(), control.proxy.ca_pem());
    let all = ["--allow-loopback-planes", "--plane-probe-interval=1", "--log=debug,kube=info,hyper=info"];
    let all = all.iter().chain(arguments).copied();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_kantor"));
    control.operator = kantor_testbed::Operator::start(program, &kubeconfig, all).await.unwrap();
}
