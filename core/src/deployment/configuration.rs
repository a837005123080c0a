//! What is asked for: the artifact's configuration with the Deployment's changes over it.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap, HashSet},
};

use kantor_api::{
    DeployableArtifact, Deployment,
    application::{Application, HorizontalScaling, Probes, ResourceLimits, Scaling, Schedule, Task},
    conditions::reasons,
    deployable_artifact::{EndpointTemplate, TemplateMetadata},
    deployment::EndpointOverride,
    endpoint::{EndpointSpec, NetworkVisibilities, Visibility},
};

use super::{Problem, values::clean_path};

/// Logical name of the endpoint of a template that has none.
const UNNAMED: &str = "endpoint";

/// The configuration that counts.
pub(super) struct Effective {
    pub application: Application,
    /// Endpoint templates, in the order of the artifact.
    pub templates: Vec<EndpointTemplate>,
}

impl Effective {
    pub fn of(artifact: &DeployableArtifact, deployment: &Deployment) -> Self {
        let base = artifact.spec.configuration.as_ref();
        let over = deployment.spec.configuration_overrides.as_ref();
        let mut templates = base.map(|base| base.endpoint_templates.clone()).unwrap_or_default();
        for template in &mut templates {
            let name = template_name(&template.metadata);
            for change in over.iter().flat_map(|over| &over.endpoint_templates) {
                if overridden(change.metadata.as_ref()) == name
                    && let Some(change) = &change.spec
                {
                    change_endpoint(&mut template.spec, change);
                }
            }
        }
        let base = base.and_then(|base| base.application.as_ref());
        let nothing = Application::default();
        let base = base.unwrap_or(&nothing);
        let application = match over.and_then(|over| over.application.as_ref()) {
            Some(over) => merged(base, over),
            None => base.clone(),
        };
        Self { application, templates }
    }
}

/// Name under which a template is known: the names of Endpoints are made of it.
pub(super) fn template_name(metadata: &TemplateMetadata) -> &str {
    metadata.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(UNNAMED)
}

fn overridden(metadata: Option<&TemplateMetadata>) -> &str {
    metadata.map_or(UNNAMED, template_name)
}

/// Each field that is set in `over` goes before that of `base`.
fn merged(base: &Application, over: &Application) -> Application {
    // What is long is copied once, and only what counts of it.
    let env = keyed(&base.env, &over.env, |env| env.key.as_str().into());
    let file_mounts = keyed(&base.file_mounts, &over.file_mounts, |file| clean_path(&file.mount_path));
    let without = |of: &Application| Application {
        args: of.args.clone(),
        env: vec![],
        env_from: of.env_from.clone(),
        file_mounts: vec![],
        file_mounts_from: of.file_mounts_from.clone(),
        resource_limits: of.resource_limits.clone(),
        probes: of.probes.clone(),
        scaling: of.scaling.clone(),
        task: of.task.clone(),
    };
    let (base, over) = (without(base), without(over));
    Application {
        args: if over.args.is_empty() { base.args } else { over.args },
        env,
        env_from: list(base.env_from, over.env_from, PartialEq::eq),
        file_mounts,
        file_mounts_from: list(base.file_mounts_from, over.file_mounts_from, PartialEq::eq),
        resource_limits: both(base.resource_limits, over.resource_limits, |base, over| ResourceLimits {
            cpu: over.cpu.or(base.cpu),
            memory: over.memory.or(base.memory),
        }),
        probes: both(base.probes, over.probes, |base, over| Probes {
            readiness_probe: over.readiness_probe.or(base.readiness_probe),
            liveness_probe: over.liveness_probe.or(base.liveness_probe),
        }),
        scaling: both(base.scaling, over.scaling, scaling),
        task: both(base.task, over.task, |base, over| Task {
            disabled: over.disabled.or(base.disabled),
            schedule: both(base.schedule, over.schedule, |base, over| Schedule {
                cron: if over.cron.is_empty() { base.cron } else { over.cron },
                timezone: over.timezone.or(base.timezone),
            }),
        }),
    }
}

fn both<T>(base: Option<T>, over: Option<T>, merge: impl FnOnce(T, T) -> T) -> Option<T> {
    match (base, over) {
        (Some(base), Some(over)) => Some(merge(base, over)),
        (base, over) => over.or(base),
    }
}

