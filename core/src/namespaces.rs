//! Namespaces on data planes: which belong to which environment and project, and what has to be done to be rid of them.
//!
//! A namespace is for one project in one environment. The environment's status records it, and the plane's labels tell it
//! again where the record is missing.

use std::collections::{BTreeMap, BTreeSet};

use kantor_api::{
    common::PlaneRecord, deployment::DeploymentStatus, environment::NamespaceRecord, labels::plane,
};

use super::{
    changes::Owner,
    release::{as_now, is_on, label_value},
};

/// A namespace as seen on a data plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaneNamespace {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: Option<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Whether it is being deleted.
    pub deleting: bool,
}

impl PlaneNamespace {
    fn label(&self, key: &str) -> &str {
        self.labels.get(key).map(String::as_str).unwrap_or_default()
    }

    /// Whether it is one of ours, for that environment of that organization.
    pub fn is_of(&self, organization: &str, environment: &str) -> bool {
        self.label(plane::MANAGED_BY) == plane::MANAGED_BY_DEPLOYMENT_CONTROLLER
            && self.label(plane::ORGANIZATION_NAME) == organization
            && self.label(plane::ENVIRONMENT_NAME) == environment
    }
}

/// Whose the namespace of a project in an environment is, by the labels of the one of its generated name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceOwner {
    /// There is none, or its labels name no organization.
    Nobody,
    /// The organization that asks.
    Organization,
    /// Another organization, or another project and environment.
    Other,
}

/// Whose the namespace with these labels is. Generated names can collide, and then labels have the last word.
pub fn owner_of(
    labels: Option<&BTreeMap<String, String>>,
    organization: &str,
    project: &str,
    environment: &str,
) -> NamespaceOwner {
    let label = |key: &str| labels?.get(key).filter(|value| !value.is_empty());
    let names_another = |key: &str, own: &str| label(key).is_some_and(|found| *found != label_value(own));
    let is_elsewhere =
        names_another(plane::PROJECT_NAME, project) && names_another(plane::ENVIRONMENT_NAME, environment);
    match label(plane::ORGANIZATION_NAME) {
        None => NamespaceOwner::Nobody,
        Some(found) if *found != label_value(organization) || is_elsewhere => NamespaceOwner::Other,
        Some(_) => NamespaceOwner::Organization,
    }
}

/// On whose behalf the objects are kept that the Deployments of a namespace share.
pub fn shared_owner(organization: &str, adopt: bool) -> Owner {
    Owner {
        uid: plane::MANAGED_BY_DEPLOYMENT_CONTROLLER.to_owned(),
        label: plane::MANAGED_BY,
        organization: organization.to_owned(),
        adopt,
        former_manager: Some(FORMER_MANAGER),
        ..Owner::default()
    }
}

/// Name under which OpenChoreo wrote its objects.
pub const FORMER_MANAGER: &str = "manager";

/// Whether a Deployment with this status has, or is about to have, objects in a namespace of a plane.
pub fn is_claimed_by(status: &DeploymentStatus, plane: &PlaneRecord, namespace: &str) -> bool {
    status.namespace.as_deref() == Some(namespace)
        && status.data_plane.iter().chain(&status.cleaning).any(|claimed| is_on(claimed, plane))
}

/// What is seen on a data plane at the moment: nothing if it cannot be told.
pub type Sight<'a> = &'a dyn Fn(&PlaneRecord) -> Option<Vec<PlaneNamespace>>;

/// Whether an environment that is on `current` is known to have left the plane of a record. Clusters are told apart by what
/// they are, not by the names of their DataPlanes: as long as that is not known of both, nothing is.
pub fn has_left(recorded: &PlaneRecord, current: &PlaneRecord) -> bool {
    recorded.cluster_uid.is_some() && current.cluster_uid.is_some() && !is_on(recorded, current)
}

