//! Single writes, each with a deadline.

use std::{
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use k8s_openapi::{
    api::{
        authentication::v1::{TokenRequest, TokenRequestSpec},
        core::v1::{Secret, ServiceAccount},
    },
    apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry,
};
use kantor_api::{common::InventoryItem, managers};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy},
    core::{ApiResource, DynamicObject, DynamicResourceScope, PartialObjectMeta},
};
use secrecy::SecretString;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use tokio::sync::{Notify, Semaphore};
use tracing::{Instrument, Span, debug, debug_span, field};

use super::{WriteError, latest::Latest};
use crate::{client::decode::Read, planes::Plane};

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
    slots: Option<Arc<Semaphore>>,
    /// What was written of objects that are decided on by what a watch tells of them; none for data planes.
    latest: Option<Latest>,
    /// Told when the API server does not know what was to be written.
    doubt: Arc<Notify>,
    /// Name of the data plane, for traces; none for the control plane.
    plane: Option<Arc<str>>,
    /// Whether anything was written; nobody asks that of the control plane.
    begun: Arc<AtomicBool>,
}

/// What came of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// The object is not there.
    Gone,
    /// It goes when its finalizers have been removed, or its grace period is over.
    Pending {
        /// Its version since then.
        version: u64,
    },
}

impl Writer {
    /// A writer that gives each write `deadline`.
    pub fn new(client: Client, deadline: Duration) -> Self {
        let latest = Some(Latest::default());
        Self {
            client,
            deadline,
            slots: None,
            latest,
            doubt: Arc::default(),
            plane: None,
            begun: Arc::default(),
        }
    }

    /// The same, which tells when the API server does not know a field of a status: its definitions are doubtful then.
    #[must_use]
    pub fn doubting(self, doubt: Arc<Notify>) -> Self {
        Self { doubt, ..self }
    }

    /// A writer to a data plane, in the name of one of its users, if there is one.
    pub fn to_plane(plane: &Plane, user: Option<&str>) -> Self {
        Self {
            client: plane.calls_as(user),
            deadline: plane.deadline,
            slots: Some(plane.slots()),
            latest: None,
            doubt: Arc::default(),
            plane: Some(plane.key.to_string().into()),
            begun: Arc::default(),
        }
    }

    /// The same, which notes in `begun` that something is being written.
    #[must_use]
    pub fn noting(self, begun: &Arc<AtomicBool>) -> Self {
        Self { begun: begun.clone(), ..self }
    }

    /// The same for a cluster that many write to: the deadline of a call begins when it has one of `slots`.
    #[must_use]
    pub fn with_slots(self, slots: Arc<Semaphore>) -> Self {
        Self { slots: Some(slots), ..self }
    }

    /// Whether an object is from before what was last written of it: the watch has not told of that yet.
    pub fn has_written_since(&self, object: &impl Resource) -> bool {
        self.latest.as_ref().is_some_and(|latest| latest.is_after(object))
    }

    /// Makes an object, and returns it as it now is; one that exists already is a [`WriteError::Conflict`].
    pub async fn create<K: Object>(&self, object: &K) -> Result<K, WriteError> {
        let params = PostParams { field_manager: Some(managers::KANTOR.to_owned()), ..PostParams::default() };
        let (api, span) = (self.api(object), self.writing_to("create", object));
        typed(self.within(span, api.create(&params, &as_dynamic(object)?)).await?)
    }

    /// Writes an object over the version that it carries, and returns it as it now is; one that has changed since is a
    /// [`WriteError::Conflict`].
    pub async fn replace<K: Object>(&self, object: &K) -> Result<K, WriteError> {
        let params = PostParams { field_manager: Some(managers::KANTOR.to_owned()), ..PostParams::default() };
        let (api, name) = (self.api(object), object.name_any());
        let span = self.writing_to("update", object);
        typed(self.within(span, api.replace(&name, &params, &as_dynamic(object)?)).await?)
    }

    /// Changes an object by a merge patch.
    pub async fn merge<K: Object>(&self, object: &K, patch: &serde_json::Value) -> Result<(), WriteError> {
        let params =
            PatchParams { field_manager: Some(managers::KANTOR.to_owned()), ..PatchParams::default() };
        let (api, span) = (self.api(object), self.writing_to("patch", object));
        self.within(span, api.patch(&object.name_any(), &params, &Patch::Merge(patch))).await.map(drop)
    }

