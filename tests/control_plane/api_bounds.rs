//! No list is longer than its bound, whatever a tenant sends: the API server refuses one item more.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use kantor_api::{Endpoint, bounds};
use kube::{
    Api,
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
};
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{api_in, client, documents, name, namespace, try_to_create};

const NAMESPACE: &str = "api-bounds";

/// A list of an object: where it is as a JSON pointer and as the API server names it, and how long it may be.
struct Bounded {
    pointer: String,
    field: String,
    most: usize,
}

/// The lists in `value` that have an item.
fn lists(schema: &JSONSchemaProps, value: &Value, pointer: &str, field: &str, found: &mut Vec<Bounded>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(schema) = schema.properties.as_ref().and_then(|all| all.get(name)) {
                    lists(schema, value, &format!("{pointer}/{name}"), &format!("{field}.{name}"), found);
                }
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let most = schema.max_items.unwrap_or_else(|| panic!("{field} has no bound"));
            found.push(Bounded {
                pointer: pointer.to_owned(),
                field: field.to_owned(),
                most: usize::try_from(most).expect("a number of items"),
            });
            if let Some(JSONSchemaPropsOrArray::Schema(schema)) = &schema.items {
                for (i, item) in items.iter().enumerate() {
                    lists(schema, item, &format!("{pointer}/{i}"), &format!("{field}[{i}]"), found);
                }
            }
        }
        _ => {}
    }
}

fn spec_of(crd: &CustomResourceDefinition) -> &JSONSchemaProps {
    let root = crd.spec.versions[0].schema.as_ref().and_then(|s| s.open_api_v3_schema.as_ref());
    root.and_then(|root| root.properties.as_ref()?.get("spec")).expect("the schema of a spec")
}

#[rstest]
#[case::deployment_pipelines(include_str!("samples/accepted/deployment_pipeline.yaml"))]
#[case::data_planes(include_str!("samples/accepted/data_plane.yaml"))]
#[case::configuration_groups(include_str!("samples/accepted/configuration_group.yaml"))]
#[case::builds(include_str!("samples/accepted/build.yaml"))]
#[case::components(include_str!("samples/accepted/component.yaml"))]
#[case::deployable_artifacts(include_str!("samples/accepted/deployable_artifact.yaml"))]
#[case::deployments(include_str!("samples/accepted/deployment.yaml"))]
#[case::endpoints(include_str!("samples/accepted/endpoint.yaml"))]
#[case::releases(include_str!("samples/accepted/release.yaml"))]
#[tokio::test]
async fn a_list_with_one_item_too_many_is_refused(#[case] samples: &str) {
    let client = client().await;
    namespace(&client, NAMESPACE).await;
    let (crds, mut tried, mut complaints) = (kantor_api::crds(), 0, vec![]);
    for sample in documents(samples) {
        let crd = crds.iter().find(|crd| crd.spec.names.kind == sample["kind"]).expect("a kind of ours");
        let gvk = GroupVersionKind::gvk(&crd.spec.group, "v1alpha1", &crd.spec.names.kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, &crd.spec.names.plural);
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &resource);
        let mut found = vec![];
        lists(spec_of(crd), &sample["spec"], "/spec", "spec", &mut found);
        for Bounded { pointer, field, most } in found {
            let mut long = sample.clone();
            let items = long.pointer_mut(&pointer).and_then(Value::as_array_mut).expect("a list");
            let item = items[0].clone();
            items.resize(most + 1, item);
            tried += 1;
            let refused = match send(&api, &long).await {
                Err(kube::Error::Api(status)) => status.details.iter().flat_map(|d| &d.causes).any(|cause| {
                    cause.field == field && cause.message.contains(&format!("at most {most} items"))
                }),
                Err(error) => panic!("{field}: {error}"),
                Ok(_) => false,
            };
            if !refused {
                complaints.push(format!("{} {}: {field} with {} items", gvk.kind, name(&sample), most + 1));
            }
        }
    }
    assert!(tried > 0, "the samples have no lists");
    assert!(complaints.is_empty(), "not refused:\n{}", complaints.join("\n"));
}

/// Sends an object of a kind that is known by name only, and stores nothing.
async fn send(api: &Api<DynamicObject>, object: &Value) -> kube::Result<DynamicObject> {
    let object: DynamicObject = serde_json::from_value(object.clone()).expect("an object");
    api.create(&kube::api::PostParams { dry_run: true, ..Default::default() }, &object).await
}

fn endpoint(type_: &str, policy: &Value) -> Value {
    json!({
        "apiVersion": "openchoreo.dev/v1alpha1", "kind": "Endpoint", "metadata": {"name": "large"},
        "spec": {
            "type": type_,
            "backendRef": {"type": "componentRef", "componentRef": {"port": 8080}},
            "networkVisibilities": {"public": {"enable": true, "policies": [policy]}},
        },
    })
}

fn rate_limited(operations: usize) -> Value {
    let operation =
        |i| json!({"target": format!("/x{i}"), "method": "GET", "timeUnit": "Day", "requestLimit": 1});
    let rest: Vec<Value> = (0..operations).map(operation).collect();
    endpoint(
        "REST",
        &json!({"name": "limits", "type": "rate-limit", "policySpec": {"rateLimit": {
            "apiLevel": {"timeUnit": "Minute", "requestLimit": 100}, "operationLevel": {"rest": rest},
        }}}),
    )
}

fn grpc(services: usize, methods: usize) -> Value {
    let method = |i| json!({"name": format!("M{i}"), "scopes": ["read"]});
    let methods: Vec<Value> = (0..methods).map(method).collect();
    let service = |i| json!({"name": format!("shop.S{i}"), "methods": methods});
    let operations: Vec<Value> = (0..services).map(service).collect();
    endpoint(
        "gRPC",
        &json!({"name": "tokens", "type": "oauth2", "policySpec": {"oauth2": {"jwt": {"authorization": {
            "apiType": "GRPC", "grpc": {"claimsToHeaders": [], "operations": operations},
        }}}}}),
    )
}

#[tokio::test]
async fn an_endpoint_has_as_many_operations_as_its_bound_says_and_no_more() {
    let api = api_in::<Endpoint>(NAMESPACE).await;
    let most = bounds::OPERATIONS as usize;
    for (good, bad, says) in [
        (rate_limited(most), rate_limited(most + 1), "must have at most 256 items"),
        (grpc(16, 16), grpc(16, 17), "a policy has at most 256 methods in all"),
    ] {
        try_to_create(&api, &good).await.expect("as many as are allowed");
        let Err(kube::Error::Api(status)) = try_to_create(&api, &bad).await else {
            panic!("one more is accepted");
        };
        assert!(status.message.contains(says), "{}", status.message);
    }
}
