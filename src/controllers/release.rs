//! Releases: any objects, kept on the plane of an environment.

mod clean_up;
mod hosts;
mod interest;
mod namespaces;
mod place;

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kantor_api::{
    Release, annotations,
    common::{InventoryItem, PlaneRecord},
    conditions::{self, reasons},
    labels,
    release::{ReleaseStatus, ResourceStatus},
};
use kantor_core::{
    changes::{self, Holder, Outcome, Owner, shown},
    health::{self, Checks, Health, Verdict},
    lifecycle::{self, RELEASE, Standing, Turn},
    release::{self, Observed, Problem, Recorded, Rendered, Report},
    tenancy::{self, Asked, Tenant},
};
use kube::{Resource, ResourceExt, api::DynamicObject};
use serde_json::Value;

pub use self::interest::Interest;
pub(super) use self::place::has_routes;
use self::{
    hosts::Hosts,
    place::{Located, Place, followed},
};
use super::{Context, shared::plane_records::possible_planes};
use crate::{
    apply::{Change, Placed, WriteError},
    planes::{Kind, Plane, Served},
    runtime::{admission, events, run::Action},
};

/// How often what is being removed is looked at again; its end wakes the Release by itself.
const WAITING: Duration = Duration::from_secs(5);
/// When to look again after somebody else was faster.
const SOON: Duration = Duration::from_millis(100);

pub(super) async fn reconcile(release: Arc<Release>, context: Arc<Context>) -> Result<Action, WriteError> {
    match lifecycle::turn(&*release, &RELEASE) {
        Turn::Leave => {}
        Turn::Rest => {
            let recorded = Recorded::of(&status_of(&release));
            Box::pin(say(&release, recorded, Saying::Standing(Standing::Paused), &context)).await?;
        }
        Turn::Finalize => return Box::pin(clean_up::finalize(&release, &context)).await,
        Turn::Hold(finalizer) => Box::pin(context.writer.add_finalizer(&*release, finalizer)).await?,
        Turn::Keep => {
            let releases = &context.world.stores.releases;
            return admission::taken(&*release, &RELEASE, releases, &*context, keep).await;
        }
    }
    Ok(Action::await_change())
}

/// Keeps the objects where they are to be, if that is known.
async fn keep(release: &Release, context: &Context) -> Result<Action, WriteError> {
    match place::locate(release, context) {
        Located::At(place) => keep_at(&place, release, context).await,
        Located::Nowhere(report) => {
            say_unobserved(release, report, context).await?;
            Ok(Action::await_change())
        }
        Located::NotYet(report) => {
            if let Some(report) = report {
                say_unobserved(release, report, context).await?;
            }
            Ok(Action::requeue(WAITING))
        }
    }
}

/// Says why nothing is known of the objects.
async fn say_unobserved(release: &Release, report: Report, context: &Context) -> Result<(), WriteError> {
    let before = status_of(release);
    let recorded = Recorded { resources: release::unobserved(&before.resources), ..Recorded::of(&before) };
    say(release, recorded, Saying::Report(report), context).await
}

