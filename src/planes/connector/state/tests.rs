use jiff::SignedDuration;
use rstest::rstest;

use super::*;

const INTERVAL: Duration = Duration::from_secs(10);

fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

fn facts(uid: &str) -> Facts {
    Facts {
        server_version: "v1.36.3".to_owned(),
        cluster_uid: uid.to_owned(),
        capabilities: Capabilities::default(),
    }
}

fn failure(why: DisconnectReason) -> Failure {
    Failure { why, message: "message".to_owned() }
}

fn connected() -> Machine {
    let mut machine = Machine::new(None, None);
    assert_eq!(machine.found(at(0), &facts("one")), Verdict::Keep);
    machine
}

/// What the machine says: the reason, since when, and the last contact in seconds.
fn seen(machine: &Machine) -> (String, i64, Option<i64>) {
    match machine.state() {
        PlaneState::Connecting => ("Connecting".to_owned(), 0, None),
        PlaneState::Connected { since, last_contact, .. } => {
            ("Connected".to_owned(), since.as_second(), Some(last_contact.as_second()))
        }
        PlaneState::Disconnected { since, last_contact, why, .. } => {
            (why.to_string(), since.as_second(), last_contact.map(Timestamp::as_second))
        }
    }
}

#[rstest]
#[case::unreachable(DisconnectReason::Unreachable, 3)]
#[case::tls(DisconnectReason::TlsFailed, 3)]
#[case::forbidden(DisconnectReason::Forbidden, 3)]
#[case::unhealthy(DisconnectReason::Unhealthy, 3)]
#[case::not_kubernetes(DisconnectReason::NotKubernetes, 3)]
#[case::unauthorized(DisconnectReason::Unauthorized, 1)]
#[case::unusable(DisconnectReason::InvalidAccess, 1)]
fn a_connected_plane_is_lost_after_so_many_failures(#[case] why: DisconnectReason, #[case] failures: u32) {
    let mut machine = connected();
    for n in 1..=failures {
        let verdict = machine.failed(at(i64::from(n)), failure(why.clone()));
        assert_eq!(verdict == Verdict::Disconnect, n == failures, "failure {n}");
        assert_eq!(matches!(machine.state(), PlaneState::Connected { .. }), n < failures, "failure {n}");
    }
    assert_eq!(seen(&machine), (why.to_string(), i64::from(failures), Some(0)));
}

#[test]
fn trouble_is_known_by_a_missing_answer_and_by_a_plane_that_was_there_before() {
    let mut machine = Machine::new(None, None);
    machine.failed(at(0), failure(DisconnectReason::Unreachable));
    assert!(!machine.was_lost() && !machine.is_in_doubt(), "it was never there");
    let mut machine = connected();
    assert!(!machine.was_lost() && !machine.is_in_doubt());
    for n in 1..3 {
        machine.failed(at(n), failure(DisconnectReason::Unreachable));
        assert!(!machine.was_lost() && machine.is_in_doubt(), "failure {n}");
    }
    machine.failed(at(3), failure(DisconnectReason::Unreachable));
    assert!(machine.was_lost() && !machine.is_in_doubt());
    machine.found(at(4), &facts("one"));
    assert!(!machine.was_lost() && !machine.is_in_doubt());
}

#[test]
fn an_answer_between_failures_starts_the_count_anew() {
    let mut machine = connected();
    for n in 0..10 {
        let verdict = match n % 3 {
            2 => machine.answered(at(n), "one"),
            _ => machine.failed(at(n), failure(DisconnectReason::Unreachable)),
        };
        assert_eq!(verdict, Verdict::Keep, "{n}");
    }
    assert_eq!(seen(&machine), ("Connected".to_owned(), 0, Some(8)));
}

#[test]
fn an_attempt_that_fails_says_why_at_once() {
    let mut machine = Machine::new(None, None);
    assert_eq!(machine.failed(at(5), failure(DisconnectReason::Unreachable)), Verdict::Disconnect);
    assert_eq!(seen(&machine), ("Unreachable".to_owned(), 5, None));
}

#[test]
fn the_begin_of_a_disconnection_stays_while_its_reason_changes() {
    let mut machine = connected();
    machine.answered(at(10), "one");
    machine.failed(at(20), failure(DisconnectReason::Unauthorized));
    machine.failed(at(30), failure(DisconnectReason::Unreachable));
    assert_eq!(seen(&machine), ("Unreachable".to_owned(), 20, Some(10)));
    machine.found(at(40), &facts("one"));
    assert_eq!(seen(&machine), ("Connected".to_owned(), 40, Some(40)));
}

