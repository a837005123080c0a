//! What is to be done about one object on a cluster: nothing, apply it, leave it alone, wait, delete it.

use std::collections::BTreeMap;

pub use holder::{Holder, holder};
use kantor_api::{annotations, common::InventoryItem};
use kube_core::{DynamicObject, Resource, ResourceExt};
use serde_json::Value;

use super::covers;

mod holder;

/// On whose behalf objects are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// What tells the owner apart: UID of the object of the control plane.
    pub uid: String,
    /// Label of the objects that carries it.
    pub label: &'static str,
    /// Its organization: the namespace that it is in. Objects of other organizations are never taken over.
    pub organization: String,
    /// Whether objects of nobody, and of others of its organization and kind, may be taken over.
    pub adopt: bool,
    /// Whether objects whose immutable fields changed may be deleted and made anew.
    pub replace: bool,
    /// Labels by which objects that were made before Kantor are known to be the owner's; none: there are none.
    pub inherited: BTreeMap<String, String>,
    /// Under which name such objects were written: what it set and is no longer wanted goes.
    pub former_manager: Option<&'static str>,
}

/// An object that shall be on a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The object with everything that it shall have, labels included, and without what only servers set.
    pub object: DynamicObject,
    /// Hash of it as JSON.
    pub hash: String,
    /// Whether others, such as an autoscaler, set `spec.replicas`, which is then left as it is.
    pub autoscaled: bool,
    /// With how many replicas it is made; how many there are then is others' to say.
    pub first_replicas: Option<i64>,
}

impl Wanted {
    /// An object that shall be there as it is written.
    pub fn new(object: DynamicObject) -> Self {
        let hash = covers::object_hash(&object);
        let hash = hash.unwrap_or_else(|| covers::intent_hash(&json_of(&object)));
        Self { hash, object, autoscaled: false, first_replicas: None }
    }

    /// The object as JSON.
    pub fn intent(&self) -> Value {
        json_of(&self.object)
    }

    /// What tells it apart from others.
    pub fn key(&self) -> ObjectKeyRef<'_> {
        let (group, _, kind) = identity_ref(&self.object);
        let (namespace, name) = (&self.object.metadata.namespace, &self.object.metadata.name);
        (group, kind, namespace.as_deref().unwrap_or_default(), name.as_deref().unwrap_or_default())
    }

    /// What identifies it.
    pub fn item(&self) -> InventoryItem {
        let (group, version, kind) = identity(&self.object);
        InventoryItem {
            group,
            version,
            kind,
            namespace: self.object.namespace().unwrap_or_default(),
            name: self.object.name_any(),
            uid: None,
        }
    }
}

/// An object as JSON. Serde would read its fields one by one into a copy of the copy, since they lie flat beside `metadata`;
/// here the fields are copied once, and a Release has thousands of objects.
fn json_of(object: &DynamicObject) -> Value {
    let (Some(fields), Ok(metadata)) = (object.data.as_object(), serde_json::to_value(&object.metadata))
    else {
        return serde_json::to_value(object).unwrap_or_default();
    };
    let mut fields = fields.clone();
    fields.entry("metadata").or_insert(metadata);
    if let Some(types) = &object.types {
        fields.entry("apiVersion").or_insert_with(|| types.api_version.as_str().into());
        fields.entry("kind").or_insert_with(|| types.kind.as_str().into());
    }
    Value::Object(fields)
}

/// Group, version and kind of an object.
pub fn identity(object: &DynamicObject) -> (String, String, String) {
    let (group, version, kind) = identity_ref(object);
    (group.to_owned(), version.to_owned(), kind.to_owned())
}

/// [`identity`] without a copy.
pub fn identity_ref(object: &DynamicObject) -> (&str, &str, &str) {
    let Some(types) = &object.types else { return Default::default() };
    let (group, version) = types.api_version.split_once('/').unwrap_or(("", &types.api_version));
    (group, version, &types.kind)
}

