//! Random histories of two organizations that share data planes, with Releases and Deployments whose names collide, forged status,
//! planes that restart and serve a part of their groups, and an operator that crashes between any two requests: nothing of one
//! organization is ever readable, writable or deletable by the other, and in the end nothing is left.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

mod objects;
mod operator;
mod plane;

use std::{
    collections::BTreeMap,
    pin::Pin,
    rc::Rc,
    task::{Context, Waker},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kantor_api::{
    Deployment, Environment, Release, annotations,
    build::ComponentOwner,
    common::InventoryItem,
    deployment::DeploymentSpec,
    environment::EnvironmentSpec,
    labels,
    release::{ReleaseResource, ReleaseSpec, RemovingObjects},
};
use kantor_core::tenancy;
use kube::ResourceExt;
use rstest::rstest;
use serde_json::{Value, json};

use self::{
    objects::{ORGANIZATIONS, WIDGETS, object, some_time, tenant},
    operator::{Shared, reconcile_deployment, reconcile_environment, reconcile_release, record_of},
    plane::{NOBODY, namespace_key},
};

const HISTORIES: u64 = 3_000;
const STEPS: usize = 120;

/// A rule that is broken, to see that it is needed and that the model sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// All rules hold.
    #[default]
    None,
    /// Objects are taken over whatever happened since they were looked at.
    AdoptsWithoutVersion,
    /// A kind that is not served at the moment has no objects.
    TakesUnservedForAbsent,
    /// A plane that does not answer has no objects.
    TakesSilenceForAbsence,
    /// No policy is asked for what Releases bring.
    JudgesNoRelease,
    /// What a forged plane is said to hold is forgotten.
    ForgetsWhatForgedPlanesHeld,
    /// Status is written after the objects.
    RecordsAfterwards,
    /// Finalizers go while something is left.
    LetsGoOfWhatIsLeft,
    /// A recorded UID is believed wherever the object is.
    BelievesRecordedUids,
    /// What others write into their status keeps namespaces.
    BelievesStatusOfOthers,
    /// A namespace that cannot be looked into is left behind.
    LeavesWhatItCannotLookInto,
    /// Namespaces are made before the environment has recorded them.
    DoesNotWaitForTheEnvironment,
    /// Isolation is put into a namespace that was refused.
    IsolatesBeforeItHasTheNamespace,
    /// Objects are sent into namespaces that others have made since they were judged.
    LooksAtNamespacesOnce,
}

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % bound.max(1)
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn one_of<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// An object of the control plane that is reconciled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Id {
    Release(String),
    Deployment(String),
    Environment((String, String)),
}

type Reconcile = Pin<Box<dyn Future<Output = ()>>>;

struct History {
    dice: Dice,
    world: Shared,
    /// Reconciles under way, at most one of an object.
    running: BTreeMap<Id, Reconcile>,
    names: usize,
    /// What this history is about: some are about little, and go deep.
    namespaces: Vec<&'static str>,
    environments: &'static [&'static str],
    planes: usize,
    releases: usize,
}

const ENVIRONMENTS: [&str; 2] = ["dev", "prod"];
const NAMESPACES: [&str; 4] = ["own", "open-old", "open-new", "brought"];

