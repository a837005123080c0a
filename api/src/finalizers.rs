//! Finalizers: while one is on an object, Kantor still has to clean up after it.

use crate::vocabulary::vocabulary;

vocabulary! {
    /// On Organizations: the organization's namespace is still there.
    ORGANIZATION = "openchoreo.dev/delete-namespace";
    /// On Projects: components, or namespaces on data planes, are still there.
    PROJECT = "openchoreo.dev/project-cleanup";
    /// On Components: deployment tracks are still there.
    COMPONENT = "openchoreo.dev/component-cleanup";
    /// On DeploymentTracks: deployments, artifacts or builds are still there.
    DEPLOYMENT_TRACK = "openchoreo.dev/deploymenttrack-cleanup";
    /// On DeployableArtifacts: deployments still use it.
    DEPLOYABLE_ARTIFACT = "openchoreo.dev/deployableartifact-cleanup";
    /// On Environments: deployments, or namespaces on the data plane, are still there.
    ENVIRONMENT = "openchoreo.dev/environment-cleanup";
    /// On DataPlanes: environments still use it. On Releases: objects are still on the data plane.
    DATA_PLANE = "openchoreo.dev/dataplane-cleanup";
    /// On Deployments: workloads are still on the data plane.
    DEPLOYMENT = "openchoreo.dev/data-plane-cleanup";
    /// On Endpoints: routes are still on the data plane.
    ENDPOINT = "openchoreo.dev/endpoint-deletion";
    /// On Secrets: a DataPlane names it. Without it, what is on the data plane could not be removed after a restart.
    SECRET = "openchoreo.dev/dataplane-secret";
}

/// Finalizer of Releases: the same text as that of DataPlanes.
pub const RELEASE: &str = DATA_PLANE;
