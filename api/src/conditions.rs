//! Condition types and reasons, and the rules for setting a condition.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::bounds;

/// Condition types.
pub mod types {
    use crate::vocabulary::vocabulary;

    vocabulary! {
        /// The object is in the state that its spec asks for, as seen on the clusters.
        READY = "Ready";
        /// Work is in progress; `Ready` will change by itself.
        RECONCILING = "Reconciling";
        /// Nothing will change until somebody changes something; the message says what.
        STALLED = "Stalled";
        /// Deployment: artifact, image and configuration were found.
        ARTIFACT_RESOLVED = "ArtifactResolved";
        /// DataPlane, Project: the object was accepted. Kept for compatibility; look at `Ready`.
        CREATED = "Created";
        /// DeploymentTrack, DeployableArtifact, DeploymentPipeline: the object was accepted. Kept for
        /// compatibility; look at `Ready`.
        AVAILABLE = "Available";
        /// The object is being deleted and its clean-up is under way.
        FINALIZING = "Finalizing";
        /// Organization: the organization is being deleted.
        DELETING = "Deleting";
        /// DataPlane: its API server answers.
        CONNECTED = "Connected";
        /// DataPlane whose Secret has the annotation `openchoreo.dev/renew`: its token is renewed before it ends.
        TOKEN_RENEWED = "TokenRenewed";
        /// Release: all objects were accepted by the data plane.
        APPLIED = "Applied";
        /// Release: all objects are healthy.
        HEALTHY = "Healthy";
    }
}

/// Reasons of conditions.
pub mod reasons {
    use crate::vocabulary::vocabulary;

