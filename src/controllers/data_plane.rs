//! Data planes: the newest credentials are handed to the connector, and the status says what it found.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::core::v1::Secret,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kantor_api::{
    DataPlane, annotations,
    conditions::{self, Statement, Status, reasons, types},
    data_plane::DataPlaneStatus,
};
use kube::{Api, Resource, ResourceExt, runtime::reflector::ObjectRef};
use serde_json::Value;

use super::{
    Context,
    book::{Entry, Seen},
    member::{self, Cleanup, Member},
    run::Action,
};
use crate::{
    apply::WriteError,
    core::{
        hierarchy::{Id, Kind},
        lifecycle::{self, Profile, Standing},
        renewal::{self, Plan, Said},
    },
    planes::{
        Access, DisconnectReason, Plane, PlaneKey, PlaneState, Refusal, RefusalKind, credentials_expiry,
        kubeconfig_key, parse_inline, parse_kubeconfig, secret_names, token_claims,
    },
};

pub(super) async fn reconcile(plane: Arc<DataPlane>, context: Arc<Context>) -> Result<Action, WriteError> {
    connect(plane.clone(), context.clone()).await?;
    member::reconcile(plane, context).await
}

/// Keeps the connection to a plane that somebody looks after.
pub(super) async fn connect(plane: Arc<DataPlane>, context: Arc<Context>) -> Result<Action, WriteError> {
    // Also while it is being deleted: what is left on it can only be removed through it.
    if !lifecycle::is_paused(&*plane) && !plane.finalizers().is_empty() {
        refresh(&plane, &context).await?;
    }
    Ok(Action::await_change())
}

/// Ends the connection to a plane that was deleted without a clean-up.
pub(super) fn gone(plane: &ObjectRef<DataPlane>, context: &Context) {
    let key = PlaneKey { namespace: plane.namespace.clone().unwrap_or_default(), name: plane.name.clone() };
    // It ends by itself.
    drop(context.planes.forget(&key));
    context.book.forget(&key);
}

/// The plane's key.
pub(super) fn key_of(plane: &DataPlane) -> PlaneKey {
    PlaneKey { namespace: plane.namespace().unwrap_or_default(), name: plane.name_any() }
}

/// Reads the plane's Secrets, if anything about them is new, and hands what they say to the connector.
async fn refresh(plane: &DataPlane, context: &Context) -> Result<(), WriteError> {
    let key = key_of(plane);
    let names = secret_names(&plane.spec.kubernetes_cluster);
    let version = |name: &String| {
        let secret = context.world.stores.secrets.get(&ObjectRef::new(name).within(&key.namespace));
        (name.clone(), secret.and_then(|secret| secret.resource_version()))
    };
    let seen = Seen {
        uid: plane.uid(),
        generation: plane.meta().generation,
        secrets: names.iter().map(version).collect(),
    };
    if context.book.is_seen(&key, &seen) {
        return Ok(());
    }
    if context.book.is_of_another(&key, &seen) {
        // Deleted without a clean-up and made anew: it may be another cluster.
        context.planes.forget(&key).await;
    }
    let mut secrets = BTreeMap::new();
    for (name, _) in seen.secrets.iter().filter(|(_, version)| version.is_some()) {
        secrets
            .extend(read_secret(context, &key.namespace, name).await?.map(|secret| (name.clone(), secret)));
    }
    match access(plane, &secrets, context) {
        Ok(access) => {
            let expires = match &access {
                Access::Remote(remote) => credentials_expiry(remote),
                Access::InCluster => None,
            };
            let renewal = plan_of(plane, &secrets, &access);
            let identity = plane.status.as_ref().and_then(|status| status.cluster_uid.clone());
            context.book.note(key.clone(), Entry { seen, refusal: None, expires, renewal });
            context.planes.want_known(&key, access, identity);
        }
        Err(refusal) => {
            let refused = refusal.kind == RefusalKind::Refused;
            context.book.note(
                key.clone(),
                Entry { seen, refusal: Some(refusal), expires: None, renewal: Plan::NotAsked },
            );
            // What only is missing may be about to come back, and what is left on the plane still has to be removed.
            if refused {
                context.planes.forget(&key).await;
            }
            // No connection will tell them, and after a restart this status may say nothing new.
            context.world.wake_concerned(&Id::new(Kind::DataPlane, key.namespace, key.name));
        }
    }
    Ok(())
}

/// A Secret with its values: the one read that a reconcile makes, because Secrets are followed without them.
pub(super) async fn read_secret(
    context: &Context,
    namespace: &str,
    name: &str,
) -> Result<Option<Secret>, WriteError> {
    let secrets: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
    secrets.get_opt(name).await.map_err(WriteError::of)
}

/// Its values.
pub(super) fn values_of(secret: &Secret) -> BTreeMap<String, Vec<u8>> {
    secret.data.iter().flatten().map(|(key, value)| (key.clone(), value.0.clone())).collect()
}

