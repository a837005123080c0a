use kantor_api::conditions::get;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::hierarchy::sample::Sample;

const PROFILES: [&Profile; 8] = [
    &ORGANIZATION,
    &DATA_PLANE,
    &ENVIRONMENT,
    &DEPLOYMENT_PIPELINE,
    &PROJECT,
    &COMPONENT,
    &DEPLOYMENT_TRACK,
    &DEPLOYABLE_ARTIFACT,
];

fn at(second: i64) -> Time {
    Time(jiff::Timestamp::from_second(second).unwrap())
}

fn object(kind: Kind, name: &str) -> Facts {
    Sample::new(kind, &format!("acme/{name}")).facts()
}

fn deleting(kind: Kind, name: &str) -> Facts {
    Sample::new(kind, &format!("acme/{name}")).deleted().facts()
}

/// The step for a track of which these are left.
fn step(left: &[Facts]) -> DeletionStep {
    deletion_step(DEPLOYMENT_TRACK.on_delete, |kind| {
        left.iter().filter(|facts| facts.id.kind == kind).cloned().collect()
    })
}

/// What is deleted now, by name, and what is said.
fn deleted(step: DeletionStep) -> (Vec<String>, String) {
    let DeletionStep::Delete { now, message } = step else { panic!("{step:?}") };
    (now.into_iter().map(|(id, _)| id.name).collect(), message)
}

#[test]
fn children_go_stage_by_stage() {
    let mut left = vec![
        object(Kind::Build, "b"),
        object(Kind::DeployableArtifact, "a"),
        object(Kind::Deployment, "d"),
        object(Kind::Endpoint, "not-asked-for"),
    ];
    for (name, kind) in [("d", "Deployment"), ("a", "DeployableArtifact"), ("b", "Build")] {
        let (now, message) = deleted(step(&left));
        assert_eq!(now, [name]);
        assert_eq!(message, format!("waiting for {kind} {name} to be deleted"));
        left.retain(|facts| facts.id.name != name);
    }
    assert_eq!(step(&left), DeletionStep::Done);
}

#[test]
fn a_child_that_is_being_deleted_is_waited_for_and_not_deleted_again() {
    let left = [deleting(Kind::Deployment, "a"), object(Kind::Deployment, "b"), object(Kind::Build, "c")];
    let (now, message) = deleted(step(&left));
    assert_eq!(
        (now, message.as_str()),
        (vec!["b".into()], "waiting for Deployment a, Deployment b to be deleted")
    );
    let (now, message) = deleted(step(&left[..1]));
    assert_eq!((now, message.as_str()), (vec![], "waiting for Deployment a to be deleted"));
}

#[test]
fn a_child_is_deleted_by_its_uid() {
    let child = object(Kind::Build, "b");
    let DeletionStep::Delete { now, .. } = step(std::slice::from_ref(&child)) else { panic!("a step") };
    assert_eq!(now, [(child.id, Some("uid of Build acme/b".to_owned()))]);
}

#[test]
fn kinds_of_one_stage_go_together() {
    let left = [object(Kind::Release, "r"), object(Kind::DeploymentTrack, "t")];
    let step = deletion_step(COMPONENT.on_delete, |kind| {
        left.iter().filter(|facts| facts.id.kind == kind).cloned().collect()
    });
    assert_eq!(deleted(step).0, ["t", "r"]);
}

#[test]
fn users_are_waited_for_and_not_deleted() {
    let left = |kind| if kind == Kind::Environment { vec![object(kind, "dev")] } else { vec![] };
    assert_eq!(
        deletion_step(DATA_PLANE.on_delete, left),
        DeletionStep::InUse {
            message: "still used by Environment dev; delete them or point them elsewhere".into()
        }
    );
    assert_eq!(deletion_step(DATA_PLANE.on_delete, |_| vec![]), DeletionStep::Done);
}

#[rstest]
#[case(5, "Build 0, Build 1, Build 2, Build 3, Build 4")]
#[case(6, "Build 0, Build 1, Build 2, Build 3, Build 4 and 1 more")]
#[case(105, "Build 0, Build 1, Build 2, Build 3, Build 4 and 100 more")]
fn of_many_some_are_named_and_the_others_counted(#[case] count: usize, #[case] named: &str) {
    let left: Vec<Facts> = (0..count).map(|i| object(Kind::Build, &i.to_string())).collect();
    let (now, message) = deleted(step(&left));
    assert_eq!(now.len(), count);
    assert_eq!(message, format!("waiting for {named} to be deleted"));
}

