//! Claims of host names: what is decided in [`kantor_core::hostnames`], carried out.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kantor_api::{
    Endpoint, HostnameClaim,
    labels::{self, INSTANCE_ID},
};
use kantor_core::{
    hierarchy::{Id, Kind},
    hostnames::{
        claims::{Contender, Decision, decide, in_the_way},
        key::ClaimKey,
        release::Deletion,
        steps::{Facts, Step, confirmed, next},
    },
};
use kube::{Api, ResourceExt};

use crate::{
    apply::WriteError,
    controllers::{Context, shared::parents::get},
};

/// An Endpoint as one that wants host names. Its namespace is its organization: labels are for everybody to write.
pub(crate) fn contender(endpoint: &Endpoint) -> Contender {
    let namespace = endpoint.namespace().unwrap_or_default();
    Contender {
        organization: namespace.clone(),
        namespace,
        name: endpoint.name_any(),
        uid: endpoint.uid().unwrap_or_default(),
    }
}

/// How it stands with the host names that are wanted.
pub(crate) fn decision(me: &Contender, wanted: &BTreeSet<ClaimKey>, context: &Context) -> Decision {
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

pub(crate) async fn delete(deletion: &Deletion, context: &Context) -> Result<(), WriteError> {
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
pub(crate) fn waiters(key: &ClaimKey, context: &Context) -> Vec<(Time, Contender)> {
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
