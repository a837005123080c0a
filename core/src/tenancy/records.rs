//! Which recorded facts are believed. A status is written by Kantor, but whoever may write it in a namespace can say there
//! what they like: it must lead nowhere that the object itself could not have led.

use std::collections::BTreeMap;

use kantor_api::common::{InventoryItem, PlaneRecord};

use super::{Asked, ReleasePolicy, Sight, Tenant, refusal};
use crate::hierarchy::FALLBACK_NAMESPACE;

/// Whether an object of `namespace` can have got to a data plane: to one of its own namespace, or, for kinds that fall back
/// on the platform team's, to one of that.
pub fn may_be_on(plane: &PlaneRecord, namespace: &str, falls_back: bool) -> bool {
    plane.namespace == namespace || (falls_back && plane.namespace == FALLBACK_NAMESPACE)
}

/// A recorded object of a Release as far as it is believed: without its labels it is known by its UID only on a data plane of
/// its own organization, and where a Release of it may write.
pub fn believed(
    item: &InventoryItem,
    plane: &PlaneRecord,
    tenant: &Tenant<'_>,
    policy: Option<&ReleasePolicy>,
    namespaces: &Sight<'_>,
) -> InventoryItem {
    let none = BTreeMap::default();
    let asked = Asked {
        group: &item.group,
        kind: &item.kind,
        namespaced: !item.namespace.is_empty(),
        namespace: &item.namespace,
        name: &item.name,
        labels: &none,
    };
    // A Namespace takes along whatever is in it: that it may be written to does not make it one's own.
    let is_own = may_be_on(plane, tenant.organization, false) && !asked.is_namespace();
    let allowed = is_own && refusal(tenant, policy, &asked, namespaces).is_none();
    InventoryItem { uid: item.uid.clone().filter(|_| allowed), ..item.clone() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kantor_api::labels::plane::ORGANIZATION_NAME;
    use rstest::rstest;

    use super::*;

    fn plane(namespace: &str) -> PlaneRecord {
        PlaneRecord { namespace: namespace.into(), name: "prod".into(), cluster_uid: Some("uid".into()) }
    }

    #[rstest]
    #[case::own("acme", true, true)]
    #[case::of_the_platform_team("default", false, true)]
    #[case::of_another("globex", false, false)]
    #[case::of_nobody("", false, false)]
    fn a_recorded_plane_is_ones_own_or_the_platform_teams(
        #[case] namespace: &str,
        #[case] of_deployments: bool,
        #[case] of_releases: bool,
    ) {
        assert_eq!(may_be_on(&plane(namespace), "acme", false), of_deployments);
        assert_eq!(may_be_on(&plane(namespace), "acme", true), of_releases);
    }

    #[rstest]
    #[case::own_place("acme", "ConfigMap", "acme-a", true)]
    #[case::own_generated_place("acme", "ConfigMap", "", true)]
    #[case::of_kubernetes("acme", "Deployment", "kube-system", false)]
    #[case::of_another("acme", "Secret", "globex-a", false)]
    #[case::nobodys("acme", "Secret", "monitoring", false)]
    #[case::a_guarded_kind("acme", "Endpoints", "acme-a", false)]
    #[case::on_a_plane_of_everybody("default", "ConfigMap", "acme-a", false)]
    #[case::on_a_plane_of_another("globex", "ConfigMap", "acme-a", false)]
    fn an_object_without_labels_is_ones_own_by_its_uid_only_where_one_may_write(
        #[case] on: &str,
        #[case] kind: &str,
        #[case] namespace: &str,
        #[case] expected: bool,
    ) {
        let tenant = Tenant { organization: "acme", project: "shop", environment: "dev" };
        let home = super::super::own_namespace(&tenant);
        let namespace = if namespace.is_empty() { &home } else { namespace };
        let live = |name: &str| -> Option<BTreeMap<String, String>> {
            let organization = name.strip_suffix("-a");
            Some(
                organization
                    .map(|found| (ORGANIZATION_NAME.to_owned(), found.to_owned()))
                    .into_iter()
                    .collect(),
            )
        };
        let item = InventoryItem {
            version: "v1".into(),
            kind: kind.into(),
            namespace: namespace.to_owned(),
            name: "thing".into(),
            uid: Some("uid".into()),
            ..InventoryItem::default()
        };
        let seen = believed(&item, &plane(on), &tenant, None, &live);
        assert_eq!(seen.uid.is_some(), expected);
        assert_eq!(InventoryItem { uid: None, ..seen }, InventoryItem { uid: None, ..item });
    }

    #[test]
    fn a_cluster_wide_object_without_labels_is_left_unless_the_policy_allows_its_kind() {
        let tenant = Tenant { organization: "acme", project: "shop", environment: "dev" };
        let item = InventoryItem {
            kind: "PersistentVolume".into(),
            name: "thing".into(),
            uid: Some("uid".into()),
            ..InventoryItem::default()
        };
        assert_eq!(believed(&item, &plane("acme"), &tenant, None, &|_| None).uid, None);
        let policy = ReleasePolicy {
            cluster_scoped_kinds: vec!["PersistentVolume".into()],
            ..ReleasePolicy::default()
        };
        assert_eq!(believed(&item, &plane("acme"), &tenant, Some(&policy), &|_| None).uid, item.uid);
        // What is in a Namespace may be others'.
        let open = ReleasePolicy { namespaces: vec!["*".into()], ..ReleasePolicy::default() };
        let namespace = InventoryItem { kind: "Namespace".into(), name: "shared".into(), ..item };
        assert_eq!(believed(&namespace, &plane("acme"), &tenant, Some(&open), &|_| None).uid, None);
    }
}