#[test]
fn an_organization_goes_after_what_belongs_to_it_from_the_bottom_up() {
    let kinds: Vec<&[Kind]> = ORGANIZATION.on_delete.iter().map(Stage::kinds).collect();
    let position = |kind| kinds.iter().position(|stage| stage.contains(&kind)).unwrap();
    // A deployment whose project was never there still keeps its environment.
    let order = [Kind::Project, Kind::Deployment, Kind::Environment, Kind::DataPlane].map(position);
    assert!(order.is_sorted_by(|a, b| a < b), "{order:?}");
    assert!(position(Kind::Release) < position(Kind::Environment));
}

fn ready() -> Standing {
    Standing::Ready { reason: "Fine", message: "ready".into() }
}

fn finalizing(in_use: bool) -> Standing {
    Standing::Finalizing { message: "waiting".into(), in_use }
}

/// Status and reason of `Ready`, `Reconciling` and `Stalled`, and the message of the last.
#[rstest]
#[case::ready(ready(), ["True Fine", "False Fine", "False Fine"], "ready")]
#[case::stalled(
    Standing::Stalled { reason: "Missing", message: "m".into() },
    ["False Missing", "False Missing", "True Missing"], "m",
)]
#[case::progressing(
    Standing::Progressing { reason: "Soon", message: "m".into() },
    ["False Soon", "True Soon", "False Soon"], "m",
)]
#[case::unknown(
    Standing::Unknown { reason: "Away", message: "m".into() },
    ["Unknown Away", "True Away", "False Away"], "m",
)]
fn the_conditions_say_how_an_object_stands(
    #[case] standing: Standing,
    #[case] expected: [&str; 3],
    #[case] message: &str,
) {
    for profile in PROFILES {
        let after = conditions_of(profile, &standing, &[], Some(7), &at(1));
        let said = ["Ready", "Reconciling", "Stalled"].map(|type_| {
            let condition = get(&after, type_).unwrap();
            assert_eq!(condition.message, message);
            format!("{} {}", condition.status, condition.reason)
        });
        assert_eq!(said, expected, "{}", profile.kind);
        assert_eq!(get(&after, "Finalizing"), None);
        assert!(after.iter().all(|c| c.observed_generation == Some(7) && c.last_transition_time == at(1)));
    }
}

#[rstest]
#[case(&ORGANIZATION, None)]
#[case(&DATA_PLANE, Some(("Created", "DataPlaneCreated")))]
#[case(&ENVIRONMENT, None)]
#[case(&DEPLOYMENT_PIPELINE, Some(("Available", "DeploymentPipelineAvailable")))]
#[case(&PROJECT, Some(("Created", "ProjectCreated")))]
#[case(&COMPONENT, None)]
#[case(&DEPLOYMENT_TRACK, Some(("Available", "DeploymentTrackAvailable")))]
#[case(&DEPLOYABLE_ARTIFACT, Some(("Available", "DeployableArtifactAvailable")))]
fn an_object_says_that_it_was_accepted_as_the_reference_does(
    #[case] profile: &Profile,
    #[case] expected: Option<(&str, &str)>,
) {
    for standing in [ready(), Standing::Stalled { reason: "Missing", message: "m".into() }] {
        let after = conditions_of(profile, &standing, &[], Some(1), &at(1));
        let accepted = after.iter().find(|c| ["Created", "Available"].contains(&c.type_.as_str()));
        assert_eq!(accepted.map(|c| (c.type_.as_str(), c.reason.as_str())), expected);
        assert!(accepted.is_none_or(|c| c.status == "True"));
        assert_eq!(after.len(), 3 + usize::from(expected.is_some()));
    }
}

