//! Which namespaces Releases may write to, and make.

use std::collections::BTreeMap;

use kantor_api::{
    data_plane::ReleasePolicy,
    labels::{self, plane},
    names::NameKind,
};

use super::{
    Asked, Sight, Tenant, own_namespace,
    patterns::{glob, glob_for},
    shown,
};

/// Namespaces of Kubernetes itself.
const KUBERNETES: &str = "kube-";

/// How names begin that Kantor gives to namespaces. Whoever took one before it is needed would own what is put there.
const GIVEN_OUT: [&str; 2] = ["dp-", "openchoreo"];

/// Whose a namespace is, by its labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// They do not say.
    Unsaid,
    /// The organization that asks.
    Tenant,
    /// Another organization.
    Other,
    /// The control plane: it is an organization's own namespace, and holds credentials.
    ControlPlane,
}

impl Owner {
    /// By the labels that a Release writes on a Namespace.
    fn written(labels: &BTreeMap<String, String>, organization: &str) -> Self {
        Self::told_by(labels, &[plane::ORGANIZATION_NAME, labels::ORGANIZATION], organization)
    }

    /// By the labels of a namespace that exists. One that a Release has brought is of the Release's organization, also if nobody
    /// wrote that on it.
    fn live(labels: &BTreeMap<String, String>, organization: &str) -> Self {
        let keys = [plane::ORGANIZATION_NAME, labels::ORGANIZATION, labels::RELEASE_NAMESPACE];
        Self::told_by(labels, &keys, organization)
    }

    fn told_by(labels: &BTreeMap<String, String>, keys: &[&str], organization: &str) -> Self {
        let said = |key: &str| labels.get(key).map(String::as_str);
        if said(labels::MANAGED_BY) == Some(labels::MANAGED_BY_CONTROL_PLANE) {
            return Self::ControlPlane;
        }
        let mut named = keys.iter().filter_map(|key| said(key)).peekable();
        if named.peek().is_none() {
            Self::Unsaid
        } else if named.all(|name| name == organization) {
            Self::Tenant
        } else {
            Self::Other
        }
    }
}

/// Whether a namespace with these labels is the organization's.
pub fn is_of(labels: &BTreeMap<String, String>, organization: &str) -> bool {
    Owner::live(labels, organization) == Owner::Tenant
}

/// Whether a namespace with these labels is another organization's, or the control plane's.
pub fn is_of_another(labels: &BTreeMap<String, String>, organization: &str) -> bool {
    matches!(Owner::live(labels, organization), Owner::Other | Owner::ControlPlane)
}

/// Labels that give a Namespace no power: those that say whose it is, which are judged by what they say, and those that
/// only describe it.
const HARMLESS: [&str; 4] =
    [plane::ORGANIZATION_NAME, "openchoreo.dev/*", "app.kubernetes.io/*", "kubernetes.io/metadata.name"];

/// Labels that let pods out of what keeps them in. A wildcard does not mean them.
const POD_SECURITY: &str = "pod-security.kubernetes.io/";

/// Says why the namespace that the object is in, or that it is, may not be written to.
pub(super) fn judge(
    tenant: &Tenant<'_>,
    policy: &ReleasePolicy,
    asked: &Asked<'_>,
    namespaces: &Sight<'_>,
) -> Result<(), String> {
    place(tenant, policy, asked, namespaces)?;
    let strange = asked.labels.keys().find(|key| !may_label(policy, key));
    match strange.filter(|_| asked.is_namespace()) {
        Some(key) => Err(format!(
            "what is selected by the label {} of a Namespace is not known here; leave it out, or have the key added to \
             the data plane's releasePolicy.namespaceLabels",
            shown(key)
        )),
        None => Ok(()),
    }
}

/// Whether Releases may write this label on Namespaces.
fn may_label(policy: &ReleasePolicy, key: &str) -> bool {
    let named = |entry: &&String| !key.starts_with(POD_SECURITY) || entry.starts_with(POD_SECURITY);
    HARMLESS.iter().any(|harmless| glob(harmless, key))
        || policy.namespace_labels.iter().filter(named).any(|entry| glob(entry, key))
}

