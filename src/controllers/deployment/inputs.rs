//! What a Deployment is rendered from, found in the world.

use std::{collections::BTreeMap, sync::Arc};

use kantor_api::{
    Build, Component, ConfigurationGroup, DeployableArtifact, Deployment, DeploymentTrack, Environment,
    Project,
    conditions::{Status, reasons},
    deployment::{DeploymentStatus, ObservedArtifact},
};
use kantor_core::{
    deployment::{self, Inputs, PlaneParts, Problem, Rendered},
    hierarchy::{Id, Kind, Need, logical_name, organization_of},
    known::Known,
    lifecycle::Standing,
    release::is_on,
};
use kube::ResourceExt;

use super::ArtifactSays;
use crate::{
    apply::WriteError,
    controllers::{
        Context,
        shared::{
            parents::{at_rest, find, get},
            secrets,
            targets::Place,
        },
    },
    planes::{Capability, Plane},
    runtime::status,
};

/// Everything that a Deployment refers to.
pub(super) struct Resolved {
    pub project: Arc<Project>,
    pub component: Arc<Component>,
    pub track: Arc<DeploymentTrack>,
    pub environment: Arc<Environment>,
    pub artifact: Arc<DeployableArtifact>,
    build: Option<Arc<Build>>,
    groups: BTreeMap<String, Arc<ConfigurationGroup>>,
}

/// Why nothing is done.
pub(super) struct Stop {
    pub standing: Standing,
    pub artifact: Option<ArtifactSays>,
}

impl From<Standing> for Stop {
    fn from(standing: Standing) -> Self {
        Self { standing, artifact: None }
    }
}

impl Stop {
    fn stalled(reason: &'static str, message: String) -> Self {
        Self { standing: Standing::Stalled { reason, message }, artifact: None }
    }
}

/// Finds what a Deployment refers to, and whether it may run.
pub(super) fn resolve(deployment: &Deployment, context: &Context) -> Result<Resolved, Stop> {
    let stores = &context.world.stores;
    let project = find(deployment, Kind::Project, &stores.projects, context)?;
    let component = find(deployment, Kind::Component, &stores.components, context)?;
    let track = find(deployment, Kind::DeploymentTrack, &stores.deployment_tracks, context)?;
    let environment = find(deployment, Kind::Environment, &stores.environments, context)?;
    let artifact = find(deployment, Kind::DeployableArtifact, &stores.deployable_artifacts, context)
        .map_err(|standing| artifact_missing(standing.into()))?;
    for parent in [
        at_rest(&*project),
        at_rest(&*component),
        at_rest(&*track),
        at_rest(&*environment),
        at_rest(&*artifact),
    ] {
        parent?;
    }
    alone(deployment, &track, context)?;
    let build = context.world.resolve(&*artifact, Kind::Build).ok();
    let build = build.and_then(|id| get(&stores.builds, &id));
    let groups = deployment::groups_used(&artifact, deployment).into_iter().filter_map(|name| {
        let group = context.world.find(&Need {
            kind: Kind::ConfigurationGroup,
            namespace: deployment.namespace().unwrap_or_default(),
            scope: vec![organization_of(deployment)],
            name: name.clone(),
            passes_on: &[],
        });
        Some((name, get(&stores.configuration_groups, &group.ok()?)?))
    });
    Ok(Resolved { groups: groups.collect(), build, project, component, track, environment, artifact })
}

/// Whether a Deployment, or its artifact, is another one than its status is about.
pub(super) fn is_behind(deployment: &Deployment, context: &Context) -> bool {
    let artifacts = &context.world.stores.deployable_artifacts;
    let Ok(artifact) = find(deployment, Kind::DeployableArtifact, artifacts, context) else { return false };
    let observed = deployment.status.as_ref().and_then(|status| status.observed_artifact.as_ref());
    !status::is_spoken_for(deployment) || observed.is_some_and(|observed| *observed != observed_as(&artifact))
}