impl History {
    fn new(seed: u64, fault: Fault) -> Self {
        let world = Shared::default();
        {
            let mut world = world.borrow_mut();
            world.fault = fault;
            for index in 0..2 {
                let plane = &mut world.planes[index];
                plane.answers = true;
                let metadata = |name: &str, namespace: Option<&str>| ObjectMeta {
                    name: Some(name.to_owned()),
                    namespace: namespace.map(ToOwned::to_owned),
                    ..ObjectMeta::default()
                };
                plane.seed(object("v1", "Namespace", metadata("open-old", None), json!({})));
                plane.seed(object("v1", "ConfigMap", metadata("x", Some("open-old")), json!({"data": {}})));
                plane.seed(object(
                    "v1",
                    "ConfigMap",
                    metadata("platform", Some("open-old")),
                    json!({"data": {}}),
                ));
                world.catch_up(index);
            }
        }
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut namespaces = NAMESPACES.to_vec();
        let is_small = dice.chance(60);
        while namespaces.len() > 1 && (is_small || dice.chance(65)) {
            namespaces.remove(dice.below(namespaces.len()));
        }
        let environments = &ENVIRONMENTS[..=dice.below(if is_small { 1 } else { 2 })];
        let (planes, releases) = if is_small { (1, 1) } else { (1 + dice.below(2), 1 + dice.below(3)) };
        let mut history = Self {
            dice,
            world: Rc::clone(&world),
            running: BTreeMap::new(),
            names: 0,
            namespaces,
            environments,
            planes,
            releases,
        };
        for (organization, ..) in ORGANIZATIONS {
            for environment in environments {
                history.add_environment(organization, environment);
            }
        }
        history
    }

    fn next_name(&mut self) -> String {
        self.names += 1;
        self.names.to_string()
    }

    fn metadata(&mut self, organization: &str, name: String) -> ObjectMeta {
        let uid = format!("owner-{}", self.next_name());
        ObjectMeta {
            name: Some(name),
            namespace: Some(organization.to_owned()),
            uid: Some(uid),
            resource_version: Some("0".to_owned()),
            ..ObjectMeta::default()
        }
    }

    fn add_environment(&mut self, organization: &str, name: &str) {
        let id = (organization.to_owned(), name.to_owned());
        if self.world.borrow().environments.contains_key(&id) {
            return;
        }
        let mut environment = Environment::new(name, EnvironmentSpec::default());
        environment.metadata = self.metadata(organization, name.to_owned());
        environment.spec.data_plane_ref = Some(format!("p{}", self.dice.below(self.planes)));
        self.world.borrow_mut().environments.insert(id, environment);
    }

    /// The resources of a Release of an organization.
    fn resources(&mut self, organization: &str, environment: &str) -> Vec<ReleaseResource> {
        let mut resources: Vec<(String, Value)> = vec![];
        for i in 0..=self.dice.below(3) {
            let namespace = match *self.dice.one_of(&self.namespaces) {
                "own" => tenancy::own_namespace(&tenant(organization, environment)),
                "brought" => format!("{organization}-brought"),
                name => name.to_owned(),
            };
            let (api_version, kind) = *self.dice.one_of(&[("v1", "ConfigMap"), ("example.com/v1", "Widget")]);
            let name = *self.dice.one_of(&["x", "y"]);
            let brings = namespace.starts_with(organization) || self.dice.chance(15);
            let metadata = json!({"name": name, "namespace": &namespace});
            resources.push((
                format!("o{i}"),
                json!({"apiVersion": api_version, "kind": kind, "metadata": metadata}),
            ));
            if brings {
                let labels = if self.dice.chance(70) {
                    json!({labels::plane::ORGANIZATION_NAME: organization})
                } else {
                    json!({})
                };
                let metadata = json!({"name": namespace, "labels": labels});
                resources.push((
                    format!("n{i}"),
                    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}),
                ));
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        let resources = resources.into_iter().filter(|(_, object)| seen.insert(object.to_string()));
        resources.map(|(id, object)| ReleaseResource { id, object }).collect()
    }

    fn note(&self, what: String) {
        self.world.borrow_mut().log.push(what);
    }

    /// Something happens.
    fn step(&mut self) {
        match self.dice.below(100) {
            0..=54 => self.poll_one(),
            55..=72 => self.start_one(),
            73..=76 => {
                let index = self.dice.below(self.planes);
                self.world.borrow_mut().catch_up(index);
            }
            77..=80 => {
                let index = self.dice.below(self.planes);
                self.world.borrow_mut().planes[index].finish_a_deletion();
            }
            81..=92 => self.act_as_user(),
            93..=94 => self.forge(),
            95..=96 => {
                let index = self.dice.below(self.planes);
                let unserved = self.dice.chance(50);
                self.note(format!("plane {index} serves all groups: {}", !unserved));
                let plane = &mut self.world.borrow_mut().planes[index];
                plane.unserved = unserved.then(|| WIDGETS.to_owned()).into_iter().collect();
            }
            97..=98 => {
                let (index, answers) = (self.dice.below(self.planes), self.dice.chance(60));
                self.note(format!("plane {index} answers: {answers}"));
                self.world.borrow_mut().planes[index].answers = answers;
            }
            // The operator crashes, and knows nothing of what it was about to do.
            _ => {
                self.note("the operator crashes".to_owned());
                self.running.clear();
            }
        }
    }

