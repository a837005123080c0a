//! Which of several operators leads: the one that a Lease names, as long as it keeps on writing it.
//!
//! Clocks of different machines need not agree. An operator that waits measures, by its own clock, for how long the Lease
//! has not changed; the one that leads measures from before it asked. So the one has stopped before another begins.

use std::time::Duration;

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube_core::ResourceExt;

/// How long things take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long a Lease has to stay unchanged until others may take it.
    pub lease: Duration,
    /// How long the one that leads goes on writing after its last renewal.
    pub renewal: Duration,
    /// How often the Lease is looked at, or renewed.
    pub retry: Duration,
}

impl Terms {
    /// What is wrong with them, if anything is.
    pub fn problem(&self) -> Option<String> {
        let Self { lease, renewal, retry } = self;
        (retry >= renewal || renewal >= lease).then(|| {
            format!("the lease ({lease:?}) has to be longer than its renewal ({renewal:?}), and that longer than the time between tries ({retry:?})")
        })
    }
}

/// What is known of a Lease, and since when it has been so.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    version: Option<String>,
    since: Duration,
}

impl Watched {
    /// Notes the Lease as it is `now`; tells for how long it has been so.
    pub fn note(&mut self, lease: &Lease, now: Duration) -> Duration {
        let version = lease.resource_version();
        if self.version.is_none() || self.version != version {
            *self = Self { version, since: now };
        }
        now.saturating_sub(self.since)
    }
}

/// What is next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// There is no Lease: make this one. If it exists by now, somebody was faster.
    Create(Box<Lease>),
    /// Write it over the version that was seen. If that has changed by now, somebody was faster.
    Write(Box<Lease>),
    /// Another one leads.
    Wait,
}

/// What `me` does next about a Lease that has been as it is for `unchanged`.
pub fn step(
    me: &str,
    (namespace, name): (&str, &str),
    lease: Option<&Lease>,
    unchanged: Duration,
    now: &MicroTime,
    terms: &Terms,
) -> Step {
    let Some(lease) = lease else {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        };
        let empty = Lease { metadata, ..Lease::default() };
        return Step::Create(Box::new(held(&empty, me, now, terms)));
    };
    let spec = lease.spec.clone().unwrap_or_default();
    let holder = spec.holder_identity.as_deref().filter(|holder| !holder.is_empty());
    let promised = Duration::from_secs(u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0));
    match holder {
        Some(holder) if holder != me && unchanged < terms.lease.max(promised) => Step::Wait,
        _ => Step::Write(Box::new(held(lease, me, now, terms))),
    }
}

/// The Lease, held by `me`.
fn held(lease: &Lease, me: &str, now: &MicroTime, terms: &Terms) -> Lease {
    let before = lease.spec.clone().unwrap_or_default();
    let same = before.holder_identity.as_deref() == Some(me);
    let transitions = before.lease_transitions.unwrap_or(0);
    let first = lease.metadata.resource_version.is_none();
    let spec = LeaseSpec {
        holder_identity: Some(me.to_owned()),
        lease_duration_seconds: Some(i32::try_from(terms.lease.as_secs()).unwrap_or(i32::MAX)),
        acquire_time: if same { before.acquire_time } else { Some(now.clone()) },
        renew_time: Some(now.clone()),
        lease_transitions: Some(if same || first { transitions } else { transitions + 1 }),
        ..before
    };
    Lease { spec: Some(spec), ..lease.clone() }
}

