//! The life of the objects of the hierarchy: what they need to be ready, and what goes before them when they go.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kantor_api::{
    annotations,
    conditions::{self, Statement, Status, reasons, types},
    finalizers,
};
use kube_core::ResourceExt;

use super::hierarchy::{Facts, Id, Kind, ResolveError};

/// What is particular about a kind.
#[derive(Debug)]
pub struct Profile {
    /// The kind.
    pub kind: Kind,
    /// Its finalizer, if it cleans up.
    pub finalizer: Option<&'static str>,
    /// Condition type by which the reference says that it was accepted.
    pub accepted: Option<&'static str>,
    /// Reason when it is ready.
    pub ready: &'static str,
    /// Reason while it is being deleted.
    pub finalizing: &'static str,
    /// What has to exist for it to be ready.
    pub needs: &'static [Kind],
    /// What has to be gone before it goes, stage by stage.
    pub on_delete: &'static [Stage],
}

/// A step of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Children of these kinds are deleted with it.
    Delete(&'static [Kind]),
    /// Objects of these kinds use it: they are waited for.
    Await(&'static [Kind]),
}

impl Stage {
    /// The kinds that it is about.
    pub fn kinds(&self) -> &'static [Kind] {
        let (Self::Delete(kinds) | Self::Await(kinds)) = self;
        kinds
    }
}

/// Organizations.
pub const ORGANIZATION: Profile = Profile {
    kind: Kind::Organization,
    finalizer: Some(finalizers::ORGANIZATION),
    accepted: None,
    ready: reasons::NAMESPACE_CREATED,
    finalizing: reasons::ORGANIZATION_FINALIZING,
    needs: &[],
    on_delete: &[
        Stage::Delete(&[Kind::Project, Kind::Release]),
        // Those that no project took along: they would keep their environments.
        Stage::Delete(&[Kind::Deployment]),
        Stage::Delete(&[Kind::Environment]),
        Stage::Delete(&[Kind::DataPlane]),
    ],
};

/// Data planes.
pub const DATA_PLANE: Profile = Profile {
    kind: Kind::DataPlane,
    finalizer: Some(finalizers::DATA_PLANE),
    accepted: Some(types::CREATED),
    ready: reasons::DATA_PLANE_CONNECTED,
    finalizing: reasons::DATA_PLANE_FINALIZING,
    needs: &[],
    // Deployments, Endpoints and Releases: those that still have objects there.
    on_delete: &[Stage::Await(&[Kind::Environment, Kind::Deployment, Kind::Endpoint, Kind::Release])],
};

/// Environments.
pub const ENVIRONMENT: Profile = Profile {
    kind: Kind::Environment,
    finalizer: Some(finalizers::ENVIRONMENT),
    accepted: None,
    ready: reasons::ENVIRONMENT_READY,
    finalizing: reasons::ENVIRONMENT_FINALIZING,
    needs: &[Kind::DataPlane],
    on_delete: &[Stage::Await(&[Kind::Deployment, Kind::Release])],
};

/// Pipelines.
pub const DEPLOYMENT_PIPELINE: Profile = Profile {
    kind: Kind::DeploymentPipeline,
    finalizer: None,
    accepted: Some(types::AVAILABLE),
    ready: reasons::DEPLOYMENT_PIPELINE_AVAILABLE,
    finalizing: reasons::DEPLOYMENT_PIPELINE_AVAILABLE,
    needs: &[Kind::Environment],
    on_delete: &[],
};

/// Projects.
pub const PROJECT: Profile = Profile {
    kind: Kind::Project,
    finalizer: Some(finalizers::PROJECT),
    accepted: Some(types::CREATED),
    ready: reasons::PROJECT_CREATED,
    finalizing: reasons::PROJECT_FINALIZING,
    needs: &[Kind::DeploymentPipeline],
    on_delete: &[Stage::Delete(&[Kind::Component])],
};

/// Components.
pub const COMPONENT: Profile = Profile {
    kind: Kind::Component,
    finalizer: Some(finalizers::COMPONENT),
    accepted: None,
    ready: reasons::COMPONENT_READY,
    finalizing: reasons::COMPONENT_FINALIZING,
    needs: &[Kind::Project],
    on_delete: &[Stage::Delete(&[Kind::DeploymentTrack, Kind::Release])],
};

/// Deployment tracks.
pub const DEPLOYMENT_TRACK: Profile = Profile {
    kind: Kind::DeploymentTrack,
    finalizer: Some(finalizers::DEPLOYMENT_TRACK),
    accepted: Some(types::AVAILABLE),
    ready: reasons::DEPLOYMENT_TRACK_AVAILABLE,
    finalizing: reasons::DEPLOYMENT_TRACK_FINALIZING,
    needs: &[Kind::Component],
    on_delete: &[
        Stage::Delete(&[Kind::Deployment]),
        Stage::Delete(&[Kind::DeployableArtifact]),
        Stage::Delete(&[Kind::Build]),
    ],
};

