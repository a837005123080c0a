//! What each kind refers to.

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
};

use k8s_openapi::{
    api::core::v1::{Namespace, Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kantor_api::{
    Build, Component, ConfigurationGroup, DataPlane, DeployableArtifact, Deployment, DeploymentPipeline,
    DeploymentTrack, Endpoint, Environment, HostnameClaim, Organization, Project, Release,
    application::Application, common::PlaneRecord, labels,
};
use kube_core::{PartialObjectMeta, Resource, ResourceExt};

use super::{Facts, Id, Kind, Need, Place};
use crate::endpoint::secrets_used;

/// Namespace in which environments are looked for when a Release's own has none of the name.
pub const FALLBACK_NAMESPACE: &str = "default";

/// Labels with the logical names of an object's parents, from the organization down.
const ORGANIZATION: &[&str] = &[labels::ORGANIZATION];
const PROJECT: &[&str] = &[labels::ORGANIZATION, labels::PROJECT];
const COMPONENT: &[&str] = &[labels::ORGANIZATION, labels::PROJECT, labels::COMPONENT];
const TRACK: &[&str] = &[labels::ORGANIZATION, labels::PROJECT, labels::COMPONENT, labels::DEPLOYMENT_TRACK];
const DEPLOYMENT: &[&str] = &[
    labels::ORGANIZATION,
    labels::PROJECT,
    labels::COMPONENT,
    labels::DEPLOYMENT_TRACK,
    labels::ENVIRONMENT,
];
const ENDPOINT: &[&str] = &[
    labels::ORGANIZATION,
    labels::PROJECT,
    labels::COMPONENT,
    labels::DEPLOYMENT_TRACK,
    labels::ENVIRONMENT,
    labels::DEPLOYMENT,
];

/// A kind that refers or is referred to.
pub trait Described {
    /// What has to be known of the object.
    fn facts(&self) -> Facts;
}

/// The value of a label that is not empty.
fn label(object: &impl ResourceExt, key: &str) -> Option<String> {
    object.labels().get(key).filter(|value| !value.is_empty()).cloned()
}

/// The logical name of an object.
pub fn logical_name(object: &impl ResourceExt) -> String {
    label(object, labels::NAME).unwrap_or_else(|| object.name_any())
}

/// The organization of an object: its namespace. What its label says is for whoever may write there to say, and would lead
/// into the namespaces that another organization has on a data plane.
pub fn organization_of(object: &impl ResourceExt) -> String {
    object.namespace().unwrap_or_default()
}

/// Collects the facts of one object.
struct Describing<'a, K> {
    object: &'a K,
    kind: Kind,
    parents: &'static [&'static str],
    needs: Vec<Need>,
    places: BTreeSet<Place>,
    missing_labels: BTreeSet<&'static str>,
}

impl<'a, K: Resource<DynamicType = ()>> Describing<'a, K> {
    fn new(kind: Kind, object: &'a K, parents: &'static [&'static str]) -> Self {
        Self {
            object,
            kind,
            parents,
            needs: vec![],
            places: BTreeSet::new(),
            missing_labels: BTreeSet::new(),
        }
    }

    fn namespace(&self) -> String {
        self.object.namespace().unwrap_or_default()
    }

    /// The label's value; an organization that is not named is that of the namespace.
    fn label(&self, key: &str) -> Option<String> {
        label(self.object, key).or_else(|| self.object.namespace().filter(|_| key == labels::ORGANIZATION))
    }

    /// The parent that the last label of `path` names, below those of the others.
    fn parent(self, kind: Kind, path: &'static [&'static str]) -> Self {
        let (own, scope) = path.split_last().map_or(("", path), |(own, scope)| (*own, scope));
        let name = self.label(own);
        self.refers(kind, scope, name, own)
    }

