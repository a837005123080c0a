//! Annotation keys.

use crate::vocabulary::vocabulary;

vocabulary! {
    /// Name of the object for people.
    DISPLAY_NAME = "openchoreo.dev/display-name";
    /// What the object is for, for people.
    DESCRIPTION = "openchoreo.dev/description";
    /// Hash of what Kantor last wanted the object to be. Together with the live fields it tells that there is
    /// nothing to do.
    INTENT_HASH = "openchoreo.dev/intent-hash";
    /// On pods: changes when a value that they see does, so that they are made anew.
    CONFIGURATION_CHECKSUM = "openchoreo.dev/configuration-checksum";
    /// `"true"` stops all writes for the object until it is removed; the status says so.
    PAUSED = "openchoreo.dev/paused";
    /// `Orphan` lets the object be deleted without cleaning up its data plane; an Event lists what stays behind.
    DELETION_POLICY = "openchoreo.dev/deletion-policy";
    /// On a Deployment, or on an Environment for all in it: how long a move to another data plane may take, as `10m`. After that
    /// the former data plane is cleaned although the workload does not run on the new one. Without it, it stays until then.
    MOVE_DEADLINE = "openchoreo.dev/move-deadline";
    /// `"true"` allows the object to take over objects on the data plane that exist already and belong to nobody, or to
    /// another object of Kantor. On a Deployment it counts for the Endpoints that it makes, too.
    ADOPT = "openchoreo.dev/adopt";
    /// `"true"` allows objects whose immutable fields changed to be deleted and made anew.
    REPLACE = "openchoreo.dev/replace";
    /// On objects of Releases whose id is not allowed as a label: the id.
    RELEASE_RESOURCE_ID = "openchoreo.dev/release-resource-id";
    /// Repository, without tag, of the images of a Component whose artifacts name only a tag.
    IMAGE_REPOSITORY = "openchoreo.dev/image-repository";
    /// On routes: the hosts, or parts of hosts, that were claimed for them.
    HOSTNAMES = "openchoreo.dev/hostnames";
    /// On a HostnameClaim: `<namespace>/<name>` of the Endpoint of the same organization that shall get the host.
    TRANSFER_TO = "openchoreo.dev/transfer-to";
    /// On a HostnameClaim: UIDs of Endpoints of the organization that do not hold the host and whose routes may have it
    /// all the same, because it is being handed over. The host is not given up before they have let go of it.
    ALSO_SERVED_BY = "openchoreo.dev/also-served-by";
    /// On the kubeconfig Secret of a DataPlane: `"true"` has Kantor renew the ServiceAccount token in it before it ends. The
    /// kubeconfig is then written anew, with nothing in it but the one cluster and the one user that are used.
    RENEW = "openchoreo.dev/renew";
}

/// Value of [`DELETION_POLICY`] that lets an object go without cleaning up.
pub const DELETION_POLICY_ORPHAN: &str = "Orphan";