    /// Server-side applies an object, and returns it as it now is: the fields it has become ours, those it no longer has are
    /// given up.
    pub async fn apply<K: Object>(&self, object: &K) -> Result<K, WriteError> {
        let (name, body) = (object.name_any(), as_dynamic(object)?);
        let params = PatchParams::apply(managers::KANTOR).force();
        let (api, span) = (self.read_back::<K>(object), self.writing_to("apply", object));
        readable(self.within(span, api.patch(&name, &params, &Patch::Apply(body))).await?)
    }

    /// As [`Writer::apply`], for a Secret: no error repeats its values.
    pub async fn apply_secret(&self, secret: &Secret) -> Result<(), WriteError> {
        let (name, body) = (secret.name_any(), as_dynamic(secret)?);
        let params = PatchParams::apply(managers::KANTOR).force();
        let (api, span) = (self.read_back::<Secret>(secret), self.writing_to("apply", secret));
        let applied = self.call(span, api.patch(&name, &params, &Patch::Apply(body))).await?;
        applied.map(drop).map_err(WriteError::of_secret)
    }

    /// Server-side applies an object of any kind; returns it as it now is. `body` may carry `metadata.uid` and
    /// `metadata.resourceVersion`, which it must then still have.
    pub(super) async fn apply_any(
        &self,
        resource: &ApiResource,
        manager: &str,
        body: &DynamicObject,
    ) -> Result<DynamicObject, WriteError> {
        let params = PatchParams::apply(manager).force();
        let (namespace, name) = (body.metadata.namespace.as_deref(), body.name_any());
        let api: Api<Read<DynamicObject>> = self.some_kind(resource, namespace);
        let span = self.writing("apply", resource, namespace, &name);
        self.begun.store(true, Ordering::Relaxed);
        let applied = self.call(span, api.patch(&name, &params, &Patch::Apply(body))).await?;
        readable(applied.map_err(if is_secret(resource) { WriteError::of_secret } else { WriteError::of })?)
    }

    /// An object, as the server has it.
    pub(super) async fn read(
        &self,
        resource: &ApiResource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<DynamicObject>, WriteError> {
        self.within(Span::none(), self.dynamic(resource, some(namespace)).get_opt(name)).await
    }

    /// Hands the fields that `former` has set on an object, by plain writes, over to `manager` as if it had applied
    /// them: those that it does not apply next are then removed, instead of being kept for `former` for ever. Only over
    /// `version`, if one is given. Returns the version that this made, if it changed anything.
    pub(super) async fn inherit(
        &self,
        resource: &ApiResource,
        item: &InventoryItem,
        (former, manager): (&str, &str),
        version: Option<&str>,
    ) -> Result<Option<String>, WriteError> {
        let Some(object) = self.look(resource, &item.namespace, &item.name).await? else { return Ok(None) };
        let mut fields = object.managed_fields().to_vec();
        let is_of = |entry: &ManagedFieldsEntry, name: &str, operation: &str| {
            entry.manager.as_deref() == Some(name)
                && entry.operation.as_deref() == Some(operation)
                && entry.subresource.as_deref().unwrap_or_default().is_empty()
        };
        if fields.iter().any(|entry| is_of(entry, manager, "Apply")) {
            return Ok(None);
        }
        let Some(entry) = fields.iter_mut().find(|entry| is_of(entry, former, "Update")) else {
            return Ok(None);
        };
        entry.manager = Some(manager.to_owned());
        entry.operation = Some("Apply".to_owned());
        let patch = json!({"metadata": {
            "resourceVersion": version.map(ToOwned::to_owned).or_else(|| object.resource_version()),
            "uid": object.uid(),
            "managedFields": fields,
        }});
        let params = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        let api = self.dynamic(resource, some(&item.namespace));
        let span = self.writing("patch", resource, some(&item.namespace), &item.name);
        let patched =
            self.within(span, api.patch_metadata(&item.name, &params, &Patch::Merge(patch))).await?;
        Ok(patched.resource_version())
    }

    /// The metadata of an object, as the server has it.
    pub async fn look(
        &self,
        resource: &ApiResource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<PartialObjectMeta<DynamicObject>>, WriteError> {
        self.within(Span::none(), self.dynamic(resource, some(namespace)).get_metadata_opt(name)).await
    }

    /// The metadata of the objects of a namespace, and whether there are more of them. Nothing for kinds that cannot be
    /// listed.
    pub(super) async fn look_around(
        &self,
        resource: &ApiResource,
        namespace: &str,
    ) -> Result<(Vec<PartialObjectMeta<DynamicObject>>, bool), WriteError> {
        let params = ListParams::default().limit(500);
        let api = self.dynamic(resource, some(namespace));
        match self.call(Span::none(), api.list_metadata(&params)).await? {
            Ok(list) => {
                let more = list.metadata.continue_.is_some_and(|token| !token.is_empty());
                Ok((list.items, more))
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 405) => Ok((vec![], false)),
            Err(error) => Err(WriteError::of(error)),
        }
    }

    /// Deletes an object if it still is the one with `uid`. One that has gone is a success.
    pub async fn delete(
        &self,
        resource: &ApiResource,
        namespace: &str,
        name: &str,
        uid: Option<String>,
    ) -> Result<Deletion, WriteError> {
        self.delete_version(resource, namespace, name, uid, None).await
    }

    /// Deletes an object if it still is the one with `uid` and, where it is given, of this version. One that has gone is a
    /// success.
    pub async fn delete_version(
        &self,
        resource: &ApiResource,
        namespace: &str,
        name: &str,
        uid: Option<String>,
        resource_version: Option<String>,
    ) -> Result<Deletion, WriteError> {
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid, resource_version }),
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        let span = self.writing("delete", resource, some(namespace), name);
        match self.call(span, self.dynamic(resource, some(namespace)).delete(name, &params)).await? {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Deletion::Gone),
            // The server answers with a bare status when there is nothing left to wait for, and for some kinds with the
            // object as it was. One that is still there says since when it is going.
            Ok(answer) => {
                let going = answer.left().filter(|object| object.metadata.deletion_timestamp.is_some());
                let version = |object: DynamicObject| object.resource_version()?.parse().ok();
                Ok(going.map_or(Deletion::Gone, |object| Deletion::Pending {
                    version: version(object).unwrap_or_default(),
                }))
            }
            Err(error) => Err(WriteError::of(error)),
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
        self.set_finalizers(object, &rest).await?;
        if rest.is_empty()
            && object.meta().deletion_timestamp.is_some()
            && let Some(latest) = &self.latest
        {
            latest.note_end(object);
        }
        Ok(())
    }

