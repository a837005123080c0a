//! What a Deployment had is gone before it is, also where its namespace stays.

use kantor_api::{Deployment, common::InventoryItem};
use kantor_testbed::proxy::{Action, Fault, Mark, Match, Record, Verb};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::support::{IMAGE, Shop, endpoint, kinds, namespace};
use crate::{
    observing::looked_at,
    support::{PATIENCE, condition},
};

/// The writes that took the finalizers off a Deployment.
fn let_go(shop: &Shop, mark: Mark, name: &str) -> Vec<Record> {
    let patches = shop.stage.proxy.writes_since(mark).resource("deployments").name(name);
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
async fn furnish(shop: &Shop) -> Vec<Deployment> {
    let application = json!({
        "env": [{"key": "COLOUR", "value": "blue"}],
        "fileMounts": [{"mountPath": "/etc/menu", "value": "tea"}],
        "scaling": {"hpa": {"minReplicas": 1, "maxReplicas": 2}},
    });
    let configuration = json!({"endpointTemplates": [endpoint("api", 8080)], "application": application});
    shop.artifact("cart", "cart", IMAGE, configuration).await;
    shop.component("report", "ScheduledTask").await;
    let yearly = json!({"application": {"task": {"schedule": {"cron": "0 0 1 1 *"}}}});
    shop.artifact("report", "report", IMAGE, yearly).await;
    shop.component("import", "ManualTask").await;
    shop.artifact("import", "import", IMAGE, json!({})).await;
    let mut all = vec![];
    for name in ["cart", "report", "import"] {
        shop.deploy(name, name, "dev", json!({"deploymentArtifactRef": name})).await;
        all.push(shop.ready(name).await);
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_is_let_go_after_all_it_had_while_its_environment_stays() {
    let shop = Shop::open().await;
    let all = furnish(&shop).await;
    let every: Vec<Vec<&str>> = all.iter().map(kinds).collect();
    let had = |kind: &str| every.iter().flatten().any(|found| *found == kind);
    for kind in ["ConfigMap", "Deployment", "HorizontalPodAutoscaler", "Service", "CronJob", "Job"] {
        assert!(had(kind), "{kind} is in no story: {every:?}");
    }
    let home = namespace(&all[0]);

    for deployment in &all {
        let name = deployment.name_any();
        shop.quiet().await;
        let (here, there) = (shop.stage.proxy.mark(), shop.plane.proxy.mark());
        // Held back, one deletion keeps all of it: what it waits for is told, and nothing is let go.
        let workload = deployment.status.as_ref().unwrap().inventory.last().unwrap().clone();
        let deletion = Match::new().verb(Verb::Delete).name(&workload.name).nth(1);
        let held = shop.plane.proxy.fault(Fault::when(deletion).then(Action::HoldBefore));
        shop.stage.delete::<Deployment>(&format!("acme/{name}")).await;
        held.await_hit(PATIENCE).await.unwrap();
        assert!(let_go(&shop, here, &name).is_empty());
        let kept: Deployment = shop.stage.there(&format!("acme/{name}")).await;
        assert!(!kept.finalizers().is_empty());
        held.release();
        shop.stage.until_gone::<Deployment>(&format!("acme/{name}")).await;
        // At this moment, and not some time later.
        for item in &deployment.status.as_ref().unwrap().inventory {
            let found = shop.plane.get(&kind_of(item), &item.namespace, &item.name).await;
            assert!(found.is_none(), "{name} is gone and left {} {}", item.kind, item.name);
        }
        let (deletions, ends) =
            (shop.plane.proxy.writes_since(there).verb(Verb::Delete), let_go(&shop, here, &name));
        assert!(deletions.len() >= deployment.status.as_ref().unwrap().inventory.len(), "{deletions}");
        assert!(!ends.is_empty(), "nobody let go of {name}");
        let last = deletions.iter().map(|write| write.at).max().unwrap();
        assert!(ends.iter().all(|end| end.at > last), "{name} was let go before its last deletion");
    }
    // What they shared is the environment's.
    let namespace = shop.plane.get("v1/Namespace", "", &home).await.unwrap();
    assert_eq!(namespace["status"]["phase"], "Active");
    let found = shop.plane.get("cilium.io/v2/CiliumNetworkPolicy", &home, "default-policy").await;
    assert!(found.is_some());
}

/// While what a Deployment had cannot be listed, it is not known to be gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_is_not_let_go_while_what_it_had_cannot_be_listed() {
    let mut shop = Shop::open().await;
    shop.artifact("cart", "cart", IMAGE, json!({})).await;
    shop.deploy("cart", "cart", "dev", json!({"deploymentArtifactRef": "cart"})).await;
    let deployment = shop.ready("cart").await;
    let workload = deployment.status.as_ref().unwrap().inventory[0].clone();
    shop.stage.operator.kill().unwrap();
    shop.stage.operator.ended().await.unwrap();
    // Nothing of it is recorded: only a list tells what there is.
    let forgotten = json!({"status": {"inventory": []}});
    patch_status(&shop, forgotten).await;
    shop.stage.delete::<Deployment>("acme/cart").await;
    let lists = Match::new().verb(Verb::List).group("apps").resource("deployments");
    let refused = shop.plane.proxy.fault(Fault::when(lists).then(Action::status(403)));
    crate::release::support::start_operator(&mut shop.stage, &["--plane-timeout=2s"]).await;
    refused.await_hit(PATIENCE).await.unwrap();
    shop.until("it says what it waits for", "cart", |found| {
        let (status, _, message) = condition(found, "Finalizing")?;
        (status == "True" && message.contains("Deployment")).then_some(())
    })
    .await;
    let touch = json!({"metadata": {"annotations": {"touched": "yes"}}});
    looked_at(&shop.stage, &["deployment"], shop.stage.patch::<Deployment>("acme/cart", touch)).await;
    let kept: Deployment = shop.stage.there("acme/cart").await;
    assert!(!kept.finalizers().is_empty());
    assert!(shop.plane.get("apps/v1/Deployment", &workload.namespace, &workload.name).await.is_some());
    refused.remove();
    shop.stage.until_gone::<Deployment>("acme/cart").await;
    assert!(shop.plane.get("apps/v1/Deployment", &workload.namespace, &workload.name).await.is_none());
}

async fn patch_status(shop: &Shop, patch: Value) {
    let api: kube::Api<Deployment> = kube::Api::namespaced(shop.stage.client.clone(), "acme");
    let patch = kube::api::Patch::Merge(patch);
    api.patch_status("cart", &kube::api::PatchParams::default(), &patch).await.unwrap();
}
