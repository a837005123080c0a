//! Label keys and their fixed values.

use crate::vocabulary::vocabulary;

vocabulary! {
    /// Organization that the object belongs to.
    ORGANIZATION = "openchoreo.dev/organization";
    /// Project that the object belongs to, by the project's logical name.
    PROJECT = "openchoreo.dev/project";
    /// Component that the object belongs to, by its logical name.
    COMPONENT = "openchoreo.dev/component";
    /// Deployment track that the object belongs to, by its logical name.
    DEPLOYMENT_TRACK = "openchoreo.dev/deployment-track";
    /// Environment that the object belongs to, by its logical name.
    ENVIRONMENT = "openchoreo.dev/environment";
    /// Deployment that an Endpoint was made for, by its logical name.
    DEPLOYMENT = "openchoreo.dev/deployment";
    /// Deployable artifact that the object belongs to, by its logical name.
    DEPLOYABLE_ARTIFACT = "openchoreo.dev/deployable-artifact";
    /// Build that the object belongs to, by its logical name.
    BUILD = "openchoreo.dev/build";
    /// Data plane that the object belongs to, by its logical name.
    DATA_PLANE = "openchoreo.dev/dataplane";
    /// `true` on a DataPlane that also builds images. Kept for compatibility; not read.
    BUILD_PLANE = "openchoreo.dev/build-plane";
    /// The object's own logical name. It may differ from `metadata.name`, so that one name can be used under
    /// several parents of one namespace. Lookups try this label first and `metadata.name` second.
    NAME = "openchoreo.dev/name";
    /// Who owns the life cycle of the object. `openchoreo-control-plane` on namespaces of organizations,
    /// `release-controller` on objects of Releases.
    MANAGED_BY = "openchoreo.dev/managed-by";
    /// Who first created a shared object.
    CREATED_BY = "openchoreo.dev/created-by";
    /// `spec.resources[].id` of the Release that an object belongs to.
    RELEASE_RESOURCE_ID = "openchoreo.dev/release-resource-id";
    /// UID of the Release that an object belongs to.
    RELEASE_UID = "openchoreo.dev/release-uid";
    /// Name of the Release that an object belongs to.
    RELEASE_NAME = "openchoreo.dev/release-name";
    /// Namespace of the Release that an object belongs to.
    RELEASE_NAMESPACE = "openchoreo.dev/release-namespace";
    /// UID of the Deployment or Endpoint that an object on a data plane was made for. Objects are only ever
    /// changed or deleted for the owner that is named here.
    OWNER_UID = "openchoreo.dev/owner-uid";
    /// Instance of the operator that looks after the object (`--instance-id`). Objects without it belong to the operator
    /// without an instance.
    INSTANCE_ID = "openchoreo.dev/instance-id";
    /// `application` on a Secret of the control plane allows Deployments to copy keys of it to a data plane.
    SECRET_KIND = "openchoreo.dev/secret-kind";
}

/// Label of Kubernetes on namespaces: the Pod Security level of pods that are made there.
pub const POD_SECURITY: &str = "pod-security.kubernetes.io/enforce";

/// Value of [`MANAGED_BY`] on the namespaces of organizations.
pub const MANAGED_BY_CONTROL_PLANE: &str = "openchoreo-control-plane";

/// Value of [`MANAGED_BY`] on the objects of Releases.
pub const MANAGED_BY_RELEASE_CONTROLLER: &str = "release-controller";

/// Labels of objects on data planes. Network policies that the planes carry select on them, so neither
/// keys nor values may change.
pub mod plane {
    use crate::vocabulary::vocabulary;

    vocabulary! {
        /// Organization of the workload.
        ORGANIZATION_NAME = "organization-name";
        /// Project of the workload.
        PROJECT_NAME = "project-name";
        /// Environment of the workload.
        ENVIRONMENT_NAME = "environment-name";
        /// Component of the workload.
        COMPONENT_NAME = "component-name";
        /// Type of the component (`Service`, `WebApplication`, …).
        COMPONENT_TYPE = "component-type";
        /// Deployment track of the workload.
        DEPLOYMENT_TRACK_NAME = "deployment-track-name";
        /// Deployment of the workload.
        DEPLOYMENT_NAME = "deployment-name";
        /// Always `choreo-deployment-controller`: the object is kept by the deployment system.
        MANAGED_BY = "managed-by";
        /// Always `user-workloads`. Cluster-wide network policies of the planes select pods by it: without it
        /// a pod has no DNS and no ingress.
        BELONG_TO = "belong-to";
        /// Gateway that a route hangs on: `gateway-external` or `gateway-internal`.
        GATEWAY_VISIBILITY = "gateway-visibility";
    }

    /// Value of [`MANAGED_BY`].
    pub const MANAGED_BY_DEPLOYMENT_CONTROLLER: &str = "choreo-deployment-controller";

    /// Value of [`BELONG_TO`].
    pub const BELONG_TO_USER_WORKLOADS: &str = "user-workloads";
}
