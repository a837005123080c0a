//! What Endpoints are rendered to.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use kantor_api::{
    Component, DataPlane, Deployment, DeploymentTrack, Endpoint, Environment, Project, conditions::reasons,
};
use kantor_core::{
    endpoint::{Inputs, Listener, Plan, PlaneParts, Problem, Rendered, plan},
    hostnames::key::ClaimKey,
    known::{Known, Proof},
    settings::{Reach, Settings},
};
use kube::{ResourceExt, api::DynamicObject};
use rstest::rstest;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{NOTICE, compare, document, files, folder, object};

/// What is said in a case; everything else is the same in all.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    /// Type of the component.
    #[serde(rename = "type", default = "service")]
    type_: String,
    /// Spec of the Endpoint.
    endpoint: Value,
    /// `gateway` of the environment.
    #[serde(default = "environment_gateway")]
    environment: Value,
    /// `gateway` of the data plane.
    #[serde(default = "plane_gateway")]
    gateway: Value,
    /// Secrets of the control plane.
    #[serde(default)]
    secrets: BTreeMap<String, BTreeMap<String, String>>,
    /// Optional parts that the data plane lacks: `http`, `grpc`, `tcp`, `udp`, `envoy`.
    #[serde(default)]
    lacks: BTreeSet<String>,
    /// Host names that are not granted.
    #[serde(default)]
    withheld: BTreeSet<String>,
}

fn service() -> String {
    "Service".to_owned()
}

fn environment_gateway() -> Value {
    json!({"dnsPrefix": "dev", "security": {"remoteJwks": {"uri": "https://idp.example/jwks"}}})
}

fn plane_gateway() -> Value {
    json!({
        "publicVirtualHost": "apis.example.com",
        "organizationVirtualHost": "int.example.com",
        "namespace": "choreo-system",
    })
}

impl Case {
    fn new(endpoint: Value) -> Self {
        serde_json::from_value(json!({"endpoint": endpoint})).unwrap()
    }

    fn plan(&self) -> Result<Plan, Vec<Problem>> {
        let environment =
            if self.environment.is_null() { json!({}) } else { json!({"gateway": self.environment}) };
        let environment: Environment =
            object("Environment", "dev", &super::with(environment, &json!({"dataPlaneRef": "eu-1"})));
        let mut data_plane = json!({"kubernetesCluster": {"inCluster": {}}});
        if !self.gateway.is_null() {
            data_plane["gateway"] = self.gateway.clone();
        }
        let data_plane: DataPlane = object("DataPlane", "eu-1", &data_plane);
        let component = object::<Component>(
            "Component",
            "books",
            &json!({"owner": {"projectName": "shop"}, "type": self.type_}),
        );
        let absent = |part: &str| self.lacks.contains(part);
        let unknown = |part: &str| self.lacks.contains(format!("{part}?").as_str());
        let part = |name: &str| match name {
            name if absent(name) => Known::Absent(Proof::of_a_complete_look()),
            name if unknown(name) => Known::Unknown("it has just started".to_owned()),
            _ => Known::Present(()),
        };
        let version = |name: &str| part(name).map(|()| "v1".to_owned());
        let secrets = self.secrets.iter().map(|(name, values)| {
            let values = values.iter().map(|(key, value)| (key.clone(), value.as_bytes().to_vec()));
            (name.clone(), values.collect())
        });
        plan(&Inputs {
            endpoint: &object::<Endpoint>("Endpoint", "books-dev-api-x", &self.endpoint),
            project: &object::<Project>("Project", "shop", &json!({"deploymentPipelineRef": "default"})),
            component: &component,
            track: &object::<DeploymentTrack>("DeploymentTrack", "main", &json!({})),
            environment: &environment,
            deployment: &object::<Deployment>(
                "Deployment",
                "books-dev",
                &json!({"deploymentArtifactRef": "books"}),
            ),
            data_plane: &data_plane,
            cluster_uid: "cluster",
            provided: &["apis.example.com".to_owned(), "int.example.com".to_owned()],
            secrets: secrets.collect(),
            plane: PlaneParts {
                http: part("http"),
                grpc: part("grpc"),
                tcp: version("tcp"),
                udp: version("udp"),
                envoy: part("envoy"),
            },
            settings: &Settings::default(),
        })
    }

