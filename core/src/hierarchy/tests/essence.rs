use rstest::rstest;
use serde_json::{Value, json};

use crate::hierarchy::{Kind, sample::Sample};

const ALL: [Kind; 15] = [
    Kind::Organization,
    Kind::DataPlane,
    Kind::Environment,
    Kind::DeploymentPipeline,
    Kind::Project,
    Kind::Component,
    Kind::DeploymentTrack,
    Kind::Build,
    Kind::ConfigurationGroup,
    Kind::DeployableArtifact,
    Kind::Deployment,
    Kind::Endpoint,
    Kind::Release,
    Kind::Namespace,
    Kind::Secret,
];

fn sample(kind: Kind) -> Sample {
    let path = if matches!(kind, Kind::Organization | Kind::Namespace) { "acme" } else { "acme/x" };
    Sample::new(kind, path)
}

fn owner(controller: bool) -> Value {
    json!([{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": controller}])
}

#[rstest]
#[case::spec("metadata.generation", json!(2))]
#[case::label("metadata.labels.team", json!("blue"))]
#[case::annotation("metadata.annotations.note", json!("new"))]
#[case::deletion("metadata.deletionTimestamp", json!("2030-01-01T00:00:00Z"))]
#[case::another_object_of_the_name("metadata.uid", json!("another"))]
#[case::owner("metadata.ownerReferences", owner(true))]
fn those_who_need_an_object_are_concerned_by(#[case] path: &str, #[case] value: Value) {
    for kind in ALL {
        let before = sample(kind).facts();
        assert_ne!(sample(kind).set(path, value.clone()).facts().essence, before.essence, "{kind}");
    }
}

#[rstest]
#[case::conditions("status.conditions", json!([{
    "type": "Ready", "status": "True", "reason": "R", "message": "m",
    "lastTransitionTime": "2030-01-01T00:00:00Z"}]))]
#[case::observed_generation("status.observedGeneration", json!(1))]
#[case::finalizers("metadata.finalizers", json!(["a/b"]))]
#[case::managed_fields("metadata.managedFields", json!([{"manager": "m"}]))]
fn those_who_need_an_object_are_not_concerned_by(#[case] path: &str, #[case] value: Value) {
    for kind in ALL {
        let before = sample(kind).facts();
        assert_eq!(sample(kind).set(path, value.clone()).facts().essence, before.essence, "{kind}");
    }
}

#[test]
fn a_new_version_alone_concerns_only_those_who_need_a_secret() {
    for kind in ALL {
        let before = sample(kind).facts();
        let after = sample(kind).set("metadata.resourceVersion", "2").facts();
        // The values of Secrets are not watched: their version stands for them.
        assert_eq!(after.essence != before.essence, kind == Kind::Secret, "{kind}");
        assert_eq!(after.report, before.report, "{kind}");
    }
}

#[rstest]
#[case::the_image_of_a_build(Kind::Build, "status.imageStatus.image", json!("registry/x:2"), true)]
#[case::which_cluster_a_plane_is(Kind::DataPlane, "status.clusterUID", json!("uid"), true)]
#[case::the_namespaces_of_an_environment(
    Kind::Environment, "status.namespaces",
    json!([{"name": "n", "project": "p", "dataPlane": {"name": "p", "namespace": "acme"}}]), true
)]
#[case::the_address_of_an_endpoint(Kind::Endpoint, "status.address", json!("https://x"), false)]
#[case::the_plane_of_a_deployment(
    Kind::Deployment, "status.dataPlane", json!({"name": "p", "namespace": "acme", "uid": "u"}), false
)]
fn of_a_status_only_some_facts_concern_those_who_need_the_object(
    #[case] kind: Kind,
    #[case] path: &str,
    #[case] value: Value,
    #[case] concerned: bool,
) {
    let after = sample(kind).set(path, value).facts();
    assert_eq!(after.essence != sample(kind).facts().essence, concerned);
}

#[rstest]
#[case::the_address_of_an_endpoint(Kind::Endpoint, "status.address", json!("https://x"), true)]
#[case::whether_an_endpoint_is_ready(Kind::Endpoint, "status.conditions", json!([{
    "type": "Ready", "status": "True", "reason": "R", "message": "m",
    "lastTransitionTime": "2030-01-01T00:00:00Z"}]), true)]
#[case::the_plane_of_a_deployment(
    Kind::Deployment, "status.dataPlane", json!({"name": "p", "namespace": "acme", "uid": "u"}), true
)]
#[case::the_image_of_a_deployment(Kind::Deployment, "status.image", json!("x:1"), false)]
#[case::the_image_of_a_build(Kind::Build, "status.imageStatus.image", json!("registry/x:2"), false)]
#[case::the_status_of_a_track(Kind::DeploymentTrack, "status.observedGeneration", json!(1), false)]
#[case::the_spec_of_a_track(Kind::DeploymentTrack, "metadata.generation", json!(2), false)]
fn of_a_status_only_some_facts_concern_those_whom_the_object_needs(
    #[case] kind: Kind,
    #[case] path: &str,
    #[case] value: Value,
    #[case] concerned: bool,
) {
    let after = sample(kind).set(path, value).facts();
    assert_eq!(after.report != sample(kind).facts().report, concerned);
}

#[test]
fn a_deletion_concerns_those_whom_the_object_needs() {
    for kind in ALL {
        let after = sample(kind).deleted().facts();
        assert_ne!(after.report, sample(kind).facts().report, "{kind}");
        assert!(after.deleting && !sample(kind).facts().deleting);
    }
}
