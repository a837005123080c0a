//! The operator is killed at each write of a Deployment.

mod task;

use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Secret};
use kantor_api::{
    Component, ConfigurationGroup, DataPlane, DeployableArtifact, Deployment, DeploymentPipeline,
    DeploymentTrack, Endpoint, Environment, HostnameClaim, Project,
};
use kantor_testbed::{
    proxy::Proxy,
    snapshot::{Options, Snapshot, assert_nothing_left},
    wait::{self, Seen},
};
use kube::{Api, Client, api::ListParams};
use serde_json::{Value, json};

use super::support::{DeploymentFixture, Plane, full_plane, kinds};
use crate::{
    acme::{object, plane_ready},
    endpoint::support::{oauth2, open, template},
    gateway::{self, FakeGateway},
    killing::{Landing, Scenario, Write, assert_crash_safe, killed_at},
    release::support::start_operator,
    support::{OperatorFixture, PATIENCE, TestObject, condition, is_ready},
};

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_and_after_each_write_the_operator_ends_where_it_would_have() {
    let mut scenario = Box::pin(OneDeployment::open(false)).await;
    Box::pin(assert_crash_safe(&mut scenario, Landing::One)).await;
}

/// The longer scenario has a move to another plane. What is before that is the other scenario, and not killed again.
#[tokio::test(flavor = "multi_thread")]
async fn killed_before_and_after_each_write_of_a_move_it_ends_where_it_would_have() {
    let mut scenario = Box::pin(OneDeployment::open(true)).await;
    Box::pin(assert_crash_safe(&mut scenario, Landing::One)).await;
}

