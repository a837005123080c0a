//! Endpoints: routes to a deployment, guarded before they are opened, under host names that nobody else has.

mod handover;
mod inputs;
mod observe;

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kantor_api::{
    Endpoint,
    common::PlaneRecord,
    conditions::{self, reasons, types},
    endpoint::EndpointStatus,
    labels,
};
use kantor_core::{
    changes::{ObjectKey, Outcome, Owner, Wanted, object_key, said},
    endpoint::{GuardedRoute, Plan, Problem, Rendered, is_let_in, served},
    hierarchy::Kind,
    hostnames::{
        claims::{Contender, Decision, conflict_message},
        key::ClaimKey,
    },
    lifecycle::{self, ENDPOINT, Standing, Turn},
    moving::{self, Leave},
    release::{is_on, listed},
};
use kube::{Resource, ResourceExt, api::DynamicObject};

pub use self::handover::Grace;
use self::{
    inputs::Resolved,
    observe::{Live, item, listener_on},
};
pub(super) use self::{inputs::provided, observe::gateways};
use super::{
    Context,
    shared::{
        parents::find,
        plane_objects::{self, OWNED, OwnedKind, site},
        simple_kind,
        targets::{self, Located, Place, Unreachable, reach_recorded},
    },
};
pub(super) use crate::controllers::shared::hostnames::naming;
use crate::{
    apply::{Change, Placed, WriteError},
    controllers::shared::hostnames::{self, contender},
    planes::Plane,
    runtime::{admission, events, run::Action, status},
};

/// How often an Endpoint that waits for something that does not wake it looks again; it costs no request.
const WAITING: Duration = Duration::from_secs(10);

/// Kinds of the objects that Endpoints have on planes.
pub(super) const KINDS: &[OwnedKind] = &[
    ("", &["v1"], "Secret"),
    ("gateway.envoyproxy.io", &["v1alpha1"], "Backend"),
    ("gateway.envoyproxy.io", &["v1alpha1"], "BackendTrafficPolicy"),
    ("gateway.envoyproxy.io", &["v1alpha1"], "HTTPRouteFilter"),
    ("gateway.envoyproxy.io", &["v1alpha1"], "SecurityPolicy"),
    ("gateway.networking.k8s.io", &["v1"], "GRPCRoute"),
    ("gateway.networking.k8s.io", &["v1"], "HTTPRoute"),
    ("gateway.networking.k8s.io", &["v1", "v1alpha2"], "TCPRoute"),
    ("gateway.networking.k8s.io", &["v1", "v1alpha2"], "UDPRoute"),
];

/// Reasons that are the plane's alone.
const OF_PLANES: [&str; 2] = [reasons::CAPABILITY_MISSING, reasons::GATEWAY_NOT_CONFIGURED];

/// Those of them that are routes.
const ROUTES: [&str; 4] = ["GRPCRoute", "HTTPRoute", "TCPRoute", "UDPRoute"];

/// Group and name of the kinds that Endpoints have on planes.
pub(super) fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    KINDS.iter().map(|(group, _, kind)| (*group, *kind))
}

pub(super) async fn reconcile(endpoint: Arc<Endpoint>, context: Arc<Context>) -> Result<Action, WriteError> {
    match lifecycle::turn(&*endpoint, &ENDPOINT) {
        Turn::Leave => {}
        Turn::Rest => Box::pin(say(&endpoint, status_of(&endpoint), &Standing::Paused, &context)).await?,
        Turn::Hold(finalizer) => Box::pin(context.writer.add_finalizer(&*endpoint, finalizer)).await?,
        Turn::Finalize => return Box::pin(finalize(&endpoint, &context)).await,
        Turn::Keep => {
            let stores = &context.world.stores;
            return admission::taken(&*endpoint, &ENDPOINT, &stores.endpoints, &*context, keep).await;
        }
    }
    Ok(Action::await_change())
}

