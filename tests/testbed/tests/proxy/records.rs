//! What is written down.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt, stream};
use k8s_openapi::api::{
    apps::v1::Deployment,
    authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec},
};
use kantor_testbed::proxy::{Outcome, Proxy, Upstream, Verb};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams},
};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

use crate::stand::{SOON, Stand, cluster, config, run, through};

#[test]
fn every_verb_of_a_client_is_recorded_as_what_it_is() {
    run(async {
        let stand = Stand::new("verbs").await;
        let configs = &stand.configs;
        let deployments: Api<Deployment> = Api::namespaced(stand.client.clone(), "verbs");
        let mark = stand.proxy.mark();
        let created = stand.create("c").await.unwrap();
        let apply = PatchParams::apply("me").force();
        configs.patch("c", &apply, &Patch::Apply(config("c", "2"))).await.unwrap();
        configs.patch("c", &apply, &Patch::Apply(json!({"kind": "Other"}))).await.unwrap_err();
        configs
            .patch("c", &PatchParams::default(), &Patch::Merge(json!({"data": {"a": "b"}})))
            .await
            .unwrap();
        configs.replace("c", &PostParams::default(), &config("c", "3")).await.unwrap();
        configs.get("c").await.unwrap();
        configs.list(&ListParams::default()).await.unwrap();
        let version = created.resource_version().unwrap();
        let mut watch = configs.watch(&WatchParams::default(), &version).await.unwrap().boxed();
        watch.next().await.unwrap().unwrap();
        deployments.create(&PostParams::default(), &deployment("d")).await.unwrap();
        let status = json!({"status": {"replicas": 1}});
        deployments.patch_status("d", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        deployments.get_scale("d").await.unwrap();
        configs.delete("c", &DeleteParams::default()).await.unwrap();
        configs.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
        stand.client.apiserver_version().await.unwrap();

        let records = stand.proxy.since(mark);
        let text: Vec<String> = records.iter().map(|r| format!("{} {}", r.target, r.outcome)).collect();
        assert_eq!(
            text,
            [
                "create configmaps verbs/c 201",
                "apply configmaps verbs/c 200",
                "apply configmaps verbs/c 400",
                "patch configmaps verbs/c 200",
                "update configmaps verbs/c 200",
                "get configmaps verbs/c 200",
                "list configmaps verbs/ 200",
                "watch configmaps verbs/ 200, open",
                "create deployments.apps verbs/d 201",
                "patch deployments/status.apps verbs/d 200",
                "get deployments/scale.apps verbs/d 200",
                "delete configmaps verbs/c 200",
                "deletecollection configmaps verbs/ 200",
                "get /version 200",
            ],
            "{records}"
        );
        assert!(records[7].is_open_watch());
        drop(watch);
        let closed = stand.proxy.await_request(|r| r.outcome == Outcome::Closed(200), SOON).await.unwrap();
        assert_eq!(closed.seq, records[7].seq);
        let writes = stand.proxy.writes_since(mark);
        assert_eq!(writes.len(), 9, "{writes}");
        assert_eq!(writes.clone().resource("deployments").len(), 1);
        assert_eq!(writes.clone().resource("deployments/*").name("d").len(), 2);
        assert_eq!(writes.verb(Verb::Apply).without("configmaps").len(), 0);
    });
}

#[test]
fn a_write_is_recorded_with_manager_agent_and_body() {
    run(async {
        let stand = Stand::new("bodies").await;
        let params = PostParams { dry_run: true, field_manager: Some("me".to_owned()) };
        stand.configs.create(&params, &config("dry", "secret-value")).await.unwrap();
        stand.create("wet").await.unwrap();
        let records = stand.proxy.requests();
        let (dry, wet) = (&records[0], &records[1]);
        assert_eq!(dry.to_string(), "#0 create configmaps bodies/dry by me (dry run) → 201");
        assert!(dry.body.contains("secret-value") && !dry.body.contains("other-value"));
        assert_eq!(dry.body.json().unwrap()["data"]["key"], "secret-value");
        assert!(!dry.body.truncated && dry.forwarded && dry.committed());
        assert_eq!((dry.is_write(), wet.is_write()), (false, true));
        assert_eq!((wet.name(), wet.namespace(), wet.resource()), ("wet", "bodies", "configmaps"));
        assert_eq!(wet.user_agent.as_deref(), Some("proxy-test/1"));
    });
}

#[test]
fn an_unexpected_write_fails_the_assertion_and_is_named() {
    run(async {
        let stand = Stand::new("no-writes").await;
        let mark = stand.proxy.mark();
        stand.configs.list(&ListParams::default()).await.unwrap();
        let spec = SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                verb: Some("get".to_owned()),
                ..Default::default()
            }),
            ..Default::default()
        };
        let question = SelfSubjectAccessReview { spec, ..Default::default() };
        Api::all(stand.client.clone()).create(&PostParams::default(), &question).await.unwrap();
        stand.proxy.assert_no_writes_since(mark);
        stand.create("c").await.unwrap();
        let failure =
            catch_unwind(AssertUnwindSafe(|| stand.proxy.assert_no_writes_since(mark))).unwrap_err();
        let text = failure.downcast_ref::<String>().unwrap();
        assert!(text.contains("there were 1:\n  #2 create configmaps no-writes/c → 201"), "{text}");
        stand.proxy.assert_no_writes_since(stand.proxy.mark());
        let all = catch_unwind(AssertUnwindSafe(|| stand.proxy.assert_no_requests_since(mark))).unwrap_err();
        assert!(all.downcast_ref::<String>().unwrap().contains("there were 3"));
        stand.proxy.assert_no_requests_since(stand.proxy.mark());
    });
}