/// Brings the objects to what the spec says, removes what it no longer says, and tells how they are.
async fn keep_at(place: &Place, release: &Release, context: &Context) -> Result<Action, WriteError> {
    let before = believed_status(release, Some(&place.at.record), context);
    let rendered = match rendered(release, place) {
        Ok(rendered) => rendered,
        Err((reason, message)) => return refused(release, place, reason, message, context).await,
    };
    let hosts = match hosts::claim(release, place, &rendered, context).await? {
        Hosts::Granted(hosts) => hosts,
        Hosts::Refused(reason, message) => return refused(release, place, reason, message, context).await,
        Hosts::Withheld { reason, message, left } => {
            say_refused(release, place, reason, message, context).await?;
            return Ok(after(release, true, left.then_some(WAITING)));
        }
        Hosts::Waiting(why) => {
            let report = Report::unknown(reasons::APPLY_WAITING, format!("waiting for {why}"));
            say_unobserved(release, report, context).await?;
            return Ok(Action::requeue(WAITING));
        }
        Hosts::Soon => return Ok(Action::requeue(SOON)),
    };
    let live = |name: &str| place.at.namespaces.get(None, name).map(|found| found.labels().clone());
    let made_for_it = release::namespaces_to_make(&before, &place.at.record, &rendered, &live);
    let items: Vec<InventoryItem> = rendered.iter().map(Rendered::item).collect();
    let denied = context.engine.denied(&place.site(), items.iter()).await;
    let is_sent = |item: &InventoryItem| !denied.contains_key(&Kind::of(item));
    let recorded = release::record(&before, &place.at.record, &rendered, made_for_it, is_sent);
    let mut written = None;
    if release::adds_to(&before, &recorded) {
        written = Some(write(release, with_record(&before, &recorded), context).await?);
    }
    let release = written.as_ref().unwrap_or(release);
    clean_up::follow_only(release, &recorded, context);

    let unmade = namespaces::make(release, place, &recorded).await;
    let wanted: Vec<Placed> = rendered
        .into_iter()
        .zip(&recorded.resources)
        .map(|(rendered, entry)| (rendered.wanted, entry.uid.clone()))
        .collect();
    let changes = sync(release, place, &wanted, &Blocked { unmade, denied }, context).await;
    tell_of_drift(release, place, &changes, context);
    let in_place = changes.iter().all(|change| change.outcome.is_in_place());

    // Only what is there for sure takes the place of what was there.
    let (removing, left) = if in_place {
        clean_up::remove(release, recorded.removing.clone(), &recorded.resources, context).await
    } else {
        let left = recorded.removing.iter().flat_map(|place| place.objects.iter().map(shown)).collect();
        (recorded.removing.clone(), left)
    };
    if in_place && removing.is_empty() {
        hosts::let_go(release, &hosts, context).await?;
    }
    let observed: Vec<Observed> = changes.iter().map(|change| observe(release, change, place)).collect();
    let resources = release::assess(&release.spec, &recorded, &observed, &now());
    let report = release::report(&resources, &observed, &left);
    let settled = matches!(report.standing, Standing::Ready { .. });
    let again = changes.iter().filter_map(|change| change.again);
    let again = again.chain((!left.is_empty()).then_some(WAITING)).min();
    if place.at.plane.cancelled().is_cancelled() {
        // What was seen there last is not what is. That it is lost wakes us.
        return Ok(Action::await_change());
    }
    say(release, Recorded { resources, removing, ..recorded }, Saying::Report(report), context).await?;
    Ok(after(release, settled, again))
}

/// Says why nothing is changed, and how what is there is. Not all that may change that wakes the Release.
async fn refused(
    release: &Release,
    place: &Place,
    reason: &'static str,
    message: String,
    context: &Context,
) -> Result<Action, WriteError> {
    say_refused(release, place, reason, message, context).await?;
    Ok(after(release, false, None))
}

async fn say_refused(
    release: &Release,
    place: &Place,
    reason: &'static str,
    message: String,
    context: &Context,
) -> Result<(), WriteError> {
    let before = status_of(release);
    let resources = before.resources.iter().map(|entry| observed_entry(release, entry, place)).collect();
    let recorded = Recorded { resources, ..Recorded::of(&before) };
    let report = Report::refused(reason, message);
    say(release, recorded, Saying::Report(report), context).await
}

/// The objects of a Release, if all of them may go to the plane; else the reason and what is said.
fn rendered(release: &Release, place: &Place) -> Result<Vec<Rendered>, (&'static str, String)> {
    let rendered = release::render(release).map_err(|problems| invalid(&problems))?;
    let scoped: Vec<(Rendered, bool)> = rendered
        .into_iter()
        .map(|rendered| match place.at.plane.known(&Kind::of(&rendered.item())).if_present() {
            Some(Served { namespaced: false, .. }) => (rendered.without_namespace(), false),
            Some(Served { namespaced: true, .. }) => (rendered, true),
            // As it is written, until the plane tells.
            None => {
                let namespaced = rendered.wanted.object.metadata.namespace.is_some();
                (rendered, namespaced)
            }
        })
        .collect();
    // What differs only in a namespace that it does not have is the same.
    let twice = release::duplicates(scoped.iter().map(|(rendered, _)| rendered));
    if !twice.is_empty() {
        return Err(invalid(&twice));
    }
    let refusals = refusals(release, place, &scoped);
    if !refusals.is_empty() {
        return Err((reasons::POLICY_VIOLATION, release::listed(&refusals)));
    }
    let organization = release.namespace().unwrap_or_default();
    let as_kept = |(rendered, _): (Rendered, bool)| {
        let live = place.at.namespaces.get(None, &rendered.item().name);
        let rendered = rendered.with_level(place.pod_security, live.as_ref().map(|live| live.labels()));
        rendered.with_organization(&organization)
    };
    Ok(scoped.into_iter().map(as_kept).collect())
}

