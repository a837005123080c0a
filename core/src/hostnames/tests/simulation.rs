//! A control plane in small: claims and Endpoints with their versions, replicas of the operator that see them late, and
//! the routes of a data plane.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kantor_api::hostname_claim::HostnameClaim;
use kube_core::ResourceExt;

use super::super::{
    book::Book,
    claims::{Contender, also_served_by},
    key::ClaimKey,
    release::Deletion,
};

/// Numbers that look random and are the same each time.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `bound`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % bound.max(1)
    }

    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// The organization of claims where nobody asks for it.
pub(super) const ANYBODY: &str = "anybody";

/// An Endpoint as the API server has it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Endpoint {
    pub me: Contender,
    pub created: Time,
    pub wanted: BTreeSet<ClaimKey>,
    pub deleting: bool,
    /// Its status: what it waits for.
    pub waiting: Vec<String>,
}

/// A claim as it became, by name.
type ClaimEvent = (String, Option<Arc<HostnameClaim>>);

/// An Endpoint as it became, by place.
type EndpointEvent = (usize, Option<Arc<Endpoint>>);

/// What a replica of the operator has seen so far.
#[derive(Default)]
pub(super) struct View {
    pub claims: Book,
    pub endpoints: BTreeMap<usize, Arc<Endpoint>>,
    claims_seen: usize,
    endpoints_seen: usize,
}

/// What is the case.
#[derive(Default)]
pub(super) struct World {
    pub claims: BTreeMap<String, Arc<HostnameClaim>>,
    pub endpoints: BTreeMap<usize, Arc<Endpoint>>,
    /// What routes have, by UID of their Endpoint.
    pub routes: BTreeMap<String, BTreeSet<ClaimKey>>,
    /// Organizations by UID of an Endpoint, of those that are gone too.
    pub organizations: BTreeMap<String, String>,
    /// Whether writes are done whatever version was seen.
    pub careless: bool,
    /// What must never be and was.
    pub broken: Option<String>,
    claim_log: Vec<ClaimEvent>,
    endpoint_log: Vec<EndpointEvent>,
    clock: u32,
}

impl World {
    /// The next moment. Seconds pass more slowly than moments, as they do.
    fn tick(&mut self) -> (String, Time) {
        self.clock += 1;
        (self.clock.to_string(), Time(Timestamp::from_second(i64::from(self.clock / 3)).unwrap()))
    }

    /// UIDs tell nothing of the time.
    fn uid(&mut self) -> String {
        self.clock += 1;
        format!("{:08x}", self.clock.wrapping_mul(0x9e37_79b1))
    }

    fn note(&mut self, name: String, claim: Option<Arc<HostnameClaim>>) {
        match &claim {
            Some(claim) => self.claims.insert(name.clone(), Arc::clone(claim)),
            None => self.claims.remove(&name),
        };
        self.claim_log.push((name, claim));
    }

    /// Makes a claim, if there is none of its name.
    pub fn create(&mut self, mut claim: HostnameClaim) -> bool {
        let name = claim.name_any();
        if self.claims.contains_key(&name) {
            return false;
        }
        claim.metadata.uid = Some(self.uid());
        let (version, now) = self.tick();
        claim.metadata.resource_version = Some(version);
        claim.metadata.creation_timestamp = Some(now);
        self.note(name, Some(Arc::new(claim)));
        true
    }

    /// Writes a claim over the version that was seen.
    pub fn update(&mut self, mut claim: HostnameClaim) -> bool {
        let name = claim.name_any();
        let Some(live) = self.claims.get(&name).cloned() else { return false };
        let same = live.resource_version() == claim.resource_version() && live.uid() == claim.uid();
        if !same && !self.careless {
            return false;
        }
        if live.spec.organization != claim.spec.organization || live.uid() != claim.uid() {
            self.broken.get_or_insert_with(|| format!("{name} changed its organization or its UID"));
        }
        let key = ClaimKey::of(&claim);
        let serves = |uid: &str| self.routes.get(uid).is_some_and(|keys| keys.contains(&key));
        if serves(&live.spec.holder.uid) && !serves(&claim.spec.holder.uid) {
            self.broken.get_or_insert_with(|| format!("{name} was taken over by one that does not serve it"));
        }
        claim.metadata.resource_version = Some(self.tick().0);
        self.note(name, Some(Arc::new(claim)));
        true
    }

