//! Host names of the routes that a Release brings: claimed before the routes get them, and let go when no route has them,
//! as those of Endpoints are.

use std::{collections::BTreeSet, sync::Arc};

use kantor_api::{Release, common::InventoryItem, conditions::reasons};
use kantor_core::{
    changes::identity,
    hierarchy::{Id, Kind},
    hostnames::{
        claims::{Contender, Decision, State},
        domains::Domains,
        key::ClaimKey,
    },
    release::{self, Recorded, Rendered, is_on, is_route, served_hosts, wanted_hosts},
};
use kube::{ResourceExt, api::DynamicObject};

use super::{
    owner_of,
    place::{Place, followed},
    status_of,
};
use crate::{
    apply::{Remains, WriteError},
    controllers::{Context, endpoint, shared::hostnames},
};

/// How it stands with the hosts of a Release.
pub(super) enum Hosts {
    /// The routes may have these, which are all that they ask for.
    Granted(BTreeSet<ClaimKey>),
    /// One of them is not to be had: the reason, and what is said.
    Refused(&'static str, String),
    /// Somebody else has one of them. What becomes of the claim wakes the Release.
    Withheld {
        /// The reason.
        reason: &'static str,
        /// What is said.
        message: String,
        /// Whether routes that may no longer have their hosts are still there.
        left: bool,
    },
    /// What is there is not known: what is waited for.
    Waiting(String),
    /// Somebody else was faster; the watch tells who.
    Soon,
}

/// Claims the hosts of the routes that are about to be applied. Routes that may no longer have theirs go first.
pub(super) async fn claim(
    release: &Release,
    place: &Place,
    rendered: &[Rendered],
    context: &Context,
) -> Result<Hosts, WriteError> {
    let me = contender(release);
    let id = Id::new(Kind::Release, me.namespace.clone(), me.name.clone());
    let brings = rendered.iter().map(Rendered::item).any(|item| is_route(&item.group, &item.kind));
    if !brings && hostnames::naming(&me.uid, context).is_empty() {
        context.world.await_claims(&id, BTreeSet::new());
        return Ok(Hosts::Granted(BTreeSet::new()));
    }
    let provided = endpoint::provided(context);
    let gateway = place.at.data_plane.spec.gateway.clone().unwrap_or_default();
    let domains = Domains::of(&gateway.allowed_domains, &gateway.denied_domains, &provided);
    let wanted = match wanted_hosts(rendered, &domains) {
        Ok(wanted) => wanted,
        Err(problems) => return Ok(Hosts::Refused(reasons::POLICY_VIOLATION, release::listed(&problems))),
    };
    let routes = match live_routes(release, place, rendered).await {
        Ok(routes) => routes,
        Err(why) => return Ok(Hosts::Waiting(why)),
    };
    let mut served: BTreeSet<ClaimKey> = routes.iter().flat_map(|(_, route)| served_hosts(route)).collect();
    let elsewhere = |record| !is_on(record, &place.at.record);
    if Recorded::of(&status_of(release)).everything().iter().any(|place| elsewhere(&place.data_plane)) {
        // On planes that are yet to be cleaned it is all that was ever claimed.
        served.extend(context.world.claims().naming(&me.uid).map(|claim| ClaimKey::of(claim)));
    }
    let (_, granted) = match hostnames::obtain(&me, &wanted, &served, true, context).await {
        Ok(claimed) => claimed,
        Err(WriteError::Conflict) => return Ok(Hosts::Soon),
        Err(error) => return Err(error),
    };
    if wanted.is_subset(&granted) {
        context.world.await_claims(&id, BTreeSet::new());
        return Ok(Hosts::Granted(wanted));
    }
    let (keeping, going): (Vec<_>, Vec<_>) =
        routes.into_iter().partition(|(_, route)| served_hosts(route).is_subset(&granted));
    let items: Vec<InventoryItem> = going.into_iter().map(|(item, _)| item).collect();
    let removed = context.engine.remove(&place.site(), &owner_of(release), &items).await;
    let left = removed.iter().any(|removed| removed.remains != Remains::Nothing);
    if !left {
        let served = keeping.iter().flat_map(|(_, route)| served_hosts(route)).collect();
        hostnames::settle(&me, &wanted, &served, false, context).await?;
    }
    // As it stands by now: what has changed before this does not wake it.
    let decision = hostnames::wait(&id, &me, &wanted, context);
    Ok(refusal(&decision).map_or(Hosts::Soon, |(reason, message)| Hosts::Withheld { reason, message, left }))
}

/// Lets go of all hosts but `hosts`, which the routes have, and no others.
pub(super) async fn let_go(
    release: &Release,
    hosts: &BTreeSet<ClaimKey>,
    context: &Context,
) -> Result<(), WriteError> {
    hostnames::settle(&contender(release), hosts, hosts, !hosts.is_empty(), context).await.map(drop)
}

/// A Release as one that wants host names.
fn contender(release: &Release) -> Contender {
    let namespace = release.namespace().unwrap_or_default();
    Contender {
        organization: namespace.clone(),
        namespace,
        name: release.name_any(),
        uid: release.uid().unwrap_or_default(),
    }
}

/// The routes of the Release that are on the plane. The error says what is not known.
async fn live_routes(
    release: &Release,
    place: &Place,
    rendered: &[Rendered],
) -> Result<Vec<(InventoryItem, Arc<DynamicObject>)>, String> {
    let everything = Recorded::of(&status_of(release)).everything();
    let recorded = everything.iter().filter(|recorded| is_on(&recorded.data_plane, &place.at.record));
    let known = recorded.flat_map(|place| place.objects.iter().cloned());
    let kinds: BTreeSet<(String, String, String)> = known
        .chain(rendered.iter().map(Rendered::item))
        .filter(|item| is_route(&item.group, &item.kind))
        .map(|item| (item.group, item.version, item.kind))
        .collect();
    let (mut routes, uid) = (vec![], release.uid().unwrap_or_default());
    for (group, version, kind) in kinds {
        let item = InventoryItem { group, version, kind, ..InventoryItem::default() };
        let followed = followed(&place.at.plane, &item);
        if let Some(followed) = &followed {
            followed.listed(place.at.plane.deadline).await;
        }
        let Some(followed) = followed.filter(|followed| followed.is_synced()) else {
            return Err(format!("the list of every {} on data plane {}", item.kind, place.at.plane.key.name));
        };
        routes.extend(followed.owned_by(&uid).into_iter().map(|route| {
            let (group, version, kind) = identity(&route);
            let (namespace, name) = (route.namespace().unwrap_or_default(), route.name_any());
            (InventoryItem { group, version, kind, namespace, name, uid: route.uid() }, Arc::new(route))
        }));
    }
    Ok(routes)
}

/// What is said of hosts that are not to be had. It does not tell which other organization has them.
fn refusal(decision: &Decision) -> Option<(&'static str, String)> {
    if decision.is_refused() {
        let hosts: Vec<String> = decision.refused().map(ClaimKey::shown).collect();
        let message = format!(
            "held by another organization, or part of what another one holds: {}; nothing of this Release is changed until it no longer asks for that",
            hosts.join(", ")
        );
        return Some((reasons::HOSTNAME_CONFLICT, message));
    }
    let withheld = decision.keys.iter().filter_map(|(key, state)| match state {
        State::Withheld { by } => Some(format!("{} by {by}", key.shown())),
        _ => None,
    });
    let withheld: Vec<String> = withheld.collect();
    (!withheld.is_empty()).then(|| {
        let message = format!("held by another object of the organization: {}", withheld.join(", "));
        (reasons::HOSTNAME_WITHHELD, message)
    })
}