fn place(
    tenant: &Tenant<'_>,
    policy: &ReleasePolicy,
    asked: &Asked<'_>,
    namespaces: &Sight<'_>,
) -> Result<(), String> {
    let name = if asked.is_namespace() {
        asked.name
    } else if asked.namespaced {
        asked.namespace
    } else {
        return Ok(());
    };
    possible(name)?;
    let live = namespaces(name);
    let seen = live.as_ref().map(|labels| Owner::live(labels, tenant.organization));
    let written = asked.is_namespace().then(|| Owner::written(asked.labels, tenant.organization));
    not_of_others(name, seen, written)?;

    if name == own_namespace(tenant) {
        return Ok(());
    }
    // Also for objects that are no Namespaces: their namespace may be made for them.
    if seen.is_none()
        && let Some(prefix) = GIVEN_OUT.iter().find(|prefix| name.starts_with(**prefix))
    {
        return Err(format!(
            "the namespace {name} does not exist, and names that begin with {prefix} are kept for those that Kantor \
             makes; use another name, or have the platform team make it"
        ));
    }
    // Everyone's: a label that somebody put on it does not make it anyone's.
    let ownable = name != "default";
    // The manifest counts only until there is a namespace: it could claim any that exists.
    let of_tenant = ownable && seen.or(written) == Some(Owner::Tenant);
    let is_opened = |entry: &String| glob_for(entry, tenant.organization, name);
    if of_tenant {
        return Ok(());
    }
    if policy.namespaces.iter().any(is_opened) {
        return if written.is_some() && seen == Some(Owner::Unsaid) {
            // It would go with the Release, with all that others have in it.
            Err(format!(
                "the namespace {name} exists and is open to others as well; leave the Namespace out of the Release, or have \
                 the platform team label it {}: {}",
                plane::ORGANIZATION_NAME,
                shown(tenant.organization)
            ))
        } else {
            Ok(())
        };
    }
    let organization = shown(tenant.organization);
    let label = format!("{}: {organization}", plane::ORGANIZATION_NAME);
    let label_it = match (ownable, seen, written) {
        (false, ..) => String::new(),
        (true, None, Some(_)) => format!("write the label {label} on it, or "),
        (true, ..) => format!("have the platform team label it {label}, or "),
    };
    Err(format!(
        "the namespace {name} does not belong to the organization {organization}; {label_it}have it added to the data \
         plane's releasePolicy.namespaces"
    ))
}

/// Refuses what no policy can allow by its name.
fn possible(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("has no namespace; write metadata.namespace".to_owned());
    }
    if !NameKind::Namespace.accepts(name) {
        return Err(format!("no namespace can have the name {}; change it", shown(name)));
    }
    if name.starts_with(KUBERNETES) {
        return Err(format!(
            "the namespace {name} belongs to Kubernetes: no policy opens {KUBERNETES}*; use another namespace"
        ));
    }
    Ok(())
}

/// Refuses what is somebody else's, whatever its name is and whatever a policy says: generated names can collide, and
/// wildcards cover more than was thought of. Who the other is, is not the tenant's to know.
fn not_of_others(name: &str, seen: Option<Owner>, written: Option<Owner>) -> Result<(), String> {
    match (seen, written) {
        (Some(Owner::ControlPlane), _) => Err(format!(
            "the namespace {name} belongs to the control plane, which keeps credentials there; use another namespace"
        )),
        (Some(Owner::Other), _) => {
            Err(format!("the namespace {name} belongs to another organization; use another namespace"))
        }
        (_, Some(Owner::ControlPlane)) => {
            Err(format!("the label {} is the control plane's to write; leave it out", labels::MANAGED_BY))
        }
        (_, Some(Owner::Other)) => Err(format!(
            "its labels {} and {} may only name the Release's own organization; change them or leave them out",
            plane::ORGANIZATION_NAME,
            labels::ORGANIZATION
        )),
        _ => Ok(()),
    }
}
