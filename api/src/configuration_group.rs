//! `ConfigurationGroup`: values that differ from environment to environment.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{bounds, rules, unset::none_if_default};

/// Named values that differ from environment to environment: plain ones, and secret ones that stay in a vault.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "openchoreo.dev",
    version = "v1alpha1",
    kind = "ConfigurationGroup",
    doc = "Named values that differ from environment to environment: plain ones, and secret ones that stay in a vault.",
    namespaced,
    status = "ConfigurationGroupStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "configgrp",
    category = "choreo",
    category = "all",
    printcolumn(
        name = "Display Name",
        type_ = "string",
        json_path = r".metadata.annotations.openchoreo\.dev/display-name"
    ),
    printcolumn(
        name = "Organization",
        type_ = "string",
        json_path = r".metadata.labels.openchoreo\.dev/organization"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ConfigurationGroupSpec {
    /// Kept for compatibility; not read.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scope: BTreeMap<String, String>,
    /// Names for sets of environments that share values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub environment_groups: Vec<EnvironmentGroup>,
    /// The values, one entry per key.
    #[schemars(length(max = 512))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["key".into()]))]
    pub configurations: Vec<ConfigurationEntry>,
}

/// A set of environments that share values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentGroup {
    /// Name of the set.
    #[schemars(length(min = 1, max = bounds::NAME))]
    pub name: String,
    /// Names of the environments in it.
    #[schemars(length(max = 256), inner(length(max = bounds::NAME)))]
    pub environments: Vec<String>,
}

/// One key with its values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigurationEntry {
    /// The key: letters, digits, `-`, `_` and `.`.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = rules::configuration_key())]
    pub key: String,
    /// Its values. The one for the environment itself goes before one for a set that contains it.
    #[schemars(length(max = 64))]
    pub values: Vec<ConfigurationValue>,
}

/// The value of a key in an environment or a set of environments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "(has(self.environment) && self.environment != '') != (has(self.environmentGroupRef) && self.environmentGroupRef != '')"
    ).message("set exactly one of environment and environmentGroupRef"),
    validation = Rule::new("!(has(self.value) && self.value != '' && has(self.vaultKey) && self.vaultKey != '')")
        .message("set value or vaultKey, not both"),
)]
pub struct ConfigurationValue {
    /// Environment that the value is for.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = bounds::NAME))]
    pub environment: Option<String>,
    /// Set of environments that the value is for.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = bounds::NAME))]
    pub environment_group_ref: Option<String>,
    /// The value, for everybody to read.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = bounds::CONTENT))]
    pub value: Option<String>,
    /// Where the secret value is in the vault of the data plane: a path below the data plane's `vault.pathPrefix`, which is
    /// `secret/data/{organization}/` where nobody says otherwise. It never passes through the control plane.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = 1024))]
    pub vault_key: Option<String>,
}

/// What Kantor knows of a configuration group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigurationGroupStatus {
    /// Generation of the object that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// State of the group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}