    fn granted(&self, plan: &Plan) -> BTreeSet<ClaimKey> {
        plan.claims().into_iter().filter(|key| !self.withheld.contains(&key.hostname)).collect()
    }

    fn rendered(&self) -> Rendered {
        let plan = self.plan().unwrap();
        plan.render(&self.granted(&plan))
    }

    fn refusal(&self) -> Vec<Problem> {
        match self.plan() {
            Ok(_) => panic!("it is not refused"),
            Err(problems) => problems,
        }
    }
}

fn shown(case: &Case) -> String {
    let mut text = NOTICE.to_owned();
    match case.plan() {
        Ok(plan) => {
            let granted = case.granted(&plan);
            let https = |_: &(String, String), _: &str| Some(Listener::default());
            let claims: Vec<Value> = plan
                .claims()
                .iter()
                .map(|key| json!({"name": key.name(), "hostname": key.hostname, "pathPrefix": key.path_prefix, "cluster": key.cluster_uid}))
                .collect();
            let summary = json!({
                "namespace": plan.namespace,
                "claims": claims,
                "address": plan.address(&granted, https),
                "addresses": plan.addresses(&granted, https),
            });
            document(&mut text, "summary", &summary);
            let Rendered { supports, routes } = plan.render(&granted);
            for object in &supports {
                document(&mut text, "before all others", object);
            }
            for route in &routes {
                for guard in &route.guards {
                    document(&mut text, "before the next route", guard);
                }
                document(&mut text, "route", &route.route);
            }
        }
        Err(problems) => {
            for Problem { reason, message } in problems {
                document(&mut text, "problem", &json!({"reason": reason, "message": message}));
            }
        }
    }
    text
}

fn case(name: &str) -> Case {
    let text = fs::read_to_string(folder("endpoints/cases").join(name)).unwrap();
    serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"))
}

#[test]
fn each_endpoint_is_rendered_to_its_golden_file() {
    let expected =
        files("endpoints/cases").into_keys().map(|name| (name.clone(), shown(&case(&name)))).collect();
    compare(&expected, "endpoints/golden");
}

/// The worked example of the API that Kantor speaks: names, hosts, paths, patterns and labels are fixed.
#[test]
fn the_worked_example_has_the_names_and_contents_that_it_always_had() {
    let case = case("worked_example.yaml");
    let plan = case.plan().unwrap();
    assert_eq!(plan.namespace, "dp-acme-shop-dev-1c11194b");
    let https = |_: &(String, String), _: &str| Some(Listener::default());
    let granted = case.granted(&plan);
    assert_eq!(plan.address(&granted, https).as_deref(), Some("https://dev.apis.example.com/shop/books"));
    let routes = case.rendered().routes;
    let find = |name: &str| routes.iter().find(|route| route.route.name_any() == name).unwrap();

    let all = find("gateway-external-books-dev-api-x-83421da0");
    let spec = &all.route.data["spec"];
    assert_eq!(spec["parentRefs"], json!([{"name": "gateway-external", "namespace": "choreo-system"}]));
    assert_eq!(spec["hostnames"], json!(["dev.apis.example.com"]));
    let rule = json!({
        "matches": [{"path": {"type": "PathPrefix", "value": "/shop/books/v1"}}],
        "filters": [{"type": "URLRewrite", "urlRewrite": {
            "path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/v1"}}}],
        "backendRefs": [{"name": "books-main-2b22c75e", "port": 8080}],
    });
    assert_eq!(spec["rules"], json!([rule]));

    let name = "gateway-external-books-dev-api-x-get-items--id-ac1c9918";
    let operation = find(name);
    let matched = &operation.route.data["spec"]["rules"][0];
    assert_eq!(
        matched["matches"],
        json!([{"path": {"type": "RegularExpression", "value": "^/shop/books(/v1/items/[^/]+)$"}, "method": "GET"}])
    );
    let reference = json!({"group": "gateway.envoyproxy.io", "kind": "HTTPRouteFilter", "name": name});
    assert_eq!(matched["filters"], json!([{"type": "ExtensionRef", "extensionRef": reference}]));
    let of = |route: &kantor_core::endpoint::GuardedRoute, kind: &str| -> DynamicObject {
        let is = |guard: &&DynamicObject| guard.types.as_ref().unwrap().kind == kind;
        route.guards.iter().find(is).unwrap().clone()
    };
    let filter = of(operation, "HTTPRouteFilter");
    assert_eq!(filter.name_any(), name);
    assert_eq!(
        filter.data["spec"]["urlRewrite"]["path"]["replaceRegexMatch"],
        json!({"pattern": "^/shop/books(/v1/items/[^/]+)$", "substitution": r"\1"})
    );
    let policy = of(operation, "SecurityPolicy");
    assert_eq!(policy.name_any(), name);
    assert_eq!(
        policy.data["spec"],
        json!({
            "targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": name}],
            "jwt": {"providers": [{"name": "default", "remoteJWKS": {"uri": "https://idp.example/jwks"}}]},
            "authorization": {"defaultAction": "Deny", "rules": [{
                "action": "Allow", "principal": {"jwt": {"provider": "default", "scopes": ["items:read"]}}}]},
        })
    );

    let internal = find("gateway-internal-books-dev-api-x-148eb29b");
    let spec = &internal.route.data["spec"];
    assert_eq!(spec["parentRefs"][0]["name"], "gateway-internal");
    assert_eq!(spec["hostnames"], json!(["dev.int.example.com"]));
    assert_eq!(spec["rules"], json!([rule]));
    assert!(internal.guards.is_empty());
    assert_eq!(routes.len(), 3);

    for (route, visibility) in [(all, "gateway-external"), (internal, "gateway-internal")] {
        let labels = json!({
            "organization-name": "acme", "project-name": "shop", "component-name": "books",
            "deployment-track-name": "main", "environment-name": "dev", "deployment-name": "books-dev",
            "managed-by": "choreo-deployment-controller", "belong-to": "user-workloads",
            "component-type": "Service", "gateway-visibility": visibility,
            "openchoreo.dev/owner-uid": "uid-of-books-dev-api-x",
        });
        assert_eq!(json!(route.route.labels()), labels);
    }
}

