//! Which kinds Releases may have.

use kantor_api::data_plane::ReleasePolicy;

use super::{
    Asked,
    patterns::{kind_matches, names},
    shown,
};

/// Groups that give rights, tell about them, are Kantor's own API, or keep organizations apart: which hosts and ports lead
/// where, who reaches whom, and what is behind a Service. A policy opens them by their name only.
const GUARDED: [&str; 27] = [
    "rbac.authorization.k8s.io",
    "openchoreo.dev",
    "authorization.k8s.io",
    "authentication.k8s.io",
    // Routes, gateways and their policies.
    "gateway.networking.k8s.io",
    "gateway.networking.x-k8s.io",
    "gateway.envoyproxy.io",
    "networking.k8s.io",
    "extensions",
    "networking.istio.io",
    "security.istio.io",
    "traefik.io",
    "traefik.containo.us",
    "projectcontour.io",
    "configuration.konghq.com",
    "k8s.nginx.org",
    "getambassador.io",
    "kuma.io",
    "route.openshift.io",
    "externaldns.k8s.io",
    // Who reaches whom.
    "policy.networking.k8s.io",
    "cilium.io",
    "crd.projectcalico.org",
    "projectcalico.org",
    "crd.antrea.io",
    "k8s.ovn.org",
    // What is behind a Service.
    "discovery.k8s.io",
];

/// The same in the core group, where a policy has to write the kind.
const GUARDED_CORE: [&str; 1] = ["Endpoints"];

/// Groups whose kinds without a namespace let their owner in between the data plane's API server and everyone else.
const GUARDED_CLUSTER_WIDE: [&str; 3] =
    ["admissionregistration.k8s.io", "apiregistration.k8s.io", "certificates.k8s.io"];

/// Says why objects of the kind are refused, wherever they are.
pub(super) fn judge(policy: &ReleasePolicy, asked: &Asked<'_>) -> Result<(), String> {
    let denied = policy.denied_kinds.iter().find(|entry| kind_matches(entry, asked.group, asked.kind));
    if let Some(entry) = denied {
        return Err(format!(
            "the data plane refuses this kind by {} in its releasePolicy.deniedKinds; leave the object out",
            shown(entry)
        ));
    }
    if asked.is_namespace() {
        // Judged by its name, as the place that it is.
        Ok(())
    } else if asked.namespaced {
        with_namespace(&policy.allowed_kinds, asked)
    } else {
        without_namespace(&policy.cluster_scoped_kinds, asked)
    }
}

fn with_namespace(allowed: &[String], asked: &Asked<'_>) -> Result<(), String> {
    let guarded = is_guarded(asked);
    if is_opened(allowed, asked, guarded) || (allowed.is_empty() && !guarded) {
        Ok(())
    } else if guarded {
        Err(format!(
            "the kind gives rights or keeps organizations apart: it needs an entry in the data plane's \
             releasePolicy.allowedKinds that names the group, such as {}",
            entry_for(asked)
        ))
    } else {
        Err(format!(
            "the kind is not among the data plane's releasePolicy.allowedKinds; it needs an entry there, such as {}",
            entry_for(asked)
        ))
    }
}

fn without_namespace(allowed: &[String], asked: &Asked<'_>) -> Result<(), String> {
    let guarded = is_guarded(asked) || GUARDED_CLUSTER_WIDE.contains(&asked.group);
    if is_opened(allowed, asked, guarded) {
        return Ok(());
    }
    let naming = if guarded { " that names the group" } else { "" };
    Err(format!(
        "kinds without a namespace need an entry in the data plane's releasePolicy.clusterScopedKinds{naming}, such \
         as {}",
        entry_for(asked)
    ))
}

fn is_guarded(asked: &Asked<'_>) -> bool {
    GUARDED.contains(&asked.group) || (asked.group.is_empty() && GUARDED_CORE.contains(&asked.kind))
}

/// Whether one of the entries opens the kind; that of a guarded group only by the group's name.
fn is_opened(entries: &[String], asked: &Asked<'_>, guarded: bool) -> bool {
    entries.iter().any(|entry| {
        kind_matches(entry, asked.group, asked.kind) && (!guarded || names(entry, asked.group, asked.kind))
    })
}

/// The entry that opens this kind and no other.
fn entry_for(asked: &Asked<'_>) -> String {
    let kind = shown(asked.kind);
    if asked.group.is_empty() { kind } else { format!("{kind}.{}", shown(asked.group)) }
}
