//! Deployments: an artifact, kept running on the plane of an environment.

mod clean_up;
mod endpoints;
mod inputs;
mod observe;

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kantor_api::{
    Deployment,
    common::PlaneRecord,
    conditions::{self, Statement, Status, reasons, types},
    deployment::DeploymentStatus,
    labels,
};
use kantor_core::{
    changes::{Outcome, Owner, Wanted, object_key},
    deployment::{self, Move, Problem, Rendered, Seen},
    hierarchy::{logical_name, organization_of},
    lifecycle::{self, DEPLOYMENT, Standing, Turn},
    moving::{self, Leave},
    namespaces::{self, NamespaceOwner, shared_owner},
    release,
};
use kube::{Resource, ResourceExt};
use serde_json::Value;
use tokio::time::timeout;

use self::inputs::Resolved;
use super::{
    Context,
    shared::{
        plane_objects::{self, OWNED, seconds, site},
        targets::{self, Located, Place},
    },
};
use crate::{
    apply::{Change, Placed, Site, WriteError},
    runtime::{admission, events, run::Action, status},
};

/// How often a Deployment that is not ready is looked at again: pods that crash do not wake it.
const PROGRESSING: Duration = Duration::from_secs(10);
/// How long a write to the plane, or the wait for a turn there, takes before it is said that a change has not arrived.
const LATE: Duration = Duration::from_secs(1);
/// How long a workload is given to become well before its pods are asked why it is not: most need no longer.
const GIVEN: Duration = Duration::from_secs(3);
/// Selects the objects that the Deployments of a project and environment share. A test compares it with its parts.
const SHARED: &str = "managed-by=choreo-deployment-controller";

/// Group and name of the kinds that Deployments have on planes, each for itself or together with others.
pub(super) fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    let own = clean_up::KINDS.iter().map(|(group, _, kind)| (*group, *kind));
    own.chain(clean_up::ISOLATION_FORMS.map(|(group, _, kind)| (group, kind)))
}

pub(super) async fn reconcile(
    deployment: Arc<Deployment>,
    context: Arc<Context>,
) -> Result<Action, WriteError> {
    // Many wait for their turn: what is needed in it is set aside for those who have one, as are all other ways.
    match lifecycle::turn(&*deployment, &DEPLOYMENT) {
        Turn::Leave => {}
        Turn::Rest => {
            Box::pin(say(&deployment, status_of(&deployment), Standing::Paused, None, &context)).await?;
        }
        Turn::Hold(finalizer) => Box::pin(context.writer.add_finalizer(&*deployment, finalizer)).await?,
        Turn::Finalize => return Box::pin(clean_up::finalize(&deployment, &context)).await,
        Turn::Keep => return Box::pin(keep_in_turn(&deployment, &context)).await,
    }
    Ok(Action::await_change())
}

/// Keeps a Deployment when it has its turn on its plane. One that waits for it with an edit is not what it was said to be.
async fn keep_in_turn(deployment: &Deployment, context: &Context) -> Result<Action, WriteError> {
    let has_turn = AtomicBool::new(false);
    let keep = async |deployment: &Deployment, context: &Context| {
        has_turn.store(true, Ordering::Relaxed);
        keep(deployment, context).await
    };
    let deployments = &context.world.stores.deployments;
    let mut kept = Box::pin(admission::taken(deployment, &DEPLOYMENT, deployments, context, keep));
    if let Ok(kept) = timeout(LATE, &mut kept).await {
        return kept;
    }
    if !has_turn.load(Ordering::Relaxed) && inputs::is_behind(deployment, context) {
        let late = "it waits for its turn on the data plane";
        // The next look finds what the watch tells of it by then.
        say_late(deployment, status_of(deployment), late, context).await.ok();
    }
    kept.await
}

