//! The objects that Deployments and Endpoints have on planes: found by whose they are, and removed from recorded facts
//! alone.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::future::join_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kantor_api::{
    annotations,
    common::{InventoryItem, PlaneRecord},
    conditions::reasons,
    labels, managers,
};
use kantor_core::{
    changes::{Owner, object_key, shown},
    known::Known,
    namespaces::FORMER_MANAGER,
    release::{is_on, label_value, listed},
    tenancy,
};
use kube::{Resource, ResourceExt, runtime::events::EventType};

use super::targets::{Unreachable, own_writer, reach_recorded};
use crate::{
    apply::{Remains, Site},
    controllers::{
        Context,
        shared::{plane_namespaces::follow_namespaces, plane_records::possible_planes},
    },
    planes::{Follow, Followed, Kind, Plane},
    runtime::events,
};

/// Selects the objects of all Deployments and Endpoints.
pub(crate) const OWNED: &str = labels::OWNER_UID;
/// A kind: group, versions from the best to the last resort, kind.
pub(crate) type OwnedKind = (&'static str, &'static [&'static str], &'static str);

/// Where the engine writes on a plane.
pub(crate) fn site<'a>(plane: &'a Plane, selector: &'a str) -> Site<'a> {
    Site { plane, writer: own_writer(plane), manager: managers::KANTOR, selector }
}

/// On whose behalf the objects of a Deployment or an Endpoint are kept. Objects of the reference are told to be its own by
/// the labels `inherited`.
pub(crate) fn owner_of<K: Resource>(object: &K, inherited: Vec<(String, String)>) -> Owner {
    Owner {
        uid: object.uid().unwrap_or_default(),
        label: labels::OWNER_UID,
        organization: object.namespace().unwrap_or_default(),
        adopt: object.annotations().get(annotations::ADOPT).is_some_and(|value| value == "true"),
        // The names are fixed, so what cannot be changed has to make way.
        replace: true,
        inherited: inherited.into_iter().collect(),
        former_manager: Some(FORMER_MANAGER),
    }
}

/// The watch of a kind on a plane, if the plane serves it. That it does not says nothing of what is there.
pub(crate) fn followed(plane: &Plane, group: &str, version: &str, kind: &str) -> Option<Arc<Followed>> {
    let served = plane.known(&Kind::new(group, version, kind)).if_present()?;
    Some(plane.follow(&served.resource, OWNED, Follow::Whole))
}

/// The watches of all kinds of which there may be objects on a plane. The error says of which nobody can tell.
fn all_followed(plane: &Plane, kinds: &[OwnedKind]) -> Result<Vec<Arc<Followed>>, String> {
    let mut all = vec![];
    for (group, versions, kind) in kinds {
        match plane.known_in(group, versions, kind) {
            Known::Present(served) => all.push(plane.follow(&served.resource, OWNED, Follow::Whole)),
            Known::Absent(_) => {}
            Known::Unknown(why) => {
                return Err(format!(
                    "data plane {} to tell whether it has any {kind}: {why}",
                    plane.key.name
                ));
            }
        }
    }
    Ok(all)
}

/// All objects of `kinds` on a plane that belong to the owner with this UID. The error says what is not known.
pub(crate) async fn owned(
    plane: &Plane,
    kinds: &[OwnedKind],
    uid: &str,
) -> Result<Vec<InventoryItem>, String> {
    let all = all_followed(plane, kinds)?;
    join_all(all.iter().map(|followed| followed.listed(plane.deadline))).await;
    let mut found = vec![];
    for followed in all {
        let kind = followed.resource();
        if !followed.is_synced() {
            return Err(list_of(&kind.kind, plane));
        }
        found.extend(followed.owned_by(uid).into_iter().map(|object| InventoryItem {
            group: kind.group.clone(),
            version: kind.version.clone(),
            kind: kind.kind.clone(),
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            uid: object.uid(),
        }));
    }
    Ok(found)
}

/// What is waited for, in words.
pub(crate) fn list_of(kind: &str, plane: &Plane) -> String {
    format!("the list of every {kind} on data plane {}", plane.key.name)
}

/// Removes objects; tells what is still there, and why.
pub(crate) async fn remove(
    site: &Site<'_>,
    owner: &Owner,
    items: &[InventoryItem],
    context: &Context,
) -> Vec<String> {
    if items.is_empty() {
        return vec![];
    }
    let removed = context.engine.remove(site, owner, items).await;
    let left = removed.into_iter().filter_map(|removed| match removed.remains {
        Remains::Nothing => None,
        Remains::Waiting(why) | Remains::Failed(why) => Some(why),
    });
    left.collect()
}

/// Removes everything of an owner from a plane: what carries its UID, and what was recorded. The error says what is
/// still there.
pub(crate) async fn clean_plane<K: Resource<DynamicType = ()>>(
    object: &K,
    kinds: &[OwnedKind],
    record: &PlaneRecord,
    inventory: &[InventoryItem],
    context: &Context,
) -> Result<(), String> {
    let organization = object.namespace().unwrap_or_default();
    if !tenancy::may_be_on(record, &organization, false) {
        disbelieve(object, record, context);
        return Ok(());
    }
    let plane = match reach_recorded(record, context).await {
        Ok(plane) => plane,
        Err(Unreachable::GivenUp) => {
            let plane = format!("{}, which is no longer registered", record.name);
            let objects: Vec<String> = inventory.iter().map(shown).collect();
            events::leave_behind(object, &plane, &objects, context);
            return Ok(());
        }
        Err(Unreachable::For(why)) => return Err(format!("data plane {}: {why}", record.name)),
    };
    let owner = owner_of(object, vec![]);
    let there = owned(&plane, kinds, &owner.uid).await?;
    let namespaces = follow_namespaces(&plane);
    if !namespaces.listed(plane.deadline).await {
        return Err(list_of("Namespace", &plane));
    }
    // Without its label an object is the owner's only where Kantor would have put it.
    let is_own = |name: &str| {
        let label = namespaces.get(None, name)?.labels().get(labels::plane::ORGANIZATION_NAME).cloned();
        (label? == label_value(&organization)).then_some(())
    };
    let is_of_kind = |item: &InventoryItem| {
        kinds.iter().any(|(group, _, kind)| (*group, *kind) == (item.group.as_str(), item.kind.as_str()))
    };
    let believed = |item: &InventoryItem| {
        let known = is_of_kind(item) && is_own(&item.namespace).is_some();
        InventoryItem { uid: item.uid.clone().filter(|_| known), ..item.clone() }
    };
    let mut items: HashMap<_, InventoryItem> =
        inventory.iter().map(|item| (object_key(item), believed(item))).collect();
    items.extend(there.into_iter().map(|item| (object_key(&item), item)));
    let items: Vec<InventoryItem> = items.into_values().collect();
    let left = remove(&site(&plane, OWNED), &owner, &items, context).await;
    if left.is_empty() { Ok(()) } else { Err(listed(&left)) }
}

/// Tells that a recorded plane is not one that the object can have been on: what is there is not touched.
pub(crate) fn disbelieve<K: Resource<DynamicType = ()>>(object: &K, record: &PlaneRecord, context: &Context) {
    let note = format!(
        "the status names data plane {}/{}, which is not of this organization: nothing was touched there",
        record.namespace, record.name
    );
    events::publish(object, EventType::Warning, "Finalize", reasons::LEFT_BEHIND, note, context);
}

/// Cleans all planes that an owner was on; tells what is still waited for. Where the recorded plane is one that the owner cannot
/// have been on, its objects are looked for on all on which it can have been.
pub(crate) async fn clean_planes<K: Resource<DynamicType = ()>>(
    object: &K,
    kinds: &[OwnedKind],
    current: Option<&PlaneRecord>,
    cleaning: &[PlaneRecord],
    inventory: &[InventoryItem],
    context: &Context,
) -> Vec<String> {
    let mut waiting = vec![];
    let organization = object.namespace().unwrap_or_default();
    let is_forged = current.is_some_and(|record| !tenancy::may_be_on(record, &organization, false));
    let possible = if is_forged { possible_planes(object, false, context) } else { vec![] };
    for plane in current.into_iter().chain(cleaning).chain(&possible) {
        // What was recorded is on the current plane.
        let inventory: &[InventoryItem] = if current == Some(plane) { inventory } else { &[] };
        waiting.extend(clean_plane(object, kinds, plane, inventory, context).await.err());
    }
    waiting
}

/// Cleans the planes that an owner was on before; tells which are left, and what is waited for.
pub(crate) async fn leave<K: Resource<DynamicType = ()>>(
    object: &K,
    kinds: &[OwnedKind],
    cleaning: Vec<PlaneRecord>,
    context: &Context,
) -> (Vec<PlaneRecord>, Vec<String>) {
    let (mut left, mut waiting) = (vec![], vec![]);
    for plane in cleaning {
        if let Err(why) = clean_plane(object, kinds, &plane, &[], context).await {
            waiting.push(why);
            left.push(plane);
        }
    }
    (left, waiting)
}

/// What is recorded before anything is written to `plane`: the planes that have to be cleaned, among them the `former` one.
pub(crate) fn to_clean(
    former: Option<&PlaneRecord>,
    cleaning: &[PlaneRecord],
    plane: &PlaneRecord,
) -> Vec<PlaneRecord> {
    let mut cleaning = cleaning.to_vec();
    if let Some(old) = former.filter(|old| !is_on(old, plane))
        && !cleaning.iter().any(|known| is_on(known, old))
    {
        cleaning.push(old.clone());
    }
    cleaning.retain(|known| !is_on(known, plane));
    cleaning
}

/// Since when an owner moves, given where it was, which planes have to be cleaned and where it shall be; nothing if there is nothing
/// to clean.
pub(crate) fn moving_since(
    former: Option<&PlaneRecord>,
    cleaning: &[PlaneRecord],
    plane: &PlaneRecord,
    before: Option<&Time>,
    now: &Time,
) -> Option<Time> {
    let is_new = former.is_some_and(|old| !is_on(old, plane));
    let since = before.filter(|_| !is_new).unwrap_or(now);
    (!cleaning.is_empty()).then(|| since.clone())
}

/// A time as it is stored.
pub(crate) fn seconds(now: jiff::Timestamp) -> Time {
    Time(jiff::Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// For how long an owner has been moving.
pub(crate) fn moving_for(since: Option<&Time>) -> Duration {
    let now = jiff::Timestamp::now();
    since.map_or(Duration::ZERO, |since| Duration::try_from(now.duration_since(since.0)).unwrap_or_default())
}

/// Tells what stays behind of an owner that is let go.
pub(crate) fn let_go<K: Resource<DynamicType = ()>>(
    object: &K,
    plane: Option<&PlaneRecord>,
    cleaning: &[PlaneRecord],
    inventory: &[InventoryItem],
    context: &Context,
) {
    let objects: Vec<String> = inventory.iter().map(shown).collect();
    for (plane, objects) in
        plane.map(|plane| (plane, &*objects)).into_iter().chain(cleaning.iter().map(|plane| (plane, &[][..])))
    {
        events::leave_behind(object, &plane.name, objects, context);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planes::fake::{self, DEFINITIONS, discovery, list, refusal};

    const KINDS: &[OwnedKind] = &[("", &["v1"], "Secret"), ("example.com", &["v1", "v1beta1"], "Route")];

    /// What is found on a plane that serves these kinds, has these definitions, and answers lists of routes with this code.
    async fn found(kinds: &[&str], definitions: &'static [&'static str], code: u16) -> Result<usize, String> {
        let plane = fake::plane(discovery(kinds, &[]), move |path| match path {
            DEFINITIONS => list(definitions),
            path if path.ends_with("routes") && code != 200 => refusal(code),
            _ => list(&[]),
        })
        .await;
        owned(&plane, KINDS, "uid").await.map(|found| found.len())
    }

    #[tokio::test]
    async fn what_an_owner_has_is_not_known_while_a_kind_of_it_is_not() {
        let (secrets, defined): (_, &[&str]) = ("/v1/Secret", &["routes.example.com"]);
        assert_eq!(found(&[secrets, "example.com/v1/Route"], defined, 200).await, Ok(0));
        assert_eq!(found(&[secrets], &[], 200).await, Ok(0), "it is not there");
        let why = found(&[secrets], defined, 200).await.unwrap_err();
        assert!(why.contains("Route") && why.contains("not served yet"), "{why}");
        for code in [403, 500] {
            let why = found(&[secrets, "example.com/v1/Route"], defined, code).await.unwrap_err();
            assert!(why.contains("the list of every Route"), "{why}");
        }
        // In whatever version it is served: objects that were made in one are there in each.
        assert_eq!(found(&[secrets, "example.com/v2/Route"], defined, 200).await, Ok(0));
        found(&[secrets, "example.com/v2/Route"], defined, 500).await.unwrap_err();
    }
}
