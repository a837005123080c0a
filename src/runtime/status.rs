//! Status of objects.

use kantor_api::conditions::Conditioned;
use kube::Resource;

/// Whether something has been said of the object as it now is.
pub(crate) fn is_spoken_for<K: Resource + Conditioned>(object: &K) -> bool {
    object.observed_generation() == object.meta().generation && !object.conditions().is_empty()
}
