//! Claims of host names: what is decided in [`crate::core::hostnames`], carried out.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kantor_api::{
    Endpoint, HostnameClaim, Release as ReleaseObject,
    conditions::{self, Statement, Status, reasons, types},
    hostname_claim::Waiter,
    labels::{self, INSTANCE_ID},
};
use kube::{Api, Resource, ResourceExt, api::ListParams};
use serde_json::json;

use super::{KINDS, owned};
use crate::{
    apply::WriteError,
    controllers::{Context, data_plane::key_of, parents::get, release, run::Action},
    core::{
        hierarchy::{Id, Kind},
        hostnames::{
            claims::{Contender, Decision, also_served_by, decide, in_the_way},
            key::ClaimKey,
            release::{Deletion, Release, orphaned},
            steps::{Facts, Step, confirmed, next},
        },
    },
};

/// An Endpoint as one that wants host names. Its namespace is its organization: labels are for everybody to write.
pub(super) fn contender(endpoint: &Endpoint) -> Contender {
    let namespace = endpoint.namespace().unwrap_or_default();
    Contender {
        organization: namespace.clone(),
        namespace,
        name: endpoint.name_any(),
        uid: endpoint.uid().unwrap_or_default(),
    }
}

/// How it stands with the host names that are wanted.
pub(super) fn decision(me: &Contender, wanted: &BTreeSet<ClaimKey>, context: &Context) -> Decision {
    decide(me, wanted, &context.world.claims())
}

/// How it stands with the host names that are wanted, of an object that waits for them: whatever becomes of the claims that
/// are in its way now wakes it.
pub(in crate::controllers) fn wait(
    id: &Id,
    me: &Contender,
    wanted: &BTreeSet<ClaimKey>,
    context: &Context,
) -> Decision {
    let claims = context.world.claims();
    context.world.await_claims(id, in_the_way(me, wanted, &claims));
    decide(me, wanted, &claims)
}

/// How it stands with the host names that are wanted, and what is next.
fn step(
    me: &Contender,
    wanted: &BTreeSet<ClaimKey>,
    served: &BTreeSet<ClaimKey>,
    answers: bool,
    context: &Context,
) -> (Decision, Step) {
    let claims = context.world.claims();
    let decision = decide(me, wanted, &claims);
    let facts = Facts { me, decision: &decision, served, claims: &claims, answers };
    let step = next(&facts, |key| waiters(key, context));
    (decision, step)
}

/// Makes and prepares the claims that can be had; tells how it stands then, and what the routes shall have. What is handed to
/// one that does not answer has to wait.
pub(in crate::controllers) async fn obtain(
    me: &Contender,
    wanted: &BTreeSet<ClaimKey>,
    served: &BTreeSet<ClaimKey>,
    answers: bool,
    context: &Context,
) -> Result<(Decision, BTreeSet<ClaimKey>), WriteError> {
    let mut proven = BTreeSet::new();
    loop {
        let (decision, step) = step(me, wanted, served, answers, context);
        let target = match step {
            Step::Create(mut claim) => {
                if let Some(instance) = &context.scope.instance {
                    claim.labels_mut().insert(INSTANCE_ID.to_owned(), instance.clone());
                }
                if context.world.with_uid(&me.uid).is_some_and(|id| id.kind == Kind::Release) {
                    let (key, value) = (labels::MANAGED_BY, labels::MANAGED_BY_RELEASE_CONTROLLER);
                    claim.labels_mut().insert(key.to_owned(), value.to_owned());
                }
                proven.insert(ClaimKey::of(&claim));
                context.world.note_claim(context.writer.create(&*claim).await?);
                continue;
            }
            // What is let go of and what is taken over has its turn when the routes are as they shall be.
            Step::Update(claim) if is_preparation(me, &claim) => {
                proven.insert(ClaimKey::of(&claim));
                context.world.note_claim(context.writer.replace(&*claim).await?);
                continue;
            }
            Step::Serve(target) => target,
            Step::Update(_) | Step::Delete(_) | Step::Rest => served.clone(),
        };
        let known: BTreeSet<ClaimKey> = served.union(&proven).cloned().collect();
        let mut live = vec![];
        for key in target.difference(&known) {
            live.push((key.clone(), read(key, context).await?));
        }
        let granted = confirmed(me, &known, &target, |key| {
            live.iter().find(|(of, _)| of == key).and_then(|(_, claim)| claim.clone())
        });
        return Ok((decision, granted));
    }
}

/// Whether a write only notes that the route of `me` may have the host as well.
fn is_preparation(me: &Contender, claim: &HostnameClaim) -> bool {
    !me.holds(claim) && me.may_serve(claim)
}

/// The claim of a key as the API server has it.
async fn read(key: &ClaimKey, context: &Context) -> Result<Option<Arc<HostnameClaim>>, WriteError> {
    let claims: Api<HostnameClaim> = Api::all(context.client.clone());
    Ok(claims.get_opt(&key.name()).await.map_err(WriteError::of)?.map(Arc::new))
}

/// Takes over what is handed to `me`, if it answers, and lets go of what is no longer wanted, once the routes have exactly
/// `served`.
pub(in crate::controllers) async fn settle(
    me: &Contender,
    wanted: &BTreeSet<ClaimKey>,
    served: &BTreeSet<ClaimKey>,
    answers: bool,
    context: &Context,
) -> Result<Decision, WriteError> {
    loop {
        let (decision, step) = step(me, wanted, served, answers, context);
        match step {
            Step::Update(claim) => context.world.note_claim(context.writer.replace(&*claim).await?),
            Step::Delete(deletion) => delete(&deletion, context).await?,
            // Its turn comes with the routes'.
            Step::Create(_) | Step::Serve(_) | Step::Rest => return Ok(decision),
        }
    }
}

async fn delete(deletion: &Deletion, context: &Context) -> Result<(), WriteError> {
    let Deletion { name, uid, resource_version } = deletion.clone();
    let resource = Kind::HostnameClaim.resource();
    context.writer.delete_version(&resource, "", &name, uid, resource_version).await?;
    context.world.forget_claim(&name);
    Ok(())
}

/// Names of the claims that name an Endpoint.
pub(in crate::controllers) fn naming(uid: &str, context: &Context) -> Vec<String> {
    context.world.claims().naming(uid).map(|claim| claim.name_any()).collect()
}

/// The Endpoints that say of themselves that they wait for a host, with when they were made.
fn waiters(key: &ClaimKey, context: &Context) -> Vec<(Time, Contender)> {
    let shown = key.shown();
    let waits = |endpoint: &Arc<Endpoint>| {
        endpoint.metadata.deletion_timestamp.is_none()
            && endpoint.status.as_ref().is_some_and(|status| status.withheld_hostnames.contains(&shown))
    };
    let created = |endpoint: &Endpoint| endpoint.metadata.creation_timestamp.clone();
    let contenders = context.world.contenders(&key.name());
    contenders
        .iter()
        .filter_map(|id| get(&context.world.stores.endpoints, id))
        .filter(waits)
        .filter_map(|endpoint| Some((created(&endpoint)?, contender(&endpoint))))
        .collect()
}

/// When to look again at a claim whose holder has gone and that cannot be let go yet.
const LATER: Duration = Duration::from_mins(1);

/// Keeps claims from outliving their holders: one that vanished without a clean-up cannot let go of them.
pub(in crate::controllers) async fn reconcile_claim(
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
            let label = match owned::owned(&plane, KINDS, uid).await {
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
