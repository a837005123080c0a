//! `Application`: how a workload is configured. Artifacts carry it, and Deployments override it.

use k8s_openapi::api::core::v1::Probe;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    bounds,
    common::{KeyRef, NameRef},
    rules,
    unset::none_if_default,
};

/// How a workload is configured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!(has(self.scaling) && has(self.task))").message("set scaling or task, not both"))]
pub struct Application {
    /// Arguments of the container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), inner(length(max = bounds::ARGUMENT)))]
    pub args: Vec<String>,
    /// Environment variables, one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512))]
    pub env: Vec<EnvVar>,
    /// Environment variables from all keys of a configuration group or Secret. The variable of a key is the key
    /// in upper case, with `_` for what is neither letter nor digit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub env_from: Vec<EnvFrom>,
    /// Files, one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub file_mounts: Vec<FileMount>,
    /// Files from all keys of a configuration group or Secret.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub file_mounts_from: Vec<FileMountFrom>,
    /// How much the container may use; it is also what it asks for.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub resource_limits: Option<ResourceLimits>,
    /// How Kubernetes tells whether the container is ready and alive.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub probes: Option<Probes>,
    /// How many copies run. Not for tasks.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub scaling: Option<Scaling>,
    /// When a task runs. Only for tasks.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub task: Option<Task>,
}

/// An environment variable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!(has(self.value) && self.value != '' && has(self.valueFrom))")
        .message("set value or valueFrom, not both")
)]
pub struct EnvVar {
    /// Name of the variable: printable ASCII without `=`.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = rules::variable())]
    pub key: String,
    /// Its value.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = bounds::ARGUMENT))]
    pub value: Option<String>,
    /// Where its value comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_from: Option<KeySource>,
}

/// One key of a configuration group or of a Secret of the control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.configurationGroupRef) != has(self.secretRef)")
        .message("set exactly one of configurationGroupRef and secretRef")
)]
pub struct KeySource {
    /// Configuration group and key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration_group_ref: Option<KeyRef>,
    /// Secret and key. The Secret must carry the label `openchoreo.dev/secret-kind: application`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<KeyRef>,
}

/// All keys of a configuration group or of a Secret of the control plane, as variables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.configurationGroupRef) != has(self.secretRef)")
        .message("set exactly one of configurationGroupRef and secretRef")
)]
pub struct EnvFrom {
    /// Configuration group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration_group_ref: Option<NameRef>,
    /// Secret. It must carry the label `openchoreo.dev/secret-kind: application`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<NameRef>,
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!(has(self.value) && self.value != '' && has(self.valueFrom))")
        .message("set value or valueFrom, not both")
)]
pub struct FileMount {
    /// Absolute path of the file in the container, without `:`.
    #[schemars(length(max = bounds::PATH))]
    #[x_kube(validation = rules::mount_path())]
    pub mount_path: String,
    /// Its content.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = bounds::CONTENT))]
    pub value: Option<String>,
    /// Where its content comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_from: Option<KeySource>,
}

/// All keys of a configuration group or of a Secret of the control plane, as files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.configurationGroupRef) != has(self.secretRef)")
        .message("set exactly one of configurationGroupRef and secretRef")
)]
pub struct FileMountFrom {
    /// Configuration group and folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration_group_ref: Option<MountRef>,
    /// Secret and folder. It must carry the label `openchoreo.dev/secret-kind: application`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<MountRef>,
}

/// An object of the same namespace whose keys become the files of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct MountRef {
    /// Name of the object.
    #[schemars(length(min = 1, max = bounds::NAME))]
    pub name: String,
    /// Absolute path of the folder in the container, without `:`.
    #[schemars(length(max = bounds::PATH))]
    #[x_kube(validation = rules::mount_path())]
    pub mount_path: String,
}

/// How much a container may use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceLimits {
    /// Processor time, such as `500m` or `2`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = rules::quantity_if_set())]
    pub cpu: Option<String>,
    /// Memory, such as `256Mi`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = rules::quantity_if_set())]
    pub memory: Option<String>,
}

/// How Kubernetes tells whether a container is ready and alive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Probes {
    /// Whether it may get requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readiness_probe: Option<Probe>,
    /// Whether it has to be restarted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub liveness_probe: Option<Probe>,
}

/// How many copies of a workload run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!(has(self.hpa) && has(self.s2z))").message("set hpa or s2z, not both"))]
pub struct Scaling {
    /// By load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hpa: Option<HorizontalScaling>,
    /// Down to none while there is nothing to do. Not supported: a Deployment that asks for it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s2z: Option<ScaleToZero>,
}

/// Scaling by load.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas")
        .message("minReplicas must not be greater than maxReplicas")
)]
pub struct HorizontalScaling {
    /// Fewest copies; 1 if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub min_replicas: Option<i32>,
    /// Most copies; as many as the fewest if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_replicas: Option<i32>,
    /// Use of processor time, in percent of what the container asks for, that is aimed at.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub cpu_threshold: Option<i32>,
    /// Use of memory, in percent of what the container asks for, that is aimed at.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub memory_threshold: Option<i32>,
}

/// Scaling down to none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScaleToZero {
    /// Most copies.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_replicas: Option<i32>,
    /// Requests that wait before another copy is started.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub queue_length: Option<i32>,
}

/// When a task runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Do not run it for now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// By which schedule it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
}

/// A schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Schedule {
    /// Minute, hour, day of the month, month and day of the week, such as `*/5 * * * *`; or `@hourly` and its like.
    #[schemars(length(max = 256))]
    #[x_kube(validation = rules::cron())]
    pub cron: String,
    /// Time zone of the schedule, such as `Europe/Zurich`; `Etc/UTC` if not set.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = rules::time_zone_if_set())]
    pub timezone: Option<String>,
}