/// Brings everything to what the spec says, removes what it no longer says, and tells how it is.
async fn keep(deployment: &Deployment, context: &Context) -> Result<Action, WriteError> {
    let before = status_of(deployment);
    let resolved = match inputs::resolve(deployment, context) {
        Ok(resolved) => resolved,
        Err(stop) => return stopped(deployment, before, stop.standing, stop.artifact, context).await,
    };
    let place = match targets::locate(&resolved.environment, context) {
        Located::At(place) => place,
        Located::NotYet { standing, late } => {
            if late || !status::is_spoken_for(deployment) {
                say(deployment, before, standing, None, context).await?;
            }
            return Ok(Action::requeue(PROGRESSING));
        }
        Located::Nowhere(standing) => return stopped(deployment, before, standing, None, context).await,
    };
    let observed_artifact = Some(resolved.observed_artifact());
    let parts = match inputs::parts(&place.plane) {
        Ok(parts) => parts,
        Err(why) => {
            let message = format!("waiting to know {why}");
            let standing = Standing::Unknown { reason: reasons::CAPABILITY_UNKNOWN, message };
            say(deployment, before, standing, None, context).await?;
            return Ok(Action::requeue(PROGRESSING));
        }
    };
    let rendered = match resolved.render(deployment, &place, parts, context).await? {
        Ok(rendered) => rendered,
        Err(problems) => {
            let (standing, artifact) = problems_say(&problems);
            let status = DeploymentStatus { observed_artifact, ..before };
            return stopped(deployment, status, standing, artifact, context).await;
        }
    };
    let namespace_owner = match namespace_owner(&resolved, &place, &rendered.namespace) {
        Ok(owner) => owner,
        Err(standing) => {
            let status = DeploymentStatus { observed_artifact, ..before };
            return stopped(deployment, status, standing, Some(ARTIFACT_RESOLVED), context).await;
        }
    };
    let recorded = record(&before, &place.record, &rendered.namespace, &seconds(jiff::Timestamp::now()));
    if !resolved.is_namespace_recorded(&recorded) {
        // The environment outlives this: it has to know of the namespace before it is made. Its record wakes us.
        let reason = reasons::DEPLOYMENT_PROGRESSING;
        let message =
            format!("environment {} is about to record the namespace", resolved.environment.name_any());
        say(deployment, recorded, Standing::Progressing { reason, message }, None, context).await?;
        return Ok(Action::requeue(PROGRESSING));
    }
    let mut written = None;
    if recorded != before {
        written = Some(write(deployment, recorded.clone(), context).await?);
    }
    let deployment = written.as_ref().unwrap_or(deployment);
    let started = Instant::now();
    let begun = Arc::default();
    let mut applying =
        Box::pin(apply(deployment, namespace_owner, &place, &rendered, (&recorded, &begun), context));
    let mut told = None;
    let done = loop {
        match timeout(LATE, &mut applying).await {
            Ok(done) => break done,
            Err(_) if told.is_none() && begun.load(Ordering::Relaxed) && !is_lost(&place) => {
                let late = format!("it is being written to data plane {}", place.plane.key.name);
                told = Some(say_late(deployment, recorded.clone(), &late, context).await.ok().flatten());
            }
            Err(_) => {}
        }
    };
    drop(applying);
    count(&done, &place, started, context);
    let deployment = told.as_ref().and_then(Option::as_ref).unwrap_or(deployment);
    let turn =
        DeploymentTurn { deployment, resolved: &resolved, place: &place, rendered: &rendered, context };
    turn.conclude(DeploymentStatus { observed_artifact, ..recorded }, done).await
}

/// Whether the plane was lost since it was located.
fn is_lost(place: &Place) -> bool {
    place.plane.cancelled().is_cancelled()
}

/// Says that what was ready is not what shall be, and why that takes its time. Whatever else was said stands until there is
/// something new to say.
async fn say_late(
    deployment: &Deployment,
    status: DeploymentStatus,
    late: &str,
    context: &Context,
) -> Result<Option<Deployment>, WriteError> {
    let ready = conditions::get(&status.conditions, types::READY);
    if ready.is_none_or(|ready| ready.status != "True") {
        return Ok(None);
    }
    let message = format!("a change has not arrived yet: {late}");
    let standing = Standing::Progressing { reason: reasons::DEPLOYMENT_PROGRESSING, message };
    say(deployment, status, standing, None, context).await
}

/// What applying came to.
struct Applied {
    shared: Vec<Change>,
    own: Vec<Change>,
    endpoints: endpoints::Synced,
}

impl Applied {
    fn all(&self) -> impl Iterator<Item = &Change> {
        self.shared.iter().chain(&self.own)
    }

    fn is_in_place(&self) -> bool {
        self.all().all(|change| change.outcome.is_in_place())
    }
}

