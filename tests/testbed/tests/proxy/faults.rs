//! Each way to break a request.

use std::time::{Duration, Instant};

use kantor_testbed::proxy::{Action, Fault, Match, Outcome, Proxy, StatusReply, Upstream, Verb};
use kube::{Error, api::ListParams};
use tokio::time::timeout;

use crate::stand::{SOON, Stand, causes, cluster, run, through};

/// Long enough to tell "no answer" from "slow answer" on a busy machine.
const NO_ANSWER: Duration = Duration::from_millis(300);

#[test]
fn a_delayed_request_is_answered_that_much_later() {
    run(async {
        let stand = Stand::new("delay").await;
        let fault = stand.fault(Action::Delay(NO_ANSWER));
        let start = Instant::now();
        stand.create("c").await.unwrap();
        assert!(start.elapsed() >= NO_ANSWER);
        assert_eq!(fault.hits(), 1);
        let long = stand.fault(Action::Delay(SOON * 10));
        let created = stand.create("d");
        tokio::pin!(created);
        tokio::select! { _ = &mut created => panic!("not delayed"), hit = long.await_hit(SOON) => hit.unwrap() }
        long.remove();
        created.await.unwrap();
    });
}

#[test]
fn a_hung_request_is_never_answered_nor_forwarded() {
    run(async {
        let stand = Stand::new("hang").await;
        let fault = stand.fault(Action::Hang);
        {
            let created = stand.create("c");
            tokio::pin!(created);
            tokio::select! { _ = &mut created => panic!("answered"), hit = fault.await_hit(SOON) => hit.unwrap() };
            timeout(NO_ANSWER, created).await.unwrap_err();
        }
        let record = stand.proxy.await_request(|r| r.outcome == Outcome::ClientGone, SOON).await.unwrap();
        assert!(!record.forwarded);
        assert!(!stand.has("c").await);
        let (created, ()) = tokio::join!(stand.create("d"), async {
            fault.await_hits(2, SOON).await.unwrap();
            assert_eq!(stand.proxy.requests().last().unwrap().outcome, Outcome::Hung);
            fault.remove();
        });
        assert_reset(&created.unwrap_err());
        assert!(!stand.has("d").await);
        stand.create("e").await.unwrap();
    });
}

#[test]
fn a_reset_request_is_cut_without_asking_the_server() {
    run(async {
        let stand = Stand::new("reset").await;
        let fault = stand.fault(Action::Reset);
        assert_reset(&stand.create("c").await.unwrap_err());
        let record = stand.proxy.requests()[0].clone();
        assert_eq!((record.outcome, record.forwarded), (Outcome::Reset, false));
        assert!(!stand.has("c").await);
        fault.remove();
        stand.create("c").await.unwrap();
    });
}

#[test]
fn a_refusing_proxy_cuts_old_connections_and_resets_new_ones() {
    run(async {
        let stand = Stand::new("refuse").await;
        let held = stand.fault(Action::HoldBefore);
        let (created, ()) = tokio::join!(stand.create("c"), async {
            held.await_hit(SOON).await.unwrap();
            stand.proxy.refuse(true);
        });
        assert_reset(&created.unwrap_err());
        held.remove();
        stand.proxy.await_request(|r| r.name() == "c" && r.outcome == Outcome::Reset, SOON).await.unwrap();
        let mark = stand.proxy.mark();
        assert_reset(&stand.create("c").await.unwrap_err());
        stand.proxy.assert_no_requests_since(mark);
        stand.proxy.refuse(false);
        stand.create("c").await.unwrap();
    });
}

#[test]
fn a_refusing_rule_starts_with_its_request_and_ends_with_its_handle() {
    run(async {
        let stand = Stand::new("refuse-rule").await;
        let rule = Fault::when(stand.configs_match().verb(Verb::Create)).then(Action::Refuse);
        let fault = stand.proxy.fault(rule);
        stand.configs.list(&ListParams::default()).await.unwrap();
        assert_reset(&stand.create("c").await.unwrap_err());
        fault.await_hit(SOON).await.unwrap();
        assert_reset(&stand.configs.list(&ListParams::default()).await.unwrap_err());
        fault.remove();
        stand.create("c").await.unwrap();
    });
}

