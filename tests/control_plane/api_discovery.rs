//! What people see of the API: names, short names and categories, and the columns of `kubectl get`.

use std::collections::BTreeMap;

use kantor_api::{ConfigurationGroup, DataPlane, Deployment, Endpoint, Organization};
use kube::{Api, Resource, api::ListParams, core::Request};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::support::{api_in, apply, client, cluster_api, documents, name};

const NAMESPACE: &str = "api-discovery";

/// A list as `kubectl get` asks for it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Table {
    column_definitions: Vec<Column>,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Column {
    name: String,
    priority: i32,
}

#[derive(Deserialize)]
struct Row {
    cells: Vec<Value>,
}

/// The names of the columns in their order, and what they show of the object of the YAML text. Columns that only
/// `-o wide` shows are in brackets.
async fn columns<K>(api: Api<K>, text: &str) -> (Vec<String>, BTreeMap<String, Value>)
where
    K: Resource + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let object = documents(text).remove(0);
    apply(&api, &object).await.expect("the object is accepted");
    let only = ListParams::default().fields(&format!("metadata.name={}", name(&object)));
    let mut request = Request::new(api.resource_url()).list(&only).expect("a valid request");
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io".parse().expect("a valid header");
    request.headers_mut().insert("accept", accept);
    let mut table: Table = api.into_client().request(request).await.expect("a table");
    assert_eq!(table.rows.len(), 1, "only the object is listed");
    let title = |column: &Column| match column.priority {
        0 => column.name.to_uppercase(),
        _ => format!("({})", column.name.to_uppercase()),
    };
    let titles: Vec<_> = table.column_definitions.iter().map(title).collect();
    let mut cells: BTreeMap<_, _> = titles.iter().cloned().zip(table.rows.remove(0).cells).collect();
    let age = cells.remove("AGE").expect("every kind has an age");
    assert!(age.as_str().is_some_and(|age| age.ends_with('s')), "{age} is not the age of a new object");
    (titles, cells)
}

#[tokio::test]
async fn organizations_show_their_namespace_and_why_they_are_ready() {
    let (titles, cells) = columns(
        cluster_api::<Organization>().await,
        r#"
apiVersion: openchoreo.dev/v1alpha1
kind: Organization
metadata: {name: columns}
spec: {}
status:
  namespace: columns-namespace
  conditions:
    - {type: Deleting, status: "False", reason: Other, message: "", lastTransitionTime: "2025-10-01T08:00:00Z"}
    - {type: Ready, status: "True", reason: NamespaceCreated, message: "", lastTransitionTime: "2025-10-01T08:00:00Z"}
"#,
    )
    .await;
    assert_eq!(titles, ["NAME", "NAMESPACE", "READY", "REASON", "AGE"]);
    let expected = json!({
        "NAME": "columns", "NAMESPACE": "columns-namespace", "READY": "True", "REASON": "NamespaceCreated",
    });
    assert_eq!(json!(cells), expected);
}

#[tokio::test]
async fn deployments_show_where_they_run_and_why_they_are_not_ready() {
    let (titles, cells) = columns(
        api_in::<Deployment>(NAMESPACE).await,
        r#"
apiVersion: openchoreo.dev/v1alpha1
kind: Deployment
metadata: {name: columns, labels: {openchoreo.dev/environment: development}}
spec: {deploymentArtifactRef: greeter-1}
status:
  image: registry.example.com/greeter:1
  dataPlane: {namespace: acme, name: plane-a}
  conditions:
    - {type: ArtifactResolved, status: "True", reason: Other, message: "", lastTransitionTime: "2025-10-01T08:00:00Z"}
    - {type: Ready, status: "False", reason: RollingOut, message: "", lastTransitionTime: "2025-10-01T08:00:00Z"}
"#,
    )
    .await;
    assert_eq!(
        titles,
        ["NAME", "ARTIFACT", "ENVIRONMENT", "DATA PLANE", "(IMAGE)", "READY", "REASON", "AGE"]
    );
    let expected = json!({
        "NAME": "columns", "ARTIFACT": "greeter-1", "ENVIRONMENT": "development", "DATA PLANE": "plane-a",
        "(IMAGE)": "registry.example.com/greeter:1", "READY": "False", "REASON": "RollingOut",
    });
    assert_eq!(json!(cells), expected);
}

#[tokio::test]
async fn data_planes_show_whether_they_are_connected() {
    let (titles, cells) = columns(
        api_in::<DataPlane>(NAMESPACE).await,
        r#"
apiVersion: openchoreo.dev/v1alpha1
kind: DataPlane
metadata: {name: columns}
spec: {kubernetesCluster: {inCluster: {}}}
status:
  serverVersion: v1.36.3
  conditions:
    - {type: Connected, status: "False", reason: Timeout, message: "", lastTransitionTime: "2025-10-01T08:00:00Z"}
    - {type: Ready, status: Unknown, reason: Unreachable, message: "", lastTransitionTime: "2025-10-01T08:00:00Z"}
"#,
    )
    .await;
    assert_eq!(titles, ["NAME", "CONNECTED", "VERSION", "READY", "REASON", "AGE"]);
    let expected = json!({
        "NAME": "columns", "CONNECTED": "False", "VERSION": "v1.36.3", "READY": "Unknown", "REASON": "Unreachable",
    });
    assert_eq!(json!(cells), expected);
}