/// An Endpoint of type REST, with these fields changed.
fn rest(changes: Value) -> Value {
    let mut spec = json!({
        "type": "REST",
        "backendRef": {"type": "componentRef", "basePath": "/v1", "componentRef": {"port": 8080}},
    });
    spec.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    spec
}

fn public(policies: Value) -> Value {
    rest(json!({"networkVisibilities": {"public": {"enable": true, "policies": policies}}}))
}

fn oauth2(operations: Value) -> Value {
    let authorization = json!({"apiType": "REST", "rest": {"claimsToHeaders": [], "operations": operations}});
    json!({"name": "login", "type": "oauth2", "policySpec": {"oauth2": {"jwt": {"authorization": authorization}}}})
}

fn kinds(objects: &[DynamicObject]) -> Vec<String> {
    objects.iter().map(|object| object.types.as_ref().unwrap().kind.clone()).collect()
}

#[rstest]
#[case::nothing_said_is_for_the_organization(rest(json!({})), "Service", &[Reach::Organization])]
#[case::nothing_said_of_a_web_application_is_public(rest(json!({})), "WebApplication", &[Reach::Public])]
#[case::both(
    rest(json!({"networkVisibilities": {"public": {"enable": true}, "organization": {"enable": true}}})),
    "Service", &[Reach::Public, Reach::Organization]
)]
#[case::switched_off(
    rest(json!({"networkVisibilities": {"public": {"enable": false}, "organization": {"enable": true}}})),
    "Service", &[Reach::Organization]
)]
#[case::none(rest(json!({"networkVisibilities": {}})), "Service", &[])]
#[case::a_web_application_is_never_internal(
    rest(json!({"networkVisibilities": {"organization": {"enable": true}}})), "WebApplication", &[Reach::Public]
)]
#[case::a_web_application_can_be_closed(
    rest(json!({"networkVisibilities": {"public": {"enable": false}}})), "WebApplication", &[]
)]
fn the_ways_in_are_those_that_are_asked_for(
    #[case] endpoint: Value,
    #[case] type_: &str,
    #[case] expected: &[Reach],
) {
    let case = Case { type_: type_.to_owned(), ..Case::new(endpoint) };
    let reaches: Vec<Reach> = case.rendered().routes.iter().map(|route| route.reach).collect();
    assert_eq!(reaches, expected);
}

