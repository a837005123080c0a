//! A fixture whose plane has gateways.

use kantor_api::{DataPlane, Endpoint, Environment, HostnameClaim};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::{
    deployment::support::{DeploymentFixture, IMAGE},
    gateway::{self, FakeGateway},
    support::{condition, is_ready},
};

pub const HTTP_ROUTE: &str = "gateway.networking.k8s.io/v1/HTTPRoute";
pub const SECURITY_POLICY: &str = "gateway.envoyproxy.io/v1alpha1/SecurityPolicy";
pub const TRAFFIC_POLICY: &str = "gateway.envoyproxy.io/v1alpha1/BackendTrafficPolicy";
pub const FILTER: &str = "gateway.envoyproxy.io/v1alpha1/HTTPRouteFilter";
/// Labels of an Endpoint of Deployment `cart`.
pub const OF_CART: [(&str, &str); 5] = [
    ("project", "shop"),
    ("component", "cart"),
    ("deployment-track", "main"),
    ("environment", "dev"),
    ("deployment", "cart"),
];

/// A fixture whose plane has gateways, and somebody who plays them.
pub struct EndpointFixture {
    // Drops before the clusters.
    pub fake_gateway: FakeGateway,
    pub deployment: DeploymentFixture,
}

impl EndpointFixture {
    pub async fn open() -> Self {
        let fixture = DeploymentFixture::open().await;
        Self::with(fixture).await
    }

    pub async fn with(fixture: DeploymentFixture) -> Self {
        gateway::gateways(&fixture.plane).await;
        let fake_gateway = FakeGateway::on(&fixture.plane);
        gateway::at_work(&fixture.plane).await;
        let fixture = Self { fake_gateway, deployment: fixture };
        fixture.configure("plane", "dev").await;
        fixture
    }

    /// Gives a plane and its environment their hosts.
    pub async fn configure(&self, plane: &str, environment: &str) {
        let hosts = json!({"spec": {"gateway": {
            "publicVirtualHost": "apis.example.com", "organizationVirtualHost": "int.example.com"}}});
        self.deployment.control.patch::<DataPlane>(&format!("acme/{plane}"), hosts).await;
        let gateway = json!({"spec": {"gateway": {
            "dnsPrefix": environment, "security": {"remoteJwks": {"uri": "https://idp.example/jwks"}}}}});
        self.deployment.control.patch::<Environment>(&format!("acme/{environment}"), gateway).await;
    }

    /// Deploys component `cart` with these endpoint templates, and waits until it runs.
    pub async fn deploy(&self, templates: Value) {
        self.deployment.artifact("cart", "cart", IMAGE, json!({"endpointTemplates": templates})).await;
        self.deployment.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
        self.deployment.ready("cart").await;
    }

    pub async fn edit(&self, templates: Value) {
        self.deployment
            .edit_artifact("cart", json!({"configuration": {"endpointTemplates": templates}}))
            .await;
    }

    /// Waits until an Endpoint is as `seen` says.
    pub async fn until<T>(&self, what: &str, name: &str, seen: impl Fn(&Endpoint) -> Option<T>) -> T {
        self.deployment
            .control
            .until(what, &format!("acme/{name}"), |found: Option<&Endpoint>| seen(found?))
            .await
    }

    /// Waits until an Endpoint is ready as it now is.
    pub async fn ready(&self, name: &str) -> Endpoint {
        self.until(&format!("Endpoint {name} is ready"), name, |found| {
            let observed = found.status.as_ref()?.observed_generation == found.metadata.generation;
            (observed && is_ready(found)).then(|| found.clone())
        })
        .await
    }

    /// Waits until `Ready` of an Endpoint has this status and reason; returns the message.
    pub async fn wait_condition(&self, name: &str, status: &str, reason: &str) -> String {
        self.until(&format!("Endpoint {name} says {status} {reason}"), name, |found| {
            let said = condition(found, "Ready")?;
            (said.0 == status && said.1 == reason).then_some(said.2)
        })
        .await
    }

    /// Names of the objects of a kind on the plane that belong to an Endpoint, in order.
    pub async fn names(&self, kind: &str, endpoint: &Endpoint) -> Vec<String> {
        let mut names: Vec<String> = self.objects(kind, endpoint).await.iter().map(name_of).collect();
        names.sort();
        names
    }

    /// The objects of a kind on the plane that belong to an Endpoint.
    pub async fn objects(&self, kind: &str, endpoint: &Endpoint) -> Vec<Value> {
        let selector = format!("openchoreo.dev/owner-uid={}", endpoint.uid().unwrap());
        let params = kube::api::ListParams::default().labels(&selector);
        let list = self.deployment.plane.api(kind, "").list(&params).await.unwrap();
        list.items.iter().map(|object| serde_json::to_value(object).unwrap()).collect()
    }

    /// The claims of host names, by host and path, with the Endpoints that hold them.
    pub async fn claims(&self) -> Vec<(String, String)> {
        let all: kube::Api<HostnameClaim> = kube::Api::all(self.deployment.control.client.clone());
        let claims = all.list(&kube::api::ListParams::default()).await.unwrap();
        let mut claims: Vec<_> = claims
            .iter()
            .map(|claim| {
                let path = claim.spec.path_prefix.clone().unwrap_or_default();
                (format!("{}{path}", claim.spec.hostname), claim.spec.holder.name.clone())
            })
            .collect();
        claims.sort();
        claims
    }
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

/// Name of the Endpoint that Deployment `cart` makes of a template.
pub fn name(template: &str) -> String {
    kantor_api::names::generate(kantor_api::names::NameKind::Object, &["cart", template])
}

/// A template of an Endpoint of type REST.
pub fn template(name: &str, base: &str, visibilities: Value) -> Value {
    let mut spec = json!({"type": "REST",
        "backendRef": {"type": "componentRef", "basePath": base, "componentRef": {"port": 8080}}});
    if !visibilities.is_null() {
        spec["networkVisibilities"] = visibilities;
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

/// A visibility that is open, guarded by these policies.
pub fn open(policies: Value) -> Value {
    json!({"enable": true, "policies": policies})
}

/// A policy that asks for tokens.
pub fn oauth2(operations: Value) -> Value {
    json!({"name": "login", "type": "oauth2", "policySpec": {"oauth2": {"jwt": {"authorization": {
        "apiType": "REST", "rest": {"claimsToHeaders": [], "operations": operations}}}}}})
}
