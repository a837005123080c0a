//! What an Endpoint does next about its host names: one write at a time, in an order that is safe to stop anywhere.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kantor_api::hostname_claim::HostnameClaim;

use super::{
    book::Book,
    claims::{Contender, Decision, State, clear, new_claim, prepare, take_over},
    key::ClaimKey,
    release::{Deletion, Release, give_up, release},
};

/// What is known of an Endpoint and its host names.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The Endpoint.
    pub me: &'a Contender,
    /// How it stands with what it wants; nothing while it is being deleted.
    pub decision: &'a Decision,
    /// What its routes have, those that it no longer wants included.
    pub served: &'a BTreeSet<ClaimKey>,
    /// The claims that are known.
    pub claims: &'a Book,
    /// Whether requests are answered under what is handed to it: otherwise it neither gets nor takes that, and keeps what it has.
    pub answers: bool,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Create this claim. If it exists by now, somebody else was faster: wait to see who.
    Create(Box<HostnameClaim>),
    /// Write this claim over the version that was seen.
    Update(Box<HostnameClaim>),
    /// Delete this claim as it was seen.
    Delete(Deletion),
    /// Let the routes have what [`confirmed`] leaves of this, and nothing else.
    Serve(BTreeSet<ClaimKey>),
    /// There is nothing to do but wait for a change.
    Rest,
}

/// What the Endpoint does next. `waiters` tells who waits for a key. A write that fails because what was seen is old does
/// no harm: the step is asked for again when the change has been seen.
pub fn next(facts: &Facts<'_>, waiters: impl Fn(&ClaimKey) -> Vec<(Time, Contender)>) -> Step {
    let refused = facts.decision.is_refused();
    if let Some(step) = obtain(facts).filter(|_| !refused) {
        return step;
    }
    let target = target(facts);
    if target != *facts.served {
        return Step::Serve(target);
    }
    let taken =
        incoming(facts).find_map(|claim| take_over(facts.me, claim)).filter(|_| facts.answers && !refused);
    if let Some(claim) = taken {
        return Step::Update(Box::new(claim));
    }
    let mut named = facts.claims.naming(&facts.me.uid);
    named.find_map(|claim| let_go(facts, claim, &waiters)).unwrap_or(Step::Rest)
}

/// What is left of `target` when it is held against the claims as the API server has them, which `live` tells for what
/// the routes do not have yet. What they have already needs no proof: it is not given up while they have it.
///
/// Without this an Endpoint that let go of a host and wants it again would see its own old claim and serve what another
/// organization has by now. The Endpoint itself must still be there, too.
pub fn confirmed<C: AsRef<HostnameClaim>>(
    me: &Contender,
    served: &BTreeSet<ClaimKey>,
    target: &BTreeSet<ClaimKey>,
    live: impl Fn(&ClaimKey) -> Option<C>,
) -> BTreeSet<ClaimKey> {
    let proven = |key: &ClaimKey| {
        live(key).is_some_and(|claim| ClaimKey::of(claim.as_ref()) == *key && me.may_serve(claim.as_ref()))
    };
    target.iter().filter(|key| served.contains(key) || proven(key)).cloned().collect()
}

/// The next claim to make, or to prepare for being handed over.
fn obtain(facts: &Facts<'_>) -> Option<Step> {
    let mut free = facts.decision.keys.iter().filter(|(_, state)| **state == State::Free);
    if let Some((key, _)) = free.next() {
        return Some(Step::Create(Box::new(new_claim(facts.me, key))));
    }
    let prepared = incoming(facts).find_map(|claim| prepare(facts.me, claim)).filter(|_| facts.answers);
    prepared.map(|claim| Step::Update(Box::new(claim)))
}

/// What the routes shall have.
fn target(facts: &Facts<'_>) -> BTreeSet<ClaimKey> {
    if facts.decision.is_refused() {
        return BTreeSet::new();
    }
    let held = facts.decision.keys.iter().filter(|(_, state)| **state == State::Held);
    let incoming = incoming(facts).filter(|claim| facts.me.may_serve(claim)).map(|claim| ClaimKey::of(claim));
    let incoming = incoming.filter(|key| facts.answers || facts.served.contains(key));
    held.map(|(key, _)| key.clone()).chain(incoming).collect()
}

/// The claims that shall be handed to the Endpoint.
fn incoming<'a>(facts: &Facts<'a>) -> impl Iterator<Item = &'a Arc<HostnameClaim>> {
    let Facts { decision, claims, .. } = *facts;
    decision.incoming().filter_map(|key| claims.get(&key.name()))
}

/// How the Endpoint lets go of a claim that names it, if it shall and can.
fn let_go(
    facts: &Facts<'_>,
    claim: &HostnameClaim,
    waiters: impl Fn(&ClaimKey) -> Vec<(Time, Contender)>,
) -> Option<Step> {
    let Facts { me, decision, served, .. } = *facts;
    let key = ClaimKey::of(claim);
    if served.contains(&key) {
        return None;
    }
    let way = match decision.keys.get(&key) {
        None if me.holds(claim) => release(me, claim, &waiters(&key)),
        Some(State::Yielding) => give_up(me, claim),
        Some(State::Incoming) if !decision.is_refused() => Release::Leave,
        _ if me.holds(claim) => Release::Leave,
        _ => clear(me, claim).map_or(Release::Leave, |claim| Release::Clear(Box::new(claim))),
    };
    match way {
        Release::HandOver(claim) | Release::Clear(claim) => Some(Step::Update(claim)),
        Release::Delete(deletion) => Some(Step::Delete(deletion)),
        Release::Await | Release::Leave => None,
    }
}
