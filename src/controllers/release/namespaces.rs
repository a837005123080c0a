//! Namespaces that are made for the objects of Releases.

use std::collections::HashMap;

use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kantor_api::{
    Release,
    labels::{self, MANAGED_BY_RELEASE_CONTROLLER, plane},
};
use kantor_core::{changes::Outcome, hierarchy::Kind, release::Recorded, tenancy};
use kube::{ResourceExt, api::DynamicObject};
use tracing::warn;

use super::{place::Place, release};
use crate::{apply::WriteError, controllers::shared::targets::own_writer};

/// Makes the namespaces that the objects need and that are not there, and sees to the Pod Security level of those that are;
/// returns those that could not be made, and why.
pub(super) async fn make(
    release: &Release,
    place: &Place,
    recorded: &Recorded,
) -> HashMap<String, WriteError> {
    let mut unmade = HashMap::new();
    for name in &recorded.namespaces {
        if let Some(found) = place.at.namespaces.get(None, name) {
            if tenancy::is_of_another(found.labels(), &release.namespace().unwrap_or_default()) {
                // Made since the Release was judged.
                unmade.insert(name.clone(), WriteError::Conflict);
            } else {
                secure(&found, place).await;
            }
            continue;
        }
        let namespace = release::targeted_namespace(release, name, place.pod_security);
        match own_writer(&place.at.plane).create(&namespace).await {
            Ok(_) => place.at.plane.metrics().applied(&Outcome::Created),
            Err(WriteError::Conflict) if is_own(release, place, name).await => {}
            Err(error) => {
                unmade.insert(name.clone(), error);
            }
        }
    }
    unmade
}

/// Whether a namespace that the watch has not shown is of the Release's organization: somebody has just made it.
async fn is_own(release: &Release, place: &Place, name: &str) -> bool {
    let organization = release.namespace().unwrap_or_default();
    let found = own_writer(&place.at.plane).look(&Kind::Namespace.resource(), "", name).await;
    found.is_ok_and(|found| found.is_some_and(|found| tenancy::is_of(found.labels(), &organization)))
}

/// Gives a namespace that was made for Releases the Pod Security level of the plane. Those of environments are for
/// Deployments to see to.
async fn secure(found: &DynamicObject, place: &Place) {
    let is = |key: &str, value: &str| found.labels().get(key).is_some_and(|said| said == value);
    let kept = is(plane::MANAGED_BY, plane::MANAGED_BY_DEPLOYMENT_CONTROLLER)
        || is(labels::MANAGED_BY, MANAGED_BY_RELEASE_CONTROLLER);
    let level = release::namespace_level(place.pod_security, Some(found.labels()));
    let Some(level) = level.filter(|level| {
        release::is_for_releases(found.labels()) && !kept && !is(labels::POD_SECURITY, level)
    }) else {
        return;
    };
    let metadata = ObjectMeta {
        name: Some(found.name_any()),
        uid: found.uid(),
        // Others write to it as well, under the same name: only over what was seen.
        resource_version: found.resource_version(),
        labels: Some([(labels::POD_SECURITY.to_owned(), level.to_owned())].into()),
        ..ObjectMeta::default()
    };
    let namespace = Namespace { metadata, ..Namespace::default() };
    if let Err(error) = own_writer(&place.at.plane).apply(&namespace).await {
        // What runs there has run without it until now.
        warn!(plane = %place.at.plane.key, namespace = found.name_any(), %error, "no Pod Security level");
    }
}
