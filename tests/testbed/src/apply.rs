//! Server-side apply of YAML files: CRDs, samples, fixtures.

use std::{collections::HashMap, path::Path, time::Duration};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use hyper::header::{ACCEPT, HeaderValue};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams, PartialObjectMeta, Patch, PatchParams, PostParams},
    core::{GroupVersionKind, Request},
    discovery::{self, Scope},
};
use serde_json::Value;

use crate::wait::{Seen, until};

/// How long a fresh CRD may take to be served, and an object to be accepted.
const LIMIT: Duration = Duration::from_mins(1);
/// Owner of the fields that the testbed sets.
const FIELD_MANAGER: &str = "kantor-testbed";
const AT_ONCE: usize = 8;

/// Applies all documents of `text` and returns the objects as the server has them: namespaces and CRDs first, then
/// the others in their order. Returns when each CRD is established and has answered a list.
pub async fn apply_yaml(client: &Client, text: &str) -> Result<Vec<DynamicObject>> {
    let mut objects = Vec::new();
    for document in serde_saphyr::from_multiple::<Value>(text).context("read YAML")? {
        unpack(document, &mut objects)?;
    }
    let resources = Resources::default();
    let (namespaces, objects): (Vec<_>, Vec<_>) =
        objects.into_iter().partition(|object| kind(object) == "Namespace");
    let (crds, others): (Vec<_>, Vec<_>) =
        objects.into_iter().partition(|object| kind(object) == "CustomResourceDefinition");

    let mut applied = Vec::new();
    for object in namespaces {
        applied.push(apply(client, &resources, object).await?);
    }
    let crds = stream::iter(crds).map(|crd| apply_crd(client, &resources, crd)).buffered(AT_ONCE);
    applied.extend(crds.try_collect::<Vec<_>>().await?);
    for object in others {
        applied.push(apply(client, &resources, object).await?);
    }
    Ok(applied)
}

/// Applies one YAML file.
pub async fn apply_file(client: &Client, path: &Path) -> Result<Vec<DynamicObject>> {
    let text = tokio::fs::read_to_string(path).await.with_context(|| format!("read {}", path.display()))?;
    apply_yaml(client, &text).await.with_context(|| format!("apply {}", path.display()))
}

/// Applies all `.yaml` files of a folder in the order of their names, CRDs first.
pub async fn apply_dir(client: &Client, folder: &Path) -> Result<Vec<DynamicObject>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml"));
    paths.sort();
    let mut text = String::new();
    for path in &paths {
        text.push_str("\n---\n");
        text.push_str(&std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?);
    }
    apply_yaml(client, &text).await.with_context(|| format!("apply {}", folder.display()))
}

fn unpack(document: Value, objects: &mut Vec<DynamicObject>) -> Result<()> {
    match document {
        Value::Null => {}
        Value::Object(mut list) if list.get("kind").and_then(Value::as_str) == Some("List") => {
            let items = list.remove("items").unwrap_or_default();
            for item in items.as_array().into_iter().flatten() {
                unpack(item.clone(), objects)?;
            }
        }
        object => {
            let what = object["metadata"]["name"].clone();
            objects.push(
                serde_json::from_value(object)
                    .with_context(|| format!("the document {what} is no object"))?,
            );
        }
    }
    Ok(())
}

fn kind(object: &DynamicObject) -> &str {
    object.types.as_ref().map_or("", |types| &types.kind)
}

/// Kinds that were looked up during one apply.
#[derive(Default)]
struct Resources(tokio::sync::Mutex<HashMap<GroupVersionKind, (ApiResource, bool)>>);

impl Resources {
    /// The API of the object's kind, waiting for one whose CRD is fresh.
    async fn api(&self, client: &Client, object: &DynamicObject) -> Result<Api<DynamicObject>> {
        let types = object.types.as_ref().context("an object without apiVersion and kind")?;
        let gvk = GroupVersionKind::try_from(types).context("an apiVersion that is none")?;
        let mut known = self.0.lock().await;
        if !known.contains_key(&gvk) {
            known.insert(gvk.clone(), look_up(client, &gvk).await?);
        }
        let (resource, namespaced) = &known[&gvk];
        Ok(if *namespaced {
            let namespace = object.namespace().unwrap_or_else(|| "default".to_owned());
            Api::namespaced_with(client.clone(), &namespace, resource)
        } else {
            Api::all_with(client.clone(), resource)
        })
    }
}