/// Brings everything to what the spec says, removes what it no longer says, and tells how it is.
async fn keep(endpoint: &Endpoint, context: &Context) -> Result<Action, WriteError> {
    let before = status_of(endpoint);
    let resolved = match inputs::resolve(endpoint, context) {
        Ok(resolved) => resolved,
        // Its own deletion, which is about to come, wakes it.
        Err(_) if status::is_spoken_for(endpoint) && is_deployment_going(endpoint, context) => {
            return Ok(Action::await_change());
        }
        Err(standing) => return stopped(endpoint, before, &standing, context).await,
    };
    let place = match targets::locate(&resolved.environment, context) {
        Located::At(place) => place,
        Located::NotYet { standing, late } => {
            if late || !status::is_spoken_for(endpoint) {
                say(endpoint, before, &standing, context).await?;
            }
            return Ok(Action::requeue(WAITING));
        }
        Located::Nowhere(standing) => return stopped(endpoint, before, &standing, context).await,
    };
    let turn =
        EndpointTurn { endpoint, resolved: &resolved, place: &place, me: contender(endpoint), context };
    let plan = match resolved.plan(endpoint, &place, context).await? {
        Ok(plan) => plan,
        // What is there stays: guards of routes that nobody can see would go before them.
        Err(problems) if is_unknown(&problems) => {
            let standing = Standing::Unknown {
                reason: reasons::CAPABILITY_UNKNOWN,
                message: listed(&problems.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>()),
            };
            turn.say(before, &standing).await?;
            return Ok(Action::requeue(WAITING));
        }
        Err(problems) if before.data_plane.is_none() => {
            return stopped(endpoint, before, &problems_say(&problems), context).await;
        }
        Err(problems) => {
            let (endpoint, recorded) = turn.record(before, None).await?;
            let turn = EndpointTurn { endpoint: &endpoint, ..turn };
            return turn.withdraw(recorded, problems_say(&problems), None).await;
        }
    };
    turn.serve(before, &plan).await
}

/// Whether its Deployment is being deleted, and it with it.
fn is_deployment_going(endpoint: &Endpoint, context: &Context) -> bool {
    let deployment = find(endpoint, Kind::Deployment, &context.world.stores.deployments, context);
    deployment.is_ok_and(|deployment| deployment.metadata.deletion_timestamp.is_some())
}

/// An Endpoint whose plane can be used.
struct EndpointTurn<'a> {
    endpoint: &'a Endpoint,
    resolved: &'a Resolved,
    place: &'a Place,
    me: Contender,
    context: &'a Context,
}