#[rstest]
#[case(&ORGANIZATION, "OrganizationFinalizing", "openchoreo.dev/delete-namespace")]
#[case(&DATA_PLANE, "DataplaneFinalizing", "openchoreo.dev/dataplane-cleanup")]
#[case(&ENVIRONMENT, "EnvironmentFinalizing", "openchoreo.dev/environment-cleanup")]
#[case(&PROJECT, "ProjectFinalizing", "openchoreo.dev/project-cleanup")]
#[case(&COMPONENT, "ComponentFinalizing", "openchoreo.dev/component-cleanup")]
#[case(&DEPLOYMENT_TRACK, "DeploymentTrackFinalizing", "openchoreo.dev/deploymenttrack-cleanup")]
#[case(&DEPLOYABLE_ARTIFACT, "DeployableArtifactFinalizing", "openchoreo.dev/deployableartifact-cleanup")]
fn an_object_that_is_being_deleted_says_so_and_who_has_to_act(
    #[case] profile: &Profile,
    #[case] reason: &str,
    #[case] finalizer: &str,
) {
    assert_eq!(profile.finalizer, Some(finalizer));
    for (in_use, going_on, stalled) in
        [(false, "True", ("False", reason)), (true, "False", ("True", "InUse"))]
    {
        let after = conditions_of(profile, &finalizing(in_use), &[], Some(1), &at(1));
        let of = |type_| get(&after, type_).map(|c| (c.status.as_str(), c.reason.as_str())).unwrap();
        assert_eq!(of("Ready"), ("False", reason));
        assert_eq!(of("Reconciling"), (going_on, reason));
        assert_eq!(of("Finalizing"), ("True", reason));
        assert_eq!(of("Stalled"), stalled);
    }
}

#[test]
fn no_object_says_that_it_goes_on_and_that_it_is_stalled() {
    let (reason, message) = ("Reason", "m".to_owned());
    let standings = [
        ready(),
        Standing::Stalled { reason, message: message.clone() },
        Standing::Progressing { reason, message: message.clone() },
        Standing::Unknown { reason, message },
        finalizing(false),
        finalizing(true),
        Standing::Paused,
    ];
    for profile in PROFILES.into_iter().chain([&DEPLOYMENT, &ENDPOINT, &RELEASE]) {
        for before in &standings {
            let before = conditions_of(profile, before, &[], Some(1), &at(1));
            for standing in &standings {
                let after = conditions_of(profile, standing, &before, Some(1), &at(2));
                let is_true = |type_| get(&after, type_).is_some_and(|c| c.status == "True");
                let said = [is_true("Ready"), is_true("Reconciling"), is_true("Stalled")];
                assert!(!(said[1] && said[2]), "{}: {standing:?}", profile.kind);
                assert!(!(said[0] && said[1]), "{}: {standing:?}", profile.kind);
            }
        }
    }
}

#[test]
fn a_paused_object_that_is_looked_at_says_what_is_seen_and_says_it_once() {
    let before = conditions_of(&DATA_PLANE, &ready(), &[], Some(1), &at(1));
    let lost = Standing::Unknown { reason: "Away", message: "m".into() };
    let after = conditions_while_paused(&DATA_PLANE, &lost, &before, Some(1), &at(2));
    let said = ["Ready", "Reconciling", "Stalled"].map(|type_| {
        let condition = get(&after, type_).unwrap();
        format!("{} {}", condition.status, condition.reason)
    });
    assert_eq!(said, ["Unknown Away", "False Paused", "True Paused"]);
    assert_eq!(get(&after, "Ready").unwrap().last_transition_time, at(2));
    assert_eq!(conditions_while_paused(&DATA_PLANE, &lost, &after, Some(1), &at(3)), after);
}

#[test]
fn the_time_of_a_condition_changes_with_its_status_alone() {
    let first = conditions_of(&COMPONENT, &ready(), &[], Some(1), &at(1));
    assert_eq!(conditions_of(&COMPONENT, &ready(), &first, Some(1), &at(2)), first);
    let stalled = Standing::Stalled { reason: "Missing", message: "m".into() };
    let second = conditions_of(&COMPONENT, &stalled, &first, Some(2), &at(2));
    let since = |type_| get(&second, type_).unwrap().last_transition_time.clone();
    assert_eq!([since("Ready"), since("Reconciling"), since("Stalled")], [at(2), at(1), at(2)]);
    let other = Standing::Stalled { reason: "Another", message: "n".into() };
    let third = conditions_of(&COMPONENT, &other, &second, Some(3), &at(3));
    let ready = get(&third, "Ready").unwrap();
    assert_eq!((&ready.last_transition_time, ready.reason.as_str()), (&at(2), "Another"));
}

#[test]
fn conditions_of_others_are_kept() {
    let foreign = Condition {
        type_: "Approved".into(),
        status: "True".into(),
        reason: "ByHand".into(),
        message: String::new(),
        observed_generation: None,
        last_transition_time: at(0),
    };
    let after = conditions_of(&PROJECT, &ready(), std::slice::from_ref(&foreign), Some(1), &at(1));
    assert_eq!(get(&after, "Approved"), Some(&foreign));
}

