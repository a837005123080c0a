//! The claims that are known, found by name, by host and by Endpoint.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kantor_api::hostname_claim::HostnameClaim;
use kube_core::ResourceExt;

use super::{
    claims::also_served_by,
    key::{ClaimKey, overlaps},
    name::WILDCARD,
};

/// The claims that are known. A question costs what its answer is long, however many claims there are.
#[derive(Clone, Debug, Default)]
pub struct Book {
    claims: BTreeMap<String, Arc<HostnameClaim>>,
    /// Names of the claims of a host, by the host backwards: what is below a domain is next to it.
    hosts: BTreeMap<String, Paths>,
    /// Names of the claims that name an Endpoint, by its UID.
    endpoints: BTreeMap<String, BTreeSet<String>>,
}

/// Names of the claims of one host, by the part of it that they are about: what is below a path is next to it.
type Paths = BTreeMap<String, BTreeSet<String>>;

impl Book {
    /// Notes a claim as it is now.
    pub fn set(&mut self, claim: Arc<HostnameClaim>) {
        let name = claim.name_any();
        self.remove(&name);
        let (host, path) = place(&claim);
        self.hosts.entry(host).or_default().entry(path).or_default().insert(name.clone());
        for uid in named(&claim) {
            self.endpoints.entry(uid.to_owned()).or_default().insert(name.clone());
        }
        self.claims.insert(name, claim);
    }

    /// Forgets the claim of this name.
    pub fn remove(&mut self, name: &str) {
        let Some(claim) = self.claims.remove(name) else { return };
        let (host, path) = place(&claim);
        if let Some(paths) = self.hosts.get_mut(&host) {
            strike(paths, &path, name);
            if paths.is_empty() {
                self.hosts.remove(&host);
            }
        }
        for uid in named(&claim) {
            strike(&mut self.endpoints, uid, name);
        }
    }

    /// The claim of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<HostnameClaim>> {
        self.claims.get(name)
    }

    /// All claims.
    pub fn all(&self) -> impl Iterator<Item = &Arc<HostnameClaim>> {
        self.claims.values()
    }

    /// The claims that name the Endpoint with this UID, as holder or as one that serves the host too.
    pub fn naming(&self, uid: &str) -> impl Iterator<Item = &Arc<HostnameClaim>> {
        self.endpoints.get(uid).into_iter().flatten().filter_map(|name| self.claims.get(name))
    }

    /// The claims that overlap `key`, that of the key itself included.
    pub fn near(&self, key: &ClaimKey) -> Vec<&Arc<HostnameClaim>> {
        let base = key.hostname.strip_prefix(WILDCARD);
        // Wildcards above, from `b.com` in `a.b.com` on.
        let above = base.unwrap_or(&key.hostname).match_indices('.').filter_map(|(dot, _)| {
            let domain = base.unwrap_or(&key.hostname).get(dot + 1..)?;
            self.hosts.get(&backwards(&format!("{WILDCARD}{domain}")))
        });
        let below = base.map(|base| format!("{}.", backwards(base)));
        let below = below.iter().flat_map(|prefix| {
            let from_there = self.hosts.range(prefix.clone()..);
            from_there.take_while(move |(host, _)| host.starts_with(prefix)).map(|(_, paths)| paths)
        });
        // The wildcard itself is among those below its domain.
        let same = self.hosts.get(&backwards(&key.hostname)).filter(|_| base.is_none());
        let path = key.path_prefix.as_deref().unwrap_or_default();
        let near = same.into_iter().chain(above).chain(below).flat_map(|paths| along(paths, path));
        near.filter_map(|name| self.claims.get(name))
            .filter(|claim| overlaps(key, &ClaimKey::of(claim)))
            .collect()
    }
}

/// Where a claim is found: by its host backwards and the path below it.
fn place(claim: &HostnameClaim) -> (String, String) {
    let key = ClaimKey::of(claim);
    (backwards(&key.hostname), key.path_prefix.unwrap_or_default())
}

/// The claims of `path`, of what it is part of, and of its parts.
fn along<'a>(paths: &'a Paths, path: &str) -> impl Iterator<Item = &'a String> + use<'a> {
    let above = path.match_indices('/').filter_map(|(slash, _)| paths.get(&path[..slash]));
    let below = format!("{path}/");
    let same = paths.get(path);
    let parts = paths.range(below.clone()..).take_while(move |(part, _)| part.starts_with(&below));
    let found: Vec<&BTreeSet<String>> = above.chain(same).chain(parts.map(|(_, names)| names)).collect();
    found.into_iter().flatten()
}

/// UIDs of the Endpoints that a claim names.
fn named(claim: &HostnameClaim) -> impl Iterator<Item = &str> {
    also_served_by(claim).chain([claim.spec.holder.uid.as_str()])
}

fn strike(index: &mut BTreeMap<String, BTreeSet<String>>, key: &str, name: &str) {
    if let Some(names) = index.get_mut(key) {
        names.remove(name);
        if names.is_empty() {
            index.remove(key);
        }
    }
}

/// `com.example.shop`.
fn backwards(host: &str) -> String {
    host.rsplit('.').collect::<Vec<_>>().join(".")
}