    fn ids(&self) -> Vec<Id> {
        let world = self.world.borrow();
        let releases = world.releases.keys().cloned().map(Id::Release);
        let deployments = world.deployments.keys().cloned().map(Id::Deployment);
        let environments = world.environments.keys().cloned().map(Id::Environment);
        releases.chain(deployments).chain(environments).collect()
    }

    fn start_one(&mut self) {
        let ids = self.ids();
        if let Some(id) = ids.get(self.dice.below(ids.len())).cloned() {
            self.start(id);
        }
    }

    fn start(&mut self, id: Id) {
        let world = Rc::clone(&self.world);
        self.note(format!("  start {id:?}"));
        self.running.entry(id.clone()).or_insert_with(|| match id {
            Id::Release(name) => Box::pin(reconcile_release(world, name)),
            Id::Deployment(name) => Box::pin(reconcile_deployment(world, name)),
            Id::Environment(id) => Box::pin(reconcile_environment(world, id)),
        });
    }

    /// One reconcile goes on until its next request.
    fn poll_one(&mut self) {
        let ids: Vec<Id> = self.running.keys().cloned().collect();
        if let Some(id) = ids.get(self.dice.below(ids.len())) {
            self.poll(id);
        }
    }

    fn poll(&mut self, id: &Id) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        self.note(format!("  {id:?} goes on"));
        let Some(reconcile) = self.running.get_mut(id) else { return true };
        let is_done = reconcile.as_mut().poll(&mut context).is_ready();
        if is_done {
            self.running.remove(id);
        }
        is_done
    }

    fn act_as_user(&mut self) {
        let (organization, _, colour) = *self.dice.one_of(&ORGANIZATIONS);
        let environment = *self.dice.one_of(self.environments);
        match self.dice.below(9) {
            0..=2 => {
                let name = format!("{colour}-{}", self.dice.below(self.releases));
                let resources = self.resources(organization, environment);
                let adopt = self.dice.chance(40);
                let metadata = self.metadata(organization, name.clone());
                let mut world = self.world.borrow_mut();
                let version = world.version + 1;
                world.version = version;
                let release = world.releases.entry(name).or_insert_with_key(|name| {
                    let owner = ComponentOwner {
                        project_name: tenant(organization, environment).project.to_owned(),
                        ..ComponentOwner::default()
                    };
                    let mut release = Release::new(name, ReleaseSpec { owner, ..ReleaseSpec::default() });
                    release.metadata = metadata;
                    release
                });
                environment.clone_into(&mut release.spec.environment_name);
                release.spec.resources = resources;
                let what: Vec<String> = release.spec.resources.iter().map(|r| r.object.to_string()).collect();
                let line = format!(
                    "{organization} applies {} in {environment}, adopt {adopt}: {what:?}",
                    release.name_any()
                );
                release.annotations_mut().insert(annotations::ADOPT.to_owned(), adopt.to_string());
                release.metadata.resource_version = Some(version.to_string());
                world.log.push(line);
            }
            3..=4 => {
                let name = format!("{colour}-app-{}", self.dice.below(2));
                let metadata = self.metadata(organization, name.clone());
                let mut world = self.world.borrow_mut();
                let version = world.version + 1;
                world.version = version;
                let deployment = world.deployments.entry(name).or_insert_with_key(|name| {
                    let mut deployment = Deployment::new(name, DeploymentSpec::default());
                    deployment.metadata = metadata;
                    deployment
                });
                deployment.labels_mut().insert(labels::ENVIRONMENT.to_owned(), environment.to_owned());
                deployment.metadata.resource_version = Some(version.to_string());
                let line = format!("{organization} applies {} in {environment}", deployment.name_any());
                world.log.push(line);
            }
            5 => {
                let to = format!("p{}", self.dice.below(self.planes));
                self.note(format!("{organization} moves {environment} to {to}"));
                let id = (organization.to_owned(), environment.to_owned());
                if let Some(environment) = self.world.borrow_mut().environments.get_mut(&id) {
                    environment.spec.data_plane_ref = Some(to);
                }
            }
            6 => self.add_environment(organization, environment),
            7 => {
                let id = (organization.to_owned(), environment.to_owned());
                if let Some(environment) = self.world.borrow_mut().environments.get_mut(&id)
                    && self.dice.chance(30)
                {
                    environment.metadata.deletion_timestamp = Some(some_time());
                }
                self.note(format!("{organization} may delete environment {environment}"));
            }
            _ => {
                let ids = self.ids();
                let Some(id) = ids.get(self.dice.below(ids.len())).cloned() else { return };
                self.note(format!("delete {id:?}"));
                let mut world = self.world.borrow_mut();
                match id {
                    Id::Release(name) => {
                        world.releases.get_mut(&name).unwrap().metadata.deletion_timestamp =
                            Some(some_time());
                    }
                    Id::Deployment(name) => {
                        world.deployments.get_mut(&name).unwrap().metadata.deletion_timestamp =
                            Some(some_time());
                    }
                    Id::Environment(_) => {}
                }
            }
        }
    }

    /// Somebody who may write status in an organization writes there what is to lead to the other one.
    fn forge(&mut self) {
        let forged_plane = self.dice.chance(50);
        let index = self.dice.below(self.planes);
        let mut world = self.world.borrow_mut();
        let victims: Vec<InventoryItem> = world.planes[index]
            .objects
            .iter()
            .map(|((group, kind, namespace, name), stored)| InventoryItem {
                group: group.clone(),
                version: "v1".to_owned(),
                kind: kind.clone(),
                namespace: namespace.clone(),
                name: name.clone(),
                uid: stored.object.uid(),
            })
            .collect();
        let victim = self.dice.one_of(&victims).clone();
        let version = world.version + 1;
        world.version = version;
        if self.dice.chance(30) {
            let count = world.deployments.len();
            let Some(deployment) = world.deployments.values_mut().nth(self.dice.below(count)) else { return };
            let organization = deployment.namespace().unwrap();
            let status = deployment.status.get_or_insert_default();
            let line = format!("forge deployment of {organization}: plane {forged_plane}, {victim:?}");
            if forged_plane {
                status.data_plane = Some(record_of(other(&organization), index));
            } else {
                status.inventory.push(victim);
            }
            deployment.metadata.resource_version = Some(version.to_string());
            world.log.push(line);
            return;
        }
        let count = world.releases.len();
        let Some(release) = world.releases.values_mut().nth(self.dice.below(count)) else { return };
        let organization = release.namespace().unwrap();
        let line = format!("forge {} on plane {index}: {forged_plane}, {victim:?}", release.name_any());
        let status = release.status.get_or_insert_default();
        if forged_plane && self.dice.chance(50) {
            status.data_plane = Some(record_of(other(&organization), index));
        } else {
            // Of the own organization, so that it is believed.
            let namespaces = vec![if victim.namespace.is_empty() {
                victim.name.clone()
            } else {
                victim.namespace.clone()
            }];
            let data_plane = record_of(&organization, index);
            status.removing.push(RemovingObjects { data_plane, objects: vec![victim], namespaces });
        }
        release.metadata.resource_version = Some(version.to_string());
        world.log.push(line);
    }

    fn violation(&self) -> Option<String> {
        let world = self.world.borrow();
        world.planes.iter().flat_map(|plane| &plane.violations).next().cloned()
    }

    /// Everything is deleted, everything answers, and everybody has all the time that it takes. What is left?
    fn end(&mut self) -> Option<String> {
        for _ in 0..60 {
            {
                let mut world = self.world.borrow_mut();
                for index in 0..2 {
                    world.planes[index].answers = true;
                    world.planes[index].unserved.clear();
                    for _ in 0..10 {
                        world.planes[index].finish_a_deletion();
                    }
                    world.catch_up(index);
                }
                for release in world.releases.values_mut() {
                    release.metadata.deletion_timestamp = Some(some_time());
                }
                for deployment in world.deployments.values_mut() {
                    deployment.metadata.deletion_timestamp = Some(some_time());
                }
                let is_quiet = world.releases.is_empty() && world.deployments.is_empty();
                for environment in world.environments.values_mut().filter(|_| is_quiet) {
                    environment.metadata.deletion_timestamp = Some(some_time());
                }
            }
            for id in self.ids() {
                self.start(id.clone());
                while !self.poll(&id) {}
            }
            if self.ids().is_empty() {
                break;
            }
        }
        let left: Vec<Id> = self.ids();
        if !left.is_empty() {
            return Some(format!("{left:?} never end"));
        }
        let world = self.world.borrow();
        for plane in &world.planes {
            let left = plane.objects.iter().find(|(_, stored)| {
                stored.organization != NOBODY && stored.object.metadata.deletion_timestamp.is_none()
            });
            if let Some((key, stored)) = left {
                return Some(format!("{key:?} of {} is left", stored.organization));
            }
            if plane.get(&namespace_key("open-old")).is_none() {
                return Some("the namespace of the platform is gone".to_owned());
            }
        }
        None
    }
}

