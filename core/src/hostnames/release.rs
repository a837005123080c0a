//! How a claim is let go: to whoever waits for it, or to everybody.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kantor_api::hostname_claim::HostnameClaim;
use kube_core::ResourceExt;

use super::claims::{Contender, also_served_by, clear, with_holder, with_served_by};

/// What is to be done to let go of a claim.
#[derive(Clone, Debug, PartialEq)]
pub enum Release {
    /// Write it with its new holder, over the version that was seen.
    HandOver(Box<HostnameClaim>),
    /// Write it with fewer notes, over the version that was seen.
    Clear(Box<HostnameClaim>),
    /// Delete it, but only the very object and version that was seen.
    Delete(Deletion),
    /// The routes of others may still have the host: their change of the claim wakes whoever waits for that.
    Await,
    /// It is not for the one who asks to let go of it.
    Leave,
}

/// The deletion of a claim as it was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deletion {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: Option<String>,
    /// Its version.
    pub resource_version: Option<String>,
}

impl Deletion {
    fn of(claim: &HostnameClaim) -> Self {
        Self { name: claim.name_any(), uid: claim.uid(), resource_version: claim.resource_version() }
    }
}

/// Endpoints that wait for a host, with when they were made.
pub type Waiters<'a> = &'a [(Time, Contender)];

/// How `me`, whose route does not have the host, lets go of it: to the one that it shall be handed to, or else to the one
/// that was made first, of those that wait.
pub fn release(me: &Contender, claim: &HostnameClaim, waiters: Waiters<'_>) -> Release {
    if !me.holds(claim) {
        return Release::Leave;
    }
    match heir(claim, waiters.iter().filter(|(_, waiter)| waiter.uid != me.uid)) {
        Some(heir) => Release::HandOver(Box::new(handed_to(claim, heir))),
        None => give_up(me, claim),
    }
}

/// How `me`, whose route does not have the host, lets go of a claim that nobody of its organization could use.
pub fn give_up(me: &Contender, claim: &HostnameClaim) -> Release {
    if !me.holds(claim) {
        Release::Leave
    } else if also_served_by(claim).any(|uid| uid != me.uid) {
        Release::Await
    } else {
        Release::Delete(Deletion::of(claim))
    }
}

/// What is to be done about a claim that may name Endpoints which are gone. `gone` tells of a UID that the API server
/// itself, not a cache of it, has no Endpoint with it, and that no data plane has a route of it.
pub fn orphaned(claim: &HostnameClaim, gone: impl Fn(&str) -> bool, waiters: Waiters<'_>) -> Release {
    let left = || also_served_by(claim).filter(|uid| !gone(uid));
    let cleared = || with_served_by(claim.clone(), left());
    let stale = left().count() < also_served_by(claim).count();
    if !gone(&claim.spec.holder.uid) {
        return if stale { Release::Clear(Box::new(cleared())) } else { Release::Leave };
    }
    match heir(claim, waiters.iter().filter(|(_, waiter)| !gone(&waiter.uid))) {
        Some(heir) => Release::HandOver(Box::new(handed_to(&cleared(), heir))),
        None if left().next().is_none() => Release::Delete(Deletion::of(claim)),
        None if stale => Release::Clear(Box::new(cleared())),
        None => Release::Await,
    }
}

fn heir<'a>(
    claim: &HostnameClaim,
    waiters: impl Iterator<Item = &'a (Time, Contender)>,
) -> Option<&'a Contender> {
    waiters
        .filter(|(_, waiter)| waiter.is_of(claim))
        .min_by_key(|(created, waiter)| {
            (!waiter.is_destined(claim), created, &waiter.namespace, &waiter.name)
        })
        .map(|(_, waiter)| waiter)
}

/// The claim with `heir` as its holder, who needs no note then.
fn handed_to(claim: &HostnameClaim, heir: &Contender) -> HostnameClaim {
    with_holder(clear(heir, claim).unwrap_or_else(|| claim.clone()), heir)
}
