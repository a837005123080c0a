//! The workload and what goes with it.

use kantor_api::{
    application::{Application, HorizontalScaling, Schedule},
    component::types,
    conditions::reasons,
    names::NameKind,
};
use kube_core::{DynamicObject, ResourceExt};
use serde_json::{Value, json};

use super::{
    Bounds, Inputs, Problem,
    place::Place,
    pod::{Pod, Port},
};
use crate::json::map;

/// Processor time, in percent of what is asked for, that is aimed at when nothing is said.
const DEFAULT_CPU_THRESHOLD: i32 = 80;

/// How a component runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Runs {
    /// All the time.
    Always { scaling: Option<HorizontalScaling> },
    /// By a schedule.
    Scheduled { schedule: Schedule, disabled: bool },
    /// Once.
    Once { disabled: bool },
}

impl Runs {
    /// How the component runs; what does not fit its type goes to `problems`.
    pub fn of(
        inputs: &Inputs<'_>,
        application: &Application,
        problems: &mut Vec<Problem>,
    ) -> Result<Self, Problem> {
        let type_ = inputs.component.spec.type_.as_str();
        let invalid = |message: String| Problem::artifact(reasons::INVALID_CONFIGURATION, message);
        let misplaced =
            |field: &str| invalid(format!("{field} does not go with a component of type {type_}"));
        let task = application.task.clone().unwrap_or_default();
        let disabled = task.disabled.unwrap_or_default();
        let scaling = application.scaling.is_some().then(|| misplaced("scaling"));
        match type_ {
            types::SERVICE | types::WEB_APPLICATION => {
                problems.extend(application.task.is_some().then(|| misplaced("task")));
                Ok(Self::Always { scaling: scaling_of(inputs, application, problems) })
            }
            types::SCHEDULED_TASK => {
                problems.extend(scaling);
                let schedule = task.schedule.filter(|schedule| !schedule.cron.trim().is_empty());
                let schedule = schedule.ok_or_else(|| {
                    invalid("task.schedule.cron is not set: nothing tells when the task runs".to_owned())
                })?;
                Ok(Self::Scheduled { schedule, disabled })
            }
            types::MANUAL_TASK => {
                problems.extend(scaling);
                problems.extend(task.schedule.is_some().then(|| misplaced("task.schedule")));
                Ok(Self::Once { disabled })
            }
            _ => {
                let known: Vec<&str> = types::ALL.iter().map(|word| word.value).collect();
                Err(Problem::workload(
                    reasons::UNSUPPORTED_COMPONENT_TYPE,
                    format!(
                        "Component {} is of type {type_}, which Kantor does not run; it runs {}",
                        inputs.component.name_any(),
                        known.join(", ")
                    ),
                ))
            }
        }
    }

    /// The workload.
    pub fn workload(&self, inputs: &Inputs<'_>, place: &Place, pod: Pod<'_>) -> DynamicObject {
        let settings = inputs.settings;
        match self {
            Self::Always { .. } => {
                // No replicas: they are whoever scales the workload's, but for those that it is made with.
                let mut spec = json!({"selector": {"matchLabels": place.workload_labels}});
                spec["template"] = pod.serving(place);
                if let Some(limit) = inputs.deployment.spec.revision_history_limit {
                    spec["revisionHistoryLimit"] = limit.into();
                }
                let name = place.name(NameKind::Object);
                place.own("apps/v1", "Deployment", name, map([("spec", spec)]))
            }
            Self::Scheduled { schedule, disabled } => {
                let mut body = json!({"spec": {
                    "schedule": schedule.cron,
                    "timeZone": schedule.timezone.as_deref().unwrap_or("Etc/UTC"),
                    "concurrencyPolicy": "Forbid",
                    "suspend": disabled,
                    "jobTemplate": {
                        "metadata": {"labels": place.workload_labels},
                        "spec": {
                            "activeDeadlineSeconds": settings.task_deadline,
                            "backoffLimit": settings.task_retries,
                            "ttlSecondsAfterFinished": settings.task_kept,
                        },
                    },
                }});
                body["spec"]["jobTemplate"]["spec"]["template"] = pod.task(place);
                place.own("batch/v1", "CronJob", place.name(NameKind::CronJob), body)
            }
            Self::Once { disabled } => {
                // A finished Job stays: if Kubernetes removed it, it would be made anew and run again.
                let mut body = json!({"spec": {
                    "suspend": disabled,
                    "activeDeadlineSeconds": settings.task_deadline,
                    "backoffLimit": settings.task_retries,
                }});
                body["spec"]["template"] = pod.task(place);
                place.own("batch/v1", "Job", place.name(NameKind::Job), body)
            }
        }
    }

