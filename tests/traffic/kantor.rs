//! Endpoints kept by the operator, asked by real requests.

use std::{path::Path, time::Duration};

use anyhow::Result;
use k8s_openapi::api::core::v1::Secret;
use kantor_api::{
    Component, DataPlane, DeployableArtifact, Deployment, DeploymentPipeline, DeploymentTrack, Endpoint,
    Environment, HostnameClaim, Organization, Project,
    conditions::{self, Conditioned},
    names::{NameKind, generate},
    organization::OrganizationSpec,
};
use kantor_testbed::{
    Cluster, Operator,
    gateway::Answer,
    wait::{self, Seen},
};
use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::support::{PATIENCE, Site};

const HOST: &str = "dev.apis.localhost";

/// The operator on its control plane, with a data plane that has real gateways.
pub struct Platform<'a> {
    // The operator ends before what it talks to.
    operator: Operator,
    control_plane: Cluster,
    site: &'a Site,
}

impl<'a> Platform<'a> {
    /// The operator, an organization, an environment on the plane, and component `cart`, whose Deployment runs.
    pub async fn start(site: &'a Site) -> Result<Self> {
        let control_plane = Cluster::builder().name("control-plane").start().await?;
        control_plane.apply_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("crds")).await?;
        let program = Path::new(env!("CARGO_BIN_EXE_kantor"));
        let kubeconfig = control_plane.operator_kubeconfig().await?;
        let operator = Operator::start(program, &kubeconfig, ["--allow-loopback-planes"]).await?;
        operator.ready().await?;
        let platform = Self { operator, control_plane, site };
        platform.furnish().await;
        Ok(platform)
    }

    async fn furnish(&self) {
        let organizations: Api<Organization> = Api::all(self.control_plane.client());
        let acme = Organization::new("acme", OrganizationSpec {});
        organizations.create(&PostParams::default(), &acme).await.unwrap();
        wait::until("acme is ready", PATIENCE, || async {
            let found = organizations.get("acme").await?;
            Ok(if is_ready(&found) { Seen::Done(()) } else { Seen::NotYet(format!("{found:?}")) })
        })
        .await
        .unwrap();
        let kubeconfig = self.site.cluster.data_plane_kubeconfig().await.unwrap();
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "plane", "namespace": "acme"},
            "stringData": {"kubeconfig": kubeconfig.to_yaml()}});
        self.create::<Secret>(secret).await;
        self.create::<DataPlane>(object(
            "DataPlane",
            "plane",
            &[],
            json!({
            "kubernetesCluster": {"secretRef": {"name": "plane"}},
            "gateway": {"publicVirtualHost": "apis.localhost", "organizationVirtualHost": "int.localhost",
                "namespace": "choreo-system",
                // The issuer of the tests speaks plain HTTP, and is inside.
                "keyDomains": [format!("http://{}", self.site.gateways.issuer().host())]}}),
        ))
        .await;
        let jwks = json!({"remoteJwks": {"uri": self.site.gateways.issuer().jwks_uri()}});
        self.create::<Environment>(object(
            "Environment",
            "dev",
            &[],
            json!({
            "dataPlaneRef": "plane", "gateway": {"dnsPrefix": "dev", "security": jwks}}),
        ))
        .await;
        self.create::<DeploymentPipeline>(object(
            "DeploymentPipeline",
            "default",
            &[],
            json!({
            "promotionPaths": [{"sourceEnvironmentRef": "dev", "targetEnvironmentRefs": []}]}),
        ))
        .await;
        self.create::<Project>(object("Project", "shop", &[], json!({"deploymentPipelineRef": "default"})))
            .await;
    }

    /// A component with these endpoints, deployed; returns when it runs.
    pub async fn component(&self, name: &str, templates: Value) {
        let of_project = [("project", "shop")];
        self.create::<Component>(object(
            "Component",
            name,
            &of_project,
            json!({
            "owner": {"projectName": "shop"}, "type": "Service"}),
        ))
        .await;
        let mut parents = vec![("project", "shop"), ("component", name)];
        self.create::<DeploymentTrack>(object(
            "DeploymentTrack",
            &format!("{name}-main"),
            &[parents.as_slice(), &[("name", "main")]].concat(),
            json!({}),
        ))
        .await;
        parents.push(("deployment-track", "main"));
        self.create::<DeployableArtifact>(object(
            "DeployableArtifact",
            name,
            &parents,
            json!({
            "targetArtifact": {"fromImageRef": {"tag": format!("registry.example/{name}:1")}},
            "configuration": {"endpointTemplates": templates}}),
        ))
        .await;
        parents.push(("environment", "dev"));
        self.create::<Deployment>(object(
            "Deployment",
            name,
            &parents,
            json!({"deploymentArtifactRef": name}),
        ))
        .await;
        self.ready::<Deployment>(name).await;
    }

    /// Gives a component other endpoints.
    pub async fn edit(&self, component: &str, templates: Value) {
        let api: Api<DeployableArtifact> = Api::namespaced(self.control_plane.client(), "acme");
        let patch = json!({"spec": {"configuration": {"endpointTemplates": templates}}});
        api.patch(component, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Waits until an endpoint of a component is ready, at a generation that came of `seen`.
    pub async fn endpoint(
        &self,
        component: &str,
        template: &str,
        seen: impl Fn(&Endpoint) -> bool,
    ) -> Endpoint {
        let name = generate(NameKind::Object, &[component, template]);
        self.until(&name, |found: &Endpoint| is_ready(found) && seen(found)).await
    }

    async fn ready<K: Object>(&self, name: &str) -> K {
        self.until(name, |found: &K| is_ready(found)).await
    }

    async fn until<K: Object>(&self, name: &str, seen: impl Fn(&K) -> bool) -> K {
        let api: Api<K> = Api::namespaced(self.control_plane.client(), "acme");
        wait::until(&format!("{name} is as it shall be"), PATIENCE, || async {
            let found = api.get_opt(name).await?;
            Ok(match found {
                Some(found) if seen(&found) => Seen::Done(found),
                other => Seen::NotYet(format!("{other:#?}")),
            })
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}\n{}", self.operator.log(), self.site.gateways.logs()))
    }

    async fn create<K>(&self, value: Value)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + Serialize
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let api: Api<K> = Api::namespaced(self.control_plane.client(), "acme");
        api.create(&PostParams::default(), &serde_json::from_value(value).unwrap()).await.unwrap();
    }

    fn bearer(&self, scopes: &[&str]) -> String {
        format!("Bearer {}", self.site.gateways.issuer().token(scopes, &json!({}), 600).unwrap())
    }
}

pub trait Object:
    Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
    + Conditioned
    + Clone
    + DeserializeOwned
    + std::fmt::Debug
{
}

impl<K> Object for K where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Conditioned
        + Clone
        + DeserializeOwned
        + std::fmt::Debug
{
}

fn is_ready<K: Resource + Conditioned>(object: &K) -> bool {
    object.observed_generation() == object.meta().generation
        && conditions::get(object.conditions(), "Ready").is_some_and(|ready| ready.status == "True")
}

fn object(kind: &str, name: &str, labels: &[(&str, &str)], spec: Value) -> Value {
    let mut metadata = json!({"name": name, "namespace": "acme",
        "labels": {"openchoreo.dev/organization": "acme", "openchoreo.dev/name": name}});
    for (key, value) in labels {
        metadata["labels"][format!("openchoreo.dev/{key}")] = json!(value);
    }
    json!({"apiVersion": "openchoreo.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec})
}

/// A template of an endpoint that everybody reaches, if these policies let them.
fn public(name: &str, base: &str, policies: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"type": "REST",
        "backendRef": {"type": "componentRef", "basePath": base, "componentRef": {"port": 8080}},
        "networkVisibilities": {"public": {"enable": true, "policies": policies}}}})
}