#[test]
fn everything_beside_the_listed_operations_is_denied() {
    let policy = oauth2(json!([{"target": "/items", "method": "GET", "scopes": []}]));
    let routes = Case::new(public(json!([policy]))).rendered().routes;
    let (everything, listed) = (&routes[0], &routes[1]);
    assert_eq!(everything.guards[0].data["spec"]["authorization"], json!({"defaultAction": "Deny"}));
    assert!(everything.guards[0].data["spec"]["jwt"].is_object());
    // No scopes: any valid token will do.
    assert_eq!(listed.guards[0].data["spec"].get("authorization"), None);
    assert!(listed.guards[0].data["spec"]["jwt"].is_object());
}

#[rstest]
#[case::public("https://login.example.com/keys", &[], None)]
#[case::plain_http("http://login.example.com/keys", &[], Some("https://"))]
#[case::metadata("https://169.254.169.254/keys", &[], Some("not a public address"))]
#[case::another_spelling("https://169.254.43518/keys", &[], Some("four decimal numbers"))]
#[case::inside("https://keycloak.auth.svc.cluster.local/keys", &[], Some("not a public host"))]
#[case::any_address("https://10.0.0.5.nip.io/keys", &[], Some("nip.io"))]
#[case::listed("https://keycloak.auth.svc/keys", &["keycloak.auth.svc"], None)]
#[case::listed_with_plain_http("http://keycloak.auth.svc/keys", &["http://keycloak.auth.svc"], None)]
#[case::not_listed("https://login.example.com/keys", &["keycloak.auth.svc"], Some("gateway.keyDomains"))]
fn keys_are_fetched_only_from_where_they_may_be(
    #[case] uri: &str,
    #[case] domains: &[&str],
    #[case] refused: Option<&str>,
) {
    let mut case = Case::new(public(json!([oauth2(json!([]))])));
    case.environment = json!({"security": {"remoteJwks": {"uri": uri}}});
    case.gateway["keyDomains"] = json!(domains);
    match (case.plan(), refused) {
        (Ok(_), None) => {
            let policy = &case.rendered().routes[0].guards[0].data["spec"]["jwt"]["providers"][0];
            assert_eq!(policy["remoteJWKS"]["uri"], uri);
        }
        (Err(problems), Some(says)) => {
            assert_eq!(problems.len(), 1, "{problems:?}");
            assert_eq!(problems[0].reason, reasons::IDENTITY_PROVIDER_NOT_ALLOWED);
            assert!(problems[0].message.contains(says), "{problems:?}");
        }
        (planned, _) => panic!("{uri}: {:?}", planned.map(|_| ())),
    }
}

#[test]
fn an_operation_within_another_goes_before_it_and_two_across_each_other_are_refused() {
    let listed = |operations: &[(&str, &str)]| {
        let operations: Vec<Value> = operations
            .iter()
            .map(|(target, scope)| json!({"target": target, "method": "GET", "scopes": [scope]}))
            .collect();
        Case::new(public(json!([oauth2(json!(operations))])))
    };
    let routes = listed(&[("/users/me", "self"), ("/users/{id}", "read")]).rendered().routes;
    let pattern = |target: &str| -> String {
        let of = |route: &&kantor_core::endpoint::GuardedRoute| route.route.name_any().contains(target);
        let route = routes.iter().find(of).unwrap();
        route.route.data["spec"]["rules"][0]["matches"][0]["path"]["value"].as_str().unwrap().to_owned()
    };
    assert!(pattern("users-me").len() > pattern("users--id").len());
    // With the same rules it makes no difference, and the pattern is the plain one.
    let routes = listed(&[("/users/me", "read"), ("/users/{id}", "read")]).rendered().routes;
    let plain = |route: &kantor_core::endpoint::GuardedRoute| {
        route.route.data["spec"]["rules"][0]["matches"][0]["path"]["value"] == "^/shop/books(/v1/users/me)$"
    };
    assert!(routes.iter().any(plain));
    let problems = listed(&[("/{a}/keys", "x"), ("/users/{b}", "y")]).refusal();
    assert!(problems[0].message.contains("match the same requests"), "{problems:?}");
}

