//! The hierarchy: made and deleted in any order, cascades, pauses, names that two have.

mod chain;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Namespace;
use kantor::core::hierarchy::Kind;
use kantor_api::{Deployment, Endpoint, Environment, Organization, Project, organization::OrganizationSpec};
use kantor_testbed::{
    proxy::{Mark, Record, Verb},
    snapshot::{Options, Snapshot, assert_nothing_left},
    wait::{self, Seen},
};
use kube::{Api, api::DeleteParams};
use serde_json::json;

use self::chain::{Item, chain, create_all, shuffled, the, until_all_gone};
use crate::{
    deployment::support::{IMAGE, Shop, endpoint, item, labelled, namespace},
    support::{PATIENCE, Stage, is_ready, plane_kubeconfig},
};

async fn start() -> (Stage, Snapshot) {
    let stage = Stage::start().await;
    // Its account stays.
    plane_kubeconfig(&stage.control_plane).await;
    let before = Snapshot::settled(&stage.client, &Options::default(), PATIENCE).await.unwrap();
    found_acme(&stage).await;
    (stage, before)
}

async fn found_acme(stage: &Stage) {
    stage.create(&Organization::new("acme", OrganizationSpec {})).await;
    stage
        .until("the organization is ready", "acme", |o: Option<&Organization>| {
            o.filter(|o| is_ready(*o)).map(|_| ())
        })
        .await;
}

async fn delete_acme(stage: &Stage) {
    let organizations: Api<Organization> = Api::all(stage.client.clone());
    organizations.delete("acme", &DeleteParams::default()).await.unwrap();
}

/// The resources of which the operator has deleted objects, in order. One may be asked for twice before it is seen to go.
fn deleted_since(stage: &Stage, mark: Mark) -> Vec<String> {
    let deletes = stage.proxy.since(mark).verb(Verb::Delete).filter(Record::committed);
    let mut seen = BTreeSet::new();
    let mut deleted: Vec<(String, String)> =
        deletes.iter().map(|record| (record.resource().to_owned(), record.name().to_owned())).collect();
    deleted.retain(|object| seen.insert(object.clone()));
    deleted.into_iter().map(|(resource, _)| resource).collect()
}

