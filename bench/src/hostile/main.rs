//! Measures the operator's own functions with the largest objects that the API accepts; `make bench ONLY=hostile` runs it.
//!
//! A pass is what a reconcile computes: what the object refers to, and what is to be there. A hold is what is done while the
//! index that all share is locked: putting an object there, and following its references.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a program that measures ends where it cannot")]

use std::{
    collections::{BTreeMap, BTreeSet},
    hint::black_box,
    time::Instant,
};

use kantor::cache::Index;
use kantor_api::{
    Component, ConfigurationGroup, DataPlane, DeployableArtifact, Deployment, DeploymentPipeline,
    DeploymentTrack, Endpoint, Environment, Project, Release, bounds, release::ReleaseStatus,
};
use kantor_core::{
    deployment, endpoint,
    hierarchy::{Described, Kind, children, unresolved},
    known::Known,
    release,
    settings::Settings,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// How often each is measured.
const TIMES: usize = 21;
/// What etcd stores of an object at the most.
const LARGEST: usize = 3 << 19;
/// Objects that are there already.
const OTHERS: usize = 1000;

fn main() {
    let mut all =
        vec![endpoint_plain(), endpoint_chain(), endpoint_repeated(), endpoint_claims(), endpoint_secrets()];
    all.extend([pipeline(), configured(), released(false), released(true), configuration_group()]);
    println!("{}", json!(all));
}

/// What was measured of one object.
#[derive(Serialize)]
struct Measured {
    object: &'static str,
    bytes: usize,
    passes: Vec<f64>,
    holds: Vec<f64>,
}

/// Milliseconds of each time.
fn timed<T>(mut work: impl FnMut() -> T) -> Vec<f64> {
    black_box(work());
    (0..TIMES)
        .map(|_| {
            let started = Instant::now();
            black_box(work());
            started.elapsed().as_secs_f64() * 1000.0
        })
        .collect()
}

/// Measures `object`: `pass` is what is computed of it beside what it refers to.
fn measured<K: Described + Serialize, T>(
    name: &'static str,
    object: &K,
    kinds: &[Kind],
    mut pass: impl FnMut() -> T,
) -> Measured {
    let bytes = serde_json::to_vec(object).expect("an object").len();
    assert!(bytes <= LARGEST, "{name} has {bytes} bytes: the API server would refuse it");
    let passes = timed(|| (object.facts(), pass()));
    let mut index = Index::default();
    for number in 0..OTHERS {
        index.put(
            of::<Endpoint>("Endpoint", &format!("other-{number}"), json!({"spec": rest(vec![])})).facts(),
        );
    }
    let holds = (0..2 * TIMES)
        .map(|time| {
            let mut facts = object.facts();
            if time % 2 == 0 {
                // In turns, since an object that is as it was is left alone.
                facts.needs.clear();
            }
            let also = facts.clone();
            let started = Instant::now();
            let woken = index.put(facts);
            let found = unresolved(&index, &also, kinds);
            let below: Vec<_> = kinds.iter().flat_map(|kind| children(&index, &also, *kind)).collect();
            let took = started.elapsed().as_secs_f64() * 1000.0;
            black_box((woken, found, below));
            took
        })
        .collect();
    Measured { object: name, bytes, passes, holds }
}

/// An object of organization `acme` and all its parents.
fn of<K: DeserializeOwned>(kind: &str, name: &str, rest: Value) -> K {
    let labels: BTreeMap<String, &str> = [
        ("organization", "acme"),
        ("project", "p"),
        ("component", "c"),
        ("deployment-track", "t"),
        ("environment", "e"),
        ("name", name),
    ]
    .map(|(level, name)| (format!("openchoreo.dev/{level}"), name))
    .into();
    let mut object = rest;
    object["apiVersion"] = "openchoreo.dev/v1alpha1".into();
    object["kind"] = kind.into();
    object["metadata"] =
        json!({"name": name, "namespace": "acme", "uid": format!("uid-{name}"), "labels": labels});
    serde_json::from_value(object).expect("an object")
}

/// An API with these policies, for everybody and for the organization, under the Endpoint's own hosts as well.
fn rest(policies: Vec<Value>) -> Value {
    let mut spec = public(policies);
    let visibilities = &mut spec["networkVisibilities"];
    visibilities["organization"] = visibilities["public"].clone();
    spec
}

/// The same for everybody alone.
#[expect(clippy::needless_pass_by_value, reason = "made by the caller for this alone")]
fn public(policies: Vec<Value>) -> Value {
    let hostnames: Vec<String> = (0..32).map(|i| format!("h{i}.shop.example")).collect();
    json!({
        "type": "REST", "backendRef": {"type": "componentRef", "componentRef": {"port": 80}},
        "networkVisibilities": {"public": {"enable": true, "policies": policies}}, "hostnames": hostnames,
    })
}

fn tokens(operations: &[Value]) -> Value {
    let rest = json!({"claimsToHeaders": [], "operations": operations});
    json!({"name": "tokens", "type": "oauth2", "policySpec": {"oauth2": {"jwt": {"authorization": {
        "apiType": "REST", "rest": rest}}}}})
}

fn limits(targets: &[String]) -> Value {
    let operation = |target| json!({"target": target, "method": "GET", "timeUnit": "Day", "requestLimit": 1});
    let rest: Vec<Value> = targets.iter().map(operation).collect();
    json!({"name": "limits", "type": "rate-limit", "policySpec": {"rateLimit": {
        "apiLevel": {"timeUnit": "Minute", "requestLimit": 9}, "operationLevel": {"rest": rest}}}})
}

fn operations(targets: &[String], scopes: usize) -> Vec<Value> {
    let one = |(i, target): (usize, &String)| {
        let scopes: Vec<String> = (0..scopes).map(|scope| format!("scope-{i}-{scope}")).collect();
        json!({"target": target, "method": "GET", "scopes": scopes})
    };
    targets.iter().enumerate().map(one).collect()
}

/// As many operations and routes as there may be, each with other scopes.
fn endpoint_plain() -> Measured {
    let targets: Vec<String> = (0..bounds::OPERATIONS).map(|i| format!("/x{i}")).collect();
    let spec = public(vec![tokens(&operations(&targets, 32)), limits(&targets)]);
    guarded("Endpoint with 256 operations", spec, Some(2 * 257))
}

/// As many routes as there may be, through all ways in. Each operation is within all before it: nothing is apart.
fn endpoint_chain() -> Measured {
    let chain = |i: u32| -> String {
        (0..64)
            .map(|at| if at >= i % 64 { format!("/{{p{}}}", i / 64) } else { format!("/s{}", i / 64) })
            .collect()
    };
    let targets: Vec<String> = (0..bounds::ROUTES / 4).map(chain).collect();
    let spec = rest(vec![tokens(&operations(&targets, 1)), limits(&targets)]);
    guarded("Endpoint with operations within each other", spec, Some(4 * 129))
}

/// As many routes as there may be, which repeat as many bytes as they may.
fn endpoint_repeated() -> Measured {
    let targets: Vec<String> = (0..bounds::OPERATIONS).map(|i| format!("/x{i}")).collect();
    let mut policy = tokens(&operations(&targets, 1));
    policy["policySpec"]["oauth2"]["jwt"]["claims"] =
        json!([{"key": "group", "values": ["g".repeat(1024), "h".repeat(1024)]}]);
    let spec = public(vec![policy, limits(&targets)]);
    guarded("Endpoint with operations that repeat long claims", spec, Some(2 * 257))
}

/// As many claims as there may be: more than routes may repeat.
fn endpoint_claims() -> Measured {
    let targets: Vec<String> = (0..bounds::OPERATIONS).map(|i| format!("/x{i}")).collect();
    let claims: Vec<Value> = (0..16)
        .map(|claim| {
            let values: Vec<String> = (0..128).map(|value| format!("{claim}-{value}")).collect();
            json!({"key": format!("claim-{claim}"), "values": values})
        })
        .collect();
    let policy = |i: usize| {
        let mut policy = tokens(&operations(if i == 0 { &targets } else { &[] }, 1));
        policy["policySpec"]["oauth2"]["jwt"]["claims"] = json!(claims);
        policy
    };
    guarded("Endpoint with 65,536 claims", rest((0..16).map(policy).collect()), None)
}

/// As many names of Secrets as there may be.
fn endpoint_secrets() -> Measured {
    let policy = |i: usize| {
        let names: Vec<String> = (0..256).map(|secret| format!("{}-{i}-{secret}", "s".repeat(120))).collect();
        json!({"name": format!("keys-{i}"), "type": "api-key", "policySpec": {"apiKeyAuth": {
            "keySource": {"header": "x-key"}, "secretRefs": names}}})
    };
    guarded("Endpoint with 4,096 names of Secrets", rest((0..16).map(policy).collect()), None)
}

/// Measures an Endpoint that has so many routes, or that is refused.
#[expect(clippy::needless_pass_by_value, reason = "json! makes values")]
fn guarded(name: &'static str, spec: Value, routes: Option<usize>) -> Measured {
    let endpoint: Endpoint = of("Endpoint", "api", json!({"spec": spec}));
    let site = Site::new();
    let settings = Settings::default();
    measured(name, &endpoint, &[Kind::Secret, Kind::Deployment], || {
        let plan = endpoint::plan(&endpoint::Inputs {
            endpoint: &endpoint,
            project: &site.project,
            component: &site.component,
            track: &site.track,
            environment: &site.environment,
            deployment: &site.deployment,
            data_plane: &site.data_plane,
            cluster_uid: "cluster",
            provided: &[],
            secrets: BTreeMap::new(),
            plane: endpoint::PlaneParts {
                http: Known::Present(()),
                grpc: Known::Present(()),
                tcp: Known::Unknown(String::new()),
                udp: Known::Unknown(String::new()),
                envoy: Known::Present(()),
            },
            settings: &settings,
        });
        let rendered = plan.map(|plan| plan.render(&plan.claims()));
        assert_eq!(rendered.as_ref().ok().map(|rendered| rendered.routes.len()), routes, "{name}");
        rendered
    })
}

/// What is around an Endpoint or a Deployment.
struct Site {
    project: Project,
    component: Component,
    track: DeploymentTrack,
    environment: Environment,
    deployment: Deployment,
    data_plane: DataPlane,
}

impl Site {
    fn new() -> Self {
        let jwks = json!({"remoteJwks": {"uri": "https://login.example.com/keys"}});
        let domains: Vec<String> =
            (0..256).map(|i| format!(".d{i}.example")).chain([".shop.example".to_owned()]).skip(1).collect();
        let denied: Vec<String> = (0..256).map(|i| format!(".n{i}.example")).collect();
        Self {
            project: of("Project", "p", json!({"spec": {"deploymentPipelineRef": "default"}})),
            component: of(
                "Component",
                "c",
                json!({"spec": {"owner": {"projectName": "p"}, "type": "Service"}}),
            ),
            track: of("DeploymentTrack", "t", json!({"spec": {}})),
            environment: of(
                "Environment",
                "e",
                json!({"spec": {"dataPlaneRef": "plane", "gateway": {"security": jwks}}}),
            ),
            deployment: of("Deployment", "d", json!({"spec": {"deploymentArtifactRef": "a"}})),
            data_plane: of(
                "DataPlane",
                "plane",
                json!({"spec": {
                    "kubernetesCluster": {"inCluster": {}},
                    "gateway": {"publicVirtualHost": "apis.example.com", "organizationVirtualHost": "int.example.com",
                        "allowedDomains": domains, "deniedDomains": denied},
                }}),
            ),
        }
    }
}

/// As many steps and targets as there may be.
fn pipeline() -> Measured {
    let step = |i: usize| {
        let targets: Vec<Value> =
            (0..32).map(|target| json!({"name": format!("{}-{i}-{target}", "e".repeat(240))})).collect();
        json!({"sourceEnvironmentRef": format!("from-{i}"), "targetEnvironmentRefs": targets})
    };
    let paths: Vec<Value> = (0..64).map(step).collect();
    let pipeline: DeploymentPipeline =
        of("DeploymentPipeline", "long", json!({"spec": {"promotionPaths": paths}}));
    measured("DeploymentPipeline with 2,048 targets", &pipeline, &[Kind::Environment, Kind::Project], || ())
}

/// As many variables and files as there may be, all of them changed by the Deployment, and a group of many values.
fn configured() -> Measured {
    let env = |value: &str| -> Vec<Value> {
        (0..512)
            .map(|i| json!({"key": format!("{}_{i}", "K".repeat(200)), "value": value.repeat(300)}))
            .collect()
    };
    let files = |value: &str| -> Vec<Value> {
        (0..256)
            .map(|i| json!({"mountPath": format!("{}/{i}", "/x".repeat(510)), "value": value.repeat(300)}))
            .collect()
    };
    let application = |value: &str| json!({"env": env(value), "fileMounts": files(value)});
    let mut first = application("a");
    first["envFrom"] = json!([{"configurationGroupRef": {"name": "group"}}]);
    let artifact: DeployableArtifact = of(
        "DeployableArtifact",
        "a",
        json!({"spec": {
            "targetArtifact": {"fromImageRef": {"tag": "registry.example/app:1"}}, "configuration": {"application": first},
        }}),
    );
    let mut site = Site::new();
    site.deployment = of(
        "Deployment",
        "d",
        json!({"spec": {
            "deploymentArtifactRef": "a", "configurationOverrides": {"application": application("b")},
        }}),
    );
    let (group, settings) = (group(), Settings::default());
    measured(
        "Deployment with 512 variables, 256 files and a large group",
        &site.deployment,
        &[Kind::DeployableArtifact],
        || {
            deployment::render(&deployment::Inputs {
                deployment: &site.deployment,
                project: &site.project,
                component: &site.component,
                track: &site.track,
                environment: &site.environment,
                data_plane: &site.data_plane,
                artifact: &artifact,
                build: None,
                groups: BTreeMap::from([("group".to_owned(), &group)]),
                secrets: BTreeMap::new(),
                plane: deployment::PlaneParts { cilium: true, secrets_store: true, autoscaling: true },
                settings: &settings,
            })
            .expect("it can be rendered")
        },
    )
}

/// As many keys, values and sets as there may be.
fn group() -> ConfigurationGroup {
    let sets: Vec<Value> = (0..64)
        .map(|i| {
            let environments: Vec<String> = (0..256)
                .map(|e| format!("e{i}-{e}"))
                .chain((i == 63).then(|| "e".to_owned()))
                .skip(usize::from(i == 63))
                .collect();
            json!({"name": format!("set-{i}"), "environments": environments})
        })
        .collect();
    let entry = |key: usize| {
        let values: Vec<Value> = (0..40)
            .map(|i| json!({"environmentGroupRef": format!("set-{}", i + 24), "value": "v"}))
            .collect();
        json!({"key": format!("key-{key}"), "values": values})
    };
    let configurations: Vec<Value> = (0..512).map(entry).collect();
    of(
        "ConfigurationGroup",
        "group",
        json!({"spec": {"environmentGroups": sets, "configurations": configurations}}),
    )
}

fn configuration_group() -> Measured {
    measured("ConfigurationGroup of 512 keys", &group(), &[Kind::Deployment], || ())
}

/// As many objects as there may be, of as many bytes. They are new, or all are recorded already.
fn released(is_recorded: bool) -> Measured {
    let data: BTreeMap<String, String> =
        (0..10).map(|i| (format!("key-{i}"), "value of a setting".to_owned())).collect();
    let object = |i: u32| {
        let name = format!("settings-{i}");
        json!({"id": name, "object": {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": format!("acme-{i}")}, "data": data}})
    };
    let resources: Vec<Value> = (0..bounds::RESOURCES).map(object).collect();
    let release: Release = of(
        "Release",
        "large",
        json!({"spec": {
            "owner": {"projectName": "p", "componentName": "c"}, "environmentName": "e", "resources": resources,
        }}),
    );
    let plane =
        kantor_api::common::PlaneRecord { namespace: "acme".into(), name: "plane".into(), cluster_uid: None };
    let work = |status: &ReleaseStatus| {
        let rendered = release::render(&release).expect("it can be rendered");
        let namespaces: BTreeSet<String> = release::namespaces(&rendered);
        let recorded = release::record(status, &plane, &rendered, namespaces, |_| true);
        (rendered, recorded)
    };
    let (mut name, mut status) = ("Release of 2,000 objects", ReleaseStatus::default());
    if is_recorded {
        let recorded = work(&status).1;
        name = "Release of 2,000 objects that are recorded";
        status = ReleaseStatus {
            data_plane: recorded.data_plane,
            resources: recorded.resources,
            namespaces: recorded.namespaces,
            ..status
        };
    }
    measured(name, &release, &[Kind::Environment], || work(&status))
}