/// What is to be done about the plane's token. Only kubeconfigs in Secrets are written anew.
pub(super) fn plan_of(plane: &DataPlane, secrets: &BTreeMap<String, Secret>, access: &Access) -> Plan {
    let secret =
        plane.spec.kubernetes_cluster.secret_ref.as_ref().and_then(|secret| secrets.get(&secret.name));
    let asked = secret.is_some_and(|secret| {
        secret.annotations().get(annotations::RENEW).is_some_and(|wish| wish == "true")
    });
    let claims = match access {
        Access::Remote(remote) => token_claims(remote),
        Access::InCluster => None,
    };
    renewal::plan(asked, claims.as_ref())
}

/// What the plane's spec and Secrets say about how to reach it.
pub(super) fn access(
    plane: &DataPlane,
    secrets: &BTreeMap<String, Secret>,
    context: &Context,
) -> Result<Access, Refusal> {
    let cluster = &plane.spec.kubernetes_cluster;
    if cluster.in_cluster.is_some() {
        return Ok(Access::InCluster);
    }
    let Some(reference) = &cluster.secret_ref else {
        return parse_inline(cluster, |name| secrets.get(name).map(values_of), &context.addresses)
            .map(Access::Remote);
    };
    let data = secrets.get(&reference.name).map(values_of).ok_or_else(|| Refusal {
        kind: RefusalKind::SecretMissing,
        field: "kubernetesCluster.secretRef.name".to_owned(),
        why: format!(
            "Secret {} does not exist in this namespace; make it, with a kubeconfig in it",
            reference.name
        ),
    })?;
    let (key, bytes) = kubeconfig_key(&data, reference.key.as_deref())?;
    parse_kubeconfig(bytes, &context.addresses).map(Access::Remote).map_err(|refusal| Refusal {
        field: format!("Secret {}, key {key}, {}", reference.name, refusal.field),
        ..refusal
    })
}

impl Member for DataPlane {
    const PROFILE: &'static Profile = &lifecycle::DATA_PLANE;

    fn standing(&self, context: &Context) -> Option<Standing> {
        let key = key_of(self);
        if let Some(refusal) = context.book.refusal(&key) {
            let reason = match refusal.kind {
                RefusalKind::Refused => reasons::KUBECONFIG_REFUSED,
                RefusalKind::SecretMissing => reasons::SECRET_NOT_FOUND,
            };
            return Some(Standing::Stalled { reason, message: refusal.to_string() });
        }
        let state = context.planes.state(&key);
        // After a restart the first attempt tells whether what was said last still holds.
        let first_attempt = matches!(state, None | Some(PlaneState::Connecting));
        (!first_attempt || !member::is_spoken_for(self)).then(|| standing_of(state.as_ref()))
    }

    async fn clean_up(&self, context: &Context) -> Result<Cleanup, WriteError> {
        let key = key_of(self);
        // An environment that has moved away removes its namespaces through this connection.
        let holding = environments_holding(&key, context);
        if !holding.is_empty() && !lifecycle::is_orphaning(self) {
            let names = holding.join(", ");
            return Ok(Cleanup::Waiting(format!(
                "waiting for the namespaces of {names} to be removed from it"
            )));
        }
        context.planes.forget(&key).await;
        context.book.forget(&key);
        Ok(Cleanup::Done)
    }

    fn status(&self, context: &Context, conditions: &[Condition]) -> Value {
        let (key, now) = (key_of(self), jiff::Timestamp::now());
        let mut status = status_of(
            self.status.clone().unwrap_or_default(),
            context.planes.state(&key).as_ref(),
            context.book.expires(&key),
            conditions,
            self.metadata.generation,
            &Time(now),
        );
        if let Some((plan, failure)) = context.book.renewal(&key) {
            let said = renewal::said(&plan, failure.as_deref(), now);
            say_renewal(&mut status.conditions, said, self.metadata.generation, &Time(now));
        }
        serde_json::to_value(status).unwrap_or_default()
    }
}

fn say_renewal(conditions: &mut Vec<Condition>, said: Said, generation: Option<i64>, now: &Time) {
    match said {
        Said::Nothing => conditions.retain(|condition| condition.type_ != types::TOKEN_RENEWED),
        Said::Unchanged => {}
        Said::Now(statement) => conditions::set(conditions, statement, generation, now),
    }
}

/// Environments that have recorded namespaces on a plane.
fn environments_holding(key: &PlaneKey, context: &Context) -> Vec<String> {
    let environments = context.world.stores.environments.state();
    let mut holding: Vec<String> = environments
        .iter()
        .filter(|environment| {
            let recorded = environment.status.iter().flat_map(|status| &status.namespaces);
            recorded.into_iter().any(|record| {
                (&record.data_plane.namespace, &record.data_plane.name) == (&key.namespace, &key.name)
            })
        })
        .map(|environment| format!("Environment {}", environment.name_any()))
        .collect();
    holding.sort();
    holding
}

