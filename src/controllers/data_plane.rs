//! Data planes: the newest credentials are handed to the connector, and the status says what it found.

mod held;
mod status;
pub(crate) mod token_renewal;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::{
    api::core::v1::Secret,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kantor_api::{DataPlane, annotations};
use kantor_core::{
    hierarchy::{Id, Kind},
    lifecycle::{self, Profile, Standing},
    renewal::{self, Plan},
};
use kube::{Api, Resource, ResourceExt, runtime::reflector::ObjectRef};
use serde_json::Value;
use tokio::time::timeout;

pub(super) use self::held::run as let_go_of_secrets;
use super::{
    Context,
    shared::{
        credentials_cache::{Entry, Seen},
        simple_kind::{self, Cleanup, Member},
    },
};
use crate::{
    apply::WriteError,
    controllers::shared::connection::key_of,
    planes::{
        Access, PlaneKey, Refusal, RefusalKind, credentials_expiry, kubeconfig_key, parse_inline,
        parse_kubeconfig, secret_names, token_claims,
    },
    runtime::{run::Action, status::is_spoken_for},
};

/// How long the control plane is given to hand out a Secret.
const READ: Duration = Duration::from_secs(10);

pub(super) async fn reconcile(plane: Arc<DataPlane>, context: Arc<Context>) -> Result<Action, WriteError> {
    let held = held::hold(&plane, &context).await;
    if matches!(held, Ok(true)) {
        // Their change wakes it.
        return Ok(Action::await_change());
    }
    let connected = connect(plane.clone(), context.clone()).await;
    // Whatever came of that, the plane says how it is.
    let next = simple_kind::reconcile(plane, context).await?;
    held?;
    Ok(connected?.sooner(next))
}

/// Keeps the connection to a plane that somebody looks after.
pub(super) async fn connect(plane: Arc<DataPlane>, context: Arc<Context>) -> Result<Action, WriteError> {
    // Also while it is being deleted: what is left on it can only be removed through it. And while it is paused: that stops
    // changes, and nobody is to be blind for it.
    if plane.finalizers().is_empty() {
        return Ok(Action::await_change());
    }
    refresh(&plane, &context).await
}

/// Ends the connection to a plane that has gone, and lets go of its Secrets.
pub(super) fn gone(plane: &ObjectRef<DataPlane>, context: &Context) {
    let key = PlaneKey { namespace: plane.namespace.clone().unwrap_or_default(), name: plane.name.clone() };
    // It ends by itself.
    drop(context.planes.forget(&key));
    context.book.forget(&key);
    context.book.free_secrets();
}

/// Reads the plane's Secrets, if anything about them is new, and hands what they say to the connector.
async fn refresh(plane: &DataPlane, context: &Context) -> Result<Action, WriteError> {
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
        return Ok(Action::await_change());
    }
    if context.book.is_of_another(&key, &seen) {
        // Deleted without a clean-up and made anew: it may be another cluster.
        context.planes.forget(&key).await;
    }
    let access = match read_secrets(&key, &seen, context).await? {
        Ok(secrets) => {
            access(plane, &secrets, context).map(|access| (plan_of(plane, &secrets, &access), access))
        }
        Err(refusal) => Err(refusal),
    };
    let before = context.book.refusal(&key);
    let after = access.as_ref().err().cloned();
    let (renewal, access) = match access {
        Ok((renewal, access)) => (renewal, Some(access)),
        Err(_) => (Plan::NotAsked, None),
    };
    let expires = match &access {
        Some(Access::Remote(remote)) => credentials_expiry(remote),
        Some(Access::InCluster) | None => None,
    };
    context.book.note(key.clone(), Entry { seen, refusal: after.clone(), expires, renewal });
    if let Some(access) = access {
        let known = plane.status.clone().unwrap_or_default();
        let last_contact = known.last_contact_time.map(|at| at.0);
        context.planes.want_known(&key, access, known.cluster_uid, last_contact);
    }
    let is = |kind| after.as_ref().is_some_and(|refusal| refusal.kind == kind);
    // What only is missing may be about to come back, and what is left on the plane still has to be removed.
    if is(RefusalKind::Refused) {
        context.planes.forget(&key).await;
    }
    let next = if is(RefusalKind::SecretUnreadable) {
        // Nobody tells when it may be read.
        Action::requeue(simple_kind::WAITING)
    } else {
        Action::await_change()
    };
    if after != before {
        // No connection will tell them, and after a restart this status may say nothing new.
        context.world.wake_concerned(&Id::new(Kind::DataPlane, key.namespace, key.name));
    }
    Ok(next)
}

/// The plane's Secrets, as far as they exist; or that one may not be read.
async fn read_secrets(
    key: &PlaneKey,
    seen: &Seen,
    context: &Context,
) -> Result<Result<BTreeMap<String, Secret>, Refusal>, WriteError> {
    let mut secrets = BTreeMap::new();
    for (name, _) in seen.secrets.iter().filter(|(_, version)| version.is_some()) {
        match read_secret(context, &key.namespace, name).await {
            Ok(found) => secrets.extend(found.map(|secret| (name.clone(), secret))),
            Err(WriteError::Refused(why)) => {
                return Ok(Err(Refusal {
                    kind: RefusalKind::SecretUnreadable,
                    field: "kubernetesCluster".to_owned(),
                    why: format!("Secret {name} may not be read: {why}; let the operator get it"),
                }));
            }
            Err(error) => {
                context.book.note_unread(key, format!("Secret {name} could not be read: {error}"));
                return Err(error);
            }
        }
    }
    Ok(Ok(secrets))
}

/// A Secret with its values: the one read that a reconcile makes, because Secrets are followed without them.
pub(super) async fn read_secret(
    context: &Context,
    namespace: &str,
    name: &str,
) -> Result<Option<Secret>, WriteError> {
    let secrets: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
    let read = timeout(READ, secrets.get_opt(name)).await;
    read.map_err(|_| WriteError::timed_out(READ))?.map_err(WriteError::of)
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
    const OBSERVED: bool = true;

    fn standing(&self, context: &Context) -> Option<Standing> {
        let known = status::Known::of(self, context);
        // After a restart the first attempt tells whether what was said last still holds.
        (!known.is_awaited() || !is_spoken_for(self)).then(|| known.standing())
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
        let before = self.status.clone().unwrap_or_default();
        let known = status::Known::of(self, context);
        let mut status = known.status(
            before.clone(),
            context.book.expires(&key),
            conditions,
            self.metadata.generation,
            now,
        );
        if let Some((plan, failure)) = context.book.renewal(&key) {
            let said = renewal::said(&plan, failure.as_deref(), now);
            status::say_renewal(&mut status.conditions, said, self.metadata.generation, &Time(now));
        }
        if status != before {
            // That it answered again is no reason to say so.
            known.note_contact(&mut status);
        }
        serde_json::to_value(status).unwrap_or_default()
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