    vocabulary! {
        /// Organization: its namespace exists and carries the right labels.
        NAMESPACE_CREATED = "NamespaceCreated";
        /// Organization, Deployment: a namespace of this name exists and belongs to someone else (of organizations, the
        /// message says to whom). Rename the organization or project, or give the namespace up.
        NAMESPACE_CONFLICT = "NamespaceConflict";
        /// Organization: its namespace is being deleted. It is made anew when it has gone.
        NAMESPACE_TERMINATING = "NamespaceTerminating";
        /// Organization: the API server refused the namespace; the message is its answer.
        NAMESPACE_REFUSED = "NamespaceRefused";
        /// Organization: it is being deleted and waits for its namespace to go.
        ORGANIZATION_FINALIZING = "OrganizationFinalizing";
        /// Something that the object refers to does not exist; the message names it. The object goes on by itself
        /// when it appears.
        REFERENCE_NOT_FOUND = "ReferenceNotFound";
        /// Two objects have the logical name that the object refers to; the message names them. Give each its own
        /// label `openchoreo.dev/name`.
        REFERENCE_AMBIGUOUS = "ReferenceAmbiguous";
        /// A label that names a parent is missing; the message says which.
        LABEL_MISSING = "LabelMissing";
        /// The annotation `openchoreo.dev/paused` stops all writes for the object.
        PAUSED = "Paused";
        /// Event: the object was let go, and what the message names stays on a data plane, because the data plane is no
        /// longer registered, the annotation `openchoreo.dev/deletion-policy` asks for it, or a status names what is not of
        /// its organization.
        LEFT_BEHIND = "LeftBehind";
        /// The object is being deleted and others still use it; the message names them. Delete them, or point them
        /// elsewhere.
        IN_USE = "InUse";
        /// DataPlane: accepted.
        DATA_PLANE_CREATED = "DataPlaneCreated";
        /// DataPlane: it is being deleted. (The spelling is part of the API.)
        DATA_PLANE_FINALIZING = "DataplaneFinalizing";
        /// DataPlane: its API server answers and Kantor may use it.
        DATA_PLANE_CONNECTED = "DataPlaneConnected";
        /// DataPlane: the first connection is under way.
        DATA_PLANE_CONNECTING = "DataPlaneConnecting";
        /// DataPlane: a Secret, or a key of it, that the spec names does not exist. Environment: so says its DataPlane.
        SECRET_NOT_FOUND = "SecretNotFound";
        /// DataPlane, Environment: the operator may not read a Secret that the DataPlane names; the message is the API
        /// server's answer. It is tried again.
        SECRET_NOT_READABLE = "SecretNotReadable";
        /// DataPlane: the kubeconfig or the credentials are refused; the message names the field and what to use instead.
        KUBECONFIG_REFUSED = "KubeconfigRefused";
        /// DataPlane: its API server does not accept the credentials. Renew them in the Secret.
        CREDENTIALS_REJECTED = "CredentialsRejected";
        /// DataPlane: the credentials do not allow what Kantor needs; the message says what.
        PERMISSION_DENIED = "PermissionDenied";
        /// DataPlane: the certificate of its API server could not be verified.
        TLS_FAILED = "TlsFailed";
        /// DataPlane: its API server says more than Kantor keeps of a data plane; the message says what. It is tried again after some
        /// minutes.
        ANSWER_TOO_LARGE = "AnswerTooLarge";
        /// DataPlane: another cluster answers than before. If that is right, make a new DataPlane for it.
        CLUSTER_CHANGED = "ClusterChanged";
        /// DataPlane: its token has an end and is renewed before it; the message says when.
        TOKEN_RENEWAL_PLANNED = "TokenRenewalPlanned";
        /// Event: the token of the DataPlane was renewed.
        TOKEN_RENEWED = "TokenRenewed";
        /// DataPlane: its token could not be renewed this time; the message says why. It is tried again.
        TOKEN_RENEWAL_FAILED = "TokenRenewalFailed";
        /// DataPlane: its Secret asks for the token to be renewed, and there is none that can be; the message says why.
        TOKEN_NOT_RENEWABLE = "TokenNotRenewable";
        /// Component: its project exists.
        COMPONENT_READY = "ComponentReady";
        /// Component: it is being deleted.
        COMPONENT_FINALIZING = "ComponentFinalizing";
        /// Project: accepted.
        PROJECT_CREATED = "ProjectCreated";
        /// Project: it is being deleted.
        PROJECT_FINALIZING = "ProjectFinalizing";
        /// DeploymentTrack: accepted.
        DEPLOYMENT_TRACK_AVAILABLE = "DeploymentTrackAvailable";
        /// DeploymentTrack: it is being deleted.
        DEPLOYMENT_TRACK_FINALIZING = "DeploymentTrackFinalizing";
        /// DeployableArtifact: accepted.
        DEPLOYABLE_ARTIFACT_AVAILABLE = "DeployableArtifactAvailable";
        /// DeployableArtifact: it is being deleted.
        DEPLOYABLE_ARTIFACT_FINALIZING = "DeployableArtifactFinalizing";
        /// DeploymentPipeline: accepted.
        DEPLOYMENT_PIPELINE_AVAILABLE = "DeploymentPipelineAvailable";
        /// Environment: its data plane exists.
        ENVIRONMENT_READY = "EnvironmentReady";
        /// Environment: it is being deleted.
        ENVIRONMENT_FINALIZING = "EnvironmentFinalizing";
        /// Deployment: artifact, image and configuration were found.
        ARTIFACT_RESOLVED = "ArtifactResolvedSuccessfully";
        /// Deployment: there is no DeployableArtifact of that name in this deployment track.
        ARTIFACT_NOT_FOUND = "ArtifactNotFound";
        /// Deployment: the artifact names a Build that does not exist.
        ARTIFACT_BUILD_NOT_FOUND = "ArtifactBuildNotFound";
        /// Deployment: the workload is available at the current generation.
        DEPLOYMENT_READY = "DeploymentReady";
        /// Deployment: work is in progress.
        DEPLOYMENT_PROGRESSING = "DeploymentProgressing";
        /// Deployment: it is being deleted.
        DEPLOYMENT_FINALIZING = "DeploymentFinalizing";
        /// Deployment: the Build of its artifact has no image yet. It goes on by itself when it has one.
        IMAGE_NOT_BUILT = "ImageNotBuilt";
        /// Deployment: there is nothing that tells which image the artifact's tag belongs to; the message says what to set.
        IMAGE_UNKNOWN = "ImageUnknown";
        /// Deployment: a configuration group that its configuration names does not exist.
        CONFIGURATION_GROUP_NOT_FOUND = "ConfigurationGroupNotFound";
        /// Deployment: a configuration group has no such key.
        CONFIGURATION_KEY_NOT_FOUND = "ConfigurationKeyNotFound";
        /// Deployment: a key of a configuration group has no value for the environment.
        CONFIGURATION_VALUE_MISSING = "ConfigurationValueMissing";
        /// Deployment, Endpoint: a Secret that its configuration or a policy names does not exist, lacks a key, or does not carry the label
        /// `openchoreo.dev/secret-kind: application`.
        SECRET_NOT_USABLE = "SecretNotUsable";
        /// Deployment: a `vaultKey` is not a path of the organization's own part of the vault; the message says which, and
        /// where that part is. Move the value there, or have `vault.pathPrefix` of the DataPlane changed.
        VAULT_PATH_NOT_ALLOWED = "VaultPathNotAllowed";
        /// Deployment: its configuration contradicts itself; the message says where.
        INVALID_CONFIGURATION = "InvalidConfiguration";
        /// Deployment: Kantor does not run components of this type.
        UNSUPPORTED_COMPONENT_TYPE = "UnsupportedComponentType";
        /// Deployment: Kantor does not scale in this way.
        UNSUPPORTED_SCALING = "UnsupportedScaling";
        /// Deployment, Endpoint: the data plane lacks a part that is needed; the message says which to install.
        CAPABILITY_MISSING = "CapabilityMissing";
        /// Deployment, Endpoint: whether the data plane has a part cannot be told at the moment; the message says why. What is
        /// there stays as it is, and `Ready` is `Unknown` meanwhile.
        CAPABILITY_UNKNOWN = "CapabilityUnknown";
        /// Deployment: another Deployment of the same track is in the environment already; the message names it.
        DUPLICATE_DEPLOYMENT = "DuplicateDeployment";
        /// Deployment: something that it belongs to is being deleted; the message names it.
        PARENT_DELETING = "ParentDeleting";
        /// Deployment: something that it belongs to is paused; the message names it.
        PARENT_PAUSED = "ParentPaused";
        /// Deployment: the workload is broken; the message says why.
        DEPLOYMENT_DEGRADED = "DeploymentDegraded";
        /// Deployment: pods cannot start or do not keep running; the message says which and why. It goes on by itself when they
        /// can.
        PODS_NOT_RUNNING = "PodsNotRunning";
        /// Deployment: an Endpoint of a name that it needs exists and is not its own; the message names it. Delete it, or
        /// rename the endpoint template.
        ENDPOINT_CONFLICT = "EndpointConflict";
        /// Deployment: it runs on the new data plane, and also on the former one until its Endpoints have left that, too.
        MOVING = "Moving";
        /// Deployment, Endpoint: what was on another data plane before, or routes whose host names were handed over, are being
        /// removed.
        CLEANING_UP = "CleaningUp";
        /// Endpoint: its routes are accepted and its back-end has endpoints.
        ENDPOINT_READY = "EndpointReady";
        /// Endpoint: it is being deleted.
        ENDPOINT_FINALIZING = "EndpointFinalizing";
        /// Endpoint: it contradicts itself or cannot be published; the message says where.
        INVALID_ENDPOINT = "InvalidEndpoint";
        /// Endpoint: its back-end cannot be served; the message says why.
        BACKEND_NOT_SUPPORTED = "BackendNotSupported";
        /// Endpoint: its Deployment has no namespace on the data plane yet. It goes on by itself.
        DEPLOYMENT_NOT_THERE = "DeploymentNotThere";
        /// Endpoint: no pod behind its Service is ready. It goes on by itself.
        BACKEND_NOT_READY = "BackendNotReady";
        /// Endpoint: the data plane's `gateway` section is missing or of no use; the message says what to set.
        GATEWAY_NOT_CONFIGURED = "GatewayNotConfigured";
        /// Endpoint: the data plane has no Gateway of the configured name.
        GATEWAY_NOT_FOUND = "GatewayNotFound";
        /// Endpoint: a policy cannot be enforced, so that no way in is opened; the message says which and why.
        POLICY_NOT_ENFORCEABLE = "PolicyNotEnforceable";
        /// Endpoint: an `oauth2` policy needs the address of the environment's keys.
        IDENTITY_PROVIDER_MISSING = "IdentityProviderMissing";
        /// Endpoint: gateways may not fetch the environment's keys from that address; the message says why. Use one that is
        /// public and begins with `https://`, or have it listed in `gateway.keyDomains` of the DataPlane.
        IDENTITY_PROVIDER_NOT_ALLOWED = "IdentityProviderNotAllowed";
        /// Endpoint: the gateway has not yet accepted a policy; its route stays closed until it has.
        POLICY_PENDING = "PolicyPending";
        /// Endpoint: the gateway does not accept a policy; the message is its answer.
        POLICY_NOT_ACCEPTED = "PolicyNotAccepted";
        /// Endpoint: the gateway has not yet accepted a route.
        ROUTE_PENDING = "RoutePending";
        /// Endpoint: the gateway does not accept a route; the message is its answer.
        ROUTE_NOT_ACCEPTED = "RouteNotAccepted";
        /// Endpoint: a host name is not allowed on this data plane; the message names the rule.
        HOSTNAME_NOT_ALLOWED = "HostnameNotAllowed";
        /// Endpoint: a host name, or a path of a shared host, is held by another organization. No way in is opened until it
        /// is free, or no longer asked for. Release: the same of a host of its routes; nothing of it is changed until then.
        HOSTNAME_CONFLICT = "HostnameConflict";
        /// Endpoint, Release: another one of the organization holds its host or path. It is handed over when that one lets
        /// go.
        HOSTNAME_WITHHELD = "HostnameWithheld";
        /// HostnameClaim: an Endpoint or a Release holds the name.
        HOSTNAME_CLAIMED = "HostnameClaimed";
        /// HostnameClaim: the Endpoint or Release that held the name has gone without a clean-up; the message says what the name waits
        /// for.
        HOLDER_GONE = "HolderGone";
        /// Release: all objects are on the data plane and healthy.
        RESOURCES_ACTIVE = "ResourcesActive";
        /// Release: all objects were accepted by the data plane.
        RESOURCES_APPLIED = "ResourcesApplied";
        /// Release: a resource is not an object that can be applied; the message names it. Nothing of the Release is
        /// changed until it is corrected.
        INVALID_RESOURCE = "InvalidResource";
        /// Release: the data plane's `releasePolicy` does not allow an object; the message names object and rule. Nothing
        /// of the Release is changed until it is.
        POLICY_VIOLATION = "PolicyViolation";
        /// Release, Deployment, Endpoint: the data plane refused an object, or it belongs to somebody else; the message, and
        /// `status.resources` of a Release, say why.
        APPLY_REFUSED = "ApplyRefused";
        /// Release, Deployment, Endpoint: an object could not be applied this time, or a kind could not be listed; it is
        /// tried again.
        APPLY_FAILED = "ApplyFailed";
        /// Release, Endpoint: something is waited for, such as a kind being installed or the data plane's lists being read;
        /// it goes on by itself.
        APPLY_WAITING = "ApplyWaiting";
        /// Release: objects that are no longer part of it are being removed.
        REMOVING_RESOURCES = "RemovingResources";
        /// Release: objects are on their way.
        RESOURCE_HEALTH_PROGRESSING = "ResourceHealthProgressing";
        /// Release: objects are broken; `status.resources` says which and why.
        RESOURCE_HEALTH_DEGRADED = "ResourceHealthDegraded";
        /// Event: somebody else changed an object on a data plane, and it was brought back.
        DRIFT_REPAIRED = "DriftRepaired";
        /// Release: it is being deleted and its objects are being removed.
        CLEANUP_IN_PROGRESS = "CleanupInProgress";
        /// Release: removing its objects failed; the message says why. It is tried again.
        CLEANUP_FAILED = "CleanupFailed";
        /// The data plane does not answer; the message says since when. `Ready` is `Unknown` meanwhile.
        DATA_PLANE_UNREACHABLE = "DataPlaneUnreachable";
    }
}

