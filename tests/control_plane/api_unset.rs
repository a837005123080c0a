//! Clients written in Go send empty texts, empty objects and nulls for what nobody set. All of that is accepted,
//! and read as "not set".

use std::fmt::Debug;

use kantor_api::{
    Build, Component, ConfigurationGroup, DataPlane, DeployableArtifact, Deployment, DeploymentPipeline,
    DeploymentTrack, Endpoint, Environment, Organization, Release, component, deployment_pipeline,
    deployment_track, environment, organization,
};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::support::{api_in, cluster_api, create, documents, replace_status};

const NAMESPACE: &str = "api-unset";

/// The object of the YAML text, created and read back.
async fn created<K>(api: &Api<K>, text: &str) -> K
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let object: Value = documents(text).remove(0);
    create(api, &object).await.unwrap_or_else(|error| panic!("{text} is refused: {error}"));
    api.get(crate::support::name(&object)).await.expect("the object can be read")
}

#[tokio::test]
async fn a_component_with_an_empty_build_has_none() {
    let api = api_in::<Component>(NAMESPACE).await;
    let read = created(
        &api,
        r#"
apiVersion: openchoreo.dev/v1alpha1
kind: Component
metadata: {name: empty-build, creationTimestamp: null}
spec:
  owner: {projectName: shop}
  type: Service
  build:
    repository: {url: "", revision: {branch: ""}, appPath: ""}
    templateRef: {name: "", engine: ""}
status: {}
"#,
    )
    .await;
    let owner = component::ProjectOwner { project_name: "shop".to_owned() };
    assert_eq!(read.spec, component::ComponentSpec { owner, type_: "Service".to_owned(), build: None });
    assert_eq!(read.status.unwrap_or_default(), component::ComponentStatus::default());
}

#[tokio::test]
async fn a_data_plane_with_empty_texts_has_none_of_them() {
    let api = api_in::<DataPlane>(NAMESPACE).await;
    let read = created(
        &api,
        r#"
apiVersion: openchoreo.dev/v1alpha1
kind: DataPlane
metadata: {name: empty-texts, creationTimestamp: null}
spec:
  registry: {prefix: "", secretRef: ""}
  kubernetesCluster:
    server: https://plane.example.com
    tls: {ca: {secretRef: "", value: ""}}
    auth: {mtls: null, bearerToken: {secretRef: "", value: opaque-token}}
  gateway: {publicVirtualHost: a.example.com, organizationVirtualHost: b.example.com}
  observer: {url: "", authentication: {basicAuth: {username: "", password: ""}}}
status: {}
"#,
    )
    .await;
    assert_eq!((read.spec.registry, read.spec.observer), (None, None));
    let cluster = read.spec.kubernetes_cluster;
    let ca = cluster.tls.expect("tls is set").ca;
    assert_eq!((ca.secret_ref, ca.value), (None, None));
    let auth = cluster.auth.expect("auth is set");
    assert_eq!(auth.mtls, None);
    assert_eq!(auth.bearer_token.expect("a token is set").secret_ref, None);
}

#[tokio::test]
async fn an_empty_server_does_not_count_as_a_way_to_reach_the_cluster() {
    let api = api_in::<DataPlane>(NAMESPACE).await;
    let read = created(
        &api,
        r#"
apiVersion: openchoreo.dev/v1alpha1
kind: DataPlane
metadata: {name: empty-server}
spec:
  kubernetesCluster: {server: "", secretRef: {name: plane-kubeconfig, key: ""}}
"#,
    )
    .await;
    assert_eq!(read.spec.kubernetes_cluster.server, None);
    assert_eq!(read.spec.kubernetes_cluster.secret_ref.expect("a secret is named").key, None);
}

#[tokio::test]
async fn an_environment_with_an_empty_gateway_has_none() {
    let api = api_in::<Environment>(NAMESPACE).await;
    let read = created(
        &api,
        r#"
apiVersion: openchoreo.dev/v1alpha1
kind: Environment
metadata: {name: empty-gateway}
spec:
  dataPlaneRef: ""
  gateway: {dnsPrefix: "", security: {remoteJwks: {uri: ""}}}
"#,
    )
    .await;
    assert_eq!(read.spec, environment::EnvironmentSpec::default());
}