async fn look_up(client: &Client, gvk: &GroupVersionKind) -> Result<(ApiResource, bool)> {
    let what = format!("the server knows {}/{} {}", gvk.group, gvk.version, gvk.kind);
    until(&what, LIMIT, || async {
        Ok(match discovery::pinned_kind(client, gvk).await {
            Ok((resource, capabilities)) => Seen::Done((resource, capabilities.scope == Scope::Namespaced)),
            Err(error) => Seen::NotYet(error.to_string()),
        })
    })
    .await
}

async fn apply(client: &Client, resources: &Resources, object: DynamicObject) -> Result<DynamicObject> {
    let api = resources.api(client, &object).await?;
    let name = object.name_any();
    let what = format!("{} {name} is applied", kind(&object));
    until(&what, LIMIT, || async { accepted(api.patch(&name, &params(), &Patch::Apply(&object)).await) })
        .await
}

fn params() -> PatchParams {
    PatchParams::apply(FIELD_MANAGER).force()
}

fn accepted<T>(answer: kube::Result<T>) -> Result<Seen<T>> {
    match answer {
        Ok(applied) => Ok(Seen::Done(applied)),
        Err(error) if is_passing(&error) => Ok(Seen::NotYet(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// True for what goes away by itself: a fresh CRD's endpoint that is not there yet, a busy server.
fn is_passing(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) if status.code == 404 => {
            // Nobody is going to make the namespace while we wait.
            status.details.as_ref().is_none_or(|details| details.kind != "namespaces")
        }
        // Not 500: that is how server-side apply answers an object that does not fit its schema.
        kube::Error::Api(status) => matches!(status.code, 409 | 429 | 502..=504),
        kube::Error::HyperError(_) | kube::Error::Service(_) => true,
        _ => false,
    }
}

async fn create_metadata(
    client: &Client,
    api: &Api<DynamicObject>,
    object: &DynamicObject,
) -> kube::Result<PartialObjectMeta<DynamicObject>> {
    const METADATA: HeaderValue =
        HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
    let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    let request = Request::new(api.resource_url()).create(&params, body);
    let mut request = request.map_err(kube::Error::BuildRequest)?;
    request.headers_mut().insert(ACCEPT, METADATA);
    client.request(request).await
}

/// Some CRDs are megabytes: only their metadata comes back, and they are never read to see how they are.
async fn apply_crd(
    client: &Client,
    resources: &Resources,
    mut object: DynamicObject,
) -> Result<DynamicObject> {
    let api = resources.api(client, &object).await?;
    let name = object.name_any();
    let applied = until(&format!("the CRD {name} is applied"), LIMIT, || async {
        // To create it costs the server half of what it costs to apply it.
        match create_metadata(client, &api, &object).await {
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                accepted(api.patch_metadata(&name, &params(), &Patch::Apply(&object)).await)
            }
            created => accepted(created),
        }
    })
    .await?;
    object.metadata = applied.metadata;

    let spec = &object.data["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let versions =
        spec["versions"].as_array().into_iter().flatten().filter(|version| version["served"] == true);
    for version in versions {
        let gvk = GroupVersionKind::gvk(
            &text(&spec["group"]),
            &text(&version["name"]),
            &text(&spec["names"]["kind"]),
        );
        let resource = ApiResource::from_gvk_with_plural(&gvk, &text(&spec["names"]["plural"]));
        let objects: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        // A CRD that is not established answers 404, and a fresh one may fail its first list even after that.
        until(&format!("{} {name} can be listed", gvk.version), LIMIT, || async {
            Ok(match objects.list_metadata(&ListParams::default().limit(1)).await {
                Ok(_) => Seen::Done(()),
                Err(error) => Seen::NotYet(format!("{error}; `kubectl describe crd {name}` says why")),
            })
        })
        .await?;
    }
    Ok(object)
}
