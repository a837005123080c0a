//! What the status of a Release says.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kantor_api::{
    conditions::{Statement, Status, reasons, types},
    release::{ReleaseSpec, ResourceStatus},
};
use serde_json::Value;

use super::Recorded;
use crate::{
    changes::{Outcome, said},
    health::{Health, Verdict},
    lifecycle::Standing,
    release::record::item_of,
};

/// The most that is kept of one object's own status.
const OWN_STATUS_LIMIT: usize = 4 << 10;
/// What etcd stores at the most is 1.5 MiB; some of it is for managed fields.
const OBJECT_LIMIT: usize = 1_300_000;
/// The least that is left for the state of the objects, however large the spec is.
const LEAST: usize = 200_000;

/// What was seen of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// UID, if it is there.
    pub uid: Option<String>,
    /// What became of applying it.
    pub outcome: Outcome,
    /// Its health; nothing if it is not there.
    pub verdict: Option<Verdict>,
    /// Its own status.
    pub status: Option<Value>,
}

/// The state of each object, in the order of the spec, as large as there is room for beside the spec
/// and what is to be removed.
pub fn assess(
    spec: &ReleaseSpec,
    before: &Recorded,
    observed: &[Observed],
    now: &Time,
) -> Vec<ResourceStatus> {
    let spec_size = serde_json::to_vec(spec).map_or(0, |text| text.len());
    let removing_size = serde_json::to_vec(&before.removing).map_or(0, |text| text.len());
    // Whoever writes the spec by server-side apply has its fields listed once more.
    let room = OBJECT_LIMIT.saturating_sub(spec_size + spec_size / 4 + removing_size).max(LEAST);
    let entries =
        before.resources.iter().zip(observed).map(|(before, observed)| entry(before, observed, now));
    let mut entries = fitted(entries.collect(), room);
    // Only now: what there is no room for is not there to compare, and must not look new every time.
    for (before, entry) in before.resources.iter().zip(&mut entries) {
        let known = (&before.health_status, &before.status, &before.uid);
        let both_seen = before.last_observed_time.is_some() && entry.last_observed_time.is_some();
        if both_seen && known == (&entry.health_status, &entry.status, &entry.uid) {
            entry.last_observed_time.clone_from(&before.last_observed_time);
        }
    }
    entries
}

/// The state of each object while nothing is known of them.
pub fn unobserved(before: &[ResourceStatus]) -> Vec<ResourceStatus> {
    let unknown = |entry: &ResourceStatus| ResourceStatus {
        health_status: Some(Health::Unknown.as_str().to_owned()),
        message: None,
        ..entry.clone()
    };
    before.iter().map(unknown).collect()
}

fn entry(before: &ResourceStatus, observed: &Observed, now: &Time) -> ResourceStatus {
    let verdict = observed.verdict.clone().unwrap_or(Verdict { health: Health::Unknown, message: None });
    let status = observed
        .status
        .clone()
        .filter(|status| serde_json::to_vec(status).is_ok_and(|text| text.len() <= OWN_STATUS_LIMIT));
    let seen = observed.verdict.as_ref().map(|_| now.clone());
    ResourceStatus {
        uid: observed.uid.clone(),
        health_status: Some(verdict.health.as_str().to_owned()),
        message: verdict.message,
        apply_error: observed.outcome.error().map(ToOwned::to_owned),
        status,
        last_observed_time: seen.or_else(|| before.last_observed_time.clone()),
        ..before.clone()
    }
}

/// The entries in no more than `room` bytes: what can be looked up on the plane goes first.
fn fitted(mut entries: Vec<ResourceStatus>, room: usize) -> Vec<ResourceStatus> {
    let too_large =
        |entries: &[ResourceStatus]| serde_json::to_vec(entries).map_or(0, |text| text.len()) > room;
    if too_large(&entries) {
        for entry in &mut entries {
            entry.status = None;
        }
    }
    for longest in [120, 0] {
        if too_large(&entries) {
            for entry in &mut entries {
                shorten(&mut entry.message, longest);
                shorten(&mut entry.apply_error, longest.max(16));
            }
        }
    }
    if too_large(&entries) {
        for entry in &mut entries {
            entry.last_observed_time = None;
        }
    }
    entries
}

fn shorten(text: &mut Option<String>, longest: usize) {
    if let Some(long) = text.as_mut().filter(|text| text.len() > longest) {
        long.truncate(long.floor_char_boundary(longest));
        long.push('…');
    }
    if longest == 0 {
        *text = None;
    }
}

/// How a Release stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// For `Ready`, `Reconciling` and `Stalled`.
    pub standing: Standing,
    /// `Applied` and `Healthy`.
    pub statements: [Statement; 2],
}

impl Report {
    /// Nothing was applied, for a reason that is the Release's own.
    pub fn refused(reason: &'static str, message: String) -> Self {
        Self {
            statements: [
                Statement::new(types::APPLIED, Status::False, reason, message.clone()),
                Statement::new(types::HEALTHY, Status::Unknown, reason, "not looked at"),
            ],
            standing: Standing::Stalled { reason, message },
        }
    }

