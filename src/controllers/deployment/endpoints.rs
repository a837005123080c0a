//! The Endpoints of a Deployment, in the control plane.

use std::{sync::Arc, time::Duration};

use kantor_api::{
    Deployment, Endpoint, annotations,
    conditions::{self, types},
    deployment::EndpointSummary,
};
use kube::{ResourceExt, api::DynamicObject, runtime::reflector::ObjectRef};

use crate::{
    apply::WriteError,
    controllers::Context,
    core::{
        changes::{self, Wanted},
        hierarchy::Kind,
        lifecycle::ENDPOINT,
    },
};

/// Brings the Endpoints of a Deployment to what they shall be, and returns them. Only its own are touched.
pub(super) async fn sync(
    deployment: &Deployment,
    wanted: &[Endpoint],
    context: &Context,
) -> Result<Vec<Arc<Endpoint>>, WriteError> {
    let uid = deployment.uid().unwrap_or_default();
    let mut kept = vec![];
    for endpoint in wanted {
        let live = live(endpoint, context);
        if let Some(other) = live.as_ref().filter(|live| !is_owned(live, &uid)) {
            let message = format!(
                "Endpoint {} exists and is not this Deployment's; delete or rename it",
                other.name_any()
            );
            return Err(WriteError::Refused(message));
        }
        let intent = Wanted::new(as_dynamic(endpoint)?);
        let is_settled = |live: &DynamicObject| {
            live.annotations().get(annotations::INTENT_HASH) == Some(&intent.hash)
                && changes::drift(live, &intent).is_none()
        };
        kept.push(match live {
            Some(live) if is_settled(&as_dynamic(&live)?) => live,
            _ => {
                let mut body = endpoint.clone();
                body.annotations_mut().insert(annotations::INTENT_HASH.to_owned(), intent.hash);
                // It would be the first thing that its own controller writes.
                body.metadata.finalizers = ENDPOINT.finalizer.map(|finalizer| vec![finalizer.to_owned()]);
                Arc::new(context.writer.apply(&body).await?)
            }
        });
    }
    let stale = context.world.owned_by(&uid, Kind::Endpoint).into_iter();
    for id in stale.filter(|id| !wanted.iter().any(|endpoint| endpoint.name_any() == id.name)) {
        if let Some(facts) = context.world.facts(&id).filter(|facts| !facts.deleting) {
            context.writer.delete(&Kind::Endpoint.resource(), &id.namespace, &id.name, facts.uid).await?;
        }
    }
    Ok(kept)
}

/// What is shown of the Endpoints.
pub(super) fn summaries(
    deployment: &Deployment,
    wanted: &[Endpoint],
    context: &Context,
) -> Vec<EndpointSummary> {
    let uid = deployment.uid().unwrap_or_default();
    let mut summaries: Vec<EndpointSummary> = wanted
        .iter()
        .map(|endpoint| {
            let live = live(endpoint, context).filter(|live| is_owned(live, &uid));
            let status = live.and_then(|live| live.status.clone()).unwrap_or_default();
            EndpointSummary {
                name: endpoint.name_any(),
                address: status.address,
                ready: conditions::get(&status.conditions, types::READY).map(|ready| ready.status.clone()),
            }
        })
        .collect();
    summaries.sort_by(|a, b| a.name.cmp(&b.name));
    summaries
}

/// How long an Endpoint is given to tell how it is, before its Deployment says that it does not know.
const GIVEN: Duration = Duration::from_secs(5);

/// Whether there are Endpoints that have just been made and have not told how they are yet.
pub(super) fn are_new(kept: &[Arc<Endpoint>], context: &Context) -> bool {
    let now = jiff::Timestamp::now();
    kept.iter().any(|endpoint| {
        // What was written last may not have been seen yet.
        let endpoint = live(endpoint, context).unwrap_or_else(|| endpoint.clone());
        let made = endpoint.metadata.creation_timestamp.as_ref();
        let is_young = made.is_some_and(|made| now.duration_since(made.0).unsigned_abs() < GIVEN);
        let says = endpoint.status.as_ref().map(|status| &status.conditions);
        is_young && says.is_none_or(|says| conditions::get(says, types::READY).is_none())
    })
}

fn live(endpoint: &Endpoint, context: &Context) -> Option<Arc<Endpoint>> {
    let key = ObjectRef::new(&endpoint.name_any()).within(&endpoint.namespace().unwrap_or_default());
    context.world.stores.endpoints.get(&key)
}

fn is_owned(endpoint: &Endpoint, uid: &str) -> bool {
    endpoint.owner_references().iter().any(|owner| owner.uid == uid)
}

fn as_dynamic(endpoint: &Endpoint) -> Result<DynamicObject, WriteError> {
    let mut value =
        serde_json::to_value(endpoint).map_err(|error| WriteError::Transient(error.to_string()))?;
    if let Some(fields) = value.as_object_mut() {
        fields.remove("status");
    }
    serde_json::from_value(value).map_err(|error| WriteError::Transient(error.to_string()))
}
