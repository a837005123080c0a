//! `Component`: something that runs.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{bounds, build::BuildTemplateRef, unset::none_if_default};

/// Component types that Kantor runs.
pub mod types {
    use crate::vocabulary::vocabulary;

    vocabulary! {
        /// A network service: Deployment and Service on the data plane.
        SERVICE = "Service";
        /// A web application: like a service, with a host of its own.
        WEB_APPLICATION = "WebApplication";
        /// A task that runs by a schedule: CronJob on the data plane.
        SCHEDULED_TASK = "ScheduledTask";
        /// A task that runs once per deployment: Job on the data plane.
        MANUAL_TASK = "ManualTask";
    }
}

/// Something that runs: a service, a web application or a task.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "openchoreo.dev",
    version = "v1alpha1",
    kind = "Component",
    doc = "Something that runs: a service, a web application or a task.",
    namespaced,
    status = "ComponentStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "comp",
    shortname = "comps",
    printcolumn(name = "Project", type_ = "string", json_path = ".spec.owner.projectName"),
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type")
)]
#[serde(rename_all = "camelCase")]
pub struct ComponentSpec {
    /// Project that the component belongs to.
    pub owner: ProjectOwner,
    /// What it is: `Service`, `WebApplication`, `ScheduledTask` or `ManualTask`. Other types are accepted, and
    /// their Deployments say that they are not supported.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = bounds::NAME))]
    pub type_: String,
    /// How it is built. Kept for compatibility; Kantor does not build.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    pub build: Option<ComponentBuild>,
}

/// A project, by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectOwner {
    /// Name of the project. It cannot be changed: make a new component in the other project instead.
    #[schemars(length(min = 1, max = bounds::NAME))]
    #[x_kube(validation = ("self == oldSelf", "projectName cannot be changed; make a new component in the other project"))]
    pub project_name: String,
}

/// How a component is built.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentBuild {
    /// Where the sources are.
    pub repository: ComponentRepository,
    /// How it is built.
    pub template_ref: BuildTemplateRef,
}

/// The sources of a component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentRepository {
    /// Address of the repository.
    #[schemars(length(max = bounds::ADDRESS))]
    pub url: String,
    /// What is taken of it.
    pub revision: ComponentRevision,
    /// Path of the component in the repository.
    pub app_path: String,
}

/// What is taken of a component's repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentRevision {
    /// Branch.
    pub branch: String,
}

/// What Kantor knows of a component.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentStatus {
    /// Generation of the object that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// State of the component: `Ready`, and `Finalizing` while it is being deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}
