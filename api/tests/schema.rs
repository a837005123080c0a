//! What all custom resource definitions have in common.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kantor_api::crds;

/// The schema of the only version of a kind.
fn root(crd: &CustomResourceDefinition) -> &JSONSchemaProps {
    assert_eq!(crd.spec.versions.len(), 1, "{}", crd.spec.names.kind);
    crd.spec.versions[0].schema.as_ref().and_then(|s| s.open_api_v3_schema.as_ref()).expect("a schema")
}

/// Calls `look` with the path and the schema of each property, at any depth.
fn walk<'a>(path: &str, schema: &'a JSONSchemaProps, look: &mut impl FnMut(&str, &'a JSONSchemaProps)) {
    for (name, property) in schema.properties.iter().flatten() {
        let path = format!("{path}.{name}");
        look(&path, property);
        walk(&path, property, look);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
        walk(&format!("{path}[]"), items, look);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
        walk(&format!("{path}{{}}"), values, look);
    }
}

/// The kinds, and the properties of all kinds as `Kind.path`, for which `wrong` holds.
fn properties(wrong: impl Fn(&str, &JSONSchemaProps) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for crd in crds() {
        let mut look = |path: &str, schema: &JSONSchemaProps| {
            if wrong(path, schema) {
                found.push(path.to_owned());
            }
        };
        look(&crd.spec.names.kind, root(&crd));
        walk(&crd.spec.names.kind, root(&crd), &mut look);
    }
    found
}

#[test]
fn every_field_of_every_kind_is_described() {
    let described =
        |property: &JSONSchemaProps| property.description.as_deref().is_some_and(|d| !d.trim().is_empty());
    let missing = properties(|_, property| !described(property));
    assert!(missing.is_empty(), "without a description:\n{}", missing.join("\n"));
}

#[test]
fn descriptions_are_free_of_rust() {
    let rust = |property: &JSONSchemaProps| {
        property.description.as_deref().is_some_and(|d| d.contains("[`") || d.contains("::"))
    };
    assert_eq!(properties(|_, property| rust(property)), [""; 0]);
}

#[test]
fn no_field_is_nullable() {
    assert_eq!(properties(|_, property| property.nullable.is_some()), [""; 0]);
}

#[test]
fn conditions_are_told_apart_by_their_types() {
    for crd in crds() {
        let kind = &crd.spec.names.kind;
        let mut seen = 0;
        walk("", root(&crd), &mut |path, property| {
            if path.ends_with(".conditions") {
                seen += 1;
                assert_eq!(path, ".status.conditions", "{kind}");
                assert_eq!(property.x_kubernetes_list_type.as_deref(), Some("map"), "{kind}");
                assert_eq!(
                    property.x_kubernetes_list_map_keys.as_deref(),
                    Some(&["type".to_owned()][..]),
                    "{kind}"
                );
            }
        });
        assert_eq!(seen, 1, "{kind} has conditions");
    }
}

#[test]
fn every_kind_is_in_the_category_and_has_a_status_and_the_common_columns() {
    for crd in crds() {
        let kind = &crd.spec.names.kind;
        let categories = crd.spec.names.categories.as_deref().unwrap_or_default();
        assert!(categories.contains(&"openchoreo".to_owned()), "{kind}: {categories:?}");
        let version = &crd.spec.versions[0];
        assert!(
            version.subresources.as_ref().is_some_and(|s| s.status.is_some()),
            "{kind} has a status subresource"
        );
        let columns = version.additional_printer_columns.iter().flatten();
        let columns: Vec<_> = columns.map(|column| column.name.as_str()).collect();
        assert!(columns.ends_with(&["Ready", "Reason", "Age"]), "{kind}: {columns:?}");
    }
}

#[test]
fn every_rule_has_a_message() {
    let silent = |property: &JSONSchemaProps| {
        let rules = property.x_kubernetes_validations.iter().flatten();
        rules.into_iter().any(|rule| rule.message.is_none() && rule.message_expression.is_none())
    };
    assert_eq!(properties(|_, property| silent(property)), [""; 0]);
}

/// Calls `look` with each schema of a kind, those of items and of values of maps included.
fn every<'a>(path: &str, schema: &'a JSONSchemaProps, look: &mut impl FnMut(&str, &'a JSONSchemaProps)) {
    look(path, schema);
    for (name, property) in schema.properties.iter().flatten() {
        every(&format!("{path}.{name}"), property, look);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
        every(&format!("{path}[]"), items, look);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
        every(&format!("{path}{{}}"), values, look);
    }
}

/// What may be of any form, because it is an object of others; how much of it there may be is checked where it is read.
const FREE: &[&str] = &[
    // All objects of a Release together: `core::release::render`.
    "Release.spec.resources[].object",
    "Release.spec.resources[].object.metadata",
    // Only what the operator writes: `core::release::status` leaves out what is too large.
    "Release.status.resources[].status",
];

#[test]
fn every_list_text_and_map_has_a_bound() {
    let (mut unbound, mut free) = (vec![], vec![]);
    for crd in crds() {
        every(&crd.spec.names.kind, root(&crd), &mut |path, schema| {
            let text =
                schema.type_.as_deref() == Some("string") || schema.x_kubernetes_int_or_string == Some(true);
            let is_free = schema.x_kubernetes_preserve_unknown_fields == Some(true);
            if is_free {
                free.push(path.to_owned());
            }
            let open = schema.type_.is_none() && schema.x_kubernetes_int_or_string != Some(true);
            if text && schema.enum_.is_none() && schema.max_length.is_none()
                || schema.type_.as_deref() == Some("array") && schema.max_items.is_none()
                || schema.additional_properties.is_some() && schema.max_properties.is_none()
                || open && !is_free
            {
                unbound.push(path.to_owned());
            }
        });
    }
    assert!(unbound.is_empty(), "without a bound:\n{}", unbound.join("\n"));
    free.sort();
    assert_eq!(free, FREE, "of any form");
}

#[test]
fn a_status_has_room_for_all_that_an_object_can_hold() {
    // Inventories, namespaces and what is to be removed are as long as what was made; what etcd takes ends first.
    for crd in crds() {
        let status = root(&crd).properties.as_ref().and_then(|properties| properties.get("status"));
        every(&crd.spec.names.kind, status.expect("a status"), &mut |path, schema| {
            if let Some(most) = schema.max_items {
                let conditions = schema.x_kubernetes_list_map_keys.is_some();
                assert!(conditions || most >= 65_536, "{path}: {most}");
            }
        });
    }
}