fn invalid(problems: &[Problem]) -> (&'static str, String) {
    let all: Vec<String> =
        problems.iter().map(|problem| format!("resource {}: {}", problem.id, problem.message)).collect();
    (reasons::INVALID_RESOURCE, release::listed(&all))
}

/// Why objects may not go to the plane.
fn refusals(release: &Release, place: &Place, scoped: &[(Rendered, bool)]) -> Vec<String> {
    let organization = release.namespace().unwrap_or_default();
    let tenant = tenant(release, &organization);
    let items: Vec<InventoryItem> = scoped.iter().map(|(rendered, _)| rendered.item()).collect();
    let asked: Vec<Asked<'_>> = scoped
        .iter()
        .zip(&items)
        .map(|((rendered, namespaced), item)| Asked {
            group: &item.group,
            kind: &item.kind,
            namespaced: *namespaced,
            namespace: &item.namespace,
            name: &item.name,
            labels: rendered.wanted.object.labels(),
        })
        .collect();
    let live = |name: &str| place.at.namespaces.get(None, name).map(|namespace| namespace.labels().clone());
    tenancy::refusals(&tenant, place.policy(), &asked, &live).into_iter().flatten().collect()
}

/// A Release as one that asks.
fn tenant<'a>(release: &'a Release, organization: &'a str) -> Tenant<'a> {
    Tenant {
        organization,
        project: &release.spec.owner.project_name,
        environment: &release.spec.environment_name,
    }
}

/// What is not sent, and why.
struct Blocked {
    /// Namespaces that could not be made.
    unmade: HashMap<String, WriteError>,
    /// Kinds that may not be listed. Not even if they may be by now: what is sent is recorded first.
    denied: HashMap<Kind, String>,
}

impl Blocked {
    fn outcome(&self, item: &InventoryItem) -> Option<Outcome> {
        if let Some(why) = self.denied.get(&Kind::of(item)) {
            return Some(Outcome::Refused(why.clone()));
        }
        let error = self.unmade.get(&item.namespace)?;
        Some(unmade_outcome(error, format!("namespace {} could not be made: {error}", item.namespace)))
    }
}

/// Brings the objects to what they shall be, but for those that are not sent.
async fn sync(
    release: &Release,
    place: &Place,
    wanted: &[Placed],
    blocked: &Blocked,
    context: &Context,
) -> Vec<Change> {
    let free: Vec<Placed> =
        wanted.iter().filter(|(wanted, _)| blocked.outcome(&wanted.item()).is_none()).cloned().collect();
    let mut synced = context.engine.sync(&place.site(), &owner_of(release), &free).await.into_iter();
    let changes = wanted.iter().filter_map(|(wanted, recorded)| {
        let item = InventoryItem { uid: recorded.clone(), ..wanted.item() };
        match blocked.outcome(&item) {
            Some(outcome) => Some(Change { item, outcome, again: Some(WAITING), version: None }),
            None => synced.next(),
        }
    });
    changes.collect()
}

fn unmade_outcome(error: &WriteError, why: String) -> Outcome {
    match error {
        WriteError::Refused(_) | WriteError::Immutable(_) => Outcome::Refused(why),
        WriteError::Conflict | WriteError::Busy { .. } | WriteError::Transient(_) => Outcome::Failed(why),
    }
}

/// What is seen of an object after it was applied.
fn observe(release: &Release, change: &Change, place: &Place) -> Observed {
    let item = &change.item;
    let live = own_live(release, place, item);
    let (verdict, status) = match &live {
        Some(live) if changes::is_older(&**live, change.version.as_deref()) => {
            let message = Some("written and not seen on the data plane yet".to_owned());
            (Some(Verdict { health: Health::Progressing, message }), None)
        }
        Some(live) => (Some(judge(live, &place.checks)), live.data.get("status").cloned()),
        None => (None, None),
    };
    let uid = if verdict.is_some() { live.and_then(|live| live.uid()) } else { None };
    Observed { uid: uid.or_else(|| item.uid.clone()), outcome: change.outcome.clone(), verdict, status }
}

/// An object as it is on the plane, if it is the Release's own: how others' objects are is not for it to tell.
fn own_live(release: &Release, place: &Place, item: &InventoryItem) -> Option<Arc<DynamicObject>> {
    let followed = followed(&place.at.plane, item)?;
    let live = followed.get(some(&item.namespace), &item.name)?;
    (changes::holder(&owner_of(release), live.labels(), false) == Holder::Own).then_some(live)
}

