//! The kinds that a plane serves.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use kantor_api::common::InventoryItem;
use kantor_core::known::{Known, Proof};
use kube::core::ApiResource;
use serde::Deserialize;

use super::definitions::{Definitions, Says};

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

/// How a kind that a plane serves is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Served {
    /// Its names.
    pub resource: ApiResource,
    /// Whether its objects have a namespace.
    pub namespaced: bool,
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

    /// Whether the objects of a kind have a namespace, in whatever version; none if it is not served.
    pub fn is_namespaced(&self, kind: &Kind) -> Option<bool> {
        self.kinds.get(&self.in_any_version(kind)).map(|names| names.namespaced)
    }

    /// `kind` in a version that is served: its own, or any other.
    pub fn in_any_version(&self, kind: &Kind) -> Kind {
        if self.kinds.contains_key(kind) {
            return kind.clone();
        }
        let same = |other: &&Kind| (&other.group, &other.kind) == (&kind.group, &kind.kind);
        self.kinds.keys().find(same).unwrap_or(kind).clone()
    }

    /// What is known of `kind`, given the definitions of its group. Absent means that there are no objects of it, in whatever
    /// version.
    pub(super) fn known(&self, kind: &Kind, definitions: impl FnOnce() -> Definitions) -> Known<Served> {
        if let Some(names) = self.kinds.get(kind) {
            let resource = resource(kind, &names.plural);
            return Known::Present(Served { resource, namespaced: names.namespaced });
        }
        let (name, group) = (&kind.kind, &kind.group);
        if self.stale.contains(group) {
            return Known::Unknown(format!(
                "the server behind {group}, which has {name}, does not answer there"
            ));
        }
        let other = self.in_any_version(kind);
        if other != *kind {
            return Known::Unknown(format!(
                "{name} is served in {} there, not in {}",
                other.api_version(),
                kind.api_version()
            ));
        }
        match definitions() {
            Definitions::Listed(definitions) => {
                let may_have_objects = definitions.iter().filter(|definition| {
                    definition.says != Says::NeverAccepted && !self.serves(group, &definition.plural)
                });
                // Rather one that says why.
                let told = may_have_objects.max_by_key(|definition| matches!(definition.says, Says::Why(_)));
                told.map_or(Known::Absent(Proof::of_a_complete_look()), |definition| {
                    let why = match &definition.says {
                        Says::Why(why) => format!(": {why}"),
                        Says::Unread | Says::NeverAccepted => String::new(),
                    };
                    Known::Unknown(format!(
                        "{}.{group} is defined there and not served yet, and {name} may be of it{why}",
                        definition.plural
                    ))
                })
            }
            Definitions::Forbidden { settled: true } => Known::Absent(Proof::of_a_complete_look()),
            Definitions::Forbidden { settled: false } => Known::Unknown(format!(
                "{name} is not served there, and whether it is defined cannot be told: allow the plane's user to list \
                 customresourcedefinitions"
            )),
            Definitions::Unread => Known::Unknown(format!(
                "{name} is not served there, and the custom resource definitions have not been listed"
            )),
        }
    }

    /// The groups whose objects cannot be looked at, although there may be some: those whose server does not answer, and those of
    /// `defined` (names of definitions that may have objects) that are not served.
    pub(super) fn unseen<'a>(&'a self, defined: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
        let unserved = defined.filter(|name| self.is_unserved(name));
        let groups = unserved.filter_map(|name| Some(name.split_once('.')?.1));
        groups.chain(self.stale.iter().map(String::as_str)).collect()
    }

    /// Whether the definition of this name is not served.
    pub(super) fn is_unserved(&self, definition: &str) -> bool {
        definition.split_once('.').is_some_and(|(plural, group)| !self.serves(group, plural))
    }

    /// The groups that are served.
    pub(super) fn groups(&self) -> BTreeSet<&str> {
        self.kinds.keys().map(|kind| kind.group.as_str()).collect()
    }

    fn serves(&self, group: &str, plural: &str) -> bool {
        let first = Kind::new(group, "", "");
        let of_group = self.kinds.range(first..).take_while(|(kind, _)| kind.group == group);
        of_group.into_iter().any(|(_, names)| names.plural == plural)
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

    use super::{super::definitions::Definition, *};

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
        let found =
            |kind| match served.known(&kind, || panic!("nobody asks for definitions of what is served")) {
                Known::Present(Served { resource, namespaced }) => {
                    (resource.plural, resource.api_version, namespaced)
                }
                other => panic!("{other:?}"),
            };
        let deployment = found(Kind::new("apps", "v1", "Deployment"));
        assert_eq!(deployment, ("deployments".to_owned(), "apps/v1".to_owned(), true));
        let namespace = found(Kind::new("", "v1", "Namespace"));
        assert_eq!(namespace, ("namespaces".to_owned(), "v1".to_owned(), false));
        assert_eq!(served.kinds().count(), 2);
        // What was made in a version that is no longer served is found in another.
        assert_eq!(served.in_any_version(&Kind::new("apps", "v1beta1", "Deployment")).version, "v1");
        assert_eq!(served.in_any_version(&Kind::new("apps", "v1", "Other")).version, "v1");
        assert_eq!(served.namespaced().count(), 1);
    }

    /// There is a definition of each of these plurals, which nobody has read.
    fn listed(plurals: &[&str]) -> Definitions {
        saying(&plurals.iter().map(|plural| (*plural, Says::Unread)).collect::<Vec<_>>())
    }

    /// There is a definition of each of these plurals, which says this.
    fn saying(definitions: &[(&str, Says)]) -> Definitions {
        let definition =
            |(plural, says): &(&str, Says)| Definition { plural: (*plural).to_owned(), says: says.clone() };
        Definitions::Listed(definitions.iter().map(definition).collect())
    }

    #[rstest]
    #[case::never_heard_of("example.com/v1/Widget", listed(&[]), true)]
    #[case::all_definitions_are_served("apps/v1/Widget", listed(&["deployments"]), true)]
    #[case::its_definition_may_be_served_soon("apps/v1/Widget", listed(&["deployments", "widgets"]), false)]
    #[case::the_whole_group_may_be_served_soon("example.com/v1/Widget", listed(&["widgets"]), false)]
    #[case::its_definition_was_never_accepted("apps/v1/Widget", saying(&[("widgets", Says::NeverAccepted)]), true)]
    #[case::another_of_the_group_may_be_served_soon(
        "apps/v1/Widget", saying(&[("widgets", Says::NeverAccepted), ("gadgets", Says::Unread)]), false
    )]
    #[case::another_of_the_group_says_why_not(
        "apps/v1/Widget", saying(&[("gadgets", Says::Why(String::new())), ("widgets", Says::NeverAccepted)]), false
    )]
    #[case::definitions_are_not_listed("example.com/v1/Widget", Definitions::Unread, false)]
    #[case::they_may_not_be("example.com/v1/Widget", Definitions::Forbidden { settled: false }, false)]
    #[case::they_may_not_be_and_time_has_passed("example.com/v1/Widget", Definitions::Forbidden { settled: true }, true)]
    #[case::its_server_does_not_answer("metrics.k8s.io/v1/PodMetrics", listed(&[]), false)]
    #[case::another_version_is_served("apps/v2/Deployment", listed(&[]), false)]
    fn a_kind_is_absent_only_by_proof(
        #[case] kind: &str,
        #[case] definitions: Definitions,
        #[case] absent: bool,
    ) {
        let served = ServedKinds::read(&[&discovery()]).unwrap();
        let [group, version, name] = kind.split('/').collect::<Vec<_>>().try_into().unwrap();
        match served.known(&Kind::new(group, version, name), || definitions) {
            Known::Absent(_) => assert!(absent),
            Known::Unknown(why) => assert!(!absent && why.contains(name), "{why}"),
            Known::Present(served) => panic!("{served:?}"),
        }
    }

    #[test]
    fn a_definition_that_is_not_served_is_named_with_what_it_says() {
        let served = ServedKinds::read(&[&discovery()]).unwrap();
        let said = Says::Why("none of its versions is served".to_owned());
        let definitions = saying(&[("things", Says::Unread), ("gadgets", said), ("widgets", Says::Unread)]);
        let known = served.known(&Kind::new("apps", "v1", "Widget"), || definitions);
        let Known::Unknown(why) = known else { panic!("{known:?}") };
        assert_eq!(
            why,
            "gadgets.apps is defined there and not served yet, and Widget may be of it: none of its versions is served"
        );
    }

    #[test]
    fn what_is_defined_and_not_served_and_what_does_not_answer_cannot_be_looked_at() {
        let served = ServedKinds::read(&[&discovery()]).unwrap();
        let defined = ["deployments.apps", "widgets.example.com", "gadgets.example.com"];
        let unseen: Vec<&str> = served.unseen(defined.into_iter()).into_iter().collect();
        assert_eq!(unseen, ["example.com", "metrics.k8s.io"]);
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