fn oauth2(operations: &[(&str, &str, &str)]) -> Value {
    let operations: Vec<Value> = operations
        .iter()
        .map(|(method, target, scope)| json!({"method": method, "target": target, "scopes": [scope]}))
        .collect();
    let rest = json!({"claimsToHeaders": [{"name": "sub", "header": "x-user"}], "operations": operations});
    json!({"name": "login", "type": "oauth2", "policySpec": {"oauth2": {"jwt": {"authorization": {"apiType": "REST", "rest": rest}}}}})
}

pub async fn an_endpoint_is_reached_under_its_address_and_no_other(platform: &Platform<'_>) {
    let site = platform.site;
    platform.component("cart", json!([public("open", "/v1", json!([]))])).await;
    let endpoint = platform.endpoint("cart", "open", |_| true).await;
    // The listener speaks plain HTTP.
    assert_eq!(endpoint.status.unwrap().address.as_deref(), Some("http://dev.apis.localhost/shop/cart"));
    let answer = site.until(200, HOST, "/shop/cart/v1/hello?x=1", &[]).await.told();
    assert_eq!(
        (answer["image"].as_str(), answer["path"].as_str()),
        (Some("registry.example/cart:1"), Some("/v1/hello"))
    );
    assert_eq!(answer["query"], "x=1");
    for (host, path) in [
        (HOST, "/shop/cart"),
        (HOST, "/shop/cart/v2"),
        (HOST, "/shop/cart/v1x"),
        (HOST, "/"),
        ("apis.localhost", "/shop/cart/v1"),
    ] {
        assert_eq!(site.get(host, path, &[]).await.status, 404, "{host}{path}");
    }
    // Off means closed.
    let mut closed = public("open", "/v1", json!([]));
    closed["spec"]["networkVisibilities"]["public"]["enable"] = json!(false);
    platform.edit("cart", json!([closed])).await;
    site.until(404, HOST, "/shop/cart/v1/hello", &[]).await;
    platform
        .endpoint("cart", "open", |found| found.status.as_ref().is_some_and(|s| s.addresses.is_empty()))
        .await;
}

