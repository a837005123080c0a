//! Removing what an owner no longer wants, in the reverse order of making it.

use std::collections::{BTreeSet, HashSet};

use futures::{FutureExt, StreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kantor_api::common::InventoryItem;
use kantor_core::changes::{self, ObjectView, Owner, Removal, STAGES, shown};
use kube::api::ApiResource;

use super::{Engine, Ground, PARALLEL, Site};
use crate::{
    apply::{Deletion, WriteError},
    planes::{Followed, Kind},
};

/// What became of an object that shall go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The object.
    pub item: InventoryItem,
    /// What is left of it.
    pub remains: Remains,
}

/// What is left of an object that shall go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remains {
    /// Nothing, or nothing of ours.
    Nothing,
    /// It is on its way, or its turn has not come.
    Waiting(String),
    /// It could not be removed; it is tried again.
    Failed(String),
}

/// Something in a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Kind and name.
    pub what: String,
    /// Whose it is.
    pub whose: Whose,
}

/// Whose something in a namespace is. What comes first weighs most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Whose {
    /// Nobody's that we know.
    Somebodys,
    /// An owner of the same kind keeps it.
    Kept,
    /// Nobody's any more: its owner has gone, and it is about to.
    Going,
    /// Nobody can tell whether it is there: we may not look.
    Unseen,
    /// Nobody can tell yet whether it is there: its group is not served at the moment.
    Unserved,
}

impl Engine {
    /// Removes `items` of `owner`. An object counts as gone only when the server said so. What others need goes after
    /// them: a stage is begun when all of the one before it have gone.
    #[tracing::instrument(level = "debug", skip_all, fields(plane = %site.plane.key, objects = items.len()))]
    pub async fn remove(&self, site: &Site<'_>, owner: &Owner, items: &[InventoryItem]) -> Vec<Removed> {
        let kinds = site.plane.kinds();
        let items: Vec<InventoryItem> = items
            .iter()
            .map(|item| InventoryItem {
                version: kinds.in_any_version(&Kind::of(item)).version,
                ..item.clone()
            })
            .collect();
        let mut removed = Vec::with_capacity(items.len());
        let mut blocked_by: Option<String> = None;
        for stage in (0..STAGES).rev() {
            let batch: Vec<&InventoryItem> =
                items.iter().filter(|item| changes::stage(&item.group, &item.kind) == stage).collect();
            if let Some(first) = &blocked_by {
                removed.extend(batch.into_iter().map(|item| Removed {
                    item: item.clone(),
                    remains: Remains::Waiting(format!("{} goes after {first}", shown(item))),
                }));
                continue;
            }
            let grounds = self.grounds(site, batch.iter().copied()).await;
            let mut turns = Vec::with_capacity(batch.len());
            for item in batch {
                let ground = grounds.get(&Kind::of(item));
                let turn = async move {
                    Removed { item: item.clone(), remains: self.remove_one(site, owner, item, ground).await }
                };
                turns.push(turn.boxed());
            }
            let done: Vec<Removed> = stream::iter(turns).buffered(PARALLEL).collect().await;
            blocked_by =
                done.iter().find(|done| done.remains != Remains::Nothing).map(|done| shown(&done.item));
            removed.extend(done);
        }
        removed
    }

