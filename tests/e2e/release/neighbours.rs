//! Two organizations on one cluster: neither reads, changes or deletes what the other has.

use kantor_api::{DataPlane, Environment, Organization, Release};
use kantor_core::tenancy::{Tenant, own_namespace};
use kantor_testbed::proxy::{Record, Verb};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use super::support::{ReleaseFixture, at_home, config_map, entry, home, pods};
use crate::{
    acme::object,
    support::{OperatorFixture, condition, is_ready},
};

const ENFORCE: &str = "pod-security.kubernetes.io/enforce";

/// Makes organization `mallory` with a DataPlane `plane` of this kubeconfig, and environment `dev` on it.
pub async fn mallory(control: &OperatorFixture, kubeconfig: &str, policy: Value) {
    control.create(&Organization::new("mallory", kantor_api::organization::OrganizationSpec {})).await;
    control.until_ready::<Organization>("mallory").await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "plane", "namespace": "mallory"}, "stringData": {"kubeconfig": kubeconfig}});
    control.create::<k8s_openapi::api::core::v1::Secret>(&serde_json::from_value(secret).unwrap()).await;
    let spec = json!({"kubernetesCluster": {"secretRef": {"name": "plane"}}, "releasePolicy": policy});
    control.create(&of_mallory::<DataPlane>("DataPlane", "plane", spec)).await;
    control.until_ready::<DataPlane>("mallory/plane").await;
    let spec = json!({"dataPlaneRef": "plane"});
    control.create(&of_mallory::<Environment>("Environment", "dev", spec)).await;
    control.until_ready::<Environment>("mallory/dev").await;
}

/// An object of organization `mallory`.
pub fn of_mallory<K: serde::de::DeserializeOwned>(kind: &str, name: &str, spec: Value) -> K {
    let mut value: Value = object(kind, name, spec);
    value["metadata"]["namespace"] = json!("mallory");
    value["metadata"]["labels"]["openchoreo.dev/organization"] = json!("mallory");
    serde_json::from_value(value).unwrap()
}

/// A Release of organization `mallory`.
pub fn release_of_mallory(name: &str, objects: &[Value]) -> Release {
    let resources: Vec<Value> = objects
        .iter()
        .enumerate()
        .map(|(i, object)| json!({"id": i.to_string(), "object": object}))
        .collect();
    let owner = json!({"projectName": "shop", "componentName": "cart"});
    of_mallory("Release", name, json!({"owner": owner, "environmentName": "dev", "resources": resources}))
}

/// The namespace that project `shop` of `mallory` has in environment `dev` by its name.
pub fn home_of_mallory() -> String {
    own_namespace(&Tenant { organization: "mallory", project: "shop", environment: "dev" })
}

