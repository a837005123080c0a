//! Finding what an object refers to, and who refers to it.

use std::collections::HashMap;

use thiserror::Error;

use super::{Facts, Id, Key, KeyRef, Kind, Need};

/// Where objects are looked up.
pub trait Catalog {
    /// The objects that are found under `key`, in a stable order.
    fn found(&self, key: KeyRef<'_>) -> Vec<Id>;
    /// The objects that refer to `key`, in a stable order.
    fn referring(&self, key: KeyRef<'_>) -> Vec<Id>;
    /// What is known of an object.
    fn facts(&self, id: &Id) -> Option<&Facts>;
}

/// Why what an object refers to was not found.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ResolveError {
    /// There is none.
    #[error("{kind} {name} does not exist{}", within(.scope))]
    Missing {
        /// Kind of what is missing.
        kind: Kind,
        /// Its logical name.
        name: String,
        /// Logical names of its parents, from the organization down.
        scope: Vec<String>,
    },
    /// There is more than one.
    #[error(
        "{kind} {name} is ambiguous{}: {}; give each its own label openchoreo.dev/name", within(.scope), .found.join(", ")
    )]
    Ambiguous {
        /// Kind of what was looked for.
        kind: Kind,
        /// Its logical name.
        name: String,
        /// Logical names of its parents, from the organization down.
        scope: Vec<String>,
        /// Names of the objects that were found.
        found: Vec<String>,
    },
    /// The object does not say.
    #[error("label {} is missing", .0.join(", "))]
    Unlabelled(
        /// The labels.
        Vec<&'static str>,
    ),
    /// The object does not refer to anything of the kind.
    #[error("no {0} is named")]
    Unnamed(Kind),
}

/// The chain of parents, from the nearest up: " in component greeter of project shop of organization acme".
fn within(scope: &[String]) -> String {
    const LEVELS: &[&str] =
        &["organization", "project", "component", "deployment track", "environment", "deployment"];
    let chain: Vec<String> =
        LEVELS.iter().zip(scope).map(|(level, name)| format!("{level} {name}")).rev().collect();
    if chain.is_empty() { String::new() } else { format!(" in {}", chain.join(" of ")) }
}

/// The object of `kind` that the object of `facts` refers to. Of several references to one kind the first that leads
/// somewhere counts; logical names go before `metadata.name`.
pub fn resolve(catalog: &impl Catalog, facts: &Facts, kind: Kind) -> Result<Id, ResolveError> {
    let mut first_error = None;
    for need in facts.needs.iter().filter(|need| need.kind == kind) {
        match find(catalog, need) {
            Err(error @ ResolveError::Missing { .. }) => {
                first_error.get_or_insert(error);
            }
            other => return other,
        }
    }
    Err(first_error.unwrap_or_else(|| {
        if facts.missing_labels.is_empty() {
            ResolveError::Unnamed(kind)
        } else {
            ResolveError::Unlabelled(facts.missing_labels.clone())
        }
    }))
}

/// Why one of the objects of `kinds` that the object of `facts` refers to, or should refer to, was not found.
pub fn unresolved(catalog: &impl Catalog, facts: &Facts, kinds: &[Kind]) -> Option<ResolveError> {
    kinds.iter().find_map(|kind| {
        let needs = counting(catalog, facts, *kind);
        if needs.is_empty() {
            return resolve(catalog, facts, *kind).err();
        }
        needs.into_iter().find_map(|need| find(catalog, need).err())
    })
}

/// The references to `kind` that count: of alternatives, the first that leads somewhere.
fn counting<'a>(catalog: &impl Catalog, facts: &'a Facts, kind: Kind) -> Vec<&'a Need> {
    let mut counting: Vec<&Need> = vec![];
    // Alternatives have one name: they are looked up by it, since there may be as many as an object has room for.
    let mut known: HashMap<&str, usize> = HashMap::new();
    for need in facts.needs.iter().filter(|need| need.kind == kind) {
        let at = *known.entry(&need.name).or_insert(counting.len());
        match counting.get_mut(at) {
            None => counting.push(need),
            Some(other) if candidates(catalog, other).is_empty() && !candidates(catalog, need).is_empty() => {
                *other = need;
            }
            Some(_) => {}
        }
    }
    counting
}

/// The objects that `need` may be about: those of the logical name, or else the one of the name.
fn candidates(catalog: &impl Catalog, need: &Need) -> Vec<Id> {
    let [labelled, named] = need.keys();
    let mut found = catalog.found(labelled);
    if found.is_empty() {
        found = catalog.found(named);
        found.retain(|id| catalog.facts(id).is_some_and(|facts| facts.fits(&need.scope)));
    }
    found
}

