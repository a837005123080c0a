//! From the spec of a Release to the objects that shall be on its plane.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kantor_api::{
    Release, annotations,
    common::InventoryItem,
    data_plane::PodSecurity,
    labels::{self, MANAGED_BY_RELEASE_CONTROLLER},
    names,
    release::ReleaseResource,
};
use kube_core::{DynamicObject, ResourceExt, TypeMeta};
use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::namespaces::namespace_level;
use crate::changes::{self, ObjectKeyRef, Wanted, shown};

/// One object of a Release as it shall be.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// Its name within the Release.
    pub id: String,
    /// The object.
    pub wanted: Wanted,
}

impl Rendered {
    /// What identifies it on the plane.
    pub fn item(&self) -> InventoryItem {
        self.wanted.item()
    }

    /// The same for a kind without a namespace, which manifests like to write all the same.
    #[must_use]
    pub fn without_namespace(mut self) -> Self {
        if self.wanted.object.metadata.namespace.take().is_some() {
            let autoscaled = self.wanted.autoscaled;
            self.wanted = Wanted { autoscaled, ..Wanted::new(self.wanted.object) };
        }
        self
    }

    /// The same with a Pod Security level, if it is a Namespace that does not say one. `live` are its labels on the plane.
    #[must_use]
    pub fn with_level(mut self, level: PodSecurity, live: Option<&BTreeMap<String, String>>) -> Self {
        let written = self.wanted.object.labels().contains_key(labels::POD_SECURITY);
        if let Some(level) = namespace_level(level, live).filter(|_| !written && self.is_namespace()) {
            let mut object = self.wanted.object;
            object.labels_mut().insert(labels::POD_SECURITY.to_owned(), level.to_owned());
            self.wanted = Wanted::new(object);
        }
        self
    }

    /// The same with the label of its organization, if it is a Namespace: nobody else puts anything there then, which would go with
    /// it.
    #[must_use]
    pub fn with_organization(mut self, organization: &str) -> Self {
        if self.is_namespace() {
            let mut object = self.wanted.object;
            object
                .labels_mut()
                .insert(labels::plane::ORGANIZATION_NAME.to_owned(), label_value(organization));
            self.wanted = Wanted::new(object);
        }
        self
    }

    fn is_namespace(&self) -> bool {
        let (group, _, kind) = changes::identity_ref(&self.wanted.object);
        group.is_empty() && kind == "Namespace"
    }
}

/// What is wrong with a resource of a Release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its name within the Release.
    pub id: String,
    /// What is wrong, and what to do.
    pub message: String,
}

/// The objects of a Release, or everything that is wrong with them: never a part of them, since what is missing would
/// be taken for no longer wanted.
pub fn render(release: &Release) -> Result<Vec<Rendered>, Vec<Problem>> {
    if let Some(problem) = too_large(&release.spec.resources) {
        return Err(vec![problem]);
    }
    let (mut rendered, mut problems) = (Vec::with_capacity(release.spec.resources.len()), vec![]);
    let marks = Marks::of(release);
    for resource in &release.spec.resources {
        let id = resource.id.clone();
        match object(&marks, resource) {
            Ok(object) => {
                let wanted = Wanted { object, hash: String::new(), autoscaled: false, first_replicas: None };
                rendered.push(Rendered { id, wanted });
            }
            Err(message) => problems.push(Problem { id, message }),
        }
    }
    problems.extend(duplicates(&rendered));
    if !problems.is_empty() {
        return Err(problems);
    }
    leave_replicas_to_autoscalers(&mut rendered);
    let complete = |Rendered { id, wanted }| {
        let autoscaled = wanted.autoscaled;
        Rendered { id, wanted: Wanted { autoscaled, ..Wanted::new(wanted.object) } }
    };
    Ok(rendered.into_iter().map(complete).collect())
}

/// How many bytes the objects of a Release may have together, as JSON: there has to be room for its status beside them.
const LARGEST: usize = 1 << 20;

fn too_large(resources: &[ReleaseResource]) -> Option<Problem> {
    let mut size = 0;
    let last = resources.iter().find(|resource| {
        size += length(&resource.object);
        size > LARGEST
    })?;
    let message = format!(
        "up to this one, the objects have more than {LARGEST} bytes together; put some of them into another Release"
    );
    Some(Problem { id: last.id.clone(), message })
}

/// How many bytes a value has as JSON.
fn length(value: &Value) -> usize {
    // Without the last of the commas, of which there is one for each entry.
    let entries = |length: usize| 2 + length.saturating_sub(1);
    match value {
        Value::Null | Value::Bool(true) => 4,
        Value::Bool(false) => 5,
        Value::Number(number) => number.to_string().len(),
        Value::String(text) => text_length(text),
        Value::Array(items) => entries(items.iter().map(|item| length(item) + 1).sum()),
        Value::Object(fields) => {
            entries(fields.iter().map(|(name, value)| text_length(name) + length(value) + 2).sum())
        }
    }
}