#[test]
fn a_policy_guards_the_side_that_it_is_written_on() {
    let policy = oauth2(json!([{"target": "/items", "method": "GET", "scopes": ["a"]}]));
    let both = |public: Value, organization: Value| {
        rest(json!({"networkVisibilities": {
            "public": {"enable": true, "policies": public},
            "organization": {"enable": true, "policies": organization}}}))
    };
    for (endpoint, guarded) in [
        (both(json!([]), json!([policy])), Reach::Organization),
        (both(json!([policy]), json!([])), Reach::Public),
    ] {
        for route in Case::new(endpoint).rendered().routes {
            assert_eq!(route.guards.is_empty(), route.reach != guarded, "{}", route.route.name_any());
        }
    }
}

#[test]
fn all_guards_of_a_way_in_are_on_each_of_its_routes() {
    let policies = json!([
        oauth2(json!([{"target": "/items", "method": "GET", "scopes": ["a"]}])),
        {"name": "keys", "type": "api-key", "policySpec": {"apiKeyAuth": {
            "keySource": {"header": "x-api-key"}, "secretRefs": ["keys"]}}},
        {"name": "users", "type": "basic-auth", "policySpec": {"basicAuth": {
            "users": [{"username": "ann", "passwordFromSecret": "ann"}],
            "header": "Authorization", "headerAuthScheme": "Basic"}}},
        {"name": "pages", "type": "cors", "policySpec": {"cors": {
            "allowOrigins": ["https://shop.example.com"], "allowMethods": ["GET"], "allowHeaders": ["x-a"],
            "exposeHeaders": ["x-b"], "maxAge": 60, "allowCredentials": true}}},
        {"name": "rate", "type": "rate-limit", "policySpec": {"rateLimit": {
            "apiLevel": {"timeUnit": "minute", "requestLimit": 60},
            "operationLevel": {"rest": [{"target": "/items", "method": "GET", "timeUnit": "Second", "requestLimit": 5}]}}}},
    ]);
    let mut case = Case::new(rest(json!({
        "networkVisibilities": {"public": {"enable": true, "policies": policies}},
        "hostnames": ["Books.Example.org."],
    })));
    let secret = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
    case.secrets = BTreeMap::from([
        ("keys".to_owned(), secret("caller", "hunter2")),
        ("ann".to_owned(), secret("password", "secret")),
    ]);
    let rendered = case.rendered();
    assert_eq!(rendered.routes.len(), 4);
    let limits: Vec<Value> = rendered
        .routes
        .iter()
        .map(|route| {
            let security = &route.guards[0].data["spec"];
            for part in ["jwt", "authorization", "apiKeyAuth", "basicAuth", "cors"] {
                assert!(security[part].is_object(), "{part} of {}", route.route.name_any());
            }
            assert_eq!(security["targetRefs"][0]["name"], route.route.name_any());
            route.guards[1].data["spec"]["rateLimit"]["local"]["rules"][0]["limit"].clone()
        })
        .collect();
    let (all, one) = (json!({"requests": 60, "unit": "Minute"}), json!({"requests": 5, "unit": "Second"}));
    assert_eq!(limits, [all.clone(), one.clone(), all, one]);
    // The same guards on a host of one's own, where the path begins with the application's.
    let paths: Vec<&Value> = rendered
        .routes
        .iter()
        .map(|route| &route.route.data["spec"]["rules"][0]["matches"][0]["path"]["value"])
        .collect();
    assert_eq!(paths, ["/shop/books/v1", "^/shop/books(/v1/items)$", "/v1", "^(/v1/items)$"]);
    assert_eq!(rendered.routes[2].route.data["spec"]["hostnames"], json!(["books.example.org"]));
    assert_eq!(kinds(&rendered.supports), ["Secret", "Secret"]);
    // sha1 of "secret", and no password in clear.
    let users = &rendered.supports[1].data["data"][".htpasswd"];
    assert_eq!(users, "YW5uOntTSEF9NWVuNkc2TWV6UnJvVDNYS3FrZFBPbVkvQmZRPQo=");
}