/// Artifacts.
pub const DEPLOYABLE_ARTIFACT: Profile = Profile {
    kind: Kind::DeployableArtifact,
    finalizer: Some(finalizers::DEPLOYABLE_ARTIFACT),
    accepted: Some(types::AVAILABLE),
    ready: reasons::DEPLOYABLE_ARTIFACT_AVAILABLE,
    finalizing: reasons::DEPLOYABLE_ARTIFACT_FINALIZING,
    needs: &[Kind::DeploymentTrack],
    on_delete: &[Stage::Await(&[Kind::Deployment])],
};

/// Deployments.
pub const DEPLOYMENT: Profile = Profile {
    kind: Kind::Deployment,
    finalizer: Some(finalizers::DEPLOYMENT),
    accepted: None,
    ready: reasons::DEPLOYMENT_READY,
    finalizing: reasons::DEPLOYMENT_FINALIZING,
    needs: &[Kind::Project, Kind::Component, Kind::DeploymentTrack, Kind::Environment],
    on_delete: &[Stage::Delete(&[Kind::Endpoint])],
};

/// Endpoints.
pub const ENDPOINT: Profile = Profile {
    kind: Kind::Endpoint,
    finalizer: Some(finalizers::ENDPOINT),
    accepted: None,
    ready: reasons::ENDPOINT_READY,
    finalizing: reasons::ENDPOINT_FINALIZING,
    needs: &[Kind::Project, Kind::Component, Kind::DeploymentTrack, Kind::Environment, Kind::Deployment],
    on_delete: &[],
};

/// Releases.
pub const RELEASE: Profile = Profile {
    kind: Kind::Release,
    finalizer: Some(finalizers::RELEASE),
    accepted: None,
    ready: reasons::RESOURCES_ACTIVE,
    finalizing: reasons::CLEANUP_IN_PROGRESS,
    needs: &[Kind::Environment],
    on_delete: &[],
};

/// How an object stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// All is well.
    Ready {
        /// Why, in one word.
        reason: &'static str,
        /// For people.
        message: String,
    },
    /// Something has to be done first.
    Stalled {
        /// Why, in one word.
        reason: &'static str,
        /// What.
        message: String,
    },
    /// It will change by itself.
    Progressing {
        /// Why, in one word.
        reason: &'static str,
        /// For people.
        message: String,
    },
    /// It cannot be told.
    Unknown {
        /// Why, in one word.
        reason: &'static str,
        /// For people.
        message: String,
    },
    /// It is being deleted.
    Finalizing {
        /// What for it waits.
        message: String,
        /// Whether somebody has to do something for it to go on.
        in_use: bool,
    },
    /// Writes are stopped by the user.
    Paused,
}

impl Standing {
    /// The standing of an object of which something that it refers to was not found.
    pub fn unresolved(error: &ResolveError) -> Self {
        let reason = match error {
            ResolveError::Missing { .. } | ResolveError::Unnamed(_) => reasons::REFERENCE_NOT_FOUND,
            ResolveError::Ambiguous { .. } => reasons::REFERENCE_AMBIGUOUS,
            ResolveError::Unlabelled(_) => reasons::LABEL_MISSING,
        };
        Self::Stalled { reason, message: error.to_string() }
    }
}

/// Whether the user has stopped writes for `object`.
pub fn is_paused(object: &impl ResourceExt) -> bool {
    object.annotations().get(annotations::PAUSED).is_some_and(|value| value == "true")
}

/// Whether the user lets `object` go without cleaning up.
pub fn is_orphaning(object: &impl ResourceExt) -> bool {
    object
        .annotations()
        .get(annotations::DELETION_POLICY)
        .is_some_and(|v| v == annotations::DELETION_POLICY_ORPHAN)
}

/// What is to be done about an object in this moment of its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Nothing: it is going, and nothing of ours holds it.
    Leave,
    /// The user has stopped writes: say so.
    Rest,
    /// It is being deleted: clean up after it.
    Finalize,
    /// Nothing is done for it before its clean-up is sure: put this finalizer on it, whose change wakes it again.
    Hold(&'static str),
    /// Bring it to what it shall be.
    Keep,
}

/// What is to be done about an object in this moment of its life.
pub fn turn(object: &impl ResourceExt, profile: &Profile) -> Turn {
    let deleting = object.meta().deletion_timestamp.is_some();
    let held = profile.finalizer.is_some_and(|ours| object.finalizers().iter().any(|f| f == ours));
    match profile.finalizer {
        _ if deleting && !held => Turn::Leave,
        _ if is_paused(object) => Turn::Rest,
        _ if deleting => Turn::Finalize,
        Some(finalizer) if !held => Turn::Hold(finalizer),
        _ => Turn::Keep,
    }
}