pub async fn no_request_reaches_what_it_has_no_token_for(platform: &Platform<'_>) {
    let site = platform.site;
    // Asked all the time while it is being made: it is never open without its guard.
    let path = "/shop/cart/v1/users/7";
    let load = site.gateways.client().load(2, Duration::from_millis(1), HOST, path, &[]).unwrap();
    let operations =
        [("GET", "/users/{id}", "read"), ("GET", "/users/me", "self"), ("POST", "/orders", "write")];
    platform.edit("cart", json!([public("open", "/v1", json!([oauth2(&operations)]))])).await;
    platform
        .endpoint("cart", "open", |found| found.status.as_ref().is_some_and(|s| !s.addresses.is_empty()))
        .await;
    site.until(401, HOST, path, &[]).await;
    let tally = load.stop().await;
    assert_eq!(tally.statuses.get(&200), None, "{tally:?}");
    // It was asked, and answered: first that there is nothing, then that a token is missing.
    assert!(tally.statuses.contains_key(&404) || tally.statuses.contains_key(&500), "{tally:?}");
    assert!(tally.statuses.contains_key(&401), "{tally:?}");

    let (read, own, write) =
        (platform.bearer(&["read"]), platform.bearer(&["self"]), platform.bearer(&["write"]));
    let with = |token: &'_ str| [("authorization", token.to_owned())];
    let ask = async |method: &str, path: &str, token: &str| {
        let headers = with(token);
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        site.ask(method, HOST, path, &headers).await
    };
    let answer = site.until(200, HOST, path, &[("authorization", &read)]).await.told();
    assert_eq!(answer["path"], "/v1/users/7");
    assert_eq!(answer["headers"]["x-user"], "somebody", "{answer}");
    // The others are routes of their own.
    site.until_asked(200, "POST", HOST, "/shop/cart/v1/orders", &[("authorization", &write)]).await;
    site.until(200, HOST, "/shop/cart/v1/users/me", &[("authorization", &own)]).await;
    assert_eq!(ask("GET", path, &own).await.status, 403);
    assert_eq!(ask("GET", path, "Bearer nonsense").await.status, 401);
    let impostor = site.gateways.issuer().impostor().unwrap();
    let forged = format!("Bearer {}", impostor.token(&["read"], &json!({}), 60).unwrap());
    assert_eq!(ask("GET", path, &forged).await.status, 401);
    assert_eq!(ask("POST", "/shop/cart/v1/orders", &write).await.status, 200);
    // The narrower of two operations that match decides.
    assert_eq!(ask("GET", "/shop/cart/v1/users/me", &own).await.status, 200);
    assert_eq!(ask("GET", "/shop/cart/v1/users/me", &read).await.status, 403);

    let spellings = [
        "GET /shop/cart/v1/users/me/",
        "GET /shop/cart/v1/users/ME",
        "GET /shop/cart/v1/Users/7",
        "GET /shop/cart/v1/users/me;x=1",
        "GET /shop/cart/v1/users;x=1/me",
        "GET /shop/cart/v1/users//me",
        "GET //shop/cart/v1/users/me",
        "GET /shop/cart/v1/./users/me",
        "GET /shop/cart/v1/x/../users/me",
        "GET /shop/cart/v1/users/%6de",
        "GET /shop/cart/v1/users/x/../me",
        "GET /shop/cart/v1/users/%2e%2e/users/me",
        "GET /shop/cart/v1/users/me?x=1",
        "GET /shop/cart/v1/users/7/",
        "GET /shop/cart/v1/users/7/keys",
        "HEAD /shop/cart/v1/users/me",
        "HEAD /shop/cart/v1/users/7",
        "PUT /shop/cart/v1/users/7",
        "OPTIONS /shop/cart/v1/users/7",
        "GET /shop/cart/v1/orders",
        "GET /shop/cart/v1",
        "GET /shop/cart/v1/",
        "GET /shop/cart/v1/unlisted",
        "DELETE /shop/cart/v1/users/me",
        "TRACE /shop/cart/v1/users/7",
        r"GET /shop/cart/v1\users\me",
        "GET /shop/cart/v1/users/..;/users/me",
        "GET /shop/cart/v1/users%2fme",
        "GET /shop/cart/v1%2Fusers/me",
        "GET /shop/cart/v1/users/me%00",
        "GET /SHOP/cart/v1/users/me",
        "GET /shop/cart/v1/users%5cme",
        "GET http://dev.apis.localhost/shop/cart/v1/users/me",
    ];
    for spelling in spellings {
        let (method, path) = spelling.split_once(' ').unwrap();
        // A token for orders is good for none of them.
        let status = ask(method, path, &write).await.status;
        assert!(matches!(status, 307 | 400 | 401 | 403 | 404), "{spelling}: {status}");
        assert!(
            matches!(ask(method, path, "").await.status, 307 | 400 | 401 | 403 | 404),
            "{spelling} without a token"
        );
        // One for all users is not good for one's own, however it is spelled.
        if path.to_ascii_lowercase().contains("me") && !path.contains("unlisted") {
            let status = ask(method, path, &read).await.status;
            assert!(matches!(status, 307 | 400 | 401 | 403 | 404), "{spelling}: {status}");
        }
    }
    assert!(spellings.len() >= 20);
}