/// The namespace first, then what isolates it, then what runs in it: in a namespace that is refused nothing is written.
async fn apply(
    deployment: &Deployment,
    namespace_owner: NamespaceOwner,
    place: &Place,
    rendered: &Rendered,
    (recorded, begun): (&DeploymentStatus, &Arc<AtomicBool>),
    context: &Context,
) -> Applied {
    let wanted = |objects: &[kube::api::DynamicObject]| -> Vec<Placed> {
        objects.iter().map(|object| (Wanted::new(object.clone()), None)).collect()
    };
    let Owner { adopt, organization, .. } = owner_of(deployment, None);
    // A namespace that was made for Releases of the organization becomes the Deployments'.
    let keeper = shared_owner(&organization, adopt || namespace_owner == NamespaceOwner::Organization);
    let sharing = noted(place, SHARED, begun);
    let turn = context.shared.take((place.plane.key.clone(), rendered.namespace.clone())).await;
    let are_in_place = |changes: &[Change]| changes.iter().all(|change| change.outcome.is_in_place());
    let (namespace, isolation): (Vec<Placed>, Vec<Placed>) =
        wanted(&rendered.shared).into_iter().partition(|(wanted, _)| wanted.item().kind == "Namespace");
    let mut shared = context.engine.sync(&sharing, &keeper, &namespace).await;
    if are_in_place(&shared) {
        shared.extend(context.engine.sync(&sharing, &keeper, &isolation).await);
    }
    drop(turn);
    if !are_in_place(&shared) {
        // Nothing runs without its isolation.
        return Applied { shared, own: vec![], endpoints: endpoints::Synced::default() };
    }
    let owner = owner_of(deployment, Some(rendered));
    let mut objects = wanted(&rendered.own);
    let is_workload = |wanted: &Wanted| object_key(&wanted.item()) == object_key(&rendered.workload);
    if let Some((workload, _)) = objects.iter_mut().find(|(wanted, _)| is_workload(wanted))
        && rendered.workload.kind == "Deployment"
    {
        let elsewhere = observe::replicas_elsewhere(&owner.uid, &recorded.cleaning, context).await;
        workload.autoscaled = true;
        workload.first_replicas = deployment::first_replicas(rendered.bounds, elsewhere);
    }
    let own = context.engine.sync(&noted(place, OWNED, begun), &owner, &objects).await;
    let endpoints = endpoints::sync(deployment, &rendered.endpoints, context).await;
    for change in shared.iter().chain(&own) {
        events::announce_drift(deployment, change, context);
    }
    Applied { shared, own, endpoints }
}

/// Where the objects that `selector` selects are kept, by a writer that notes in `begun` that something is being written.
fn noted<'a>(place: &'a Place, selector: &'a str, begun: &Arc<AtomicBool>) -> Site<'a> {
    let site = site(&place.plane, selector);
    Site { writer: site.writer.noting(begun), ..site }
}

/// A Deployment that was applied to its plane.
struct DeploymentTurn<'a> {
    deployment: &'a Deployment,
    resolved: &'a Resolved,
    place: &'a Place,
    rendered: &'a Rendered,
    context: &'a Context,
}

