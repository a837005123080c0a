//! The kinds that a plane serves.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use kantor_api::common::InventoryItem;
use kube::core::ApiResource;
use serde::Deserialize;

/// A kind of the API.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// API group, empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
}

impl Kind {
    /// The kind of that group, version and name.
    pub fn new(group: impl Into<String>, version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// The kind of an object of an inventory.
    pub fn of(item: &InventoryItem) -> Self {
        Self::new(&item.group, &item.version, &item.kind)
    }

    /// Group and version as objects carry them.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }
}

/// Whether a plane serves a kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Serving {
    /// It does.
    Served {
        /// How it is asked for.
        resource: ApiResource,
        /// Whether its objects have a namespace.
        namespaced: bool,
    },
    /// It does not: there are no objects of the kind.
    Not,
    /// The part of the server that is responsible for the kind does not answer.
    Unknown,
}

/// The kinds that a plane serves. Planes that serve the same share one.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct ServedKinds {
    kinds: BTreeMap<Kind, Names>,
    /// Groups of which the server does not know at the moment what they have.
    stale: BTreeSet<String>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Names {
    plural: String,
    namespaced: bool,
}

impl ServedKinds {
    /// Reads the kinds from answers of the aggregated discovery API. None if one is something else, such as the answer
    /// of a server that is too old for it.
    pub(super) fn read(answers: &[&[u8]]) -> Option<Arc<Self>> {
        let mut served = Self::default();
        for answer in answers {
            let list: GroupList = serde_json::from_slice(answer).ok()?;
            if list.kind != "APIGroupDiscoveryList" {
                return None;
            }
            list.items.into_iter().for_each(|group| served.take(group));
        }
        Some(served.shared())
    }

    fn take(&mut self, group: Group) {
        let name = group.metadata.name;
        for version in group.versions {
            if version.freshness.as_deref() == Some("Stale") {
                self.stale.insert(name.clone());
            }
            for resource in version.resources {
                let Some(kind) = resource.response_kind else { continue };
                let names = Names { plural: resource.plural, namespaced: resource.scope == "Namespaced" };
                self.kinds.insert(Kind::new(&name, &version.name, kind.kind), names);
            }
        }
    }

    /// The same, in the memory that other planes use already.
    fn shared(self) -> Arc<Self> {
        static SHARED: Mutex<Option<HashMap<u64, Weak<ServedKinds>>>> = Mutex::new(None);
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = shared.get_or_insert_default();
        shared.retain(|_, kinds| kinds.strong_count() > 0);
        if let Some(known) = shared.get(&hasher.finish()).and_then(Weak::upgrade)
            && *known == self
        {
            return known;
        }
        let own = Arc::new(self);
        shared.insert(hasher.finish(), Arc::downgrade(&own));
        own
    }

    /// All kinds.
    pub fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.keys()
    }

    /// All kinds whose objects have a namespace.
    pub fn namespaced(&self) -> impl Iterator<Item = ApiResource> {
        self.kinds
            .iter()
            .filter(|(_, names)| names.namespaced)
            .map(|(kind, names)| resource(kind, &names.plural))
    }

    /// `kind` in a version that is served: its own, or any other.
    pub fn in_any_version(&self, kind: &Kind) -> Kind {
        if self.kinds.contains_key(kind) {
            return kind.clone();
        }
        let same = |other: &&Kind| (&other.group, &other.kind) == (&kind.group, &kind.kind);
        self.kinds.keys().find(same).unwrap_or(kind).clone()
    }

    /// Whether `kind` is served.
    pub fn serving(&self, kind: &Kind) -> Serving {
        match self.kinds.get(kind) {
            Some(names) => {
                Serving::Served { resource: resource(kind, &names.plural), namespaced: names.namespaced }
            }
            None if self.stale.contains(&kind.group) => Serving::Unknown,
            None => Serving::Not,
        }
    }
}

fn resource(kind: &Kind, plural: &str) -> ApiResource {
    ApiResource {
        group: kind.group.clone(),
        version: kind.version.clone(),
        api_version: kind.api_version(),
        kind: kind.kind.clone(),
        plural: plural.to_owned(),
    }
}

