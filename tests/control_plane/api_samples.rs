//! The sample application in `config/samples` is accepted as it is, and all its parts find each other.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use kantor_api::labels;
use kube::{
    Api,
    api::{ApiResource, DynamicObject},
    core::{GroupVersionKind, TypeMeta},
};
use serde_json::Value;

use crate::support::{apply, client, documents, name, namespace};

/// The objects of the samples in the order in which `kubectl apply -f` takes them.
fn samples() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/samples");
    let entries = fs::read_dir(&folder).expect("the samples can be listed");
    let paths: BTreeSet<_> = entries.map(|entry| entry.expect("a sample").path()).collect();
    paths
        .iter()
        .flat_map(|path| documents(&fs::read_to_string(path).expect("a sample can be read")))
        .collect()
}

fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"][key].as_str()
}

#[tokio::test]
async fn the_samples_are_accepted_in_the_order_of_their_files() {
    let client = client().await;
    // The operator would do this as soon as it sees the organization.
    namespace(&client, "acme").await;
    let crds = kantor_api::crds();
    for object in samples() {
        let types: TypeMeta = serde_json::from_value(object.clone()).expect("a type");
        let gvk = GroupVersionKind::try_from(&types).expect("a kind");
        let crd = crds.iter().find(|crd| crd.spec.names.kind == gvk.kind).expect("a kind of ours");
        let resource = ApiResource::from_gvk_with_plural(&gvk, &crd.spec.names.plural);
        let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        apply(&api, &object).await.unwrap_or_else(|error| panic!("{} {}: {error}", gvk.kind, name(&object)));
    }
}

#[test]
fn every_object_that_a_sample_refers_to_comes_before_it() {
    // Kind and logical name.
    let mut known = BTreeSet::new();
    let parents = BTreeMap::from([
        (labels::ORGANIZATION, "Organization"),
        (labels::PROJECT, "Project"),
        (labels::COMPONENT, "Component"),
        (labels::DEPLOYMENT_TRACK, "DeploymentTrack"),
        (labels::ENVIRONMENT, "Environment"),
    ]);
    let fields = [
        ("/spec/dataPlaneRef", "DataPlane"),
        ("/spec/deploymentPipelineRef", "DeploymentPipeline"),
        ("/spec/owner/projectName", "Project"),
        ("/spec/owner/componentName", "Component"),
        ("/spec/environmentName", "Environment"),
        ("/spec/deploymentArtifactRef", "DeployableArtifact"),
        ("/spec/promotionPaths/0/sourceEnvironmentRef", "Environment"),
        ("/spec/promotionPaths/0/targetEnvironmentRefs/0/name", "Environment"),
        ("/spec/configuration/application/env/0/valueFrom/configurationGroupRef/name", "ConfigurationGroup"),
        ("/spec/configuration/application/env/1/valueFrom/configurationGroupRef/name", "ConfigurationGroup"),
    ];
    for object in samples() {
        let what = format!("{} {}", object["kind"], name(&object));
        let by_label = parents.iter().filter_map(|(key, kind)| Some((*kind, label(&object, key)?)));
        let by_field =
            fields.iter().filter_map(|(path, kind)| Some((*kind, object.pointer(path)?.as_str()?)));
        for (kind, parent) in by_label.chain(by_field) {
            assert!(
                known.contains(&(kind.to_owned(), parent.to_owned())),
                "{what}: no {kind} {parent} before it"
            );
        }
        let kind = object["kind"].as_str().expect("a kind");
        let own = label(&object, labels::NAME).unwrap_or_else(|| panic!("{what} has no logical name"));
        assert!(known.insert((kind.to_owned(), own.to_owned())), "{what} is there twice");
    }
    let kinds: BTreeSet<_> = known.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds.len(), 11, "{kinds:?}");
}