    /// Another object, `name`d by the field `field`, below the parents of `path`.
    fn refers(
        mut self,
        kind: Kind,
        path: &[&'static str],
        name: Option<String>,
        field: &'static str,
    ) -> Self {
        let scope: Vec<Option<String>> = path.iter().map(|key| self.label(key)).collect();
        let gaps: Vec<&'static str> =
            path.iter().zip(&scope).filter(|(_, value)| value.is_none()).map(|(key, _)| *key).collect();
        self.missing_labels.extend(gaps);
        match (scope.into_iter().collect::<Option<Vec<_>>>(), name) {
            (Some(scope), Some(name)) => {
                let namespace = if kind == Kind::Organization { String::new() } else { self.namespace() };
                self.needs.push(Need { kind, namespace, scope, name, passes_on: &[] });
            }
            (_, None) if field.contains('/') => {
                self.missing_labels.insert(field);
            }
            _ => {}
        }
        self
    }

    fn names(mut self, kind: Kind, namespace: String, name: String) -> Self {
        self.needs.push(Need { kind, namespace, scope: vec![], name, passes_on: &[] });
        self
    }

    /// Data planes that it has objects on, wherever its environment is by now. They are recorded by namespace and
    /// `metadata.name`: nothing but that is asked of them, so that no other one of the logical name can be meant.
    fn on_planes(self, planes: BTreeSet<(String, String)>) -> Self {
        planes
            .into_iter()
            .fold(self, |describing, (namespace, name)| describing.names(Kind::DataPlane, namespace, name))
    }

    /// Namespaces of data planes in which it says that it is.
    fn placed<'n>(mut self, places: impl Iterator<Item = (&'n PlaneRecord, &'n String)>) -> Self {
        self.places.extend(places.map(|(plane, namespace)| Place {
            plane: (plane.namespace.clone(), plane.name.clone()),
            namespace: namespace.clone(),
        }));
        self
    }

    /// Claims of host names that it holds or waits for.
    fn claims<'n>(mut self, names: impl Iterator<Item = &'n String>) -> Self {
        for name in names {
            self = self.names(Kind::HostnameClaim, String::new(), name.clone());
        }
        self
    }

    /// What was added last concerns those of `kinds` who need this object, too.
    fn passing_on(mut self, from: usize, kinds: &'static [Kind]) -> Self {
        self.needs[from..].iter_mut().for_each(|need| need.passes_on = kinds);
        self
    }

    fn facts(self, essence: impl Hash, report: impl Hash) -> Facts {
        let meta = self.object.meta();
        let deleted = meta.deletion_timestamp.is_some();
        // Objects of Kubernetes itself are known by their name alone.
        let logical = !matches!(self.kind, Kind::Namespace | Kind::Secret);
        Facts {
            id: Id::new(self.kind, self.namespace(), self.object.name_any()),
            uid: meta.uid.clone(),
            owners: meta.owner_references.iter().flatten().map(|owner| owner.uid.clone()).collect(),
            deleting: deleted,
            scope: self.parents.iter().map(|key| self.label(key)).collect(),
            logical_name: self
                .object
                .labels()
                .get(labels::NAME)
                .filter(|name| logical && !name.is_empty())
                .cloned(),
            places: self.places.into_iter().collect(),
            missing_labels: self.missing_labels.into_iter().collect(),
            essence: digest((
                (&meta.uid, meta.generation, &meta.labels, &meta.annotations, deleted),
                owners(meta),
                essence,
            )),
            report: digest((deleted, report)),
            needs: self.needs,
        }
    }
}

/// By whom an object is owned: a namespace that others control cannot be an organization's.
fn owners(meta: &ObjectMeta) -> Vec<(&str, Option<bool>)> {
    meta.owner_references.iter().flatten().map(|owner| (owner.uid.as_str(), owner.controller)).collect()
}

