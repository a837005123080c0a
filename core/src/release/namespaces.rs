//! Namespaces that are made for the objects of Releases: they go with the last of them.

use std::collections::{BTreeMap, BTreeSet};

use kantor_api::{
    Release,
    common::PlaneRecord,
    data_plane::PodSecurity,
    labels::{self, MANAGED_BY_RELEASE_CONTROLLER, plane},
    release::{ReleaseStatus, RemovingObjects, ResourceStatus},
};

use super::{Rendered, is_on, label_value, uses_namespace};

/// The namespaces that are made for the objects of a Release on `plane`, or were: those that are not there, and those that go with
/// the last Release. `live` tells the labels of a namespace that is there.
pub fn namespaces_to_make(
    before: &ReleaseStatus,
    plane: &PlaneRecord,
    rendered: &[Rendered],
    live: &dyn Fn(&str) -> Option<BTreeMap<String, String>>,
) -> Vec<String> {
    let stays = before.data_plane.as_ref().is_some_and(|before| is_on(before, plane));
    let mut used = super::namespaces(rendered);
    used.retain(|name| {
        (stays && before.namespaces.contains(name))
            || live(name).is_none_or(|labels| is_for_releases(&labels))
    });
    used.into_iter().collect()
}

/// Whether a namespace with these labels was made for Releases: it goes with the last of them.
pub fn is_for_releases(labels: &BTreeMap<String, String>) -> bool {
    labels.get(labels::CREATED_BY).is_some_and(|by| by == MANAGED_BY_RELEASE_CONTROLLER)
}

/// The namespaces that may have been made for the objects that are removed and that nothing of the Release `stays` in: those that were
/// recorded, and those of the objects. One may have been made for another Release that needed it, and left it to this one.
pub fn namespaces_to_leave(removing: &RemovingObjects, stays: &[ResourceStatus]) -> BTreeSet<String> {
    let of_objects = removing.objects.iter().map(|item| &item.namespace).filter(|name| !name.is_empty());
    let is_left = |name: &&String| !stays.iter().any(|resource| resource.namespace.as_ref() == Some(name));
    removing.namespaces.iter().chain(of_objects.filter(is_left)).cloned().collect()
}

/// Whether a Release other than the one with `uid` needs a namespace of a plane: one of `organization`, which is not being deleted.
/// What others recorded says nothing: they may write what they like into their status.
pub fn is_needed_by(
    other: &Release,
    uid: Option<&str>,
    organization: &str,
    plane: &PlaneRecord,
    namespace: &str,
) -> bool {
    other.metadata.uid.as_deref() != uid
        && other.metadata.deletion_timestamp.is_none()
        && has_objects_in(other, organization, plane, namespace)
}

/// Whether a Release of `organization` has, or may have, objects in a namespace of a plane.
pub fn has_objects_in(release: &Release, organization: &str, plane: &PlaneRecord, namespace: &str) -> bool {
    release.metadata.namespace.as_deref() == Some(organization)
        && release.status.as_ref().is_some_and(|status| uses_namespace(status, plane, namespace))
}

/// What is to be done about a namespace that a Release no longer needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceStep {
    /// It is not there, or it is somebody's: nothing.
    Leave,
    /// It is on its way.
    AwaitEnd,
    /// Delete the one with this UID if there is nothing in it.
    DeleteIfEmpty(Option<String>),
}

/// A namespace on a plane.
#[derive(Clone, Copy, Debug)]
pub struct SeenNamespace<'a> {
    /// Labels.
    pub labels: &'a BTreeMap<String, String>,
    /// UID.
    pub uid: Option<&'a str>,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// What is to be done about a namespace that a Release of `organization` no longer needs. `needed` tells whether another one
/// does.
pub fn namespace_step(seen: Option<SeenNamespace<'_>>, organization: &str, needed: bool) -> NamespaceStep {
    let Some(seen) = seen else { return NamespaceStep::Leave };
    let is = |key: &str, value: &str| seen.labels.get(key).is_some_and(|found| found == value);
    // An object of a Release by now, or of an environment.
    let kept = is(labels::MANAGED_BY, MANAGED_BY_RELEASE_CONTROLLER)
        || is(plane::MANAGED_BY, plane::MANAGED_BY_DEPLOYMENT_CONTROLLER);
    let of_another =
        seen.labels.get(plane::ORGANIZATION_NAME).is_some_and(|found| *found != label_value(organization));
    if !is_for_releases(seen.labels) || of_another || kept || needed {
        NamespaceStep::Leave
    } else if seen.deleting {
        NamespaceStep::AwaitEnd
    } else {
        NamespaceStep::DeleteIfEmpty(seen.uid.map(ToOwned::to_owned))
    }
}