/// The Lease, given up by `me`; nothing if it is not its to give up.
pub fn released(lease: &Lease, me: &str, now: &MicroTime) -> Option<Lease> {
    let spec = lease.spec.clone().unwrap_or_default();
    (spec.holder_identity.as_deref() == Some(me)).then(|| {
        let spec = LeaseSpec {
            holder_identity: None,
            lease_duration_seconds: Some(1),
            renew_time: Some(now.clone()),
            ..spec
        };
        Lease { spec: Some(spec), ..lease.clone() }
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const TERMS: Terms = Terms {
        lease: Duration::from_secs(15),
        renewal: Duration::from_secs(10),
        retry: Duration::from_secs(2),
    };

    fn at(second: i64) -> MicroTime {
        MicroTime(k8s_openapi::jiff::Timestamp::from_second(second).unwrap())
    }

    fn lease(holder: Option<&str>, version: &str, promised: i32) -> Lease {
        let spec = LeaseSpec {
            holder_identity: holder.map(ToOwned::to_owned),
            lease_duration_seconds: Some(promised),
            acquire_time: Some(at(1)),
            renew_time: Some(at(2)),
            lease_transitions: Some(3),
            ..LeaseSpec::default()
        };
        let metadata = ObjectMeta { resource_version: Some(version.to_owned()), ..ObjectMeta::default() };
        Lease { metadata, spec: Some(spec) }
    }

    fn next(lease: Option<&Lease>, unchanged: u64) -> Step {
        step("me", ("home", "lock"), lease, Duration::from_secs(unchanged), &at(9), &TERMS)
    }

    #[rstest]
    #[case::free(None, 15, 0, true)]
    #[case::given_up(Some(""), 15, 0, true)]
    #[case::mine(Some("me"), 15, 0, true)]
    #[case::held(Some("other"), 15, 0, false)]
    #[case::held_for_long(Some("other"), 15, 14, false)]
    #[case::left(Some("other"), 15, 15, true)]
    #[case::promised_for_longer(Some("other"), 60, 30, false)]
    #[case::promised_for_less(Some("other"), 1, 10, false)]
    fn a_lease_is_taken_when_it_is_free_or_nobody_keeps_it(
        #[case] holder: Option<&str>,
        #[case] promised: i32,
        #[case] unchanged: u64,
        #[case] taken: bool,
    ) {
        let step = next(Some(&lease(holder, "7", promised)), unchanged);
        let Step::Write(written) = step else {
            assert!(!taken && step == Step::Wait);
            return;
        };
        assert!(taken);
        // It is written over what was seen, and only then.
        assert_eq!(written.resource_version().as_deref(), Some("7"));
        let spec = written.spec.unwrap();
        assert_eq!(spec.holder_identity.as_deref(), Some("me"));
        assert_eq!((spec.renew_time, spec.lease_duration_seconds), (Some(at(9)), Some(15)));
        let mine = holder == Some("me");
        assert_eq!(spec.lease_transitions, Some(if mine { 3 } else { 4 }));
        assert_eq!(spec.acquire_time, Some(at(if mine { 1 } else { 9 })));
    }

    #[test]
    fn without_a_lease_one_is_made() {
        let Step::Create(made) = next(None, 0) else { panic!("none is made") };
        assert_eq!((made.name_any().as_str(), made.namespace().as_deref()), ("lock", Some("home")));
        assert_eq!(made.spec.unwrap().lease_transitions, Some(0));
    }

    #[test]
    fn for_how_long_a_lease_has_not_changed_is_told_by_ones_own_clock() {
        let mut watched = Watched::default();
        let seconds = |of: Duration| of.as_secs();
        assert_eq!(seconds(watched.note(&lease(Some("other"), "1", 15), Duration::from_secs(100))), 0);
        assert_eq!(seconds(watched.note(&lease(Some("other"), "1", 15), Duration::from_secs(109))), 9);
        assert_eq!(seconds(watched.note(&lease(Some("other"), "2", 15), Duration::from_secs(110))), 0);
        assert_eq!(seconds(watched.note(&lease(Some("other"), "2", 15), Duration::from_secs(125))), 15);
    }

    #[test]
    fn only_the_holder_gives_a_lease_up() {
        assert_eq!(released(&lease(Some("other"), "1", 15), "me", &at(9)), None);
        let given_up = released(&lease(Some("me"), "1", 15), "me", &at(9)).unwrap();
        assert_eq!(given_up.spec.unwrap().holder_identity, None);
    }

    #[test]
    fn terms_leave_time_between_the_end_of_one_and_the_begin_of_another() {
        assert_eq!(TERMS.problem(), None);
        assert!(Terms { renewal: TERMS.lease, ..TERMS }.problem().is_some());
        assert!(Terms { retry: TERMS.renewal, ..TERMS }.problem().is_some());
    }
}
