//! Types that several kinds share.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::bounds;

/// A text that must not be seen: it is left out of `Debug` output.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretText(String);

impl SecretText {
    /// The text itself, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for SecretText {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "(empty)" } else { "(hidden)" })
    }
}

impl JsonSchema for SecretText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SecretText".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }

    fn inline_schema() -> bool {
        true
    }
}

/// A data plane as it was when it was recorded: it is found again even when the object has gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlaneRecord {
    /// Namespace of the DataPlane.
    pub namespace: String,
    /// Name of the DataPlane.
    pub name: String,
    /// Identity of the cluster: the UID of its namespace `kube-system`.
    #[serde(rename = "clusterUID", skip_serializing_if = "Option::is_none")]
    pub cluster_uid: Option<String>,
}

/// One object that Kantor put on a data plane.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InventoryItem {
    /// API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for objects without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID, once the object exists. Only the object with this UID is ever deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// An object of the same namespace, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NameRef {
    /// Name of the object.
    #[schemars(length(min = 1, max = bounds::NAME))]
    pub name: String,
}

/// One key of an object of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyRef {
    /// Name of the object.
    #[schemars(length(min = 1, max = bounds::NAME))]
    pub name: String,
    /// Key in it.
    #[schemars(length(min = 1, max = bounds::NAME))]
    pub key: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_text_is_not_in_its_debug_output() {
        assert_eq!(format!("{:?}", SecretText::from("hunter2".to_owned())), "(hidden)");
    }
}