fn observed_as(artifact: &DeployableArtifact) -> ObservedArtifact {
    ObservedArtifact { name: artifact.name_any(), generation: artifact.metadata.generation }
}

impl Resolved {
    /// The artifact as it is now.
    pub fn observed_artifact(&self) -> ObservedArtifact {
        observed_as(&self.artifact)
    }

    /// Whether the environment has noted the namespace that is about to be made.
    pub fn is_namespace_recorded(&self, status: &DeploymentStatus) -> bool {
        let (Some(plane), Some(name)) = (&status.data_plane, &status.namespace) else { return false };
        let recorded = self.environment.status.iter().flat_map(|status| &status.namespaces);
        recorded.into_iter().any(|record| record.name == *name && is_on(&record.data_plane, plane))
    }

    /// All objects of the Deployment, or what is wrong.
    pub async fn render(
        &self,
        deployment: &Deployment,
        place: &Place,
        parts: PlaneParts,
        context: &Context,
    ) -> Result<Result<Rendered, Vec<Problem>>, WriteError> {
        let names = deployment::secrets_used(&self.artifact, deployment);
        let secrets = secrets::read(&deployment.namespace().unwrap_or_default(), &names, context).await?;
        Ok(deployment::render(&Inputs {
            deployment,
            project: &self.project,
            component: &self.component,
            track: &self.track,
            environment: &self.environment,
            data_plane: &place.data_plane,
            artifact: &self.artifact,
            build: self.build.as_deref(),
            groups: self.groups.iter().map(|(name, group)| (name.clone(), &**group)).collect(),
            secrets,
            plane: parts,
            settings: &context.settings,
        }))
    }
}

/// The optional parts of a plane that change what is rendered. The error says of which it cannot be told whether it has them:
/// the wrong form of isolation is none.
pub(super) fn parts(plane: &Plane) -> Result<PlaneParts, String> {
    let has = |capability: Capability| match capability.on(plane) {
        Known::Present(_) => Ok(true),
        Known::Absent(_) => Ok(false),
        Known::Unknown(why) => Err(format!("whether data plane {} has {capability}: {why}", plane.key.name)),
    };
    Ok(PlaneParts {
        cilium: has(Capability::Cilium)?,
        secrets_store: has(Capability::SecretsStoreCsi)?,
        autoscaling: has(Capability::Autoscaling)?,
    })
}

/// An artifact that is missing has a reason of its own.
fn artifact_missing(stop: Stop) -> Stop {
    let Standing::Stalled { message, .. } = stop.standing else { return stop };
    let artifact = Some((Status::False, reasons::ARTIFACT_NOT_FOUND, message.clone()));
    Stop { standing: Standing::Stalled { reason: reasons::ARTIFACT_NOT_FOUND, message }, artifact }
}

/// The objects on the plane are named after track and environment: only one Deployment can have them.
fn alone(deployment: &Deployment, track: &DeploymentTrack, context: &Context) -> Result<(), Stop> {
    let environment = |id: &Id| {
        let other = get(&context.world.stores.deployments, id)?;
        let environment = context.world.resolve(&*other, Kind::Environment).ok()?;
        Some((other, environment))
    };
    let Ok(own) = context.world.resolve(deployment, Kind::Environment) else { return Ok(()) };
    let age = |of: &Deployment| (of.metadata.creation_timestamp.clone(), of.name_any());
    let first = context
        .world
        .children(track, Kind::Deployment)
        .iter()
        .filter_map(environment)
        .filter(|(other, environment)| *environment == own && other.uid() != deployment.uid())
        .map(|(other, _)| other)
        .filter(|other| age(other) < age(deployment))
        .min_by_key(|other| age(other));
    let Some(first) = first else { return Ok(()) };
    let message = format!(
        "Deployment {} of track {} is in environment {} already; change its artifact, or delete it",
        first.name_any(),
        logical_name(track),
        own.name
    );
    Err(Stop::stalled(reasons::DUPLICATE_DEPLOYMENT, message))
}
