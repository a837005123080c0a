use rstest::rstest;

use super::*;
use crate::planes::{Capabilities, RefusalKind};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn connected(last_contact: i64) -> PlaneState {
    PlaneState::Connected {
        since: at(1),
        last_contact: at(last_contact),
        server_version: "v1.36.3".to_owned(),
        cluster_uid: "uid".to_owned(),
        capabilities: Capabilities::default(),
    }
}

fn lost(why: DisconnectReason) -> PlaneState {
    PlaneState::Disconnected { since: at(9), last_contact: Some(at(5)), why, message: "away".to_owned() }
}

fn refused(kind: RefusalKind) -> Refusal {
    Refusal { kind, field: "field".to_owned(), why: "why".to_owned() }
}

/// Status and reason of `Connected`, and what `Ready` would say.
fn said(known: &Known) -> (String, String) {
    let status = known.status(DataPlaneStatus::default(), None, &[], Some(1), at(10));
    let condition = conditions::get(&status.conditions, types::CONNECTED).unwrap();
    let standing = match known.standing() {
        Standing::Ready { reason, .. } => format!("True {reason}"),
        Standing::Stalled { reason, .. } => format!("False {reason}"),
        Standing::Progressing { reason, .. } => format!("Soon {reason}"),
        Standing::Unknown { reason, .. } => format!("Unknown {reason}"),
        other => panic!("{other:?}"),
    };
    (format!("{} {}", condition.status, condition.reason), standing)
}

#[rstest]
#[case::connected(Some(connected(5)), None, "True DataPlaneConnected", "True DataPlaneConnected")]
#[case::away(
    Some(lost(DisconnectReason::Unreachable)),
    None,
    "False DataPlaneUnreachable",
    "Unknown DataPlaneUnreachable"
)]
#[case::rejected(
    Some(lost(DisconnectReason::Unauthorized)),
    None,
    "False CredentialsRejected",
    "False CredentialsRejected"
)]
#[case::first_attempt(
    Some(PlaneState::Connecting),
    None,
    "False DataPlaneConnecting",
    "Soon DataPlaneConnecting"
)]
#[case::not_tried(None, None, "False DataPlaneConnecting", "Soon DataPlaneConnecting")]
#[case::refused(None, Some(RefusalKind::Refused), "False KubeconfigRefused", "False KubeconfigRefused")]
#[case::no_secret(None, Some(RefusalKind::SecretMissing), "False SecretNotFound", "False SecretNotFound")]
#[case::unreadable(
    None,
    Some(RefusalKind::SecretUnreadable),
    "False SecretNotReadable",
    "False SecretNotReadable"
)]
#[case::connected_without_its_secret(
    Some(connected(5)),
    Some(RefusalKind::SecretMissing),
    "True DataPlaneConnected",
    "False SecretNotFound"
)]
fn connected_is_true_where_there_is_a_connection_and_false_with_a_reason_elsewhere(
    #[case] state: Option<PlaneState>,
    #[case] refusal: Option<RefusalKind>,
    #[case] connected: &str,
    #[case] ready: &str,
) {
    let known = Known { state, refusal: refusal.map(refused), ..Known::default() };
    assert_eq!(said(&known), (connected.to_owned(), ready.to_owned()));
}

#[test]
fn what_is_not_known_for_too_long_is_unknown() {
    for (unread, reason) in [(true, "SecretNotReadable"), (false, "DataPlaneUnreachable")] {
        for state in [None, Some(PlaneState::Connecting)] {
            let late = unread.then(|| "the disk is full".to_owned());
            let known = Known { state, overdue: Some(overdue(late)), unread, ..Known::default() };
            assert!(!known.is_awaited());
            assert_eq!(said(&known), (format!("False {reason}"), format!("Unknown {reason}")));
        }
    }
}

#[test]
fn until_the_first_attempt_has_ended_what_was_said_stands() {
    let before = Known { state: Some(connected(5)), ..Known::default() };
    let said = before.status(DataPlaneStatus::default(), None, &[], Some(1), at(6));
    let awaited = Known { state: Some(PlaneState::Connecting), ..Known::default() };
    assert!(awaited.is_awaited());
    assert_eq!(awaited.status(said.clone(), None, &said.conditions, Some(1), at(7)), said);
}

#[test]
fn an_answer_is_no_news_and_the_last_one_is_told_with_other_news() {
    let first = Known { state: Some(connected(5)), ..Known::default() };
    let mut said = first.status(DataPlaneStatus::default(), None, &[], Some(1), at(6));
    first.note_contact(&mut said);
    assert_eq!(said.last_contact_time, Some(Time(at(5))));
    let later = Known { state: Some(connected(50)), ..Known::default() };
    assert_eq!(later.status(said.clone(), None, &said.conditions, Some(1), at(51)), said);
    // Over a restart a plane that is away says the same.
    let away = Known { state: Some(lost(DisconnectReason::Unreachable)), ..Known::default() };
    let mut gone = away.status(said.clone(), None, &said.conditions, Some(1), at(60));
    assert_ne!(gone, said);
    away.note_contact(&mut gone);
    assert_eq!(away.status(gone.clone(), None, &gone.conditions, Some(1), at(70)), gone);
}