/// What is to be recorded for an environment: what Deployments are about to use or still use (`claimed`), what was
/// recorded and is not known to be gone, and what is seen on the data plane `current`. What is on that cluster is recorded
/// under the name that it has now, so that a DataPlane of another name for it can go.
pub fn record(
    recorded: &[NamespaceRecord],
    claimed: &[NamespaceRecord],
    current: Option<&PlaneRecord>,
    organization: &str,
    environment: &str,
    sight: Sight<'_>,
) -> Vec<NamespaceRecord> {
    let as_reached = |record: &NamespaceRecord| match current {
        Some(now) if is_on(&record.data_plane, now) => {
            NamespaceRecord { data_plane: as_now(&record.data_plane, now), ..record.clone() }
        }
        _ => record.clone(),
    };
    let mut records: BTreeSet<NamespaceRecord> = recorded
        .iter()
        .map(as_reached)
        .filter(|record| {
            sight(&record.data_plane).is_none_or(|seen| {
                seen.iter().any(|ns| ns.name == record.name && ns.is_of(organization, environment))
            })
        })
        .chain(claimed.iter().map(as_reached))
        .collect();
    for namespace in
        current.and_then(sight).into_iter().flatten().filter(|ns| ns.is_of(organization, environment))
    {
        records.insert(NamespaceRecord {
            data_plane: current.cloned().unwrap_or_default(),
            project: namespace.label(plane::PROJECT_NAME).to_owned(),
            name: namespace.name,
        });
    }
    records.into_iter().collect()
}

/// What has to be done about one recorded namespace to be rid of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemovalStep {
    /// It is gone, or no longer ours.
    Gone,
    /// Delete the one with this UID, and wait.
    Delete {
        /// UID of the namespace that was seen.
        uid: Option<String>,
    },
    /// It is on its way.
    AwaitEnd,
    /// The data plane cannot be asked.
    Unreachable,
}