#[rstest]
#[case::mediation(
    public(json!([{"name": "m", "type": "mediation", "policySpec": {}}])), &[], reasons::POLICY_NOT_ENFORCEABLE
)]
#[case::graphql_operations(
    json!({"type": "GraphQL", "backendRef": {"type": "componentRef", "componentRef": {"port": 80}},
        "networkVisibilities": {"public": {"enable": true, "policies": [{"name": "login", "type": "oauth2",
        "policySpec": {"oauth2": {"jwt": {"authorization": {"apiType": "GraphQL", "graphql": {
            "claimsToHeaders": [], "operations": [{"type": "query", "name": "me", "scopes": ["a"]}]}}}}}}]}}}),
    &[], reasons::POLICY_NOT_ENFORCEABLE
)]
#[case::a_word_in_front_of_a_key(
    public(json!([{"name": "keys", "type": "api-key", "policySpec": {"apiKeyAuth": {
        "keySource": {"header": "x-api-key", "headerAuthScheme": "ApiKey"}, "secretRefs": ["keys"]}}}])),
    &[], reasons::POLICY_NOT_ENFORCEABLE
)]
#[case::other_header(
    public(json!([{"name": "users", "type": "basic-auth", "policySpec": {"basicAuth": {
        "users": [{"username": "a", "passwordFromSecret": "a"}], "header": "x-login", "headerAuthScheme": "Basic"}}}])),
    &[], reasons::POLICY_NOT_ENFORCEABLE
)]
#[case::policies_need_envoy(public(json!([oauth2(json!([]))])), &["envoy"], reasons::CAPABILITY_MISSING)]
#[case::policies_on_tcp(
    json!({"type": "TCP", "backendRef": {"type": "componentRef", "componentRef": {"port": 80}},
        "networkVisibilities": {"public": {"enable": true, "policies": [oauth2(json!([]))]}}}),
    &[], reasons::POLICY_NOT_ENFORCEABLE
)]
#[case::no_http_routes(rest(json!({})), &["http"], reasons::CAPABILITY_MISSING)]
#[case::nobody_knows_of_http_routes(rest(json!({})), &["http?"], reasons::CAPABILITY_UNKNOWN)]
#[case::nobody_knows_of_envoy(public(json!([oauth2(json!([]))])), &["envoy?"], reasons::CAPABILITY_UNKNOWN)]
#[case::nobody_knows_of_tcp_routes(
    json!({"type": "TCP", "backendRef": {"type": "componentRef", "componentRef": {"port": 80}}}),
    &["tcp?"], reasons::CAPABILITY_UNKNOWN
)]
#[case::no_tcp_routes(
    json!({"type": "TCP", "backendRef": {"type": "componentRef", "componentRef": {"port": 80}}}),
    &["tcp"], reasons::CAPABILITY_MISSING
)]
#[case::no_udp_routes(
    json!({"type": "UDP", "backendRef": {"type": "componentRef", "componentRef": {"port": 80}}}),
    &["udp"], reasons::CAPABILITY_MISSING
)]
#[case::no_grpc_routes(
    json!({"type": "gRPC", "backendRef": {"type": "componentRef", "componentRef": {"port": 80}}}),
    &["grpc"], reasons::CAPABILITY_MISSING
)]
#[case::another_address_without_envoy(
    json!({"type": "HTTP", "backendRef": {"type": "target", "target": {"url": "https://example.com"}}}),
    &["envoy"], reasons::CAPABILITY_MISSING
)]
#[case::another_address_inside(
    json!({"type": "HTTP", "backendRef": {"type": "target", "target": {"url": "http://10.0.0.1"}}}),
    &[], reasons::BACKEND_NOT_SUPPORTED
)]
#[case::no_target(json!({"type": "HTTP", "backendRef": {"type": "target"}}), &[], reasons::INVALID_ENDPOINT)]
#[case::no_component(json!({"type": "HTTP", "backendRef": {"type": "componentRef"}}), &[], reasons::INVALID_ENDPOINT)]
#[case::dots_in_the_base_path(
    rest(json!({"backendRef": {"type": "componentRef", "basePath": "/../../other/victim", "componentRef": {"port": 80}}})),
    &[], reasons::INVALID_ENDPOINT
)]
#[case::dots_in_an_operation(
    public(json!([oauth2(json!([{"target": "/a/../b", "method": "GET", "scopes": []}]))])), &[], reasons::INVALID_ENDPOINT
)]
#[case::two_of_a_type(
    public(json!([
        {"name": "a", "type": "cors", "policySpec": {"cors": {"allowOrigins": [], "allowMethods": [], "allowHeaders": [], "exposeHeaders": [], "maxAge": 1, "allowCredentials": false}}},
        {"name": "b", "type": "cors", "policySpec": {"cors": {"allowOrigins": [], "allowMethods": [], "allowHeaders": [], "exposeHeaders": [], "maxAge": 1, "allowCredentials": false}}},
    ])), &[], reasons::INVALID_ENDPOINT
)]
#[case::contradicting_operations(
    public(json!([oauth2(json!([
        {"target": "/a", "method": "GET", "scopes": ["x"]}, {"target": "/a", "method": "GET", "scopes": []}]))])),
    &[], reasons::INVALID_ENDPOINT
)]
#[case::a_secret_that_is_not_there(
    public(json!([{"name": "keys", "type": "api-key", "policySpec": {"apiKeyAuth": {
        "keySource": {"header": "x-api-key"}, "secretRefs": ["keys"]}}}])), &[], reasons::SECRET_NOT_USABLE
)]
#[case::a_host_that_the_plane_provides(
    rest(json!({"hostnames": ["prod.apis.example.com"]})), &[], reasons::HOSTNAME_NOT_ALLOWED
)]
#[case::hosts_of_tcp(
    json!({"type": "TCP", "hostnames": ["a.example.org"], "backendRef": {"type": "componentRef", "componentRef": {"port": 80}}}),
    &[], reasons::INVALID_ENDPOINT
)]
fn what_cannot_be_had_opens_nothing(#[case] endpoint: Value, #[case] lacks: &[&str], #[case] reason: &str) {
    let lacks = lacks.iter().map(|part| (*part).to_owned()).collect();
    let problems = Case { lacks, ..Case::new(endpoint) }.refusal();
    assert!(problems.iter().any(|problem| problem.reason == reason), "{problems:?}");
}

