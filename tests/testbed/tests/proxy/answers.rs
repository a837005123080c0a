//! Answers that are changed on the way or made, and rules that never had an effect.

use std::panic::AssertUnwindSafe;

use futures::StreamExt;
use http_body_util::BodyExt;
use kantor_testbed::proxy::{Action, Fault, FaultHandle, Match, Outcome, Verb};
use kube::discovery::Discovery;
use serde_json::json;
use tokio::time::timeout;

use crate::stand::{SOON, Stand, run};

#[test]
fn a_rule_that_was_never_hit_fails_its_test() {
    run(async {
        let stand = Stand::new("missed").await;
        let dropped = |fault: FaultHandle| std::panic::catch_unwind(AssertUnwindSafe(|| drop(fault)));
        let missed = stand.fault(Action::status(500));
        let said = dropped(missed).unwrap_err().downcast::<String>().unwrap();
        assert_eq!(*said, "a fault rule was never hit; it matched 0 times");
        stand.create("c").await.unwrap();
        dropped(stand.fault(Action::status(500)).may_miss()).unwrap();
        let hit = stand.fault(Action::status(500));
        stand.configs.get("c").await.unwrap_err();
        dropped(hit).unwrap();
        // Of a test that fails already the first failure is told.
        let failing = std::panic::catch_unwind(AssertUnwindSafe(|| {
            let _missed = stand.fault(Action::Hang);
            panic!("the first failure");
        }));
        assert_eq!(*failing.unwrap_err().downcast::<&str>().unwrap(), "the first failure");
    });
}

#[test]
fn an_answer_is_rewritten_as_often_as_the_rule_says() {
    run(async {
        let stand = Stand::new("rewrite").await;
        stand.create("c").await.unwrap();
        let get = || stand.configs.get("c");
        let once = Fault::when(stand.configs_match().verb(Verb::Get).times(1))
            .then(Action::rewrite(|answer| answer["data"]["key"] = "changed on the way".into()));
        let fault = stand.proxy.fault(once);
        assert_eq!(get().await.unwrap().data.unwrap()["key"], "changed on the way");
        assert_eq!(get().await.unwrap().data.unwrap()["key"], "1");
        assert_eq!(fault.hits(), 1);

        // Both forms in which servers tell what they serve.
        let groups = Fault::when(Match::new().path("/apis")).then(Action::without_group("apps"));
        let fault = stand.proxy.fault(groups);
        let found = stand.client.list_api_groups().await.unwrap().groups;
        let names: Vec<_> = found.iter().map(|group| group.name.as_str()).collect();
        assert!(!names.contains(&"apps") && names.contains(&"batch"), "{names:?}");
        let aggregated = Discovery::new(stand.client.clone()).run_aggregated().await.unwrap();
        assert!(!aggregated.has_group("apps") && aggregated.has_group("batch"));
        fault.remove();
        let found = stand.client.list_api_groups().await.unwrap().groups;
        assert!(found.iter().any(|group| group.name == "apps"));
    });
}

#[test]
fn an_answer_is_made_of_the_request_or_never_ends() {
    run(async {
        let stand = Stand::new("made").await;
        let made = stand.fault(Action::answer(|record| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("not-{}", record.name())}})
        }));
        assert_eq!(stand.configs.get("c").await.unwrap().metadata.name.unwrap(), "not-c");
        let record = stand.proxy.requests().last().unwrap().clone();
        assert_eq!((record.outcome, record.forwarded), (Outcome::Made(200), false));
        made.remove();

        let endless = stand.fault(Action::Endless("{\"a\": \"".to_owned()));
        let request =
            hyper::Request::get("/api/v1/namespaces/made/configmaps").body(Vec::new().into()).unwrap();
        let mut body = stand.client.send(request).await.unwrap().into_body().into_data_stream();
        let mut read = Vec::new();
        while read.len() < 1 << 20 {
            read.extend_from_slice(&timeout(SOON, body.next()).await.unwrap().unwrap().unwrap());
        }
        assert!(read.starts_with(b"{\"a\": \"xxxx") && !read.contains(&b'\n'));
        assert!(endless.sent() >= 1 << 20, "{}", endless.sent());
        endless.remove();
        let end = async { while body.next().await.is_some_and(|piece| piece.is_ok()) {} };
        timeout(SOON, end).await.expect("it is cut when the rule ends");
    });
}
