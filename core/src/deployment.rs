//! Deployments: from an artifact and its configuration to the objects that shall be on the data plane.
//!
//! [`render`] is a table of contents: what is asked for (`configuration`), which image runs (`image`), where values come
//! from (`sources`) and how they get into the container (`wiring`), and the objects that follow from it.
//!
//! Names, labels and pod templates are those of the system that Kantor takes over from: workloads that are there already
//! are found again and go on running. What differs on purpose says so where it is done.

mod configuration;
mod endpoints;
mod image;
mod place;
mod pod;
mod readiness;
mod shared;
mod sources;
mod values;
mod wiring;
mod workload;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use kantor_api::{
    Build, Component, ConfigurationGroup, DataPlane, DeployableArtifact, Deployment, DeploymentTrack,
    Endpoint, Environment, Project, common::InventoryItem,
};
use kube_core::{DynamicObject, ResourceExt};
pub use place::namespace_of;
pub(super) use place::{object, service_of, workload_labels};

use self::{configuration::Effective, place::Place, sources::Sources, workload::Runs};
pub use self::{
    readiness::{Bounds, EndpointTroubles, Move, Seen, first_replicas, runs, standing, verdict},
    shared::ISOLATION,
};
use super::{changes, settings::Settings};

/// Everything that a Deployment is rendered from.
#[derive(Clone)]
pub struct Inputs<'a> {
    /// The Deployment.
    pub deployment: &'a Deployment,
    /// Its project.
    pub project: &'a Project,
    /// Its component.
    pub component: &'a Component,
    /// Its deployment track.
    pub track: &'a DeploymentTrack,
    /// Its environment.
    pub environment: &'a Environment,
    /// The environment's data plane.
    pub data_plane: &'a DataPlane,
    /// The artifact that it names.
    pub artifact: &'a DeployableArtifact,
    /// The Build that the artifact names, if it names one that exists.
    pub build: Option<&'a Build>,
    /// The configuration groups that exist, by the names under which the configuration refers to them.
    pub groups: BTreeMap<String, &'a ConfigurationGroup>,
    /// The Secrets that the configuration names and that may be used, by name: their values, by key.
    pub secrets: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
    /// What the data plane has.
    pub plane: PlaneParts,
    /// What the operator was told.
    pub settings: &'a Settings,
}

/// The Secrets by their names alone.
impl fmt::Debug for Inputs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inputs")
            .field("deployment", &self.deployment.name_any())
            .field("artifact", &self.artifact.name_any())
            .field("groups", &self.groups.keys())
            .field("secrets", &self.secrets.keys())
            .field("plane", &self.plane)
            .finish_non_exhaustive()
    }
}

/// Optional parts of a data plane that change what is rendered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaneParts {
    /// Cilium's network policies.
    pub cilium: bool,
    /// Secrets Store CSI driver.
    pub secrets_store: bool,
    /// `autoscaling/v2`.
    pub autoscaling: bool,
}

/// What shall be there for a Deployment.
#[derive(Clone, PartialEq)]
pub struct Rendered {
    /// The image that runs.
    pub image: String,
    /// Namespace on the data plane.
    pub namespace: String,
    /// Objects on the data plane that the Deployments of a project and environment share: namespace and isolation.
    pub shared: Vec<DynamicObject>,
    /// Objects on the data plane that are the Deployment's own.
    pub own: Vec<DynamicObject>,
    /// Which of them tells whether the Deployment is ready.
    pub workload: InventoryItem,
    /// Between how many replicas an autoscaler scales it, if one does.
    pub bounds: Option<Bounds>,
    /// Endpoints in the control plane.
    pub endpoints: Vec<Endpoint>,
}

