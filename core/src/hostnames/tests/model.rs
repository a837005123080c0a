//! Random histories of Endpoints that want each other's hosts, with replicas that see late, crash, and write one thing
//! at a time. No organization ever serves what another one holds, and in the end nobody waits for what is free.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use kantor_api::hostname_claim::HostnameClaim;
use kube_core::ResourceExt;
use rstest::rstest;

use super::{
    super::{
        book::Book,
        claims::{Contender, Decision, State, also_served_by, decide, take_over},
        key::{ClaimKey, overlaps},
        release::{Deletion, Release, orphaned, release},
        steps::{Facts, Step, confirmed, next},
    },
    key, keys,
    simulation::{ANYBODY, Dice, Endpoint, View, World},
    transferred,
};

const HISTORIES: u64 = 10_000;
const STEPS: usize = 60;

/// Organizations of the Endpoints, by place.
const PLACES: [&str; 6] = ["acme", "acme", "acme", "globex", "globex", "initech"];

/// The order in which places take part in histories with few of them.
const CROWD: [usize; 6] = [0, 3, 1, 5, 2, 4];

/// What they want: hosts of their own, one of which is part of another, and parts of a host of everybody.
const HOSTS: [&str; 6] = [
    "a.example.com",
    "*.example.com",
    "shop.example.org",
    "b.example.net",
    "apis.example.dev/shop",
    "apis.example.dev/shop/cart",
];

/// A rule that is broken, to see that it is needed and that the model sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// Claims are let go while the route has the host.
    ReleasesWhileServed,
    /// Claims are given up while the routes of others may have the host.
    IgnoresOtherRoutes,
    /// Nobody asks whose a claim is.
    IgnoresOrganizations,
    /// Only claims of the very same key are looked at.
    IgnoresOverlaps,
    /// Routes get what a cache says.
    TrustsItsView,
    /// Claims are written whatever version was seen.
    IgnoresVersions,
    /// Claims are taken over before the route has the host.
    TakesOverFirst,
    /// Claims of Endpoints that are gone are let go while their routes are there.
    ForgetsRoutesOfTheGone,
    /// Claims of Endpoints that are gone are left alone.
    ForgetsTheGone,
    /// What is no longer wanted is not let go.
    KeepsTheUnwanted,
    /// The younger of two claims that overlap is kept.
    KeepsTheYounger,
}

/// One history.
struct Model {
    fault: Fault,
    dice: Dice,
    world: World,
    views: [View; 2],
    /// Names of the claims of keys.
    names: Arc<HashMap<ClaimKey, String>>,
    /// What is wanted in this history, so that some are about little and go deep.
    hosts: Vec<ClaimKey>,
    /// How many take part in it.
    crowd: usize,
    /// Whether requests are answered by whose turn it is. In the end, all are.
    answers: bool,
}

impl Model {
    fn new(seed: u64, fault: Fault, names: &Arc<HashMap<ClaimKey, String>>) -> Self {
        let mut dice = Dice::new(seed);
        let share = 20 + dice.below(80);
        let mut hosts: Vec<ClaimKey> = names.keys().cloned().collect();
        hosts.sort();
        hosts.retain(|_| dice.chance(share));
        let crowd = 2 + dice.below(CROWD.len() - 1);
        let mut world = World::default();
        world.careless = fault == Fault::IgnoresVersions;
        Self {
            fault,
            dice,
            world,
            views: <[View; 2]>::default(),
            names: Arc::clone(names),
            hosts,
            crowd,
            answers: true,
        }
    }

    fn some_hosts(&mut self) -> BTreeSet<ClaimKey> {
        let share = 20 + self.dice.below(80);
        let dice = &mut self.dice;
        self.hosts.iter().filter(|_| dice.chance(share)).cloned().collect()
    }

    /// Something happens. Tells whether claims or routes may have changed.
    fn step(&mut self) -> bool {
        let place = CROWD[self.dice.below(self.crowd)];
        let replica = self.dice.below(2);
        match self.dice.below(100) {
            0..10 => self.edit(place),
            10..13 => self.change(place, |endpoint| endpoint.deleting = true),
            13..15 => self.world.put(place, None),
            15..22 => self.transfer(),
            22..66 => {
                // The first is often up to date, so that much happens; the second is mostly late.
                if replica == 0 && self.dice.chance(70) {
                    self.views[0].advance(&self.world, usize::MAX, usize::MAX);
                }
                self.answers = self.dice.chance(80);
                let changed = self.turn(replica, place);
                self.answers = true;
                return changed;
            }
            66..72 => return self.collect(replica),
            72..98 => {
                let (claims, endpoints) = (self.dice.below(4), self.dice.below(4));
                self.views[replica].advance(&self.world, claims, endpoints);
            }
            _ => self.views[replica].restart(&self.world, &mut self.dice),
        }
        false
    }