/// The Pod Security level that a namespace shall have on a data plane of `level`, if any: what is stricter already stays.
pub fn namespace_level(level: PodSecurity, live: Option<&BTreeMap<String, String>>) -> Option<&'static str> {
    let said = live.and_then(|labels| labels.get(labels::POD_SECURITY));
    let said = said.map_or(PodSecurity::None, |said| PodSecurity::of_label(said));
    level.label().and_then(|_| level.max(said).label())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const MADE: (&str, &str) = (labels::CREATED_BY, MANAGED_BY_RELEASE_CONTROLLER);

    #[rstest]
    #[case::made_for_it(&[MADE], false, false, NamespaceStep::DeleteIfEmpty(Some("uid".into())))]
    #[case::going(&[MADE], true, false, NamespaceStep::AwaitEnd)]
    #[case::needed_by_another(&[MADE], false, true, NamespaceStep::Leave)]
    #[case::of_the_organization(
        &[MADE, (plane::ORGANIZATION_NAME, "acme")], false, false, NamespaceStep::DeleteIfEmpty(Some("uid".into()))
    )]
    #[case::of_another_organization(
        &[MADE, (plane::ORGANIZATION_NAME, "globex")], false, false, NamespaceStep::Leave
    )]
    #[case::made_by_somebody_else(&[], false, false, NamespaceStep::Leave)]
    #[case::an_object_of_a_release(
        &[MADE, (labels::MANAGED_BY, MANAGED_BY_RELEASE_CONTROLLER)], false, false, NamespaceStep::Leave
    )]
    #[case::of_an_environment(
        &[MADE, (plane::MANAGED_BY, plane::MANAGED_BY_DEPLOYMENT_CONTROLLER)], false, false, NamespaceStep::Leave
    )]
    fn only_what_was_made_for_releases_and_is_free_goes(
        #[case] labels: &[(&str, &str)],
        #[case] deleting: bool,
        #[case] needed: bool,
        #[case] expected: NamespaceStep,
    ) {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let seen = SeenNamespace { labels: &labels, uid: Some("uid"), deleting };
        assert_eq!(namespace_step(Some(seen), "acme", needed), expected);
        assert_eq!(namespace_step(None, "acme", needed), NamespaceStep::Leave);
    }

    #[test]
    fn the_namespaces_of_objects_that_go_are_left_unless_something_stays_there() {
        let item = |namespace: &str| kantor_api::common::InventoryItem {
            namespace: namespace.to_owned(),
            ..Default::default()
        };
        let removing = RemovingObjects {
            objects: vec![item("a"), item("b"), item("")],
            namespaces: vec!["made".to_owned()],
            ..RemovingObjects::default()
        };
        let stays = ResourceStatus { namespace: Some("b".to_owned()), ..ResourceStatus::default() };
        let left =
            |stays: &[ResourceStatus]| namespaces_to_leave(&removing, stays).into_iter().collect::<Vec<_>>();
        assert_eq!(left(&[]), ["a", "b", "made"]);
        assert_eq!(left(&[stays]), ["a", "made"]);
    }

    #[rstest]
    #[case::of_the_organization("acme", "other", false, true)]
    #[case::itself("acme", "me", false, false)]
    #[case::of_another_organization("globex", "other", false, false)]
    #[case::being_deleted("acme", "other", true, false)]
    fn a_namespace_is_needed_by_other_releases_of_the_organization(
        #[case] organization: &str,
        #[case] uid: &str,
        #[case] deleting: bool,
        #[case] expected: bool,
    ) {
        let plane = PlaneRecord { namespace: "acme".into(), name: "p".into(), cluster_uid: Some("c".into()) };
        let mut other = Release::new("other", kantor_api::release::ReleaseSpec::default());
        other.metadata.namespace = Some(organization.to_owned());
        other.metadata.uid = Some(uid.to_owned());
        other.metadata.deletion_timestamp = deleting
            .then_some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
        other.status = Some(ReleaseStatus {
            data_plane: Some(plane.clone()),
            namespaces: vec!["ns".to_owned()],
            ..ReleaseStatus::default()
        });
        assert_eq!(is_needed_by(&other, Some("me"), "acme", &plane, "ns"), expected);
        assert!(!is_needed_by(&other, Some("me"), "acme", &plane, "elsewhere"));
    }

    #[rstest]
    #[case::new(PodSecurity::Baseline, None, Some("baseline"))]
    #[case::unsaid(PodSecurity::Restricted, Some(""), Some("restricted"))]
    #[case::weaker(PodSecurity::Baseline, Some("privileged"), Some("baseline"))]
    #[case::nonsense(PodSecurity::Baseline, Some("Restricted!"), Some("baseline"))]
    #[case::stricter(PodSecurity::Baseline, Some("restricted"), Some("restricted"))]
    #[case::open(PodSecurity::Privileged, Some("baseline"), Some("baseline"))]
    #[case::none(PodSecurity::None, None, None)]
    #[case::left_alone(PodSecurity::None, Some("privileged"), None)]
    fn a_namespace_gets_the_level_of_its_plane_and_keeps_what_is_stricter(
        #[case] level: PodSecurity,
        #[case] live: Option<&str>,
        #[case] expected: Option<&str>,
    ) {
        let labels = live.map(|said| BTreeMap::from([(labels::POD_SECURITY.to_owned(), said.to_owned())]));
        assert_eq!(namespace_level(level, labels.as_ref()), expected);
    }
}
