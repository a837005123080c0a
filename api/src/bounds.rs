//! How much an object may have of anything. Whatever a tenant writes, reading it is quick: every list, text and map of every
//! kind has a bound, which is far above what anybody needs. A field that says nothing gets the bound of its sort.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

/// Characters of the name of an object, or of a key in it.
pub const NAME: u32 = 253;
/// Characters of an address.
pub const ADDRESS: u32 = 2048;
/// Characters of the path of a file in a container.
pub const PATH: u32 = 1024;
/// Characters of an argument or of an environment variable: what Linux takes.
pub const ARGUMENT: u32 = 131_072;
/// Characters of a file or of a configuration value: what a ConfigMap takes.
pub const CONTENT: u32 = 1_048_576;
/// Characters of any other text, and of the message of a condition.
pub const TEXT: u32 = 32_768;
/// Items of a list.
pub const ITEMS: u32 = 256;
/// Entries of a map.
pub const ENTRIES: u32 = 256;
/// Operations of an API with rules of their own, in one policy and through one way in.
pub const OPERATIONS: u32 = 256;
/// Routes of such operations, through all ways in of an Endpoint together. Each has up to four objects on the data plane, and
/// the status of the Endpoint has to name them all.
pub const ROUTES: u32 = 512;
/// Bytes that the routes of an Endpoint repeat of its host names and policies.
pub const REPEATED: u32 = 2 << 20;
/// Objects of a Release.
pub const RESOURCES: u32 = 2000;
/// Items of a list in a status: more than fit into an object of 1.5 MiB, which is what etcd takes. A status that was not
/// written would be worse than a long one.
pub const STATUS_ITEMS: u32 = 65_536;

/// Gives a bound to everything in the schema of `spec` or `status` that has none.
pub(crate) fn complete(root: &mut JSONSchemaProps) {
    for (part, items) in [("spec", ITEMS), ("status", STATUS_ITEMS)] {
        if let Some(schema) = root.properties.iter_mut().flatten().find(|(name, _)| *name == part) {
            bound(schema.1, i64::from(items));
        }
    }
}

fn bound(schema: &mut JSONSchemaProps, items: i64) {
    let text = schema.type_.as_deref() == Some("string") || schema.x_kubernetes_int_or_string == Some(true);
    if text && schema.enum_.is_none() {
        schema.max_length.get_or_insert_with(|| i64::from(TEXT));
    }
    if schema.type_.as_deref() == Some("array") {
        schema.max_items.get_or_insert(items);
    }
    schema.properties.iter_mut().flatten().for_each(|(_, property)| bound(property, items));
    if let Some(JSONSchemaPropsOrArray::Schema(inner)) = &mut schema.items {
        bound(inner, items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        schema.max_properties.get_or_insert_with(|| i64::from(ENTRIES));
        bound(values, items);
    }
}
