//! What is on the plane: routes and what the gateway says of them, the gateways, and who answers.

use std::{collections::BTreeMap, sync::Arc};

use kantor_api::{common::InventoryItem, conditions::reasons};
use kantor_core::{
    changes,
    endpoint::{GuardedRoute, Listener, Plan, Seen, assess, listener},
    lifecycle::Standing,
};
use kube::{ResourceExt, api::DynamicObject};
use serde_json::Value;

use crate::{
    controllers::shared::plane_objects::{OWNED, followed, list_of},
    planes::{Follow, Followed, Kind, Plane},
};

/// Objects of an Endpoint as the plane's watches tell of them.
pub(super) struct Live {
    routes: Vec<(Found, Vec<Found>)>,
}

/// An object, if it is there.
type Found = Option<Arc<DynamicObject>>;

impl Live {
    /// What is there of `routes`.
    pub fn of(plane: &Plane, routes: &[GuardedRoute]) -> Self {
        let look = |wanted: &DynamicObject| {
            let (group, version, kind) = changes::identity(wanted);
            followed(plane, &group, &version, &kind)?.get(wanted.namespace().as_deref(), &wanted.name_any())
        };
        let routes = routes
            .iter()
            .map(|route| (look(&route.route), route.guards.iter().map(look).collect()))
            .collect();
        Self { routes }
    }

    /// The routes that are there.
    pub fn routes(&self) -> impl Iterator<Item = &DynamicObject> {
        self.routes.iter().filter_map(|(route, _)| route.as_deref())
    }

    /// The same beside what shall be there.
    pub fn seen<'a>(&'a self, routes: &'a [GuardedRoute]) -> Vec<Seen<'a>> {
        let pairs = routes.iter().zip(&self.routes);
        pairs
            .map(|(wanted, (route, guards))| Seen {
                wanted,
                route: route.as_deref(),
                guards: guards.iter().map(Option::as_deref).collect(),
            })
            .collect()
    }
}

/// The gateways of a plane, if it has any. All of them, since those that we need carry no label of ours.
pub(in crate::controllers) fn gateways(plane: &Plane) -> Option<Arc<Followed>> {
    let served = plane.known(&Kind::new("gateway.networking.k8s.io", "v1", "Gateway")).if_present()?;
    Some(plane.follow(&served.resource, "", Follow::Whole))
}

/// What listens for a host on a gateway of a plane; what is usual where that is not known.
pub(super) fn listener_on(
    plane: &Plane,
    (name, namespace): &(String, String),
    host: &str,
) -> Option<Listener> {
    let gateways = gateways(plane)?;
    match gateways.get(Some(namespace), name) {
        Some(gateway) => Some(listener(&gateway, host).unwrap_or_default()),
        None => Some(Listener::default()),
    }
}

/// How an Endpoint stands, given what was applied in full.
pub(super) async fn standing(
    plane: &Plane,
    plan: &Plan,
    routes: &[GuardedRoute],
    deployment_uid: &str,
) -> Standing {
    if let Some(gateways) = gateways(plane) {
        let is_known = gateways.listed(plane.deadline).await;
        let missing = routes
            .iter()
            .map(|route| &route.gateway)
            .find(|(name, namespace)| is_known && gateways.get(Some(namespace), name).is_none());
        if let Some((name, namespace)) = missing {
            let message = format!(
                "data plane {} has no Gateway {name} in namespace {namespace}: make one, or name another in its spec.gateway",
                plane.key.name
            );
            return Standing::Stalled { reason: reasons::GATEWAY_NOT_FOUND, message };
        }
    }
    let live = Live::of(plane, routes);
    match assess(&live.seen(routes)) {
        Some((reason, message, true)) => return Standing::Stalled { reason, message },
        Some((reason, message, false)) => return Standing::Progressing { reason, message },
        None => {}
    }
    let backend = match &plan.service {
        Some(service) if !routes.is_empty() => backend(plane, deployment_uid, service).await,
        _ => None,
    };
    backend.unwrap_or_else(|| Standing::Ready {
        reason: reasons::ENDPOINT_READY,
        message: "Endpoint is ready".to_owned(),
    })
}

/// Why nobody answers behind a Service of the Deployment with this UID, or why that is not known, unless somebody does.
pub(super) async fn backend(plane: &Plane, deployment_uid: &str, service: &str) -> Option<Standing> {
    let kind = Kind::new("discovery.k8s.io", "v1", "EndpointSlice");
    let resource = plane.known(&kind).if_present()?.resource;
    // The labels of a Service are those of its slices.
    let slices = plane.follow(&resource, OWNED, Follow::Whole);
    if !slices.listed(plane.deadline).await {
        let message = format!("waiting for {}", list_of(&kind.kind, plane));
        return Some(Standing::Progressing { reason: reasons::APPLY_WAITING, message });
    }
    let is_its = |labels: &BTreeMap<String, String>| {
        labels.get("kubernetes.io/service-name").is_some_and(|name| name == service)
    };
    let answers = slices.owned_by(deployment_uid).iter().any(|slice| {
        is_its(slice.labels())
            && slice.data.pointer("/endpoints").and_then(Value::as_array).into_iter().flatten().any(
                |endpoint| endpoint.pointer("/conditions/ready").and_then(Value::as_bool).unwrap_or(true),
            )
    });
    let message = format!("no pod behind Service {service} is ready");
    (!answers).then_some(Standing::Progressing { reason: reasons::BACKEND_NOT_READY, message })
}

/// What identifies an object.
pub(super) fn item(object: &DynamicObject) -> InventoryItem {
    let (group, version, kind) = changes::identity(object);
    let namespace = object.namespace().unwrap_or_default();
    InventoryItem { group, version, kind, namespace, name: object.name_any(), uid: None }
}
