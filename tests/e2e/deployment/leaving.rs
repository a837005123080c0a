//! What a Deployment had is gone before it is, also where its namespace stays.

use kantor_api::{Deployment, common::InventoryItem};
use kantor_testbed::proxy::{Action, Fault, Mark, Match, Record, Verb};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::support::{DeploymentFixture, IMAGE, endpoint, kinds, namespace};
use crate::{
    observing::looked_at,
    support::{PATIENCE, condition},
};

/// The writes that took the finalizers off a Deployment.
fn let_go(fixture: &DeploymentFixture, mark: Mark, name: &str) -> Vec<Record> {
    let patches = fixture.control.proxy.writes_since(mark).resource("deployments").name(name);
    let is_end = |write: &Record| {
        write.verb() == Verb::Patch
            && write.body.json().is_some_and(|body| body["metadata"]["finalizers"] == json!([]))
    };
    patches.filter(is_end).into_iter().collect()
}

fn kind_of(item: &InventoryItem) -> String {
    let version =
        if item.group.is_empty() { item.version.clone() } else { format!("{}/{}", item.group, item.version) };
    format!("{version}/{}", item.kind)
}

/// All kinds that Deployments have on planes, in two Deployments.
async fn seed(fixture: &DeploymentFixture) -> Vec<Deployment> {
    let application = json!({
        "env": [{"key": "COLOUR", "value": "blue"}],
        "fileMounts": [{"mountPath": "/etc/menu", "value": "tea"}],
        "scaling": {"hpa": {"minReplicas": 1, "maxReplicas": 2}},
    });
    let configuration = json!({"endpointTemplates": [endpoint("api", 8080)], "application": application});
    fixture.artifact("cart", "cart", IMAGE, configuration).await;
    fixture.component("report", "ScheduledTask").await;
    let yearly = json!({"application": {"task": {"schedule": {"cron": "0 0 1 1 *"}}}});
    fixture.artifact("report", "report", IMAGE, yearly).await;
    fixture.component("import", "ManualTask").await;
    fixture.artifact("import", "import", IMAGE, json!({})).await;
    let mut all = vec![];
    for name in ["cart", "report", "import"] {
        fixture.deploy(name, name, "dev", json!({"deploymentArtifactRef": name})).await;
        all.push(fixture.ready(name).await);
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_is_let_go_after_all_it_had_while_its_environment_stays() {
    let fixture = DeploymentFixture::open().await;
    let all = seed(&fixture).await;
    let every: Vec<Vec<&str>> = all.iter().map(kinds).collect();
    let had = |kind: &str| every.iter().flatten().any(|found| *found == kind);
    for kind in ["ConfigMap", "Deployment", "HorizontalPodAutoscaler", "Service", "CronJob", "Job"] {
        assert!(had(kind), "{kind} is in no scenario: {every:?}");
    }
    let home = namespace(&all[0]);

    for deployment in &all {
        let name = deployment.name_any();
        fixture.quiet().await;
        let (here, there) = (fixture.control.proxy.mark(), fixture.plane.proxy.mark());
        // Held back, one deletion keeps all of it: what it waits for is told, and nothing is let go.
        let workload = deployment.status.as_ref().unwrap().inventory.last().unwrap().clone();
        let deletion = Match::new().verb(Verb::Delete).name(&workload.name).nth(1);
        let held = fixture.plane.proxy.fault(Fault::when(deletion).then(Action::HoldBefore));
        fixture.control.delete::<Deployment>(&format!("acme/{name}")).await;
        held.await_hit(PATIENCE).await.unwrap();
        assert!(let_go(&fixture, here, &name).is_empty());
        let kept: Deployment = fixture.control.wait_exists(&format!("acme/{name}")).await;
        assert!(!kept.finalizers().is_empty());
        held.release();
        fixture.control.until_gone::<Deployment>(&format!("acme/{name}")).await;
        // At this moment, and not some time later.
        for item in &deployment.status.as_ref().unwrap().inventory {
            let found = fixture.plane.get(&kind_of(item), &item.namespace, &item.name).await;
            assert!(found.is_none(), "{name} is gone and left {} {}", item.kind, item.name);
        }
        let (deletions, ends) =
            (fixture.plane.proxy.writes_since(there).verb(Verb::Delete), let_go(&fixture, here, &name));
        assert!(deletions.len() >= deployment.status.as_ref().unwrap().inventory.len(), "{deletions}");
        assert!(!ends.is_empty(), "nobody let go of {name}");
        let last = deletions.iter().map(|write| write.at).max().unwrap();
        assert!(ends.iter().all(|end| end.at > last), "{name} was let go before its last deletion");
    }
    // What they shared is the environment's.
    let namespace = fixture.plane.get("v1/Namespace", "", &home).await.unwrap();
    assert_eq!(namespace["status"]["phase"], "Active");
    let found = fixture.plane.get("cilium.io/v2/CiliumNetworkPolicy", &home, "default-policy").await;
    assert!(found.is_some());
}

/// While what a Deployment had cannot be listed, it is not known to be gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_is_not_let_go_while_what_it_had_cannot_be_listed() {
    let mut fixture = DeploymentFixture::open().await;
    fixture.artifact("cart", "cart", IMAGE, json!({})).await;
    fixture.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let deployment = fixture.ready("cart").await;
    let workload = deployment.status.as_ref().unwrap().inventory[0].clone();
    fixture.control.operator.kill().unwrap();
    fixture.control.operator.ended().await.unwrap();
    // Nothing of it is recorded: only a list tells what there is.
    let forgotten = json!({"status": {"inventory": []}});
    patch_status(&fixture, forgotten).await;
    fixture.control.delete::<Deployment>("acme/cart").await;
    let lists = Match::new().verb(Verb::List).group("apps").resource("deployments");
    let refused = fixture.plane.proxy.fault(Fault::when(lists).then(Action::status(403)));
    crate::release::support::start_operator(&mut fixture.control, &["--plane-timeout=2s"]).await;
    refused.await_hit(PATIENCE).await.unwrap();
    fixture
        .until("it says what it waits for", "cart", |found| {
            let (status, _, message) = condition(found, "Finalizing")?;
            (status == "True" && message.contains("Deployment")).then_some(())
        })
        .await;
    let touch = json!({"metadata": {"annotations": {"touched": "yes"}}});
    looked_at(&fixture.control, &["deployment"], fixture.control.patch::<Deployment>("acme/cart", touch))
        .await;
    let kept: Deployment = fixture.control.wait_exists("acme/cart").await;
    assert!(!kept.finalizers().is_empty());
    assert!(fixture.plane.get("apps/v1/Deployment", &workload.namespace, &workload.name).await.is_some());
    refused.remove();
    fixture.control.until_gone::<Deployment>("acme/cart").await;
    assert!(fixture.plane.get("apps/v1/Deployment", &workload.namespace, &workload.name).await.is_none());
}

async fn patch_status(fixture: &DeploymentFixture, patch: Value) {
    let api: kube::Api<Deployment> = kube::Api::namespaced(fixture.control.client.clone(), "acme");
    let patch = kube::api::Patch::Merge(patch);
    api.patch_status("cart", &kube::api::PatchParams::default(), &patch).await.unwrap();
}