fn other(organization: &str) -> &'static str {
    if organization == ORGANIZATIONS[0].0 { ORGANIZATIONS[1].0 } else { ORGANIZATIONS[0].0 }
}

/// Plays one history; returns what went wrong.
fn play(seed: u64, fault: Fault) -> Option<String> {
    let mut history = History::new(seed, fault);
    let is_replay = std::env::var_os("KANTOR_SEED").is_some();
    let told = |history: &History| {
        if is_replay { format!("\n{}", history.world.borrow().log.join("\n")) } else { String::new() }
    };
    for step in 0..STEPS {
        history.step();
        if let Some(violation) = history.violation() {
            return Some(format!("seed {seed}, step {step}: {violation}{}", told(&history)));
        }
    }
    history.note("everything is deleted".to_owned());
    let left = history.end();
    let wrong = history.violation().or(left);
    wrong.map(|wrong| format!("seed {seed}, at the end: {wrong}{}", told(&history)))
}

#[test]
fn organizations_on_one_plane_never_touch_each_other_and_leave_nothing() {
    let seeds = match std::env::var("KANTOR_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (1..=HISTORIES).collect(),
    };
    let wrong: Vec<String> = seeds.into_iter().filter_map(|seed| play(seed, Fault::None)).take(5).collect();
    assert!(wrong.is_empty(), "replay with KANTOR_SEED=<seed>:\n{}", wrong.join("\n"));
}

#[rstest]
#[case(Fault::AdoptsWithoutVersion)]
#[case(Fault::TakesUnservedForAbsent)]
#[case(Fault::TakesSilenceForAbsence)]
#[case(Fault::JudgesNoRelease)]
#[case(Fault::ForgetsWhatForgedPlanesHeld)]
#[case(Fault::RecordsAfterwards)]
#[case(Fault::LetsGoOfWhatIsLeft)]
#[case(Fault::BelievesRecordedUids)]
#[case(Fault::BelievesStatusOfOthers)]
#[case(Fault::LeavesWhatItCannotLookInto)]
#[case(Fault::DoesNotWaitForTheEnvironment)]
#[case(Fault::IsolatesBeforeItHasTheNamespace)]
#[case(Fault::LooksAtNamespacesOnce)]
fn a_broken_rule_is_found(#[case] fault: Fault) {
    let found = (1..=HISTORIES).find_map(|seed| play(seed, fault));
    assert!(found.is_some(), "{fault:?} does no harm that these histories show");
}