pub async fn keys_passwords_limits_and_pages_are_checked(platform: &Platform<'_>) {
    let site = platform.site;
    for (name, key, value) in [("keys", "partner", "k-1234"), ("ann", "password", "tell-nobody")] {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {key: value}, "metadata": {
            "name": name, "namespace": "acme", "labels": {"openchoreo.dev/secret-kind": "application"}}});
        platform.create::<Secret>(secret).await;
    }
    let keys = json!({"name": "keys", "type": "api-key", "policySpec": {"apiKeyAuth": {
        "keySource": {"header": "x-api-key"}, "secretRefs": ["keys"]}}});
    let users = json!({"name": "users", "type": "basic-auth", "policySpec": {"basicAuth": {
        "users": [{"username": "ann", "passwordFromSecret": "ann"}], "header": "Authorization", "headerAuthScheme": "Basic"}}});
    let pages = json!({"name": "pages", "type": "cors", "policySpec": {"cors": {
        "allowOrigins": ["https://shop.example.com"], "allowMethods": ["GET", "PUT"], "allowHeaders": ["x-a"],
        "exposeHeaders": ["x-b"], "maxAge": 600, "allowCredentials": true}}});
    let limit = json!({"name": "rate", "type": "rate-limit", "policySpec": {"rateLimit": {
        "apiLevel": {"timeUnit": "Hour", "requestLimit": 1000},
        "operationLevel": {"rest": [{"method": "GET", "target": "/few", "timeUnit": "Hour", "requestLimit": 3}]}}}});
    platform
        .edit(
            "cart",
            json!([
                public("keys", "/keys", json!([keys])),
                public("users", "/users", json!([users])),
                public("pages", "/pages", json!([pages])),
                public("rate", "/rate", json!([limit])),
            ]),
        )
        .await;
    for name in ["keys", "users", "pages", "rate"] {
        platform.endpoint("cart", name, |_| true).await;
    }
    site.until(200, HOST, "/shop/cart/keys", &[("x-api-key", "k-1234")]).await;
    assert_eq!(site.get(HOST, "/shop/cart/keys", &[]).await.status, 401);
    assert_eq!(site.get(HOST, "/shop/cart/keys", &[("x-api-key", "k-123")]).await.status, 401);
    // ann:tell-nobody, ann:wrong
    site.until(200, HOST, "/shop/cart/users", &[("authorization", "Basic YW5uOnRlbGwtbm9ib2R5")]).await;
    assert_eq!(
        site.get(HOST, "/shop/cart/users", &[("authorization", "Basic YW5uOndyb25n")]).await.status,
        401
    );
    assert_eq!(site.get(HOST, "/shop/cart/users", &[]).await.status, 401);

    site.until(200, HOST, "/shop/cart/pages", &[]).await;
    let preflight = [("origin", "https://shop.example.com"), ("access-control-request-method", "PUT")];
    let allowed =
        |answer: &Answer| answer.header("access-control-allow-origin") == Some("https://shop.example.com");
    let answer =
        site.until_seen("is allowed", "OPTIONS", HOST, "/shop/cart/pages", &preflight, allowed).await;
    assert_eq!(answer.header("access-control-max-age"), Some("600"));
    let other = [("origin", "https://evil.example"), ("access-control-request-method", "PUT")];
    let answer = site.ask("OPTIONS", HOST, "/shop/cart/pages", &other).await;
    assert_eq!(answer.header("access-control-allow-origin"), None, "{answer:?}");

    site.until(200, HOST, "/shop/cart/rate/many", &[]).await;
    // With each change of routes they count anew: the last one is that the Endpoint of before has gone.
    site.until(404, HOST, "/shop/cart/v1/users/7", &[]).await;
    // A route of its own, which comes some time after the other.
    let first = |answer: &Answer| answer.header("x-ratelimit-remaining") == Some("2");
    let answer = site.until_seen("is counted", "GET", HOST, "/shop/cart/rate/few", &[], first).await;
    let mut statuses = vec![answer.status];
    for _ in 0..5 {
        statuses.push(site.get(HOST, "/shop/cart/rate/few", &[]).await.status);
    }
    assert_eq!(statuses, [200, 200, 200, 429, 429, 429]);
    assert_eq!(site.get(HOST, "/shop/cart/rate/many", &[]).await.status, 200);
}