/// Waits until `Ready` of a Release of `mallory` has this reason, as it now is; returns it with the message.
pub async fn mallory_says(control: &OperatorFixture, name: &str, reason: &str) -> (Release, String) {
    control
        .until(&format!("{name} says {reason}"), &format!("mallory/{name}"), |found: Option<&Release>| {
            let release = found?;
            let said = condition(release, "Ready")?;
            let observed = release.status.as_ref()?.observed_generation == release.metadata.generation;
            (observed && said.1 == reason).then(|| (release.clone(), said.2))
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_organization_has_is_neither_taken_over_nor_told_of() {
    let fixture = ReleaseFixture::open().await;
    let (control, plane) = (&fixture.control, &fixture.plane);
    let policy = json!({"clusterScopedKinds": ["PriorityClass.scheduling.k8s.io"], "namespaces": ["shared"]});
    fixture.allow(policy.clone()).await;
    mallory(control, &plane.kubeconfig.to_yaml(), policy).await;
    plane.create("v1/Namespace", "", json!({"metadata": {"name": "shared"}})).await;
    let class = |value: i32| {
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": "gold"}, "value": value})
    };
    let mut settings = config_map("settings", json!({"of": "acme"}));
    settings["metadata"]["namespace"] = json!("shared");
    fixture.create("payments-migration", &[("class", class(7)), ("settings", settings.clone())]).await;
    fixture.ready("payments-migration").await;
    let gold = ("scheduling.k8s.io/v1/PriorityClass", "", "gold");
    let shared = ("v1/ConfigMap", "shared", "settings");
    let now = async || {
        let mut found = vec![];
        for (kind, namespace, name) in [gold, shared] {
            found.push(plane.get(kind, namespace, name).await.unwrap());
        }
        found
    };
    let before = now().await;

    settings["data"] = json!({"of": "mallory"});
    let mut greedy = release_of_mallory("greedy", &[class(9), settings]);
    greedy.annotations_mut().insert("openchoreo.dev/adopt".to_owned(), "true".to_owned());
    let mark = plane.proxy.mark();
    control.create(&greedy).await;
    let (release, message) = mallory_says(control, "greedy", "ApplyRefused").await;
    assert!(message.contains("PriorityClass gold") && message.contains("settings"), "{message}");
    let status = serde_json::to_string(&release.status).unwrap();
    for told in ["acme", "payments-migration", before[0]["metadata"]["uid"].as_str().unwrap()] {
        assert!(!status.contains(told), "it tells {told}: {status}");
    }
    assert_eq!(now().await, before);
    control.delete::<Release>("mallory/greedy").await;
    control.until_gone::<Release>("mallory/greedy").await;
    assert_eq!(now().await, before);
    let landed = plane.proxy.writes_since(mark).filter(Record::committed);
    assert!(landed.is_empty(), "{landed}");
    fixture.ready("payments-migration").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_somebody_wrote_leads_to_nothing_of_others() {
    let fixture = ReleaseFixture::open().await;
    let (control, plane) = (&fixture.control, &fixture.plane);
    mallory(control, &plane.kubeconfig.to_yaml(), Value::Null).await;
    let theirs = plane.create("v1/ConfigMap", "kube-system", json!({"metadata": {"name": "theirs"}})).await;
    let uid = theirs.uid().unwrap();
    let own = config_map("own", json!({"a": "b"}));
    let own = {
        let mut own = own;
        own["metadata"]["namespace"] = json!(home_of_mallory());
        own
    };
    let item = json!({"version": "v1", "kind": "ConfigMap", "namespace": "kube-system", "name": "theirs",
        "uid": uid});
    let releases: Api<Release> = Api::namespaced(control.client.clone(), "mallory");
    // On a plane of another organization, under a name of its own that leads there, and on its own.
    let cluster = control.wait_exists::<DataPlane>("acme/plane").await.status.unwrap().cluster_uid;
    // A record of a plane of another organization is looked for on every plane of the Release's own organization.
    let left = "ConfigMap kube-system/theirs";
    for (name, record) in [
        ("theirs", json!({"namespace": "acme", "name": "plane"})),
        // The cluster is known to it by another name.
        ("renamed", json!({"namespace": "acme", "name": "gone", "clusterUID": cluster})),
        ("own", json!({"namespace": "mallory", "name": "plane"})),
    ] {
        control.create(&release_of_mallory(name, std::slice::from_ref(&own))).await;
        control.until_ready::<Release>(&format!("mallory/{name}")).await;
        let forged = json!({"status": {"removing": [{"dataPlane": record, "objects": [item]}]}});
        releases.patch_status(name, &PatchParams::default(), &Patch::Merge(forged.clone())).await.unwrap();
        let note = note_of(control, name, "LeftBehind").await;
        assert!(note.contains(left), "{name}: {note}");
        assert!(plane.get("v1/ConfigMap", "kube-system", "theirs").await.is_some(), "{name}");
        // The same while it is being deleted: it does not stay for ever.
        let paused = |value: Value| json!({"metadata": {"annotations": {"openchoreo.dev/paused": value}}});
        control.patch::<Release>(&format!("mallory/{name}"), paused(json!("true"))).await;
        control
            .until("it rests", &format!("mallory/{name}"), |found: Option<&Release>| {
                (condition(found?, "Reconciling")?.1 == "Paused").then_some(())
            })
            .await;
        releases.patch_status(name, &PatchParams::default(), &Patch::Merge(forged)).await.unwrap();
        control.delete::<Release>(&format!("mallory/{name}")).await;
        control.patch::<Release>(&format!("mallory/{name}"), paused(Value::Null)).await;
        control.until_gone::<Release>(&format!("mallory/{name}")).await;
        assert!(plane.get("v1/ConfigMap", "kube-system", "theirs").await.is_some(), "{name}");
    }
}

/// The note of an Event about a Release of `mallory`, once there is one.
async fn note_of(control: &OperatorFixture, name: &str, reason: &str) -> String {
    use kantor_testbed::wait::{Seen, until};
    let events: Api<k8s_openapi::api::events::v1::Event> = Api::namespaced(control.client.clone(), "mallory");
    let fields = kube::api::ListParams::default().fields(&format!("reason={reason},regarding.name={name}"));
    until(&format!("an Event {reason} about {name}"), crate::support::PATIENCE, || async {
        let found = events.list(&fields).await?.items.into_iter().find_map(|event| event.note);
        Ok(found.map_or_else(|| Seen::NotYet("none".to_owned()), Seen::Done))
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_have_no_power_over_the_nodes_in_namespaces_that_kantor_makes() {
    let fixture = ReleaseFixture::open().await;
    let plane = &fixture.plane;
    let mut template = pods("root", "registry.example/root");
    template["spec"]["hostNetwork"] = json!(true);
    let pod = at_home("v1/Pod", "root", json!({"spec": template["spec"]}));
    fixture.create("root", &[("pod", pod.clone()), ("settings", config_map("settings", json!({})))]).await;
    let message = fixture.wait_condition("root", "Ready", "False", "ApplyRefused").await;
    assert!(message.contains("Pod") && message.contains("PodSecurity"), "{message}");
    assert!(plane.get("v1/Pod", &home(), "root").await.is_none());

    // The same where the Release brings the Namespace itself.
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "acme-own", "labels": {"organization-name": "acme"}}});
    let mut elsewhere = pod;
    elsewhere["metadata"]["namespace"] = json!("acme-own");
    fixture.create("own", &[("namespace", namespace), ("pod", elsewhere)]).await;
    let message = fixture.wait_condition("own", "Ready", "False", "ApplyRefused").await;
    assert!(message.contains("PodSecurity"), "{message}");

    // Who takes the level away, or has none from an earlier time, gets it.
    let level = |expected: &'static str| {
        move |found: Option<&Value>| (found?["metadata"]["labels"][ENFORCE] == expected).then_some(())
    };
    for name in [home(), "acme-own".to_owned()] {
        let without = json!({"metadata": {"labels": {ENFORCE: null}}});
        plane.patch("v1/Namespace", "", &name, without).await;
        plane.until("it has its level", ("v1/Namespace", "", &name), level("baseline")).await;
        // What is stricter stays; what the plane says counts for those that are there.
        plane
            .patch("v1/Namespace", "", &name, json!({"metadata": {"labels": {ENFORCE: "privileged"}}}))
            .await;
        plane.until("it has its level again", ("v1/Namespace", "", &name), level("baseline")).await;
    }
    fixture.control.patch::<DataPlane>("acme/plane", json!({"spec": {"podSecurity": "restricted"}})).await;
    for name in [home(), "acme-own".to_owned()] {
        plane.until("it has the plane's level", ("v1/Namespace", "", &name), level("restricted")).await;
    }
    fixture.delete("own").await;
    fixture.delete("root").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_changes_an_object_again_and_again_does_not_keep_the_plane_busy() {
    let fixture = ReleaseFixture::open().await;
    let plane = &fixture.plane;
    fixture.create("shop", &[("settings", config_map("settings", json!({"colour": "blue"})))]).await;
    fixture.ready("shop").await;
    let mark = plane.proxy.mark();
    let mut changes = 0;
    loop {
        changes += 1;
        assert!(changes < 30, "it goes on for ever");
        let red = json!({"data": {"colour": format!("red-{changes}")}});
        plane.patch("v1/ConfigMap", &home(), "settings", red).await;
        // Repaired, or said.
        let repaired = fixture
            .until("it is repaired, or that it is not is said", "shop", |release| {
                let (status, reason, message) = condition(release, "Applied")?;
                if status == "False" {
                    assert!(
                        reason == "ApplyFailed" && message.contains("again and again"),
                        "{reason}: {message}"
                    );
                    return Some(false);
                }
                let repairs = plane.proxy.writes_since(mark).resource("configmaps").filter(Record::committed);
                (repairs.len() >= changes).then_some(true)
            })
            .await;
        if !repaired {
            break;
        }
    }
    let repairs = plane.proxy.writes_since(mark).resource("configmaps").verb(Verb::Apply);
    assert!((3..=10).contains(&repairs.len()), "{repairs}");
    // In the end it is as it shall be.
    let blue = |found: Option<&Value>| (found?["data"]["colour"] == "blue").then_some(());
    plane.until("it is repaired", ("v1/ConfigMap", &home(), "settings"), blue).await;
    let release = fixture.ready("shop").await;
    assert!(is_ready(&release) && entry(&release, "settings").apply_error.is_none());
}