fn text_length(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        ..b' ' => 6,
        _ => 1,
    };
    2 + text.bytes().map(escaped).sum::<usize>()
}

/// Ids that stand for the object of another one.
pub fn duplicates<'a>(rendered: impl IntoIterator<Item = &'a Rendered>) -> Vec<Problem> {
    let mut taken: HashMap<ObjectKeyRef<'_>, &str> = HashMap::new();
    let mut problems = vec![];
    for Rendered { id, wanted } in rendered {
        let first = *taken.entry(wanted.key()).or_insert(id);
        if first != id {
            let message = format!("{} is also the object of id {first}", shown(&wanted.item()));
            problems.push(Problem { id: id.clone(), message });
        }
    }
    problems
}

/// One object with what Kantor adds and without what only servers set.
fn object(marks: &Marks, resource: &ReleaseResource) -> Result<DynamicObject, String> {
    fn text<'a>(fields: Option<&'a Value>, name: &str) -> Option<&'a str> {
        fields.and_then(|fields| fields.get(name)).and_then(Value::as_str).filter(|text| !text.is_empty())
    }
    let (whole, metadata) = (Some(&resource.object), resource.object.get("metadata"));
    let missing = |field: &str| format!("the object has no {field}; write it");
    let api_version = text(whole, "apiVersion").ok_or_else(|| missing("apiVersion"))?;
    let kind = text(whole, "kind").ok_or_else(|| missing("kind"))?;
    text(metadata, "name").ok_or_else(|| missing("metadata.name"))?;
    if (api_version, kind) == ("v1", "List") {
        return Err("the object is a List; write each of its items as a resource of its own".to_owned());
    }
    // The parser's text may quote values of the object, which may be secret.
    let written = ObjectMeta::deserialize(&resource.object["metadata"])
        .map_err(|_| "metadata does not have the form that Kubernetes gives it; correct it".to_owned())?;
    let metadata = ObjectMeta {
        name: written.name,
        namespace: written.namespace.filter(|namespace| !namespace.is_empty()),
        labels: written.labels,
        annotations: written.annotations,
        owner_references: written.owner_references,
        finalizers: written.finalizers,
        ..ObjectMeta::default()
    };
    let types = TypeMeta { api_version: api_version.to_owned(), kind: kind.to_owned() };
    let fields = resource.object.as_object().into_iter().flatten();
    let data =
        fields.filter(|(name, _)| !["apiVersion", "kind", "metadata", "status"].contains(&name.as_str()));
    let mut copied = Map::new();
    for (name, value) in data {
        copied.insert(name.clone(), value.clone());
    }
    let mut object = DynamicObject { types: Some(types), metadata, data: Value::Object(copied) };
    decode_string_data(&mut object)?;
    mark(&mut object, marks, &resource.id);
    Ok(object)
}

/// `stringData` of Secrets is written and never read: as `data` it can be compared.
fn decode_string_data(object: &mut DynamicObject) -> Result<(), String> {
    let is_secret = object.types.as_ref().is_some_and(|t| t.api_version == "v1" && t.kind == "Secret");
    let Some(fields) = object.data.as_object_mut().filter(|_| is_secret) else { return Ok(()) };
    let Some(plain) = fields.remove("stringData") else { return Ok(()) };
    // Null is what YAML makes of a field with nothing in it, and to Kubernetes it is as good as none.
    let plain: Option<BTreeMap<String, String>> = serde_json::from_value(plain)
        .map_err(|_| "stringData must hold texts under names; quote numbers".to_owned())?;
    let Some(plain) = plain else { return Ok(()) };
    let data = fields.entry("data").or_insert(Value::Null);
    if data.is_null() {
        *data = Value::Object(serde_json::Map::new());
    }
    let Some(data) = data.as_object_mut() else { return Err("data must hold values under names".to_owned()) };
    let encoded = plain.into_iter().map(|(k, v)| (k, Value::from(BASE64_STANDARD.encode(v))));
    data.extend(encoded);
    Ok(())
}