impl DeploymentTurn<'_> {
    /// Removes what is no longer wanted, looks at what is there, and says how it is.
    async fn conclude(&self, recorded: DeploymentStatus, done: Applied) -> Result<Action, WriteError> {
        let Self { deployment, place, rendered, context, .. } = *self;
        if done.endpoints.error == Some(WriteError::Conflict) {
            // Somebody has just made or changed an Endpoint, of which the watch is about to tell.
            return Err(WriteError::Conflict);
        }
        let mut status = DeploymentStatus { image: Some(rendered.image.clone()), ..recorded };
        status.endpoints = endpoints::summaries(deployment, &rendered.endpoints, context);
        let given = is_given_time(deployment, jiff::Timestamp::now());
        let (verdict, pods) = observe::workload(&place.plane, rendered, &done.own, given).await;
        let (mut left, mut moving, mut deadline) = (vec![], None, None);
        if done.is_in_place() {
            left = self.remove_stale(&done).await;
            status.inventory = done.own.iter().map(|change| change.item.clone()).collect();
            (moving, deadline) = self.leave(&mut status, deployment::runs(verdict.as_ref()), &mut left).await;
        } else if !status.cleaning.is_empty() {
            moving = Some(self.moving(&status, vec![], None));
        }
        let standing = deployment::standing(Seen {
            applied: done.all().map(|change| (&change.item, &change.outcome)).collect(),
            endpoints: &done.endpoints.troubles,
            verdict,
            pods,
            left: &left,
            moving,
        });
        let settled = matches!(standing, Standing::Ready { .. });
        let again = done.all().filter_map(|change| change.again).chain(deadline).min();
        let is_on_its_way = matches!(standing, Standing::Progressing { .. }) && done.is_in_place();
        let kept = &done.endpoints.kept;
        if is_on_its_way && status.conditions.is_empty() && endpoints::are_new(kept, context) {
            // They are about to tell how they are, which wakes us: one write then says it all.
            return Ok(Action::requeue(again.map_or(GIVEN, |again| again.min(GIVEN))));
        }
        if is_lost(place) {
            // What was seen there last is not what is. That it is lost wakes us.
            return Ok(Action::await_change());
        }
        say(deployment, status, standing, Some(ARTIFACT_RESOLVED), context).await?;
        match done.endpoints.error {
            // Said, and tried again later each time.
            Some(error) => Err(error),
            None => Ok(next_look(settled, again, given)),
        }
    }

    /// Removes what is on the plane and no longer wanted; tells what is still there.
    async fn remove_stale(&self, done: &Applied) -> Vec<String> {
        let plane = &self.place.plane;
        let owner = owner_of(self.deployment, None);
        let wanted: HashSet<_> = done.own.iter().map(|change| object_key(&change.item)).collect();
        let mut left = match plane_objects::owned(plane, clean_up::KINDS, &owner.uid).await {
            Ok(mut stale) => {
                stale.retain(|item| !wanted.contains(&object_key(item)));
                plane_objects::remove(&site(plane, OWNED), &owner, &stale, self.context).await
            }
            Err(why) => vec![why],
        };
        left.extend(
            clean_up::remove_other_isolation(&owner.organization, self.place, self.rendered, self.context)
                .await,
        );
        left
    }

    /// Leaves the planes that it was on before, if it `runs` on its own and nobody leads to it there any more, or the user does
    /// not want to wait for that. Tells of the move if they are not left, and when they will be by then.
    async fn leave(
        &self,
        status: &mut DeploymentStatus,
        runs: bool,
        left: &mut Vec<String>,
    ) -> (Option<Move>, Option<Duration>) {
        if status.cleaning.is_empty() {
            return (None, None);
        }
        let endpoints = endpoints::on_planes(self.deployment, &status.cleaning, self.context);
        let (deadline, problem) = match moving::deadline(self.deployment, &*self.resolved.environment) {
            Ok(deadline) => (deadline, None),
            Err(problem) => (None, Some(problem)),
        };
        let moving = plane_objects::moving_for(status.moving_since.as_ref());
        if let Leave::Later(deadline) = moving::leave(runs && endpoints.is_empty(), deadline, moving) {
            return (Some(self.moving(status, endpoints, problem)), deadline);
        }
        let cleaning = std::mem::take(&mut status.cleaning);
        let (cleaning, waiting) =
            plane_objects::leave(self.deployment, clean_up::KINDS, cleaning, self.context).await;
        status.cleaning = cleaning;
        if status.cleaning.is_empty() {
            status.moving_since = None;
        }
        left.extend(waiting);
        (None, None)
    }

    fn moving(&self, status: &DeploymentStatus, endpoints: Vec<String>, problem: Option<String>) -> Move {
        let from = status.cleaning.iter().map(|plane| plane.name.clone()).collect();
        Move { from, to: self.place.plane.key.name.clone(), endpoints, problem }
    }
}

/// When a Deployment is looked at again by itself.
fn next_look(is_settled: bool, again: Option<Duration>, is_given_time: bool) -> Action {
    match (is_settled, again) {
        (_, Some(again)) => Action::requeue(again.min(PROGRESSING)),
        (false, None) => Action::requeue(if is_given_time { GIVEN } else { PROGRESSING }),
        (true, None) => Action::await_change(),
    }
}

/// Whether a Deployment was ready until a moment ago, or is new.
fn is_given_time(deployment: &Deployment, now: jiff::Timestamp) -> bool {
    let status = deployment.status.as_ref();
    let ready = status.and_then(|status| conditions::get(&status.conditions, types::READY));
    ready.is_none_or(|ready| {
        let since = now.duration_since(ready.last_transition_time.0);
        ready.status == "True" || since.unsigned_abs() < GIVEN
    })
}

/// On whose behalf the objects of a Deployment are kept. Objects of the reference are its own by their labels.
fn owner_of(deployment: &Deployment, rendered: Option<&Rendered>) -> Owner {
    let workload = rendered.and_then(|rendered| rendered.own.first()).map(ResourceExt::labels);
    let inherited = workload.into_iter().flatten().filter(|(key, _)| *key != labels::OWNER_UID);
    plane_objects::owner_of(deployment, inherited.map(|(key, value)| (key.clone(), value.clone())).collect())
}