/// The entry of an object that was not applied now, with the health that it has.
fn observed_entry(release: &Release, entry: &ResourceStatus, place: &Place) -> ResourceStatus {
    let verdict = own_live(release, place, &release::item_of(entry)).map(|live| judge(&live, &place.checks));
    ResourceStatus {
        health_status: Some(verdict.as_ref().map_or(Health::Unknown, |v| v.health).as_str().to_owned()),
        message: verdict.and_then(|verdict| verdict.message),
        ..entry.clone()
    }
}

fn judge(live: &DynamicObject, checks: &Checks) -> Verdict {
    health::of(&serde_json::to_value(live).unwrap_or_default(), checks)
}

/// Tells users that somebody else changed objects, and counts.
fn tell_of_drift(release: &Release, place: &Place, changes: &[Change], context: &Context) {
    for change in changes {
        place.at.plane.metrics().applied(&change.outcome);
        events::announce_drift(release, change, context);
    }
}

/// On whose behalf the objects of a Release are kept.
fn owner_of(release: &Release) -> Owner {
    let asks = |key: &str| release.annotations().get(key).is_some_and(|value| value == "true");
    Owner {
        uid: release.uid().unwrap_or_default(),
        label: labels::RELEASE_UID,
        organization: release.namespace().unwrap_or_default(),
        adopt: asks(annotations::ADOPT),
        replace: asks(annotations::REPLACE),
        ..Owner::default()
    }
}

/// The status as far as its planes are believed, for a Release that should be on `target`.
fn believed_status(release: &Release, target: Option<&PlaneRecord>, context: &Context) -> ReleaseStatus {
    let possible = possible_planes(release, true, context);
    let planes: Vec<PlaneRecord> = target.cloned().into_iter().chain(possible).collect();
    release::as_believed(status_of(release), &release.namespace().unwrap_or_default(), &planes)
}

fn status_of(release: &Release) -> ReleaseStatus {
    release.status.clone().unwrap_or_default()
}

/// The status with what is recorded, and everything else as it was.
fn with_record(before: &ReleaseStatus, recorded: &Recorded) -> ReleaseStatus {
    let Recorded { data_plane, resources, namespaces, removing } = recorded.clone();
    ReleaseStatus { data_plane, resources, namespaces, removing, ..before.clone() }
}

/// What a status says beside what is recorded.
enum Saying {
    Report(Report),
    Standing(Standing),
}

/// Writes the status if it says anything new, and an Event if `Ready` changed.
async fn say(
    release: &Release,
    recorded: Recorded,
    saying: Saying,
    context: &Context,
) -> Result<(), WriteError> {
    let before = status_of(release);
    let (generation, now) = (release.meta().generation, now());
    let (standing, statements) = match saying {
        Saying::Report(report) => (report.standing, report.statements.to_vec()),
        Saying::Standing(standing) => (standing, vec![]),
    };
    let mut conditions = lifecycle::conditions_of(&RELEASE, &standing, &before.conditions, generation, &now);
    for statement in statements {
        conditions::set(&mut conditions, statement, generation, &now);
    }
    // A spec that is not acted on has not been observed.
    let paused = matches!(standing, Standing::Paused);
    let after = ReleaseStatus {
        observed_generation: if paused { before.observed_generation } else { generation },
        conditions: conditions.clone(),
        ..with_record(&before, &recorded)
    };
    if release.status.as_ref() != Some(&after) {
        write(release, after, context).await?;
        events::announce(release, &before.conditions, &conditions, context);
    }
    Ok(())
}

async fn write(release: &Release, status: ReleaseStatus, context: &Context) -> Result<Release, WriteError> {
    let status: Value = serde_json::to_value(status).unwrap_or_default();
    context.writer.write_status(release, &status).await
}

/// When a Release is looked at again by itself.
fn after(release: &Release, settled: bool, again: Option<Duration>) -> Action {
    let random = f64::from(u32::try_from(RandomState::new().hash_one(0) >> 32).unwrap_or_default());
    let look = release::next_look(&release.spec, settled, random / f64::from(u32::MAX));
    again.into_iter().chain(look).min().map_or_else(Action::await_change, Action::requeue)
}

fn some(namespace: &str) -> Option<&str> {
    Some(namespace).filter(|namespace| !namespace.is_empty())
}

fn now() -> Time {
    Time(jiff::Timestamp::now())
}
