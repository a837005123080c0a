//! What is recorded of a Release before anything is written for it, and what of it has to be removed.

use std::collections::{HashMap, HashSet};

use kantor_api::{
    common::{InventoryItem, PlaneRecord},
    release::{ReleaseStatus, RemovingObjects, ResourceStatus},
};

use super::Rendered;
use crate::{
    changes::{ObjectKey, ObjectKeyRef, object_key, object_key_ref},
    health::Health,
    tenancy::may_be_on,
};

/// What is recorded of a Release: where its objects are, which they are, and what is to be removed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    /// The plane.
    pub data_plane: Option<PlaneRecord>,
    /// The objects that shall be there.
    pub resources: Vec<ResourceStatus>,
    /// The namespaces that are made for them.
    pub namespaces: Vec<String>,
    /// What is to be removed, per plane.
    pub removing: Vec<RemovingObjects>,
}

impl Recorded {
    /// What a status says.
    pub fn of(status: &ReleaseStatus) -> Self {
        Self {
            data_plane: status.data_plane.clone(),
            resources: status.resources.clone(),
            namespaces: status.namespaces.clone(),
            removing: status.removing.clone(),
        }
    }

    /// Everything that may be anywhere, per plane: what has to go with the Release.
    pub fn everything(&self) -> Vec<RemovingObjects> {
        self.places(|resource| !resource.not_sent)
    }

    /// As [`Recorded::everything`], with what shall be there and was never sent.
    pub fn mentioned(&self) -> Vec<RemovingObjects> {
        self.places(|_| true)
    }

    fn places(&self, counts: impl Fn(&ResourceStatus) -> bool) -> Vec<RemovingObjects> {
        let mut all = self.removing.clone();
        if let Some(plane) = &self.data_plane {
            let place = removing_from(&mut all, plane);
            place.data_plane = as_now(&place.data_plane, plane);
            add_objects(place, self.resources.iter().filter(|resource| counts(resource)).map(item_of));
            add_namespaces(place, &self.namespaces);
        }
        all.retain(|place| !place.objects.is_empty() || !place.namespaces.is_empty());
        all
    }
}

/// Whether both are the same cluster: by its identity, if it is known.
pub fn is_on(a: &PlaneRecord, b: &PlaneRecord) -> bool {
    match (&a.cluster_uid, &b.cluster_uid) {
        (Some(a), Some(b)) => a == b,
        _ => (&a.namespace, &a.name) == (&b.namespace, &b.name),
    }
}

/// The same cluster as it is reached now: what is recorded under a name that is gone would be given up.
pub fn as_now(old: &PlaneRecord, now: &PlaneRecord) -> PlaneRecord {
    PlaneRecord { cluster_uid: now.cluster_uid.clone().or_else(|| old.cluster_uid.clone()), ..now.clone() }
}

/// A status as far as its planes are believed. What it records of a plane on which a Release of `organization` cannot be is looked for
/// on all `planes` on which it can: somebody else has written that, and what was there is not forgotten for it. The first one of them
/// is the plane that the Release should be on.
pub fn as_believed(status: ReleaseStatus, organization: &str, planes: &[PlaneRecord]) -> ReleaseStatus {
    let is_forged = |plane: &PlaneRecord| !may_be_on(plane, organization, true);
    let Some(first) = planes.first() else { return status };
    let recorded = Recorded::of(&status);
    let forged: Vec<RemovingObjects> =
        recorded.everything().into_iter().filter(|place| is_forged(&place.data_plane)).collect();
    if forged.is_empty() {
        return status;
    }
    let mut removing = status.removing;
    removing.retain(|place| !is_forged(&place.data_plane));
    for plane in planes {
        for RemovingObjects { objects, namespaces, .. } in &forged {
            let place = removing_from(&mut removing, plane);
            add_objects(place, objects.iter().cloned());
            add_namespaces(place, namespaces);
        }
    }
    let believe = |plane: PlaneRecord| if is_forged(&plane) { first.clone() } else { plane };
    ReleaseStatus { data_plane: status.data_plane.map(believe), removing, ..status }
}

