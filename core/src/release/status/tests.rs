use kantor_api::{
    common::{InventoryItem, PlaneRecord},
    release::{ReleaseResource, ReleaseStatus, RemovingObjects},
};
use rstest::rstest;
use serde_json::json;

use super::*;

/// What etcd stores at the most.
const STORED: usize = 3 << 19;

fn time(text: &str) -> Time {
    Time(text.parse().unwrap())
}

fn then() -> Time {
    time("2026-01-01T00:00:00Z")
}

fn now() -> Time {
    time("2026-06-01T00:00:00Z")
}

fn entry_named(name: &str) -> ResourceStatus {
    ResourceStatus {
        id: format!("id-of-{name}"),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        name: name.into(),
        namespace: Some("app".into()),
        ..ResourceStatus::default()
    }
}

fn verdict(health: Health, message: Option<&str>) -> Verdict {
    Verdict { health, message: message.map(ToOwned::to_owned) }
}

fn size(value: &impl serde::Serialize) -> usize {
    serde_json::to_vec(value).unwrap().len()
}

/// A status of just so many bytes.
fn own_status(bytes: usize) -> Value {
    let status = json!({"a": "x".repeat(bytes - r#"{"a":""}"#.len())});
    assert_eq!(size(&status), bytes);
    status
}

fn assessed(before: ResourceStatus, observed: Observed) -> ResourceStatus {
    let before = Recorded { resources: vec![before], ..Recorded::default() };
    assess(&ReleaseSpec::default(), &before, &[observed], &now()).remove(0)
}

#[test]
fn an_entry_says_what_was_seen() {
    let observed = Observed {
        uid: Some("uid".into()),
        outcome: Outcome::Refused("quota".into()),
        verdict: Some(verdict(Health::Degraded, Some("crashes"))),
        status: Some(json!({"phase": "Failed"})),
    };
    let before = ResourceStatus { message: Some("old".into()), ..entry_named("one") };
    let expected = ResourceStatus {
        uid: Some("uid".into()),
        health_status: Some("Degraded".into()),
        message: Some("crashes".into()),
        apply_error: Some("quota".into()),
        status: Some(json!({"phase": "Failed"})),
        last_observed_time: Some(now()),
        ..entry_named("one")
    };
    assert_eq!(assessed(before, observed), expected);
}

#[rstest]
#[case::same("uid", Some(Health::Healthy), Some(7), then())]
#[case::other_health("uid", Some(Health::Progressing), Some(7), now())]
#[case::other_status("uid", Some(Health::Healthy), Some(8), now())]
#[case::no_status("uid", Some(Health::Healthy), None, now())]
#[case::made_anew("another", Some(Health::Healthy), Some(7), now())]
#[case::not_seen("uid", None, None, then())]
fn the_time_moves_when_something_else_is_seen(
    #[case] uid: &str,
    #[case] health: Option<Health>,
    #[case] replicas: Option<u8>,
    #[case] expected: Time,
) {
    let status = |replicas: u8| json!({"replicas": replicas});
    let before = ResourceStatus {
        uid: Some("uid".into()),
        health_status: Some("Healthy".into()),
        status: Some(status(7)),
        last_observed_time: Some(then()),
        ..entry_named("one")
    };
    let observed = Observed {
        uid: Some(uid.into()),
        outcome: Outcome::Failed("timeout".into()),
        verdict: health.map(|health| verdict(health, Some("another message"))),
        status: replicas.map(status),
    };
    let after = assessed(before, observed);
    assert_eq!(after.last_observed_time, Some(expected));
    assert_eq!(after.health_status.as_deref(), Some(health.map_or("Unknown", Health::as_str)));
}

#[rstest]
#[case::seen_first(Some(verdict(Health::Unknown, None)), Some(now()))]
#[case::not_seen_yet(None, None)]
fn the_time_starts_when_an_object_is_seen(#[case] verdict: Option<Verdict>, #[case] expected: Option<Time>) {
    let before = ResourceStatus { health_status: Some("Unknown".into()), ..entry_named("one") };
    let observed = Observed { uid: None, outcome: Outcome::Created, verdict, status: None };
    assert_eq!(assessed(before, observed).last_observed_time, expected);
}

#[rstest]
#[case::fits(4096, true)]
#[case::too_large(4097, false)]
fn an_objects_own_status_is_kept_whole_or_not_at_all(#[case] bytes: usize, #[case] kept: bool) {
    let status = own_status(bytes);
    let seen = Some(verdict(Health::Healthy, None));
    let observed =
        Observed { uid: None, outcome: Outcome::Unchanged, verdict: seen, status: Some(status.clone()) };
    assert_eq!(assessed(entry_named("one"), observed).status, kept.then_some(status));
}

/// A Release with so many small objects of which there is very much to say.
fn large(count: usize, outcome: &Outcome, message: Option<&str>) -> (ReleaseSpec, Recorded, Vec<Observed>) {
    let object = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "app", "name": name},
            "data": {"text": "x".repeat(120)},
        })
    };
    let names: Vec<String> = (0..count).map(|i| format!("settings-of-the-shop-{i:04}")).collect();
    let resource = |name: &String| ReleaseResource { id: format!("id-of-{name}"), object: object(name) };
    let spec = ReleaseSpec { resources: names.iter().map(resource).collect(), ..ReleaseSpec::default() };
    let resources = names.iter().map(|name| entry_named(name)).collect();
    let observed = Observed {
        uid: Some("0f8fad5b-d9cb-469f-a165-70867728950e".into()),
        outcome: outcome.clone(),
        verdict: Some(verdict(Health::Degraded, message)),
        status: Some(own_status(4096)),
    };
    (spec, Recorded { resources, ..Recorded::default() }, vec![observed; count])
}