#[tokio::test]
async fn a_build_with_an_empty_image_has_none_yet() {
    let api = api_in::<Build>(NAMESPACE).await;
    let text = r#"
apiVersion: openchoreo.dev/v1alpha1
kind: Build
metadata: {name: empty-image}
spec:
  owner: {projectName: shop, componentName: greeter}
  repository: {url: "https://git.example.com/greeter", revision: {branch: "", commit: ""}, appPath: ""}
  templateRef: {name: docker, engine: "", parameters: null}
status: {imageStatus: {image: ""}, conditions: null}
"#;
    let mut object = documents(text).remove(0);
    let built = created(&api, text).await;
    assert_eq!(built.spec.template_ref.parameters, []);
    assert_eq!((built.spec.repository.revision.branch, built.spec.template_ref.engine), (None, None));
    object["metadata"]["resourceVersion"] = json!(built.metadata.resource_version);
    let read = replace_status(&api, &object).await.expect("the status is accepted");
    let status = read.status.expect("a status was written");
    assert_eq!((status.image_status, status.conditions), (None, vec![]));
}

#[tokio::test]
async fn an_endpoint_with_an_empty_base_path_and_null_lists_has_none() {
    let api = api_in::<Endpoint>(NAMESPACE).await;
    let read = created(
        &api,
        r#"
apiVersion: openchoreo.dev/v1alpha1
kind: Endpoint
metadata: {name: empty-base-path}
spec:
  type: HTTP
  backendRef: {type: componentRef, basePath: "", componentRef: {port: 80}, target: null}
  networkVisibilities: {organization: null, public: {enable: true, policies: null}}
status: {}
"#,
    )
    .await;
    assert_eq!((read.spec.backend_ref.base_path, read.spec.backend_ref.target), (None, None));
    let visibilities = read.spec.network_visibilities.expect("visibilities are set");
    assert_eq!(visibilities.organization, None);
    assert_eq!(visibilities.public.expect("public is set").policies, []);
}

#[tokio::test]
async fn empty_network_visibilities_are_not_the_same_as_none() {
    let api = api_in::<Endpoint>(NAMESPACE).await;
    let read = created(
        &api,
        r"
apiVersion: openchoreo.dev/v1alpha1
kind: Endpoint
metadata: {name: empty-visibilities}
spec:
  type: HTTP
  backendRef: {type: componentRef, componentRef: {port: 80}}
  networkVisibilities: {}
",
    )
    .await;
    assert_eq!(read.spec.network_visibilities, Some(kantor_api::endpoint::NetworkVisibilities::default()));
}

#[tokio::test]
async fn an_artifact_with_empty_parts_has_none_of_them() {
    let api = api_in::<DeployableArtifact>(NAMESPACE).await;
    let read = created(
        &api,
        r#"
apiVersion: openchoreo.dev/v1alpha1
kind: DeployableArtifact
metadata: {name: empty-parts}
spec:
  targetArtifact:
    fromBuildRef: {name: "", gitRevision: ""}
    fromImageRef: {tag: v1}
  configuration:
    dependencies: {}
    endpointTemplates:
      - metadata: {name: api, namespace: "", creationTimestamp: null, labels: null, annotations: null, finalizers: null}
        spec: {type: HTTP, backendRef: {type: componentRef, basePath: "", componentRef: {port: 80}}}
    application:
      args: null
      env:
        - {key: EMPTY, value: "", valueFrom: null}
        - {key: HOST, value: "", valueFrom: {configurationGroupRef: {name: database, key: host}, secretRef: null}}
      envFrom: null
      fileMounts: null
      fileMountsFrom: null
      resourceLimits: {cpu: "", memory: ""}
      probes: {}
      scaling: {}
status: {}
"#,
    )
    .await;
    assert_eq!(read.spec.target_artifact.from_build_ref, None);
    let configuration = read.spec.configuration.expect("a configuration is set");
    assert_eq!(configuration.dependencies, None);
    let template = &configuration.endpoint_templates[0];
    assert_eq!(json!(template.metadata), json!({"name": "api"}));
    let application = configuration.application.expect("an application is set");
    assert!(application.args.is_empty() && application.env_from.is_empty());
    assert!(application.file_mounts.is_empty() && application.file_mounts_from.is_empty());
    assert_eq!(application.env[0].value, None);
    assert_eq!(application.env[1].value, None);
    assert!(application.env[1].value_from.is_some());
    assert_eq!(application.resource_limits, None);
    assert_eq!(application.probes, None);
    assert_eq!(application.scaling, None);
}

#[tokio::test]
async fn an_artifact_with_an_empty_configuration_has_none() {
    let api = api_in::<DeployableArtifact>(NAMESPACE).await;
    let read = created(
        &api,
        r"
apiVersion: openchoreo.dev/v1alpha1
kind: DeployableArtifact
metadata: {name: empty-configuration}
spec: {targetArtifact: {fromBuildRef: {name: greeter-1}}, configuration: {dependencies: {}, application: {}}}
",
    )
    .await;
    assert_eq!(read.spec.configuration, None);
}

