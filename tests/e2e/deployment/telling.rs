//! What is said of a Deployment is true, and all of it is said.

use std::collections::BTreeSet;

use k8s_openapi::api::events::v1::Event;
use kantor_api::{Component, DeployableArtifact, Deployment, DeploymentTrack, Endpoint};
use kantor_testbed::{
    proxy::{Action, Fault, Match, Verb},
    wait::{self, Seen},
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::support::{DeploymentFixture, IMAGE, endpoint, item, labelled};
use crate::{
    observing::{looks, until_looked_at},
    release::support::resource,
    support::{PATIENCE, condition, is_ready},
};

/// The Events about a Deployment, once `enough` of them are there.
async fn events(fixture: &DeploymentFixture, fields: &str, enough: impl Fn(&[Event]) -> bool) -> Vec<Event> {
    let api: Api<Event> = Api::namespaced(fixture.control.client.clone(), "acme");
    let about = ListParams::default().fields(fields);
    wait::until(&format!("Events {fields}"), PATIENCE, || async {
        let found = api.list(&about).await?.items;
        Ok(if enough(&found) { Seen::Done(found) } else { Seen::NotYet(format!("{found:#?}")) })
    })
    .await
    .unwrap()
}

fn notes(events: &[Event]) -> Vec<&str> {
    events.iter().filter_map(|event| event.note.as_deref()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_of_somebody_else_is_a_condition_and_is_left_alone() {
    let fixture = DeploymentFixture::open().await;
    let taken = kantor_api::names::generate(kantor_api::names::NameKind::Object, &["cart", "api"]);
    let theirs = json!({"type": "HTTP", "networkVisibilities": {},
        "backendRef": {"type": "componentRef", "componentRef": {"port": 1}}});
    let theirs: Endpoint = labelled("Endpoint", &taken, &[], theirs);
    let theirs = fixture.control.create::<Endpoint>(&theirs).await;
    let templates = json!([endpoint("api", 8080), endpoint("web", 8081)]);
    fixture.artifact("cart", "cart", IMAGE, json!({"endpointTemplates": templates})).await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let message = fixture.wait_condition("cart", "Ready", "False", "EndpointConflict").await;
    assert!(message.contains(&taken), "{message}");
    // The workload is there, and told, and so is the other Endpoint.
    let deployment = fixture
        .until("the rest is there", "cart", |found| {
            let status = found.status.as_ref()?;
            (!status.inventory.is_empty() && status.image.is_some()).then(|| found.clone())
        })
        .await;
    fixture.live(&deployment, "Deployment").await;
    let other = kantor_api::names::generate(kantor_api::names::NameKind::Object, &["cart", "web"]);
    fixture.control.wait_exists::<Endpoint>(&format!("acme/{other}")).await;
    let still = fixture.control.wait_exists::<Endpoint>(&format!("acme/{taken}")).await;
    assert_eq!((still.uid(), &still.spec, still.owner_references()), (theirs.uid(), &theirs.spec, &[][..]));
    fixture.control.delete::<Endpoint>(&format!("acme/{taken}")).await;
    fixture.ready("cart").await;
    assert!(
        !fixture
            .control
            .wait_exists::<Endpoint>(&format!("acme/{taken}"))
            .await
            .owner_references()
            .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_appears_at_the_last_moment_is_not_overwritten() {
    let fixture = DeploymentFixture::open().await;
    let taken = kantor_api::names::generate(kantor_api::names::NameKind::Object, &["cart", "api"]);
    let creation = Match::new().verb(Verb::Apply).resource("endpoints").name(&taken).nth(1);
    let held = fixture.control.proxy.fault(Fault::when(creation).then(Action::HoldBefore));
    fixture.artifact("cart", "cart", IMAGE, json!({"endpointTemplates": [endpoint("api", 8080)]})).await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    held.await_hit(PATIENCE).await.unwrap();
    let theirs = json!({"type": "HTTP", "networkVisibilities": {},
        "backendRef": {"type": "componentRef", "componentRef": {"port": 1}}});
    let theirs = fixture.control.create::<Endpoint>(&labelled("Endpoint", &taken, &[], theirs)).await;
    held.release();
    let message = fixture.wait_condition("cart", "Ready", "False", "EndpointConflict").await;
    assert!(message.contains(&taken), "{message}");
    let still = fixture.control.wait_exists::<Endpoint>(&format!("acme/{taken}")).await;
    assert_eq!((still.uid(), &still.spec, still.owner_references()), (theirs.uid(), &theirs.spec, &[][..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_the_api_server_refuses_is_a_condition() {
    let fixture = DeploymentFixture::open().await;
    let version = "admissionregistration.k8s.io/v1";
    let policy = json!({"apiVersion": version, "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-endpoints"}, "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{"apiGroups": ["openchoreo.dev"], "apiVersions": ["*"],
                "operations": ["CREATE"], "resources": ["endpoints"]}]},
            "validations": [{"expression": "false", "message": "no more endpoints here"}]}});
    let binding = json!({"apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-endpoints"},
        "spec": {"policyName": "no-endpoints", "validationActions": ["Deny"]}});
    for object in [&policy, &binding] {
        fixture.control.control_plane.apply_yaml(&object.to_string()).await.unwrap();
    }
    // It takes the API server a moment to know of it.
    let endpoints: Api<kube::api::DynamicObject> = Api::namespaced_with(
        fixture.control.client.clone(),
        "acme",
        &resource("openchoreo.dev/v1alpha1/Endpoint"),
    );
    let probe = json!({"apiVersion": "openchoreo.dev/v1alpha1", "kind": "Endpoint", "metadata": {"name": "probe"},
        "spec": {"type": "HTTP", "backendRef": {"type": "componentRef", "componentRef": {"port": 1}}}});
    let dry = PatchParams { dry_run: true, ..PatchParams::apply("probe") };
    wait::until("Endpoints are refused", PATIENCE, || async {
        let tried = endpoints.patch("probe", &dry, &Patch::Apply(&probe)).await;
        Ok(match tried {
            Err(kube::Error::Api(status)) if status.message.contains("no more endpoints") => Seen::Done(()),
            other => Seen::NotYet(format!("{other:?}")),
        })
    })
    .await
    .unwrap();

    fixture.artifact("cart", "cart", IMAGE, json!({"endpointTemplates": [endpoint("api", 8080)]})).await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let message = fixture.wait_condition("cart", "Ready", "False", "ApplyRefused").await;
    assert!(message.contains("Endpoint") && message.contains("no more endpoints here"), "{message}");
    let deployment = fixture
        .until("the workload is told", "cart", |found| {
            (!found.status.as_ref()?.inventory.is_empty()).then(|| found.clone())
        })
        .await;
    fixture.live(&deployment, "Deployment").await;
    let bindings = resource(&format!("{version}/ValidatingAdmissionPolicyBinding"));
    let bindings: Api<kube::api::DynamicObject> = Api::all_with(fixture.control.client.clone(), &bindings);
    bindings.delete("no-endpoints", &kube::api::DeleteParams::default()).await.unwrap();
    // Somebody looks at it: it need not wait for its next try.
    wait::until("Endpoints are accepted", PATIENCE, || async {
        let tried = endpoints.patch("probe", &dry, &Patch::Apply(&probe)).await;
        Ok(tried.map_or_else(|error| Seen::NotYet(error.to_string()), |_| Seen::Done(())))
    })
    .await
    .unwrap();
    let touch = json!({"metadata": {"annotations": {"example.com/touched": "yes"}}});
    fixture.control.patch::<Deployment>("acme/cart", touch).await;
    fixture.ready("cart").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_of_the_artifact_that_does_not_arrive_is_not_ready() {
    // A call that hangs is given up later than this test ends.
    let fixture = DeploymentFixture::open_with(&["--plane-timeout=10m"]).await;
    fixture.artifact("cart", "cart", IMAGE, json!({})).await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    fixture.ready("cart").await;
    fixture.quiet().await;
    let observed = |found: &Deployment| {
        let status = serde_json::to_value(found.status.as_ref()?).ok()?;
        Some((status["observedArtifact"]["name"].clone(), status["observedArtifact"]["generation"].clone()))
    };
    let deployment = fixture.ready("cart").await;
    assert_eq!(observed(&deployment), Some((json!("cart"), json!(1))));

    let applies = Match::new().verb(Verb::Apply).group("apps").resource("deployments");
    let held = fixture.plane.proxy.fault(Fault::when(applies.nth(1)).then(Action::HoldBefore));
    let colour = |colour: &str| json!({"env": [{"key": "COLOUR", "value": colour}]});
    fixture.configure("cart", colour("black")).await;
    let generation = fixture.control.wait_exists::<DeployableArtifact>("acme/cart").await.metadata.generation;
    held.await_hit(PATIENCE).await.unwrap();
    let (status, reason, _) = fixture
        .until("it is no longer ready", "cart", |found| {
            condition(found, "Ready").filter(|(status, ..)| status != "True")
        })
        .await;
    assert_eq!((&*status, &*reason), ("False", "DeploymentProgressing"));
    let found = fixture.control.wait_exists::<Deployment>("acme/cart").await;
    assert_eq!(condition(&found, "Reconciling").unwrap().0, "True");
    assert_eq!(observed(&found), Some((json!("cart"), json!(1))), "it has not arrived");
    held.release();
    let arrived = fixture
        .until("it has arrived", "cart", |found| {
            (observed(found)?.1 == json!(generation) && is_ready(found)).then(|| found.clone())
        })
        .await;
    let workload = fixture.live(&arrived, "Deployment").await;
    assert_eq!(workload["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"], "black");
    fixture.quiet().await;

    // What arrives at once is said once.
    let mark = fixture.control.proxy.mark();
    fixture.edit_artifact("cart", json!({"configuration": {"application": {"args": []}}})).await;
    let generation = fixture.control.wait_exists::<DeployableArtifact>("acme/cart").await.metadata.generation;
    fixture
        .until("it is looked at", "cart", |found| (observed(found)?.1 == json!(generation)).then_some(()))
        .await;
    fixture.quiet().await;
    let told = fixture.control.proxy.writes_since(mark).resource("deployments/status");
    assert_eq!(told.len(), 1, "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_its_turn_with_an_edit_is_not_ready() {
    let fixture = DeploymentFixture::open_with(&["--plane-timeout=10m", "--plane-concurrency=2"]).await;
    fixture.component("till", "Service").await;
    for name in ["cart", "till"] {
        fixture.artifact(name, name, IMAGE, json!({})).await;
        fixture.deploy(name, name, "dev", json!({"deploymentArtifactRef": name})).await;
        fixture.ready(name).await;
    }
    fixture.quiet().await;
    let applies = Match::new().verb(Verb::Apply).group("apps").resource("deployments");
    let held = fixture.plane.proxy.fault(Fault::when(applies.nth(1)).then(Action::HoldBefore));
    let black = json!({"env": [{"key": "COLOUR", "value": "black"}]});
    fixture.configure("cart", black.clone()).await;
    held.await_hit(PATIENCE).await.unwrap();
    fixture.configure("till", black).await;
    fixture
        .until("it is no longer ready", "till", |found| {
            condition(found, "Ready").filter(|(status, ..)| status != "True")
        })
        .await;
    held.release();
    for name in ["cart", "till"] {
        fixture.ready(name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_event_has_its_own_note_and_what_needs_somebody_is_a_warning() {
    let fixture = DeploymentFixture::open().await;
    fixture.artifact("cart", "cart", IMAGE, json!({})).await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    fixture.ready("cart").await;
    // Another one takes part in no rollout that can end: there is no node of that size.
    fixture.configure("cart", json!({"resourceLimits": {"cpu": "5000", "memory": "1Gi"}})).await;
    let message = fixture.wait_condition("cart", "Ready", "False", "PodsNotRunning").await;
    assert!(message.contains("nsufficient cpu"), "{message}");
    let about = "reason=PodsNotRunning,regarding.name=cart";
    let found = events(&fixture, about, |found| !found.is_empty()).await;
    assert_eq!(found[0].type_.as_deref(), Some("Warning"), "{found:#?}");
    assert!(notes(&found)[0].contains("nsufficient cpu"), "{found:#?}");
    fixture.configure("cart", json!({"resourceLimits": {"cpu": "1", "memory": "1Gi"}})).await;
    fixture.ready("cart").await;

    // Refused twice within a few minutes, for another reason each time.
    for key in ["first", "second"] {
        let file = json!({"fileMounts": [{"mountPath": format!("/etc/{key}"),
            "valueFrom": {"configurationGroupRef": {"name": key, "key": "a"}}}]});
        fixture.configure("cart", file).await;
        let message = fixture.wait_condition("cart", "Ready", "False", "ConfigurationGroupNotFound").await;
        assert!(message.contains(key), "{message}");
        fixture.configure("cart", json!({"fileMounts": []})).await;
        fixture.ready("cart").await;
    }
    let about = "reason=ConfigurationGroupNotFound,regarding.name=cart";
    let found = events(&fixture, about, |found| found.len() == 2).await;
    for key in ["first", "second"] {
        assert!(notes(&found).iter().any(|note| note.contains(key)), "{found:#?}");
    }
    // The same again is the same Event.
    let before = looks(&fixture.control, "deployment").await;
    fixture
        .configure(
            "cart",
            json!({"fileMounts": [{"mountPath": "/etc/first",
        "valueFrom": {"configurationGroupRef": {"name": "first", "key": "a"}}}]}),
        )
        .await;
    until_looked_at(&fixture.control, "deployment", before).await;
    let found = events(&fixture, about, |found| found.iter().any(|event| event.series.is_some())).await;
    assert_eq!(found.len(), 2, "{found:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_stays_behind_is_named_however_long_it_is() {
    let fixture = DeploymentFixture::open().await;
    let long = |end: &str| format!("{}{end}", "long-".repeat(18));
    let mut component: Value = labelled(
        "Component",
        "long",
        &[("project", "shop")],
        json!({"owner": {"projectName": "shop"}, "type": "Service"}),
    );
    component["metadata"]["name"] = json!(long("component"));
    fixture.control.create::<Component>(&serde_json::from_value(component).unwrap()).await;
    let of_component = [("project", "shop"), ("component", "long")];
    let mut track: Value = labelled("DeploymentTrack", "main", &of_component, json!({}));
    track["metadata"]["name"] = json!(long("track"));
    fixture.control.create::<DeploymentTrack>(&serde_json::from_value(track).unwrap()).await;
    let files: Vec<Value> =
        (0..6).map(|number| json!({"mountPath": format!("/etc/{number}"), "value": "x"})).collect();
    let application = json!({"fileMounts": files, "scaling": {"hpa": {"minReplicas": 1, "maxReplicas": 2}}});
    let configuration = json!({"endpointTemplates": [endpoint("api", 8080)], "application": application});
    fixture.artifact("long", "long", IMAGE, configuration).await;
    let name = "a".repeat(250);
    let of_track = [
        ("project", "shop"),
        ("component", "long"),
        ("deployment-track", "main"),
        ("environment", "dev"),
        ("name", "long"),
    ];
    let mut deployment: Value =
        labelled("Deployment", "long", &of_track, json!({"deploymentArtifactRef": "long"}));
    deployment["metadata"]["name"] = json!(name);
    deployment["metadata"]["annotations"] = json!({"openchoreo.dev/deletion-policy": "Orphan"});
    fixture.control.create::<Deployment>(&serde_json::from_value(deployment).unwrap()).await;
    let deployment = fixture.ready(&name).await;
    let inventory = &deployment.status.as_ref().unwrap().inventory;
    assert!(inventory.len() >= 8, "{inventory:#?}");
    fixture.delete(&name).await;
    fixture.live(&deployment, "Deployment").await;

    let names: BTreeSet<String> =
        inventory.iter().map(|item| format!("{} {}/{}", item.kind, item.namespace, item.name)).collect();
    let about = format!("reason=LeftBehind,regarding.name={name}");
    let found = events(&fixture, &about, |found| {
        let notes = notes(found).join("\n");
        names.iter().all(|name| notes.contains(name))
    })
    .await;
    assert!(notes(&found).iter().all(|note| note.len() <= 1024), "{found:#?}");
    assert!(found.iter().all(|event| event.type_.as_deref() == Some("Warning")), "{found:#?}");
    let log = fixture.control.operator.log();
    let warned: String = log.lines().filter(|line| line.contains("WARN")).collect();
    assert!(names.iter().all(|name| warned.contains(name)), "{warned}");
    assert!(item(&deployment, "Deployment").name.len() > 150);
}
