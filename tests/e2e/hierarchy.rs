//! The hierarchy: made and deleted in any order, cascades, pauses, names that two have.

mod chain;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Namespace;
use kantor_api::{Deployment, Endpoint, Environment, Organization, Project, organization::OrganizationSpec};
use kantor_core::hierarchy::Kind;
use kantor_testbed::{
    proxy::{Mark, Record, Verb},
    snapshot::{Options, Snapshot, assert_nothing_left},
    wait::{self, Seen},
};
use kube::{Api, api::DeleteParams};
use serde_json::json;

use self::chain::{Item, chain, create_all, shuffled, the, until_all_gone};
use crate::{
    deployment::support::{DeploymentFixture, IMAGE, endpoint, item, labelled, namespace},
    support::{OperatorFixture, PATIENCE, is_ready, plane_kubeconfig},
};

async fn start() -> (OperatorFixture, Snapshot) {
    let control = OperatorFixture::start().await;
    // Its account stays.
    plane_kubeconfig(&control.control_plane).await;
    let before = Snapshot::settled(&control.client, &Options::default(), PATIENCE).await.unwrap();
    found_acme(&control).await;
    (control, before)
}

async fn found_acme(control: &OperatorFixture) {
    control.create(&Organization::new("acme", OrganizationSpec {})).await;
    control
        .until("the organization is ready", "acme", |o: Option<&Organization>| {
            o.filter(|o| is_ready(*o)).map(|_| ())
        })
        .await;
}

async fn delete_acme(control: &OperatorFixture) {
    let organizations: Api<Organization> = Api::all(control.client.clone());
    organizations.delete("acme", &DeleteParams::default()).await.unwrap();
}

/// The resources of which the operator has deleted objects, in order. One may be asked for twice before it is seen to go.
fn deleted_since(control: &OperatorFixture, mark: Mark) -> Vec<String> {
    let deletes = control.proxy.since(mark).verb(Verb::Delete).filter(Record::committed);
    let mut seen = BTreeSet::new();
    let mut deleted: Vec<(String, String)> =
        deletes.iter().map(|record| (record.resource().to_owned(), record.name().to_owned())).collect();
    deleted.retain(|object| seen.insert(object.clone()));
    deleted.into_iter().map(|(resource, _)| resource).collect()
}