/// [`list`] of entries that are the same if their keys are; there may be hundreds.
fn keyed<'a, T: Clone>(base: &'a [T], over: &'a [T], key: impl Fn(&'a T) -> Cow<'a, str>) -> Vec<T> {
    let mut list: Vec<&T> = base.iter().collect();
    let mut at = HashMap::with_capacity(base.len() + over.len());
    for (i, entry) in base.iter().enumerate() {
        at.entry(key(entry)).or_insert(i);
    }
    for entry in over {
        let i = *at.entry(key(entry)).or_insert(list.len());
        match list.get_mut(i) {
            Some(old) => *old = entry,
            None => list.push(entry),
        }
    }
    list.into_iter().cloned().collect()
}

/// Entries of `base` in their order, those that `over` has as well replaced, and then the others of `over`.
fn list<T>(base: Vec<T>, over: Vec<T>, same: impl Fn(&T, &T) -> bool) -> Vec<T> {
    let mut list = base;
    for entry in over {
        match list.iter_mut().find(|old| same(old, &entry)) {
            Some(old) => *old = entry,
            None => list.push(entry),
        }
    }
    list
}

/// The two ways of scaling exclude each other: asking for one drops the other.
fn scaling(base: Scaling, over: Scaling) -> Scaling {
    if over.hpa.is_none() {
        return Scaling { hpa: base.hpa.filter(|_| over.s2z.is_none()), s2z: over.s2z.or(base.s2z) };
    }
    let hpa = both(base.hpa, over.hpa, |base, over| HorizontalScaling {
        min_replicas: over.min_replicas.or(base.min_replicas),
        max_replicas: over.max_replicas.or(base.max_replicas),
        cpu_threshold: over.cpu_threshold.or(base.cpu_threshold),
        memory_threshold: over.memory_threshold.or(base.memory_threshold),
    });
    Scaling { hpa, s2z: over.s2z }
}

fn change_endpoint(endpoint: &mut EndpointSpec, over: &EndpointOverride) {
    if let Some(path) = over.base_path.as_ref().filter(|path| !path.is_empty()) {
        endpoint.backend_ref.base_path = Some(path.clone());
    }
    // Guards are merged by their names, as other lists are: a change that only opens a way does not drop its guards.
    let visibility = |base: Visibility, over: Visibility| Visibility {
        enable: over.enable,
        policies: list(base.policies, over.policies, |a, b| a.name == b.name),
    };
    endpoint.network_visibilities =
        both(endpoint.network_visibilities.take(), over.network_visibilities.clone(), |base, over| {
            NetworkVisibilities {
                organization: both(base.organization, over.organization, visibility),
                public: both(base.public, over.public, visibility),
            }
        });
}

/// Entries that stand twice in one list, and changes of what is not there.
pub(super) fn contradictions(artifact: &DeployableArtifact, deployment: &Deployment) -> Vec<Problem> {
    let (base, over) =
        (artifact.spec.configuration.as_ref(), deployment.spec.configuration_overrides.as_ref());
    let templates = base.into_iter().flat_map(|base| &base.endpoint_templates);
    let templates: Vec<&str> = templates.map(|t| template_name(&t.metadata)).collect();
    let changes = over.into_iter().flat_map(|over| &over.endpoint_templates);
    let changes: Vec<&str> = changes.map(|t| overridden(t.metadata.as_ref())).collect();
    let mut messages = vec![];
    for (whose, application, templates) in [
        ("the artifact's configuration", base.and_then(|base| base.application.as_ref()), &templates),
        ("configurationOverrides", over.and_then(|over| over.application.as_ref()), &changes),
    ] {
        let keys = application.into_iter().flat_map(|application| &application.env);
        let keys = keys.map(|env| Cow::from(&env.key));
        let paths = application.into_iter().flat_map(|application| &application.file_mounts);
        let paths = paths.map(|file| clean_path(&file.mount_path));
        let names = templates.iter().map(|name| Cow::from(*name));
        let twice = repeated(keys)
            .map(|key| format!("env {key}"))
            .chain(repeated(paths).map(|path| format!("fileMounts {path}")))
            .chain(repeated(names).map(|name| format!("endpoint template {name}")));
        messages.extend(twice.map(|what| format!("{what} is twice in {whose}; keep one")));
    }
    let lost = changes.iter().filter(|name| !templates.contains(name));
    messages.extend(lost.map(|name| {
        format!("configurationOverrides changes endpoint template {name}, which the artifact does not have")
    }));
    messages.into_iter().map(|message| Problem::artifact(reasons::INVALID_CONFIGURATION, message)).collect()
}

/// What is there more than once.
fn repeated<'a>(names: impl Iterator<Item = Cow<'a, str>>) -> impl Iterator<Item = Cow<'a, str>> {
    let (mut seen, mut repeated) = (HashSet::new(), BTreeSet::new());
    for name in names {
        repeated.extend(seen.replace(name));
    }
    repeated.into_iter()
}