    /// What is on the plane cannot be told.
    pub fn unknown(reason: &'static str, message: String) -> Self {
        Self {
            statements: [
                Statement::new(types::APPLIED, Status::Unknown, reason, message.clone()),
                Statement::new(types::HEALTHY, Status::Unknown, reason, message.clone()),
            ],
            standing: Standing::Unknown { reason, message },
        }
    }
}

/// How a Release stands by its objects. `removing` names what is still to go.
pub fn report(resources: &[ResourceStatus], observed: &[Observed], removing: &[String]) -> Report {
    let applied = applied(resources, observed, removing);
    let healthy = healthy(resources);
    let standing = match (applied.status, healthy.status) {
        // What is going makes untrue that all is as declared, if not that all is there.
        (Status::True, Status::True) if !removing.is_empty() => standing_of(&applied),
        (Status::True, Status::True) => {
            Standing::Ready { reason: reasons::RESOURCES_ACTIVE, message: healthy.message.clone() }
        }
        (Status::True, _) => standing_of(&healthy),
        _ => standing_of(&applied),
    };
    Report { standing, statements: [applied, healthy] }
}

fn standing_of(statement: &Statement) -> Standing {
    let (reason, message) = (statement.reason, statement.message.clone());
    match reason {
        reasons::APPLY_REFUSED | reasons::RESOURCE_HEALTH_DEGRADED => Standing::Stalled { reason, message },
        _ => Standing::Progressing { reason, message },
    }
}

fn applied(resources: &[ResourceStatus], observed: &[Observed], removing: &[String]) -> Statement {
    let of = |wanted: fn(&Outcome) -> bool| -> Vec<String> {
        let found = resources.iter().zip(observed).filter(|(_, observed)| wanted(&observed.outcome));
        found.map(|(entry, observed)| said(&item_of(entry), observed.outcome.error())).collect()
    };
    let (reason, of) = [
        (reasons::APPLY_REFUSED, of(|outcome| matches!(outcome, Outcome::Refused(_)))),
        (reasons::APPLY_FAILED, of(|outcome| matches!(outcome, Outcome::Failed(_)))),
        (reasons::APPLY_WAITING, of(|outcome| matches!(outcome, Outcome::Waiting(_)))),
        (reasons::REMOVING_RESOURCES, removing.to_vec()),
    ]
    .into_iter()
    .find(|(_, found)| !found.is_empty())
    .unwrap_or((reasons::RESOURCES_APPLIED, vec![]));
    if of.is_empty() {
        let message = format!("{} applied", objects(resources.len()));
        return Statement::new(types::APPLIED, Status::True, reason, message);
    }
    if reason == reasons::REMOVING_RESOURCES {
        return Statement::new(types::APPLIED, Status::True, reason, format!("removing {}", listed(&of)));
    }
    let message = format!("{} of {}: {}", of.len(), objects(resources.len()), listed(&of));
    Statement::new(types::APPLIED, Status::False, reason, message)
}

fn healthy(resources: &[ResourceStatus]) -> Statement {
    let of = |health: &[Health]| -> Vec<String> {
        let is = |entry: &&ResourceStatus| {
            health.iter().any(|health| entry.health_status.as_deref() == Some(health.as_str()))
        };
        resources.iter().filter(is).map(|entry| said(&item_of(entry), entry.message.as_deref())).collect()
    };
    let total = objects(resources.len());
    let degraded = of(&[Health::Degraded]);
    if !degraded.is_empty() {
        let message = format!("{} of {total} degraded: {}", degraded.len(), listed(&degraded));
        return Statement::new(types::HEALTHY, Status::False, reasons::RESOURCE_HEALTH_DEGRADED, message);
    }
    let progressing = of(&[Health::Progressing, Health::Unknown]);
    if !progressing.is_empty() {
        let message = format!("{} of {total} not healthy yet: {}", progressing.len(), listed(&progressing));
        return Statement::new(types::HEALTHY, Status::False, reasons::RESOURCE_HEALTH_PROGRESSING, message);
    }
    let message = match of(&[Health::Suspended]).len() {
        _ if resources.is_empty() => "no objects".to_owned(),
        0 => format!("{total} healthy"),
        suspended => format!("{total} healthy, {suspended} of them suspended"),
    };
    Statement::new(types::HEALTHY, Status::True, reasons::RESOURCES_ACTIVE, message)
}

fn objects(count: usize) -> String {
    if count == 1 { "1 object".to_owned() } else { format!("{count} objects") }
}

/// The first few, and how many more there are.
pub fn listed(all: &[String]) -> String {
    const SHOWN: usize = 5;
    let first = all.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("; ");
    let mut text = match all.len().saturating_sub(SHOWN) {
        0 => first,
        more => format!("{first}; and {more} more"),
    };
    // Conditions hold up to 32768 characters, people less.
    if text.len() > 2000 {
        text.truncate(text.floor_char_boundary(2000));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests;
