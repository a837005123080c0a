//! Deployments: an artifact, kept running on the plane of an environment.

mod clean_up;
mod endpoints;
mod inputs;
mod observe;

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kantor_api::{
    Deployment, Endpoint,
    common::PlaneRecord,
    conditions::{self, Statement, Status, reasons, types},
    deployment::DeploymentStatus,
    labels,
};
use kube::{Resource, ResourceExt};
use serde_json::Value;

use self::inputs::Resolved;
use super::{
    Context, member,
    owned::{self, FORMER_MANAGER, OWNED, site},
    place::{self, Located, Place},
    run::Action,
    turns,
};
use crate::{
    apply::{Change, Placed, WriteError},
    core::{
        changes::{Outcome, Owner, Wanted, object_key},
        deployment::{Problem, Rendered},
        hierarchy::{logical_name, organization_of},
        lifecycle::{self, DEPLOYMENT, Standing, Turn},
        release,
    },
};

/// How often a Deployment that is not ready is looked at again: pods that crash do not wake it.
const PROGRESSING: Duration = Duration::from_secs(10);
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
        Turn::Keep => {
            let stores = &context.world.stores;
            return turns::taken(&*deployment, &DEPLOYMENT, &stores.deployments, &context, keep).await;
        }
    }
    Ok(Action::await_change())
}

/// Brings everything to what the spec says, removes what it no longer says, and tells how it is.
async fn keep(deployment: &Deployment, context: &Context) -> Result<Action, WriteError> {
    let before = status_of(deployment);
    let resolved = match inputs::resolve(deployment, context) {
        Ok(resolved) => resolved,
        Err(stop) => return stopped(deployment, before, stop.standing, stop.artifact, context).await,
    };
    let place = match place::locate(&resolved.environment, context) {
        Located::At(place) => place,
        Located::NotYet(standing) => {
            if !member::is_spoken_for(deployment) {
                say(deployment, before, standing, None, context).await?;
            }
            return Ok(Action::requeue(PROGRESSING));
        }
        Located::Nowhere(standing) => return stopped(deployment, before, standing, None, context).await,
    };
    let rendered = match resolved.render(deployment, &place, context).await? {
        Ok(rendered) => rendered,
        Err(problems) => {
            let (standing, artifact) = problems_say(&problems);
            return stopped(deployment, before, standing, artifact, context).await;
        }
    };
    let ours = match is_namespace_ours(&resolved, &place, &rendered.namespace) {
        Ok(ours) => ours,
        Err(standing) => {
            return stopped(deployment, before, standing, Some(ARTIFACT_RESOLVED), context).await;
        }
    };
    let recorded = record(&before, &place.record, &rendered.namespace);
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
    let done = apply(deployment, ours, &place, &rendered, context).await?;
    count(&done, &place, started, context);
    conclude(deployment, recorded, &place, &rendered, done, context).await
}

/// What applying came to.
struct Applied {
    shared: Vec<Change>,
    own: Vec<Change>,
    endpoints: Vec<Arc<Endpoint>>,
}

impl Applied {
    fn all(&self) -> impl Iterator<Item = &Change> {
        self.shared.iter().chain(&self.own)
    }

    fn is_in_place(&self) -> bool {
        self.all().all(|change| change.outcome.is_in_place())
    }
}

/// `ours` tells whether the namespace is the organization's already.
async fn apply(
    deployment: &Deployment,
    ours: bool,
    place: &Place,
    rendered: &Rendered,
    context: &Context,
) -> Result<Applied, WriteError> {
    let wanted = |objects: &[kube::api::DynamicObject]| -> Vec<Placed> {
        objects.iter().map(|object| (Wanted::new(object.clone()), None)).collect()
    };
    let adopt = ours || owner_of(deployment, None).adopt;
    let sharing = site(&place.plane, SHARED);
    let turn = context.shared.take((place.plane.key.clone(), rendered.namespace.clone())).await;
    let shared = context.engine.sync(&sharing, &shared_owner(adopt), &wanted(&rendered.shared)).await;
    drop(turn);
    if !shared.iter().all(|change| change.outcome.is_in_place()) {
        // Nothing runs without its isolation.
        return Ok(Applied { shared, own: vec![], endpoints: vec![] });
    }
    let owner = owner_of(deployment, Some(rendered));
    let own = context.engine.sync(&site(&place.plane, OWNED), &owner, &wanted(&rendered.own)).await;
    let endpoints = endpoints::sync(deployment, &rendered.endpoints, context).await?;
    for change in shared.iter().chain(&own) {
        member::announce_drift(deployment, change, context);
    }
    Ok(Applied { shared, own, endpoints })
}

