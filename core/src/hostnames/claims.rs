//! Claims: who holds what an Endpoint wants, and how it gets it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kantor_api::{
    annotations,
    hostname_claim::{ClaimHolder, HostnameClaim, HostnameClaimSpec},
};
use kube_core::ResourceExt;

use super::{book::Book, key::ClaimKey};

/// An Endpoint that wants host names.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Contender {
    /// Its organization.
    pub organization: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

impl Contender {
    /// Whether the claim names it as its holder.
    pub fn holds(&self, claim: &HostnameClaim) -> bool {
        self.is_of(claim) && claim.spec.holder.uid == self.uid
    }

    /// Whether the claim names it, so that its route may have the host.
    pub fn may_serve(&self, claim: &HostnameClaim) -> bool {
        self.holds(claim) || (self.is_of(claim) && also_served_by(claim).any(|uid| uid == self.uid))
    }

    /// Whether the claim is the organization's.
    pub(super) fn is_of(&self, claim: &HostnameClaim) -> bool {
        claim.spec.organization == self.organization
    }

    /// Whether the host shall be handed to it.
    pub(super) fn is_destined(&self, claim: &HostnameClaim) -> bool {
        let target =
            claim.annotations().get(annotations::TRANSFER_TO).and_then(|target| target.split_once('/'));
        target == Some((self.namespace.as_str(), self.name.as_str()))
    }

    /// How a claim names it.
    pub(super) fn holder(&self) -> ClaimHolder {
        ClaimHolder { namespace: self.namespace.clone(), name: self.name.clone(), uid: self.uid.clone() }
    }
}

/// UIDs of the Endpoints that do not hold the host and whose routes may have it.
pub fn also_served_by(claim: &HostnameClaim) -> impl Iterator<Item = &str> {
    let uids = claim.annotations().get(annotations::ALSO_SERVED_BY).map_or("", String::as_str);
    uids.split(',').map(str::trim).filter(|uid| !uid.is_empty())
}

/// How it stands with something that an Endpoint wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The Endpoint holds it.
    Held,
    /// Nobody holds it: it is to be claimed.
    Free,
    /// Another Endpoint of the organization holds it.
    Withheld {
        /// `<namespace>/<name>` of that Endpoint.
        by: String,
    },
    /// Another Endpoint of the organization holds it, and it shall be handed to this one.
    Incoming,
    /// The Endpoint holds it, but another organization had claimed something that overlaps it before: it is to be given up.
    Yielding,
    /// Another organization holds it, or something that overlaps it.
    Foreign,
}

/// How it stands with all that an Endpoint wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// State by key, in the order in which they are claimed.
    pub keys: BTreeMap<ClaimKey, State>,
}

impl Decision {
    /// Whether another organization is in the way: then nothing is claimed and nothing served.
    pub fn is_refused(&self) -> bool {
        self.refused().next().is_some()
    }

    /// What another organization is in the way of.
    pub fn refused(&self) -> impl Iterator<Item = &ClaimKey> {
        let refused = |state: &State| matches!(state, State::Foreign | State::Yielding);
        self.keys.iter().filter(move |(_, state)| refused(state)).map(|(key, _)| key)
    }

    /// What shall be handed to the Endpoint.
    pub fn incoming(&self) -> impl Iterator<Item = &ClaimKey> {
        self.keys.iter().filter(|(_, state)| **state == State::Incoming).map(|(key, _)| key)
    }

    /// What its routes still have though it was handed over.
    pub fn handed_over(&self, served: &BTreeSet<ClaimKey>) -> BTreeSet<ClaimKey> {
        let is_withheld = |key: &&ClaimKey| matches!(self.keys.get(key), Some(State::Withheld { .. }));
        served.iter().filter(is_withheld).cloned().collect()
    }

    /// What the Endpoint waits for, as its status says it: whoever lets go of it looks there for those who wait. One that
    /// is refused does not wait, since it could not use it.
    pub fn waiting(&self) -> Vec<String> {
        let waits = |state: &State| matches!(state, State::Withheld { .. } | State::Incoming);
        let waiting = self.keys.iter().filter(|(_, state)| !self.is_refused() && waits(state));
        waiting.map(|(key, _)| key.shown()).collect()
    }
}

/// How it stands with what `me` wants, as far as claims are known.
pub fn decide(me: &Contender, wanted: &BTreeSet<ClaimKey>, claims: &Book) -> Decision {
    Decision { keys: wanted.iter().map(|key| (key.clone(), state(me, key, claims))).collect() }
}