#[tokio::test]
async fn endpoints_show_their_address() {
    let (titles, cells) = columns(
        api_in::<Endpoint>(NAMESPACE).await,
        r#"
apiVersion: openchoreo.dev/v1alpha1
kind: Endpoint
metadata: {name: columns, labels: {openchoreo.dev/environment: development}}
spec: {type: HTTP, backendRef: {type: componentRef, componentRef: {port: 80}}}
status:
  address: https://dev.apis.example.com/shop/greeter
  dataPlane: {namespace: acme, name: plane-a}
  conditions:
    - {type: Ready, status: "True", reason: EndpointReady, message: "", lastTransitionTime: "2025-10-01T08:00:00Z"}
"#,
    )
    .await;
    assert_eq!(titles, ["NAME", "ADDRESS", "ENVIRONMENT", "DATA PLANE", "READY", "REASON", "AGE"]);
    let expected = json!({
        "NAME": "columns", "ADDRESS": "https://dev.apis.example.com/shop/greeter", "ENVIRONMENT": "development",
        "DATA PLANE": "plane-a", "READY": "True", "REASON": "EndpointReady",
    });
    assert_eq!(json!(cells), expected);
}

#[tokio::test]
async fn configuration_groups_show_their_display_name_and_organization() {
    let (titles, cells) = columns(
        api_in::<ConfigurationGroup>(NAMESPACE).await,
        r"
apiVersion: openchoreo.dev/v1alpha1
kind: ConfigurationGroup
metadata:
  name: columns
  labels: {openchoreo.dev/organization: acme}
  annotations: {openchoreo.dev/display-name: The database}
spec: {configurations: []}
",
    )
    .await;
    assert_eq!(titles, ["NAME", "DISPLAY NAME", "ORGANIZATION", "READY", "REASON", "AGE"]);
    assert_eq!(cells["DISPLAY NAME"], "The database");
    assert_eq!(cells["ORGANIZATION"], "acme");
}

#[tokio::test]
async fn kinds_have_the_names_and_scopes_that_clients_know() {
    // Plural, singular, kind, short names.
    let expected = [
        ("builds", "build", "Build", &[][..]),
        ("components", "component", "Component", &["comp", "comps"]),
        ("configurationgroups", "configurationgroup", "ConfigurationGroup", &["configgrp"]),
        ("dataplanes", "dataplane", "DataPlane", &["dp", "dps"]),
        ("deployableartifacts", "deployableartifact", "DeployableArtifact", &[]),
        ("deploymentpipelines", "deploymentpipeline", "DeploymentPipeline", &["deppipe", "deppipes"]),
        ("deployments", "deployment", "Deployment", &[]),
        ("deploymenttracks", "deploymenttrack", "DeploymentTrack", &["deptrack", "deptracks"]),
        ("endpoints", "endpoint", "Endpoint", &[]),
        ("environments", "environment", "Environment", &["env", "envs"]),
        ("hostnameclaims", "hostnameclaim", "HostnameClaim", &["hnc"]),
        ("organizations", "organization", "Organization", &["org", "orgs"]),
        ("projects", "project", "Project", &["proj", "projs"]),
        ("releases", "release", "Release", &[]),
    ];
    let client = client().await;
    let list = client.list_api_group_resources("openchoreo.dev/v1alpha1").await.expect("the API is served");
    let (subresources, mut kinds): (Vec<_>, Vec<_>) =
        list.resources.iter().partition(|r| r.name.contains('/'));
    kinds.sort_by_key(|resource| &resource.name);
    assert_eq!(kinds.len(), expected.len());
    for (resource, (plural, singular, kind, short)) in kinds.iter().zip(expected) {
        assert_eq!((&*resource.name, &*resource.singular_name, &*resource.kind), (plural, singular, kind));
        assert_eq!(resource.short_names.as_deref().unwrap_or_default(), short, "{kind}");
        assert_eq!(resource.namespaced, !matches!(kind, "Organization" | "HostnameClaim"), "{kind}");
        let mut categories = resource.categories.clone().unwrap_or_default();
        categories.sort();
        let known: &[_] =
            if kind == "ConfigurationGroup" { &["all", "choreo", "openchoreo"] } else { &["openchoreo"] };
        assert_eq!(categories, known, "{kind}");
        let status = format!("{plural}/status");
        let own: Vec<_> = subresources.iter().filter(|r| r.kind == kind).map(|r| &r.name).collect();
        assert_eq!(own, [&status], "{kind} has a status and no other subresource");
    }
}