/// "ConfigMap app/settings", for people.
pub fn shown(item: &InventoryItem) -> String {
    if item.namespace.is_empty() {
        format!("{} {}", item.kind, item.name)
    } else {
        format!("{} {}/{}", item.kind, item.namespace, item.name)
    }
}

/// What became of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was made.
    Created,
    /// It was changed.
    Configured {
        /// The field that somebody else had changed, if that was why.
        drift: Option<String>,
    },
    /// It was as it shall be.
    Unchanged,
    /// Something has to happen first, which wakes the owner.
    Waiting(String),
    /// It will not be accepted until somebody changes something.
    Refused(String),
    /// It did not work this time.
    Failed(String),
}

impl Outcome {
    /// Whether the object is there as it shall be.
    pub fn is_in_place(&self) -> bool {
        matches!(self, Self::Created | Self::Configured { .. } | Self::Unchanged)
    }

    /// Why the object is not there as it shall be.
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Created | Self::Configured { .. } | Self::Unchanged => None,
            Self::Waiting(why) | Self::Refused(why) | Self::Failed(why) => Some(why),
        }
    }
}

/// "ConfigMap app/settings: why", for people. Reasons that name the object themselves are left as they are.
pub fn said(item: &InventoryItem, why: Option<&str>) -> String {
    let shown = shown(item);
    match why {
        Some(why) if why.starts_with(&shown) => why.to_owned(),
        Some(why) => format!("{shown}: {why}"),
        None => shown,
    }
}

/// Whether an object is from before `version`, which was written to it.
pub fn is_older(live: &impl Resource, version: Option<&str>) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    let seen = live.meta().resource_version.as_deref().and_then(number);
    version.and_then(number).zip(seen).is_some_and(|(written, seen)| seen < written)
}

/// What tells objects apart, in whatever version they are written.
pub type ObjectKey = (String, String, String, String);

/// [`ObjectKey`], as it stands in a list that is looked through and not kept.
pub type ObjectKeyRef<'a> = (&'a str, &'a str, &'a str, &'a str);

/// [`object_key`] without a copy.
pub fn object_key_ref(item: &InventoryItem) -> ObjectKeyRef<'_> {
    (&item.group, &item.kind, &item.namespace, &item.name)
}

/// Group, kind, namespace and name.
pub fn object_key(item: &InventoryItem) -> ObjectKey {
    (item.group.clone(), item.kind.clone(), item.namespace.clone(), item.name.clone())
}

/// The order in which objects are applied; the reverse is the order in which they are deleted. What others need comes
/// first; what lets traffic in, or judges what is written, comes last.
pub fn stage(group: &str, kind: &str) -> u8 {
    match (group, kind) {
        ("apiextensions.k8s.io", _) => 0,
        ("", "Namespace") => 1,
        ("rbac.authorization.k8s.io" | "scheduling.k8s.io" | "storage.k8s.io", _)
        | ("", "ServiceAccount" | "ResourceQuota" | "LimitRange" | "PersistentVolume") => 2,
        ("", "ConfigMap" | "Secret" | "PersistentVolumeClaim")
        | ("secrets-store.csi.x-k8s.io" | "cilium.io", _)
        | ("networking.k8s.io", "NetworkPolicy") => 3,
        ("", "Service") => 4,
        ("gateway.networking.k8s.io", "GatewayClass" | "Gateway" | "ReferenceGrant")
        | ("gateway.envoyproxy.io", _) => 6,
        ("gateway.networking.k8s.io", _) | ("networking.k8s.io", "Ingress") => 7,
        ("admissionregistration.k8s.io" | "apiregistration.k8s.io", _) => 8,
        _ => 5,
    }
}

/// The number of stages.
pub const STAGES: u8 = 9;

/// What is to be done about an object that shall be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is as it shall be.
    Nothing,
    /// Make it; if it exists all the same, look at it first.
    Create,
    /// Apply it to the object with this UID.
    Update {
        /// UID of the object.
        uid: Option<String>,
        /// Version of the object, where it is taken over: somebody else may take it over at the same time, and only one may.
        taken_over: Option<String>,
        /// The field that somebody else changed, if the object had been as it should be.
        drift: Option<String>,
    },
    /// It is being deleted: make it anew when it has gone.
    AwaitEnd,
    /// It belongs to somebody else: leave it alone.
    Refuse(String),
}