    /// A merge patch replaces the whole list, so it goes with the version that the list was read from.
    async fn set_finalizers<K: Object>(&self, object: &K, list: &impl Serialize) -> Result<(), WriteError> {
        let patch = json!({
            "metadata": { "finalizers": list, "resourceVersion": object.resource_version() },
        });
        let params =
            PatchParams { field_manager: Some(managers::KANTOR.to_owned()), ..PatchParams::default() };
        let (api, span) = (self.read_back::<K>(object), self.writing_to("patch", object));
        let patched = self.call(span, api.patch(&object.name_any(), &params, &Patch::Merge(patch))).await?;
        match patched {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Ok(written) => {
                self.note(&written);
                Ok(())
            }
            Err(error) => Err(WriteError::of(error)),
        }
    }

    /// Has a token made for a ServiceAccount, good for so many seconds. The server may make it shorter, or longer.
    pub async fn request_token(
        &self,
        namespace: &str,
        account: &str,
        seconds: i64,
    ) -> Result<SecretString, WriteError> {
        let spec = TokenRequestSpec { expiration_seconds: Some(seconds), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let resource = ApiResource::erase::<ServiceAccount>(&());
        let span = self.writing("token", &resource, Some(namespace), account);
        let params = PostParams::default();
        let answer = self.within(span, accounts.create_token_request(account, &params, &request)).await?;
        let token = answer.status.and_then(|status| status.token).filter(|token| !token.is_empty());
        token
            .map(SecretString::from)
            .ok_or_else(|| WriteError::Transient("the API server made no token".to_owned()))
    }

    /// Sets one value of a Secret, over the version that was read; one that has changed since is a
    /// [`WriteError::Conflict`].
    pub async fn set_secret_value(&self, secret: &Secret, key: &str, value: &[u8]) -> Result<(), WriteError> {
        let patch = json!({
            "metadata": { "uid": secret.uid(), "resourceVersion": secret.resource_version() },
            "data": { key: BASE64_STANDARD.encode(value) },
        });
        let params =
            PatchParams { field_manager: Some(managers::KANTOR.to_owned()), ..PatchParams::default() };
        let (api, span) = (self.read_back::<Secret>(secret), self.writing_to("patch", secret));
        let patched = self.call(span, api.patch(&secret.name_any(), &params, &Patch::Merge(patch))).await?;
        patched.map(drop).map_err(WriteError::of_secret)
    }

    /// Replaces what we said in an object's status; returns the object as it now is. A status that was computed from an
    /// outdated object is a [`WriteError::Conflict`].
    pub async fn write_status<K: Object>(
        &self,
        object: &K,
        status: &impl Serialize,
    ) -> Result<K, WriteError> {
        let body = json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            "metadata": { "name": object.name_any(), "resourceVersion": object.resource_version() },
            "status": serde_json::to_value(status).map_err(|error| unserializable(&error))?,
        });
        let params = PatchParams::apply(managers::KANTOR).force();
        let (api, span) = (self.read_back::<K>(object), self.writing_to("status", object));
        let name = object.name_any();
        let written = self.within(span, api.patch_status(&name, &params, &Patch::Apply(&body))).await;
        let written = written.inspect_err(|error| {
            if error.is_misfit() {
                self.doubt.notify_one();
            }
        })?;
        self.note(&written);
        readable(written)
    }

    fn note<K: Resource>(&self, written: &Read<K>) {
        if let Some(latest) = &self.latest {
            latest.note(written);
        }
    }

    fn api<K: Object>(&self, object: &K) -> Api<DynamicObject> {
        self.dynamic(&ApiResource::erase::<K>(&()), object.meta().namespace.as_deref())
    }

    /// The kind of an object, of which the answers to writes are read.
    fn read_back<K: Object>(&self, object: &K) -> Api<Read<K>> {
        self.some_kind(&ApiResource::erase::<K>(&()), object.meta().namespace.as_deref())
    }

    fn dynamic(&self, resource: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
        self.some_kind(resource, namespace)
    }

    /// By way of the dynamic API there is one path for both scopes.
    fn some_kind<K>(&self, resource: &ApiResource, namespace: Option<&str>) -> Api<K>
    where
        K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
    {
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, resource),
            None => Api::all_with(self.client.clone(), resource),
        }
    }

    fn writing_to<K: Object>(&self, verb: &'static str, object: &K) -> Span {
        let namespace = object.meta().namespace.as_deref();
        self.writing(verb, &ApiResource::erase::<K>(&()), namespace, &object.name_any())
    }

    /// The span of a write. Not `name`, which is what the log calls the span itself.
    fn writing(
        &self,
        verb: &'static str,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
    ) -> Span {
        let (kind, plane) = (resource.kind.as_str(), self.plane.as_deref());
        debug_span!("write", verb, kind, namespace, key = name, plane, outcome = field::Empty)
    }

    async fn within<T>(
        &self,
        span: Span,
        call: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, WriteError> {
        self.call(span, call).await?.map_err(WriteError::of)
    }

    async fn call<T>(
        &self,
        span: Span,
        call: impl Future<Output = kube::Result<T>>,
    ) -> Result<kube::Result<T>, WriteError> {
        let writing = span.clone();
        let calling = async {
            let _slot = match &self.slots {
                Some(slots) => slots.acquire().await.ok(),
                None => None,
            };
            let answer = tokio::time::timeout(self.deadline, call).await;
            if !writing.is_disabled() {
                note_outcome(&writing, answer.as_ref().ok());
            }
            answer.map_err(|_| WriteError::timed_out(self.deadline))
        };
        calling.instrument(span).await
    }
}