/// Whose the namespace of this name is. The error says that it is not to be had.
fn namespace_owner(resolved: &Resolved, place: &Place, name: &str) -> Result<NamespaceOwner, Standing> {
    let live = place.namespaces.get(None, name);
    let (project, environment) = (&*resolved.project, &*resolved.environment);
    let labels = live.as_ref().map(|namespace| namespace.labels());
    match namespaces::owner_of(
        labels,
        &organization_of(project),
        &logical_name(project),
        &logical_name(environment),
    ) {
        NamespaceOwner::Other => Err(Standing::Stalled {
            reason: reasons::NAMESPACE_CONFLICT,
            message: format!("namespace {name} of data plane {} belongs to others", place.plane.key.name),
        }),
        owner => Ok(owner),
    }
}

/// What is recorded before anything is written: the plane, and the planes that have to be cleaned.
fn record(before: &DeploymentStatus, plane: &PlaneRecord, namespace: &str, now: &Time) -> DeploymentStatus {
    let former = before.data_plane.as_ref();
    let cleaning = plane_objects::to_clean(former, &before.cleaning, plane);
    DeploymentStatus {
        moving_since: plane_objects::moving_since(
            former,
            &cleaning,
            plane,
            before.moving_since.as_ref(),
            now,
        ),
        cleaning,
        data_plane: Some(plane.clone()),
        namespace: Some(namespace.to_owned()),
        ..before.clone()
    }
}

fn status_of(deployment: &Deployment) -> DeploymentStatus {
    deployment.status.clone().unwrap_or_default()
}