pub async fn a_host_is_handed_over_under_load_without_a_failed_request(platform: &Platform<'_>) {
    let site = platform.site;
    let host = "shop.acme.example";
    let mine = |name: &str| {
        let mut template = public(name, "/", json!([]));
        template["spec"]["hostnames"] = json!([host]);
        json!([template])
    };
    platform.edit("cart", mine("blue")).await;
    platform
        .endpoint("cart", "blue", |found| {
            found.status.as_ref().is_some_and(|s| s.withheld_hostnames.is_empty())
        })
        .await;
    site.until(200, host, "/x", &[]).await;
    platform.component("green", mine("green")).await;
    platform
        .endpoint("green", "green", |found| {
            found.status.as_ref().is_some_and(|s| s.withheld_hostnames == [host])
        })
        .await;
    let load = site.gateways.client().load(4, Duration::from_millis(1), host, "/x", &[]).unwrap();
    let claims: Api<HostnameClaim> = Api::all(platform.control_plane.client());
    // And back, and again: each time something else may be late.
    for (component, template) in [("green", "green"), ("cart", "blue"), ("green", "green")] {
        let name = generate(NameKind::Object, &[component, template]);
        let image = format!("registry.example/{component}:1");
        let answered = || load.so_far().images.get(&image).copied().unwrap_or_default();
        let before = answered();
        let to = format!("acme/{name}");
        let patch = json!({"metadata": {"annotations": {"openchoreo.dev/transfer-to": to}}});
        claims.patch(host, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        wait::until("the other one answers, and alone", PATIENCE, || async {
            let claim = claims.get(host).await?;
            // The one before is no longer named when its route has gone.
            let alone = claim.spec.holder.name == name && claim.annotations().is_empty();
            let seen = format!("{claim:?} {:?}", load.so_far());
            Ok(if alone && answered() > before + 200 { Seen::Done(()) } else { Seen::NotYet(seen) })
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", platform.operator.log()));
    }
    let tally = load.stop().await;
    assert!(tally.images.contains_key("registry.example/cart:1"), "{tally:?}");
    assert_eq!(tally.failed(), 0, "{tally:?}");
}