/// The objects by what identifies them alone: among them are Secrets.
impl fmt::Debug for Rendered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |objects: &[DynamicObject]| -> Vec<String> {
            objects.iter().map(|object| changes::shown(&item(object))).collect()
        };
        f.debug_struct("Rendered")
            .field("image", &self.image)
            .field("namespace", &self.namespace)
            .field("shared", &shown(&self.shared))
            .field("own", &shown(&self.own))
            .field("workload", &changes::shown(&self.workload))
            .field("bounds", &self.bounds)
            .field("endpoints", &self.endpoints)
            .finish()
    }
}

/// Why nothing can be rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Reason of the condition.
    pub reason: &'static str,
    /// What is wrong, and what to do.
    pub message: String,
    /// Whether it is about the artifact, its image or its configuration: then `ArtifactResolved` is false.
    pub of_artifact: bool,
}

impl Problem {
    /// Something about the artifact, its image or its configuration.
    fn artifact(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), of_artifact: true }
    }

    /// Something about what is made of it.
    fn workload(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), of_artifact: false }
    }
}

/// Names of the control plane's Secrets that the effective configuration uses.
pub fn secrets_used(artifact: &DeployableArtifact, deployment: &Deployment) -> BTreeSet<String> {
    sources::used(&Effective::of(artifact, deployment).application).secrets
}

/// Names of the configuration groups that the effective configuration uses, as it writes them.
pub fn groups_used(artifact: &DeployableArtifact, deployment: &Deployment) -> BTreeSet<String> {
    sources::used(&Effective::of(artifact, deployment).application).groups
}

/// Everything that shall be there for a Deployment, or everything that is wrong: never a part of the objects, since what
/// is missing would be taken for no longer wanted.
pub fn render(inputs: &Inputs<'_>) -> Result<Rendered, Vec<Problem>> {
    let place = Place::of(inputs);
    let effective = Effective::of(inputs.artifact, inputs.deployment);
    let mut problems = configuration::contradictions(inputs.artifact, inputs.deployment);
    let image = image::image(inputs).map_err(|problem| problems.push(problem)).ok();
    let mut sources = Sources::new(inputs, &place);
    let wiring = wiring::wiring(&effective.application, &mut sources, &mut problems);
    let ports = pod::ports(&effective.templates, &mut problems);
    let runs = Runs::of(inputs, &effective.application, &mut problems)
        .map_err(|problem| problems.push(problem))
        .ok();
    let configured = sources.finish(&mut problems);
    let (Some(image), Some(runs), true) = (image, runs, problems.is_empty()) else {
        // What is about the artifact comes first: the rest often follows from it.
        problems.sort_by(|a, b| {
            (!a.of_artifact, a.reason, &a.message).cmp(&(!b.of_artifact, b.reason, &b.message))
        });
        problems.dedup();
        return Err(problems);
    };
    let pod = pod::Pod {
        image: &image,
        application: &effective.application,
        ports: &ports,
        wiring,
        pull_secret: inputs.data_plane.spec.registry.as_ref().and_then(|r| r.secret_ref.as_deref()),
        checksum: configured.checksum.as_deref(),
    };
    let workload = runs.workload(inputs, &place, pod);
    let item = item(&workload);
    let mut own = configured.objects;
    own.extend(runs.companions(&place, &ports, &item.name));
    own.push(workload);
    own.sort_by_cached_key(|object| {
        let (group, _, kind) = changes::identity(object);
        (changes::stage(&group, &kind), kind, object.name_any())
    });
    Ok(Rendered {
        image,
        shared: shared::objects(inputs, &place),
        own,
        workload: item,
        bounds: runs.bounds(),
        endpoints: endpoints::endpoints(inputs.deployment, &effective.templates),
        namespace: place.namespace,
    })
}

/// What identifies an object.
fn item(object: &DynamicObject) -> InventoryItem {
    let (group, version, kind) = changes::identity(object);
    let namespace = object.namespace().unwrap_or_default();
    InventoryItem { group, version, kind, namespace, name: object.name_any(), uid: None }
}

#[cfg(test)]
mod tests;