/// A kind with conditions.
pub trait Conditioned {
    /// Its conditions.
    fn conditions(&self) -> &[Condition];
    /// Generation that they are about.
    fn observed_generation(&self) -> Option<i64>;
}

macro_rules! conditioned {
    ($($kind:ident),+) => {
        $(impl Conditioned for crate::$kind {
            fn conditions(&self) -> &[Condition] {
                self.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default()
            }

            fn observed_generation(&self) -> Option<i64> {
                self.status.as_ref().and_then(|status| status.observed_generation)
            }
        })+
    };
}

conditioned!(
    Organization,
    DataPlane,
    Environment,
    DeploymentPipeline,
    Project,
    Component,
    DeploymentTrack,
    DeployableArtifact,
    Deployment,
    Endpoint,
    Release
);

/// Status values of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It cannot be told at the moment.
    Unknown,
}

impl Status {
    /// The value as it stands in the object.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for Status {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// What a condition says, without when it came to say so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// One of [`types`].
    pub type_: &'static str,
    /// Whether it holds.
    pub status: Status,
    /// One of [`reasons`].
    pub reason: &'static str,
    /// For people: what is the matter, and what to do next.
    pub message: String,
}

impl Statement {
    /// A statement of the given type.
    pub fn new(
        type_: &'static str,
        status: Status,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self { type_, status, reason, message: message.into() }
    }
}

