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
