//! Values of the control plane's Secrets that Deployments and Endpoints copy to data planes.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::api::core::v1::Secret;
use kantor_api::labels;
use kube::{Api, ResourceExt, runtime::reflector::ObjectRef};
use moka::sync::Cache;

use crate::{apply::WriteError, controllers::Context};

/// Value of the label [`labels::SECRET_KIND`] that allows Deployments to copy a Secret.
const APPLICATION: &str = "application";

/// Values by key.
type Values = BTreeMap<String, Vec<u8>>;

/// Namespace and name.
type Key = (String, String);

/// Values, and the version that they were read at.
type Entry = (Option<String>, Values);

/// How long values are kept that nobody asks for: longer than it takes until all objects are looked at again.
const UNUSED: Duration = Duration::from_mins(30);

/// The values that were read last.
pub struct SecretBook(Cache<Key, Entry>);

impl Default for SecretBook {
    fn default() -> Self {
        Self(Cache::builder().time_to_idle(UNUSED).build())
    }
}

/// The values of those of `names` that exist and may be used. What has not changed is not read again.
pub(crate) async fn read(
    namespace: &str,
    names: &BTreeSet<String>,
    context: &Context,
) -> Result<BTreeMap<String, Values>, WriteError> {
    let mut found = BTreeMap::new();
    for name in names {
        let Some(meta) = context.world.stores.secrets.get(&ObjectRef::new(name).within(namespace)) else {
            continue;
        };
        if meta.labels().get(labels::SECRET_KIND).is_none_or(|kind| kind != APPLICATION) {
            continue;
        }
        let key = (namespace.to_owned(), name.clone());
        let known = context.secrets.0.get(&key).filter(|(version, _)| *version == meta.resource_version());
        if let Some((_, values)) = known {
            found.insert(name.clone(), values);
            continue;
        }
        let secrets: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
        let Some(secret) = secrets.get_opt(name).await.map_err(WriteError::of)? else { continue };
        let version = secret.resource_version();
        let values: Values = secret.data.unwrap_or_default().into_iter().map(|(k, v)| (k, v.0)).collect();
        context.secrets.0.insert(key, (version, values.clone()));
        found.insert(name.clone(), values);
    }
    Ok(found)
}