/// Puts `statement` into `conditions`. The transition time changes only when the status does, so that an
/// unchanged statement leaves the list as it is.
pub fn set(conditions: &mut Vec<Condition>, statement: Statement, generation: Option<i64>, now: &Time) {
    let Statement { type_, status, reason, mut message } = statement;
    // A longer one would have the API server refuse the whole status.
    message.truncate(message.floor_char_boundary(bounds::TEXT as usize));
    let since = conditions
        .iter()
        .find(|c| c.type_ == type_ && c.status == status.as_str())
        .map_or_else(|| now.clone(), |c| c.last_transition_time.clone());
    let condition = Condition {
        last_transition_time: since,
        message,
        observed_generation: generation,
        reason: reason.to_owned(),
        status: status.as_str().to_owned(),
        type_: type_.to_owned(),
    };
    match conditions.iter_mut().find(|c| c.type_ == type_) {
        Some(old) => *old = condition,
        None => conditions.push(condition),
    }
}

/// The condition of the given type.
pub fn get<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == type_)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Time {
        Time(jiff::Timestamp::from_second(second).unwrap())
    }

    fn ready(status: Status, message: &str) -> Statement {
        Statement::new(types::READY, status, reasons::NAMESPACE_CREATED, message)
    }

    #[test]
    fn transition_time_changes_only_with_the_status() {
        let mut list = vec![];
        set(&mut list, ready(Status::False, "a"), Some(1), &at(10));
        set(&mut list, ready(Status::False, "b"), Some(2), &at(20));
        assert_eq!((list[0].last_transition_time.clone(), list[0].message.as_str()), (at(10), "b"));
        assert_eq!(list[0].observed_generation, Some(2));
        set(&mut list, ready(Status::True, "b"), Some(2), &at(30));
        assert_eq!(list[0].last_transition_time, at(30));
        assert_eq!(list.len(), 1);
    }

    #[test]
    fn an_unchanged_statement_leaves_the_list_as_it_is() {
        let mut list = vec![];
        set(&mut list, ready(Status::True, "a"), Some(1), &at(10));
        let before = list.clone();
        set(&mut list, ready(Status::True, "a"), Some(1), &at(99));
        assert_eq!(list, before);
    }

    #[test]
    fn a_message_is_cut_to_what_the_api_server_takes() {
        let mut list = vec![];
        set(&mut list, ready(Status::False, &"ä".repeat(40_000)), Some(1), &at(10));
        assert_eq!(list[0].message.len(), bounds::TEXT as usize);
        set(&mut list, ready(Status::False, "short"), Some(1), &at(10));
        assert_eq!(list[0].message, "short");
    }

    #[test]
    fn other_conditions_are_left_alone() {
        let mut list = vec![];
        set(&mut list, ready(Status::True, "a"), Some(1), &at(10));
        let stalled = Statement::new(types::STALLED, Status::False, reasons::NAMESPACE_CREATED, "");
        set(&mut list, stalled, Some(1), &at(20));
        assert_eq!(get(&list, types::READY).unwrap().last_transition_time, at(10));
        assert_eq!(list.len(), 2);
    }
}