impl EndpointTurn<'_> {
    fn plane(&self) -> &Plane {
        &self.place.plane
    }

    fn owner(&self, rendered: Option<&Rendered>) -> Owner {
        // Objects of the reference say of which Deployment they are, not of which Endpoint: their names do.
        let own = [labels::OWNER_UID, labels::plane::GATEWAY_VISIBILITY];
        let labels = rendered.and_then(Rendered::labels).into_iter().flatten();
        let inherited = labels.filter(|(key, _)| !own.contains(&key.as_str()));
        plane_objects::owner_of(
            self.endpoint,
            inherited.map(|(key, value)| (key.clone(), value.clone())).collect(),
        )
    }

    /// What the routes that are there have. On planes that are yet to be cleaned it is all that was ever claimed.
    async fn served(&self, status: &EndpointStatus) -> Result<BTreeSet<ClaimKey>, String> {
        let uid = &self.me.uid;
        let found = plane_objects::owned(self.plane(), KINDS, uid).await?;
        let routes: Vec<Arc<DynamicObject>> = found
            .iter()
            .filter(|item| ROUTES.contains(&item.kind.as_str()))
            .filter_map(|item| {
                plane_objects::followed(self.plane(), &item.group, &item.version, &item.kind)?
                    .get(Some(&item.namespace), &item.name)
            })
            .collect();
        let mut keys = served(routes.iter().map(AsRef::as_ref), &self.plane().cluster_uid);
        if !status.cleaning.is_empty() {
            let claims = self.context.world.claims();
            keys.extend(claims.naming(uid).map(|claim| ClaimKey::of(claim)));
        }
        Ok(keys)
    }

    /// Opens the ways in that are asked for, under the host names that can be had.
    async fn serve(&self, before: EndpointStatus, plan: &Plan) -> Result<Action, WriteError> {
        let wanted = plan.claims();
        let (endpoint, recorded) = self.record(before, Some((plan.namespace.as_str(), &wanted))).await?;
        let turn = EndpointTurn { endpoint: &endpoint, me: self.me.clone(), ..*self };
        let served = match turn.served(&recorded).await {
            Ok(served) => served,
            Err(why) => {
                return turn
                    .progressing(recorded, reasons::APPLY_WAITING, format!("waiting for {why}"))
                    .await;
            }
        };
        let answers = turn.answers(plan, &wanted).await;
        let claimed = hostnames::obtain(&self.me, &wanted, &served, answers, self.context).await;
        let (decision, granted) = match claimed {
            Ok(claimed) => claimed,
            // Somebody else was faster; the watch tells who.
            Err(WriteError::Conflict) => return Ok(Action::requeue(Duration::from_millis(100))),
            Err(error) => return Err(error),
        };
        if decision.is_refused() {
            let message = conflict_message(&decision).unwrap_or_default();
            let standing = Standing::Stalled { reason: reasons::HOSTNAME_CONFLICT, message };
            return turn.withdraw(recorded, standing, Some(&decision)).await;
        }
        if !turn.is_namespace_there(&plan.namespace) {
            let message = format!(
                "waiting for Deployment {} to make its namespace",
                turn.resolved.deployment.name_any()
            );
            return turn.progressing(recorded, reasons::DEPLOYMENT_NOT_THERE, message).await;
        }
        let rendered = plan.render(&granted);
        let done = turn.apply(&rendered).await;
        turn.conclude(recorded, plan, &rendered, &served, &granted, done).await
    }

    /// Records where something is about to be, and which claims concern it, before anything is written.
    async fn record(
        &self,
        before: EndpointStatus,
        plan: Option<(&str, &BTreeSet<ClaimKey>)>,
    ) -> Result<(Endpoint, EndpointStatus), WriteError> {
        let (former, plane) = (before.data_plane.as_ref(), &self.place.record);
        let cleaning = plane_objects::to_clean(former, &before.cleaning, plane);
        let (since, now) = (before.moving_since.as_ref(), plane_objects::seconds(jiff::Timestamp::now()));
        let mut after = EndpointStatus {
            moving_since: plane_objects::moving_since(former, &cleaning, plane, since, &now),
            cleaning,
            data_plane: Some(plane.clone()),
            ..before.clone()
        };
        if let Some((namespace, wanted)) = plan {
            after.namespace = Some(namespace.to_owned());
            after.claims = wanted.iter().map(ClaimKey::name).collect();
        }
        if after == before {
            return Ok((self.endpoint.clone(), after));
        }
        Ok((write(self.endpoint, &after, self.context).await?, after))
    }

    fn is_namespace_there(&self, name: &str) -> bool {
        let found = self.place.namespaces.get(None, name);
        found.is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_none())
    }

    /// Guards first; then the routes whose guards are there, closed until the gateway has accepted them.
    async fn apply(&self, rendered: &Rendered) -> Vec<Change> {
        let (site, owner) = (site(self.plane(), OWNED), self.owner(Some(rendered)));
        let placed = |objects: Vec<DynamicObject>| -> Vec<Placed> {
            objects.into_iter().map(|object| (Wanted::new(object), None)).collect()
        };
        let mut first = rendered.supports.clone();
        first.extend(rendered.routes.iter().flat_map(|route| route.guards.iter().cloned()));
        let mut done = self.context.engine.sync(&site, &owner, &placed(first)).await;
        let there: HashSet<_> = done
            .iter()
            .filter(|change| change.outcome.is_in_place())
            .map(|change| object_key(&change.item))
            .collect();
        let supported = rendered.supports.iter().all(|object| there.contains(&object_key(&item(object))));
        let is_guarded = |route: &GuardedRoute| {
            supported && route.guards.iter().all(|guard| there.contains(&object_key(&item(guard))))
        };
        let live = Live::of(self.plane(), &rendered.routes);
        let seen = live.seen(&rendered.routes);
        let routes = seen
            .iter()
            .filter(|seen| is_guarded(seen.wanted))
            .map(|seen| if seen.may_open() { seen.wanted.route.clone() } else { seen.wanted.closed() });
        let routes = placed(routes.collect());
        done.extend(self.context.engine.sync(&site, &owner, &routes).await);
        for change in &done {
            self.plane().metrics().applied(&change.outcome);
            events::announce_drift(self.endpoint, change, self.context);
        }
        done
    }

    /// Removes what is no longer wanted, lets go of host names, looks at what is there, and says how it is.
    async fn conclude(
        &self,
        recorded: EndpointStatus,
        plan: &Plan,
        rendered: &Rendered,
        served: &BTreeSet<ClaimKey>,
        granted: &BTreeSet<ClaimKey>,
        done: Vec<Change>,
    ) -> Result<Action, WriteError> {
        let mut status = recorded;
        let mut again = done.iter().filter_map(|change| change.again).min();
        let in_place = done.len() == rendered.objects().count()
            && done.iter().all(|change| change.outcome.is_in_place());
        let mut standing = if let Some(standing) = refusal(&done) {
            standing
        } else {
            let uid = self.resolved.deployment.uid().unwrap_or_default();
            observe::standing(self.plane(), plan, &rendered.routes, &uid).await
        };
        let wanted = plan.claims();
        let mut decision = hostnames::decision(&self.me, &wanted, self.context);
        if in_place {
            status.inventory = done.iter().map(|change| change.item.clone()).collect();
            let mut keep: HashSet<_> = done.iter().map(|change| object_key(&change.item)).collect();
            let (retired, grace) = self.retire(plan, granted, &decision.handed_over(served)).await;
            keep.extend(retired);
            again = again.into_iter().chain(grace).min();
            let mut left = self.remove_others(&keep).await;
            left.extend(grace.map(|_| "proxies to hear that host names were handed over".to_owned()));
            // A name is taken over when requests are answered under it, and let go when no route has it.
            let is_ready = matches!(standing, Standing::Ready { .. });
            let answers = is_ready && (plan.service.is_none() || self.does_workload_run());
            let (waiting, deadline) = self.leave(&mut status, answers).await;
            again = again.into_iter().chain(deadline).min();
            left.extend(waiting);
            let grace = if is_ready { self.grace(rendered, &decision) } else { None };
            again = again.into_iter().chain(grace).min();
            if left.is_empty() {
                let answers = is_ready && grace.is_none();
                decision = hostnames::settle(&self.me, &wanted, granted, answers, self.context).await?;
            } else if is_ready {
                let message = format!("waiting for {}", listed(&left));
                standing = Standing::Progressing { reason: reasons::CLEANING_UP, message };
            }
        }
        status.withheld_hostnames = decision.waiting();
        status.refused_hostnames = vec![];
        let withheld = listed(&status.withheld_hostnames);
        if rendered.routes.is_empty() && !plan.is_closed() {
            let message = format!("held by another Endpoint of the organization: {withheld}");
            standing = Standing::Progressing { reason: reasons::HOSTNAME_WITHHELD, message };
        } else if let Standing::Ready { message, .. } = &mut standing {
            if plan.is_closed() {
                "nobody is let in: no visibility is enabled".clone_into(message);
            } else if !withheld.is_empty() {
                *message = format!("{message}; held by another Endpoint of the organization: {withheld}");
            }
        }
        let is_known = gateways(self.plane()).is_none_or(|gateways| gateways.is_synced());
        if is_known {
            let listener = |gateway: &(String, String), host: &str| listener_on(self.plane(), gateway, host);
            status.address = plan.address(granted, listener);
            status.addresses = plan.addresses(granted, listener);
        }
        let settled = is_known && matches!(standing, Standing::Ready { .. });
        self.say(status, &standing).await?;
        Ok(match (settled, again) {
            (_, Some(again)) => Action::requeue(again.min(WAITING)),
            (false, None) => Action::requeue(WAITING),
            (true, None) => Action::await_change(),
        })
    }

    /// Removes all objects of the Endpoint but those to be kept: routes before their guards. Tells what is still there.
    async fn remove_others(&self, keep: &HashSet<ObjectKey>) -> Vec<String> {
        let owner = self.owner(None);
        match plane_objects::owned(self.plane(), KINDS, &owner.uid).await {
            Ok(mut stale) => {
                stale.retain(|item| !keep.contains(&object_key(item)));
                plane_objects::remove(&site(self.plane(), OWNED), &owner, &stale, self.context).await
            }
            Err(why) => vec![why],
        }
    }

    /// Closes all ways in, because something stands against them. Claims are kept: nobody else gets the names meanwhile.
    async fn withdraw(
        &self,
        before: EndpointStatus,
        standing: Standing,
        decision: Option<&Decision>,
    ) -> Result<Action, WriteError> {
        let left = self.remove_others(&HashSet::new()).await;
        let mut status = before;
        // What the new plane lacks is no reason to close what is guarded on the former one.
        let is_planes = matches!(&standing, Standing::Stalled { reason, .. } if OF_PLANES.contains(reason));
        let (_, deadline) = self.leave(&mut status, !is_planes).await;
        if left.is_empty() {
            status.inventory = vec![];
            if let Some(decision) = decision.filter(|_| status.cleaning.is_empty()) {
                // What it yields to an older claim is given up when no route has it.
                let wanted = decision.keys.keys().cloned().collect();
                hostnames::settle(&self.me, &wanted, &BTreeSet::new(), false, self.context).await?;
            }
        }
        let is_clean = left.is_empty() && (is_planes || status.cleaning.is_empty());
        status.address = None;
        status.addresses = vec![];
        status.withheld_hostnames = decision.map(Decision::waiting).unwrap_or_default();
        let refused = decision.into_iter().flat_map(Decision::refused);
        status.refused_hostnames = refused.map(ClaimKey::shown).collect();
        self.say(status, &standing).await?;
        // Nothing tells it of the end of a claim that only overlaps its own.
        Ok(match deadline {
            Some(deadline) => Action::requeue(deadline.min(WAITING)),
            None if is_clean && decision.is_none() => Action::await_change(),
            None => Action::requeue(WAITING),
        })
    }

    /// Leaves the planes that it was on before, if it `answers` on its own, does not answer there either, or the user does not want
    /// to wait for that. Tells what is waited for, and until when at the latest.
    async fn leave(&self, status: &mut EndpointStatus, answers: bool) -> (Vec<String>, Option<Duration>) {
        if status.cleaning.is_empty() {
            return (vec![], None);
        }
        let (deadline, problem) = match moving::deadline(self.endpoint, &*self.resolved.environment) {
            Ok(deadline) => (deadline, None),
            Err(problem) => (None, Some(problem)),
        };
        let answers = answers || !self.is_served_elsewhere(&status.cleaning).await;
        let moving = plane_objects::moving_for(status.moving_since.as_ref());
        if let Leave::Later(deadline) = moving::leave(answers, deadline, moving) {
            let from: Vec<&str> = status.cleaning.iter().map(|plane| plane.name.as_str()).collect();
            let from = from.join(", ");
            let to = &self.plane().key.name;
            let waits =
                format!("its Deployment to run on data plane {to}, until when it stays on {from}, too");
            return (std::iter::once(waits).chain(problem).collect(), deadline);
        }
        let cleaning = std::mem::take(&mut status.cleaning);
        let (cleaning, waiting) = plane_objects::leave(self.endpoint, KINDS, cleaning, self.context).await;
        status.cleaning = cleaning;
        if status.cleaning.is_empty() {
            status.moving_since = None;
        }
        (waiting, None)
    }

    /// Whether the workload of its Deployment runs on the plane, as that says.
    fn does_workload_run(&self) -> bool {
        let Some(status) = &self.resolved.deployment.status else { return false };
        let is_here = status.data_plane.as_ref().is_some_and(|on| is_on(on, &self.place.record));
        let ready = conditions::get(&status.conditions, types::READY);
        let runs = |ready: &Condition| {
            ready.status == "True" || [reasons::MOVING, reasons::CLEANING_UP].contains(&ready.reason.as_str())
        };
        is_here && ready.is_some_and(runs)
    }

    /// Whether a gateway of one of these planes lets anybody in. What cannot be asked may.
    async fn is_served_elsewhere(&self, planes: &[PlaneRecord]) -> bool {
        for record in planes {
            let plane = match reach_recorded(record, self.context).await {
                Ok(plane) => plane,
                Err(Unreachable::GivenUp) => continue,
                Err(Unreachable::For(_)) => return true,
            };
            let Ok(found) = plane_objects::owned(&plane, KINDS, &self.me.uid).await else { return true };
            let routes = found.iter().filter(|item| ROUTES.contains(&item.kind.as_str()));
            let mut routes = routes.filter_map(|item| {
                plane_objects::followed(&plane, &item.group, &item.version, &item.kind)?
                    .get(Some(&item.namespace), &item.name)
            });
            if routes.any(|route| is_let_in(&route)) {
                return true;
            }
        }
        false
    }

    /// Says how it stands, unless the plane was lost meanwhile: what was seen there last is not what is.
    async fn say(&self, status: EndpointStatus, standing: &Standing) -> Result<(), WriteError> {
        if self.plane().cancelled().is_cancelled() {
            return Ok(());
        }
        say(self.endpoint, status, standing, self.context).await
    }

    async fn progressing(
        &self,
        status: EndpointStatus,
        reason: &'static str,
        message: String,
    ) -> Result<Action, WriteError> {
        self.say(status, &Standing::Progressing { reason, message }).await?;
        Ok(Action::requeue(WAITING))
    }
}

