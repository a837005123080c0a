//! Members of the hierarchy: they are ready when what they refer to exists, and go after what belongs to them.

use std::{fmt::Debug, sync::Arc, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kantor_api::conditions::Conditioned;
use kantor_core::{
    hierarchy::{Described, Kind},
    lifecycle::{self, DeletionStep, Profile, Stage, Standing, Turn},
};
use kube::Resource;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    apply::WriteError,
    controllers::Context,
    runtime::{events::announce, run::Action},
};

/// How often an object that is being deleted looks again; it costs no request.
pub(crate) const WAITING: Duration = Duration::from_secs(10);

/// What remains to be cleaned up outside the control plane.
pub(crate) enum Cleanup {
    /// Nothing.
    Done,
    /// Something, which is waited for.
    Waiting(String),
}

/// A kind of the hierarchy.
pub(crate) trait Member:
    Resource<DynamicType = ()>
    + Described
    + Conditioned
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// What is particular about the kind.
    const PROFILE: &'static Profile;

    /// Whether it is looked at while it is paused: then `Ready` says what is seen.
    const OBSERVED: bool = false;

    /// What has to exist for it to be ready.
    fn needs(&self) -> &'static [Kind] {
        Self::PROFILE.needs
    }

    /// How it stands while it is not being deleted; nothing if that is not known yet and what was said last may still
    /// hold. It is woken by all that this looks at.
    fn standing(&self, context: &Context) -> Option<Standing> {
        Some(match context.world.unresolved(self, self.needs()) {
            Some(error) => Standing::unresolved(&error),
            None => Standing::Ready { reason: Self::PROFILE.ready, message: "ready".to_owned() },
        })
    }

    /// Cleans up outside the control plane, after all that belonged to it has gone.
    fn clean_up(&self, _: &Context) -> impl Future<Output = Result<Cleanup, WriteError>> + Send {
        async { Ok(Cleanup::Done) }
    }

    /// Its whole status, of which `conditions` are new.
    fn status(&self, _: &Context, conditions: &[Condition]) -> Value {
        json!({ "observedGeneration": self.meta().generation, "conditions": conditions })
    }
}

/// Reconciles a member.
pub(crate) async fn reconcile<K: Member>(
    object: Arc<K>,
    context: Arc<Context>,
) -> Result<Action, WriteError> {
    match lifecycle::turn(&*object, K::PROFILE) {
        Turn::Leave => {}
        Turn::Rest => {
            report(&*object, &Standing::Paused, &context).await?;
            if K::OBSERVED {
                // What was said last may hold for a while, and not for ever.
                return Ok(Action::requeue(WAITING));
            }
        }
        Turn::Hold(finalizer) => context.writer.add_finalizer(&*object, finalizer).await?,
        Turn::Finalize => {
            if let Some(standing) = finalize(&*object, &context).await? {
                report(&*object, &standing, &context).await?;
                // Not all that is waited for on data planes wakes the object: a plane may be given up, for example.
                return Ok(Action::requeue(WAITING));
            } else if let Some(finalizer) = K::PROFILE.finalizer {
                context.writer.remove_finalizer(&*object, finalizer).await?;
            }
        }
        Turn::Keep => match object.standing(&context) {
            Some(standing) => report(&*object, &standing, &context).await?,
            // As above.
            None => return Ok(Action::requeue(WAITING)),
        },
    }
    Ok(Action::await_change())
}

/// Removes what belongs to an object; tells what is still waited for.
async fn finalize<K: Member>(object: &K, context: &Context) -> Result<Option<Standing>, WriteError> {
    match remove_children(object, K::PROFILE, context).await? {
        DeletionStep::Delete { message, .. } => Ok(Some(Standing::Finalizing { message, in_use: false })),
        DeletionStep::InUse { message } => Ok(Some(Standing::Finalizing { message, in_use: true })),
        DeletionStep::Done => Ok(match object.clean_up(context).await? {
            Cleanup::Done => None,
            Cleanup::Waiting(message) => Some(Standing::Finalizing { message, in_use: false }),
        }),
    }
}

/// Deletes the children whose turn it is.
pub(crate) async fn remove_children<K: Described>(
    object: &K,
    profile: &Profile,
    context: &Context,
) -> Result<DeletionStep, WriteError> {
    // Those of its own kind tell whose children they are.
    let mut kinds = profile.on_delete.iter().flat_map(Stage::kinds).copied().chain([profile.kind]);
    if let Some(why) = kinds.find_map(|kind| context.world.behind(kind)) {
        return Err(WriteError::Transient(why));
    }
    let is_awaited =
        |kind| profile.on_delete.iter().any(|stage| matches!(stage, Stage::Await(of) if of.contains(&kind)));
    let left = |kind: Kind| {
        let world = &context.world;
        let ids = if is_awaited(kind) { world.users(object, kind) } else { world.taken_along(object, kind) };
        ids.iter().filter_map(|id| world.facts(id)).collect()
    };
    let step = lifecycle::deletion_step(profile.on_delete, left);
    if let DeletionStep::Delete { now, .. } = &step {
        for (id, uid) in now {
            context.writer.delete(&id.kind.resource(), &id.namespace, &id.name, uid.clone()).await?;
        }
    }
    Ok(step)
}

/// Writes the status if it says anything new, and an Event if `Ready` changed.
pub(crate) async fn report<K: Member>(
    object: &K,
    standing: &Standing,
    context: &Context,
) -> Result<(), WriteError> {
    let before = object.conditions();
    let now = Time(jiff::Timestamp::now());
    let generation = object.meta().generation;
    let seen = if K::OBSERVED && *standing == Standing::Paused { object.standing(context) } else { None };
    let after = match seen {
        Some(seen) => lifecycle::conditions_while_paused(K::PROFILE, &seen, before, generation, &now),
        None => lifecycle::conditions_of(K::PROFILE, standing, before, generation, &now),
    };
    let status = object.status(context, &after);
    let current =
        serde_json::to_value(object).ok().and_then(|mut value| value.get_mut("status").map(Value::take));
    if current.as_ref() == Some(&status) {
        return Ok(());
    }
    context.writer.write_status(object, &status).await?;
    announce(object, before, &after, context);
    Ok(())
}
