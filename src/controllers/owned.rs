//! The objects that Deployments and Endpoints have on planes: found by whose they are, and removed from recorded facts
//! alone.

use std::{collections::HashMap, sync::Arc};

use futures::future::join_all;
use kantor_api::{
    annotations,
    common::{InventoryItem, PlaneRecord},
    conditions::reasons,
    labels, managers,
};
use kube::{Resource, ResourceExt, runtime::events::EventType};

use super::{
    Context, member,
    place::{Unreachable, own_writer, reach_recorded},
};
use crate::{
    apply::{Remains, Site},
    core::{
        changes::{Owner, object_key, shown},
        release::{is_on, listed},
    },
    planes::{Follow, Followed, Kind, Plane, Serving},
};

/// Selects the objects of all Deployments and Endpoints.
pub(super) const OWNED: &str = labels::OWNER_UID;
/// Name under which the reference wrote its objects.
pub(super) const FORMER_MANAGER: &str = "manager";

/// A kind: group, versions from the best to the last resort, kind.
pub(super) type OwnedKind = (&'static str, &'static [&'static str], &'static str);

/// Where the engine writes on a plane.
pub(super) fn site<'a>(plane: &'a Plane, selector: &'a str) -> Site<'a> {
    Site { plane, writer: own_writer(plane), manager: managers::KANTOR, selector }
}

/// On whose behalf the objects of a Deployment or an Endpoint are kept. Objects of the reference are told to be its own by
/// the labels `inherited`.
pub(super) fn owner_of<K: Resource>(object: &K, inherited: Vec<(String, String)>) -> Owner {
    Owner {
        uid: object.uid().unwrap_or_default(),
        label: labels::OWNER_UID,
        adopt: object.annotations().get(annotations::ADOPT).is_some_and(|value| value == "true"),
        // The names are fixed, so what cannot be changed has to make way.
        replace: true,
        inherited: inherited.into_iter().collect(),
        former_manager: Some(FORMER_MANAGER),
    }
}

/// The watch of a kind on a plane, if the plane serves it.
pub(super) fn followed(plane: &Plane, group: &str, version: &str, kind: &str) -> Option<Arc<Followed>> {
    match plane.serving(&Kind::new(group, version, kind)) {
        Serving::Served { resource, .. } => Some(plane.follow(&resource, OWNED, Follow::Whole)),
        Serving::Not | Serving::Unknown => None,
    }
}

/// The watches of kinds on a plane, as far as the plane serves them: each with the version that it is followed in.
fn all_followed(plane: &Plane, kinds: &[OwnedKind]) -> Vec<(OwnedKind, &'static str, Arc<Followed>)> {
    let follow = |kind: &OwnedKind| {
        let (group, versions, name) = *kind;
        versions.iter().find_map(|version| Some((*kind, *version, followed(plane, group, version, name)?)))
    };
    kinds.iter().filter_map(follow).collect()
}

/// All objects of `kinds` on a plane that belong to the owner with this UID. The error says what is not known.
pub(super) async fn owned(
    plane: &Plane,
    kinds: &[OwnedKind],
    uid: &str,
) -> Result<Vec<InventoryItem>, String> {
    let all = all_followed(plane, kinds);
    join_all(all.iter().map(|(.., followed)| followed.listed(plane.deadline))).await;
    let mut found = vec![];
    for ((group, _, kind), version, followed) in all {
        if !followed.is_synced() {
            return Err(list_of(kind, plane));
        }
        found.extend(followed.owned_by(uid).into_iter().map(|object| InventoryItem {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            uid: object.uid(),
        }));
    }
    Ok(found)
}

/// What is waited for, in words.
pub(super) fn list_of(kind: &str, plane: &Plane) -> String {
    format!("the list of every {kind} on data plane {}", plane.key.name)
}

/// Removes objects; tells what is still there, and why.
pub(super) async fn remove(
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
pub(super) async fn clean_plane<K: Resource<DynamicType = ()>>(
    object: &K,
    kinds: &[OwnedKind],
    record: &PlaneRecord,
    inventory: &[InventoryItem],
    context: &Context,
) -> Result<(), String> {
    let plane = match reach_recorded(record, context) {
        Ok(plane) => plane,
        Err(Unreachable::GivenUp) => {
            let note = format!("left behind on data plane {}, which is no longer registered", record.name);
            member::publish(object, EventType::Warning, "Finalize", reasons::LEFT_BEHIND, note, context);
            return Ok(());
        }
        Err(Unreachable::For(why)) => return Err(format!("data plane {}: {why}", record.name)),
    };
    let owner = owner_of(object, vec![]);
    let there = owned(&plane, kinds, &owner.uid).await?;
    let mut items: HashMap<_, InventoryItem> =
        inventory.iter().map(|item| (object_key(item), item.clone())).collect();
    items.extend(there.into_iter().map(|item| (object_key(&item), item)));
    let items: Vec<InventoryItem> = items.into_values().collect();
    let left = remove(&site(&plane, OWNED), &owner, &items, context).await;
    if left.is_empty() { Ok(()) } else { Err(listed(&left)) }
}

/// Cleans all planes that an owner was on; tells what is still waited for.
pub(super) async fn clean_planes<K: Resource<DynamicType = ()>>(
    object: &K,
    kinds: &[OwnedKind],
    current: Option<&PlaneRecord>,
    cleaning: &[PlaneRecord],
    inventory: &[InventoryItem],
    context: &Context,
) -> Vec<String> {
    let mut waiting = vec![];
    for plane in current.into_iter().chain(cleaning) {
        // What was recorded is on the current plane.
        let inventory: &[InventoryItem] = if current == Some(plane) { inventory } else { &[] };
        waiting.extend(clean_plane(object, kinds, plane, inventory, context).await.err());
    }
    waiting
}

/// Cleans the planes that an owner was on before; tells which are left, and what is waited for.
pub(super) async fn leave<K: Resource<DynamicType = ()>>(
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
pub(super) fn to_clean(
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

/// Tells what stays behind of an owner that is let go.
pub(super) fn let_go<K: Resource<DynamicType = ()>>(
    object: &K,
    plane: Option<&PlaneRecord>,
    inventory: &[InventoryItem],
    context: &Context,
) {
    let Some(plane) = plane else { return };
    let objects: Vec<String> = inventory.iter().map(shown).collect();
    let note = format!("left behind on data plane {}: {}", plane.name, listed(&objects));
    member::publish(object, EventType::Warning, "Finalize", reasons::LEFT_BEHIND, note, context);
}
