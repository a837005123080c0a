//! Namespaces that are made for the objects of Releases: they go with the last of them.

use std::collections::BTreeMap;

use kantor_api::{
    data_plane::PodSecurity,
    labels::{self, MANAGED_BY_RELEASE_CONTROLLER, plane},
};

use super::label_value;

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
    let made_for_releases = is(labels::CREATED_BY, MANAGED_BY_RELEASE_CONTROLLER);
    // An object of a Release by now, or of an environment.
    let kept = is(labels::MANAGED_BY, MANAGED_BY_RELEASE_CONTROLLER)
        || is(plane::MANAGED_BY, plane::MANAGED_BY_DEPLOYMENT_CONTROLLER);
    let of_another =
        seen.labels.get(plane::ORGANIZATION_NAME).is_some_and(|found| *found != label_value(organization));
    if !made_for_releases || of_another || kept || needed {
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
