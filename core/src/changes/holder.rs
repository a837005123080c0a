//! Whose an object on a data plane is, and whether it may be taken over.

use std::collections::BTreeMap;

use kantor_api::{
    annotations,
    labels::{self, plane},
};

use super::{Owner, Wanted, shown};
use crate::release::label_value;

/// Whose an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The owner's that asks.
    Own,
    /// Nobody's whom Kantor knows.
    Nobody,
    /// Another owner's, of the same kind and organization, in words.
    Kin(String),
    /// Somebody else's: of another organization, or kept by another controller. In words that do not tell whose.
    Other(&'static str),
}

/// Whose an object with these labels is. `recorded` tells that it is the very object that was made for the owner: then
/// labels that somebody removed do not make it a stranger.
///
/// Deployments, Releases, and what Deployments share are kept by different controllers, which would change the objects of
/// each other back without end: what one of them keeps is not another one's, whoever asks for it.
pub fn holder(owner: &Owner, labels: &BTreeMap<String, String>, recorded: bool) -> Holder {
    const OTHERS: &str = "somebody else on this data plane";
    let label = |key: &str| labels.get(key).filter(|value| !value.is_empty()).map(String::as_str);
    let is = |key: &str, value: &str| label(key) == Some(value);
    let shared = is(plane::MANAGED_BY, plane::MANAGED_BY_DEPLOYMENT_CONTROLLER);
    let of_release = label(labels::RELEASE_UID);
    let of_organization = |key: &str| is(key, &label_value(&owner.organization));
    let inherited = !owner.inherited.is_empty()
        && owner.inherited.iter().all(|(key, value)| labels.get(key) == Some(value));
    let own = || if recorded || inherited { Holder::Own } else { Holder::Nobody };
    match owner.label {
        labels::RELEASE_UID => match of_release {
            _ if shared || label(labels::OWNER_UID).is_some() => Holder::Other("a Deployment"),
            Some(uid) if uid == owner.uid => Holder::Own,
            Some(_) if of_organization(labels::RELEASE_NAMESPACE) => Holder::Kin(release_of(labels)),
            Some(_) => Holder::Other(OTHERS),
            None => own(),
        },
        labels::OWNER_UID => match label(labels::OWNER_UID) {
            _ if of_release.is_some() => Holder::Other("a Release"),
            Some(uid) if uid == owner.uid => Holder::Own,
            Some(_) if of_organization(plane::ORGANIZATION_NAME) => {
                Holder::Kin("another Deployment or Endpoint".to_owned())
            }
            Some(_) => Holder::Other(OTHERS),
            None => own(),
        },
        // What the Deployments of a namespace share. A namespace that was only made for Releases is theirs too. Generated
        // names of two organizations can be the same.
        _ if shared && label(plane::ORGANIZATION_NAME).is_none() => Holder::Own,
        _ if shared && of_organization(plane::ORGANIZATION_NAME) => Holder::Own,
        _ if shared => Holder::Other(OTHERS),
        _ if label(labels::OWNER_UID).is_some() => Holder::Other("a Deployment"),
        _ if is(labels::MANAGED_BY, labels::MANAGED_BY_RELEASE_CONTROLLER) => Holder::Other("a Release"),
        _ if of_release.is_none() => own(),
        _ if of_organization(labels::RELEASE_NAMESPACE) => Holder::Kin(release_of(labels)),
        _ => Holder::Other(OTHERS),
    }
}

/// "Release acme/cart", by the labels of an object.
fn release_of(labels: &BTreeMap<String, String>) -> String {
    let label = |key: &str| labels.get(key).map(String::as_str).unwrap_or_default();
    format!("Release {}/{}", label(labels::RELEASE_NAMESPACE), label(labels::RELEASE_NAME))
}

/// Kinds by which a platform team limits a namespace. Who is in the namespace does not take them over.
fn is_limit(group: &str, kind: &str) -> bool {
    group.is_empty() && matches!(kind, "ResourceQuota" | "LimitRange")
}

/// Why an object of `whose` is left alone, if it is.
pub(super) fn refusal(owner: &Owner, wanted: &Wanted, whose: &Holder) -> Option<String> {
    let item = wanted.item();
    let (whose, may_adopt) = match whose {
        Holder::Own => return None,
        Holder::Nobody => ("nobody that Kantor knows", !is_limit(&item.group, &item.kind)),
        Holder::Kin(other) => (other.as_str(), true),
        Holder::Other(other) => (*other, false),
    };
    if owner.adopt && may_adopt {
        return None;
    }
    let shown = shown(&item);
    Some(if may_adopt {
        format!(
            "{shown} exists and belongs to {whose}; give this one another name, remove the other, or take it over with the annotation {}: \"true\"",
            annotations::ADOPT
        )
    } else if owner.label == labels::RELEASE_UID {
        format!("{shown} exists and belongs to {whose}; leave it out, or give this one another name")
    } else {
        format!("{shown} exists and belongs to {whose}; have it removed there, and it is made here")
    })
}