fn state(me: &Contender, key: &ClaimKey, claims: &Book) -> State {
    let claim = claims.get(&key.name());
    // A claim with the name of another is not to be had either.
    if claim.is_some_and(|claim| !me.is_of(claim) || ClaimKey::of(claim) != *key) {
        return State::Foreign;
    }
    let foreign = overlapping(me, key, claims).is_some();
    match claim {
        Some(claim) if me.holds(claim) && foreign => State::Yielding,
        _ if foreign => State::Foreign,
        None => State::Free,
        Some(claim) if me.holds(claim) => State::Held,
        Some(claim) if me.is_destined(claim) => State::Incoming,
        Some(claim) => {
            State::Withheld { by: format!("{}/{}", claim.spec.holder.namespace, claim.spec.holder.name) }
        }
    }
}

/// A claim of another organization that overlaps `key` and was made before the claim of it, if there is one of that.
fn overlapping<'a>(me: &Contender, key: &ClaimKey, claims: &'a Book) -> Option<&'a HostnameClaim> {
    let claim = claims.get(&key.name());
    let before = |other: &HostnameClaim| claim.is_none_or(|claim| age(other) < age(claim));
    claims.near(key).into_iter().map(|other| &**other).find(|other| !me.is_of(other) && before(other))
}

/// Names of the claims whose end, or change, may let `me` have more of what it wants. Of several that overlap one is
/// enough: as long as it is there, the others do not matter.
pub fn in_the_way(me: &Contender, wanted: &BTreeSet<ClaimKey>, claims: &Book) -> BTreeSet<String> {
    let overlapping = |key| overlapping(me, key, claims).map(ResourceExt::name_any);
    wanted.iter().flat_map(|key| overlapping(key).into_iter().chain([key.name()])).collect()
}

/// Of two claims the one with the lower age was made first. Servers tell seconds, so that the UID decides within one.
fn age(claim: &HostnameClaim) -> (Option<&Time>, Option<&str>) {
    (claim.metadata.creation_timestamp.as_ref(), claim.metadata.uid.as_deref())
}

/// What an Endpoint is told whose names are refused. It does not tell whose they are.
pub fn conflict_message(decision: &Decision) -> Option<String> {
    let names: Vec<String> = decision.refused().map(ClaimKey::shown).collect();
    (!names.is_empty()).then(|| {
        format!(
            "held by another organization, or part of what another one holds: {}; nothing of this Endpoint is reached from outside until it no longer asks for that",
            names.join(", ")
        )
    })
}

/// The claim by which `me` gets `key`.
pub fn new_claim(me: &Contender, key: &ClaimKey) -> HostnameClaim {
    HostnameClaim::new(
        &key.name(),
        HostnameClaimSpec {
            hostname: key.hostname.clone(),
            path_prefix: key.path_prefix.clone(),
            cluster_uid: key.cluster_uid.clone(),
            organization: me.organization.clone(),
            holder: me.holder(),
        },
    )
}

/// The claim with a note that the route of `me`, to whom the host shall be handed, may have it from now on; nothing if
/// there is nothing to note.
pub fn prepare(me: &Contender, claim: &HostnameClaim) -> Option<HostnameClaim> {
    (me.is_of(claim) && me.is_destined(claim) && !me.may_serve(claim))
        .then(|| with_served_by(claim.clone(), also_served_by(claim).chain([me.uid.as_str()])))
}

/// The claim with `me`, to whom it shall be handed and whose route has the host, as its holder. The holder until now is
/// noted as one whose route has it.
pub fn take_over(me: &Contender, claim: &HostnameClaim) -> Option<HostnameClaim> {
    let before = claim.spec.holder.uid.as_str();
    (me.is_of(claim) && me.is_destined(claim) && !me.holds(claim)).then(|| {
        let served_by = also_served_by(claim).filter(|uid| *uid != me.uid).chain([before]);
        with_holder(with_served_by(claim.clone(), served_by), me)
    })
}

/// The claim without the note that the route of `me` may have the host, which it has no longer; nothing if there is none.
pub fn clear(me: &Contender, claim: &HostnameClaim) -> Option<HostnameClaim> {
    also_served_by(claim)
        .any(|uid| uid == me.uid)
        .then(|| with_served_by(claim.clone(), also_served_by(claim).filter(|uid| *uid != me.uid)))
}

/// The claim with another holder. It is written only over the version that was seen.
pub(super) fn with_holder(mut claim: HostnameClaim, holder: &Contender) -> HostnameClaim {
    claim.spec.holder = holder.holder();
    claim.annotations_mut().remove(annotations::TRANSFER_TO);
    claim
}

/// The claim with these Endpoints as those whose routes may have the host too.
pub(super) fn with_served_by<'a>(
    mut claim: HostnameClaim,
    uids: impl Iterator<Item = &'a str>,
) -> HostnameClaim {
    let uids = uids.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(",");
    if uids.is_empty() {
        claim.annotations_mut().remove(annotations::ALSO_SERVED_BY);
    } else {
        claim.annotations_mut().insert(annotations::ALSO_SERVED_BY.to_owned(), uids);
    }
    claim
}