/// The labels that all objects of a Release have.
struct Marks([(&'static str, String); 4]);

impl Marks {
    fn of(release: &Release) -> Self {
        Self([
            (labels::MANAGED_BY, MANAGED_BY_RELEASE_CONTROLLER.to_owned()),
            (labels::RELEASE_UID, release.uid().unwrap_or_default()),
            (labels::RELEASE_NAME, label_value(&release.name_any())),
            (labels::RELEASE_NAMESPACE, label_value(&release.namespace().unwrap_or_default())),
        ])
    }
}

/// Says whose the object is.
fn mark(object: &mut DynamicObject, marks: &Marks, id: &str) {
    let (of_id, labels) = (label_value(id), object.labels_mut());
    // These are Kantor's: nobody brings one along.
    labels.remove(labels::OWNER_UID);
    if labels
        .get(labels::plane::MANAGED_BY)
        .is_some_and(|by| by == labels::plane::MANAGED_BY_DEPLOYMENT_CONTROLLER)
    {
        labels.remove(labels::plane::MANAGED_BY);
    }
    for (key, value) in &marks.0 {
        labels.insert((*key).to_owned(), value.clone());
    }
    let is_cut = of_id != id;
    labels.insert(labels::RELEASE_RESOURCE_ID.to_owned(), of_id);
    object.annotations_mut().remove(annotations::INTENT_HASH);
    object.annotations_mut().remove(annotations::RELEASE_RESOURCE_ID);
    if is_cut {
        object.annotations_mut().insert(annotations::RELEASE_RESOURCE_ID.to_owned(), id.to_owned());
    }
}

/// A text as the value of a label: itself where that is allowed, else what fits of it, and a hash that tells it apart.
pub fn label_value(text: &str) -> String {
    const LONGEST: usize = 63;
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let fits = text.len() <= LONGEST
        && text.chars().all(inner)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric());
    if fits || text.is_empty() {
        return text.to_owned();
    }
    let hash = names::short_hash(text);
    let cleaned: String =
        text.chars().map(|c| if inner(c) { c } else { '-' }).take(LONGEST - hash.len() - 1).collect();
    let cleaned = cleaned.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    if cleaned.is_empty() { hash } else { format!("{cleaned}-{hash}") }
}

/// Workloads that an autoscaler of the same Release targets do not set their replicas: the two would fight.
fn leave_replicas_to_autoscalers(rendered: &mut [Rendered]) {
    let targets: BTreeSet<(String, String, String)> =
        rendered.iter().filter_map(|rendered| scale_target(&rendered.wanted.object)).collect();
    if targets.is_empty() {
        return;
    }
    for Rendered { wanted, .. } in rendered {
        let item = wanted.item();
        if targets.contains(&(item.namespace, item.kind, item.name))
            && let Some(spec) = wanted.object.data.get_mut("spec").and_then(Value::as_object_mut)
        {
            spec.remove("replicas");
            wanted.autoscaled = true;
        }
    }
}

/// Namespace, kind and name of the workload that an autoscaler targets.
fn scale_target(object: &DynamicObject) -> Option<(String, String, String)> {
    let (group, _, kind) = changes::identity_ref(object);
    let default_kind = match (group, kind) {
        ("autoscaling", "HorizontalPodAutoscaler") => None,
        ("keda.sh", "ScaledObject") => Some("Deployment"),
        _ => return None,
    };
    let target = object.data.pointer("/spec/scaleTargetRef")?;
    let kind = target["kind"].as_str().or(default_kind)?;
    Some((object.namespace()?, kind.to_owned(), target["name"].as_str()?.to_owned()))
}

/// The namespaces that the objects are in and that are not objects of the Release themselves.
pub fn namespaces(rendered: &[Rendered]) -> BTreeSet<String> {
    let own: BTreeSet<String> = rendered
        .iter()
        .filter(|rendered| rendered.is_namespace())
        .map(|rendered| rendered.item().name)
        .collect();
    let used = rendered.iter().filter_map(|rendered| rendered.wanted.object.metadata.namespace.as_ref());
    used.filter(|namespace| !own.contains(*namespace)).cloned().collect()
}

/// A namespace that is made for the objects of a Release.
pub fn targeted_namespace(release: &Release, name: &str, level: PodSecurity) -> Namespace {
    let release_namespace = release.namespace().unwrap_or_default();
    let labels = [
        (labels::CREATED_BY, MANAGED_BY_RELEASE_CONTROLLER.to_owned()),
        (labels::RELEASE_NAME, label_value(&release.name_any())),
        (labels::RELEASE_NAMESPACE, label_value(&release_namespace)),
        (labels::RELEASE_UID, release.uid().unwrap_or_default()),
        (labels::ENVIRONMENT, label_value(&release.spec.environment_name)),
        (labels::PROJECT, label_value(&release.spec.owner.project_name)),
        (labels::plane::ORGANIZATION_NAME, label_value(&release_namespace)),
    ];
    let level = level.label().map(|level| (labels::POD_SECURITY, level.to_owned()));
    let labels = labels.into_iter().chain(level).map(|(key, value)| (key.to_owned(), value)).collect();
    let metadata = ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() };
    Namespace { metadata, ..Namespace::default() }
}

#[cfg(test)]
mod tests;