    fn change(&mut self, place: usize, change: impl FnOnce(&mut Endpoint)) {
        if let Some(mut endpoint) = self.world.endpoints.get(&place).map(|endpoint| Endpoint::clone(endpoint))
        {
            change(&mut endpoint);
            self.world.put(place, Some(endpoint));
        }
    }

    /// A user makes an Endpoint, or changes what it wants.
    fn edit(&mut self, place: usize) {
        let wanted = self.some_hosts();
        if self.world.endpoints.contains_key(&place) {
            self.change(place, |endpoint| endpoint.wanted = wanted);
        } else {
            self.world.make(place, PLACES[place], wanted);
        }
    }

    /// A user says to whom a claim shall be handed: to anybody, or to nonsense.
    fn transfer(&mut self) {
        let index = self.dice.below(self.world.claims.len());
        let Some(claim) = self.world.claims.values().nth(index).cloned() else { return };
        let place = self.dice.below(PLACES.len() + 1);
        let to = PLACES
            .get(place)
            .map_or_else(|| "nonsense".to_owned(), |org| format!("{org}-ns/endpoint-{place}"));
        self.world.update(transferred(HostnameClaim::clone(&claim), &to));
    }

    /// A replica does the next write for an Endpoint, as it sees it. Tells whether anything changed.
    fn turn(&mut self, replica: usize, place: usize) -> bool {
        let Some(endpoint) = self.views[replica].endpoints.get(&place).cloned() else { return false };
        let me = self.identity(&endpoint.me);
        let wanted = if endpoint.deleting { BTreeSet::new() } else { endpoint.wanted.clone() };
        let view = &self.views[replica];
        let decision = self.decide(&me, &wanted, &view.claims);
        let served = self.world.served(&me.uid);
        let facts = Facts {
            me: &me,
            decision: &decision,
            served: &served,
            claims: &view.claims,
            answers: self.answers,
        };
        let step = self.faulty_step(&facts, view).unwrap_or_else(|| next(&facts, |key| view.waiters(key)));
        match step {
            Step::Create(claim) => self.world.create(*claim),
            Step::Update(claim) => self.world.update(*claim),
            Step::Delete(deletion) => self.world.delete(&deletion),
            Step::Serve(target) => {
                let live = |key: &ClaimKey| {
                    let claim = self.world.claims.get(&self.names[key]).cloned();
                    claim.filter(|_| self.world.alive(&me.uid).is_some())
                };
                let proven = confirmed(&me, &served, &target, live);
                let keys = if self.fault == Fault::TrustsItsView { target } else { proven };
                self.world.serve(&me.uid, keys)
            }
            Step::Rest => self.rest(place, &endpoint, &decision),
        }
    }

    /// Everything is done: the status says who waits, and an Endpoint that is being deleted goes.
    fn rest(&mut self, place: usize, seen: &Endpoint, decision: &Decision) -> bool {
        let live = self.world.endpoints.get(&place).filter(|live| live.me.uid == seen.me.uid);
        let Some(mut live) = live.map(|live| Endpoint::clone(live)) else { return false };
        if seen.deleting {
            self.world.put(place, None);
            return true;
        }
        let waiting = decision.waiting();
        let changed = live.waiting != waiting;
        if changed {
            live.waiting = waiting;
            self.world.put(place, Some(live));
        }
        changed
    }

    /// A replica does the next write about Endpoints that are gone.
    fn collect(&mut self, replica: usize) -> bool {
        let world = &self.world;
        let gone = |uid: &str| world.alive(uid).is_none();
        let forgets = self.fault == Fault::ForgetsRoutesOfTheGone;
        let stray = world.routes.keys().find(|uid| gone(uid)).cloned().filter(|_| !forgets);
        if let Some(uid) = stray {
            return self.world.serve(&uid, BTreeSet::new());
        }
        let gone = |uid: &str| gone(uid) && (forgets || !world.routes.contains_key(uid));
        let view = &self.views[replica];
        let ways: Vec<Release> = view
            .claims
            .all()
            .filter(|_| self.fault != Fault::ForgetsTheGone)
            .map(|claim| orphaned(claim, gone, &view.waiters(&ClaimKey::of(claim))))
            .collect();
        ways.into_iter().any(|way| match way {
            Release::HandOver(claim) | Release::Clear(claim) => self.world.update(*claim),
            Release::Delete(deletion) => self.world.delete(&deletion),
            Release::Await | Release::Leave => false,
        })
    }

