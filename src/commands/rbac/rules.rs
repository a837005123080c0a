//! The rules, each with what it is for.

use std::{collections::BTreeMap, fmt::Write as _};

use super::OPERATOR;
use crate::controllers;

/// Something that the operator may do, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    /// What it is for.
    pub why: &'static str,
    /// What it is about.
    pub of: Subject,
    /// What may be done.
    pub verbs: &'static [&'static str],
}

/// What a right is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Objects of the API.
    Resources {
        /// API group, empty for the core group.
        group: &'static str,
        /// Plural names, with subresources as RBAC writes them.
        resources: Vec<String>,
        /// The names of the objects; empty for all.
        names: &'static [&'static str],
    },
    /// Paths.
    Paths(&'static [&'static str]),
}

const OWN: &str = "openchoreo.dev";
const FOLLOW: &[&str] = &["list", "watch"];
/// To look, to follow, to server-side apply (which makes and changes), to remove.
const KEEP: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];

/// What the operator may do in all of the control plane.
pub fn control_plane() -> Vec<Right> {
    let all = [
        "organizations",
        "dataplanes",
        "environments",
        "deploymentpipelines",
        "projects",
        "components",
        "deploymenttracks",
        "builds",
        "configurationgroups",
        "deployableartifacts",
        "deployments",
        "endpoints",
        "hostnameclaims",
        "releases",
    ];
    let without = |others: &[&str]| -> Vec<&str> {
        all.into_iter().filter(|resource| !others.contains(resource)).collect()
    };
    let with_status = without(&["builds", "configurationgroups"]);
    let status: Vec<String> = with_status.iter().map(|resource| format!("{resource}/status")).collect();
    vec![
        right("Everything is followed.", OWN, &all, FOLLOW),
        right(
            "Definitions that are too old are refused.",
            "apiextensions.k8s.io",
            &["customresourcedefinitions"],
            &["get"],
        ),
        right(
            "Finalizers: what has something to clean up is held until that is done.",
            OWN,
            &without(&["builds", "configurationgroups", "deploymentpipelines", "hostnameclaims"]),
            &["patch"],
        ),
        right("What was seen is said.", OWN, &status, &["patch"]),
        right(
            "What belongs to something goes with it.",
            OWN,
            &without(&["organizations", "configurationgroups", "deploymentpipelines", "hostnameclaims"]),
            &["delete"],
        ),
        right("Deployments have Endpoints.", OWN, &["endpoints"], &["create"]),
        right(
            "They say who owns them, which some clusters let only those do who may hold the owner.",
            OWN,
            &["deployments/finalizers"],
            &["update"],
        ),
        right("Host names are claimed.", OWN, &["hostnameclaims"], &["get", "create", "update", "delete"]),
        right(
            "Organizations have a namespace.",
            "",
            &["namespaces"],
            &["list", "watch", "create", "patch", "delete"],
        ),
        right(
            "Credentials of data planes, and what Deployments and Endpoints copy. Only metadata is followed.",
            "",
            &["secrets"],
            &["get", "list", "watch"],
        ),
        right(
            "Tokens of data planes are renewed, and Secrets that data planes need are held by a finalizer.",
            "",
            &["secrets"],
            &["patch"],
        ),
        right("Events tell users what happened.", "events.k8s.io", &["events"], &["create", "patch"]),
    ]
}

/// What the operator may do in its own namespace of the control plane.
pub fn lease() -> Vec<Right> {
    let leases = |names| Subject::Resources {
        group: "coordination.k8s.io",
        resources: vec!["leases".to_owned()],
        names,
    };
    vec![
        Right {
            why: "The Lease that tells who leads. What is to be made has no name yet that a rule could ask for.",
            of: leases(&[]),
            verbs: &["create"],
        },
        Right { why: "It is renewed.", of: leases(&[OPERATOR]), verbs: &["get", "update"] },
    ]
}

