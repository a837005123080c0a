//! The newest versions that were written of objects: what a watch has not told of yet is not decided on again.

use std::{sync::Arc, time::Duration};

use kantor_core::changes;
use kube::{Resource, ResourceExt};
use moka::sync::Cache;

/// Until then a watch has told of everything; if it has not, looking at what is known does no harm.
const CAUGHT_UP: Duration = Duration::from_secs(10);

/// Versions by UID. Cheap to clone; the clones are one.
#[derive(Clone)]
pub struct Latest(Cache<String, Arc<str>>);

impl Default for Latest {
    fn default() -> Self {
        Self(Cache::builder().time_to_live(CAUGHT_UP).build())
    }
}

impl Latest {
    /// Notes an object as it was written.
    pub(super) fn note(&self, written: &impl Resource) {
        if let (Some(uid), Some(version)) = (written.uid(), written.resource_version()) {
            self.0.insert(uid, version.into());
        }
    }

    /// Notes that an object went with what was written of it: whatever a watch still tells is from before.
    pub(super) fn note_end(&self, object: &impl Resource) {
        if let Some(uid) = object.uid() {
            self.0.insert(uid, u64::MAX.to_string().into());
        }
    }

    /// Whether an object is from before what was last written of it.
    pub fn is_after(&self, object: &impl Resource) -> bool {
        let written = object.meta().uid.as_ref().and_then(|uid| self.0.get(uid));
        changes::is_older(object, written.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use kantor_api::{Organization, organization::OrganizationSpec};

    use super::*;

    fn version(version: &str) -> Organization {
        let mut organization = Organization::new("acme", OrganizationSpec {});
        organization.metadata.uid = Some("uid".to_owned());
        organization.metadata.resource_version = Some(version.to_owned());
        organization
    }

    #[test]
    fn an_object_from_before_a_write_is_known_as_such() {
        let latest = Latest::default();
        assert!(!latest.is_after(&version("9")));
        latest.note(&version("10"));
        assert!(latest.is_after(&version("9")));
        assert!(!latest.is_after(&version("10")) && !latest.is_after(&version("11")));
    }

    #[test]
    fn what_is_told_of_an_object_that_has_gone_is_from_before() {
        let latest = Latest::default();
        latest.note_end(&version("10"));
        assert!(latest.is_after(&version("10")) && latest.is_after(&version("11")));
    }
}