fn stored(spec: &ReleaseSpec, recorded: &Recorded, resources: Vec<ResourceStatus>) -> usize {
    let removing = recorded.removing.clone();
    size(spec) + size(&ReleaseStatus { resources, removing, ..ReleaseStatus::default() })
}

#[test]
fn two_thousand_objects_with_much_to_say_fit_into_one_release() {
    let outcome = Outcome::Refused("é".repeat(1000));
    let (spec, recorded, observed) = large(2000, &outcome, Some(&"ü".repeat(1024)));
    assert!(size(&spec) > 2000 * 240, "{}", size(&spec));
    let after = assess(&spec, &recorded, &observed, &now());
    assert!(after.iter().all(|entry| entry.uid.is_some() && entry.apply_error.is_some()));
    let stored = stored(&spec, &recorded, after);
    assert!(stored < STORED, "{stored}");
}

#[test]
fn what_is_to_be_removed_takes_room_too() {
    let (spec, mut recorded, observed) = large(270, &Outcome::Unchanged, None);
    let item = |entry: &ResourceStatus| InventoryItem { uid: observed[0].uid.clone(), ..item_of(entry) };
    let objects = (0..3000).map(|i| item(&entry_named(&format!("settings-of-the-shop-{i:04}")))).collect();
    let data_plane = PlaneRecord::default();
    recorded.removing = vec![RemovingObjects { data_plane, objects, namespaces: vec![] }];
    let stored = stored(&spec, &recorded, assess(&spec, &recorded, &observed, &now()));
    assert!(stored < STORED, "{stored}");
}

#[test]
fn what_has_no_room_does_not_make_the_time_move() {
    let (spec, mut recorded, observed) = large(400, &Outcome::Unchanged, None);
    recorded.resources = assess(&spec, &recorded, &observed, &then());
    assert!(recorded.resources.iter().all(|entry| entry.status.is_none()));
    assert!(recorded.resources.iter().all(|entry| entry.last_observed_time == Some(then())));
    assert_eq!(assess(&spec, &recorded, &observed, &now()), recorded.resources);
}

#[test]
fn what_can_be_looked_up_elsewhere_goes_first() {
    let full = ResourceStatus {
        uid: Some("uid".into()),
        health_status: Some("Degraded".into()),
        message: Some("ü".repeat(200)),
        apply_error: Some("é".repeat(200)),
        status: Some(own_status(1000)),
        last_observed_time: Some(now()),
        ..entry_named("one")
    };
    let short = |text: &str, count: usize| Some(format!("{}…", text.repeat(count)));
    let bare = ResourceStatus { status: None, ..full.clone() };
    let terse = ResourceStatus { message: short("ü", 60), apply_error: short("é", 60), ..bare.clone() };
    let silent = ResourceStatus { message: None, apply_error: short("é", 8), ..bare.clone() };
    let timeless = ResourceStatus { last_observed_time: None, ..silent.clone() };
    let steps = [full.clone(), bare, terse, silent, timeless.clone()];
    for step in &steps {
        assert_eq!(fitted(vec![full.clone()], size(&vec![step]))[0], *step);
    }
    for pair in steps.windows(2) {
        assert_eq!(fitted(vec![full.clone()], size(&vec![&pair[0]]) - 1), [pair[1].clone()]);
    }
    assert_eq!(fitted(vec![full], 0), [timeless], "which it is stays in any case");
}