#[test]
fn cutting_connections_once_leaves_new_ones_alone() {
    run(async {
        let stand = Stand::new("cut-once").await;
        let hung = stand.fault(Action::Hang);
        let (created, ()) = tokio::join!(stand.create("c"), async {
            hung.await_hit(SOON).await.unwrap();
            stand.proxy.cut_connections();
        });
        assert_reset(&created.unwrap_err());
        hung.remove();
        stand.create("c").await.unwrap();
    });
}

#[test]
fn a_cut_body_ends_in_the_middle() {
    run(async {
        let stand = Stand::new("cut-body").await;
        stand.create("c").await.unwrap();
        let fault = stand.fault(Action::CutBody);
        let error = stand.configs.get("c").await.unwrap_err();
        let text = causes(&error);
        assert!(
            matches!(error, Error::ReadEvents(_) | Error::HyperError(_) | Error::Service(_)),
            "{error:?}"
        );
        assert!(!text.contains("refused"), "{text}");
        assert_eq!(fault.hits(), 1);
        assert_eq!(stand.proxy.requests().last().unwrap().outcome, Outcome::BodyCut(200));
        fault.remove();
        stand.configs.get("c").await.unwrap();
    });
}

#[test]
fn a_made_status_is_one_that_clients_understand() {
    run(async {
        let stand = Stand::new("status").await;
        let fault = stand.fault(Action::too_many_requests(7));
        let Error::Api(status) = stand.configs.get("c").await.unwrap_err() else { panic!("no status") };
        assert_eq!((status.code, status.reason.as_str()), (429, "TooManyRequests"));
        let details = status.details.unwrap();
        assert_eq!((details.retry_after_seconds, details.name.as_str()), (7, "c"));
        assert_eq!(details.kind, "configmaps");
        let request =
            hyper::Request::get("/api/v1/namespaces/status/configmaps/c").body(Vec::new().into()).unwrap();
        let response = stand.client.send(request).await.unwrap();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["retry-after"]),
            (429, &"7".parse().unwrap())
        );
        fault.remove();
        let reply = StatusReply::new(409).reason("AlreadyExists").message("it is there");
        let fault = stand.fault(Action::Status(reply));
        let Error::Api(status) = stand.create("c").await.unwrap_err() else { panic!("no status") };
        assert_eq!(
            (status.code, status.reason.as_str(), status.message.as_str()),
            (409, "AlreadyExists", "it is there")
        );
        let record = stand.proxy.requests().last().unwrap().clone();
        assert_eq!((record.outcome, record.forwarded), (Outcome::Made(409), false));
        assert!(!stand.has("c").await);
        fault.remove();
    });
}

#[test]
fn a_lost_reply_was_committed() {
    run(async {
        let stand = Stand::new("lose-reply").await;
        let fault = stand.fault(Action::LoseReply);
        assert_reset(&stand.create("c").await.unwrap_err());
        assert_eq!(fault.hits(), 1);
        let record = stand.proxy.requests()[0].clone();
        assert_eq!(record.outcome, Outcome::ReplyLost(201));
        assert!(record.committed() && record.code().is_none());
        assert!(stand.has("c").await);
    });
}

