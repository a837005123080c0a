//! Routes: made, changed, repaired and told of.

use std::time::Duration;

use kantor_api::{Component, DeployableArtifact, Deployment, Endpoint, Environment};
use kantor_testbed::{
    proxy::{Action, Fault, Match, Record, Verb},
    snapshot::{Options, Snapshot, assert_nothing_left},
};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::support::{
    EndpointFixture, FILTER, HTTP_ROUTE, OF_CART, SECURITY_POLICY, TRAFFIC_POLICY, name, oauth2, open,
    template,
};
use crate::{
    deployment::support::{DeploymentFixture, IMAGE, labelled},
    observing::{looked_at, until_connected},
    support::{PATIENCE, is_ready},
};

/// The operator's `--plane-timeout` is 10 s.
pub(super) const LONGER_THAN_A_CALL: Duration = Duration::from_secs(12);

#[tokio::test(flavor = "multi_thread")]
async fn two_endpoints_of_one_deployment_live_side_by_side_and_each_loses_only_its_own() {
    let fixture = EndpointFixture::open().await;
    let both = json!({"public": open(json!([])), "organization": open(json!([]))});
    let templates = json!([
        template("api", "/v1", both.clone()),
        template("admin", "/admin", json!({"organization": open(json!([]))}))
    ]);
    fixture.deploy(templates).await;
    let (api, admin) = (fixture.ready(&name("api")).await, fixture.ready(&name("admin")).await);
    assert_eq!(fixture.names(HTTP_ROUTE, &api).await.len(), 2);
    assert_eq!(fixture.names(HTTP_ROUTE, &admin).await.len(), 1);
    let status = api.status.clone().unwrap();
    // The scheme and port are the listeners'.
    assert_eq!(status.address.as_deref(), Some("https://dev.apis.example.com/shop/cart"));
    let urls: Vec<&str> = status.addresses.iter().map(|address| address.url.as_str()).collect();
    assert_eq!(
        urls,
        ["https://dev.apis.example.com/shop/cart/v1", "http://dev.int.example.com:8080/shop/cart/v1"]
    );
    let summary = fixture
        .deployment
        .until("the Deployment shows the address", "cart", |found| {
            let endpoints = &found.status.as_ref()?.endpoints;
            let shown = endpoints.iter().find(|endpoint| endpoint.name == name("api"))?;
            (shown.ready.as_deref() == Some("True")).then(|| shown.address.clone())
        })
        .await;
    assert_eq!(summary.as_deref(), Some("https://dev.apis.example.com/shop/cart"));

    // A visibility that is switched off takes along exactly its own.
    let admin_before = fixture.objects(HTTP_ROUTE, &admin).await;
    let internal = json!({"public": {"enable": false}, "organization": open(json!([]))});
    fixture
        .edit(json!([
            template("api", "/v1", internal),
            template("admin", "/admin", json!({"organization": open(json!([]))}))
        ]))
        .await;
    fixture
        .until("the public route is gone", &name("api"), |found| {
            (is_ready(found) && found.status.as_ref()?.addresses.len() == 1).then_some(())
        })
        .await;
    let left = fixture.objects(HTTP_ROUTE, &api).await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["metadata"]["labels"]["gateway-visibility"], "gateway-internal");
    assert_eq!(fixture.objects(HTTP_ROUTE, &admin).await, admin_before);
    let claims = fixture.claims().await;
    assert_eq!(
        claims,
        [
            ("dev.int.example.com/shop/cart/admin".to_owned(), name("admin")),
            ("dev.int.example.com/shop/cart/v1".to_owned(), name("api")),
        ]
    );
    // So does a template that is no longer there.
    fixture.edit(json!([template("admin", "/admin", json!({"organization": open(json!([]))}))])).await;
    fixture.deployment.control.until_gone::<Endpoint>(&format!("acme/{}", name("api"))).await;
    assert_eq!(fixture.objects(HTTP_ROUTE, &admin).await, admin_before);
    assert_eq!(fixture.names(HTTP_ROUTE, &api).await, [""; 0]);
    assert_eq!(fixture.claims().await, claims[..1]);
}