/// What was refused or failed, if anything was.
fn refusal(done: &[Change]) -> Option<Standing> {
    let of = |wanted: fn(&Outcome) -> bool| -> Vec<String> {
        let found = done.iter().filter(|change| wanted(&change.outcome));
        found.map(|change| said(&change.item, change.outcome.error())).collect()
    };
    let refused = of(|outcome| matches!(outcome, Outcome::Refused(_)));
    if !refused.is_empty() {
        return Some(Standing::Stalled { reason: reasons::APPLY_REFUSED, message: listed(&refused) });
    }
    let failed = of(|outcome| !outcome.is_in_place());
    (!failed.is_empty())
        .then(|| Standing::Progressing { reason: reasons::APPLY_FAILED, message: listed(&failed) })
}

/// Whether it cannot be told what stands against it.
fn is_unknown(problems: &[Problem]) -> bool {
    problems.iter().any(|problem| problem.reason == reasons::CAPABILITY_UNKNOWN)
}

fn problems_say(problems: &[Problem]) -> Standing {
    let texts: Vec<String> = problems.iter().map(|problem| problem.message.clone()).collect();
    let reason = problems.first().map_or(reasons::INVALID_ENDPOINT, |problem| problem.reason);
    Standing::Stalled { reason, message: listed(&texts) }
}