#[test]
fn another_cluster_is_not_taken_for_the_plane() {
    let changed = |found: &str| DisconnectReason::IdentityChanged {
        recorded: "one".to_owned(),
        found: found.to_owned(),
    };
    let reason = |machine: &Machine| match machine.state() {
        PlaneState::Disconnected { why, .. } => why.clone(),
        other => panic!("{other:?}"),
    };
    // Found by a probe, by the next attempt, and after the address was changed.
    let mut machine = connected();
    assert_eq!(machine.answered(at(1), "two"), Verdict::Disconnect);
    assert_eq!(reason(&machine), changed("two"));
    assert_eq!(machine.found(at(2), &facts("three")), Verdict::Disconnect);
    assert_eq!(reason(&machine), changed("three"));
    machine.left();
    assert_eq!(machine.found(at(3), &facts("two")), Verdict::Disconnect);
    // Asking often does not help.
    assert!(machine.wait(INTERVAL, 0.0) > INTERVAL);
    assert_eq!(machine.found(at(4), &facts("one")), Verdict::Keep);

    let mut known = Machine::new(Some("one".to_owned()), None);
    assert_eq!(known.found(at(0), &facts("two")), Verdict::Disconnect);
    assert_eq!(reason(&known), changed("two"));
}

#[test]
fn attempts_come_later_each_time_up_to_a_limit() {
    let mut machine = Machine::new(None, None);
    assert!(machine.wait(INTERVAL, 1.0).is_zero());
    let mut waits = vec![];
    for n in 0..9 {
        machine.failed(at(n), failure(DisconnectReason::Unauthorized));
        waits.push(machine.wait(INTERVAL, 1.0).as_millis());
    }
    assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
    for n in 0..100 {
        machine.failed(at(n), failure(DisconnectReason::Unreachable));
    }
    assert_eq!(machine.wait(INTERVAL, 1.0), LAST_RETRY);
    machine.begin_anew();
    machine.failed(at(200), failure(DisconnectReason::Unauthorized));
    assert_eq!(machine.wait(INTERVAL, 1.0), FIRST_RETRY);
}

#[test]
fn a_lost_plane_is_tried_again_without_hurry_or_delay() {
    let mut machine = connected();
    machine.failed(at(1), failure(DisconnectReason::Unauthorized));
    assert_eq!(machine.wait(INTERVAL, 1.0), FIRST_RETRY);
    let mut machine = connected();
    for n in 0..3 {
        machine.failed(at(n), failure(DisconnectReason::Unreachable));
    }
    assert_eq!(machine.wait(INTERVAL, 1.0), FIRST_RETRY, "failed probes are not failed attempts");
}

#[test]
fn probes_come_at_their_interval_and_sooner_in_doubt() {
    let mut machine = connected();
    assert_eq!(machine.wait(INTERVAL, 1.0), INTERVAL);
    machine.failed(at(1), failure(DisconnectReason::Unreachable));
    assert_eq!(machine.wait(INTERVAL, 1.0), INTERVAL / 5);
}

#[test]
fn jitter_takes_up_to_a_quarter() {
    let machine = connected();
    for step in 0..=100 {
        let wait = machine.wait(INTERVAL, f64::from(step) / 100.0);
        assert!(wait >= INTERVAL * 3 / 4 && wait <= INTERVAL, "{wait:?}");
    }
    assert_ne!(machine.wait(INTERVAL, 0.1), machine.wait(INTERVAL, 0.9));
}

#[test]
fn news_of_a_plane_are_told_once() {
    let mut machine = connected();
    let parts = Capabilities::from_iter([crate::planes::Capability::Cilium]);
    assert!(!machine.refreshed("v1.36.3", &Capabilities::default()));
    assert!(machine.refreshed("v1.36.3", &parts));
    assert!(!machine.refreshed("v1.36.3", &parts));
    assert!(machine.refreshed("v1.37.0", &parts));
    machine.failed(at(1), failure(DisconnectReason::Unauthorized));
    assert!(!machine.refreshed("v1.38.0", &parts));
}

#[test]
fn only_the_time_of_the_last_contact_is_not_worth_telling() {
    let old = connected();
    let mut new = connected();
    new.answered(at(50), "one");
    assert!(same_but_for_contact(old.state(), new.state()));
    new.refreshed("v1.37.0", &Capabilities::default());
    assert!(!same_but_for_contact(old.state(), new.state()));
    new.left();
    assert!(!same_but_for_contact(old.state(), new.state()));
}

#[test]
fn a_plane_that_is_away_at_the_start_answered_last_when_that_is_known() {
    let mut machine = Machine::new(Some("one".to_owned()), Some(at(7)));
    assert_eq!(machine.last_contact(), Some(at(7)));
    machine.failed(at(9), failure(DisconnectReason::Unreachable));
    assert_eq!(seen(&machine), ("Unreachable".to_owned(), 9, Some(7)));
    machine.failed(at(10), failure(DisconnectReason::Unreachable));
    assert_eq!(seen(&machine), ("Unreachable".to_owned(), 9, Some(7)));
    machine.found(at(11), &facts("one"));
    assert_eq!(machine.last_contact(), Some(at(11)));
    // At another address it never answered.
    machine.left();
    machine.failed(at(12), failure(DisconnectReason::Unreachable));
    assert_eq!(seen(&machine), ("Unreachable".to_owned(), 12, None));
}