/// The object that `need` is about.
pub fn find(catalog: &impl Catalog, need: &Need) -> Result<Id, ResolveError> {
    let mut found = candidates(catalog, need);
    let (kind, name, scope) = (need.kind, need.name.clone(), need.scope.clone());
    match found.len() {
        0 => Err(ResolveError::Missing { kind, name, scope }),
        1 => Ok(found.swap_remove(0)),
        _ => {
            let found = found.into_iter().map(|id| id.name).collect();
            Err(ResolveError::Ambiguous { kind, name, scope, found })
        }
    }
}

/// The objects of `kind` that refer to `parent` and to no other object in its place.
pub fn children(catalog: &impl Catalog, parent: &Facts, kind: Kind) -> Vec<Id> {
    // An organization is its namespace: what lies elsewhere is not its own, whatever its labels say.
    let at_home = |id: &Id| parent.id.kind != Kind::Organization || id.namespace == parent.id.name;
    let mut children: Vec<Id> = parent
        .keys()
        .iter()
        .flat_map(|key| catalog.referring(Key::borrowed(key)))
        .filter(|id| id.kind == kind && at_home(id))
        .filter(|id| {
            let Some(child) = catalog.facts(id) else { return false };
            // An ambiguous parent is a parent: its children are not to be lost.
            counting(catalog, child, parent.id.kind)
                .into_iter()
                .any(|need| candidates(catalog, need).contains(&parent.id))
        })
        .collect();
    children.sort();
    children.dedup();
    children
}

/// The children of `kind` that go with `parent` when it is deleted: those that it owns, and those that nobody who lives is
/// the parent of as well, or will be when it has gone. The copy of an object takes nothing of the original along.
pub fn taken_along(catalog: &impl Catalog, parent: &Facts, kind: Kind) -> Vec<Id> {
    unshared(catalog, parent, kind, |need| {
        let mut found: Vec<Id> = need.keys().into_iter().flat_map(|key| catalog.found(key)).collect();
        found.retain(|id| catalog.facts(id).is_some_and(|facts| facts.fits(&need.scope)));
        found
    })
}

/// The objects of `kind` that `parent` waits for when it is deleted, because they use it: not those that may mean another
/// one who lives.
pub fn users(catalog: &impl Catalog, parent: &Facts, kind: Kind) -> Vec<Id> {
    unshared(catalog, parent, kind, |need| candidates(catalog, need))
}

/// The children that do not belong to another one who lives, too: to one of those that `meant` finds for their reference.
fn unshared(catalog: &impl Catalog, parent: &Facts, kind: Kind, meant: impl Fn(&Need) -> Vec<Id>) -> Vec<Id> {
    let lives = |id: &Id| *id != parent.id && catalog.facts(id).is_some_and(|facts| !facts.deleting);
    let mut children = children(catalog, parent, kind);
    children.retain(|id| {
        let Some(child) = catalog.facts(id) else { return false };
        let is_owned = parent.uid.as_ref().is_some_and(|uid| child.owners.contains(uid));
        let references = counting(catalog, child, parent.id.kind).into_iter();
        is_owned
            || !references
                .filter(|need| candidates(catalog, need).contains(&parent.id))
                .any(|need| meant(need).iter().any(lives))
    });
    children
}

/// The other objects that live and have the logical name of the object of `facts`.
pub fn twins(catalog: &impl Catalog, facts: &Facts) -> Vec<Id> {
    let Some(scope) = facts.scope.iter().cloned().collect::<Option<Vec<String>>>() else { return vec![] };
    let name = facts.name().to_owned();
    let need =
        Need { kind: facts.id.kind, namespace: facts.id.namespace.clone(), scope, name, passes_on: &[] };
    let mut twins: Vec<Id> = need.keys().into_iter().flat_map(|key| catalog.found(key)).collect();
    twins.retain(|id| {
        *id != facts.id
            && catalog.facts(id).is_some_and(|other| {
                !other.deleting && other.name() == facts.name() && other.fits(&need.scope)
            })
    });
    twins.sort();
    twins.dedup();
    twins
}

/// The objects of `kind` that refer to the same `parent` as the object of `facts` does, whether it exists or not.
pub fn beside(catalog: &impl Catalog, facts: &Facts, parent: Kind, kind: Kind) -> Vec<Id> {
    let needs = facts.needs.iter().filter(|need| need.kind == parent);
    let mut beside: Vec<Id> = needs.flat_map(Need::keys).flat_map(|key| catalog.referring(key)).collect();
    beside.retain(|id| id.kind == kind && id.namespace == facts.id.namespace);
    beside.sort();
    beside.dedup();
    beside
}
