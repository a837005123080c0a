//! The objects that carry values to the data plane.

use std::collections::BTreeMap;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use kantor_api::conditions::reasons;
use kube_core::{DynamicObject, ResourceExt};
use serde_json::json;

use super::{
    super::values::{Held, yaml_text},
    CONTENT, Group, Problem, Sources, vault,
};
use crate::{deployment::place::Place, json::map};

/// Name on the data plane of what is used of a Secret of the control plane. The colon, which no name of an object has,
/// tells it apart from the Secret that the driver makes for a configuration group of the same name.
pub(super) fn secret_name(place: &Place, name: &str) -> String {
    place.name_of(&format!("secret:{name}"))
}

impl Sources<'_> {
    pub(super) fn objects(&self) -> Vec<DynamicObject> {
        let groups = self.groups.values();
        let maps = groups.clone().filter_map(|group| self.map_of_group(group));
        let files = self.inline.iter().map(|(name, content)| {
            self.place.own(
                "v1",
                "ConfigMap",
                name.clone(),
                map([("data", map([(CONTENT, (*content).into())]))]),
            )
        });
        let classes = groups.filter_map(|group| self.provider_class(group));
        maps.chain(files).chain(classes).chain(self.secrets()).collect()
    }

    /// All plain values of a group, also those that are not used.
    fn map_of_group(&self, group: &Group<'_>) -> Option<DynamicObject> {
        let plain = group.keys.iter().filter_map(|(key, held)| match held {
            Some(Held::Plain(value)) => Some((*key, *value)),
            _ => None,
        });
        let data: BTreeMap<&str, &str> = plain.collect();
        let body = json!({"data": data});
        (!data.is_empty()).then(|| self.place.own("v1", "ConfigMap", group.object.clone(), body))
    }

    /// How the driver finds the secret values of a group in the vault.
    fn provider_class(&self, group: &Group<'_>) -> Option<DynamicObject> {
        let vaulted: Vec<(&str, &str)> = vaulted(group).collect();
        if vaulted.is_empty() || !self.inputs.plane.secrets_store {
            return None;
        }
        let objects: Vec<String> = vaulted
            .iter()
            .map(|(key, path)| {
                let (key, path) = (yaml_text(key), yaml_text(path));
                format!("- objectName: {key}\n  secretPath: {path}\n  secretKey: value\n")
            })
            .collect();
        let synced: Vec<_> = vaulted.iter().map(|(key, _)| json!({"objectName": key, "key": key})).collect();
        let (address, role) = self.vault();
        let body = json!({"spec": {
            "provider": "vault",
            "parameters": {"vaultAddress": address, "roleName": role, "objects": objects.concat()},
            "secretObjects": [{
                "secretName": group.object,
                "type": "Opaque",
                "labels": self.place.workload_labels,
                "data": synced,
            }],
        }});
        let version = "secrets-store.csi.x-k8s.io/v1";
        Some(self.place.own(version, "SecretProviderClass", group.object.clone(), body))
    }

    /// Values that another organization could have put there: the driver would read them all the same.
    pub(super) fn outside_the_vault(&self) -> Vec<Problem> {
        let own = self.inputs.data_plane.spec.vault.as_ref().and_then(|vault| vault.path_prefix.as_ref());
        let template = own.unwrap_or(&self.inputs.settings.vault_path_prefix);
        // The namespace, since it is that which keeps organizations apart in the control plane.
        let prefix = vault::prefix(template, &self.inputs.deployment.namespace().unwrap_or_default());
        let first = |group: &Group<'_>| {
            let (key, why) = vaulted(group)
                .find_map(|(key, path)| Some((key.to_owned(), vault::check(path, &prefix).err()?)))?;
            let message = format!(
                "configuration group {}: the vaultKey of {key} has to be a path below {prefix} and {why}; move the value \
                 there, or have the data plane's vault.pathPrefix or the operator's --vault-path-prefix changed",
                group.logical_name
            );
            Some(Problem::artifact(reasons::VAULT_PATH_NOT_ALLOWED, message))
        };
        self.groups.values().filter_map(first).collect()
    }

    /// What is used of Secrets of the control plane, and nothing else of them.
    fn secrets(&self) -> impl Iterator<Item = DynamicObject> {
        self.secrets.iter().map(|(name, keys)| {
            let values = self.inputs.secrets.get(name);
            let data: BTreeMap<&str, String> = keys
                .iter()
                .filter_map(|key| Some((key.as_str(), BASE64_STANDARD.encode(values?.get(key)?))))
                .collect();
            let body = json!({"type": "Opaque", "data": data});
            self.place.own("v1", "Secret", secret_name(self.place, name), body)
        })
    }

    /// Secret values of groups need a driver; groups whose secret values are not used do not.
    pub(super) fn missing_driver(&self) -> Vec<Problem> {
        if self.inputs.plane.secrets_store {
            return vec![];
        }
        let plane = self.inputs.data_plane.name_any();
        let names = self.vaulted.iter().filter_map(|object| self.groups.get(object));
        names
            .map(|group| {
                Problem::workload(
                    reasons::CAPABILITY_MISSING,
                    format!(
                        "configuration group {} has values in a vault, and data plane {plane} has no Secrets Store CSI \
                         driver to read them; install it with the provider for Vault",
                        group.logical_name
                    ),
                )
            })
            .collect()
    }
}

/// Keys with secret values, and where in the vault these are.
fn vaulted<'g>(group: &'g Group<'_>) -> impl Iterator<Item = (&'g str, &'g str)> {
    group.keys.iter().filter_map(|(key, held)| match held {
        Some(Held::Vault(path)) => Some((*key, *path)),
        _ => None,
    })
}