/// What is to be done about `wanted`, given what is there. `recorded` is the UID that was noted for it; `settled` tells
/// whether the server is known to keep the object in this form, whatever is sent.
pub fn step(
    owner: &Owner,
    wanted: &Wanted,
    live: Option<&DynamicObject>,
    recorded: Option<&str>,
    settled: impl FnOnce(&DynamicObject) -> bool,
) -> Step {
    let Some(live) = live else { return Step::Create };
    let known = recorded.is_some() && recorded == live.metadata.uid.as_deref();
    let whose = holder(owner, live.labels(), known);
    if let Some(why) = holder::refusal(owner, wanted, &whose) {
        return Step::Refuse(why);
    }
    if live.metadata.deletion_timestamp.is_some() {
        return Step::AwaitEnd;
    }
    let uid = live.metadata.uid.clone();
    let same_intent = live.annotations().get(annotations::INTENT_HASH) == Some(&wanted.hash);
    match drift(live, wanted) {
        None if same_intent => Step::Nothing,
        Some(_) if same_intent && settled(live) => Step::Nothing,
        drift => Step::Update {
            uid,
            taken_over: live.resource_version().filter(|_| whose != Holder::Own),
            drift: drift.filter(|_| same_intent),
        },
    }
}

/// The first field in which the live object is not as it shall be.
pub fn drift(live: &DynamicObject, wanted: &Wanted) -> Option<String> {
    covers::first_difference_of(live, &wanted.object)
}

/// A number that changes with what the live object has where the wanted one sets something.
pub fn projection(live: &DynamicObject, wanted: &Wanted) -> u64 {
    covers::projection_digest_of(live, &wanted.object)
}

/// What is to be done about an object that shall no longer be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Delete the object with this UID.
    Delete {
        /// UID of the object.
        uid: Option<String>,
        /// Version of the object, where its labels do not say that it is the owner's: somebody else may be taking it over.
        version: Option<String>,
    },
    /// It is on its way: wait.
    AwaitEnd {
        /// What keeps it, if anything does.
        finalizers: Vec<String>,
    },
    /// It is not ours, or no longer.
    Leave,
}

/// What is to be done about an object that is there and shall not be.
pub fn removal(owner: &Owner, live: &ObjectView<'_>, recorded: Option<&str>) -> Removal {
    let known = recorded.is_some() && recorded == live.uid;
    match holder(owner, live.labels, known) {
        Holder::Own if live.deleting => Removal::AwaitEnd { finalizers: live.finalizers.to_vec() },
        Holder::Own => Removal::Delete {
            uid: live.uid.map(ToOwned::to_owned),
            version: live
                .version
                .filter(|_| holder(owner, live.labels, false) != Holder::Own)
                .map(ToOwned::to_owned),
        },
        Holder::Nobody | Holder::Kin(_) | Holder::Other(_) => Removal::Leave,
    }
}

/// What a deletion looks at.
#[derive(Debug)]
pub struct ObjectView<'a> {
    /// Labels.
    pub labels: &'a BTreeMap<String, String>,
    /// UID.
    pub uid: Option<&'a str>,
    /// Version.
    pub version: Option<&'a str>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Finalizers.
    pub finalizers: &'a [String],
}

impl<'a> ObjectView<'a> {
    /// The view of an object.
    pub fn of<K: kube_core::Resource>(object: &'a K) -> Self {
        let meta = object.meta();
        Self {
            labels: object.labels(),
            uid: meta.uid.as_deref(),
            version: meta.resource_version.as_deref(),
            deleting: meta.deletion_timestamp.is_some(),
            finalizers: object.finalizers(),
        }
    }
}

#[cfg(test)]
mod tests;
