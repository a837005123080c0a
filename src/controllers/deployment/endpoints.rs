//! The Endpoints of a Deployment, in the control plane.

use std::{sync::Arc, time::Duration};

use kantor_api::{
    Deployment, Endpoint, annotations,
    common::PlaneRecord,
    conditions::{self, types},
    deployment::EndpointSummary,
};
use kantor_core::{
    changes::{self, Wanted},
    deployment::EndpointTroubles,
    hierarchy::Kind,
    lifecycle::ENDPOINT,
    release::is_on,
};
use kube::{ResourceExt, api::DynamicObject, runtime::reflector::ObjectRef};

use crate::{
    apply::{NO_VERSION, WriteError},
    controllers::{Context, shared::parents::get},
};

/// The Endpoints of a Deployment after they were brought to what they shall be.
#[derive(Default)]
pub(super) struct Synced {
    /// Those that are there.
    pub kept: Vec<Arc<Endpoint>>,
    /// What became of the others.
    pub troubles: EndpointTroubles,
    /// Why something has to be tried again soon.
    pub error: Option<WriteError>,
}

impl Synced {
    fn note(&mut self, name: &str, error: WriteError) {
        let said = format!("Endpoint {name}: {error}");
        match error {
            WriteError::Refused(_) | WriteError::Immutable(_) => self.troubles.refused.push(said),
            // The watch is about to tell of it: that is no news.
            WriteError::Conflict => {}
            WriteError::Busy { .. } | WriteError::Transient(_) => self.troubles.failed.push(said),
        }
        self.error.get_or_insert(error);
    }
}

/// Brings the Endpoints of a Deployment to what they shall be. Only its own are touched.
pub(super) async fn sync(deployment: &Deployment, wanted: &[Endpoint], context: &Context) -> Synced {
    let uid = deployment.uid().unwrap_or_default();
    let mut synced = Synced::default();
    for endpoint in wanted {
        let live = live(endpoint, context);
        if live.as_ref().is_some_and(|live| !is_owned(live, &uid)) {
            synced.troubles.taken.push(format!(
                "Endpoint {} exists and is not this Deployment's; delete it, or rename the endpoint template",
                endpoint.name_any()
            ));
            continue;
        }
        match settled(endpoint, live, context).await {
            Ok(endpoint) => synced.kept.push(endpoint),
            Err(error) => synced.note(&endpoint.name_any(), error),
        }
    }
    let stale = context.world.owned_by(&uid, Kind::Endpoint).into_iter();
    for id in stale.filter(|id| !wanted.iter().any(|endpoint| endpoint.name_any() == id.name)) {
        if let Some(facts) = context.world.facts(&id).filter(|facts| !facts.deleting) {
            let resource = Kind::Endpoint.resource();
            let deleted = context.writer.delete(&resource, &id.namespace, &id.name, facts.uid).await;
            if let Err(error) = deleted {
                synced.note(&id.name, error);
            }
        }
    }
    synced
}

/// An Endpoint as it shall be: made where there is none, and changed where it is the one that was looked at.
async fn settled(
    endpoint: &Endpoint,
    live: Option<Arc<Endpoint>>,
    context: &Context,
) -> Result<Arc<Endpoint>, WriteError> {
    let intent = Wanted::new(as_dynamic(endpoint)?);
    let is_settled = |live: &DynamicObject| {
        live.annotations().get(annotations::INTENT_HASH) == Some(&intent.hash)
            && changes::drift(live, &intent).is_none()
    };
    let mut body = endpoint.clone();
    match live {
        Some(live) if is_settled(&as_dynamic(&live)?) => return Ok(live),
        Some(live) => body.metadata.uid = live.uid(),
        None => body.metadata.resource_version = Some(NO_VERSION.to_owned()),
    }
    body.annotations_mut().insert(annotations::INTENT_HASH.to_owned(), intent.hash);
    // It would be the first thing that its own controller writes.
    body.metadata.finalizers = ENDPOINT.finalizer.map(|finalizer| vec![finalizer.to_owned()]);
    Ok(Arc::new(context.writer.apply(&body).await?))
}

/// The Endpoints that lead to a Deployment and are on one of these planes, or have something there.
pub(super) fn on_planes(deployment: &Deployment, planes: &[PlaneRecord], context: &Context) -> Vec<String> {
    let is_there = |endpoint: &Endpoint| {
        let status = endpoint.status.as_ref();
        let on = status.into_iter().flat_map(|status| status.data_plane.iter().chain(&status.cleaning));
        on.into_iter().any(|on| planes.iter().any(|plane| is_on(on, plane)))
    };
    let endpoints = context.world.children(deployment, Kind::Endpoint);
    let endpoints = endpoints.iter().filter_map(|id| get(&context.world.stores.endpoints, id));
    let mut names: Vec<String> =
        endpoints.filter(|endpoint| is_there(endpoint)).map(|endpoint| endpoint.name_any()).collect();
    names.sort();
    names
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