/// Ends the span of a write with what came of it: `ok`, the code of the server's answer, `timeout` or `unreachable`.
fn note_outcome<T>(writing: &Span, answer: Option<&kube::Result<T>>) {
    let outcome = match answer {
        None => "timeout".to_owned(),
        Some(Ok(_)) => "ok".to_owned(),
        Some(Err(kube::Error::Api(status))) => status.code.to_string(),
        Some(Err(_)) => "unreachable".to_owned(),
    };
    writing.record("outcome", &outcome);
    debug!(outcome, "written");
}

fn is_secret(resource: &ApiResource) -> bool {
    resource.group.is_empty() && resource.kind == "Secret"
}

fn some(namespace: &str) -> Option<&str> {
    Some(namespace).filter(|namespace| !namespace.is_empty())
}

/// The object with its type: typed objects of Kubernetes do not carry it everywhere.
fn as_dynamic<K: Object>(object: &K) -> Result<DynamicObject, WriteError> {
    let mut value = serde_json::to_value(object).map_err(|error| unserializable(&error))?;
    value["apiVersion"] = json!(K::api_version(&()));
    value["kind"] = json!(K::kind(&()));
    serde_json::from_value(value).map_err(|error| unserializable(&error))
}

fn readable<K>(object: Read<K>) -> Result<K, WriteError> {
    object.0.map_err(|invalid| WriteError::Transient(invalid.error))
}

fn typed<K: Object>(object: DynamicObject) -> Result<K, WriteError> {
    object.try_parse().map_err(|error| WriteError::Transient(error.to_string()))
}

fn unserializable(error: &serde_json::Error) -> WriteError {
    WriteError::Refused(format!("the object cannot be written as JSON: {error}"))
}