#[test]
fn a_token_needs_keys_to_check_it_with_and_an_endpoint_a_gateway() {
    let guarded = Case::new(public(json!([oauth2(json!([]))])));
    let without_keys = Case { environment: json!({"dnsPrefix": "dev"}), ..guarded.clone() };
    assert_eq!(without_keys.refusal()[0].reason, reasons::IDENTITY_PROVIDER_MISSING);
    let without_gateway = Case { gateway: Value::Null, ..guarded };
    assert_eq!(without_gateway.refusal()[0].reason, reasons::GATEWAY_NOT_CONFIGURED);
}

#[test]
fn domains_are_denied_before_they_are_allowed() {
    let mut gateway = plane_gateway();
    gateway["allowedDomains"] = json!([".corp.example"]);
    gateway["deniedDomains"] = json!(["secret.corp.example"]);
    for (host, good) in [
        ("corp.example", true),
        ("a.b.CORP.example.", true),
        ("secret.corp.example", false),
        ("corp.example.org", false),
        ("notcorp.example", false),
    ] {
        let case = Case { gateway: gateway.clone(), ..Case::new(rest(json!({"hostnames": [host]}))) };
        assert_eq!(case.plan().is_ok(), good, "{host}");
    }
}

#[test]
fn what_is_withheld_has_no_route_and_all_else_has() {
    let mut case = Case::new(rest(json!({"hostnames": ["a.example.org", "b.example.org"]})));
    case.withheld = BTreeSet::from(["a.example.org".to_owned()]);
    let hosts: Vec<Value> =
        case.rendered().routes.iter().map(|route| route.route.data["spec"]["hostnames"].clone()).collect();
    assert_eq!(hosts, [json!(["dev.int.example.com"]), json!(["b.example.org"])]);
    case.withheld.insert("b.example.org".to_owned());
    assert_eq!(case.rendered().routes.len(), 1);
}

#[test]
fn a_closed_route_differs_in_leading_nowhere_alone() {
    let policy = oauth2(json!([{"target": "/items", "method": "GET", "scopes": ["a"]}]));
    for route in Case::new(public(json!([policy]))).rendered().routes {
        let closed = route.closed();
        assert!(kantor_core::endpoint::is_open(&route.route) && !kantor_core::endpoint::is_open(&closed));
        let mut reopened = closed.clone();
        reopened.data["spec"]["rules"][0]["backendRefs"] =
            route.route.data["spec"]["rules"][0]["backendRefs"].clone();
        assert_eq!(reopened, route.route);
    }
}