/// `ArtifactResolved`: whether, why and what is said.
type ArtifactSays = (Status, &'static str, String);

const ARTIFACT_RESOLVED: ArtifactSays = (Status::True, reasons::ARTIFACT_RESOLVED, String::new());

/// What problems of rendering say.
fn problems_say(problems: &[Problem]) -> (Standing, Option<ArtifactSays>) {
    let texts: Vec<String> = problems.iter().map(|problem| problem.message.clone()).collect();
    let message = release::listed(&texts);
    let first = problems.first().map_or(reasons::INVALID_CONFIGURATION, |problem| problem.reason);
    let artifact = problems.iter().find(|problem| problem.of_artifact);
    let says = artifact
        .map_or(ARTIFACT_RESOLVED, |problem| (Status::False, problem.reason, problem.message.clone()));
    // A build ends by itself.
    let standing = if first == reasons::IMAGE_NOT_BUILT {
        Standing::Progressing { reason: first, message }
    } else {
        Standing::Stalled { reason: first, message }
    };
    (standing, Some(says))
}

/// Says why nothing is done. What it waits for wakes it, except that nobody tells it of the end of a rival, nor that others have
/// given up a namespace in which it has recorded nothing.
async fn stopped(
    deployment: &Deployment,
    before: DeploymentStatus,
    standing: Standing,
    artifact: Option<ArtifactSays>,
    context: &Context,
) -> Result<Action, WriteError> {
    let untold = [reasons::DUPLICATE_DEPLOYMENT, reasons::NAMESPACE_CONFLICT];
    let untold = matches!(&standing, Standing::Stalled { reason, .. } if untold.contains(reason));
    say(deployment, before, standing, artifact, context).await?;
    Ok(if untold { Action::requeue(PROGRESSING) } else { Action::await_change() })
}

/// Writes the status if it says anything new, and an Event if `Ready` changed. Returns the Deployment as it was written.
async fn say(
    deployment: &Deployment,
    status: DeploymentStatus,
    standing: Standing,
    artifact: Option<ArtifactSays>,
    context: &Context,
) -> Result<Option<Deployment>, WriteError> {
    let before = status_of(deployment);
    let (generation, now) = (deployment.meta().generation, Time(jiff::Timestamp::now()));
    let mut conditions =
        lifecycle::conditions_of(&DEPLOYMENT, &standing, &before.conditions, generation, &now);
    if let Some((status, reason, message)) = artifact {
        let message = if message.is_empty() {
            "artifact, image and configuration were found".to_owned()
        } else {
            message
        };
        conditions::set(
            &mut conditions,
            Statement::new(types::ARTIFACT_RESOLVED, status, reason, message),
            generation,
            &now,
        );
    }
    // A spec that is not acted on has not been observed.
    let paused = matches!(standing, Standing::Paused);
    let observed_generation = if paused { before.observed_generation } else { generation };
    let after = DeploymentStatus { observed_generation, conditions: conditions.clone(), ..status };
    if deployment.status.as_ref() == Some(&after) {
        return Ok(None);
    }
    let written = write(deployment, after, context).await?;
    events::announce_news(deployment, &before.conditions, &conditions, context);
    Ok(Some(written))
}

async fn write(
    deployment: &Deployment,
    status: DeploymentStatus,
    context: &Context,
) -> Result<Deployment, WriteError> {
    let status: Value = serde_json::to_value(status).unwrap_or_default();
    context.writer.write_status(deployment, &status).await
}

/// Counts a deployment, if anything had to be done.
fn count(done: &Applied, place: &Place, started: Instant, context: &Context) {
    for change in done.all() {
        place.plane.metrics().applied(&change.outcome);
    }
    if done.all().all(|change| change.outcome == Outcome::Unchanged) {
        return;
    }
    let result = if done.is_in_place() {
        "success"
    } else if done.all().any(|change| matches!(change.outcome, Outcome::Refused(_))) {
        "refused"
    } else {
        "error"
    };
    context.metrics.deployed("apply", result, &place.plane.key.to_string(), started.elapsed());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selector_is_made_of_label_and_value() {
        let parts = (labels::plane::MANAGED_BY, labels::plane::MANAGED_BY_DEPLOYMENT_CONTROLLER);
        assert_eq!(SHARED, format!("{}={}", parts.0, parts.1));
    }

    #[test]
    fn what_is_new_or_was_ready_a_moment_ago_is_given_time() {
        let mut deployment = Deployment::new("cart", kantor_api::deployment::DeploymentSpec::default());
        let start: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        assert!(is_given_time(&deployment, start));
        for (status, given) in [(Status::True, [true, true]), (Status::False, [true, false])] {
            let mut conditions = vec![];
            let ready = Statement::new(types::READY, status, "Reason", "message");
            conditions::set(&mut conditions, ready, Some(1), &Time(start));
            deployment.status = Some(DeploymentStatus { conditions, ..DeploymentStatus::default() });
            assert_eq!([after(2), after(4)].map(|now| is_given_time(&deployment, now)), given);
        }
    }

    #[test]
    fn the_planes_that_a_deployment_was_on_are_recorded_until_they_are_clean() {
        let plane = |name: &str| PlaneRecord {
            namespace: "acme".into(),
            name: name.into(),
            cluster_uid: Some(format!("uid-{name}")),
        };
        let at = |second: i64| Time(jiff::Timestamp::from_second(second).unwrap());
        let first = record(&DeploymentStatus::default(), &plane("a"), "ns", &at(1));
        assert_eq!((first.data_plane.as_ref(), first.cleaning.len()), (Some(&plane("a")), 0));
        assert_eq!(first.moving_since, None);
        assert_eq!(record(&first, &plane("a"), "ns", &at(2)), first);
        let moved = record(&first, &plane("b"), "ns", &at(3));
        assert_eq!((moved.data_plane.as_ref(), &moved.cleaning), (Some(&plane("b")), &vec![plane("a")]));
        assert_eq!(moved.moving_since, Some(at(3)));
        assert_eq!(record(&moved, &plane("b"), "ns", &at(4)), moved, "since then");
        let on = record(&moved, &plane("c"), "ns", &at(5));
        assert_eq!((&on.cleaning, &on.moving_since), (&vec![plane("a"), plane("b")], &Some(at(5))));
        // Back again: what is there is not to be cleaned away.
        let back = record(&on, &plane("a"), "ns", &at(6));
        assert_eq!(back.cleaning, [plane("b"), plane("c")]);
    }

    #[test]
    fn what_is_ready_is_not_looked_at_again_by_itself() {
        assert_eq!(next_look(true, None, true), Action::await_change());
        assert_eq!(next_look(true, None, false), Action::await_change());
        assert_eq!(next_look(false, None, true), Action::requeue(GIVEN));
        assert_eq!(next_look(false, None, false), Action::requeue(PROGRESSING));
        let soon = Duration::from_millis(500);
        assert_eq!(next_look(true, Some(soon), false), Action::requeue(soon));
        assert_eq!(next_look(false, Some(PROGRESSING * 9), false), Action::requeue(PROGRESSING));
    }
}
