//! Organizations: each gets a namespace of its own name. Deleted, it takes along what belongs to it, in order, and then the
//! namespace.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kantor_api::{Organization, finalizers};
use kantor_core::{
    hierarchy::Kind,
    lifecycle::{self, DeletionStep},
    organization::{
        CleanupStep, NamespaceStep, Progress, cleanup_step, disowned_namespace, namespace_step, status,
    },
};
use kube::ResourceExt;
use tracing::info;

use super::{Context, shared::simple_kind};
use crate::{
    apply::WriteError,
    runtime::{events, run::Action},
};

pub(super) async fn reconcile(
    organization: Arc<Organization>,
    context: Arc<Context>,
) -> Result<Action, WriteError> {
    let held = organization.finalizers().iter().any(|f| f == finalizers::ORGANIZATION);
    if lifecycle::is_paused(&*organization) {
        report(&organization, &Progress::Paused, &context).await?;
    } else if organization.metadata.deletion_timestamp.is_some() {
        clean_up(&organization, &context).await?;
    } else if held {
        let progress = keep_namespace(&organization, &context).await?;
        report(&organization, &progress, &context).await?;
    } else {
        // The change wakes it again: nothing is made before the clean-up of it is sure.
        context.writer.add_finalizer(&*organization, finalizers::ORGANIZATION).await?;
    }
    Ok(Action::await_change())
}

async fn keep_namespace(organization: &Organization, context: &Context) -> Result<Progress, WriteError> {
    let live = context.world.namespace(&organization.name_any());
    let written = match namespace_step(organization, live.as_deref().map(|ns| &ns.metadata)) {
        NamespaceStep::Keep => return Ok(Progress::Ready),
        NamespaceStep::AwaitEnd => return Ok(Progress::NamespaceTerminating),
        NamespaceStep::Refuse(why) => return Ok(Progress::Conflict(why)),
        NamespaceStep::Create(namespace) => context.writer.create(&*namespace).await.map(drop),
        NamespaceStep::Repair(namespace) => {
            info!("restoring the namespace's labels");
            context.writer.apply(&*namespace).await.map(drop)
        }
    };
    match written {
        Ok(()) => Ok(Progress::Ready),
        Err(WriteError::Refused(why)) => Ok(Progress::Refused(why)),
        Err(error) => Err(error),
    }
}

async fn clean_up(organization: &Organization, context: &Context) -> Result<(), WriteError> {
    match simple_kind::remove_children(organization, &lifecycle::ORGANIZATION, context).await? {
        DeletionStep::Done => {}
        DeletionStep::Delete { message, .. } | DeletionStep::InUse { message } => {
            return report(organization, &Progress::Finalizing(message), context).await;
        }
    }
    let name = organization.name_any();
    let waiting =
        Progress::Finalizing(format!("waiting for namespace {name} and everything in it to be deleted"));
    let live = context.world.namespace(&name);
    match cleanup_step(organization, live.as_deref().map(|ns| &ns.metadata)) {
        CleanupStep::Done => {}
        CleanupStep::Disown => drop(context.writer.apply(&disowned_namespace(organization)).await?),
        CleanupStep::AwaitEnd => return report(organization, &waiting, context).await,
        CleanupStep::Delete { uid } => {
            report(organization, &waiting, context).await?;
            return context.writer.delete(&Kind::Namespace.resource(), "", &name, uid).await.map(drop);
        }
    }
    context.writer.remove_finalizer(organization, finalizers::ORGANIZATION).await
}

/// Writes the status if it says anything new, and an Event if `Ready` changed.
async fn report(
    organization: &Organization,
    progress: &Progress,
    context: &Context,
) -> Result<(), WriteError> {
    let before = organization.status.clone().unwrap_or_default();
    let after = status(organization, progress, &Time(jiff::Timestamp::now()));
    if after == before {
        return Ok(());
    }
    context.writer.write_status(organization, &after).await?;
    events::announce(organization, &before.conditions, &after.conditions, context);
    Ok(())
}
