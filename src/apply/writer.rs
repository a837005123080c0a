//! Single writes, each with a deadline.

use std::{fmt::Debug, time::Duration};

use kantor_api::managers;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy},
    core::{ApiResource, DynamicObject},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::WriteError;

/// A kind of the API, as the writer needs it.
pub trait Object:
    Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned + Send + Sync
{
}

impl<K> Object for K where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned + Send + Sync
{
}

/// Writes to one cluster.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    deadline: Duration,
}

impl Writer {
    /// A writer that gives each write `deadline`.
    pub fn new(client: Client, deadline: Duration) -> Self {
        Self { client, deadline }
    }

    /// Makes an object; one that exists already is a [`WriteError::Conflict`].
    pub async fn create<K: Object>(&self, object: &K) -> Result<(), WriteError> {
        let params = PostParams { field_manager: Some(managers::KANTOR.to_owned()), ..PostParams::default() };
        let api = self.api(object);
        self.within(api.create(&params, &as_dynamic(object)?)).await.map(drop)
    }

    /// Server-side applies an object: the fields it has become ours, those it no longer has are given up.
    pub async fn apply<K: Object>(&self, object: &K) -> Result<(), WriteError> {
        let (name, body) = (object.name_any(), as_dynamic(object)?);
        let params = PatchParams::apply(managers::KANTOR).force();
        self.within(self.api(object).patch(&name, &params, &Patch::Apply(body))).await.map(drop)
    }

    /// Deletes an object if it still is the one with `uid`. One that has gone is a success.
    pub async fn delete(
        &self,
        resource: &ApiResource,
        namespace: &str,
        name: &str,
        uid: Option<String>,
    ) -> Result<(), WriteError> {
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid, resource_version: None }),
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        let api = self.dynamic(resource, Some(namespace).filter(|namespace| !namespace.is_empty()));
        match self.call(api.delete(name, &params)).await? {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            other => other.map(drop).map_err(WriteError::of),
        }
    }

    /// Puts `finalizer` on an object, unless it has it.
    pub async fn add_finalizer<K: Object>(&self, object: &K, finalizer: &str) -> Result<(), WriteError> {
        let mut finalizers = object.finalizers().to_vec();
        if finalizers.iter().any(|f| f == finalizer) {
            return Ok(());
        }
        finalizers.push(finalizer.to_owned());
        self.set_finalizers(object, &finalizers).await
    }

    /// Takes `finalizer` off an object. One that has gone is a success.
    pub async fn remove_finalizer<K: Object>(&self, object: &K, finalizer: &str) -> Result<(), WriteError> {
        if !object.finalizers().iter().any(|f| f == finalizer) {
            return Ok(());
        }
        let rest: Vec<&String> = object.finalizers().iter().filter(|f| *f != finalizer).collect();
        self.set_finalizers(object, &rest).await
    }

    /// A merge patch replaces the whole list, so it goes with the version that the list was read from.
    async fn set_finalizers<K: Object>(&self, object: &K, list: &impl Serialize) -> Result<(), WriteError> {
        let patch = json!({
            "metadata": { "finalizers": list, "resourceVersion": object.resource_version() },
        });
        let params =
            PatchParams { field_manager: Some(managers::KANTOR.to_owned()), ..PatchParams::default() };
        let patched =
            self.call(self.api(object).patch(&object.name_any(), &params, &Patch::Merge(patch))).await?;
        match patched {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            other => other.map(drop).map_err(WriteError::of),
        }
    }

    /// Replaces what we said in an object's status. A status that was computed from an outdated object is a
    /// [`WriteError::Conflict`].
    pub async fn write_status<K: Object>(
        &self,
        object: &K,
        status: &impl Serialize,
    ) -> Result<(), WriteError> {
        let body = json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            "metadata": { "name": object.name_any(), "resourceVersion": object.resource_version() },
            "status": serde_json::to_value(status).map_err(|error| unserializable(&error))?,
        });
        let params = PatchParams::apply(managers::KANTOR).force();
        self.within(self.api(object).patch_status(&object.name_any(), &params, &Patch::<Value>::Apply(body)))
            .await
            .map(drop)
    }

    fn api<K: Object>(&self, object: &K) -> Api<DynamicObject> {
        self.dynamic(&ApiResource::erase::<K>(&()), object.meta().namespace.as_deref())
    }

    /// By way of the dynamic API there is one path for both scopes.
    fn dynamic(&self, resource: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, resource),
            None => Api::all_with(self.client.clone(), resource),
        }
    }

    async fn within<T>(&self, call: impl Future<Output = kube::Result<T>>) -> Result<T, WriteError> {
        self.call(call).await?.map_err(WriteError::of)
    }

    async fn call<T>(
        &self,
        call: impl Future<Output = kube::Result<T>>,
    ) -> Result<kube::Result<T>, WriteError> {
        tokio::time::timeout(self.deadline, call).await.map_err(|_| WriteError::timed_out(self.deadline))
    }
}

/// The object with its type: typed objects of Kubernetes do not carry it everywhere.
fn as_dynamic<K: Object>(object: &K) -> Result<DynamicObject, WriteError> {
    let mut value = serde_json::to_value(object).map_err(|error| unserializable(&error))?;
    value["apiVersion"] = json!(K::api_version(&()));
    value["kind"] = json!(K::kind(&()));
    serde_json::from_value(value).map_err(|error| unserializable(&error))
}

fn unserializable(error: &serde_json::Error) -> WriteError {
    WriteError::Refused(format!("the object cannot be written as JSON: {error}"))
}