/// How often a controller has reconciled.
async fn reconciles(stage: &Stage, controller: &str) -> u64 {
    let (_, metrics) = stage.operator.get("/metrics").await.unwrap();
    let label = format!("controller=\"{controller}\"");
    let counts = metrics.lines().filter(|l| l.starts_with("kantor_reconciles_total") && l.contains(&label));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// Waits until a controller has reconciled more often than `before` and has nothing more to do.
async fn until_reconciled(stage: &Stage, controller: &str, before: u64) {
    wait::until(&format!("{controller} is reconciled"), PATIENCE, || async {
        let now = reconciles(stage, controller).await;
        Ok(if now > before { Seen::Done(()) } else { Seen::NotYet(now.to_string()) })
    })
    .await
    .unwrap();
    stage.until_quiet().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_any_order_the_chain_becomes_ready_and_goes_without_a_trace() {
    let (stage, before) = start().await;
    let items = chain(&stage).await;

    // From the bottom up each says what it lacks, until the last parent is there.
    for item in items.iter().rev() {
        item.create(&stage).await;
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
        item.until_lacks(&stage, missing.0, missing.1).await;
    }
    for item in &items {
        item.until_ready(&stage).await;
    }

    // Deleted in the order in which they were made, each waits for those that use it.
    for item in &items {
        item.delete(&stage).await;
    }
    until_all_gone(&stage, &items).await;

    for seed in 0..4 {
        let (making, deleting) = (shuffled(&items, seed), shuffled(&items, seed + 100));
        create_all(&stage, &making).await;
        for item in &deleting {
            item.delete(&stage).await;
        }
        until_all_gone(&stage, &items).await;
    }

    // All at once, from the top.
    create_all(&stage, &items).await;
    delete_acme(&stage).await;
    stage.until_gone::<Organization>("acme").await;
    assert_nothing_left(&before, &stage.client, PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_takes_its_children_along_in_order_and_what_is_in_use_waits() {
    let (stage, before) = start().await;
    let items = chain(&stage).await;
    create_all(&stage, &items).await;
    let (component, track) = (the(&items, Kind::Component), the(&items, Kind::DeploymentTrack));
    let (artifact, deployment) = (the(&items, Kind::DeployableArtifact), the(&items, Kind::Deployment));
    let (environment, plane) = (the(&items, Kind::Environment), the(&items, Kind::DataPlane));

    // Nothing goes before what belongs to it has gone.
    deployment.patch(&stage, json!({"metadata": {"finalizers": ["test.example.com/hold"]}})).await;
    let mark = stage.proxy.mark();
    component.delete(&stage).await;
    let waiting = |what: &str| format!("waiting for {what} to be deleted");
    component
        .until_says(
            &stage,
            "Finalizing",
            "True",
            "ComponentFinalizing",
            &waiting("DeploymentTrack greeter-main"),
        )
        .await;
    track
        .until_says(
            &stage,
            "Finalizing",
            "True",
            "DeploymentTrackFinalizing",
            &waiting("Deployment deployment"),
        )
        .await;
    stage.until_quiet().await;
    assert_eq!(deleted_since(&stage, mark), ["deploymenttracks", "deployments"]);
    assert!(artifact.get(&stage).await.unwrap().metadata.deletion_timestamp.is_none());
    deployment.patch(&stage, json!({"metadata": {"finalizers": null}})).await;
    component.until_gone(&stage).await;
    assert_eq!(
        deleted_since(&stage, mark),
        ["deploymenttracks", "deployments", "deployableartifacts", "builds"]
    );
    for kind in [Kind::DeploymentTrack, Kind::Deployment, Kind::DeployableArtifact, Kind::Build] {
        assert!(the(&items, kind).get(&stage).await.is_none(), "{kind} is left");
    }
    the(&items, Kind::Project).until_ready(&stage).await;

    // Without its parents everything can be deleted all the same.
    for item in [artifact, track] {
        item.create(&stage).await;
        item.until(&stage, "is held", |object| object?.metadata.finalizers.clone()).await;
        item.delete(&stage).await;
        item.until_gone(&stage).await;
    }

    // What is in use names its users and waits for them. This one has no project that would take it along.
    deployment.create(&stage).await;
    plane.delete(&stage).await;
    environment.delete(&stage).await;
    plane.until_says(&stage, "Stalled", "True", "InUse", "still used by Environment acme-dev").await;
    environment.until_says(&stage, "Stalled", "True", "InUse", "still used by Deployment deployment").await;
    deployment.delete(&stage).await;
    environment.until_gone(&stage).await;
    plane.until_gone(&stage).await;

    // The organization takes everything along, also what no project has.
    for item in [plane, environment, component, track] {
        item.create(&stage).await;
    }
    create_all(&stage, &[the(&items, Kind::Build).clone(), artifact.clone(), deployment.clone()]).await;
    environment.until_ready(&stage).await;
    let stray = Item::new(
        Kind::Deployment,
        "stray",
        "stray",
        &["acme", "nowhere", "greeter", "main", "dev"],
        json!({"deploymentArtifactRef": "artifact"}),
    );
    stray.create(&stage).await;
    stage.until_quiet().await;
    let mark = stage.proxy.mark();
    delete_acme(&stage).await;
    stage.until_gone::<Organization>("acme").await;
    stage.until_gone::<Namespace>("acme").await;
    assert_eq!(
        deleted_since(&stage, mark),
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
    assert_nothing_left(&before, &stage.client, PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_as_it_should_be_costs_nothing_and_what_is_paused_is_left_alone() {
    let (mut stage, _) = start().await;
    let items = chain(&stage).await;
    create_all(&stage, &items).await;
    let (component, track) = (the(&items, Kind::Component), the(&items, Kind::DeploymentTrack));
    stage.until_quiet().await;

    // Everything is looked at again, and nothing is written.
    let mark = stage.proxy.mark();
    let before = reconciles(&stage, "deployable-artifact").await;
    for item in &items {
        item.patch(&stage, json!({"metadata": {"annotations": {"touched": "yes"}}})).await;
    }
    until_reconciled(&stage, "deployable-artifact", before).await;
    stage.proxy.assert_no_writes_since(mark);
    stage.restart_operator().await;
    until_reconciled(&stage, "deployable-artifact", 0).await;
    // Once at the start, and once more when its plane is connected anew: there is nothing new to say of it.
    until_reconciled(&stage, "data-plane", 1).await;
    until_reconciled(&stage, "environment", 1).await;
    stage.proxy.assert_no_writes_since(mark);

    // Two of one name are an error of those who mean one of them, until there is one.
    let second = Item::new(
        Kind::Component,
        "second-greeter",
        "greeter",
        &["acme", "shop"],
        json!({"owner": {"projectName": "shop"}, "type": "Service"}),
    );
    second.create(&stage).await;
    track.until_lacks(&stage, "ReferenceAmbiguous", "second-greeter, shop-greeter").await;
    component.until_ready(&stage).await;
    second.patch(&stage, json!({"metadata": {"labels": {"openchoreo.dev/name": "other"}}})).await;
    track.until_ready(&stage).await;

    // A paused object says so, and only that is written.
    stage.until_quiet().await;
    let mark = stage.proxy.mark();
    component.patch(&stage, json!({"metadata": {"annotations": {"openchoreo.dev/paused": "true"}}})).await;
    component.until_says(&stage, "Stalled", "True", "Paused", "openchoreo.dev/paused").await;
    component.until_says(&stage, "Ready", "True", "ComponentReady", "ready").await;
    let before = reconciles(&stage, "component").await;
    component.delete(&stage).await;
    until_reconciled(&stage, "component", before).await;
    // The Deployment below says that it rests, with an Event.
    let writes = stage
        .proxy
        .writes_since(mark)
        .filter(|r| r.target.subresource.as_deref() != Some("status") && r.resource() != "events");
    assert!(writes.is_empty(), "{writes}");
    assert!(track.get(&stage).await.unwrap().metadata.deletion_timestamp.is_none());
    assert_eq!(component.get(&stage).await.unwrap().metadata.finalizers.unwrap().len(), 1);
    component.patch(&stage, json!({"metadata": {"annotations": {"openchoreo.dev/paused": null}}})).await;
    component.until_gone(&stage).await;
    track.until_gone(&stage).await;
    second.until_ready(&stage).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_deleted_without_the_children_of_the_original() {
    let (stage, _) = start().await;
    let items = chain(&stage).await;
    create_all(&stage, &items).await;
    stage.until_quiet().await;
    let mark = stage.proxy.mark();
    for (kind, child) in [
        (Kind::Component, Kind::DeploymentTrack),
        (Kind::Project, Kind::Component),
        (Kind::DeploymentTrack, Kind::DeployableArtifact),
        (Kind::Environment, Kind::DeploymentPipeline),
        (Kind::DataPlane, Kind::Environment),
    ] {
        let (copy, child) = (the(&items, kind).copied("copy"), the(&items, child));
        copy.create(&stage).await;
        child.until_lacks(&stage, "ReferenceAmbiguous", "copy").await;
        copy.until(&stage, "is held", |object| object?.metadata.finalizers.clone()).await;
        copy.delete(&stage).await;
        copy.until_gone(&stage).await;
        child.until_ready(&stage).await;
    }
    assert_eq!(deleted_since(&stage, mark), [] as [&str; 0]);
    for item in &items {
        let found = item.get(&stage).await.unwrap_or_else(|| panic!("{item:?} is gone"));
        assert!(found.metadata.deletion_timestamp.is_none(), "{found:#?}");
    }

    // Of two that both go, nothing stays.
    let copy = the(&items, Kind::Component).copied("copy");
    copy.create(&stage).await;
    copy.until(&stage, "is held", |object| object?.metadata.finalizers.clone()).await;
    copy.delete(&stage).await;
    the(&items, Kind::Component).delete(&stage).await;
    for kind in [Kind::Component, Kind::DeploymentTrack, Kind::Deployment, Kind::DeployableArtifact] {
        the(&items, kind).until_gone(&stage).await;
    }
    copy.until_gone(&stage).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_for_the_original_goes_on_when_a_copy_is_deleted() {
    let shop = Shop::open().await;
    let stage = &shop.stage;
    shop.artifact("cart", "cart", IMAGE, json!({"endpointTemplates": [endpoint("api", 8080)]})).await;
    shop.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let deployment = shop.ready("cart").await;
    let home = namespace(&deployment);
    let uids = async || {
        let live = shop.live(&deployment, "Deployment").await["metadata"]["uid"].clone();
        let space = shop.plane.get("v1/Namespace", "", &home).await.unwrap();
        assert!(space["metadata"]["deletionTimestamp"].is_null(), "{space:#}");
        (live, space["metadata"]["uid"].clone())
    };
    let before = uids().await;

    // An environment: it has taken the namespace into its own record.
    let copy: Environment =
        labelled("Environment", "dev-copy", &[("name", "dev")], json!({"dataPlaneRef": "plane"}));
    stage.create(&copy).await;
    shop.says("cart", "Ready", "False", "ReferenceAmbiguous").await;
    stage
        .until("the copy has recorded the namespace", "acme/dev-copy", |found: Option<&Environment>| {
            let recorded = &found?.status.as_ref()?.namespaces;
            recorded.iter().any(|record| record.name == home).then_some(())
        })
        .await;
    stage.delete::<Environment>("acme/dev-copy").await;
    stage.until_gone::<Environment>("acme/dev-copy").await;
    shop.ready("cart").await;
    assert_eq!(uids().await, before);

    // A project: the namespaces are recorded under the name that both have.
    let spec = json!({"deploymentPipelineRef": "default"});
    stage.create::<Project>(&labelled("Project", "shop-copy", &[("name", "shop")], spec)).await;
    shop.says("cart", "Ready", "False", "ReferenceAmbiguous").await;
    stage
        .until("the copy is held", "acme/shop-copy", |found: Option<&Project>| {
            found?.metadata.finalizers.clone()
        })
        .await;
    stage.delete::<Project>("acme/shop-copy").await;
    stage.until_gone::<Project>("acme/shop-copy").await;
    shop.ready("cart").await;
    assert_eq!(uids().await, before);

    // A Deployment: the Endpoint is the other one's.
    let endpoints: Api<Endpoint> = Api::namespaced(stage.client.clone(), "acme");
    let endpoint = endpoints.list(&kube::api::ListParams::default()).await.unwrap().items.remove(0);
    let labels = [
        ("project", "shop"),
        ("component", "cart"),
        ("deployment-track", "main"),
        ("environment", "dev"),
        ("name", "cart"),
    ];
    let spec = json!({"deploymentArtifactRef": "cart"});
    stage.create::<Deployment>(&labelled("Deployment", "cart-copy", &labels, spec)).await;
    shop.says("cart-copy", "Ready", "False", "DuplicateDeployment").await;
    shop.delete("cart-copy").await;
    let now = endpoints.get(&endpoint.metadata.name.unwrap()).await.unwrap();
    assert_eq!((now.metadata.uid, now.metadata.deletion_timestamp), (endpoint.metadata.uid, None));
    shop.ready("cart").await;
    assert_eq!(uids().await, before);
    assert_eq!(item(&shop.ready("cart").await, "Deployment").name, item(&deployment, "Deployment").name);
}
