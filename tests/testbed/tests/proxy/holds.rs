//! Holding a request before the server has it, or its reply after.

use kantor_testbed::proxy::{Action, Fault, Outcome};
use tokio::task::JoinHandle;

use crate::stand::{SOON, Stand, run};

#[test]
fn a_request_held_before_is_not_committed_until_released() {
    run(async {
        let stand = Stand::new("hold-before").await;
        let fault = stand.fault(Action::HoldBefore);
        let created = spawn_create(&stand, "c");
        fault.await_hit(SOON).await.unwrap();
        let record = stand.proxy.requests()[0].clone();
        assert_eq!((record.outcome, record.forwarded), (Outcome::Held, false));
        assert!(!stand.has("c").await);
        fault.release();
        created.await.unwrap().unwrap();
        assert!(stand.has("c").await);
    });
}

#[test]
fn a_request_held_before_is_never_forwarded_when_its_client_dies() {
    run(async {
        let stand = Stand::new("hold-before-kill").await;
        let fault = stand.fault(Action::HoldBefore);
        let created = spawn_create(&stand, "c");
        fault.await_hit(SOON).await.unwrap();
        created.abort();
        let record = stand.proxy.await_request(|r| r.outcome == Outcome::ClientGone, SOON).await.unwrap();
        fault.release();
        assert!(!record.forwarded);
        assert!(!stand.has("c").await);
    });
}

#[test]
fn a_request_held_before_is_never_forwarded_when_its_rule_ends() {
    run(async {
        let stand = Stand::new("hold-before-drop").await;
        let fault = stand.fault(Action::HoldBefore);
        let created = spawn_create(&stand, "c");
        fault.await_hit(SOON).await.unwrap();
        drop(fault);
        created.await.unwrap().unwrap_err();
        let record = stand.proxy.requests()[0].clone();
        assert_eq!((record.outcome, record.forwarded), (Outcome::Reset, false));
        assert!(!stand.has("c").await);
    });
}

#[test]
fn a_reply_held_after_is_of_a_request_that_was_committed() {
    run(async {
        let stand = Stand::new("hold-after").await;
        let fault = stand.fault(Action::HoldAfter);
        let created = spawn_create(&stand, "c");
        fault.await_hit(SOON).await.unwrap();
        let record = stand.proxy.requests()[0].clone();
        assert_eq!(record.outcome, Outcome::ReplyHeld(201));
        assert!(stand.has("c").await);
        assert!(!created.is_finished());
        assert!(record.committed() && record.code().is_none());
        fault.release();
        created.await.unwrap().unwrap();
        assert_eq!(stand.proxy.requests()[0].outcome, Outcome::Answered(201));
    });
}

#[test]
fn a_reply_held_after_is_lost_when_its_client_dies_or_its_rule_ends() {
    run(async {
        let stand = Stand::new("hold-after-kill").await;
        let fault = stand.fault(Action::HoldAfter);
        let created = spawn_create(&stand, "c");
        fault.await_hit(SOON).await.unwrap();
        created.abort();
        let lost =
            |r: &kantor_testbed::proxy::Record| r.name() == "c" && r.outcome == Outcome::ReplyLost(201);
        stand.proxy.await_request(lost, SOON).await.unwrap();
        let created = spawn_create(&stand, "d");
        fault.await_hits(2, SOON).await.unwrap();
        fault.remove();
        created.await.unwrap().unwrap_err();
        assert_eq!(stand.proxy.requests()[1].outcome, Outcome::ReplyLost(201));
        assert!(stand.has("c").await && stand.has("d").await);
    });
}

#[test]
fn a_release_lets_go_what_is_held_and_holds_what_comes_later() {
    run(async {
        let stand = Stand::new("hold-again").await;
        let fault = stand.proxy.fault(Fault::when(stand.configs_match().writes()).then(Action::HoldBefore));
        let (first, second) = (spawn_create(&stand, "a"), spawn_create(&stand, "b"));
        fault.await_hits(2, SOON).await.unwrap();
        fault.release();
        first.await.unwrap().unwrap();
        second.await.unwrap().unwrap();
        let third = spawn_create(&stand, "c");
        fault.await_hits(3, SOON).await.unwrap();
        assert!(!stand.has("c").await);
        fault.release();
        third.await.unwrap().unwrap();
    });
}

type Created = kube::Result<k8s_openapi::api::core::v1::ConfigMap>;

fn spawn_create(stand: &Stand, name: &'static str) -> JoinHandle<Created> {
    let configs = stand.configs.clone();
    let object = crate::stand::config(name, "1");
    tokio::spawn(async move { configs.create(&kube::api::PostParams::default(), &object).await })
}