#[test]
fn while_nothing_is_known_only_the_health_is_taken_back() {
    let before = ResourceStatus {
        uid: Some("uid".into()),
        health_status: Some("Degraded".into()),
        message: Some("crashes".into()),
        apply_error: Some("quota".into()),
        status: Some(json!({})),
        last_observed_time: Some(then()),
        ..entry_named("one")
    };
    let expected = ResourceStatus { health_status: Some("Unknown".into()), message: None, ..before.clone() };
    assert_eq!(unobserved(&[before]), [expected]);
}

fn told(report: &Report) -> [String; 3] {
    let standing = match &report.standing {
        Standing::Ready { reason, message } => format!("Ready {reason}: {message}"),
        Standing::Stalled { reason, message } => format!("Stalled {reason}: {message}"),
        Standing::Progressing { reason, message } => format!("Progressing {reason}: {message}"),
        Standing::Unknown { reason, message } => format!("Unknown {reason}: {message}"),
        other => panic!("{other:?}"),
    };
    let said = |s: &Statement| format!("{} {} {}: {}", s.type_, s.status.as_str(), s.reason, s.message);
    let [applied, healthy] = &report.statements;
    [standing, said(applied), said(healthy)]
}

/// What is told of objects `a`, `b`, … by outcome and health, as single letters, and of what is going.
fn told_of(objects: &[&str], removing: &[&str]) -> [String; 3] {
    let (mut resources, mut observed) = (vec![], vec![]);
    for (text, name) in objects.iter().zip('a'..='z') {
        let (outcome, health) = text.split_at(1);
        let why = |what: &str| format!("{what} {name}");
        let outcome = match outcome {
            "r" => Outcome::Refused(why("refused")),
            "f" => Outcome::Failed(why("failed")),
            "w" => Outcome::Waiting(why("waits for")),
            _ => Outcome::Unchanged,
        };
        let (health, message) = match health {
            "D" => (Health::Degraded, Some(format!("ConfigMap app/{name} is broken"))),
            "P" => (Health::Progressing, Some("starts".to_owned())),
            "S" => (Health::Suspended, Some("rests".to_owned())),
            "U" => (Health::Unknown, None),
            _ => (Health::Healthy, None),
        };
        let health_status = Some(health.as_str().to_owned());
        resources.push(ResourceStatus { health_status, message, ..entry_named(&name.to_string()) });
        observed.push(Observed { uid: None, outcome, verdict: None, status: None });
    }
    let removing: Vec<String> = removing.iter().map(|text| (*text).to_owned()).collect();
    told(&report(&resources, &observed, &removing))
}

const APPLIED_1: &str = "Applied True ResourcesApplied: 1 object applied";
const APPLIED_2: &str = "Applied True ResourcesApplied: 2 objects applied";
const HEALTHY_1: &str = "Healthy True ResourcesActive: 1 object healthy";
const UNSURE: &str =
    "Healthy False ResourceHealthProgressing: 1 of 2 objects not healthy yet: ConfigMap app/b";
const BROKEN: &str =
    "Healthy False ResourceHealthDegraded: 1 of 2 objects degraded: ConfigMap app/b is broken";

