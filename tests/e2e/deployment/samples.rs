//! The samples, applied in any order.

use std::{collections::BTreeSet, path::Path};

use kantor_api::{Deployment, Organization};
use kantor_testbed::{
    apply,
    snapshot::{Options, Snapshot, assert_nothing_left},
    wait::{self, Seen},
};
use serde_json::json;
use tokio::sync::Mutex;

use super::support::{full_plane, item};
use crate::support::{OperatorFixture, PATIENCE, is_ready};

/// Every document of the samples, by the order of the files.
fn documents() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/samples");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let texts: Vec<String> = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    texts.iter().flat_map(|text| text.split("\n---\n")).map(ToOwned::to_owned).collect()
}

/// The same in other orders: each goes through the list in steps of another length, from the backward one on.
fn shuffled(documents: &[String]) -> impl Iterator<Item = Vec<String>> {
    let length = documents.len();
    let orders = (2..length).rev().map(move |step| (1..=length).map(move |n| n * step % length));
    // A step that has a divisor in common with the length does not reach all.
    let whole = orders.filter(move |order| order.clone().collect::<BTreeSet<_>>().len() == length);
    whole.map(|order| order.map(|n| documents[n].clone()).collect())
}

/// Applies documents one after the other; those that cannot be, for want of their namespace, after the others.
async fn apply_all(control: &OperatorFixture, documents: Vec<String>) {
    let left = Mutex::new(documents);
    wait::until("all samples are applied", PATIENCE, || async {
        let mut left = left.lock().await;
        let mut why = String::new();
        for document in std::mem::take(&mut *left) {
            if let Err(error) = apply::apply_yaml(&control.client, &document).await {
                why = format!("{error:#}");
                left.push(document);
            }
        }
        Ok(if left.is_empty() { Seen::Done(()) } else { Seen::NotYet(why) })
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_samples_become_ready_in_whatever_order_they_are_applied() {
    let (control, development, production) =
        tokio::join!(OperatorFixture::start(), full_plane("development"), full_plane("production"));
    for plane in [&development, &production] {
        // One of the samples is a Release.
        plane.cluster.any_release_kubeconfig().await.unwrap();
    }
    let options = Options::default();
    let mut before = vec![];
    for client in [&control.client, &development.client, &production.client] {
        before.push(Snapshot::settled(client, &options, PATIENCE).await.unwrap());
    }
    let mut documents = documents();
    for (name, plane) in [("plane-development", &development), ("plane-production", &production)] {
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": "acme"}, "stringData": {"kubeconfig": plane.kubeconfig.to_yaml()}});
        documents.push(secret.to_string());
    }
    for documents in shuffled(&documents).take(3) {
        apply_all(&control, documents).await;
        for (name, replicas) in [("greeter-development", 1), ("greeter-production", 2)] {
            let deployment = control
                .until(&format!("{name} is ready"), &format!("acme/{name}"), |found: Option<&Deployment>| {
                    found.filter(|found| is_ready(*found)).cloned()
                })
                .await;
            let plane = if replicas == 1 { &development } else { &production };
            let workload = item(&deployment, "Deployment");
            let live = plane.get("apps/v1/Deployment", &workload.namespace, &workload.name).await.unwrap();
            assert_eq!(live["metadata"]["labels"]["component-name"], "greeter");
        }
        control
            .until("the release is ready", "acme/greeter-extras", |found: Option<&kantor_api::Release>| {
                found.filter(|found| is_ready(*found)).map(|_| ())
            })
            .await;
        control.delete::<Organization>("acme").await;
        control.until_gone::<Organization>("acme").await;
        for (before, client) in before.iter().zip([&control.client, &development.client, &production.client])
        {
            assert_nothing_left(before, client, PATIENCE).await;
        }
    }
}