    fn identity(&self, me: &Contender) -> Contender {
        let organization =
            if self.fault == Fault::IgnoresOrganizations { ANYBODY.into() } else { me.organization.clone() };
        Contender { organization, ..me.clone() }
    }

    fn decide(&self, me: &Contender, wanted: &BTreeSet<ClaimKey>, claims: &Book) -> Decision {
        if self.fault != Fault::IgnoresOverlaps {
            return decide(me, wanted, claims);
        }
        let alone = |key: &ClaimKey| {
            let mut book = Book::default();
            claims.get(&key.name()).into_iter().for_each(|claim| book.set(Arc::clone(claim)));
            decide(me, &BTreeSet::from([key.clone()]), &book)
        };
        Decision { keys: wanted.iter().flat_map(|key| alone(key).keys).collect() }
    }

    /// What is done instead where a rule is broken.
    fn faulty_step(&self, facts: &Facts<'_>, view: &View) -> Option<Step> {
        let Facts { me, decision, served, claims, .. } = *facts;
        let mut unwanted = claims
            .naming(&me.uid)
            .filter(|claim| me.holds(claim) && !decision.keys.contains_key(&ClaimKey::of(claim)));
        match self.fault {
            Fault::ReleasesWhileServed => {
                unwanted.find_map(|claim| match release(me, claim, &view.waiters(&ClaimKey::of(claim))) {
                    Release::HandOver(claim) => Some(Step::Update(claim)),
                    Release::Delete(deletion) => Some(Step::Delete(deletion)),
                    _ => None,
                })
            }
            Fault::IgnoresOtherRoutes => {
                let claim = unwanted.find(|claim| !served.contains(&ClaimKey::of(claim)))?;
                let (uid, resource_version) = (claim.uid(), claim.resource_version());
                Some(Step::Delete(Deletion { name: claim.name_any(), uid, resource_version }))
            }
            Fault::TakesOverFirst => {
                let mut incoming = decision.keys.iter().filter(|(_, state)| **state == State::Incoming);
                incoming
                    .find_map(|(key, _)| take_over(me, claims.get(&key.name())?))
                    .map(|claim| Step::Update(Box::new(claim)))
            }
            Fault::KeepsTheUnwanted => {
                let step = next(facts, |key| view.waiters(key));
                let held = unwanted.any(|claim| !served.contains(&ClaimKey::of(claim)));
                (held && matches!(step, Step::Delete(_) | Step::Update(_))).then_some(Step::Rest)
            }
            Fault::KeepsTheYounger => {
                let step = next(facts, |key| view.waiters(key));
                let yields = decision.keys.values().any(|state| *state == State::Yielding);
                (yields && matches!(step, Step::Delete(_))).then_some(Step::Rest)
            }
            _ => None,
        }
    }

    /// Everybody gets their turns until nothing changes.
    fn settle(&mut self) -> Result<(), String> {
        for round in 0..200 {
            let replica = round % 2;
            let mut changed = false;
            // One place more than there are is that of those who are gone.
            for place in 0..=PLACES.len() {
                // Not for ever: one that undoes what it did shall be found.
                for _ in 0..20 {
                    self.views[replica].advance(&self.world, usize::MAX, usize::MAX);
                    let gone = place == PLACES.len();
                    let wrote = if gone { self.collect(replica) } else { self.turn(replica, place) };
                    if !wrote {
                        break;
                    }
                    changed = true;
                    self.world.check(&self.names)?;
                }
            }
            if !changed {
                return self.check_rest();
            }
        }
        Err("it does not come to rest".to_owned())
    }

