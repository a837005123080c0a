//! What an Organization asks for: a namespace of its own name.
//!
//! A namespace that Kantor made carries the Organization as its controller, and goes with it. A namespace that was
//! there before is adopted by labels alone, and stays when the Organization goes.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::Namespace,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time},
};
use kantor_api::{
    Organization,
    conditions::{self, Statement, Status, reasons, types},
    labels,
    organization::OrganizationStatus,
};
use kube_core::{Resource, ResourceExt};

use super::lifecycle::{ORGANIZATION, Standing, conditions_of};

/// Namespaces that belong to Kubernetes itself.
const RESERVED: &[&str] = &["kube-system", "kube-public", "kube-node-lease"];

/// What has to be done about an organization's namespace.
#[derive(Clone, Debug, PartialEq)]
pub enum NamespaceStep {
    /// There is none: make it.
    Create(Box<Namespace>),
    /// It is ours, or nobody's, and does not carry what it should.
    Repair(Box<Namespace>),
    /// Everything is as it should be.
    Keep,
    /// It is being deleted: a new one can be made when it has gone.
    AwaitEnd,
    /// It belongs to someone else.
    Refuse(String),
}

/// What has to be done about the namespace of `organization`, of which `live` is there.
pub fn namespace_step(organization: &Organization, live: Option<&ObjectMeta>) -> NamespaceStep {
    let name = organization.name_any();
    if RESERVED.contains(&name.as_str()) {
        return NamespaceStep::Refuse(format!(
            "namespace {name} belongs to Kubernetes; an organization of this name cannot exist"
        ));
    }
    let Some(live) = live else {
        return NamespaceStep::Create(Box::new(namespace(organization, true)));
    };
    if live.deletion_timestamp.is_some() {
        return NamespaceStep::AwaitEnd;
    }
    let ours = is_made_for(organization, live);
    if !ours && let Some(other) = live.owner_references.iter().flatten().find(|r| r.controller == Some(true))
    {
        return NamespaceStep::Refuse(format!(
            "namespace {name} is controlled by {} {}; delete one of the two, or rename the organization",
            other.kind, other.name
        ));
    }
    let live_labels = live.labels.as_ref();
    if let Some(other) = live_labels.and_then(|l| l.get(labels::ORGANIZATION)).filter(|o| **o != name)
        && !ours
    {
        return NamespaceStep::Refuse(format!(
            "namespace {name} belongs to organization {other} (label {}); remove the label or rename the organization",
            labels::ORGANIZATION
        ));
    }
    let covered = namespace_labels(&name).iter().all(|(k, v)| live_labels.and_then(|l| l.get(k)) == Some(v));
    if covered { NamespaceStep::Keep } else { NamespaceStep::Repair(Box::new(namespace(organization, ours))) }
}

/// What has to be done about the namespace when the organization is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CleanupStep {
    /// Nothing is left.
    Done,
    /// Delete the namespace with this UID, and wait for it to go.
    Delete {
        /// UID of the namespace that was seen.
        uid: Option<String>,
    },
    /// It is on its way; wait.
    AwaitEnd,
    /// It was there before the organization: take the labels off and leave it.
    Disown,
}

/// What has to be done about the namespace of an `organization` that is being deleted.
pub fn cleanup_step(organization: &Organization, live: Option<&ObjectMeta>) -> CleanupStep {
    let Some(live) = live else { return CleanupStep::Done };
    let terminating = live.deletion_timestamp.is_some();
    match (is_made_for(organization, live), terminating) {
        (true, true) => CleanupStep::AwaitEnd,
        (true, false) => CleanupStep::Delete { uid: live.uid.clone() },
        (false, false) if adopted_by(organization, live) => CleanupStep::Disown,
        (false, _) => CleanupStep::Done,
    }
}

fn is_made_for(organization: &Organization, live: &ObjectMeta) -> bool {
    let uid = organization.uid();
    uid.is_some() && live.owner_references.iter().flatten().any(|r| Some(&r.uid) == uid.as_ref())
}

fn adopted_by(organization: &Organization, live: &ObjectMeta) -> bool {
    let value = |key| live.labels.as_ref().and_then(|l| l.get(key)).map(String::as_str);
    value(labels::MANAGED_BY) == Some(labels::MANAGED_BY_CONTROL_PLANE)
        && value(labels::ORGANIZATION) == Some(organization.name_any().as_str())
}

fn namespace_labels(organization: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        (labels::MANAGED_BY.to_owned(), labels::MANAGED_BY_CONTROL_PLANE.to_owned()),
        (labels::ORGANIZATION.to_owned(), organization.to_owned()),
        (labels::NAME.to_owned(), organization.to_owned()),
    ])
}

fn namespace(organization: &Organization, ours: bool) -> Namespace {
    let name = organization.name_any();
    Namespace {
        metadata: ObjectMeta {
            labels: Some(namespace_labels(&name)),
            owner_references: ours
                .then(|| organization.controller_owner_ref(&()).into_iter().collect::<Vec<OwnerReference>>()),
            name: Some(name),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    }
}

/// The namespace without anything of ours: applied, it gives up what was applied before.
pub fn disowned_namespace(organization: &Organization) -> Namespace {
    Namespace {
        metadata: ObjectMeta { name: Some(organization.name_any()), ..ObjectMeta::default() },
        ..Namespace::default()
    }
}

/// How far the organization is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The namespace is there.
    Ready,
    /// The namespace of that name is being deleted.
    NamespaceTerminating,
    /// The namespace belongs to someone else.
    Conflict(String),
    /// The API server refused the namespace.
    Refused(String),
    /// The organization is being deleted and waits for something.
    Finalizing(String),
    /// The user has stopped writes.
    Paused,
}

/// The status that says so.
pub fn status(organization: &Organization, progress: &Progress, now: &Time) -> OrganizationStatus {
    let name = organization.name_any();
    let generation = organization.metadata.generation;
    let mut status = organization.status.clone().unwrap_or_default();
    let standing = match progress {
        Progress::Ready => Standing::Ready {
            reason: reasons::NAMESPACE_CREATED,
            message: format!("namespace {name} is ready"),
        },
        Progress::NamespaceTerminating => Standing::Progressing {
            reason: reasons::NAMESPACE_TERMINATING,
            message: format!("namespace {name} is being deleted; it is made anew when it has gone"),
        },
        Progress::Conflict(why) => {
            Standing::Stalled { reason: reasons::NAMESPACE_CONFLICT, message: why.clone() }
        }
        Progress::Refused(why) => {
            Standing::Stalled { reason: reasons::NAMESPACE_REFUSED, message: why.clone() }
        }
        Progress::Finalizing(message) => Standing::Finalizing { message: message.clone(), in_use: false },
        Progress::Paused => Standing::Paused,
    };
    status.conditions = conditions_of(&ORGANIZATION, &standing, &status.conditions, generation, now);
    if let Progress::Finalizing(message) = progress {
        let deleting =
            Statement::new(types::DELETING, Status::True, reasons::ORGANIZATION_FINALIZING, message.clone());
        conditions::set(&mut status.conditions, deleting, generation, now);
    }
    status.observed_generation = generation;
    if *progress == Progress::Ready {
        status.namespace = Some(name);
    }
    status
}

#[cfg(test)]
mod tests;