#[test]
fn a_rule_chooses_by_count() {
    run(async {
        let stand = Stand::new("counts").await;
        let outcomes = |rule: Match| {
            let fault = stand.proxy.fault(Fault::when(rule).then(Action::status(503)));
            let stand = &stand;
            async move {
                let mut failed = Vec::new();
                for number in 1..=4 {
                    if stand.configs.list(&ListParams::default()).await.is_err() {
                        failed.push(number);
                    }
                }
                assert_eq!(fault.hits(), failed.len() as u64);
                failed
            }
        };
        let lists = || stand.configs_match().verb(Verb::List);
        assert_eq!(outcomes(lists()).await, [1, 2, 3, 4]);
        assert_eq!(outcomes(lists().nth(2)).await, [2]);
        assert_eq!(outcomes(lists().from(3)).await, [3, 4]);
        assert_eq!(outcomes(lists().times(2)).await, [1, 2]);
        assert_eq!(outcomes(lists().nth(2).always()).await, [1, 2, 3, 4]);
        assert_eq!(outcomes(lists()).await, [1, 2, 3, 4]);
    });
}

#[test]
fn a_rule_chooses_by_what_is_asked() {
    run(async {
        let stand = Stand::new("matching").await;
        stand.create("c").await.unwrap();
        for (rule, breaks) in [
            (Match::new(), true),
            (Match::new().verb(Verb::Get), true),
            (Match::new().verb(Verb::List).verb(Verb::Get), true),
            (Match::new().verb(Verb::List), false),
            (Match::new().resource("configmaps"), true),
            (Match::new().resource("secrets"), false),
            (Match::new().resource("configmaps/status"), false),
            (Match::new().without("configmaps"), false),
            (Match::new().without("leases").without("events"), true),
            (Match::new().group(""), true),
            (Match::new().group("apps"), false),
            (Match::new().namespace("matching"), true),
            (Match::new().namespace("other"), false),
            (Match::new().name("c"), true),
            (Match::new().name("d"), false),
            (Match::new().path("/api/v1/namespaces/matching/configmaps/c"), true),
            (Match::new().path("/readyz"), false),
            (Match::new().field_manager("me"), false),
            (Match::new().writes(), false),
            (Match::new().that(|r| r.user_agent.is_some()), true),
            (Match::new().that(|r| r.seq > 1_000_000), false),
        ] {
            let fault = stand.proxy.fault(Fault::when(rule).then(Action::status(500))).may_miss();
            assert_eq!(stand.configs.get("c").await.is_err(), breaks, "{}", stand.proxy.requests());
            assert_eq!(fault.hits(), u64::from(breaks));
        }
        stand.configs.get("c").await.unwrap();
    });
}

#[test]
fn several_rules_act_on_one_request_in_turn() {
    run(async {
        let stand = Stand::new("several").await;
        let delay = stand.fault(Action::Delay(Duration::from_millis(10)));
        let first = stand.fault(Action::status(500));
        let second = stand.fault(Action::status(503)).may_miss();
        let Error::Api(status) = stand.create("c").await.unwrap_err() else { panic!("no status") };
        assert_eq!((status.code, delay.hits(), first.hits(), second.hits()), (500, 1, 1, 0));
    });
}

#[test]
fn a_server_that_is_gone_shows_as_a_cut_connection() {
    run(async {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let cluster = cluster().await;
        let gone = Upstream { url: format!("https://127.0.0.1:{port}"), ..Upstream::from(cluster) };
        let proxy = Proxy::start(gone).unwrap();
        let client = through(&proxy, &cluster.kubeconfig()).await;
        assert_reset(&client.apiserver_version().await.unwrap_err());
        let outcome = proxy.requests()[0].outcome.clone();
        assert!(matches!(&outcome, Outcome::ServerGone(why) if why.contains("refused")), "{outcome}");
    });
}

#[test]
fn waiting_for_a_hit_that_never_comes_says_so() {
    run(async {
        let stand = Stand::new("no-hit").await;
        let fault =
            stand.proxy.fault(Fault::when(stand.configs_match().nth(5)).then(Action::Hang)).may_miss();
        stand.create("c").await.unwrap();
        let error = fault.await_hit(Duration::from_millis(20)).await.unwrap_err();
        assert!(error.to_string().contains("the rule matched 1 times"), "{error}");
    });
}

/// Fails unless the connection was reset, as opposed to closed in order.
fn assert_reset(error: &Error) {
    let text = causes(error);
    assert!(text.contains("reset"), "{text}");
}