    /// Deletes a claim as it was seen.
    pub fn delete(&mut self, deletion: &Deletion) -> bool {
        let Some(live) = self.claims.get(&deletion.name) else { return false };
        let same = live.uid() == deletion.uid && live.resource_version() == deletion.resource_version;
        if same || self.careless {
            self.note(deletion.name.clone(), None);
        }
        same || self.careless
    }

    /// Puts an Endpoint, or nothing, in a place.
    pub fn put(&mut self, place: usize, endpoint: Option<Endpoint>) {
        let endpoint = endpoint.map(Arc::new);
        match &endpoint {
            Some(endpoint) => self.endpoints.insert(place, Arc::clone(endpoint)),
            None => self.endpoints.remove(&place),
        };
        self.endpoint_log.push((place, endpoint));
    }

    /// Makes an Endpoint in a place.
    pub fn make(&mut self, place: usize, organization: &str, wanted: BTreeSet<ClaimKey>) {
        let uid = self.uid();
        let (_, created) = self.tick();
        let (namespace, name) = (format!("{organization}-ns"), format!("endpoint-{place}"));
        let me = Contender { organization: organization.into(), namespace, name, uid };
        self.organizations.insert(me.uid.clone(), organization.into());
        self.put(place, Some(Endpoint { me, created, wanted, deleting: false, waiting: vec![] }));
    }

    /// The Endpoint with this UID, if there is one.
    pub fn alive(&self, uid: &str) -> Option<(usize, &Arc<Endpoint>)> {
        self.endpoints.iter().find(|(_, endpoint)| endpoint.me.uid == uid).map(|(place, e)| (*place, e))
    }

    pub fn served(&self, uid: &str) -> BTreeSet<ClaimKey> {
        self.routes.get(uid).cloned().unwrap_or_default()
    }

    pub fn serve(&mut self, uid: &str, keys: BTreeSet<ClaimKey>) -> bool {
        if keys.is_empty() {
            return self.routes.remove(uid).is_some();
        }
        self.routes.insert(uid.to_owned(), keys.clone()) != Some(keys)
    }

    /// What holds at every moment.
    pub fn check(&self, names: &HashMap<ClaimKey, String>) -> Result<(), String> {
        let mut owners: HashMap<&ClaimKey, &str> = HashMap::new();
        for (uid, keys) in &self.routes {
            let organization = self.organizations[uid].as_str();
            for key in keys {
                if *owners.entry(key).or_insert(organization) != organization {
                    return Err(format!("{} is served for two organizations", key.shown()));
                }
                let entitled = self.claims.get(&names[key]).is_some_and(|claim| {
                    [organization, ANYBODY].contains(&claim.spec.organization.as_str())
                        && (claim.spec.holder.uid == *uid || also_served_by(claim).any(|by| by == uid))
                });
                if !entitled {
                    return Err(format!("{} is served by one that the claim does not name", key.shown()));
                }
            }
        }
        self.broken.clone().map_or(Ok(()), Err)
    }
}

impl View {
    /// Sees so many more changes of claims, and of Endpoints.
    pub fn advance(&mut self, world: &World, claims: usize, endpoints: usize) {
        for (name, claim) in world.claim_log.iter().skip(self.claims_seen).take(claims) {
            self.claims_seen += 1;
            match claim {
                Some(claim) => self.claims.set(Arc::clone(claim)),
                None => self.claims.remove(name),
            }
        }
        for (place, endpoint) in world.endpoint_log.iter().skip(self.endpoints_seen).take(endpoints) {
            self.endpoints_seen += 1;
            match endpoint {
                Some(endpoint) => self.endpoints.insert(*place, Arc::clone(endpoint)),
                None => self.endpoints.remove(place),
            };
        }
    }

    /// Begins anew, perhaps with something older than what was seen.
    pub fn restart(&mut self, world: &World, dice: &mut Dice) {
        *self = Self::default();
        let claims = dice.below(world.claim_log.len() + 1);
        let endpoints = dice.below(world.endpoint_log.len() + 1);
        self.advance(world, claims, endpoints);
    }

    /// Who is seen to wait for a key.
    pub fn waiters(&self, key: &ClaimKey) -> Vec<(Time, Contender)> {
        let shown = key.shown();
        let waits = |endpoint: &&Arc<Endpoint>| !endpoint.deleting && endpoint.waiting.contains(&shown);
        let waiting = self.endpoints.values().filter(waits);
        waiting.map(|endpoint| (endpoint.created.clone(), endpoint.me.clone())).collect()
    }
}
