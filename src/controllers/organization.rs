//! Organizations: each gets a namespace of its own name, and takes it along when it is deleted.

use std::sync::Arc;

use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::Time};
use kantor_api::{
    Organization,
    conditions::{self, types},
    finalizers,
};
use kube::{
    Resource, ResourceExt,
    runtime::{
        controller::Action,
        events::{Event, EventType},
        reflector::ObjectRef,
    },
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{Context, run};
use crate::{
    apply::WriteError,
    core::organization::{
        CleanupStep, NamespaceStep, Progress, cleanup_step, disowned_namespace, namespace_step, status,
    },
};

pub(super) async fn run(
    context: Arc<Context>,
    woken: mpsc::UnboundedReceiver<ObjectRef<Organization>>,
    stop: CancellationToken,
) {
    let store = context.world.organizations.clone();
    run::run("organization", store, woken, context, stop, reconcile).await;
}

async fn reconcile(organization: Arc<Organization>, context: Arc<Context>) -> Result<Action, WriteError> {
    if organization.meta().deletion_timestamp.is_some() {
        clean_up(&organization, &context).await?;
    } else if organization.finalizers().iter().any(|f| f == finalizers::ORGANIZATION) {
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
        NamespaceStep::Create(namespace) => context.writer.create(&*namespace).await,
        NamespaceStep::Repair(namespace) => {
            info!("restoring the namespace's labels");
            context.writer.apply(&*namespace).await
        }
    };
    match written {
        Ok(()) => Ok(Progress::Ready),
        Err(WriteError::Refused(why)) => Ok(Progress::Refused(why)),
        Err(error) => Err(error),
    }
}

async fn clean_up(organization: &Organization, context: &Context) -> Result<(), WriteError> {
    let live = context.world.namespace(&organization.name_any());
    match cleanup_step(organization, live.as_deref().map(|ns| &ns.metadata)) {
        CleanupStep::Done => {}
        CleanupStep::Disown => context.writer.apply(&disowned_namespace(organization)).await?,
        CleanupStep::AwaitEnd => return report(organization, &Progress::Finalizing, context).await,
        CleanupStep::Delete { uid } => {
            report(organization, &Progress::Finalizing, context).await?;
            let namespace =
                Namespace { metadata: disowned_namespace(organization).metadata, ..Namespace::default() };
            return context.writer.delete(&namespace, uid).await;
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
    let (was, is) =
        (conditions::get(&before.conditions, types::READY), conditions::get(&after.conditions, types::READY));
    if let Some(is) = is
        && was.is_none_or(|was| (&was.status, &was.reason) != (&is.status, &is.reason))
    {
        let failed = matches!(progress, Progress::Conflict(_) | Progress::Refused(_));
        let event = Event {
            type_: if failed { EventType::Warning } else { EventType::Normal },
            reason: is.reason.clone(),
            note: Some(is.message.clone()),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        // An Event that is lost is no reason to reconcile again.
        if let Err(error) = context.events.publish(&event, &organization.object_ref(&())).await {
            warn!(%error, "could not publish an Event");
        }
    }
    Ok(())
}
