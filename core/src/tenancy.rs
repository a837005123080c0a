//! Which objects of a Release may go to a data plane.
//!
//! A Release carries whatever its organization writes into it, and Kantor's credentials for a data plane reach further
//! than any one organization may. So each object is judged before it is written: by its kind, and by the namespace that
//! it would be in. What the organization itself can write (labels of its Release, labels of its objects) never opens
//! what is not its own.

use std::collections::BTreeMap;

use kantor_api::{
    data_plane::ReleasePolicy,
    names::{self, NameKind},
};

mod kinds;
mod patterns;
mod places;
mod records;

pub use patterns::kind_matches;
pub use places::{is_of, is_of_another};
pub use records::{believed, may_be_on};

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenant<'a> {
    /// Organization: the namespace of the Release, never its labels (those are the tenant's to write).
    pub organization: &'a str,
    /// Project that owns the Release.
    pub project: &'a str,
    /// Logical name of the environment.
    pub environment: &'a str,
}

/// An object, as far as the rules look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked<'a> {
    /// API group; empty for the core group.
    pub group: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Whether objects of the kind are in a namespace, as the data plane tells it.
    pub namespaced: bool,
    /// Namespace; empty if none is written.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
    /// Labels.
    pub labels: &'a BTreeMap<String, String>,
}

impl Asked<'_> {
    /// Namespaces are the one kind without a namespace that organizations may have of their own.
    fn is_namespace(&self) -> bool {
        self.group.is_empty() && self.kind == "Namespace"
    }
}

/// What is known of a namespace on the plane: its labels, or nothing if it does not exist.
pub type Sight<'a> = dyn Fn(&str) -> Option<BTreeMap<String, String>> + 'a;

/// Name of the namespace that is the tenant's by its name. Others can have the same one (`a-b` with `c` and `a` with
/// `b-c`), so labels have the last word.
pub fn own_namespace(tenant: &Tenant<'_>) -> String {
    names::generate(NameKind::Namespace, &["dp", tenant.organization, tenant.project, tenant.environment])
}

/// Why the object may not go to the data plane: names the object and the rule, and what to do.
///
/// For an object that is a Namespace, `namespaces` has to tell what is live and nothing else: labels from the Release
/// would pass for those of a namespace that exists. [`refusals`] sees to that.
pub fn refusal(
    tenant: &Tenant<'_>,
    policy: Option<&ReleasePolicy>,
    asked: &Asked<'_>,
    namespaces: &Sight<'_>,
) -> Option<String> {
    let nothing_said = ReleasePolicy::default();
    let policy = policy.unwrap_or(&nothing_said);
    let judged = kinds::judge(policy, asked)
        .and_then(|()| name(asked.name))
        .and_then(|()| places::judge(tenant, policy, asked, namespaces));
    judged.err().map(|rule| format!("{} {}: {rule}", shown(asked.kind), shown(asked.name)))
}

/// [`refusal`] for each object of one Release, seeing `live` namespaces only. Objects may be in namespaces that the
/// Release brings along, if those are not refused themselves.
pub fn refusals(
    tenant: &Tenant<'_>,
    policy: Option<&ReleasePolicy>,
    asked: &[Asked<'_>],
    live: &Sight<'_>,
) -> Vec<Option<String>> {
    let brought: BTreeMap<&str, &BTreeMap<String, String>> = asked
        .iter()
        .filter(|object| object.is_namespace() && refusal(tenant, policy, object, live).is_none())
        .map(|namespace| (namespace.name, namespace.labels))
        .collect();
    let expected = |name: &str| live(name).or_else(|| brought.get(name).copied().cloned());
    asked
        .iter()
        .map(|object| {
            let sight: &Sight<'_> = if object.is_namespace() { live } else { &expected };
            refusal(tenant, policy, object, sight)
        })
        .collect()
}

/// Names become part of a request's path as they are: one that leaves its place there would be written elsewhere than
/// where it was judged to be.
fn name(name: &str) -> Result<(), String> {
    let strays = |c: char| matches!(c, '/' | '\\' | '%' | '?' | '#') || c.is_whitespace() || c.is_control();
    if name.is_empty() {
        Err("has no name; write metadata.name".to_owned())
    } else if matches!(name, "." | "..") || name.contains(strays) {
        Err("is no name that an object can have; change metadata.name".to_owned())
    } else {
        Ok(())
    }
}

/// `text` as it stands in messages: what the tenant wrote, but neither endless nor with anything invisible.
fn shown(text: &str) -> String {
    /// No name that Kubernetes accepts is longer.
    const LONGEST: usize = 253;
    let mut shown: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests;
