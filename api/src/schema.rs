//! The custom resource definitions: what derives give, completed by what all kinds have in common.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray,
    JSONSchemaPropsOrBool,
};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::json;

use crate::bounds;

/// Category of all kinds: `kubectl get openchoreo` shows them.
pub const CATEGORY: &str = "openchoreo";

/// Text form of durations: `300ms`, `10s`, `1h30m`.
pub const DURATION_PATTERN: &str = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$";

/// An absolute path without empty, `.` or `..` segments and without percent-encoding; may end in a slash.
pub const PATH_PATTERN: &str =
    r"^(/(\.*[A-Za-z0-9_~!$&'()*+,;=:@-][A-Za-z0-9._~!$&'()*+,;=:@-]*|\.{3,}))*/?$";

/// [`PATH_PATTERN`] with path parameters such as `/books/{id}`.
pub const OPERATION_PATTERN: &str =
    r"^(/(\{[A-Za-z0-9_.-]+\}|\.*[A-Za-z0-9_~!$&'()*+,;=:@-][A-Za-z0-9._~!$&'()*+,;=:@-]*|\.{3,}))*/?$";

/// A host name, or a wildcard for one label in front of one.
pub const HOSTNAME_PATTERN: &str =
    r"^(\*\.)?[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*\.?$";

/// Completes the definition of one kind with what all kinds share.
pub(crate) fn complete(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    crd.spec.names.categories.get_or_insert_default().push(CATEGORY.to_owned());
    for version in &mut crd.spec.versions {
        let columns = version.additional_printer_columns.get_or_insert_default();
        columns.extend([
            column("Ready", "string", ".status.conditions[?(@.type=='Ready')].status"),
            column("Reason", "string", ".status.conditions[?(@.type=='Ready')].reason"),
            column("Age", "date", ".metadata.creationTimestamp"),
        ]);
        if let Some(root) = version.schema.as_mut().and_then(|s| s.open_api_v3_schema.as_mut()) {
            drop_nullable(root);
            bounds::complete(root);
            let properties = root.properties.get_or_insert_default();
            if let Some(spec) = properties.get_mut("spec")
                && spec.required.is_none()
            {
                // Where nothing in it is required, `spec` itself may be left out.
                spec.default = Some(JSON(json!({})));
            }
        }
    }
    crd
}

fn column(name: &str, type_: &str, json_path: &str) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        name: name.to_owned(),
        type_: type_.to_owned(),
        json_path: json_path.to_owned(),
        ..Default::default()
    }
}

/// The API server removes a null from a field that is not nullable, so that everyone reads "unset". In a
/// nullable field it would stay, and every rule would have to expect it.
fn drop_nullable(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    schema.properties.iter_mut().flat_map(|p| p.values_mut()).for_each(drop_nullable);
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        drop_nullable(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        drop_nullable(values);
    }
}

/// Schema of `status.conditions`: the standard condition, one per type.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 64,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "description": "One aspect of the object's state.",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": {
                    "description": "When the status of the condition last changed.",
                    "type": "string", "format": "date-time", "maxLength": 64,
                },
                "message": {
                    "description": "For people: what is the matter, and what to do next.",
                    "type": "string", "maxLength": bounds::TEXT,
                },
                "observedGeneration": {
                    "description": "Generation of the object that the condition was set for.",
                    "type": "integer", "format": "int64", "minimum": 0,
                },
                "reason": {
                    "description": "Why, in one word for programs; docs/reference lists them.",
                    "type": "string", "minLength": 1, "maxLength": 1024,
                    "pattern": r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "status": {
                    "description": "Whether the condition holds.",
                    "type": "string", "enum": ["True", "False", "Unknown"],
                },
                "type": {
                    "description": "Which aspect.",
                    "type": "string", "maxLength": 316,
                    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
            },
        },
    })
}

/// Schema of a whole Kubernetes object of any kind.
pub(crate) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "required": ["apiVersion", "kind", "metadata"],
        "properties": {
            "apiVersion": { "description": "Group and version of the object.", "type": "string", "minLength": 1, "maxLength": 317 },
            "kind": { "description": "Kind of the object.", "type": "string", "minLength": 1, "maxLength": 63 },
            "metadata": {
                "description": "Name, namespace, labels and annotations of the object.",
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "required": ["name"],
                "properties": {
                    "name": { "description": "Name of the object.", "type": "string", "minLength": 1, "maxLength": bounds::NAME },
                },
            },
        },
    })
}

/// Schema of any JSON value.
pub(crate) fn any_value(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}