#[tokio::test]
async fn a_deployment_with_empty_overrides_has_none() {
    let api = api_in::<Deployment>(NAMESPACE).await;
    let read = created(
        &api,
        r#"
apiVersion: openchoreo.dev/v1alpha1
kind: Deployment
metadata: {name: empty-overrides}
spec:
  deploymentArtifactRef: greeter-1
  revisionHistoryLimit: null
  configurationOverrides:
    dependencies: {}
    endpointTemplates: [{}]
    application: {task: {schedule: {cron: "@daily", timezone: ""}}}
status: {}
"#,
    )
    .await;
    assert_eq!(read.spec.revision_history_limit, None);
    let overrides = read.spec.configuration_overrides.expect("overrides are set");
    assert_eq!(overrides.dependencies, None);
    assert_eq!(json!(overrides.endpoint_templates), json!([{}]));
    let schedule =
        overrides.application.and_then(|a| a.task).and_then(|t| t.schedule).expect("a schedule is set");
    assert_eq!(schedule.timezone, None);
}

#[tokio::test]
async fn a_configuration_value_with_empty_alternatives_has_none_of_them() {
    let api = api_in::<ConfigurationGroup>(NAMESPACE).await;
    let read = created(
        &api,
        r#"
apiVersion: openchoreo.dev/v1alpha1
kind: ConfigurationGroup
metadata: {name: empty-alternatives}
spec:
  scope: null
  environmentGroups: null
  configurations:
    - key: host
      values: [{environment: production, environmentGroupRef: "", value: "", vaultKey: secret/host}]
"#,
    )
    .await;
    assert!(read.spec.scope.is_empty() && read.spec.environment_groups.is_empty());
    let value = &read.spec.configurations[0].values[0];
    assert_eq!((&value.environment_group_ref, &value.value), (&None, &None));
    assert_eq!(value.vault_key.as_deref(), Some("secret/host"));
}

#[tokio::test]
async fn a_release_with_empty_groups_and_null_lists_has_none() {
    let api = api_in::<Release>(NAMESPACE).await;
    let text = r#"
apiVersion: openchoreo.dev/v1alpha1
kind: Release
metadata: {name: empty-groups}
spec:
  owner: {projectName: shop, componentName: greeter}
  environmentName: production
  resources: null
  interval: null
status:
  resources: [{id: a, group: "", version: v1, kind: Namespace, name: a, namespace: "", healthStatus: "", lastObservedTime: null}]
"#;
    let mut object = documents(text).remove(0);
    let release = created(&api, text).await;
    assert_eq!((release.spec.resources, release.spec.interval), (vec![], None));
    object["metadata"]["resourceVersion"] = json!(release.metadata.resource_version);
    let read = replace_status(&api, &object).await.expect("the status is accepted");
    let resource = read.status.expect("a status was written").resources.remove(0);
    assert_eq!((resource.group, resource.namespace, resource.health_status), (None, None, None));
    assert_eq!(resource.last_observed_time, None);
}

#[tokio::test]
async fn a_spec_in_which_nothing_is_required_may_be_left_out_or_null() {
    let without = |kind: &str| {
        format!("{{apiVersion: openchoreo.dev/v1alpha1, kind: {kind}, metadata: {{name: no-spec}}}}")
    };
    let null = |kind: &str| {
        format!(
            "{{apiVersion: openchoreo.dev/v1alpha1, kind: {kind}, metadata: {{name: null-spec}}, spec: null, status: null}}"
        )
    };
    let organizations = cluster_api::<Organization>().await;
    let tracks = api_in::<DeploymentTrack>(NAMESPACE).await;
    let pipelines = api_in::<DeploymentPipeline>(NAMESPACE).await;
    let environments = api_in::<Environment>(NAMESPACE).await;
    for spec in [without, null] {
        let read = created(&organizations, &spec("Organization")).await;
        assert_eq!(read.spec, organization::OrganizationSpec::default());
        let read = created(&tracks, &spec("DeploymentTrack")).await;
        assert_eq!(read.spec, deployment_track::DeploymentTrackSpec::default());
        let read = created(&pipelines, &spec("DeploymentPipeline")).await;
        assert_eq!(read.spec, deployment_pipeline::DeploymentPipelineSpec::default());
        let read = created(&environments, &spec("Environment")).await;
        assert_eq!(read.spec, environment::EnvironmentSpec::default());
    }
}