/// What is there and may not be known of.
fn is_something_there(write: &Write) -> bool {
    write.0 == "plane" || write.1.contains(" endpoints/")
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_after_any_write_of_its_creation_it_leaves_nothing() {
    // Namespace, isolation, six objects and an Endpoint; and of that four routes with a policy each, two with a filter, which
    // are written twice.
    let writes = Box::pin(deleted_after_each(is_something_there)).await;
    assert!(writes > 22, "{writes}");
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_after_any_write_to_the_control_plane_it_leaves_nothing() {
    // Finalizers, and what is recorded: of the environment, the artifact, the Deployment.
    let writes = Box::pin(deleted_after_each(|write| !is_something_there(write))).await;
    assert!(writes > 4, "{writes}");
}

/// Runs the creation again and again, each time until one more of the writes that count has landed, and then of the
/// deletion; returns how many there were.
#[expect(clippy::print_stderr, reason = "the steps of a long test, for those who ask for its output")]
async fn deleted_after_each(counts: fn(&Write) -> bool) -> usize {
    let mut scenario = Box::pin(OneDeployment::open(false)).await;
    let mut nth = 1;
    while let Some(write) = Box::pin(killed_at(&mut scenario, "created", nth, counts)).await {
        eprintln!("deleted after {write:?}");
        scenario.act("deleted").await;
        start_operator(&mut scenario.deployment.control, &[]).await;
        scenario.deployment.control.until_gone::<Deployment>("acme/cart").await;
        scenario.nothing_owned().await;
        scenario.act("closed").await;
        scenario.nothing_left().await;
        nth += 1;
    }
    nth - 1
}

const OLD_IMAGE: &str = "registry.example.com/cart:1";
const NEW_IMAGE: &str = "registry.example.com/cart:2";

/// A Deployment with its environment, which has the namespace.
struct OneDeployment {
    deployment: DeploymentFixture,
    /// Where the environment moves to, if it does.
    other: Option<Plane>,
    /// Those who play the gateways.
    _gateways: Vec<FakeGateway>,
    /// The control plane, and the planes, before the first phase.
    before: Vec<Snapshot>,
}

impl OneDeployment {
    async fn open(moves: bool) -> Self {
        let fixture = DeploymentFixture::empty().await;
        fixture.register("plane", &fixture.plane).await;
        let other = if moves { Some(full_plane("other").await) } else { None };
        if let Some(other) = &other {
            fixture.register("other", other).await;
        }
        let mut gateways = vec![];
        for (name, plane) in
            [("plane", &fixture.plane)].into_iter().chain(other.as_ref().map(|other| ("other", other)))
        {
            gateway::gateways(plane).await;
            gateways.push(FakeGateway::on(plane));
            gateway::at_work(plane).await;
            let hosts = json!({"spec": {"gateway": {
                "publicVirtualHost": "apis.example.com", "organizationVirtualHost": "int.example.com"}}});
            fixture.control.patch::<DataPlane>(&format!("acme/{name}"), hosts).await;
        }
        fixture.project().await;
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"password": "x"}, "metadata": {
            "name": "login", "namespace": "acme", "labels": {"openchoreo.dev/secret-kind": "application"}}});
        fixture.control.create::<Secret>(&serde_json::from_value(secret).unwrap()).await;
        let words =
            json!({"configurations": [{"key": "hi", "values": [{"environment": "dev", "value": "x"}]}]});
        fixture.control.create::<ConfigurationGroup>(&object("ConfigurationGroup", "words", words)).await;
        let mut scenario = Self { deployment: fixture, other, _gateways: gateways, before: vec![] };
        scenario.until_seeded().await;
        scenario.deployment.quiet().await;
        for client in scenario.clients() {
            scenario.before.push(Snapshot::settled(&client, &Options::default(), PATIENCE).await.unwrap());
        }
        scenario
    }

    /// Waits until all that is there before the first phase has said how it is.
    async fn until_seeded(&self) {
        let control = &self.deployment.control;
        for plane in ["plane", "other"].into_iter().take(1 + usize::from(self.other.is_some())) {
            plane_ready(control, plane).await;
        }
        control.until_ready::<Project>("acme/shop").await;
        control.until_ready::<Component>("acme/cart").await;
        control.until_ready::<DeploymentTrack>("acme/cart-main").await;
        // Its environment is yet to come.
        let said = |found: Option<&DeploymentPipeline>| condition(found?, "Ready").map(|_| ());
        control.until("the pipeline says how it is", "acme/default", said).await;
    }

    /// The control plane, and the planes.
    fn clients(&self) -> Vec<Client> {
        let planes =
            [&self.deployment.plane].into_iter().chain(&self.other).map(|plane| plane.client.clone());
        [self.deployment.control.client.clone()].into_iter().chain(planes).collect()
    }

    async fn find<K: TestObject<Scope = k8s_openapi::NamespaceResourceScope>>(
        &self,
        name: &str,
    ) -> Option<K> {
        let api: Api<K> = Api::namespaced(self.deployment.control.client.clone(), "acme");
        api.get_opt(name).await.unwrap()
    }

    async fn nothing_owned(&self) {
        nothing_owned(&self.clients()[1..]).await;
    }

    /// Waits until Kubernetes has removed what it had made for workloads that have gone.
    async fn until_collected(&self) {
        for client in &self.clients()[1..] {
            let replica_sets: Api<ReplicaSet> = Api::all(client.clone());
            wait::until("all ReplicaSets have gone", PATIENCE, || async {
                let left = replica_sets.list_metadata(&ListParams::default()).await?.items;
                Ok(if left.is_empty() { Seen::Done(()) } else { Seen::NotYet(format!("{left:?}")) })
            })
            .await
            .unwrap();
        }
    }

    /// Everything at once that a Deployment of a Service may have.
    async fn create(&self) {
        let application = json!({
            "env": [
                {"key": "COLOUR", "value": "blue"},
                {"key": "PASSWORD", "valueFrom": {"secretRef": {"name": "login", "key": "password"}}},
            ],
            "envFrom": [{"configurationGroupRef": {"name": "words"}}],
            "fileMounts": [{"mountPath": "/etc/menu", "value": "tea"}],
            "scaling": {"hpa": {"minReplicas": 1, "maxReplicas": 2}},
        });
        let templates = json!([guarded("items:read", "old.acme.example")]);
        let configuration = json!({"endpointTemplates": templates, "application": application});
        let security = json!({"remoteJwks": {"uri": "https://idp.example/jwks"}});
        let dev = json!({"dataPlaneRef": "plane", "gateway": {"dnsPrefix": "dev", "security": security}});
        self.deployment.control.create::<Environment>(&object("Environment", "dev", dev)).await;
        self.deployment.artifact("cart", "cart", OLD_IMAGE, configuration).await;
        self.deployment.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    }
}

impl Scenario for OneDeployment {
    fn control(&self) -> &OperatorFixture {
        &self.deployment.control
    }