fn digest(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Described for Organization {
    fn facts(&self) -> Facts {
        Describing::new(Kind::Organization, self, &[])
            .names(Kind::Namespace, String::new(), self.name_any())
            .facts((), ())
    }
}

impl Described for PartialObjectMeta<Namespace> {
    fn facts(&self) -> Facts {
        Describing::new(Kind::Namespace, self, &[]).facts((), ())
    }
}

impl Described for PartialObjectMeta<Secret> {
    fn facts(&self) -> Facts {
        Describing::new(Kind::Secret, self, &[]).facts(self.resource_version(), ())
    }
}

impl Described for DataPlane {
    fn facts(&self) -> Facts {
        let cluster = &self.spec.kubernetes_cluster;
        let mut secrets: BTreeSet<&str> =
            cluster.secret_ref.iter().map(|secret| secret.name.as_str()).collect();
        secrets.extend(cluster.tls.iter().filter_map(|tls| tls.ca.secret_ref.as_deref()));
        if let Some(auth) = &cluster.auth {
            let mtls = auth.mtls.iter().flat_map(|mtls| [&mtls.client_cert, &mtls.client_key]);
            secrets.extend(mtls.chain(&auth.bearer_token).filter_map(|value| value.secret_ref.as_deref()));
        }
        let describing =
            Describing::new(Kind::DataPlane, self, ORGANIZATION).parent(Kind::Organization, ORGANIZATION);
        let namespace = describing.namespace();
        secrets
            .into_iter()
            .fold(describing, |describing, secret| {
                describing.names(Kind::Secret, namespace.clone(), secret.to_owned())
            })
            .facts(self.status.as_ref().and_then(|status| status.cluster_uid.clone()), ())
    }
}

impl Described for Environment {
    fn facts(&self) -> Facts {
        // Deployments wait for theirs to be recorded.
        let namespaces: Vec<_> = self
            .status
            .iter()
            .flat_map(|status| &status.namespaces)
            .map(|record| {
                let plane = &record.data_plane;
                (&record.name, &plane.namespace, &plane.name, &plane.cluster_uid)
            })
            .collect();
        let describing =
            Describing::new(Kind::Environment, self, ORGANIZATION).parent(Kind::Organization, ORGANIZATION);
        let before = describing.needs.len();
        describing
            .refers(Kind::DataPlane, ORGANIZATION, self.spec.data_plane_ref.clone(), "")
            .passing_on(before, &[Kind::Deployment, Kind::Endpoint, Kind::Release])
            .facts(namespaces, ())
    }
}

impl Described for DeploymentPipeline {
    fn facts(&self) -> Facts {
        let paths = &self.spec.promotion_paths;
        let environments: BTreeSet<&String> = paths
            .iter()
            .flat_map(|path| {
                let targets = path.target_environment_refs.iter().map(|target| &target.name);
                targets.chain([&path.source_environment_ref])
            })
            .collect();
        let describing = Describing::new(Kind::DeploymentPipeline, self, ORGANIZATION)
            .parent(Kind::Organization, ORGANIZATION);
        environments
            .into_iter()
            .fold(describing, |describing, name| {
                describing.refers(Kind::Environment, ORGANIZATION, Some(name.clone()), "")
            })
            .facts((), ())
    }
}

impl Described for ConfigurationGroup {
    fn facts(&self) -> Facts {
        Describing::new(Kind::ConfigurationGroup, self, ORGANIZATION)
            .parent(Kind::Organization, ORGANIZATION)
            .facts((), ())
    }
}

impl Described for Project {
    fn facts(&self) -> Facts {
        let pipeline = Some(self.spec.deployment_pipeline_ref.clone());
        Describing::new(Kind::Project, self, ORGANIZATION)
            .parent(Kind::Organization, ORGANIZATION)
            .refers(Kind::DeploymentPipeline, ORGANIZATION, pipeline, "")
            .facts((), ())
    }
}

impl Described for Component {
    fn facts(&self) -> Facts {
        Describing::new(Kind::Component, self, PROJECT).parent(Kind::Project, PROJECT).facts((), ())
    }
}

impl Described for DeploymentTrack {
    fn facts(&self) -> Facts {
        Describing::new(Kind::DeploymentTrack, self, COMPONENT)
            .parent(Kind::Project, PROJECT)
            .parent(Kind::Component, COMPONENT)
            .facts((), ())
    }
}

impl Described for Build {
    fn facts(&self) -> Facts {
        let image =
            self.status.as_ref().and_then(|status| status.image_status.as_ref()).map(|s| s.image.clone());
        Describing::new(Kind::Build, self, TRACK)
            .parent(Kind::Component, COMPONENT)
            .parent(Kind::DeploymentTrack, TRACK)
            .facts(image, ())
    }
}

impl Described for DeployableArtifact {
    fn facts(&self) -> Facts {
        let describing = Describing::new(Kind::DeployableArtifact, self, TRACK)
            .parent(Kind::Project, PROJECT)
            .parent(Kind::Component, COMPONENT)
            .parent(Kind::DeploymentTrack, TRACK);
        let before = describing.needs.len();
        let build = self.spec.target_artifact.from_build_ref.as_ref().and_then(|build| build.name.clone());
        let application = self.spec.configuration.as_ref().and_then(|c| c.application.as_ref());
        describing
            .refers(Kind::Build, TRACK, build, "")
            .values_of(application)
            .passing_on(before, &[Kind::Deployment])
            .facts((), ())
    }
}

impl<K: Resource<DynamicType = ()>> Describing<'_, K> {
    /// The configuration groups and Secrets that an application takes values from.
    fn values_of(self, application: Option<&Application>) -> Self {
        let Some(application) = application else { return self };
        let namespace = self.namespace();
        let with_groups = configuration_groups(application).into_iter().fold(self, |describing, group| {
            describing.refers(Kind::ConfigurationGroup, ORGANIZATION, Some(group.to_owned()), "")
        });
        secrets(application).into_iter().fold(with_groups, |describing, secret| {
            describing.names(Kind::Secret, namespace.clone(), secret.to_owned())
        })
    }
}