    /// What holds when nothing changes any more.
    fn check_rest(&self) -> Result<(), String> {
        let world = &self.world;
        let mut truth = Book::default();
        world.claims.values().for_each(|claim| truth.set(Arc::clone(claim)));
        for claim in truth.all() {
            let key = ClaimKey::of(claim);
            let shown = key.shown();
            let holder = world.alive(&claim.spec.holder.uid).map(|(_, endpoint)| endpoint);
            if !holder.is_some_and(|holder| holder.wanted.contains(&key)) {
                return Err(format!("{shown} is held by one that is gone or does not want it"));
            }
            if also_served_by(claim).next().is_some() {
                return Err(format!("{shown} is still noted to be served by others"));
            }
            let foreign = |other: &&Arc<HostnameClaim>| other.spec.organization != claim.spec.organization;
            if let Some(other) = truth.near(&key).into_iter().find(foreign) {
                return Err(format!("{shown} and {} are held by two organizations", other.name_any()));
            }
        }
        for endpoint in world.endpoints.values() {
            let decision = decide(&self.identity(&endpoint.me), &endpoint.wanted, &truth);
            let held = decision.keys.iter().filter(|(_, state)| **state == State::Held);
            let expected = if decision.is_refused() {
                BTreeSet::new()
            } else {
                held.map(|(key, _)| key.clone()).collect()
            };
            if world.served(&endpoint.me.uid) != expected {
                return Err(format!("{} does not serve just what it holds", endpoint.me.name));
            }
            let lost = decision.keys.iter().find(|(_, state)| matches!(state, State::Free | State::Incoming));
            if let Some((key, state)) = lost.filter(|_| !decision.is_refused()) {
                return Err(format!("{} waits for {}, which is {state:?}", endpoint.me.name, key.shown()));
            }
        }
        let served: Vec<(&String, &ClaimKey)> =
            world.routes.iter().flat_map(|(uid, keys)| keys.iter().map(move |key| (uid, key))).collect();
        for (uid, key) in &served {
            if world.alive(uid).is_none() {
                return Err(format!("{} is served by one that is gone", key.shown()));
            }
            let captured = |(other, its): &&(&String, &ClaimKey)| {
                overlaps(key, its) && world.organizations[*other] != world.organizations[*uid]
            };
            if let Some((_, its)) = served.iter().find(captured) {
                return Err(format!("{} and {} are served for two organizations", key.shown(), its.shown()));
            }
        }
        Ok(())
    }
}

fn names() -> Arc<HashMap<ClaimKey, String>> {
    Arc::new(keys(&HOSTS).into_iter().map(|key| (key.clone(), key.name())).collect())
}

fn history(seed: u64, fault: Fault, names: &Arc<HashMap<ClaimKey, String>>) -> Result<(), String> {
    let mut model = Model::new(seed, fault, names);
    for step in 0..STEPS {
        if model.step() {
            model.world.check(names).map_err(|why| format!("history {seed}, step {step}: {why}"))?;
        }
    }
    model.settle().map_err(|why| format!("history {seed}, at its end: {why}"))
}

#[rstest]
fn no_history_lets_an_organization_capture_a_host_or_a_waiter_wait_for_ever(#[values(0, 1, 2, 3)] part: u64) {
    let names = names();
    for seed in (0..HISTORIES).filter(|seed| seed % 4 == part) {
        history(seed, Fault::None, &names).unwrap();
    }
}

#[rstest]
#[case(Fault::ReleasesWhileServed)]
#[case(Fault::IgnoresOtherRoutes)]
#[case(Fault::IgnoresOrganizations)]
#[case(Fault::IgnoresOverlaps)]
#[case(Fault::TrustsItsView)]
#[case(Fault::IgnoresVersions)]
#[case(Fault::TakesOverFirst)]
#[case(Fault::ForgetsRoutesOfTheGone)]
#[case(Fault::ForgetsTheGone)]
#[case(Fault::KeepsTheUnwanted)]
#[case(Fault::KeepsTheYounger)]
fn a_broken_rule_is_found(#[case] fault: Fault) {
    let names = names();
    let found = (0..HISTORIES).find_map(|seed| history(seed, fault, &names).err());
    println!("{fault:?}: {found:?}");
    assert!(found.is_some(), "{fault:?} is not found");
}

/// Endpoints of different organizations that want the same from the beginning, in whatever order they get their turns.
fn race(seed: u64, names: &Arc<HashMap<ClaimKey, String>>) -> Result<(), String> {
    let mut model = Model::new(seed, Fault::None, names);
    model.hosts = names.keys().cloned().collect();
    model.hosts.sort();
    for place in [0, 3, 5] {
        let wanted = model.some_hosts();
        model.world.make(place, PLACES[place], wanted);
    }
    for _ in 0..STEPS {
        let (replica, place) = (model.dice.below(2), model.dice.below(PLACES.len()));
        if model.dice.chance(50) {
            let claims = model.dice.below(4);
            model.views[replica].advance(&model.world, claims, usize::MAX);
        } else {
            model.turn(replica, place);
        }
    }
    model.settle()?;
    let wanting = model.world.endpoints.values().filter(|endpoint| !endpoint.wanted.is_empty()).count();
    if wanting > 0 && model.world.routes.is_empty() {
        return Err(format!("race {seed}: they keep each other from everything"));
    }
    Ok(())
}

#[test]
fn endpoints_cannot_keep_each_other_from_everything() {
    let mut hosts =
        keys(&["a.example.com", "*.example.com", "a.example.org", "*.example.org", "b.example.net"]);
    hosts.insert(key("c.example.net"));
    let names = Arc::new(hosts.into_iter().map(|key| (key.clone(), key.name())).collect());
    for seed in 0..HISTORIES / 2 {
        race(seed, &names).unwrap();
    }
}
