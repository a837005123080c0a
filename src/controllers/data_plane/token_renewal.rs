//! Renews the tokens of data planes before they end.
//!
//! Beside the reconciles, which wait for none of it: a plane that takes its time with a token holds up nothing. A new
//! token takes the way of any other that somebody writes into the Secret.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kantor_api::{DataPlane, conditions::reasons};
use kantor_core::{
    hierarchy::{Id, Kind},
    lifecycle,
    registration::{Way, kubeconfig},
    renewal::{Life, Plan},
};
use kube::runtime::{events::EventType, reflector::ObjectRef};
use secrecy::ExposeSecret;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{access, plan_of, read_secret, values_of};
use crate::{
    apply::{WriteError, Writer},
    controllers::{
        Context,
        shared::connection::{Reach, reach},
    },
    planes::{Access, PlaneKey, RemoteAccess, kubeconfig_key, parse_kubeconfig, token_claims},
    runtime::{backoff::Retries, events::publish},
};

/// The longest time without a look at the clock: the machine's may be set, or the machine suspended.
const LOOK: Duration = Duration::from_mins(1);

/// Until then the watch has told of a Secret that was written.
const HEARD: Duration = Duration::from_secs(1);

/// Renews tokens as they become due, until `stop` and then until what is under way has ended.
pub(crate) async fn run(context: Arc<Context>, stop: CancellationToken) {
    let retries = Retries::<PlaneKey>::default();
    let mut not_before: HashMap<PlaneKey, Instant> = HashMap::new();
    let mut under_way: HashSet<PlaneKey> = HashSet::new();
    let mut tries = FuturesUnordered::new();
    while !stop.is_cancelled() {
        let mut wait = LOOK;
        for (key, plan) in context.book.renewals() {
            let Plan::Planned { life, .. } = plan else { continue };
            let due = life.wait(Timestamp::now());
            let again = not_before.get(&key).map_or(Duration::ZERO, |at| at.duration_since(Instant::now()));
            let left = due.max(again);
            if !left.is_zero() {
                wait = wait.min(left);
            } else if under_way.insert(key.clone()) {
                tries.push(attempt(key, &context));
            }
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = context.book.changed() => {}
            () = tokio::time::sleep(wait) => {}
            Some((key, done)) = tries.next() => {
                under_way.remove(&key);
                let wait = if done {
                    retries.succeeded(&key);
                    HEARD
                } else {
                    retries.after_failure(key.clone())
                };
                not_before.insert(key, Instant::now() + wait);
            }
        }
    }
    while tries.next().await.is_some() {}
}

/// Tries to renew the token of a plane, and says what came of it; tells whether nothing is left to do.
async fn attempt(key: PlaneKey, context: &Context) -> (PlaneKey, bool) {
    let object = ObjectRef::new(&key.name).within(&key.namespace);
    let Some(plane) = context.world.stores.data_planes.get(&object) else { return (key, true) };
    if lifecycle::is_paused(&*plane) {
        return (key, false);
    }
    let done = match renew(&key, &plane, context).await {
        Ok(None) => true,
        Ok(Some(life)) => {
            info!(plane = %key, expires = %life.expires, "has a new token");
            let note = format!("the token was renewed; the new one ends at {:.0}", life.expires);
            publish(&*plane, EventType::Normal, "Renew", reasons::TOKEN_RENEWED, note, context);
            true
        }
        Err(why) => {
            warn!(plane = %key, why, "the token could not be renewed; trying again");
            if context.book.renewal_failed(&key, &why) {
                let note = format!("the token could not be renewed: {why}");
                publish(&*plane, EventType::Warning, "Renew", reasons::TOKEN_RENEWAL_FAILED, note, context);
                context.world.wake_concerned(&Id::new(
                    Kind::DataPlane,
                    key.namespace.clone(),
                    key.name.clone(),
                ));
            }
            false
        }
    };
    (key, done)
}

/// Has the plane make a new token and writes it into the Secret, over the version that was read; tells how long the new one
/// lives, or that there was nothing to do.
async fn renew(key: &PlaneKey, plane: &DataPlane, context: &Context) -> Result<Option<Life>, String> {
    let connection = match reach(key, context) {
        Reach::Connected(connection) => connection,
        Reach::Unreachable(why) => return Err(why),
        Reach::NotYet => return Err("the data plane is not connected yet".to_owned()),
    };
    let Some(reference) = &plane.spec.kubernetes_cluster.secret_ref else { return Ok(None) };
    let read =
        read_secret(context, &key.namespace, &reference.name).await.map_err(|error| error.to_string())?;
    let Some(secret) = read else { return Err(format!("Secret {} does not exist", reference.name)) };
    let secrets = BTreeMap::from([(reference.name.clone(), secret.clone())]);
    let now = access(plane, &secrets, context).map_err(|refusal| refusal.to_string())?;
    // Somebody may have been faster, or changed their mind.
    let Plan::Planned { account, life } = plan_of(plane, &secrets, &now) else { return Ok(None) };
    let Access::Remote(now) = now else { return Ok(None) };
    if !life.wait(Timestamp::now()).is_zero() {
        return Ok(None);
    }

    let writer = Writer::to_plane(&connection, None);
    let token = writer
        .request_token(&account.namespace, &account.name, life.seconds())
        .await
        .map_err(|error| format!("the data plane made no token: {error}"))?;
    let text = kubeconfig(&way_of(&now), token.expose_secret());
    let new = checked(&text, life, context)?;
    match write(&secret, reference.key.as_deref(), &text, context).await {
        Ok(()) => Ok(Some(new)),
        // Whoever changed it may have written a token that is good for longer.
        Err(WriteError::Conflict) => Ok(None),
        Err(error) => Err(format!("Secret {} could not be written: {error}", reference.name)),
    }
}

fn way_of(access: &RemoteAccess) -> Way {
    Way {
        server: access.server.to_string(),
        tls_server_name: access.tls_server_name.clone(),
        ca_pem: access.ca_pem.clone(),
    }
}

/// How long a new token lives. What is not as good as the one before is not used: a server that hands out such tokens would
/// be asked for ever.
fn checked(text: &str, before: Life, context: &Context) -> Result<Life, String> {
    let access = parse_kubeconfig(text.as_bytes(), &context.addresses)
        .map_err(|refusal| format!("the data plane made a token that is refused: {refusal}"))?;
    let claims = token_claims(&access).unwrap_or_default();
    match (claims.issued, claims.expires) {
        (Some(issued), Some(expires)) if before.expires < expires => Ok(Life { issued, expires }),
        _ => Err("the data plane made a token that is good for no longer than the one before".to_owned()),
    }
}

async fn write(secret: &Secret, key: Option<&str>, text: &str, context: &Context) -> Result<(), WriteError> {
    let values = values_of(secret);
    let (key, _) =
        kubeconfig_key(&values, key).map_err(|refusal| WriteError::Refused(refusal.to_string()))?;
    context.writer.set_secret_value(secret, key, text.as_bytes()).await
}