/// What has to be done about `record` to be rid of it, seeing `seen` on its data plane.
pub fn removal_step(
    record: &NamespaceRecord,
    organization: &str,
    environment: &str,
    seen: Option<&[PlaneNamespace]>,
) -> RemovalStep {
    let Some(seen) = seen else { return RemovalStep::Unreachable };
    match seen.iter().find(|ns| ns.name == record.name && ns.is_of(organization, environment)) {
        None => RemovalStep::Gone,
        Some(namespace) if namespace.deleting => RemovalStep::AwaitEnd,
        Some(namespace) => RemovalStep::Delete { uid: namespace.uid.clone() },
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn plane_a() -> PlaneRecord {
        PlaneRecord { namespace: "acme".into(), name: "a".into(), cluster_uid: Some("uid-a".into()) }
    }

    fn plane_b() -> PlaneRecord {
        PlaneRecord { namespace: "acme".into(), name: "b".into(), cluster_uid: Some("uid-b".into()) }
    }

    /// The cluster of plane a, under another name.
    fn plane_a_anew() -> PlaneRecord {
        PlaneRecord { name: "anew".into(), ..plane_a() }
    }

    fn namespace(name: &str, organization: &str, environment: &str) -> PlaneNamespace {
        let labels = [
            (plane::MANAGED_BY, plane::MANAGED_BY_DEPLOYMENT_CONTROLLER),
            (plane::ORGANIZATION_NAME, organization),
            (plane::ENVIRONMENT_NAME, environment),
            (plane::PROJECT_NAME, "shop"),
        ];
        let labels = labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        PlaneNamespace { name: name.into(), uid: Some(format!("uid-{name}")), labels, deleting: false }
    }

    fn recorded(name: &str, data_plane: PlaneRecord) -> NamespaceRecord {
        NamespaceRecord { name: name.into(), project: "shop".into(), data_plane }
    }

    #[test]
    fn what_is_seen_is_recorded_and_only_that_of_the_environment() {
        let seen = vec![
            namespace("ours", "acme", "dev"),
            namespace("other-environment", "acme", "prod"),
            namespace("other-tenant", "globex", "dev"),
            PlaneNamespace { labels: BTreeMap::new(), ..namespace("unlabelled", "acme", "dev") },
        ];
        let records = record(&[], &[], Some(&plane_a()), "acme", "dev", &|_| Some(seen.clone()));
        assert_eq!(records, [recorded("ours", plane_a())]);
    }

    #[test]
    fn a_record_goes_only_when_its_plane_shows_that_the_namespace_has_gone() {
        let before = [recorded("old", plane_b()), recorded("gone", plane_a())];
        // Plane b does not answer; plane a does and has nothing.
        let sight = |plane: &PlaneRecord| (plane.name == "a").then(Vec::new);
        assert_eq!(
            record(&before, &[], Some(&plane_a()), "acme", "dev", &sight),
            [recorded("old", plane_b())]
        );
        assert_eq!(
            record(&before, &[], None, "acme", "dev", &|_| None),
            [recorded("gone", plane_a()), recorded("old", plane_b())]
        );
    }

    #[test]
    fn what_a_deployment_is_about_to_use_is_recorded_before_it_is_there() {
        let claimed = [recorded("new", plane_a())];
        let records = record(&[], &claimed, Some(&plane_a()), "acme", "dev", &|_| Some(vec![]));
        assert_eq!(records, claimed);
    }

    #[test]
    fn what_is_on_a_cluster_is_recorded_under_the_name_that_it_has_now() {
        let before = [recorded("ns", plane_a()), recorded("old", plane_b())];
        let claimed = [recorded("ns", plane_a()), recorded("new", plane_a())];
        let there = vec![namespace("ns", "acme", "dev"), namespace("new", "acme", "dev")];
        // The DataPlane of the old name is no longer connected.
        let sight = |plane: &PlaneRecord| (plane.name == "anew").then(|| there.clone());
        let now = plane_a_anew();
        assert_eq!(
            record(&before, &claimed, Some(&now), "acme", "dev", &sight),
            [recorded("new", now.clone()), recorded("ns", now.clone()), recorded("old", plane_b())]
        );
        // One that was never connected may be any cluster.
        let unknown = PlaneRecord { cluster_uid: None, ..now };
        assert_eq!(
            record(&before[..1], &[], Some(&unknown), "acme", "dev", &|_| None),
            [recorded("ns", plane_a())]
        );
    }

    #[rstest]
    #[case::the_same(plane_a(), plane_a(), false)]
    #[case::the_same_under_another_name(plane_a(), plane_a_anew(), false)]
    #[case::another_one(plane_a(), plane_b(), true)]
    #[case::another_one_of_the_name(plane_a(), PlaneRecord { name: "a".into(), ..plane_b() }, true)]
    #[case::one_that_was_never_connected(plane_a(), PlaneRecord { cluster_uid: None, ..plane_b() }, false)]
    #[case::from_one_that_is_not_known(PlaneRecord { cluster_uid: None, ..plane_a() }, plane_b(), false)]
    fn a_plane_is_left_when_the_environment_is_known_to_be_on_another_cluster(
        #[case] recorded: PlaneRecord,
        #[case] current: PlaneRecord,
        #[case] expected: bool,
    ) {
        assert_eq!(has_left(&recorded, &current), expected);
    }

    #[rstest]
    #[case::not_known(None, RemovalStep::Unreachable)]
    #[case::gone(Some(vec![]), RemovalStep::Gone)]
    #[case::there(Some(vec![namespace("ns", "acme", "dev")]), RemovalStep::Delete { uid: Some("uid-ns".into()) })]
    #[case::going(
        Some(vec![PlaneNamespace { deleting: true, ..namespace("ns", "acme", "dev") }]),
        RemovalStep::AwaitEnd
    )]
    #[case::of_someone_else_by_now(Some(vec![namespace("ns", "globex", "dev")]), RemovalStep::Gone)]
    fn a_namespace_is_deleted_only_while_it_is_seen_to_be_ours(
        #[case] seen: Option<Vec<PlaneNamespace>>,
        #[case] expected: RemovalStep,
    ) {
        assert_eq!(removal_step(&recorded("ns", plane_a()), "acme", "dev", seen.as_deref()), expected);
    }
}