    fn control_mut(&mut self) -> &mut OperatorFixture {
        &mut self.deployment.control
    }

    fn planes(&self) -> Vec<(&'static str, &Proxy)> {
        let other = self.other.iter().map(|other| ("other", &other.proxy));
        [("plane", &self.deployment.plane.proxy)].into_iter().chain(other).collect()
    }

    fn phases(&self) -> Vec<&'static str> {
        let mut phases = vec!["created", "edited", "reduced", "deleted", "closed"];
        if self.other.is_some() {
            phases.insert(3, "moved");
        }
        phases
    }

    fn is_killed_in(&self, phase: &str) -> bool {
        self.other.is_none() || ["moved", "deleted"].contains(&phase)
    }

    async fn act(&self, phase: &str) {
        match phase {
            "created" => self.create().await,
            // In one step: two would be two rollouts, or one.
            "edited" => {
                let env = json!([
                    {"key": "COLOUR", "value": "red"},
                    {"key": "PASSWORD", "valueFrom": {"secretRef": {"name": "login", "key": "password"}}},
                ]);
                let application =
                    json!({"env": env, "fileMounts": [{"mountPath": "/etc/menu", "value": "coffee"}]});
                let image = json!({"fromImageRef": {"tag": NEW_IMAGE}});
                let templates = json!([guarded("items:write", "new.acme.example")]);
                let configuration = json!({"application": application, "endpointTemplates": templates});
                let spec = json!({"targetArtifact": image, "configuration": configuration});
                self.deployment.edit_artifact("cart", spec).await;
            }
            "reduced" => {
                let application = json!({"envFrom": null, "scaling": null});
                let configuration = json!({"endpointTemplates": null, "application": application});
                self.deployment.edit_artifact("cart", json!({"configuration": configuration})).await;
            }
            "moved" => {
                let spec = json!({"spec": {"dataPlaneRef": "other"}});
                self.deployment.control.patch::<Environment>("acme/dev", spec).await;
            }
            "deleted" => self.deployment.control.delete::<Deployment>("acme/cart").await,
            _ => {
                self.deployment.control.delete::<DeployableArtifact>("acme/cart").await;
                self.deployment.control.delete::<Environment>("acme/dev").await;
            }
        }
    }

    async fn is_over(&self, phase: &str) -> bool {
        let deployment = self.find::<Deployment>("cart").await;
        let environment = self.find::<Environment>("dev").await;
        let api: Api<Endpoint> = Api::namespaced(self.deployment.control.client.clone(), "acme");
        let endpoints = api.list(&kube::api::ListParams::default()).await.unwrap().items;
        let claims: Api<HostnameClaim> = Api::all(self.deployment.control.client.clone());
        let claims = claims.list(&kube::api::ListParams::default()).await.unwrap().items.len();
        // It says whether the environment is there.
        let pipeline = self.find::<DeploymentPipeline>("default").await.unwrap();
        let is_found = condition(&pipeline, "Ready").is_some_and(|(status, ..)| status == "True");
        if is_found != environment.is_some() {
            return false;
        }
        let Some(environment) = environment else {
            return phase == "closed" && self.find::<DeployableArtifact>("cart").await.is_none();
        };
        let Some(deployment) = deployment else {
            return phase == "deleted" && endpoints.is_empty() && claims == 0;
        };
        let Some(status) = &deployment.status else { return false };
        let (image, all, ways_in): (_, &[&str], _) = match phase {
            "created" => (OLD_IMAGE, &FULL, 1),
            "edited" => (NEW_IMAGE, &FULL, 1),
            "reduced" | "moved" => (NEW_IMAGE, &REDUCED, 0),
            _ => return false,
        };
        let plane = if phase == "moved" { "other" } else { "plane" };
        let recorded: Vec<&str> = environment
            .status
            .iter()
            .flat_map(|status| &status.namespaces)
            .map(|record| record.data_plane.name.as_str())
            .collect();
        is_ready(&deployment)
            && is_ready(&environment)
            && status.image.as_deref() == Some(image)
            && status.data_plane.as_ref().is_some_and(|on| on.name == plane)
            && status.cleaning.is_empty()
            && kinds(&deployment) == all
            && status.endpoints.len() == ways_in
            && status.endpoints.iter().all(|told| told.ready.as_deref() == Some("True") && told.address.is_some())
            && endpoints.len() == ways_in
            && endpoints.iter().all(|endpoint| {
                is_ready(endpoint)
                    && endpoint.status.as_ref().and_then(|s| s.observed_generation) == endpoint.metadata.generation
            })
            // A host of its own, and a part of the one that the plane provides.
            && claims == 2 * ways_in
            && recorded == [plane]
    }

    async fn state(&self, phase: &str) -> Vec<Value> {
        if phase == "deleted" {
            self.nothing_owned().await;
            self.until_collected().await;
        }
        let uid = self.find::<Deployment>("cart").await.and_then(|found| found.metadata.uid);
        everything(&self.clients(), uid.as_deref()).await
    }

    async fn nothing_left(&self) {
        for (before, client) in self.before.iter().zip(self.clients()) {
            assert_nothing_left(before, &client, PATIENCE).await;
        }
    }
}