/// What the operator may do on a data plane, for Deployments and Endpoints.
pub fn data_plane() -> Vec<Right> {
    let mut rights = vec![
        Right {
            why: "What the cluster is and serves.",
            of: Subject::Paths(&["/api", "/apis", "/readyz", "/version"]),
            verbs: &["get"],
        },
        right(
            "It is asked again when that changes.",
            "apiextensions.k8s.io",
            &["customresourcedefinitions"],
            FOLLOW,
        ),
        right(
            "Projects have a namespace per environment. That of the system tells clusters apart.",
            "",
            &["namespaces"],
            KEEP,
        ),
        right("Pods are asked why a workload is not well.", "", &["pods"], &["list"]),
        right("Who answers behind a Service.", "discovery.k8s.io", &["endpointslices"], FOLLOW),
        right("Where routes are attached to.", "gateway.networking.k8s.io", &["gateways"], FOLLOW),
    ];
    let mut by_group: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for (group, kind) in controllers::kinds_on_planes() {
        by_group.entry(group).or_default().push(plural(kind));
    }
    rights.extend(by_group.into_iter().map(|(group, resources)| Right {
        why: "Deployments and Endpoints consist of these.",
        of: Subject::Resources { group, resources, names: &[] },
        verbs: KEEP,
    }));
    rights
}

/// What the operator may do on a data plane where Releases may bring anything.
pub(super) fn any_release() -> Vec<Right> {
    vec![
        right("Objects of any kind.", "*", &["*"], KEEP),
        right(
            "Roles may allow more than the operator itself may do.",
            "rbac.authorization.k8s.io",
            &["roles", "clusterroles"],
            &["bind", "escalate"],
        ),
    ]
}

fn right<S: ToString>(
    why: &'static str,
    group: &'static str,
    resources: &[S],
    verbs: &'static [&'static str],
) -> Right {
    let resources = resources.iter().map(ToString::to_string).collect();
    Right { why, of: Subject::Resources { group, resources, names: &[] }, verbs }
}

/// The plural of a kind, as the makers of APIs form it.
fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if kind.ends_with('s') => format!("{kind}es"),
        None => format!("{kind}s"),
    }
}

impl Right {
    /// Writes the right as an item of a role's `rules`.
    pub(super) fn write(&self, text: &mut String) {
        let _ = writeln!(text, "# {}", self.why);
        match &self.of {
            Subject::Paths(paths) => {
                let _ = writeln!(text, "- nonResourceURLs: {}", list(paths));
            }
            Subject::Resources { group, resources, names } => {
                let _ = writeln!(text, "- apiGroups: {}", list(&[group]));
                let _ = writeln!(text, "  resources: {}", list(resources));
                if !names.is_empty() {
                    let _ = writeln!(text, "  resourceNames: {}", list(names));
                }
            }
        }
        let _ = writeln!(text, "  verbs: {}", list(self.verbs));
    }
}

fn list<S: AsRef<str>>(items: &[S]) -> String {
    let items: Vec<String> = items.iter().map(|item| format!("\"{}\"", item.as_ref())).collect();
    format!("[{}]", items.join(", "))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("CiliumNetworkPolicy", "ciliumnetworkpolicies")]
    #[case("SecretProviderClass", "secretproviderclasses")]
    #[case("HTTPRoute", "httproutes")]
    fn plurals(#[case] kind: &str, #[case] expected: &str) {
        assert_eq!(plural(kind), expected);
    }

    #[test]
    fn every_kind_of_the_api_is_followed() {
        let rights = control_plane();
        let followed = rights.iter().find(|right| right.verbs == FOLLOW).map(|right| &right.of);
        let Some(Subject::Resources { resources, .. }) = followed else { panic!("nothing is followed") };
        let mut followed = resources.clone();
        let mut kinds: Vec<String> =
            kantor_api::crds().into_iter().map(|crd| crd.spec.names.plural).collect();
        followed.sort();
        kinds.sort();
        assert_eq!(followed, kinds);
    }

    #[test]
    fn a_rule_says_what_it_is_for() {
        let mut text = String::new();
        lease()[1].write(&mut text);
        assert_eq!(
            text,
            "# It is renewed.\n- apiGroups: [\"coordination.k8s.io\"]\n  resources: [\"leases\"]\n  \
             resourceNames: [\"kantor\"]\n  verbs: [\"get\", \"update\"]\n"
        );
    }
}