    /// Between how many replicas it is scaled.
    pub fn bounds(&self) -> Option<Bounds> {
        let Self::Always { scaling: Some(scaling) } = self else { return None };
        let (fewest, most) = bounds(scaling);
        Some((fewest.into(), most.into()))
    }

    /// What goes with the workload of that name.
    pub fn companions(&self, place: &Place, ports: &[Port], workload: &str) -> Vec<DynamicObject> {
        let Self::Always { scaling } = self else { return vec![] };
        let scaler = scaling.as_ref().map(|scaling| scaler(place, scaling, workload));
        service(place, ports).into_iter().chain(scaler).collect()
    }
}

/// How many copies run, by load; what stands against it goes to `problems`.
fn scaling_of(
    inputs: &Inputs<'_>,
    application: &Application,
    problems: &mut Vec<Problem>,
) -> Option<HorizontalScaling> {
    let scaling = application.scaling.as_ref()?;
    if scaling.s2z.is_some() {
        problems.push(Problem::workload(
            reasons::UNSUPPORTED_SCALING,
            "scaling.s2z: Kantor does not scale down to none; set scaling.hpa, or nothing",
        ));
    }
    let hpa = scaling.hpa.clone()?;
    let (fewest, most) = bounds(&hpa);
    if fewest > most {
        let message = format!(
            "scaling.hpa: minReplicas {fewest} is greater than maxReplicas {most}, with the overrides counted in"
        );
        problems.push(Problem::artifact(reasons::INVALID_CONFIGURATION, message));
    }
    if !inputs.plane.autoscaling {
        let plane = inputs.data_plane.name_any();
        let message = format!("scaling.hpa: data plane {plane} does not serve autoscaling/v2; upgrade it");
        problems.push(Problem::workload(reasons::CAPABILITY_MISSING, message));
    }
    Some(hpa)
}

fn bounds(scaling: &HorizontalScaling) -> (i32, i32) {
    let fewest = scaling.min_replicas.unwrap_or(1);
    (fewest, scaling.max_replicas.unwrap_or(fewest))
}

/// Nothing without ports: Kubernetes refuses such a Service.
fn service(place: &Place, ports: &[Port]) -> Option<DynamicObject> {
    let list: Vec<Value> = ports
        .iter()
        .map(|port| json!({"name": port.name, "protocol": port.protocol, "port": port.number}))
        .collect();
    let body = json!({"spec": {"type": "ClusterIP", "selector": place.workload_labels, "ports": list}});
    (!ports.is_empty()).then(|| place.own("v1", "Service", place.name(NameKind::Service), body))
}

fn scaler(place: &Place, scaling: &HorizontalScaling, workload: &str) -> DynamicObject {
    let (fewest, most) = bounds(scaling);
    let cpu = match (scaling.cpu_threshold, scaling.memory_threshold) {
        (None, None) => Some(DEFAULT_CPU_THRESHOLD),
        (cpu, _) => cpu,
    };
    let metrics: Vec<Value> = [("cpu", cpu), ("memory", scaling.memory_threshold)]
        .into_iter()
        .filter_map(|(name, percent)| {
            let target = json!({"type": "Utilization", "averageUtilization": percent?});
            Some(json!({"type": "Resource", "resource": {"name": name, "target": target}}))
        })
        .collect();
    let body = json!({"spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": workload},
        "minReplicas": fewest,
        "maxReplicas": most,
        "metrics": metrics,
    }});
    place.own("autoscaling/v2", "HorizontalPodAutoscaler", workload.to_owned(), body)
}