#[rstest]
#[case::no_objects(&[], &[], "Ready ResourcesActive", "Applied True ResourcesApplied: 0 objects applied", "Healthy True ResourcesActive: no objects")]
#[case::healthy(&["uH"], &[], "Ready ResourcesActive", APPLIED_1, HEALTHY_1)]
#[case::suspended(&["uH", "uS"], &[], "Ready ResourcesActive", APPLIED_2, "Healthy True ResourcesActive: 2 objects healthy, 1 of them suspended")]
#[case::progressing(&["uP"], &[], "Progressing ResourceHealthProgressing", APPLIED_1, "Healthy False ResourceHealthProgressing: 1 of 1 object not healthy yet: ConfigMap app/a: starts")]
#[case::unknown(&["uH", "uU"], &[], "Progressing ResourceHealthProgressing", APPLIED_2, UNSURE)]
#[case::degraded_beats_progressing(&["uP", "uD"], &[], "Stalled ResourceHealthDegraded", APPLIED_2, BROKEN)]
#[case::degraded_beats_unknown(&["uU", "uD"], &[], "Stalled ResourceHealthDegraded", APPLIED_2, BROKEN)]
#[case::removing(&["uH"], &["Job x/y waits"], "Progressing RemovingResources", "Applied True RemovingResources: removing Job x/y waits", HEALTHY_1)]
#[case::degraded_beats_removing(&["uH", "uD"], &["x"], "Stalled ResourceHealthDegraded", "Applied True RemovingResources: removing x", BROKEN)]
#[case::waiting_beats_removing(&["wH"], &["x"], "Progressing ApplyWaiting", "Applied False ApplyWaiting: 1 of 1 object: ConfigMap app/a: waits for a", HEALTHY_1)]
#[case::failed_beats_waiting(&["wH", "fU"], &[], "Progressing ApplyFailed", "Applied False ApplyFailed: 1 of 2 objects: ConfigMap app/b: failed b", UNSURE)]
#[case::refused_beats_failed(&["fH", "rU"], &["x"], "Stalled ApplyRefused", "Applied False ApplyRefused: 1 of 2 objects: ConfigMap app/b: refused b", UNSURE)]
#[case::refused_beats_degraded(&["rH", "uD"], &[], "Stalled ApplyRefused", "Applied False ApplyRefused: 1 of 2 objects: ConfigMap app/a: refused a", BROKEN)]
fn the_worst_that_is_known_is_how_a_release_stands(
    #[case] objects: &[&str],
    #[case] removing: &[&str],
    #[case] standing: &str,
    #[case] applied: &str,
    #[case] healthy: &str,
) {
    let told = told_of(objects, removing);
    assert_eq!([told[1].as_str(), told[2].as_str()], [applied, healthy]);
    // It says what the statement says that is the reason for it.
    let (_, reason) = standing.split_once(' ').unwrap();
    let reasons = told[1..].iter().find_map(|text| text.split_once(&format!("{reason}: "))).unwrap();
    assert_eq!(told[0], format!("{standing}: {}", reasons.1));
}

#[rstest]
#[case::five(5, "; ConfigMap app/e: refused e")]
#[case::six(6, "; ConfigMap app/e: refused e; and 1 more")]
#[case::many(20, "; ConfigMap app/e: refused e; and 15 more")]
fn the_first_few_objects_are_named_and_the_rest_counted(#[case] count: usize, #[case] ends: &str) {
    let [_, applied, _] = told_of(&vec!["rH"; count], &[]);
    let starts =
        format!("Applied False ApplyRefused: {count} of {count} objects: ConfigMap app/a: refused a; ");
    assert!(applied.starts_with(&starts) && applied.ends_with(ends), "{applied}");
}

#[test]
fn a_message_is_no_longer_than_people_read() {
    let long = "ü".repeat(3000);
    let [_, applied, _] = told_of(&["uH"], &[&long]);
    assert!(applied.ends_with("ü…") && applied.len() < 2100, "{}", applied.len());
}

#[test]
fn a_release_that_is_refused_is_not_looked_at() {
    let report = Report::refused("InvalidResource", "resource it: no kind".into());
    let expected = [
        "Stalled InvalidResource: resource it: no kind",
        "Applied False InvalidResource: resource it: no kind",
        "Healthy Unknown InvalidResource: not looked at",
    ];
    assert_eq!(told(&report), expected);
}

#[test]
fn of_a_plane_that_does_not_answer_nothing_is_claimed() {
    let report = Report::unknown("DataPlaneUnreachable", "no route".into());
    let expected = [
        "Unknown DataPlaneUnreachable: no route",
        "Applied Unknown DataPlaneUnreachable: no route",
        "Healthy Unknown DataPlaneUnreachable: no route",
    ];
    assert_eq!(told(&report), expected);
}