/// What is to be recorded of a Release whose objects shall be on `plane`: what was recorded and is no longer wanted is
/// to be removed. Those of which `is_sent` is false are not sent now; unless they may have been before, there is nothing of
/// them to remove.
pub fn record(
    before: &ReleaseStatus,
    plane: &PlaneRecord,
    rendered: &[Rendered],
    namespaces: impl IntoIterator<Item = String>,
    is_sent: impl Fn(&InventoryItem) -> bool,
) -> Recorded {
    let namespaces: Vec<String> = namespaces.into_iter().collect();
    let used: HashSet<&String> = namespaces.iter().collect();
    let stays = before.data_plane.as_ref().is_some_and(|before| is_on(before, plane));
    let wanted: HashSet<ObjectKeyRef<'_>> = rendered.iter().map(|rendered| rendered.wanted.key()).collect();
    let is_wanted = |item: &InventoryItem| wanted.contains(&object_key_ref(item));

    // What is wanted again was made before: it is known by its UID.
    let mut known: HashMap<ObjectKeyRef<'_>, ResourceStatus> = HashMap::new();
    for place in before.removing.iter().filter(|place| is_on(&place.data_plane, plane)) {
        let again = place.objects.iter().filter(|item| is_wanted(item));
        known.extend(again.map(|item| (object_key_ref(item), entry_of(String::new(), item.clone()))));
    }
    let mut removing = before.removing.clone();
    for place in removing.iter_mut().filter(|place| is_on(&place.data_plane, plane)) {
        place.objects.retain(|item| !is_wanted(item));
        place.data_plane = as_now(&place.data_plane, plane);
        place.namespaces.retain(|name| !used.contains(name));
    }
    if let Some(old) = &before.data_plane {
        let mut leaving = vec![];
        for resource in &before.resources {
            let key = key_of(resource);
            if stays && wanted.contains(&key) {
                known.insert(key, resource.clone());
            } else if !resource.not_sent {
                leaving.push(item_of(resource));
            }
        }
        let old = if stays { &as_now(old, plane) } else { old };
        let old_place = removing_from(&mut removing, old);
        add_objects(old_place, leaving);
        add_namespaces(old_place, before.namespaces.iter().filter(|name| !stays || !used.contains(name)));
    }
    removing.retain(|place| !place.objects.is_empty() || !place.namespaces.is_empty());

    let resources = rendered.iter().map(|rendered| {
        let (id, item, found) = (rendered.id.clone(), rendered.item(), known.remove(&rendered.wanted.key()));
        // What may have been sent once may be there, whatever happens now.
        let not_sent = found.as_ref().is_none_or(|found| found.not_sent) && !is_sent(&item);
        match found {
            Some(found) => ResourceStatus { id, version: item.version, not_sent, ..found },
            None => ResourceStatus { not_sent, ..entry_of(id, item) },
        }
    });
    Recorded { data_plane: Some(plane.clone()), resources: resources.collect(), namespaces, removing }
}

/// Whether `after` names anything that may be made and that `before` does not: then it has to be written first.
pub fn adds_to(before: &ReleaseStatus, after: &Recorded) -> bool {
    let Some(plane) = after.data_plane.as_ref() else { return false };
    let known = Recorded::of(before).everything();
    let here: Vec<&RemovingObjects> = known.iter().filter(|place| is_on(&place.data_plane, plane)).collect();
    let objects: HashSet<ObjectKeyRef<'_>> =
        here.iter().flat_map(|place| &place.objects).map(object_key_ref).collect();
    let namespaces: HashSet<&String> = here.iter().flat_map(|place| &place.namespaces).collect();
    before.data_plane.as_ref().is_none_or(|before| !is_on(before, plane))
        || after.resources.iter().any(|resource| !resource.not_sent && !objects.contains(&key_of(resource)))
        || after.namespaces.iter().any(|name| !namespaces.contains(name))
}

/// Whether a Release with this status has, or may have, objects in a namespace of a plane.
pub fn uses_namespace(status: &ReleaseStatus, plane: &PlaneRecord, namespace: &str) -> bool {
    let recorded = Recorded::of(status);
    let everything = recorded.everything();
    everything.iter().filter(|place| is_on(&place.data_plane, plane)).any(|place| {
        place.namespaces.iter().any(|name| name == namespace)
            || place.objects.iter().any(|item| item.namespace == namespace)
    })
}

fn removing_from<'a>(removing: &'a mut Vec<RemovingObjects>, plane: &PlaneRecord) -> &'a mut RemovingObjects {
    let at = removing.iter().position(|place| is_on(&place.data_plane, plane)).unwrap_or_else(|| {
        removing.push(RemovingObjects { data_plane: plane.clone(), ..RemovingObjects::default() });
        removing.len() - 1
    });
    &mut removing[at]
}

fn add_objects(place: &mut RemovingObjects, items: impl IntoIterator<Item = InventoryItem>) {
    let mut at: HashMap<ObjectKey, usize> =
        place.objects.iter().enumerate().map(|(i, item)| (object_key(item), i)).collect();
    for item in items {
        let i = *at.entry(object_key(&item)).or_insert(place.objects.len());
        match place.objects.get_mut(i) {
            Some(known) => known.uid = item.uid.or_else(|| known.uid.take()),
            None => place.objects.push(item),
        }
    }
}

fn add_namespaces<'n>(place: &mut RemovingObjects, names: impl IntoIterator<Item = &'n String>) {
    let mut known: HashSet<String> = place.namespaces.iter().cloned().collect();
    place.namespaces.extend(names.into_iter().filter(|name| known.insert((*name).clone())).cloned());
}

/// What tells the object apart that an entry of a status is about.
fn key_of(resource: &ResourceStatus) -> ObjectKeyRef<'_> {
    let [group, namespace] =
        [&resource.group, &resource.namespace].map(|text| text.as_deref().unwrap_or_default());
    (group, &resource.kind, namespace, &resource.name)
}

/// The object that an entry of a status is about.
pub fn item_of(resource: &ResourceStatus) -> InventoryItem {
    InventoryItem {
        group: resource.group.clone().unwrap_or_default(),
        version: resource.version.clone(),
        kind: resource.kind.clone(),
        namespace: resource.namespace.clone().unwrap_or_default(),
        name: resource.name.clone(),
        uid: resource.uid.clone(),
    }
}

/// An entry for an object of which nothing is known yet.
fn entry_of(id: String, item: InventoryItem) -> ResourceStatus {
    ResourceStatus {
        id,
        group: Some(item.group).filter(|group| !group.is_empty()),
        version: item.version,
        kind: item.kind,
        name: item.name,
        namespace: Some(item.namespace).filter(|namespace| !namespace.is_empty()),
        uid: item.uid,
        health_status: Some(Health::Unknown.as_str().to_owned()),
        ..ResourceStatus::default()
    }
}

#[cfg(test)]
mod tests;
