//! Releases that go from one plane to another, or lose theirs.

use k8s_openapi::api::core::v1::Secret;
use kantor_api::{DataPlane, Environment, Release};
use kantor_testbed::{
    proxy::{Record, Verb},
    snapshot::{Options, Snapshot, assert_nothing_left},
};
use serde_json::{Value, json};

use super::support::{Plane, ReleaseFixture, config_map, entry, home, release};
use crate::{
    acme::environment,
    support::{PATIENCE, condition, is_ready},
};

async fn settled(plane: &Plane) -> Snapshot {
    Snapshot::settled(&plane.client, &Options::default(), PATIENCE).await.unwrap()
}

/// When the object was applied on one plane, and deleted on the other.
fn order(to: &Plane, from: &Plane) -> bool {
    let made = to.proxy.requests().verb(Verb::Apply).name("it").filter(Record::committed);
    let gone = from.proxy.requests().verb(Verb::Delete).name("it");
    made.last().unwrap().at < gone.last().unwrap().at
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_moves_is_on_the_new_plane_before_it_leaves_the_old_one() {
    let (fixture, other) = tokio::join!(ReleaseFixture::open(), Plane::start("other"));
    fixture.register("other", &other).await;
    let (here, there) = tokio::join!(fixture.snapshot(), settled(&other));
    let plane = &fixture.plane;
    // In a namespace that does not go by the environment's name.
    let mut it = config_map("it", json!({"colour": "blue"}));
    it["metadata"]["namespace"] = json!("acme-shop");
    for data_plane in ["plane", "other"] {
        let policy = json!({"spec": {"releasePolicy": {"namespaces": ["{organization}-*"]}}});
        fixture.control.patch::<DataPlane>(&format!("acme/{data_plane}"), policy).await;
    }
    fixture.create("shop", &[("it", it)]).await;
    fixture.ready("shop").await;

    // The environment moves.
    let to = |name: &str| json!({"spec": {"dataPlaneRef": name}});
    fixture.control.patch::<Environment>("acme/dev", to("other")).await;
    other.wait_exists("v1/ConfigMap", "acme-shop", "it").await;
    plane.gone("v1/ConfigMap", "acme-shop", "it").await;
    assert_nothing_left(&here, &plane.client, PATIENCE).await;
    assert!(order(&other, plane));
    let moved = fixture
        .until("it is settled there", "shop", |r| (is_ready(r) && on(r) == "other").then(|| r.clone()))
        .await;
    assert_eq!(moved.status.unwrap().removing, []);

    // The Release points elsewhere, while the plane that it leaves does not answer.
    environment(&fixture.control, "back", "plane").await;
    other.proxy.refuse(true);
    crate::acme::wait_plane_condition(&fixture.control, "other", "Unknown", "DataPlaneUnreachable").await;
    fixture.control.patch::<Release>("acme/shop", json!({"spec": {"environmentName": "back"}})).await;
    plane.wait_exists("v1/ConfigMap", "acme-shop", "it").await;
    let message = fixture.wait_condition("shop", "Ready", "False", "RemovingResources").await;
    assert!(message.contains("data plane other") && message.contains("does not answer"), "{message}");
    let waiting = fixture.until("it is there", "shop", |release| Some(release.clone())).await;
    assert_eq!(on(&waiting), "plane");
    let removing = &waiting.status.as_ref().unwrap().removing;
    assert_eq!((&*removing[0].data_plane.name, &*removing[0].objects[0].name), ("other", "it"));
    // That is said once.
    fixture.quiet().await;
    let mark = fixture.control.proxy.mark();
    fixture.touch("shop").await;
    assert_eq!(fixture.statuses_since(mark, "shop"), [] as [Value; 0]);

    other.proxy.refuse(false);
    other.gone("v1/ConfigMap", "acme-shop", "it").await;
    assert_nothing_left(&there, &other.client, PATIENCE).await;
    fixture.until("it is settled", "shop", |r| (is_ready(r) && on(r) == "plane").then_some(())).await;
    fixture.delete("shop").await;
    assert_nothing_left(&here, &plane.client, PATIENCE).await;
}

/// Name of the plane that a Release says it is on.
fn on(release: &Release) -> &str {
    &release.status.as_ref().unwrap().data_plane.as_ref().unwrap().name
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_whose_plane_is_lost_waits_and_can_be_let_go_with_a_list_of_what_stays() {
    let fixture = ReleaseFixture::open().await;
    let resources = [("a", config_map("one", json!({}))), ("b", config_map("two", json!({})))];
    for name in ["orphan", "unregistered"] {
        let resources: Vec<_> = resources
            .iter()
            .map(|(id, object)| {
                let mut object = object.clone();
                object["metadata"]["name"] = json!(format!("{name}-{id}"));
                (*id, object)
            })
            .collect();
        fixture.create(name, &resources).await;
        fixture.ready(name).await;
    }
    fixture.plane.proxy.refuse(true);
    fixture.wait_condition("orphan", "Ready", "Unknown", "DataPlaneUnreachable").await;
    let unknown = fixture.until("it is there", "orphan", |release| Some(release.clone())).await;
    assert_eq!(entry(&unknown, "a").health_status.as_deref(), Some("Unknown"));
    fixture.ask_to_delete("orphan").await;
    let (reason, message) = fixture.finalizing("orphan", |message| message.contains("plane")).await;
    assert_eq!(reason, "CleanupFailed", "{message}");
    // That is said once, however often it is tried.
    fixture.control.until_quiet().await;
    let mark = fixture.control.proxy.mark();
    for _ in 0..3 {
        fixture.touch("orphan").await;
    }
    assert_eq!(fixture.statuses_since(mark, "orphan"), [] as [Value; 0]);

    fixture.annotate("orphan", "openchoreo.dev/deletion-policy", "Orphan").await;
    fixture.until_gone("orphan").await;
    let note = fixture.event("orphan", "LeftBehind").await;
    for part in ["data plane plane", "ConfigMap", "orphan-a", "orphan-b", &*home()] {
        assert!(note.contains(part), "{note}");
    }
    fixture.plane.wait_exists("v1/ConfigMap", &home(), "orphan-a").await;

    // Nobody will reach a plane any more that is not registered.
    fixture.control.patch::<DataPlane>("acme/plane", json!({"metadata": {"finalizers": null}})).await;
    fixture.control.delete::<DataPlane>("acme/plane").await;
    force_away(&fixture).await;
    let release = fixture
        .until("it misses its plane", "unregistered", |release| {
            condition(release, "Ready")
                .filter(|said| said.0 != "True" && said.2.contains("plane"))
                .map(|_| release.clone())
        })
        .await;
    assert!(release.metadata.deletion_timestamp.is_none());
    fixture.delete("unregistered").await;
    let note = fixture.event("unregistered", "LeftBehind").await;
    assert!(note.contains("unregistered-a") && note.contains("unregistered-b"), "{note}");
}

/// Takes the finalizers off the DataPlane until it is gone.
async fn force_away(fixture: &ReleaseFixture) {
    let planes: kube::Api<DataPlane> = kube::Api::namespaced(fixture.control.client.clone(), "acme");
    let patch = kube::api::Patch::Merge(json!({"metadata": {"finalizers": null}}));
    kantor_testbed::wait::until("the DataPlane is gone", PATIENCE, || async {
        let _ = planes.patch("plane", &kube::api::PatchParams::default(), &patch).await;
        let gone = planes.get_opt("plane").await?.is_none();
        Ok(if gone {
            kantor_testbed::wait::Seen::Done(())
        } else {
            kantor_testbed::wait::Seen::NotYet(String::new())
        })
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_of_namespace_default_serves_releases_that_have_none_of_their_own() {
    let fixture = ReleaseFixture::open().await;
    let plane = &fixture.plane;
    let kubeconfig = plane.kubeconfig.to_yaml();
    let metadata = |name: &str| json!({"name": name, "namespace": "default"});
    let secret = json!({"metadata": metadata("common"), "stringData": {"kubeconfig": kubeconfig}});
    fixture.control.create::<Secret>(&serde_json::from_value(secret).unwrap()).await;
    let choreo = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "openchoreo.dev/v1alpha1", "kind": kind, "metadata": metadata(name), "spec": spec});
    let common =
        choreo("DataPlane", "common", json!({"kubernetesCluster": {"secretRef": {"name": "common"}}}));
    fixture.control.create::<DataPlane>(&serde_json::from_value(common).unwrap()).await;
    let shared = choreo("Environment", "shared", json!({"dataPlaneRef": "common"}));

    // It waits for one, wherever it comes from.
    let mut shop = release("shop", &[("it", config_map("it", json!({})))]);
    shop.spec.environment_name = "shared".into();
    let namespace = kantor_core::tenancy::own_namespace(&kantor_core::tenancy::Tenant {
        organization: "acme",
        project: "shop",
        environment: "shared",
    });
    shop.spec.resources[0].object["metadata"]["namespace"] = json!(namespace);
    fixture.control.create(&shop).await;
    let message = fixture.wait_condition("shop", "Ready", "False", "ReferenceNotFound").await;
    assert!(message.contains("shared"), "{message}");
    fixture.control.create::<Environment>(&serde_json::from_value(shared).unwrap()).await;
    let release = fixture.ready("shop").await;
    let record = release.status.as_ref().unwrap().data_plane.clone().unwrap();
    assert_eq!((&*record.namespace, &*record.name), ("default", "common"));
    let uid = entry(&release, "it").uid.clone();
    assert!(uid.is_some());

    // Its own namespace has one now. The cluster is the same: the object stays.
    environment(&fixture.control, "shared", "plane").await;
    let release = fixture
        .until("it is where its own environment is", "shop", |release| {
            let record = release.status.as_ref()?.data_plane.as_ref()?;
            (is_ready(release) && (&*record.namespace, &*record.name) == ("acme", "plane"))
                .then(|| release.clone())
        })
        .await;
    assert_eq!(entry(&release, "it").uid, uid);
    fixture.delete("shop").await;
    plane.gone("v1/ConfigMap", &namespace, "it").await;
}