#[rstest]
#[case::ready(ready())]
#[case::stalled(Standing::Stalled { reason: "Missing", message: "m".into() })]
fn a_paused_object_says_so_and_leaves_ready_as_it_was(#[case] before: Standing) {
    for profile in PROFILES {
        let before = conditions_of(profile, &before, &[], Some(1), &at(1));
        let after = conditions_of(profile, &Standing::Paused, &before, Some(2), &at(2));
        assert_eq!(get(&after, "Ready"), get(&before, "Ready"));
        let stalled = get(&after, "Stalled").unwrap();
        assert_eq!((stalled.status.as_str(), stalled.reason.as_str()), ("True", "Paused"));
        assert!(stalled.message.contains("openchoreo.dev/paused"), "{}", stalled.message);
        assert_eq!(get(&after, "Reconciling").unwrap().status, "False");
    }
    let new = conditions_of(&COMPONENT, &Standing::Paused, &[], Some(1), &at(1));
    assert_eq!(get(&new, "Ready"), None);
}

#[rstest]
#[case(
    ResolveError::Missing { kind: Kind::Project, name: "shop".into(), scope: vec!["acme".into()] },
    "ReferenceNotFound", "Project shop does not exist in organization acme",
)]
#[case(ResolveError::Unnamed(Kind::DataPlane), "ReferenceNotFound", "no DataPlane is named")]
#[case(
    ResolveError::Ambiguous {
        kind: Kind::Project, name: "shop".into(), scope: vec![], found: vec!["a".into(), "b".into()] },
    "ReferenceAmbiguous", "Project shop is ambiguous: a, b; give each its own label openchoreo.dev/name",
)]
#[case(ResolveError::Unlabelled(vec!["a/b", "a/c"]), "LabelMissing", "label a/b, a/c is missing")]
fn what_was_not_found_stalls_an_object(
    #[case] error: ResolveError,
    #[case] reason: &'static str,
    #[case] message: &str,
) {
    assert_eq!(Standing::unresolved(&error), Standing::Stalled { reason, message: message.into() });
}

#[rstest]
#[case(annotations::PAUSED, "true", (true, false))]
#[case(annotations::PAUSED, "yes", (false, false))]
#[case(annotations::DELETION_POLICY, "Orphan", (false, true))]
#[case(annotations::DELETION_POLICY, "orphan", (false, false))]
#[case("unrelated", "true", (false, false))]
fn only_the_exact_words_pause_or_orphan(
    #[case] key: &str,
    #[case] value: &str,
    #[case] expected: (bool, bool),
) {
    let mut object = kantor_api::Organization::default();
    object.annotations_mut().insert(key.to_owned(), value.to_owned());
    assert_eq!((is_paused(&object), is_orphaning(&object)), expected);
}

#[rstest]
#[case::new(json!({}), Turn::Hold(finalizers::RELEASE))]
#[case::held(json!({"finalizers": [finalizers::RELEASE]}), Turn::Keep)]
#[case::held_by_others(json!({"finalizers": ["others/finalizer"]}), Turn::Hold(finalizers::RELEASE))]
#[case::going(json!({"finalizers": [finalizers::RELEASE], "deletionTimestamp": "2026-01-01T00:00:00Z"}), Turn::Finalize)]
#[case::going_and_not_ours(json!({"finalizers": ["a/b"], "deletionTimestamp": "2026-01-01T00:00:00Z"}), Turn::Leave)]
#[case::paused(json!({"annotations": {annotations::PAUSED: "true"}}), Turn::Rest)]
#[case::paused_and_going(
    json!({"annotations": {annotations::PAUSED: "true"}, "finalizers": [finalizers::RELEASE],
        "deletionTimestamp": "2026-01-01T00:00:00Z"}),
    Turn::Rest
)]
fn each_moment_of_a_life_has_its_turn(#[case] mut metadata: serde_json::Value, #[case] expected: Turn) {
    metadata["name"] = json!("r");
    let metadata = serde_json::from_value(metadata).unwrap();
    let release = kantor_api::Release { metadata, ..kantor_api::Release::default() };
    assert_eq!(turn(&release, &RELEASE), expected);
}
