//! Removing what an owner no longer wants, in the reverse order of making it.

use std::collections::BTreeMap;

use futures::{FutureExt, StreamExt, stream};
use kantor_api::common::InventoryItem;
use kube::{ResourceExt, api::ApiResource};

use super::{Engine, Ground, PARALLEL, Site};
use crate::{
    apply::{Deletion, WriteError},
    core::changes::{self, ObjectView, Owner, Removal, STAGES, shown},
    planes::{Followed, Kind, Serving},
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
    /// Nobody can tell whether it is there: we may not look.
    Unseen,
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
        let followed = match ground {
            Some(Ground::Ready(followed)) => followed,
            // Without the kind there are no objects of it.
            _ if site.plane.serving(&Kind::of(item)) == Serving::Not => return Remains::Nothing,
            Some(Ground::Not(outcome, _)) => {
                return Remains::Failed(outcome.error().unwrap_or_default().to_owned());
            }
            None => return Remains::Waiting(String::new()),
        };
        let namespace = Some(item.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let recorded = item.uid.as_deref();
        let next = match followed.get(namespace, &item.name) {
            Some(live) => changes::removal(owner, &ObjectView::of(&*live), recorded),
            // Not ours by its labels, or not there at all: only the server knows.
            None => match site.reader().look(followed.resource(), &item.namespace, &item.name).await {
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
            Removal::Delete(uid) => self.delete(site, item, followed, uid).await,
        }
    }

    async fn delete(
        &self,
        site: &Site<'_>,
        item: &InventoryItem,
        followed: &Followed,
        uid: Option<String>,
    ) -> Remains {
        match site.writer.delete(followed.resource(), &item.namespace, &item.name, uid).await {
            Ok(Deletion::Gone) => Remains::Nothing,
            Ok(Deletion::Pending { version }) => {
                // The next look comes soon, and would not know that it is going.
                followed.caught_up(version).await;
                Remains::Waiting(format!("{} is being deleted", shown(item)))
            }
            Err(error) => Remains::Failed(failure(item, &error)),
        }
    }

    /// Something in a namespace that Kubernetes itself did not put there, rather what nobody keeps; nothing if there is
    /// nothing. Objects with an owner do not count: they go with it, and it would be found.
    pub async fn something_in(&self, site: &Site<'_>, namespace: &str) -> Result<Option<Found>, WriteError> {
        let kinds = site.plane.kinds();
        let mut seen = std::collections::BTreeSet::new();
        let resources: Vec<ApiResource> = kinds
            .namespaced()
            .filter(|resource| seen.insert((resource.group.clone(), resource.kind.clone())))
            .filter(|resource| !matches!(resource.kind.as_str(), "Event" | "Endpoints" | "PodMetrics"))
            .collect();
        let looks: Vec<_> = resources
            .into_iter()
            .map(|resource| look_for_others(site, resource, namespace).boxed())
            .collect();
        let found: Vec<Result<Option<Found>, WriteError>> =
            stream::iter(looks).buffered(PARALLEL).collect().await;
        let found: Vec<Option<Found>> = found.into_iter().collect::<Result<_, _>>()?;
        Ok(found.into_iter().flatten().min_by_key(|found| found.whose))
    }
}

/// An object of a kind that somebody put into a namespace.
async fn look_for_others(
    site: &Site<'_>,
    resource: ApiResource,
    namespace: &str,
) -> Result<Option<Found>, WriteError> {
    let (objects, more) = match site.reader().look_around(&resource, namespace).await {
        // Waiting for leave that may never come would keep the owner for ever.
        Err(WriteError::Refused(_)) => {
            let what = format!("objects of kind {}, which Kantor may not list", resource.kind);
            return Ok(Some(Found { what, whose: Whose::Unseen }));
        }
        looked => looked?,
    };
    let others = objects.iter().filter(|object| {
        object.owner_references().is_empty()
            && !matches!(
                (resource.kind.as_str(), object.name_any().as_str()),
                ("ConfigMap", "kube-root-ca.crt") | ("ServiceAccount", "default")
            )
    });
    let found = |name: &str, kept: bool| Found {
        what: format!("{} {name}", resource.kind),
        whose: if kept { Whose::Kept } else { Whose::Somebodys },
    };
    let selected = site.selector.split_once('=');
    let kept = |labels: &BTreeMap<String, String>| {
        selected.is_some_and(|(key, value)| labels.get(key).is_some_and(|found| found == value))
    };
    let others = others.map(|object| found(&object.name_any(), kept(object.labels())));
    Ok(others.min_by_key(|found| found.whose).or_else(|| more.then(|| found("objects", false))))
}

fn failure(item: &InventoryItem, error: &WriteError) -> String {
    format!("{}: {error}", shown(item))
}