/// Removes what is no longer wanted, looks at what is there, and says how it is.
async fn conclude(
    deployment: &Deployment,
    recorded: DeploymentStatus,
    place: &Place,
    rendered: &Rendered,
    done: Applied,
    context: &Context,
) -> Result<Action, WriteError> {
    let mut status = DeploymentStatus { image: Some(rendered.image.clone()), ..recorded };
    let mut left = vec![];
    if done.is_in_place() {
        let owner = owner_of(deployment, None);
        let wanted: HashSet<_> = done.own.iter().map(|change| object_key(&change.item)).collect();
        left = match owned::owned(&place.plane, clean_up::KINDS, &owner.uid).await {
            Ok(mut stale) => {
                stale.retain(|item| !wanted.contains(&object_key(item)));
                owned::remove(&site(&place.plane, OWNED), &owner, &stale, context).await
            }
            Err(why) => vec![why],
        };
        left.extend(clean_up::remove_other_isolation(place, rendered, context).await);
        let cleaning = std::mem::take(&mut status.cleaning);
        let (cleaning, waiting) = owned::leave(deployment, clean_up::KINDS, cleaning, context).await;
        status.cleaning = cleaning;
        left.extend(waiting);
        status.inventory = done.own.iter().map(|change| change.item.clone()).collect();
    }
    status.endpoints = endpoints::summaries(deployment, &rendered.endpoints, context);
    let given = is_given_time(deployment, jiff::Timestamp::now());
    let verdict = observe::workload(&place.plane, rendered, &done.own, given).await;
    let standing = observe::standing(&done.shared, &done.own, verdict, &left);
    let settled = matches!(standing, Standing::Ready { .. });
    let again = done.all().filter_map(|change| change.again).min();
    let is_on_its_way = matches!(standing, Standing::Progressing { .. }) && done.is_in_place();
    if is_on_its_way && status.conditions.is_empty() && endpoints::are_new(&done.endpoints, context) {
        // They are about to tell how they are, which wakes us: one write then says it all.
        return Ok(Action::requeue(again.map_or(GIVEN, |again| again.min(GIVEN))));
    }
    if place.plane.cancelled().is_cancelled() {
        // What was seen there last is not what is. That it is lost wakes us.
        return Ok(Action::await_change());
    }
    say(deployment, status, standing, Some(ARTIFACT_RESOLVED), context).await?;
    Ok(match (settled, again) {
        (_, Some(again)) => Action::requeue(again.min(PROGRESSING)),
        (false, None) => Action::requeue(if given { GIVEN } else { PROGRESSING }),
        (true, None) => Action::await_change(),
    })
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
    owned::owner_of(deployment, inherited.map(|(key, value)| (key.clone(), value.clone())).collect())
}

/// On whose behalf the objects are kept that Deployments share.
fn shared_owner(adopt: bool) -> Owner {
    Owner {
        uid: labels::plane::MANAGED_BY_DEPLOYMENT_CONTROLLER.to_owned(),
        label: labels::plane::MANAGED_BY,
        adopt,
        former_manager: Some(FORMER_MANAGER),
        ..Owner::default()
    }
}

/// Whose the namespace is: true if it is the organization's already, as one that was made for its Releases, false if it is
/// nobody's. Generated names can collide, and then labels have the last word.
fn is_namespace_ours(resolved: &Resolved, place: &Place, name: &str) -> Result<bool, Standing> {
    let Some(namespace) = place.namespaces.get(None, name) else { return Ok(false) };
    let label = |key: &str| namespace.labels().get(key).filter(|value| !value.is_empty());
    let organization = release::label_value(&organization_of(&*resolved.project));
    let of_another =
        |key: &str, own: &str| label(key).is_some_and(|found| *found != release::label_value(own));
    let (project, environment) = (logical_name(&*resolved.project), logical_name(&*resolved.environment));
    let elsewhere = of_another(labels::plane::PROJECT_NAME, &project)
        && of_another(labels::plane::ENVIRONMENT_NAME, &environment);
    match label(labels::plane::ORGANIZATION_NAME) {
        Some(found) if *found != organization || elsewhere => Err(Standing::Stalled {
            reason: reasons::NAMESPACE_CONFLICT,
            message: format!("namespace {name} of data plane {} belongs to others", place.plane.key.name),
        }),
        found => Ok(found.is_some()),
    }
}

/// What is recorded before anything is written: the plane, and the planes that have to be cleaned.
fn record(before: &DeploymentStatus, plane: &PlaneRecord, namespace: &str) -> DeploymentStatus {
    DeploymentStatus {
        cleaning: owned::to_clean(before.data_plane.as_ref(), &before.cleaning, plane),
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

/// Says why nothing is done. What it waits for wakes it, except that nobody tells it of the end of a rival.
async fn stopped(
    deployment: &Deployment,
    before: DeploymentStatus,
    standing: Standing,
    artifact: Option<ArtifactSays>,
    context: &Context,
) -> Result<Action, WriteError> {
    let rivalled = matches!(standing, Standing::Stalled { reason: reasons::DUPLICATE_DEPLOYMENT, .. });
    say(deployment, before, standing, artifact, context).await?;
    Ok(if rivalled { Action::requeue(PROGRESSING) } else { Action::await_change() })
}

/// Writes the status if it says anything new, and an Event if `Ready` changed.
async fn say(
    deployment: &Deployment,
    status: DeploymentStatus,
    standing: Standing,
    artifact: Option<ArtifactSays>,
    context: &Context,
) -> Result<(), WriteError> {
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
    if deployment.status.as_ref() != Some(&after) {
        write(deployment, after, context).await?;
        member::announce_news(deployment, &before.conditions, &conditions, context);
    }
    Ok(())
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
        let first = record(&DeploymentStatus::default(), &plane("a"), "ns");
        assert_eq!((first.data_plane.as_ref(), first.cleaning.len()), (Some(&plane("a")), 0));
        assert_eq!(record(&first, &plane("a"), "ns"), first);
        let moved = record(&first, &plane("b"), "ns");
        assert_eq!((moved.data_plane.as_ref(), &moved.cleaning), (Some(&plane("b")), &vec![plane("a")]));
        let on = record(&moved, &plane("c"), "ns");
        assert_eq!(on.cleaning, [plane("a"), plane("b")]);
        // Back again: what is there is not to be cleaned away.
        let back = record(&on, &plane("a"), "ns");
        assert_eq!(back.cleaning, [plane("b"), plane("c")]);
    }
}