/// How a plane stands by the state of its connection.
fn standing_of(state: Option<&PlaneState>) -> Standing {
    let reason = reason_of(state);
    match state {
        None | Some(PlaneState::Connecting) => {
            Standing::Progressing { reason, message: "connecting for the first time".to_owned() }
        }
        Some(PlaneState::Connected { server_version, .. }) => {
            Standing::Ready { reason, message: format!("connected to Kubernetes {server_version}") }
        }
        Some(PlaneState::Disconnected { message, last_contact, .. }) => {
            let message = with_last_contact(message, *last_contact);
            if reason == reasons::DATA_PLANE_UNREACHABLE {
                Standing::Unknown { reason, message }
            } else {
                Standing::Stalled { reason, message }
            }
        }
    }
}

/// Whether a plane can be used now.
pub(super) enum Reach {
    /// It can.
    Connected(Arc<Plane>),
    /// It cannot, and why.
    Unreachable(String),
    /// The first attempt to connect has not ended: what was said last may still hold.
    NotYet,
}

/// Whether the plane can be used now.
pub(super) fn reach(key: &PlaneKey, context: &Context) -> Reach {
    match (context.planes.state(key), context.book.refusal(key)) {
        (Some(PlaneState::Connected { .. }), _) => {
            context.planes.get(key).map_or(Reach::NotYet, Reach::Connected)
        }
        (Some(PlaneState::Disconnected { message, last_contact, .. }), _) => {
            Reach::Unreachable(with_last_contact(&message, last_contact))
        }
        (None, Some(refusal)) => Reach::Unreachable(refusal.to_string()),
        (None | Some(PlaneState::Connecting), _) => Reach::NotYet,
    }
}

/// Why a plane is not connected, and when it last was.
fn with_last_contact(message: &str, last_contact: Option<jiff::Timestamp>) -> String {
    let seen = last_contact.map(|at| format!("; last answered at {at:.0}")).unwrap_or_default();
    format!("{message}{seen}")
}

fn reason_of(state: Option<&PlaneState>) -> &'static str {
    match state {
        None | Some(PlaneState::Connecting) => reasons::DATA_PLANE_CONNECTING,
        Some(PlaneState::Connected { .. }) => reasons::DATA_PLANE_CONNECTED,
        Some(PlaneState::Disconnected { why, .. }) => match why {
            DisconnectReason::Unauthorized => reasons::CREDENTIALS_REJECTED,
            DisconnectReason::Forbidden => reasons::PERMISSION_DENIED,
            DisconnectReason::TlsFailed => reasons::TLS_FAILED,
            DisconnectReason::IdentityChanged { .. } => reasons::CLUSTER_CHANGED,
            DisconnectReason::InvalidAccess => reasons::KUBECONFIG_REFUSED,
            DisconnectReason::Unreachable | DisconnectReason::NotKubernetes | DisconnectReason::Unhealthy => {
                reasons::DATA_PLANE_UNREACHABLE
            }
        },
    }
}

/// The whole status of a plane. It changes with the connection, not with each probe.
fn status_of(
    before: DataPlaneStatus,
    state: Option<&PlaneState>,
    expires: Option<jiff::Timestamp>,
    conditions: &[Condition],
    generation: Option<i64>,
    now: &Time,
) -> DataPlaneStatus {
    let mut status = DataPlaneStatus {
        observed_generation: generation,
        conditions: conditions.to_vec(),
        credentials_expire_time: expires.map(Time),
        ..before
    };
    let connected = match state {
        Some(PlaneState::Connected { since, server_version, cluster_uid, capabilities, .. }) => {
            status.cluster_uid = Some(cluster_uid.clone());
            status.server_version = Some(server_version.clone());
            // Since the plane was first seen to answer, not since this process did.
            let before = conditions::get(conditions, types::CONNECTED).is_some_and(|c| c.status == "True");
            if !before || status.last_contact_time.is_none() {
                status.last_contact_time = Some(Time(*since));
            }
            status.capabilities = capabilities.names();
            Status::True
        }
        Some(PlaneState::Disconnected { last_contact, .. }) => {
            if let Some(last_contact) = last_contact {
                status.last_contact_time = Some(Time(*last_contact));
            }
            Status::False
        }
        None | Some(PlaneState::Connecting) => Status::Unknown,
    };
    let message = match standing_of(state) {
        Standing::Ready { message, .. }
        | Standing::Stalled { message, .. }
        | Standing::Progressing { message, .. }
        | Standing::Unknown { message, .. } => message,
        Standing::Finalizing { .. } | Standing::Paused => String::new(),
    };
    let said = Statement::new(types::CONNECTED, connected, reason_of(state), message);
    conditions::set(&mut status.conditions, said, generation, now);
    status
}
