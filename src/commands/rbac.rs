//! `kantor rbac`: what the operator may do, on the control plane and on data planes.
//!
//! This is the one source of the rules: the files in `config/` and in the charts are made of it by `make generate`, and all
//! tests of the operator run under them.

mod rules;

use std::fmt::Write as _;

use clap::{Args, ValueEnum};
pub use rules::{Right, Subject, control_plane, data_plane, lease};

/// Print the rights of the operator as YAML, to be granted with `kantor rbac data-plane | kubectl apply -f -`.
#[derive(Args, Debug)]
pub struct RbacArgs {
    /// Which cluster they are for.
    #[arg(value_enum)]
    side: Side,
    /// Namespace of the ServiceAccount.
    #[arg(long, value_name = "NAMESPACE", default_value = NAMESPACE)]
    namespace: String,
}

/// Clusters that the operator is let into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Side {
    /// The cluster with the custom resources.
    ControlPlane,
    /// A cluster that workloads run on.
    DataPlane,
}

/// Where the operator, or its ServiceAccount on a data plane, lives unless told otherwise.
pub const NAMESPACE: &str = "kantor-system";
/// Name of the operator's ServiceAccount, its roles and its Lease.
pub const OPERATOR: &str = "kantor";
/// Name of the ServiceAccount on a data plane and of its role.
pub const DATA_PLANE: &str = "kantor-data-plane";
/// Name of the role on a data plane that gathers what Releases need beyond that.
pub const RELEASES: &str = "kantor-data-plane-releases";
/// The label of roles that are gathered.
pub const AGGREGATE: &str = "openchoreo.dev/aggregate-to-data-plane";

/// Runs the command.
pub fn run(args: &RbacArgs) -> anyhow::Result<()> {
    let text = match args.side {
        Side::ControlPlane => format!("{}{}", namespace(&args.namespace), operator(&args.namespace)),
        Side::DataPlane => on_data_plane(&args.namespace),
    };
    super::print(&text)
}

/// The operator's account and roles on the control plane.
pub fn operator(namespace: &str) -> String {
    let mut text = account(OPERATOR, namespace);
    text += &role("ClusterRole", OPERATOR, None, &control_plane());
    text += &binding("ClusterRole", OPERATOR, OPERATOR, namespace);
    text += &role("Role", OPERATOR, Some(namespace), &lease());
    text += &binding("Role", OPERATOR, OPERATOR, namespace);
    text
}

/// What a data plane hands to the operator: an account that may do what Deployments and Endpoints need, and what the roles
/// with the label of [`AGGREGATE`] allow.
pub fn on_data_plane(in_namespace: &str) -> String {
    let mut text = namespace(in_namespace) + &account(DATA_PLANE, in_namespace);
    text += &role("ClusterRole", DATA_PLANE, None, &data_plane());
    text += &binding("ClusterRole", DATA_PLANE, DATA_PLANE, in_namespace);
    text += &aggregated();
    text += &binding("ClusterRole", RELEASES, DATA_PLANE, in_namespace);
    text
}

/// A role for data planes on which Releases may bring objects of any kind. It is gathered by that of the data plane.
pub fn any_release() -> String {
    let text = role("ClusterRole", "kantor-data-plane-any-release", None, &rules::any_release());
    text.replacen("metadata:\n", &format!("metadata:\n  labels:\n    {AGGREGATE}: \"true\"\n"), 1)
}

/// The rules alone, for charts.
pub fn rules(rights: &[Right]) -> String {
    let mut text = String::new();
    for right in rights {
        right.write(&mut text);
    }
    text
}

fn namespace(name: &str) -> String {
    format!("---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n")
}

fn account(name: &str, namespace: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: {name}\n  namespace: {namespace}\n"
    )
}

fn role(kind: &str, name: &str, namespace: Option<&str>, rights: &[Right]) -> String {
    let mut text =
        format!("---\napiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata:\n  name: {name}\n");
    if let Some(namespace) = namespace {
        let _ = writeln!(text, "  namespace: {namespace}");
    }
    text + "rules:\n" + &rules(rights)
}

/// What this allows is written by Kubernetes: the rules of all roles with the label.
fn aggregated() -> String {
    format!(
        "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: {RELEASES}\n\
         aggregationRule:\n  clusterRoleSelectors:\n  - matchLabels:\n      {AGGREGATE}: \"true\"\n"
    )
}

fn binding(kind: &str, role: &str, account: &str, namespace: &str) -> String {
    let within = if kind == "Role" { format!("  namespace: {namespace}\n") } else { String::new() };
    format!(
        "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}Binding\nmetadata:\n  name: {role}\n{within}\
         roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: {kind}\n  name: {role}\n\
         subjects:\n- kind: ServiceAccount\n  name: {account}\n  namespace: {namespace}\n"
    )
}