/// Fails if anything on these planes belongs to a Deployment. Its namespace is the environment's, and would take along what was
/// forgotten.
async fn nothing_owned(planes: &[Client]) {
    // Kubernetes gives these the labels of their Service, and removes them some time after it.
    let options =
        Options::default().ignore_kind("", "Endpoints").ignore_kind("discovery.k8s.io", "EndpointSlice");
    for plane in planes {
        let snapshot = Snapshot::take(plane, &options).await.unwrap();
        let owned = |object: &Value| !object["metadata"]["labels"]["openchoreo.dev/owner-uid"].is_null();
        let owned = snapshot.objects().iter().filter(|(_, object)| owned(object));
        let owned: Vec<String> = owned.map(|(key, _)| key.to_string()).collect();
        assert!(owned.is_empty(), "{owned:#?}");
    }
}

/// Everything on the control plane and the planes, but pods, addresses and what is made after them: they are by chance. The UID
/// of the Deployment differs from one time to the next.
async fn everything(clusters: &[Client], uid: Option<&str>) -> Vec<Value> {
    let mut state = vec![];
    for (number, client) in clusters.iter().enumerate() {
        let options = Options::default()
            .ignore_kind("", "Pod")
            .ignore_kind("", "Endpoints")
            .ignore_kind("discovery.k8s.io", "EndpointSlice")
            .ignore_kind("networking.k8s.io", "IPAddress")
            .ignore_uids();
        // What the operator says counts; what Kubernetes says of its own is in it.
        let options = if number == 0 { options } else { options.ignore_status() };
        let snapshot = Snapshot::settled(client, &options, PATIENCE).await.unwrap();
        state.extend(snapshot.objects().iter().map(|(key, object)| {
            let text = uid.iter().fold(object.to_string(), |text, uid| text.replace(uid, "deployment"));
            json!({"key": key.to_string(), "object": lasting(serde_json::from_str(&text).unwrap())})
        }));
    }
    state
}

/// A way in for those whose token has a scope, under a host of its own as well.
fn guarded(scope: &str, host: &str) -> Value {
    let operation = json!({"target": "/items", "method": "GET", "scopes": [scope]});
    let mut template = template("api", "/v1", json!({"public": open(json!([oauth2(json!([operation]))]))}));
    template["spec"]["hostnames"] = json!([host]);
    template
}

/// What the Deployment has on its plane, and what it has left when its configuration is reduced.
const FULL: [&str; 6] =
    ["ConfigMap", "ConfigMap", "Deployment", "HorizontalPodAutoscaler", "Secret", "Service"];
const REDUCED: [&str; 3] = ["ConfigMap", "Deployment", "Secret"];

/// A value without UIDs, the hash of an intent that has one in it, and addresses that the server gives out.
fn lasting(value: Value) -> Value {
    let is_uid = |text: &str| {
        text.len() == 36
            && text.bytes().enumerate().all(|(i, byte)| match i {
                8 | 13 | 18 | 23 => byte == b'-',
                _ => byte.is_ascii_hexdigit(),
            })
    };
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(key, _)| {
                !["openchoreo.dev/intent-hash", "clusterIP", "clusterIPs"].contains(&key.as_str())
            });
            Value::Object(kept.map(|(key, value)| (key, lasting(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(lasting).collect()),
        Value::String(text) if is_uid(&text) => json!("uid"),
        other => other,
    }
}