    async fn remove_one(
        &self,
        site: &Site<'_>,
        owner: &Owner,
        item: &InventoryItem,
        ground: Option<&Ground>,
    ) -> Remains {
        let (resource, followed) = match ground {
            Some(Ground::Ready(followed)) => (followed.resource(), Some(&**followed)),
            // What may not be listed is looked up by its name.
            Some(Ground::Denied(resource, _)) => (resource, None),
            // Without the kind there are no objects of it.
            Some(Ground::Absent(_)) => return Remains::Nothing,
            Some(Ground::Unknown(outcome, _)) => {
                let why = outcome.error().unwrap_or_default();
                return Remains::Failed(format!("{}: {why}", shown(item)));
            }
            None => return Remains::Waiting(String::new()),
        };
        let namespace = Some(item.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let recorded = item.uid.as_deref();
        let next = match followed.and_then(|followed| followed.get(namespace, &item.name)) {
            Some(live) => changes::removal(owner, &ObjectView::of(&*live), recorded),
            // Not ours by its labels, or not there at all: only the server knows.
            None => match site.reader().look(resource, &item.namespace, &item.name).await {
                Ok(None) => return Remains::Nothing,
                Ok(Some(live)) => changes::removal(owner, &ObjectView::of(&live), recorded),
                Err(error) => return Remains::Failed(failure(item, &error)),
            },
        };
        match next {
            Removal::Leave => Remains::Nothing,
            Removal::AwaitEnd { finalizers } if finalizers.is_empty() => {
                Remains::Waiting(format!("{} is being deleted", shown(item)))
            }
            Removal::AwaitEnd { finalizers } => Remains::Waiting(format!(
                "{} is being deleted and kept by the finalizers {}",
                shown(item),
                finalizers.join(", ")
            )),
            Removal::Delete { uid, version } => {
                self.delete(site, item, (resource, followed), (uid, version)).await
            }
        }
    }

    async fn delete(
        &self,
        site: &Site<'_>,
        item: &InventoryItem,
        (resource, followed): (&ApiResource, Option<&Followed>),
        (uid, version): (Option<String>, Option<String>),
    ) -> Remains {
        match site.writer.delete_version(resource, &item.namespace, &item.name, uid, version).await {
            Ok(Deletion::Gone) => Remains::Nothing,
            Ok(Deletion::Pending { version }) => {
                if let Some(followed) = followed {
                    // The next look comes soon, and would not know that it is going.
                    followed.caught_up(version).await;
                }
                Remains::Waiting(format!("{} is being deleted", shown(item)))
            }
            Err(error) => Remains::Failed(failure(item, &error)),
        }
    }

    /// Something in a namespace that Kubernetes itself did not put there, rather what nobody keeps; nothing if there is
    /// nothing. An object that goes with an owner in the namespace does not count: the owner is found.
    ///
    /// Kubernetes has no way to delete a namespace on condition that it is empty: what is put there between this look and the
    /// deletion goes with it. A second look would leave the same time between.
    pub async fn something_in(&self, site: &Site<'_>, namespace: &str) -> Result<Option<Found>, WriteError> {
        let unseen = site.plane.unseen().map_err(|why| WriteError::Transient(why.to_owned()))?;
        let kinds = site.plane.kinds();
        let mut seen = BTreeSet::new();
        let resources: Vec<ApiResource> = kinds
            .namespaced()
            .filter(|resource| seen.insert((resource.group.clone(), resource.kind.clone())))
            .filter(|resource| !matches!(resource.kind.as_str(), "Event" | "Endpoints" | "PodMetrics"))
            .collect();
        let looks: Vec<_> =
            resources.into_iter().map(|resource| look_around(site, resource, namespace).boxed()).collect();
        let looked: Vec<Result<Look, WriteError>> = stream::iter(looks).buffered(PARALLEL).collect().await;
        let mut looked: Vec<Look> = looked.into_iter().collect::<Result<_, _>>()?;
        looked.extend(
            unseen.into_iter().filter(|group| !is_made_up(group)).map(|group| Look::unserved_group(&group)),
        );
        Ok(judge(&looked, &|kind| kinds.is_namespaced(kind), site.selector))
    }
}

/// Whether the objects of a group are made up when they are asked for: none are kept in a namespace.
fn is_made_up(group: &str) -> bool {
    group.split_once('.').is_some_and(|(_, rest)| rest == "metrics.k8s.io") || group == "metrics.k8s.io"
}

/// What was found of a kind in a namespace.
#[derive(Debug, Default)]
struct Look {
    kind: String,
    objects: Vec<ObjectMeta>,
    /// Whether there are more of them.
    more: bool,
    /// What could not be looked at, and why.
    unseen: Option<(String, Whose)>,
}

impl Look {
    fn unserved_group(group: &str) -> Self {
        let what = format!("objects of {group}, which the data plane does not serve at the moment");
        Self { unseen: Some((what, Whose::Unserved)), ..Self::default() }
    }
}

async fn look_around(site: &Site<'_>, resource: ApiResource, namespace: &str) -> Result<Look, WriteError> {
    let kind = resource.kind.clone();
    match site.reader().look_around(&resource, namespace).await {
        // Waiting for leave that may never come would keep the owner for ever.
        Err(WriteError::Refused(_)) => {
            let unseen = (format!("objects of kind {kind}, which Kantor may not list"), Whose::Unseen);
            Ok(Look { kind, unseen: Some(unseen), ..Look::default() })
        }
        Err(error) => Err(error),
        Ok((objects, more)) => {
            let objects = objects.into_iter().map(|object| object.metadata).collect();
            Ok(Look { kind, objects, more, unseen: None })
        }
    }
}

/// What weighs most of all that was found. `is_namespaced` tells of a kind of owners.
fn judge(looked: &[Look], is_namespaced: &dyn Fn(&Kind) -> Option<bool>, selector: &str) -> Option<Found> {
    let there: HashSet<&str> =
        looked.iter().flat_map(|look| &look.objects).filter_map(|object| object.uid.as_deref()).collect();
    let selected = selector.split_once('=');
    let is_kept = |object: &ObjectMeta| {
        let labels = object.labels.as_ref();
        selected
            .is_some_and(|(key, value)| labels.and_then(|labels| labels.get(key)).is_some_and(|v| v == value))
    };
    let mut found = vec![];
    for look in looked {
        let named = |name: &str, whose| Found { what: format!("{} {name}", look.kind), whose };
        for object in &look.objects {
            let name = object.name.as_deref().unwrap_or_default();
            let own = matches!(
                (look.kind.as_str(), name),
                ("ConfigMap", "kube-root-ca.crt") | ("ServiceAccount", "default")
            );
            let owners = object.owner_references.as_deref().unwrap_or_default();
            if own || owners.iter().any(|owner| there.contains(owner.uid.as_str())) {
                continue;
            }
            // The owner was in the namespace and has gone: the garbage collector is about to remove what it had. One that has no
            // namespace was not looked for, and may well be there.
            let is_inside = |owner| is_namespaced(&kind_of(owner)) == Some(true);
            let whose = match is_kept(object) {
                _ if !owners.is_empty() && owners.iter().all(is_inside) => Whose::Going,
                true => Whose::Kept,
                false => Whose::Somebodys,
            };
            found.push(named(name, whose));
        }
        found.extend(look.more.then(|| named("objects", Whose::Somebodys)));
        found.extend(look.unseen.clone().map(|(what, whose)| Found { what, whose }));
    }
    found.into_iter().min_by_key(|found| found.whose)
}

fn kind_of(owner: &OwnerReference) -> Kind {
    let (group, version) = owner.api_version.split_once('/').unwrap_or(("", &owner.api_version));
    Kind::new(group, version, &owner.kind)
}

fn failure(item: &InventoryItem, error: &WriteError) -> String {
    format!("{}: {error}", shown(item))
}

#[cfg(test)]
mod tests;