/// Cleans up after an Endpoint that is being deleted: routes, then their guards, then host names.
async fn finalize(endpoint: &Endpoint, context: &Context) -> Result<Action, WriteError> {
    let before = status_of(endpoint);
    let me = contender(endpoint);
    let (plane, inventory): (Option<&PlaneRecord>, _) = (before.data_plane.as_ref(), &before.inventory);
    let mut waiting = if lifecycle::is_orphaning(endpoint) {
        plane_objects::let_go(endpoint, plane, &before.cleaning, inventory, context);
        vec![]
    } else {
        plane_objects::clean_planes(endpoint, KINDS, plane, &before.cleaning, inventory, context).await
    };
    if waiting.is_empty() {
        hostnames::settle(&me, &BTreeSet::new(), &BTreeSet::new(), false, context).await?;
        let claims = naming(&me.uid, context);
        waiting
            .extend(claims.into_iter().map(|name| format!("HostnameClaim {name}, which others still serve")));
    }
    if !waiting.is_empty() {
        let message = format!("waiting for {}", listed(&waiting));
        let standing = Standing::Finalizing { message, in_use: false };
        say(endpoint, before, &standing, context).await?;
        return Ok(Action::requeue(simple_kind::WAITING));
    }
    context.engine.forget(&plane_objects::owner_of(endpoint, vec![]));
    if let Some(finalizer) = ENDPOINT.finalizer {
        context.writer.remove_finalizer(endpoint, finalizer).await?;
    }
    Ok(Action::await_change())
}