#[test]
fn a_retired_route_differs_in_asking_for_what_no_request_has_alone() {
    let policy = oauth2(json!([{"target": "/items", "method": "GET", "scopes": ["a"]}]));
    let grpc = json!({"type": "gRPC", "backendRef": {"type": "componentRef", "componentRef": {"port": 80}}});
    let mut routes = Case::new(public(json!([policy]))).rendered().routes;
    routes.extend(Case::new(grpc).rendered().routes);
    assert_eq!(routes.len(), 3);
    for route in routes {
        let mut retired = route.retired().unwrap();
        let matches = retired.data["spec"]["rules"][0]["matches"].as_array_mut().unwrap();
        for one in &mut *matches {
            let headers = one.as_object_mut().unwrap().remove("headers").unwrap();
            assert_eq!(headers, json!([{"name": "x-kantor-retired", "value": "uid-of-books-dev-api-x"}]));
        }
        if *matches == [json!({})] {
            retired.data["spec"]["rules"][0].as_object_mut().unwrap().remove("matches");
        }
        assert_eq!(retired, route.route);
    }
    // They have no headers to look at.
    let tcp = json!({"type": "TCP", "backendRef": {"type": "componentRef", "componentRef": {"port": 80}}});
    assert!(Case::new(tcp).rendered().routes.iter().all(|route| route.retired().is_none()));
}

#[test]
fn a_route_leaves_with_the_last_of_its_hosts() {
    let case = Case::new(rest(json!({"hostnames": ["a.example.org", "b.example.org"]})));
    let plan = case.plan().unwrap();
    let keys = |hosts: &[&str]| -> BTreeSet<ClaimKey> {
        plan.claims().into_iter().filter(|key| hosts.contains(&key.hostname.as_str())).collect()
    };
    let leaving = |staying: &[&str], handed_over: &[&str]| -> Vec<Value> {
        let routes = plan.leaving(&keys(staying), &keys(handed_over)).routes;
        routes.iter().map(|route| route.route.data["spec"]["hostnames"].clone()).collect()
    };
    let shared = "dev.int.example.com";
    assert!(
        leaving(&[shared, "a.example.org"], &["b.example.org"]).is_empty(),
        "the other host is still there"
    );
    let both = ["a.example.org", "b.example.org"];
    assert_eq!(leaving(&[shared], &both), [json!(both)]);
    assert_eq!(leaving(&both, &[shared]), [json!([shared])]);
    assert!(leaving(&[shared], &[]).is_empty());
}

#[test]
fn each_operation_of_a_web_application_has_the_filter_that_it_refers_to() {
    let policy = oauth2(json!([{"target": "/items", "method": "GET", "scopes": ["a"]}]));
    let case = Case { type_: "WebApplication".to_owned(), ..Case::new(public(json!([policy]))) };
    let routes = case.rendered().routes;
    let operation = &routes[1];
    assert_eq!(kinds(&operation.guards), ["SecurityPolicy", "HTTPRouteFilter"]);
    let reference = &operation.route.data["spec"]["rules"][0]["filters"][0]["extensionRef"]["name"];
    assert_eq!(*reference, operation.guards[1].name_any());
}

#[test]
fn without_a_prefix_the_host_is_that_of_the_data_plane_and_without_a_path_it_is_the_root() {
    let endpoint =
        json!({"type": "HTTP", "backendRef": {"type": "componentRef", "componentRef": {"port": 80}}});
    let case = Case { environment: Value::Null, ..Case::new(endpoint.clone()) };
    assert_eq!(case.rendered().routes[0].route.data["spec"]["hostnames"], json!(["int.example.com"]));
    let case = Case { type_: "WebApplication".to_owned(), ..Case::new(endpoint) };
    let rule = case.rendered().routes[0].route.data["spec"]["rules"][0].clone();
    assert_eq!(rule["matches"][0]["path"]["value"], "/");
    assert_eq!(rule["filters"][0]["urlRewrite"]["path"]["replacePrefixMatch"], "/");
}

#[test]
fn a_web_application_has_a_host_of_its_own_and_no_path_in_front() {
    let mut case = Case::new(rest(json!({})));
    case.type_ = "WebApplication".to_owned();
    let routes = case.rendered().routes;
    assert_eq!(routes[0].route.data["spec"]["hostnames"], json!(["books-dev.choreoapps.localhost"]));
    assert_eq!(routes[0].route.data["spec"]["rules"][0]["matches"][0]["path"]["value"], "/v1");
    case.gateway["webApplicationDomain"] = json!("apps.example.com");
    assert_eq!(
        case.rendered().routes[0].route.data["spec"]["hostnames"],
        json!(["books-dev.apps.example.com"])
    );
}