#[derive(Deserialize)]
struct GroupList {
    kind: String,
    #[serde(default)]
    items: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    metadata: Named,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
struct Named {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Version {
    #[serde(rename = "version")]
    name: String,
    freshness: Option<String>,
    #[serde(default)]
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    #[serde(default, rename = "resource")]
    plural: String,
    response_kind: Option<ResponseKind>,
    #[serde(default)]
    scope: String,
}

#[derive(Deserialize)]
struct ResponseKind {
    #[serde(default)]
    kind: String,
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn discovery() -> Vec<u8> {
        let answer = json!({"kind": "APIGroupDiscoveryList", "items": [
            {
                "metadata": {"name": "apps"},
                "versions": [
                    {"version": "v1", "freshness": "Current", "resources": [
                        {"resource": "deployments", "scope": "Namespaced",
                         "responseKind": {"group": "apps", "version": "v1", "kind": "Deployment"}},
                        {"resource": "broken"},
                    ]},
                ],
            },
            {"metadata": {"name": "metrics.k8s.io"}, "versions": [{"version": "v1", "freshness": "Stale"}]},
        ]});
        answer.to_string().into_bytes()
    }

    fn core() -> Vec<u8> {
        let answer = json!({"kind": "APIGroupDiscoveryList", "items": [{"metadata": {}, "versions": [
            {"version": "v1", "resources": [{"resource": "namespaces", "scope": "Cluster",
                "responseKind": {"group": "", "version": "v1", "kind": "Namespace"}}]},
        ]}]});
        answer.to_string().into_bytes()
    }

    #[test]
    fn kinds_are_read_with_plural_and_scope() {
        let served = ServedKinds::read(&[&core(), &discovery()]).unwrap();
        let Serving::Served { resource, namespaced } = served.serving(&Kind::new("apps", "v1", "Deployment"))
        else {
            panic!("served")
        };
        assert_eq!(
            (resource.plural.as_str(), resource.api_version.as_str(), namespaced),
            ("deployments", "apps/v1", true)
        );
        let Serving::Served { resource, namespaced } = served.serving(&Kind::new("", "v1", "Namespace"))
        else {
            panic!("served")
        };
        assert_eq!(
            (resource.plural.as_str(), resource.api_version.as_str(), namespaced),
            ("namespaces", "v1", false)
        );
        assert_eq!(served.kinds().count(), 2);
        // What was made in a version that is no longer served is found in another.
        assert_eq!(served.in_any_version(&Kind::new("apps", "v1beta1", "Deployment")).version, "v1");
        assert_eq!(served.in_any_version(&Kind::new("apps", "v1", "Other")).version, "v1");
        assert_eq!(served.namespaced().count(), 1);
    }

    #[test]
    fn a_kind_whose_server_does_not_answer_is_not_taken_for_absent() {
        let served = ServedKinds::read(&[&discovery()]).unwrap();
        assert_eq!(served.serving(&Kind::new("apps", "v2", "Deployment")), Serving::Not);
        assert_eq!(served.serving(&Kind::new("metrics.k8s.io", "v1", "PodMetrics")), Serving::Unknown);
    }

    #[test]
    fn planes_that_serve_the_same_share_it() {
        let (a, b) =
            (ServedKinds::read(&[&discovery()]).unwrap(), ServedKinds::read(&[&discovery()]).unwrap());
        assert!(Arc::ptr_eq(&a, &b));
        let other = ServedKinds::read(&[&core()]).unwrap();
        assert!(!Arc::ptr_eq(&a, &other));
    }

    #[rstest]
    #[case::too_old(r#"{"kind": "APIGroupList", "groups": []}"#)]
    #[case::a_page("<html></html>")]
    #[case::nothing("")]
    fn other_answers_are_not_taken_for_a_plane_without_kinds(#[case] answer: &str) {
        assert!(ServedKinds::read(&[answer.as_bytes()]).is_none());
    }
}