fn status_of(endpoint: &Endpoint) -> EndpointStatus {
    endpoint.status.clone().unwrap_or_default()
}

/// Says why nothing is done. What it waits for wakes it.
async fn stopped(
    endpoint: &Endpoint,
    before: EndpointStatus,
    standing: &Standing,
    context: &Context,
) -> Result<Action, WriteError> {
    say(endpoint, before, standing, context).await?;
    Ok(Action::await_change())
}

/// Writes the status if it says anything new, and an Event if `Ready` changed.
async fn say(
    endpoint: &Endpoint,
    status: EndpointStatus,
    standing: &Standing,
    context: &Context,
) -> Result<(), WriteError> {
    let before = status_of(endpoint);
    let (generation, now) = (endpoint.meta().generation, Time(jiff::Timestamp::now()));
    let conditions = lifecycle::conditions_of(&ENDPOINT, standing, &before.conditions, generation, &now);
    // A spec that is not acted on has not been observed.
    let paused = matches!(standing, Standing::Paused);
    let observed_generation = if paused { before.observed_generation } else { generation };
    let after = EndpointStatus { observed_generation, conditions: conditions.clone(), ..status };
    if endpoint.status.as_ref() != Some(&after) {
        write(endpoint, &after, context).await?;
        events::announce_news(endpoint, &before.conditions, &conditions, context);
    }
    Ok(())
}

async fn write(
    endpoint: &Endpoint,
    status: &EndpointStatus,
    context: &Context,
) -> Result<Endpoint, WriteError> {
    context.writer.write_status(endpoint, status).await
}