/// Everything that an Endpoint can have.
fn guarded(base: &str) -> Value {
    let limit = json!({"name": "rate", "type": "rate-limit", "policySpec": {"rateLimit": {
        "apiLevel": {"timeUnit": "Minute", "requestLimit": 100}, "operationLevel": {"rest": []}}}});
    let policies =
        json!([oauth2(json!([{"target": "/items/{id}", "method": "GET", "scopes": ["items:read"]}])), limit]);
    template("api", base, json!({"public": open(policies)}))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_look_and_a_restart_cost_the_plane_nothing_and_drift_is_repaired() {
    let mut fixture = EndpointFixture::open().await;
    fixture.deploy(json!([guarded("/v1")])).await;
    let endpoint = fixture.ready(&name("api")).await;
    fixture.deployment.quiet().await;

    let (here, there) = (fixture.deployment.control.proxy.mark(), fixture.deployment.plane.proxy.mark());
    let touch = json!({"metadata": {"annotations": {"example.com/touched": "yes"}}});
    let path = format!("acme/{}", name("api"));
    let touching = fixture.deployment.control.patch::<Endpoint>(&path, touch);
    looked_at(&fixture.deployment.control, &["endpoint"], touching).await;
    fixture.deployment.quiet().await;
    let asked = fixture.deployment.plane.asked_since(there);
    assert!(asked.is_empty(), "{asked}");
    // The annotation is not its Deployment's, which may take it off again. Nothing else is written.
    let writes = fixture.deployment.control.proxy.writes_since(here);
    let is_taken_off =
        |record: &Record| record.resource() == "endpoints" && record.target.subresource.is_none();
    assert!(writes.len() <= 1 && writes.iter().all(is_taken_off), "{writes}");

    fixture.deployment.control.operator.kill().unwrap();
    fixture.deployment.control.operator.ended().await.unwrap();
    let (here, there) = (fixture.deployment.control.proxy.mark(), fixture.deployment.plane.proxy.mark());
    // Lists may take longer than any other call may: what is not known yet is neither gone nor in trouble.
    let kinds = ["deployments", "endpointslices"];
    let slow = kinds.map(|kind| {
        let lists = Match::new().verb(Verb::List).resource(kind).always();
        fixture.deployment.plane.proxy.fault(Fault::when(lists).then(Action::Delay(LONGER_THAN_A_CALL)))
    });
    crate::release::support::start_operator(&mut fixture.deployment.control, &[]).await;
    fixture.deployment.control.operator.ready().await.unwrap();
    for kind in kinds {
        let is_listed = move |record: &Record| record.verb() == Verb::Watch && record.resource() == kind;
        fixture.deployment.plane.proxy.await_request_since(there, is_listed, PATIENCE).await.unwrap();
    }
    drop(slow);
    until_connected(&fixture.deployment.control).await;
    fixture.deployment.quiet().await;
    // It may have looked before it knew all; now it does.
    let touch = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/touched": "yes"}}});
    let touching = fixture.deployment.control.patch::<Deployment>("acme/cart", touch);
    looked_at(&fixture.deployment.control, &["deployment", "endpoint"], touching).await;
    fixture.deployment.quiet().await;
    let writes = fixture.deployment.plane.proxy.writes_since(there);
    assert!(writes.is_empty(), "{writes}");
    let writes = fixture.deployment.control.proxy.writes_since(here);
    assert!(writes.is_empty(), "{writes}");

    for (kind, patch) in [
        (HTTP_ROUTE, json!({"spec": {"hostnames": ["evil.example.com"]}})),
        (SECURITY_POLICY, json!({"spec": {"authorization": {"defaultAction": "Allow"}}})),
        (
            TRAFFIC_POLICY,
            json!({"spec": {"rateLimit": {"local": {"rules": [{"limit": {"requests": 9999, "unit": "Second"}}]}}}}),
        ),
        (
            FILTER,
            json!({"spec": {"urlRewrite": {"path": {"replaceRegexMatch": {"substitution": "/admin"}}}}}),
        ),
    ] {
        for object in fixture.objects(kind, &endpoint).await {
            let (home, called) = (
                object["metadata"]["namespace"].as_str().unwrap(),
                object["metadata"]["name"].as_str().unwrap(),
            );
            fixture.deployment.plane.patch(kind, home, called, patch.clone()).await;
            fixture
                .deployment
                .plane
                .until("it is repaired", (kind, home, called), |found| {
                    (found?["spec"] == object["spec"]).then_some(())
                })
                .await;
            fixture
                .deployment
                .plane
                .api(kind, home)
                .delete(called, &kube::api::DeleteParams::default())
                .await
                .unwrap();
            fixture
                .deployment
                .plane
                .until("it is made anew", (kind, home, called), |found| {
                    let found = found?;
                    (found["metadata"]["uid"] != object["metadata"]["uid"] && found["spec"] == object["spec"])
                        .then_some(())
                })
                .await;
        }
    }
    fixture.ready(&name("api")).await;
}

/// A template of an Endpoint for everybody.
fn of_type(name: &str, type_: &str, port: u16, policies: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"type": type_,
        "backendRef": {"type": "componentRef", "componentRef": {"port": port}},
        "networkVisibilities": {"public": open(policies)}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn each_type_and_policy_is_taken_by_a_real_api_server_and_foreign_labels_stay() {
    let fixture = EndpointFixture::open().await;
    for (name, key) in [("keys", "partner"), ("ann", "password")] {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {key: "hunter2"}, "metadata": {
            "name": name, "namespace": "acme", "labels": {"openchoreo.dev/secret-kind": "application"}}});
        fixture
            .deployment
            .control
            .create::<k8s_openapi::api::core::v1::Secret>(&serde_json::from_value(secret).unwrap())
            .await;
    }
    let grpc = json!({"name": "login", "type": "oauth2", "policySpec": {"oauth2": {"jwt": {
        "claims": [{"key": "tenant", "values": ["acme"]}],
        "authorization": {"apiType": "GRPC", "grpc": {"claimsToHeaders": [{"name": "sub", "header": "x-user"}],
            "operations": [{"name": "acme.Books", "methods": [{"name": "List", "scopes": ["books:read"]}]}]}}}}}});
    let all = json!([
        {"name": "keys", "type": "api-key", "policySpec": {"apiKeyAuth": {
            "keySource": {"header": "x-api-key"}, "secretRefs": ["keys"]}}},
        {"name": "users", "type": "basic-auth", "policySpec": {"basicAuth": {
            "users": [{"username": "ann", "passwordFromSecret": "ann"}], "header": "", "headerAuthScheme": ""}}},
        {"name": "pages", "type": "cors", "policySpec": {"cors": {"allowOrigins": ["https://shop.example.com"],
            "allowMethods": ["GET"], "allowHeaders": ["x-a"], "exposeHeaders": ["x-b"], "maxAge": 60, "allowCredentials": true}}},
    ]);
    let mut away = of_type("away", "HTTP", 1, json!([]));
    away["spec"]["backendRef"] =
        json!({"type": "target", "basePath": "/v1", "target": {"url": "https://api.example.net/public"}});
    let templates = json!([
        of_type("grpc", "gRPC", 9090, json!([grpc])),
        of_type("tcp", "TCP", 5432, json!([])),
        of_type("udp", "UDP", 5353, json!([])),
        of_type("graphql", "GraphQL", 8080, all),
        away,
    ]);
    fixture.deploy(templates.clone()).await;
    for (template, route, address) in [
        ("grpc", "gateway.networking.k8s.io/v1/GRPCRoute", "https://cart.shop.dev.apis.example.com/"),
        ("tcp", "gateway.networking.k8s.io/v1/TCPRoute", "tcp://dev.apis.example.com:5432"),
        ("udp", "gateway.networking.k8s.io/v1/UDPRoute", "udp://dev.apis.example.com:5353"),
        ("graphql", HTTP_ROUTE, "https://dev.apis.example.com/shop/cart"),
        ("away", HTTP_ROUTE, "https://dev.apis.example.com/shop/cart"),
    ] {
        // Away and the GraphQL one differ in their paths.
        let endpoint = fixture.ready(&name(template)).await;
        assert_eq!(endpoint.status.as_ref().unwrap().address.as_deref(), Some(address), "{template}");
        assert!(!fixture.objects(route, &endpoint).await.is_empty(), "{template}");
    }
    let endpoint = fixture.ready(&name("graphql")).await;
    let route = fixture.objects(HTTP_ROUTE, &endpoint).await.remove(0);
    let at = |field: &str| route["metadata"][field].as_str().unwrap().to_owned();
    let foreign = json!({"metadata": {"labels": {"team": "blue"}, "annotations": {"note": "mine"}}});
    fixture.deployment.plane.patch(HTTP_ROUTE, &at("namespace"), &at("name"), foreign).await;
    let mut changed = templates;
    changed[3]["spec"]["backendRef"]["basePath"] = json!("/graphql");
    fixture.edit(changed).await;
    fixture
        .deployment
        .plane
        .until("the path is new", (HTTP_ROUTE, &at("namespace"), &at("name")), |found| {
            let found = found?;
            let path = &found["spec"]["rules"][0]["matches"][0]["path"]["value"];
            let kept = found["metadata"]["labels"]["team"] == "blue"
                && found["metadata"]["annotations"]["note"] == "mine";
            (*path == "/shop/cart/graphql" && kept).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_goes_on_by_itself_when_what_it_needs_appears() {
    let fixture = DeploymentFixture::empty().await;
    crate::gateway::gateways(&fixture.plane).await;
    let _stand_in = crate::gateway::FakeGateway::on(&fixture.plane);
    let says = async |reason: &str| {
        fixture
            .control
            .until(&format!("it says {reason}"), "acme/own", |found: Option<&Endpoint>| {
                let said = crate::support::condition(found?, "Ready")?;
                (said.1 == reason).then_some(said.2)
            })
            .await
    };
    let endpoint: Endpoint = labelled(
        "Endpoint",
        "own",
        &OF_CART,
        json!({"type": "HTTP",
        "backendRef": {"type": "componentRef", "basePath": "/own", "componentRef": {"port": 8080}}}),
    );
    fixture.control.create::<Endpoint>(&endpoint).await;
    says("ReferenceNotFound").await;
    fixture.seed().await;
    let templates = json!([{"metadata": {"name": "other"}, "spec": {"type": "HTTP", "networkVisibilities": {},
        "backendRef": {"type": "componentRef", "componentRef": {"port": 8080}}}}]);
    fixture.artifact("cart", "cart", IMAGE, json!({"endpointTemplates": templates})).await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let message = says("GatewayNotConfigured").await;
    assert!(message.contains("spec.gateway"), "{message}");
    let mall_like = json!({"spec": {"gateway": {"publicVirtualHost": "apis.example.com", "organizationVirtualHost": "int.example.com"}}});
    fixture.control.patch::<kantor_api::DataPlane>("acme/plane", mall_like).await;
    says("EndpointReady").await;
    // One that nobody may reach is as it shall be.
    let other = kantor_api::names::generate(kantor_api::names::NameKind::Object, &["cart", "other"]);
    let message = fixture
        .control
        .until("the other is ready", &format!("acme/{other}"), |found: Option<&Endpoint>| {
            let found = found?;
            is_ready(found).then(|| crate::support::condition(found, "Ready"))?
        })
        .await
        .2;
    assert!(message.contains("nobody is let in"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_gateway_refuses_or_nobody_answers_is_not_ready() {
    let fixture = EndpointFixture::open().await;
    fixture.deploy(json!([template("api", "/v1", Value::Null)])).await;
    fixture.ready(&name("api")).await;
    fixture.fake_gateway.refuse(true).await;
    let message = fixture.wait_condition(&name("api"), "False", "RouteNotAccepted").await;
    assert!(message.contains("NotAllowedByListeners: no listener takes it"), "{message}");
    fixture.fake_gateway.refuse(false).await;
    fixture.ready(&name("api")).await;
    // Nobody answers.
    let none = json!({"spec": {"configurationOverrides": {"application": {"scaling": {"hpa": null}}}}});
    fixture.deployment.control.patch::<Deployment>("acme/cart", none).await;
    let deployment = fixture.deployment.ready("cart").await;
    let workload = crate::deployment::support::item(&deployment, "Deployment").clone();
    let gone = json!({"spec": {"replicas": 0}});
    fixture.deployment.plane.patch("apps/v1/Deployment", &workload.namespace, &workload.name, gone).await;
    fixture.wait_condition(&name("api"), "False", "BackendNotReady").await;
    let back = json!({"spec": {"replicas": 1}});
    fixture.deployment.plane.patch("apps/v1/Deployment", &workload.namespace, &workload.name, back).await;
    fixture.ready(&name("api")).await;
    // No such gateway.
    let gateway = json!({"spec": {"gateway": {"organizationGateway": "elsewhere"}}});
    fixture.deployment.control.patch::<kantor_api::DataPlane>("acme/plane", gateway).await;
    let message = fixture.wait_condition(&name("api"), "False", "GatewayNotFound").await;
    assert!(message.contains("elsewhere"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moved_environment_takes_its_routes_and_hosts_along() {
    let fixture = EndpointFixture::open().await;
    let mut own = template("api", "/v1", json!({"public": open(json!([]))}));
    own["spec"]["hostnames"] = json!(["shop.acme.example"]);
    fixture.deploy(json!([own])).await;
    let before = fixture.ready(&name("api")).await;
    let other = crate::deployment::support::full_plane("other").await;
    crate::gateway::gateways(&other).await;
    let _stand_in = crate::gateway::FakeGateway::on(&other);
    fixture.deployment.register("other", &other).await;
    let hosts = json!({"spec": {"gateway": {"publicVirtualHost": "apis.example.com", "organizationVirtualHost": "int.example.com"}}});
    fixture.deployment.control.patch::<kantor_api::DataPlane>("acme/other", hosts).await;
    fixture
        .deployment
        .control
        .patch::<Environment>("acme/dev", json!({"spec": {"dataPlaneRef": "other"}}))
        .await;
    fixture
        .until("it is ready on the other plane", &name("api"), |found| {
            let status = found.status.as_ref()?;
            (is_ready(found) && status.data_plane.as_ref()?.name == "other" && status.cleaning.is_empty())
                .then_some(())
        })
        .await;
    assert_eq!(fixture.names(HTTP_ROUTE, &before).await, [""; 0]);
    let selector = format!("openchoreo.dev/owner-uid={}", before.uid().unwrap());
    let there =
        other.api(HTTP_ROUTE, "").list(&kube::api::ListParams::default().labels(&selector)).await.unwrap();
    assert_eq!(there.items.len(), 2);
    let hosts: Vec<String> = fixture.claims().await.into_iter().map(|(host, _)| host).collect();
    assert_eq!(hosts, ["dev.apis.example.com/shop/cart/v1", "shop.acme.example"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_of_the_reference_are_taken_over_by_name_and_others_are_left_alone() {
    let fixture = EndpointFixture::open().await;
    let before =
        Snapshot::settled(&fixture.deployment.plane.client, &Options::default(), PATIENCE).await.unwrap();
    fixture.deploy(json!([template("api", "/v1", json!({"organization": open(json!([]))}))])).await;
    let endpoint = fixture.ready(&name("api")).await;
    let route = fixture.objects(HTTP_ROUTE, &endpoint).await.remove(0);
    // As the reference would have left it: without whose it is, and with a field that we do not set.
    let metadata = &route["metadata"];
    let (home, called) = (metadata["namespace"].as_str().unwrap(), metadata["name"].as_str().unwrap());
    let mut old = route.clone();
    old["metadata"] = json!({"name": called, "namespace": home, "labels": metadata["labels"]});
    old["metadata"]["labels"].as_object_mut().unwrap().remove("openchoreo.dev/owner-uid");
    old["spec"]["rules"][0]["timeouts"] = json!({"request": "1s"});
    old.as_object_mut().unwrap().remove("status");
    fixture.deployment.control.operator.kill().unwrap();
    fixture.deployment.control.operator.ended().await.unwrap();
    let routes = fixture.deployment.plane.api(HTTP_ROUTE, home);
    routes.delete(called, &kube::api::DeleteParams::default()).await.unwrap();
    let params = kube::api::PostParams { field_manager: Some("manager".to_owned()), ..Default::default() };
    let made = routes.create(&params, &serde_json::from_value(old.clone()).unwrap()).await.unwrap();
    let mut neighbour = old.clone();
    neighbour["metadata"]["name"] = json!("gateway-internal-of-somebody-else");
    routes.create(&params, &serde_json::from_value(neighbour).unwrap()).await.unwrap();
    let mut fixture = fixture;
    crate::release::support::start_operator(&mut fixture.deployment.control, &[]).await;
    fixture
        .deployment
        .plane
        .until("it is taken over", (HTTP_ROUTE, home, called), |found| {
            let found = found?;
            let ours = found["metadata"]["labels"]["openchoreo.dev/owner-uid"].is_string();
            (ours && found["spec"]["rules"][0]["timeouts"].is_null()).then_some(())
        })
        .await;
    let taken = fixture.deployment.plane.get(HTTP_ROUTE, home, called).await.unwrap();
    assert_eq!(taken["metadata"]["uid"].as_str(), made.metadata.uid.as_deref());
    fixture.ready(&name("api")).await;
    assert!(
        fixture.deployment.plane.get(HTTP_ROUTE, home, "gateway-internal-of-somebody-else").await.is_some()
    );
    routes.delete("gateway-internal-of-somebody-else", &kube::api::DeleteParams::default()).await.unwrap();

    // The component goes, and all of it.
    fixture.deployment.control.delete::<Component>("acme/cart").await;
    fixture.deployment.control.until_gone::<Component>("acme/cart").await;
    fixture.deployment.control.until_gone::<DeployableArtifact>("acme/cart").await;
    fixture.deployment.control.delete::<Environment>("acme/dev").await;
    fixture.deployment.control.until_gone::<Environment>("acme/dev").await;
    assert_nothing_left(&before, &fixture.deployment.plane.client, PATIENCE).await;
    assert_eq!(fixture.claims().await, []);
}
