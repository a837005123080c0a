//! Where the objects of a Release shall be.

use std::sync::Arc;

use kantor_api::{
    Release,
    common::InventoryItem,
    data_plane::{PodSecurity, ReleasePolicy},
    managers,
};
use kantor_core::{
    health::Checks,
    hierarchy::Kind,
    known::Known,
    lifecycle::Standing,
    release::{self, Report},
};
use kube::runtime::reflector::ObjectRef;

use super::{Context, Plane};
use crate::{
    apply::{Site, Writer},
    controllers::shared::targets,
    planes::{self, Follow, Followed},
    runtime::status,
};

/// Selects the objects of all Releases.
/// Spelled out, since constants cannot be joined; a test compares it with its parts.
pub(super) const SELECTOR: &str = "openchoreo.dev/managed-by=release-controller";

/// Where the objects of a Release shall be.
pub(super) enum Located {
    /// On this plane.
    At(Box<Place>),
    /// That cannot be told, or the plane does not answer.
    Nowhere(Report),
    /// It is not known yet, and what was said last may still hold; if nothing was, this is to be said.
    NotYet(Option<Report>),
}

/// A plane that Releases go to.
pub(super) struct Place {
    /// The plane.
    pub at: targets::Place,
    /// How the health of its kinds is told.
    pub checks: Arc<Checks>,
    /// The Pod Security level of its namespaces.
    pub pod_security: PodSecurity,
}

impl Place {
    /// What Releases may put there.
    pub fn policy(&self) -> Option<&ReleasePolicy> {
        self.at.data_plane.spec.release_policy.as_ref()
    }

    /// Where the engine writes, and in whose name.
    pub fn site(&self) -> Site<'_> {
        site(&self.at.plane, self.policy())
    }
}

/// Where the engine writes on a plane, and in whose name.
pub(super) fn site<'a>(plane: &'a Plane, policy: Option<&ReleasePolicy>) -> Site<'a> {
    let account = policy.and_then(|policy| policy.service_account.as_ref());
    let user = account.map(|a| format!("system:serviceaccount:{}:{}", a.namespace, a.name));
    Site {
        plane,
        writer: Writer::to_plane(plane, user.as_deref()),
        manager: managers::RELEASE,
        selector: SELECTOR,
    }
}

/// Finds the plane of a Release.
pub(super) fn locate(release: &Release, context: &Context) -> Located {
    let environment = match context.world.resolve(release, Kind::Environment) {
        Ok(id) => context.world.stores.environments.get(&ObjectRef::new(&id.name).within(&id.namespace)),
        Err(error) => return nowhere(Standing::unresolved(&error)),
    };
    let Some(environment) = environment else { return Located::NotYet(None) };
    match targets::locate(&environment, context) {
        targets::Located::At(at) => {
            let checks = context.releases.checks(&at.data_plane);
            let pod_security = context.settings.pod_security_on(&at.data_plane);
            Located::At(Box::new(Place { at: *at, checks, pod_security }))
        }
        targets::Located::NotYet { standing, late } => match nowhere(standing) {
            Located::Nowhere(report) if late || !status::is_spoken_for(release) => {
                Located::NotYet(Some(report))
            }
            _ => Located::NotYet(None),
        },
        targets::Located::Nowhere(standing) => nowhere(standing),
    }
}

fn nowhere(standing: Standing) -> Located {
    match standing {
        Standing::Stalled { reason, message } => Located::Nowhere(Report::refused(reason, message)),
        Standing::Unknown { reason, message } => Located::Nowhere(Report::unknown(reason, message)),
        _ => Located::NotYet(None),
    }
}

/// The watch of the kind of an object, if the plane serves it.
pub(super) fn followed(plane: &Plane, item: &InventoryItem) -> Option<Arc<Followed>> {
    let served = plane.known(&planes::Kind::of(item)).if_present()?;
    Some(plane.follow(&served.resource, SELECTOR, Follow::Whole))
}

/// Whether the plane has routes of the Release with this UID. The error says what is not known.
pub(in crate::controllers) async fn has_routes(plane: &Plane, uid: &str) -> Result<bool, String> {
    let kinds = plane.kinds();
    for (group, kind) in release::ROUTES {
        let kind = kinds.in_any_version(&planes::Kind::new(group, "v1", kind));
        let served = match plane.known(&kind) {
            Known::Present(served) => served,
            Known::Absent(_) => continue,
            Known::Unknown(why) => {
                return Err(format!("{} on data plane {}: {why}", kind.kind, plane.key.name));
            }
        };
        let followed = plane.follow(&served.resource, SELECTOR, Follow::Whole);
        followed.listed(plane.deadline).await;
        if !followed.is_synced() {
            return Err(format!("the list of every {} on data plane {}", kind.kind, plane.key.name));
        }
        if !followed.owned_by(uid).is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use kantor_api::labels;

    use super::*;

    #[test]
    fn the_selector_is_made_of_label_and_value() {
        let expected = format!("{}={}", labels::MANAGED_BY, labels::MANAGED_BY_RELEASE_CONTROLLER);
        assert_eq!(SELECTOR, expected);
    }
}