/// The conditions that say how an object stands. Those of other types are kept.
pub fn conditions_of(
    profile: &Profile,
    standing: &Standing,
    before: &[Condition],
    generation: Option<i64>,
    now: &Time,
) -> Vec<Condition> {
    let mut after = before.to_vec();
    let (ready, reconciling, stalled, reason, message) = match standing {
        Standing::Ready { reason, message } => (Some(Status::True), false, false, *reason, message.clone()),
        Standing::Stalled { reason, message } => (Some(Status::False), false, true, *reason, message.clone()),
        Standing::Progressing { reason, message } => {
            (Some(Status::False), true, false, *reason, message.clone())
        }
        Standing::Unknown { reason, message } => {
            (Some(Status::Unknown), true, false, *reason, message.clone())
        }
        Standing::Finalizing { message, in_use } => {
            // It goes on by itself, or somebody has to do something: never both.
            (Some(Status::False), !*in_use, *in_use, profile.finalizing, message.clone())
        }
        // What was true stays said; nothing is done about it.
        Standing::Paused => {
            let message =
                format!("writes are stopped by the annotation {}; remove it to go on", annotations::PAUSED);
            (None, false, true, reasons::PAUSED, message)
        }
    };
    let mut set = |type_, status, reason, message: String| {
        conditions::set(&mut after, Statement::new(type_, status, reason, message), generation, now);
    };
    if let Some(accepted) = profile.accepted {
        set(accepted, Status::True, profile_accepted(profile), "accepted".to_owned());
    }
    if let Some(ready) = ready {
        set(types::READY, ready, reason, message.clone());
    }
    let stalled_reason =
        if matches!(standing, Standing::Finalizing { in_use: true, .. }) { reasons::IN_USE } else { reason };
    set(types::RECONCILING, reconciling.into(), reason, message.clone());
    set(types::STALLED, stalled.into(), stalled_reason, message.clone());
    if matches!(standing, Standing::Finalizing { .. }) {
        set(types::FINALIZING, Status::True, reason, message);
    }
    after
}

/// The conditions of a paused object that is looked at all the same: `Ready` says what is `seen`.
pub fn conditions_while_paused(
    profile: &Profile,
    seen: &Standing,
    before: &[Condition],
    generation: Option<i64>,
    now: &Time,
) -> Vec<Condition> {
    let mut after = conditions_of(profile, &Standing::Paused, before, generation, now);
    let observed = conditions_of(profile, seen, before, generation, now);
    if let Some(ready) = conditions::get(&observed, types::READY) {
        match after.iter_mut().find(|condition| condition.type_ == types::READY) {
            Some(said) => said.clone_from(ready),
            None => after.push(ready.clone()),
        }
    }
    after
}

/// The reason that the reference gives with its condition of acceptance.
fn profile_accepted(profile: &Profile) -> &'static str {
    match profile.kind {
        Kind::DataPlane => reasons::DATA_PLANE_CREATED,
        _ => profile.ready,
    }
}

/// What is next when an object is being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeletionStep {
    /// Delete these, each with its UID, and wait for them to go.
    Delete {
        /// Those that are not being deleted yet.
        now: Vec<(Id, Option<String>)>,
        /// What is waited for.
        message: String,
    },
    /// Wait until these are gone or use something else.
    InUse {
        /// What is waited for.
        message: String,
    },
    /// Nothing stands in the way.
    Done,
}

/// What is next, given who is left: `left` tells the children of a kind.
pub fn deletion_step(stages: &[Stage], left: impl Fn(Kind) -> Vec<Facts>) -> DeletionStep {
    for stage in stages {
        let left: Vec<Facts> = stage.kinds().iter().flat_map(|kind| left(*kind)).collect();
        if left.is_empty() {
            continue;
        }
        let names = list(&left);
        return match stage {
            Stage::Delete(_) => DeletionStep::Delete {
                now: left
                    .into_iter()
                    .filter(|child| !child.deleting)
                    .map(|child| (child.id, child.uid))
                    .collect(),
                message: format!("waiting for {names} to be deleted"),
            },
            Stage::Await(_) => DeletionStep::InUse {
                message: format!("still used by {names}; delete them or point them elsewhere"),
            },
        };
    }
    DeletionStep::Done
}

/// "Component a, Component b and 3 more".
fn list(objects: &[Facts]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> = objects.iter().take(SHOWN).map(|object| object.id.to_string()).collect();
    match objects.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests;