/// Names of the Secrets that an application takes values from.
fn secrets(application: &Application) -> BTreeSet<&str> {
    let env = application.env.iter().filter_map(|env| env.value_from.as_ref());
    let files = application.file_mounts.iter().filter_map(|file| file.value_from.as_ref());
    let keys = env.chain(files).filter_map(|from| Some(from.secret_ref.as_ref()?.name.as_str()));
    let env_from =
        application.env_from.iter().filter_map(|from| Some(from.secret_ref.as_ref()?.name.as_str()));
    let files_from =
        application.file_mounts_from.iter().filter_map(|from| Some(from.secret_ref.as_ref()?.name.as_str()));
    keys.chain(env_from).chain(files_from).collect()
}

/// Names of the configuration groups that an application takes values from.
fn configuration_groups(application: &Application) -> BTreeSet<&str> {
    let env = application.env.iter().filter_map(|env| env.value_from.as_ref());
    let files = application.file_mounts.iter().filter_map(|file| file.value_from.as_ref());
    let keys = env.chain(files).filter_map(|from| Some(from.configuration_group_ref.as_ref()?.name.as_str()));
    let env_from = application
        .env_from
        .iter()
        .filter_map(|from| Some(from.configuration_group_ref.as_ref()?.name.as_str()));
    let files_from = application
        .file_mounts_from
        .iter()
        .filter_map(|from| Some(from.configuration_group_ref.as_ref()?.name.as_str()));
    keys.chain(env_from).chain(files_from).collect()
}

impl Described for Deployment {
    fn facts(&self) -> Facts {
        let describing = Describing::new(Kind::Deployment, self, DEPLOYMENT)
            .parent(Kind::Organization, ORGANIZATION)
            .parent(Kind::Project, PROJECT)
            .parent(Kind::Component, COMPONENT)
            .parent(Kind::DeploymentTrack, TRACK)
            .parent(Kind::Environment, &[labels::ORGANIZATION, labels::ENVIRONMENT])
            .refers(Kind::DeployableArtifact, TRACK, Some(self.spec.deployment_artifact_ref.clone()), "");
        let overrides = self.spec.configuration_overrides.as_ref().and_then(|o| o.application.as_ref());
        let status = self.status.as_ref();
        let (planes, clusters): (BTreeSet<_>, Vec<_>) = status
            .into_iter()
            .flat_map(|status| status.data_plane.iter().chain(&status.cleaning))
            .map(|plane| ((plane.namespace.clone(), plane.name.clone()), plane.cluster_uid.clone()))
            .unzip();
        let place = status.and_then(|status| status.namespace.clone());
        let project = describing.label(labels::PROJECT);
        let recorded = status.and_then(|status| status.data_plane.as_ref().zip(status.namespace.as_ref()));
        let describing =
            describing.values_of(overrides).on_planes(planes.clone()).placed(recorded.into_iter());
        // While it moves, its Endpoints wait for it to run.
        let is_moving = status.is_some_and(|status| !status.cleaning.is_empty());
        let ready = status.filter(|_| is_moving).and_then(|status| {
            let ready = kantor_api::conditions::get(&status.conditions, "Ready")?;
            Some((ready.status.clone(), ready.reason.clone()))
        });
        // Without its name: who is told of it tells namespaces apart.
        describing.facts(ready, (place, planes, clusters, project))
    }
}