/// How often a controller has reconciled.
async fn reconciles(control: &OperatorFixture, controller: &str) -> u64 {
    let (_, metrics) = control.operator.get("/metrics").await.unwrap();
    let label = format!("controller=\"{controller}\"");
    let counts = metrics.lines().filter(|l| l.starts_with("kantor_reconciles_total") && l.contains(&label));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// Waits until a controller has reconciled more often than `before` and has nothing more to do.
async fn until_reconciled(control: &OperatorFixture, controller: &str, before: u64) {
    wait::until(&format!("{controller} is reconciled"), PATIENCE, || async {
        let now = reconciles(control, controller).await;
        Ok(if now > before { Seen::Done(()) } else { Seen::NotYet(now.to_string()) })
    })
    .await
    .unwrap();
    control.until_quiet().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_any_order_the_chain_becomes_ready_and_goes_without_a_trace() {
    let (control, before) = start().await;
    let items = chain(&control).await;

    // From the bottom up each says what it lacks, until the last parent is there.
    for item in items.iter().rev() {
        item.create(&control).await;
        let missing = match item.kind {
            Kind::DataPlane => ("SecretNotFound", "kubeconfig"),
            Kind::Environment => ("ReferenceNotFound", "DataPlane plane does not exist in organization acme"),
            Kind::DeploymentPipeline => {
                ("ReferenceNotFound", "Environment dev does not exist in organization acme")
            }
            Kind::Project => {
                ("ReferenceNotFound", "DeploymentPipeline pipeline does not exist in organization acme")
            }
            Kind::Component => ("ReferenceNotFound", "Project shop does not exist in organization acme"),
            Kind::DeploymentTrack => {
                ("ReferenceNotFound", "Component greeter does not exist in project shop of organization acme")
            }
            Kind::DeployableArtifact => (
                "ReferenceNotFound",
                "DeploymentTrack main does not exist in component greeter of project shop of organization acme",
            ),
            _ => continue,
        };
        item.until_lacks(&control, missing.0, missing.1).await;
    }
    for item in &items {
        item.until_ready(&control).await;
    }

    // Deleted in the order in which they were made, each waits for those that use it.
    for item in &items {
        item.delete(&control).await;
    }
    until_all_gone(&control, &items).await;

    for seed in 0..4 {
        let (making, deleting) = (shuffled(&items, seed), shuffled(&items, seed + 100));
        create_all(&control, &making).await;
        for item in &deleting {
            item.delete(&control).await;
        }
        until_all_gone(&control, &items).await;
    }

    // All at once, from the top.
    create_all(&control, &items).await;
    delete_acme(&control).await;
    control.until_gone::<Organization>("acme").await;
    assert_nothing_left(&before, &control.client, PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_takes_its_children_along_in_order_and_what_is_in_use_waits() {
    let (control, before) = start().await;
    let items = chain(&control).await;
    create_all(&control, &items).await;
    let (component, track) = (the(&items, Kind::Component), the(&items, Kind::DeploymentTrack));
    let (artifact, deployment) = (the(&items, Kind::DeployableArtifact), the(&items, Kind::Deployment));
    let (environment, plane) = (the(&items, Kind::Environment), the(&items, Kind::DataPlane));

    // Nothing goes before what belongs to it has gone.
    deployment.patch(&control, json!({"metadata": {"finalizers": ["test.example.com/hold"]}})).await;
    let mark = control.proxy.mark();
    component.delete(&control).await;
    let waiting = |what: &str| format!("waiting for {what} to be deleted");
    component
        .until_says(
            &control,
            "Finalizing",
            "True",
            "ComponentFinalizing",
            &waiting("DeploymentTrack greeter-main"),
        )
        .await;
    track
        .until_says(
            &control,
            "Finalizing",
            "True",
            "DeploymentTrackFinalizing",
            &waiting("Deployment deployment"),
        )
        .await;
    control.until_quiet().await;
    assert_eq!(deleted_since(&control, mark), ["deploymenttracks", "deployments"]);
    assert!(artifact.get(&control).await.unwrap().metadata.deletion_timestamp.is_none());
    deployment.patch(&control, json!({"metadata": {"finalizers": null}})).await;
    component.until_gone(&control).await;
    assert_eq!(
        deleted_since(&control, mark),
        ["deploymenttracks", "deployments", "deployableartifacts", "builds"]
    );
    for kind in [Kind::DeploymentTrack, Kind::Deployment, Kind::DeployableArtifact, Kind::Build] {
        assert!(the(&items, kind).get(&control).await.is_none(), "{kind} is left");
    }
    the(&items, Kind::Project).until_ready(&control).await;

    // Without its parents everything can be deleted all the same.
    for item in [artifact, track] {
        item.create(&control).await;
        item.until(&control, "is held", |object| object?.metadata.finalizers.clone()).await;
        item.delete(&control).await;
        item.until_gone(&control).await;
    }

    // What is in use names its users and waits for them. This one has no project that would take it along.
    deployment.create(&control).await;
    plane.delete(&control).await;
    environment.delete(&control).await;
    plane.until_says(&control, "Stalled", "True", "InUse", "still used by Environment acme-dev").await;
    environment.until_says(&control, "Stalled", "True", "InUse", "still used by Deployment deployment").await;
    deployment.delete(&control).await;
    environment.until_gone(&control).await;
    plane.until_gone(&control).await;

    // The organization takes everything along, also what no project has.
    for item in [plane, environment, component, track] {
        item.create(&control).await;
    }
    create_all(&control, &[the(&items, Kind::Build).clone(), artifact.clone(), deployment.clone()]).await;
    environment.until_ready(&control).await;
    let stray = Item::new(
        Kind::Deployment,
        "stray",
        "stray",
        &["acme", "nowhere", "greeter", "main", "dev"],
        json!({"deploymentArtifactRef": "artifact"}),
    );
    stray.create(&control).await;
    control.until_quiet().await;
    let mark = control.proxy.mark();
    delete_acme(&control).await;
    control.until_gone::<Organization>("acme").await;
    control.until_gone::<Namespace>("acme").await;
    assert_eq!(
        deleted_since(&control, mark),
        [
            "projects",
            "components",
            "deploymenttracks",
            "deployments",
            "deployableartifacts",
            "builds",
            "deployments",
            "environments",
            "dataplanes",
            "namespaces",
        ]
    );
    assert_nothing_left(&before, &control.client, PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_as_it_should_be_costs_nothing_and_what_is_paused_is_left_alone() {
    let (mut control, _) = start().await;
    let items = chain(&control).await;
    create_all(&control, &items).await;
    let (component, track) = (the(&items, Kind::Component), the(&items, Kind::DeploymentTrack));
    control.until_quiet().await;

    // Everything is looked at again, and nothing is written.
    let mark = control.proxy.mark();
    let before = reconciles(&control, "deployable-artifact").await;
    for item in &items {
        item.patch(&control, json!({"metadata": {"annotations": {"touched": "yes"}}})).await;
    }
    until_reconciled(&control, "deployable-artifact", before).await;
    control.proxy.assert_no_writes_since(mark);
    control.restart_operator().await;
    until_reconciled(&control, "deployable-artifact", 0).await;
    // Once at the start, and once more when its plane is connected anew: there is nothing new to say of it.
    until_reconciled(&control, "data-plane", 1).await;
    until_reconciled(&control, "environment", 1).await;
    control.proxy.assert_no_writes_since(mark);

    // Two of one name are an error of those who mean one of them, until there is one.
    let second = Item::new(
        Kind::Component,
        "second-greeter",
        "greeter",
        &["acme", "shop"],
        json!({"owner": {"projectName": "shop"}, "type": "Service"}),
    );
    second.create(&control).await;
    track.until_lacks(&control, "ReferenceAmbiguous", "second-greeter, shop-greeter").await;
    component.until_ready(&control).await;
    second.patch(&control, json!({"metadata": {"labels": {"openchoreo.dev/name": "other"}}})).await;
    track.until_ready(&control).await;

    // A paused object says so, and only that is written.
    control.until_quiet().await;
    let mark = control.proxy.mark();
    component.patch(&control, json!({"metadata": {"annotations": {"openchoreo.dev/paused": "true"}}})).await;
    component.until_says(&control, "Stalled", "True", "Paused", "openchoreo.dev/paused").await;
    component.until_says(&control, "Ready", "True", "ComponentReady", "ready").await;
    let before = reconciles(&control, "component").await;
    component.delete(&control).await;
    until_reconciled(&control, "component", before).await;
    // The Deployment below says that it rests, with an Event.
    let writes = control
        .proxy
        .writes_since(mark)
        .filter(|r| r.target.subresource.as_deref() != Some("status") && r.resource() != "events");
    assert!(writes.is_empty(), "{writes}");
    assert!(track.get(&control).await.unwrap().metadata.deletion_timestamp.is_none());
    assert_eq!(component.get(&control).await.unwrap().metadata.finalizers.unwrap().len(), 1);
    component.patch(&control, json!({"metadata": {"annotations": {"openchoreo.dev/paused": null}}})).await;
    component.until_gone(&control).await;
    track.until_gone(&control).await;
    second.until_ready(&control).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_deleted_without_the_children_of_the_original() {
    let (control, _) = start().await;
    let items = chain(&control).await;
    create_all(&control, &items).await;
    control.until_quiet().await;
    let mark = control.proxy.mark();
    for (kind, child) in [
        (Kind::Component, Kind::DeploymentTrack),
        (Kind::Project, Kind::Component),
        (Kind::DeploymentTrack, Kind::DeployableArtifact),
        (Kind::Environment, Kind::DeploymentPipeline),
        (Kind::DataPlane, Kind::Environment),
    ] {
        let (copy, child) = (the(&items, kind).copied("copy"), the(&items, child));
        copy.create(&control).await;
        child.until_lacks(&control, "ReferenceAmbiguous", "copy").await;
        copy.until(&control, "is held", |object| object?.metadata.finalizers.clone()).await;
        copy.delete(&control).await;
        copy.until_gone(&control).await;
        child.until_ready(&control).await;
    }
    assert_eq!(deleted_since(&control, mark), [] as [&str; 0]);
    for item in &items {
        let found = item.get(&control).await.unwrap_or_else(|| panic!("{item:?} is gone"));
        assert!(found.metadata.deletion_timestamp.is_none(), "{found:#?}");
    }

    // Of two that both go, nothing stays.
    let copy = the(&items, Kind::Component).copied("copy");
    copy.create(&control).await;
    copy.until(&control, "is held", |object| object?.metadata.finalizers.clone()).await;
    copy.delete(&control).await;
    the(&items, Kind::Component).delete(&control).await;
    for kind in [Kind::Component, Kind::DeploymentTrack, Kind::Deployment, Kind::DeployableArtifact] {
        the(&items, kind).until_gone(&control).await;
    }
    copy.until_gone(&control).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_for_the_original_goes_on_when_a_copy_is_deleted() {
    let fixture = DeploymentFixture::open().await;
    let control = &fixture.control;
    fixture.artifact("cart", "cart", IMAGE, json!({"endpointTemplates": [endpoint("api", 8080)]})).await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let deployment = fixture.ready("cart").await;
    let home = namespace(&deployment);
    let uids = async || {
        let live = fixture.live(&deployment, "Deployment").await["metadata"]["uid"].clone();
        let space = fixture.plane.get("v1/Namespace", "", &home).await.unwrap();
        assert!(space["metadata"]["deletionTimestamp"].is_null(), "{space:#}");
        (live, space["metadata"]["uid"].clone())
    };
    let before = uids().await;

    // An environment: it has taken the namespace into its own record.
    let copy: Environment =
        labelled("Environment", "dev-copy", &[("name", "dev")], json!({"dataPlaneRef": "plane"}));
    control.create(&copy).await;
    fixture.wait_condition("cart", "Ready", "False", "ReferenceAmbiguous").await;
    control
        .until("the copy has recorded the namespace", "acme/dev-copy", |found: Option<&Environment>| {
            let recorded = &found?.status.as_ref()?.namespaces;
            recorded.iter().any(|record| record.name == home).then_some(())
        })
        .await;
    control.delete::<Environment>("acme/dev-copy").await;
    control.until_gone::<Environment>("acme/dev-copy").await;
    fixture.ready("cart").await;
    assert_eq!(uids().await, before);

    // A project: the namespaces are recorded under the name that both have.
    let spec = json!({"deploymentPipelineRef": "default"});
    control.create::<Project>(&labelled("Project", "shop-copy", &[("name", "shop")], spec)).await;
    fixture.wait_condition("cart", "Ready", "False", "ReferenceAmbiguous").await;
    control
        .until("the copy is held", "acme/shop-copy", |found: Option<&Project>| {
            found?.metadata.finalizers.clone()
        })
        .await;
    control.delete::<Project>("acme/shop-copy").await;
    control.until_gone::<Project>("acme/shop-copy").await;
    fixture.ready("cart").await;
    assert_eq!(uids().await, before);

    // A Deployment: the Endpoint is the other one's.
    let endpoints: Api<Endpoint> = Api::namespaced(control.client.clone(), "acme");
    let endpoint = endpoints.list(&kube::api::ListParams::default()).await.unwrap().items.remove(0);
    let labels = [
        ("project", "shop"),
        ("component", "cart"),
        ("deployment-track", "main"),
        ("environment", "dev"),
        ("name", "cart"),
    ];
    let spec = json!({"deploymentArtifactRef": "cart"});
    control.create::<Deployment>(&labelled("Deployment", "cart-copy", &labels, spec)).await;
    fixture.wait_condition("cart-copy", "Ready", "False", "DuplicateDeployment").await;
    fixture.delete("cart-copy").await;
    let now = endpoints.get(&endpoint.metadata.name.unwrap()).await.unwrap();
    assert_eq!((now.metadata.uid, now.metadata.deletion_timestamp), (endpoint.metadata.uid, None));
    fixture.ready("cart").await;
    assert_eq!(uids().await, before);
    assert_eq!(item(&fixture.ready("cart").await, "Deployment").name, item(&deployment, "Deployment").name);
}
