//! What the API accepts comes back the same through Kantor's types. The samples use every field of every kind,
//! in the shape in which platforms that already speak this API write them.

use std::fmt::Debug;

use kantor_api::{
    Build, Component, ConfigurationGroup, DataPlane, DeployableArtifact, Deployment, DeploymentPipeline,
    DeploymentTrack, Endpoint, Environment, HostnameClaim, Organization, Project, Release,
};
use kube::Api;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use crate::support::{api_in, apply, cluster_api, documents, name};

const NAMESPACE: &str = "api-accepts";

async fn round_trips<K>(api: Api<K>, samples: &str)
where
    K: Clone + Debug + Serialize + DeserializeOwned,
{
    for sample in documents(samples) {
        let what = format!("{} {}", sample["kind"], name(&sample));
        let typed = apply(&api, &sample).await.unwrap_or_else(|error| panic!("{what} is refused: {error}"));
        let typed = json!(typed);
        assert_eq!(typed["spec"], sample["spec"], "{what} comes back with another spec");
        assert_eq!(typed["status"], sample["status"], "{what} comes back with another status");
    }
}

#[tokio::test]
async fn organizations_are_accepted_and_come_back_the_same() {
    round_trips(cluster_api::<Organization>().await, include_str!("samples/accepted/organization.yaml"))
        .await;
}

#[tokio::test]
async fn projects_are_accepted_and_come_back_the_same() {
    round_trips(api_in::<Project>(NAMESPACE).await, include_str!("samples/accepted/project.yaml")).await;
}

#[tokio::test]
async fn components_are_accepted_and_come_back_the_same() {
    round_trips(api_in::<Component>(NAMESPACE).await, include_str!("samples/accepted/component.yaml")).await;
}

#[tokio::test]
async fn deployment_tracks_are_accepted_and_come_back_the_same() {
    let samples = include_str!("samples/accepted/deployment_track.yaml");
    round_trips(api_in::<DeploymentTrack>(NAMESPACE).await, samples).await;
}

#[tokio::test]
async fn deployable_artifacts_are_accepted_and_come_back_the_same() {
    let samples = include_str!("samples/accepted/deployable_artifact.yaml");
    round_trips(api_in::<DeployableArtifact>(NAMESPACE).await, samples).await;
}

#[tokio::test]
async fn deployment_pipelines_are_accepted_and_come_back_the_same() {
    let samples = include_str!("samples/accepted/deployment_pipeline.yaml");
    round_trips(api_in::<DeploymentPipeline>(NAMESPACE).await, samples).await;
}

#[tokio::test]
async fn environments_are_accepted_and_come_back_the_same() {
    round_trips(api_in::<Environment>(NAMESPACE).await, include_str!("samples/accepted/environment.yaml"))
        .await;
}

#[tokio::test]
async fn data_planes_are_accepted_and_come_back_the_same() {
    round_trips(api_in::<DataPlane>(NAMESPACE).await, include_str!("samples/accepted/data_plane.yaml")).await;
}

#[tokio::test]
async fn configuration_groups_are_accepted_and_come_back_the_same() {
    let samples = include_str!("samples/accepted/configuration_group.yaml");
    round_trips(api_in::<ConfigurationGroup>(NAMESPACE).await, samples).await;
}

#[tokio::test]
async fn builds_are_accepted_and_come_back_the_same() {
    round_trips(api_in::<Build>(NAMESPACE).await, include_str!("samples/accepted/build.yaml")).await;
}

#[tokio::test]
async fn deployments_are_accepted_and_come_back_the_same() {
    round_trips(api_in::<Deployment>(NAMESPACE).await, include_str!("samples/accepted/deployment.yaml"))
        .await;
}

#[tokio::test]
async fn endpoints_are_accepted_and_come_back_the_same() {
    round_trips(api_in::<Endpoint>(NAMESPACE).await, include_str!("samples/accepted/endpoint.yaml")).await;
}

#[tokio::test]
async fn releases_are_accepted_and_come_back_the_same() {
    round_trips(api_in::<Release>(NAMESPACE).await, include_str!("samples/accepted/release.yaml")).await;
}

#[tokio::test]
async fn hostname_claims_are_accepted_and_come_back_the_same() {
    round_trips(cluster_api::<HostnameClaim>().await, include_str!("samples/accepted/hostname_claim.yaml"))
        .await;
}