impl Described for Endpoint {
    fn facts(&self) -> Facts {
        let status = self.status.as_ref();
        let ready = status
            .and_then(|s| kantor_api::conditions::get(&s.conditions, "Ready"))
            .map(|c| c.status.clone());
        let planes: BTreeSet<_> = status
            .into_iter()
            .flat_map(|status| status.data_plane.iter().chain(&status.cleaning))
            .map(|plane| (plane.namespace.clone(), plane.name.clone()))
            .collect();
        let describing = Describing::new(Kind::Endpoint, self, ENDPOINT)
            .parent(Kind::Project, PROJECT)
            .parent(Kind::Component, COMPONENT)
            .parent(Kind::DeploymentTrack, TRACK)
            .parent(Kind::Environment, &[labels::ORGANIZATION, labels::ENVIRONMENT])
            .parent(Kind::Deployment, ENDPOINT);
        let namespace = describing.namespace();
        let leaving: Vec<_> = status
            .into_iter()
            .flat_map(|status| &status.cleaning)
            .map(|plane| (plane.namespace.clone(), plane.name.clone()))
            .collect();
        let withheld = status.map(|status| status.withheld_hostnames.clone()).unwrap_or_default();
        secrets_used(self)
            .into_iter()
            .fold(describing, |describing, secret| describing.names(Kind::Secret, namespace.clone(), secret))
            .on_planes(planes.clone())
            .placed(
                status
                    .and_then(|status| status.data_plane.as_ref().zip(status.namespace.as_ref()))
                    .into_iter(),
            )
            .claims(status.into_iter().flat_map(|status| &status.claims))
            // With its name: those who are told of it tell Endpoints apart.
            .facts((), (self.name_any(), status.and_then(|s| s.address.clone()), ready, withheld, leaving))
    }
}

impl Described for HostnameClaim {
    fn facts(&self) -> Facts {
        Describing::new(Kind::HostnameClaim, self, &[]).facts(&self.spec.holder.uid, ())
    }
}

impl Described for Release {
    fn facts(&self) -> Facts {
        let mut describing = Describing::new(Kind::Release, self, ORGANIZATION)
            .parent(Kind::Organization, ORGANIZATION)
            .refers(Kind::Environment, ORGANIZATION, Some(self.spec.environment_name.clone()), "");
        let owner = &self.spec.owner;
        let organization = describing.label(labels::ORGANIZATION).unwrap_or_default();
        let namespace = describing.namespace();
        if namespace != FALLBACK_NAMESPACE {
            describing.needs.push(Need {
                kind: Kind::Environment,
                namespace: FALLBACK_NAMESPACE.to_owned(),
                scope: vec![FALLBACK_NAMESPACE.to_owned()],
                name: self.spec.environment_name.clone(),
                passes_on: &[],
            });
        }
        describing.needs.push(Need {
            kind: Kind::Component,
            namespace,
            scope: vec![organization, owner.project_name.clone()],
            name: owner.component_name.clone(),
            passes_on: &[],
        });
        let status = self.status.as_ref();
        let planes: BTreeSet<_> = status
            .and_then(|status| status.data_plane.as_ref())
            .into_iter()
            .chain(status.into_iter().flat_map(|status| &status.removing).map(|place| &place.data_plane))
            .map(|plane| (plane.namespace.clone(), plane.name.clone()))
            .collect();
        describing.on_planes(planes).facts((), ())
    }
}
