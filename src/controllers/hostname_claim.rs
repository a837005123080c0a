//! Claims of host names do not outlive their holders.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kantor_api::{
    Endpoint, HostnameClaim, Release as ReleaseObject,
    conditions::{self, Statement, Status, reasons, types},
    hostname_claim::Waiter,
    labels::{self, INSTANCE_ID},
};
use kantor_core::{
    hierarchy::Kind,
    hostnames::{
        claims::also_served_by,
        key::ClaimKey,
        release::{Release, orphaned},
    },
};
use kube::{Api, Resource, ResourceExt, api::ListParams};
use serde_json::json;

use crate::{
    apply::WriteError,
    controllers::{
        Context,
        endpoint::KINDS,
        release,
        shared::{
            connection::key_of,
            hostnames::{delete, waiters},
            plane_objects,
        },
    },
    runtime::run::Action,
};

/// When to look again at a claim whose holder has gone and that cannot be let go yet.
const LATER: Duration = Duration::from_mins(1);

/// Keeps claims from outliving their holders: one that vanished without a clean-up cannot let go of them.
pub(crate) async fn reconcile_claim(
    claim: Arc<HostnameClaim>,
    context: Arc<Context>,
) -> Result<Action, WriteError> {
    let instance = claim.labels().get(INSTANCE_ID);
    let ours = context.scope.covers_claim(&claim.spec.holder.namespace, instance);
    if claim.metadata.deletion_timestamp.is_some() || !ours {
        return Ok(Action::await_change());
    }
    let named: BTreeSet<String> =
        also_served_by(&claim).map(ToOwned::to_owned).chain([claim.spec.holder.uid.clone()]).collect();
    let holder = &claim.spec.holder;
    let holds = |kind: Kind| matches!(kind, Kind::Endpoint | Kind::Release);
    let known = |uid: &str| context.world.with_uid(uid).is_some_and(|id| holds(id.kind));
    let missing: Vec<&String> = named.iter().filter(|uid| !known(uid)).collect();
    if missing.is_empty() {
        say(&claim, None, &context).await?;
        return Ok(Action::await_change());
    }
    let of_release = claim.labels().get(labels::MANAGED_BY).is_some();
    let gone = match gone(&holder.namespace, &missing, of_release, &context).await? {
        Ok(gone) => gone,
        Err(why) => {
            say(&claim, Some(why), &context).await?;
            return Ok(Action::requeue(LATER));
        }
    };
    let waiters = waiters(&ClaimKey::of(&claim), &context);
    match orphaned(&claim, |uid| gone.contains(uid), &waiters) {
        Release::HandOver(claim) | Release::Clear(claim) => {
            context.world.note_claim(context.writer.replace(&*claim).await?);
        }
        Release::Delete(deletion) => delete(&deletion, &context).await?,
        Release::Await | Release::Leave => return Ok(Action::requeue(LATER)),
    }
    Ok(Action::await_change())
}

/// Which of the Endpoints and Releases with these UIDs have gone for good: the API server has none of them, and no plane has
/// a route of theirs. Otherwise, what stands against letting go.
async fn gone(
    namespace: &str,
    uids: &[&String],
    of_release: bool,
    context: &Context,
) -> Result<Result<BTreeSet<String>, String>, WriteError> {
    // An organization's host names stay in it, and so in its namespace.
    let endpoints: Api<Endpoint> = Api::namespaced(context.client.clone(), namespace);
    let live = endpoints.list_metadata(&ListParams::default()).await.map_err(WriteError::of)?;
    let mut live: BTreeSet<String> = live.items.iter().filter_map(ResourceExt::uid).collect();
    let releases: Api<ReleaseObject> = Api::namespaced(context.client.clone(), namespace);
    let releases = releases.list_metadata(&ListParams::default()).await.map_err(WriteError::of)?;
    live.extend(releases.items.iter().filter_map(ResourceExt::uid));
    let gone: BTreeSet<String> =
        uids.iter().filter(|uid| !live.contains(**uid)).map(|uid| (*uid).clone()).collect();
    for data_plane in context.world.stores.data_planes.state() {
        let name = data_plane.name_any();
        let key = key_of(&data_plane);
        let Ok(plane) = context.planes.get(&key) else {
            return Ok(Err(format!(
                "its holder has gone without a clean-up, and data plane {name} cannot be asked whether it still has a route of it"
            )));
        };
        for uid in &gone {
            let label = match plane_objects::owned(&plane, KINDS, uid).await {
                Ok(found) if found.is_empty() => None,
                Ok(_) => Some(labels::OWNER_UID),
                Err(why) => return Ok(Err(format!("waiting for {why}"))),
            };
            // Releases have kinds of routes that Endpoints have not, and that may not be listed everywhere.
            let has_routes = if of_release { release::has_routes(&plane, uid).await } else { Ok(false) };
            let label = match has_routes {
                Ok(true) => Some(labels::RELEASE_UID),
                Ok(false) => label,
                Err(why) => return Ok(Err(format!("waiting for {why}"))),
            };
            if let Some(label) = label {
                return Ok(Err(format!(
                    "its holder has gone without a clean-up, and data plane {name} still has its routes: delete the objects there with the label {label}={uid}"
                )));
            }
        }
    }
    Ok(Ok(gone))
}

/// Writes the claim's status if it says anything new: whether somebody uses the name, and who waits for it.
async fn say(claim: &HostnameClaim, trouble: Option<String>, context: &Context) -> Result<(), WriteError> {
    let before = claim.status.clone().unwrap_or_default();
    let mut waiting = waiters(&ClaimKey::of(claim), context);
    if claim.status.is_none() && trouble.is_none() && waiting.is_empty() {
        // That it is there says it all.
        return Ok(());
    }
    waiting.sort_by(|(a, one), (b, other)| {
        (a, &one.namespace, &one.name).cmp(&(b, &other.namespace, &other.name))
    });
    let (status, reason, message) = match trouble {
        None => (Status::True, reasons::HOSTNAME_CLAIMED, "an Endpoint or a Release holds it".to_owned()),
        Some(why) => (Status::False, reasons::HOLDER_GONE, why),
    };
    let mut after = before.clone();
    let now = Time(jiff::Timestamp::now());
    let statement = Statement::new(types::READY, status, reason, message);
    conditions::set(&mut after.conditions, statement, claim.meta().generation, &now);
    after.observed_generation = claim.meta().generation;
    after.waiting = waiting
        .into_iter()
        .map(|(_, waiter)| Waiter { namespace: waiter.namespace, name: waiter.name, uid: waiter.uid })
        .collect();
    if after != before {
        context.writer.write_status(claim, &json!(after)).await?;
    }
    Ok(())
}
