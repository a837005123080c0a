use rstest::rstest;
use serde_json::json;

use super::*;

#[rstest]
#[case::as_many_as_kubernetes_makes(None, None, None)]
#[case::at_least(Some((2, 9)), None, Some(2))]
#[case::as_many_as_elsewhere(Some((2, 9)), Some(5), Some(5))]
#[case::no_fewer_than_the_fewest(Some((2, 9)), Some(1), Some(2))]
#[case::no_more_than_the_most(Some((2, 9)), Some(20), Some(9))]
#[case::not_scaled_by_anybody(None, Some(5), Some(5))]
#[case::scaled_to_none(None, Some(0), Some(0))]
fn a_workload_is_made_with_the_replicas_that_it_had_and_no_fewer_than_the_fewest(
    #[case] bounds: Option<Bounds>,
    #[case] elsewhere: Option<i64>,
    #[case] expected: Option<i64>,
) {
    assert_eq!(first_replicas(bounds, elsewhere), expected);
}

fn item(kind: &str) -> InventoryItem {
    InventoryItem {
        group: "apps".into(),
        version: "v1".into(),
        kind: kind.into(),
        namespace: "home".into(),
        name: "cart".into(),
        uid: None,
    }
}

fn workload(version: &str, replicas: i64) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "cart", "namespace": "home", "resourceVersion": version, "generation": 3},
        "spec": {"replicas": replicas},
        "status": {"observedGeneration": 3, "replicas": replicas, "updatedReplicas": replicas,
            "readyReplicas": replicas, "availableReplicas": replicas},
    }))
    .unwrap()
}

#[rstest]
#[case::seen("7", 1, Some("7"), None, Health::Healthy)]
#[case::nothing_was_written("7", 1, None, None, Health::Healthy)]
#[case::from_before_the_write("7", 1, Some("8"), None, Health::Progressing)]
#[case::fewer_than_the_fewest("7", 1, None, Some((2, 9)), Health::Progressing)]
#[case::as_many_as_the_fewest("7", 2, None, Some((2, 9)), Health::Healthy)]
#[case::scaled_to_none("7", 0, None, Some((2, 9)), Health::Suspended)]
fn only_what_was_seen_since_the_last_write_with_enough_replicas_is_well(
    #[case] version: &str,
    #[case] replicas: i64,
    #[case] written: Option<&str>,
    #[case] bounds: Option<Bounds>,
    #[case] expected: Health,
) {
    let live = workload(version, replicas);
    assert_eq!(verdict(&item("Deployment"), Some(&live), written, bounds).health, expected);
    assert_ne!(verdict(&item("Deployment"), None, written, bounds).health, Health::Healthy);
}

fn well() -> Verdict {
    Verdict { health: Health::Healthy, message: None }
}

fn on_its_way() -> Verdict {
    Verdict { health: Health::Progressing, message: Some("0 of 5 replicas available".into()) }
}

fn seen(endpoints: &EndpointTroubles, verdict: Verdict) -> Seen<'_> {
    Seen { applied: vec![], endpoints, verdict: Some(verdict), pods: None, left: &[], moving: None }
}

fn said(standing: &Standing) -> (&'static str, &str) {
    match standing {
        Standing::Ready { reason, message }
        | Standing::Stalled { reason, message }
        | Standing::Progressing { reason, message } => (reason, message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_endpoint_that_cannot_be_had_keeps_a_deployment_from_being_ready() {
    let name = || vec!["Endpoint acme/cart-api: why".to_owned()];
    let none = EndpointTroubles::default();
    assert!(matches!(standing(seen(&none, well())), Standing::Ready { .. }));
    let taken = EndpointTroubles { taken: name(), ..none.clone() };
    let refused = EndpointTroubles { refused: name(), ..none.clone() };
    let failed = EndpointTroubles { failed: name(), ..none.clone() };
    for (troubles, reason, is_stalled) in [
        (&taken, reasons::ENDPOINT_CONFLICT, true),
        (&refused, reasons::APPLY_REFUSED, true),
        (&failed, reasons::APPLY_FAILED, false),
    ] {
        let standing = standing(seen(troubles, well()));
        assert_eq!(said(&standing), (reason, "Endpoint acme/cart-api: why"));
        assert_eq!(matches!(standing, Standing::Stalled { .. }), is_stalled);
    }
}

#[test]
fn pods_that_do_not_run_have_a_reason_of_their_own() {
    let none = EndpointTroubles::default();
    let standing = standing(Seen { pods: Some("pod a: Unschedulable".into()), ..seen(&none, on_its_way()) });
    assert_eq!(
        said(&standing),
        (reasons::PODS_NOT_RUNNING, "0 of 5 replicas available; pod a: Unschedulable")
    );
    assert!(matches!(standing, Standing::Progressing { .. }));
}

#[test]
fn a_move_is_told_until_it_is_over() {
    let none = EndpointTroubles::default();
    let moving = |endpoints: &[&str]| {
        Some(Move {
            from: vec!["eu".into()],
            to: "us".into(),
            endpoints: endpoints.iter().map(|name| (*name).to_owned()).collect(),
            problem: None,
        })
    };
    let waits = standing(Seen { moving: moving(&["cart-api"]), ..seen(&none, on_its_way()) });
    let (reason, message) = said(&waits);
    assert_eq!(reason, reasons::DEPLOYMENT_PROGRESSING);
    assert!(message.starts_with("moving from data plane eu") && message.contains("us"), "{message}");
    assert!(message.contains("0 of 5 replicas"), "{message}");
    let runs = standing(Seen { moving: moving(&["cart-api"]), ..seen(&none, well()) });
    let (reason, message) = said(&runs);
    assert!(reason == reasons::MOVING && message.contains("cart-api"), "{reason}: {message}");
    assert!(matches!(runs, Standing::Progressing { .. }));
}