#[test]
fn waiting_for_a_request_sees_it_arrive_or_says_what_came_instead() {
    run(async {
        let stand = Stand::new("waiting").await;
        let wanted = |r: &kantor_testbed::proxy::Record| r.name() == "c" && r.code() == Some(201);
        let (found, created) = tokio::join!(stand.proxy.await_request(wanted, SOON), stand.create("c"));
        created.unwrap();
        assert_eq!(found.unwrap().verb(), Verb::Create);
        let mark = stand.proxy.mark();
        let missing =
            stand.proxy.await_request_since(mark, wanted, Duration::from_millis(50)).await.unwrap_err();
        assert!(missing.to_string().contains("(no requests)"), "{missing}");
        let missing =
            stand.proxy.await_request(|r| r.name() == "x", Duration::from_millis(50)).await.unwrap_err();
        assert!(missing.to_string().contains("#0 create configmaps waiting/c → 201"), "{missing}");
        stand.proxy.await_quiet(Duration::from_millis(20), SOON).await.unwrap();
    });
}

#[test]
fn quiet_is_not_reached_while_requests_come() {
    run(async {
        let stand = Stand::new("quiet").await;
        let busy = async {
            loop {
                stand.configs.list(&ListParams::default()).await.unwrap();
            }
        };
        // Longer than a busy machine stands still.
        let waiting = stand.proxy.await_quiet(SOON, SOON + Duration::from_millis(500));
        let result: anyhow::Result<()> =
            tokio::select! { () = busy => unreachable!(), result = waiting => result };
        assert!(result.unwrap_err().to_string().contains("not quiet"));
    });
}

#[test]
fn what_is_forgotten_is_gone_and_numbers_go_on() {
    run(async {
        let stand = Stand::new("forgetting").await;
        stand.create("a").await.unwrap();
        stand.proxy.forget_before(stand.proxy.mark());
        assert!(stand.proxy.requests().is_empty());
        stand.create("b").await.unwrap();
        assert_eq!(stand.proxy.requests().to_string(), "  #1 create configmaps forgetting/b → 201");
    });
}

#[test]
fn many_requests_share_few_connections_to_the_server() {
    run(async {
        let cluster = cluster().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = connections.clone();
        let server = cluster.url().strip_prefix("https://").unwrap();
        let relay = tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::Relaxed);
                let mut server = TcpStream::connect(server).await.unwrap();
                tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client, &mut server).await });
            }
        });
        let upstream = Upstream { url: format!("https://127.0.0.1:{port}"), ..Upstream::from(cluster) };
        let proxy = Proxy::start(upstream).unwrap();
        let client = through(&proxy, &cluster.kubeconfig()).await;
        stream::iter(0..200)
            .for_each_concurrent(4, |_| async { drop(client.apiserver_version().await.unwrap()) })
            .await;
        assert_eq!(proxy.requests().len(), 200);
        let opened = connections.load(Ordering::Relaxed);
        assert!(opened <= 10, "{opened} connections for 200 requests, 4 at a time");
        relay.abort();
    });
}

fn deployment(name: &str) -> Deployment {
    let labels = json!({"app": name});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let object = json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template}});
    serde_json::from_value(object).unwrap()
}
