//! What can be done to the events of a watch.

use std::time::{Duration, Instant};

use futures::{Stream, StreamExt, stream::BoxStream};
use k8s_openapi::api::core::v1::ConfigMap;
use kantor_testbed::proxy::{Action, Fault, Outcome};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams},
};
use tokio::time::timeout;

use crate::stand::{SOON, Stand, config, run, through};

type Events = BoxStream<'static, kube::Result<WatchEvent<ConfigMap>>>;

#[test]
fn hidden_events_are_those_of_one_object_while_others_flow() {
    run(async {
        let stand = Stand::new("hide").await;
        let mut events = open(&stand).await;
        let fault = stand.fault(Action::hide_events_of("hidden"));
        for name in ["first", "hidden", "last"] {
            write(&stand, name).await;
        }
        assert_eq!(next(&mut events).await, "ADDED first");
        assert_eq!(next(&mut events).await, "ADDED last");
        assert_eq!(fault.hits(), 1);
        fault.remove();
        stand.direct.delete("hidden", &DeleteParams::default()).await.unwrap();
        assert_eq!(next(&mut events).await, "DELETED hidden");
    });
}

#[test]
fn hidden_events_are_chosen_by_kind_and_count_on_new_watches_too() {
    run(async {
        let stand = Stand::new("hide-kind").await;
        let rule = Fault::when(stand.configs_match().nth(2))
            .then(Action::hide_events(|event| event.kind == "ADDED"));
        let fault = stand.proxy.fault(rule);
        let mut events = open(&stand).await;
        for name in ["a", "b", "c"] {
            write(&stand, name).await;
        }
        stand.direct.delete("a", &DeleteParams::default()).await.unwrap();
        let mut seen = Vec::new();
        for _ in 0..3 {
            seen.push(next(&mut events).await);
        }
        assert_eq!(seen, ["ADDED a", "ADDED c", "DELETED a"]);
        assert_eq!(fault.hits(), 1);
    });
}

#[test]
fn delayed_events_come_later_in_their_order() {
    run(async {
        let stand = Stand::new("delay-events").await;
        let delay = Duration::from_millis(400);
        let fault =
            stand.proxy.fault(Fault::when(stand.configs_match().nth(1)).then(Action::DelayEvents(delay)));
        let mut events = open(&stand).await;
        let start = Instant::now();
        write(&stand, "a").await;
        write(&stand, "b").await;
        assert_eq!(next(&mut events).await, "ADDED a");
        assert!(start.elapsed() >= delay);
        assert_eq!(next(&mut events).await, "ADDED b");
        fault.remove();
        let fault = stand.fault(Action::DelayEvents(SOON * 10));
        write(&stand, "c").await;
        fault.await_hit(SOON).await.unwrap();
        fault.remove();
        assert_eq!(next(&mut events).await, "ADDED c");
    });
}

#[test]
fn cut_watches_end_and_new_ones_open() {
    run(async {
        let stand = Stand::new("cut-watch").await;
        let (mut first, mut second) = (open(&stand).await, open(&stand).await);
        let fault = stand.fault(Action::CutWatch);
        assert!(ended(&mut first).await && ended(&mut second).await);
        assert_eq!(fault.hits(), 2);
        let closed = stand.proxy.requests().filter(|r| r.outcome == Outcome::Closed(200));
        assert_eq!(closed.len(), 2, "{closed}");
        let mut third = open(&stand).await;
        write(&stand, "a").await;
        assert_eq!(next(&mut third).await, "ADDED a");
        let slow = stand.fault(Action::DelayEvents(SOON * 10));
        write(&stand, "b").await;
        slow.await_hit(SOON).await.unwrap();
        let cut = stand.fault(Action::CutWatch);
        assert!(ended(&mut third).await, "a watch whose events are held back is cut too");
        cut.await_hit(SOON).await.unwrap();
    });
}

#[test]
fn an_expired_watch_says_410_and_ends() {
    run(async {
        let stand = Stand::new("expire-watch").await;
        let mut events = open(&stand).await;
        let other = Fault::when(stand.configs_match().namespace("other")).then(Action::ExpireWatch);
        assert_eq!(stand.proxy.fault(other).may_miss().hits(), 0);
        let _expired = stand.fault(Action::ExpireWatch);
        let event = timeout(SOON, events.next()).await.unwrap().unwrap().unwrap();
        let WatchEvent::Error(status) = event else { panic!("{event:?}") };
        assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
        assert!(ended(&mut events).await);
    });
}

#[test]
fn a_watch_that_is_refused_is_no_open_watch() {
    run(async {
        let stand = Stand::new("no-watch").await;
        let stranger = stand.cluster.client_certificate_kubeconfig("stranger", &[]).unwrap();
        let theirs: Api<ConfigMap> =
            Api::namespaced(through(&stand.proxy, &stranger).await, &stand.namespace);
        let by_server =
            theirs.watch(&WatchParams::default(), "1").await.unwrap().boxed().next().await.unwrap();
        let fault = stand.fault(Action::status(410));
        let ours = &stand.configs;
        let by_rule = ours.watch(&WatchParams::default(), "1").await.unwrap().boxed().next().await.unwrap();
        fault.remove();
        for (first, code) in [(by_server, 403), (by_rule, 410)] {
            assert!(matches!(&first, Err(kube::Error::Api(status)) if status.code == code), "{first:?}");
        }
        let records = stand.proxy.requests();
        assert_eq!(records[0].outcome, Outcome::Answered(403));
        assert_eq!(records[1].outcome, Outcome::Made(410));
    });
}

#[test]
fn large_events_are_hidden_or_arrive_whole() {
    run(async {
        let stand = Stand::new("large").await;
        let fault = stand.fault(Action::hide_events_of("c7"));
        let mut events = open(&stand).await;
        let value = "ü".repeat(100_000);
        for number in 0..20 {
            let object = config(&format!("c{number}"), &value);
            stand.direct.create(&PostParams::default(), &object).await.unwrap();
        }
        for number in (0..20).filter(|number| *number != 7) {
            let event = timeout(SOON, events.next()).await.unwrap().unwrap().unwrap();
            let WatchEvent::Added(object) = event else { panic!("{event:?}") };
            assert_eq!(object.name_any(), format!("c{number}"));
            assert_eq!(object.data.unwrap()["key"], value);
        }
        assert_eq!(fault.hits(), 1);
    });
}

/// Opens a watch from now on and waits until the proxy has it.
async fn open(stand: &Stand) -> Events {
    let mark = stand.proxy.mark();
    let version = stand.direct.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let events = stand.configs.watch(&WatchParams::default(), &version).await.unwrap().boxed();
    stand.proxy.await_request_since(mark, kantor_testbed::proxy::Record::is_open_watch, SOON).await.unwrap();
    events
}

/// Creates a ConfigMap behind the proxy's back.
async fn write(stand: &Stand, name: &str) {
    stand.direct.create(&PostParams::default(), &config(name, "1")).await.unwrap();
}

async fn next(events: &mut Events) -> String {
    match timeout(SOON, events.next()).await.unwrap().unwrap().unwrap() {
        WatchEvent::Added(object) => format!("ADDED {}", object.name_any()),
        WatchEvent::Modified(object) => format!("MODIFIED {}", object.name_any()),
        WatchEvent::Deleted(object) => format!("DELETED {}", object.name_any()),
        other => format!("{other:?}"),
    }
}

async fn ended(events: &mut (impl Stream + Unpin)) -> bool {
    timeout(SOON, events.next()).await.unwrap().is_none()
}
