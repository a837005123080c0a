//! Namespaces that are made for the objects of Releases: they go with the last of them.

use std::collections::BTreeMap;

use kantor_api::labels::{self, MANAGED_BY_RELEASE_CONTROLLER, plane};

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

/// What is to be done about a namespace that a Release no longer needs. `needed` tells whether another one does.
pub fn namespace_step(seen: Option<SeenNamespace<'_>>, needed: bool) -> NamespaceStep {
    let Some(seen) = seen else { return NamespaceStep::Leave };
    let is = |key: &str, value: &str| seen.labels.get(key).is_some_and(|found| found == value);
    let made_for_releases = is(labels::CREATED_BY, MANAGED_BY_RELEASE_CONTROLLER);
    // An object of a Release by now, or of an environment.
    let kept = is(labels::MANAGED_BY, MANAGED_BY_RELEASE_CONTROLLER)
        || is(plane::MANAGED_BY, plane::MANAGED_BY_DEPLOYMENT_CONTROLLER);
    if !made_for_releases || kept || needed {
        NamespaceStep::Leave
    } else if seen.deleting {
        NamespaceStep::AwaitEnd
    } else {
        NamespaceStep::DeleteIfEmpty(seen.uid.map(ToOwned::to_owned))
    }
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
        assert_eq!(namespace_step(Some(seen), needed), expected);
        assert_eq!(namespace_step(None, needed), NamespaceStep::Leave);
    }
}
