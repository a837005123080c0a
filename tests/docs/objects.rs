//! Objects of Kantor's API that the pages show are accepted by a real API server.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Namespace;
use kantor_testbed::Cluster;
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

use super::pages::{Block, Page, pages, root};

/// The objects of a block that are of Kantor's API. A block may also be a part of one; those have no apiVersion.
fn objects(page: &Page, block: &Block) -> Vec<DynamicObject> {
    if !block.text.contains("apiVersion: openchoreo.dev/") {
        return vec![];
    }
    let at = format!("{}:{}", page.path.display(), block.line);
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&block.text).unwrap_or_else(|error| panic!("{at}: {error}"));
    let ours = documents.into_iter().filter(|document| {
        document["apiVersion"].as_str().is_some_and(|version| version.starts_with("openchoreo.dev/"))
    });
    ours.map(|document| serde_json::from_value(document).unwrap_or_else(|error| panic!("{at}: {error}")))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_the_pages_show_are_accepted() {
    let mut shown = vec![];
    for page in pages() {
        for block in page.blocks().iter().filter(|block| block.info.split(' ').next() == Some("yaml")) {
            let at = format!("{}:{}", page.path.display(), block.line);
            shown.extend(objects(&page, block).into_iter().map(|object| (at.clone(), object)));
        }
    }
    assert!(shown.len() >= 3, "there are objects to try");
    let cluster = Cluster::start().await.unwrap();
    cluster.apply_dir(root().join("crds")).await.unwrap();
    let client = cluster.client();
    let namespaces: BTreeSet<String> = shown.iter().filter_map(|(_, object)| object.namespace()).collect();
    for name in namespaces {
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
    }
    for (at, object) in shown {
        let types = object.types.clone().unwrap();
        let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types).unwrap());
        let api: Api<DynamicObject> = match object.namespace() {
            Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let params = PatchParams::apply("docs").force().dry_run();
        let accepted = api.patch(&object.name_any(), &params, &Patch::Apply(&object)).await;
        accepted.unwrap_or_else(|error| panic!("{at}: {} {}: {error}", types.kind, object.name_any()));
    }
}
