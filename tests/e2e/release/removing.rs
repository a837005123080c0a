//! Removing objects and the namespaces that were made for them.

use kantor_testbed::proxy::{Action, Fault, Match, Verb};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::support::{ReleaseFixture, at_home, config_map, home, pods};
use crate::support::{PATIENCE, condition};

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_looked_at_or_deleted_keeps_the_release_until_it_can() {
    let mut fixture = ReleaseFixture::open().await;
    let before = fixture.snapshot().await;
    let secret = at_home("v1/Secret", "secret", json!({"stringData": {"a": "b"}}));
    let resources = [
        ("good", config_map("good", json!({}))),
        // Never made, so only the server can tell that it is not there.
        ("bad", config_map("Not_A_Name", json!({}))),
        ("secret", secret),
    ];
    fixture.create("shop", &resources).await;
    fixture.wait_condition("shop", "Applied", "False", "ApplyRefused").await;
    fixture.plane.wait_exists("v1/Secret", &home(), "secret").await;

    let proxy = &fixture.plane.proxy;
    let answer = |when: Match, code| proxy.fault(Fault::when(when).then(Action::status(code)));
    let list = answer(Match::new().verb(Verb::List).resource("secrets"), 500);
    let get = answer(Match::new().verb(Verb::Get).resource("configmaps").name("Not_A_Name"), 500);
    let delete = answer(Match::new().verb(Verb::Delete).resource("configmaps").name("good"), 403);
    let look = answer(Match::new().verb(Verb::List).resource("limitranges").namespace(home()), 500);
    // So that all is listed anew.
    fixture.control.restart_operator().await;
    fixture.ask_to_delete("shop").await;
    // The last word on the Secrets: before it, they have not been listed yet.
    let all = |message: &str| ["good", "Not_A_Name", "answers 500"].iter().all(|word| message.contains(word));
    let (reason, _) = fixture.finalizing("shop", all).await;
    assert_eq!(reason, "CleanupFailed");

    // It fails again and again, and that is said once.
    let (mark, hits) = (fixture.control.proxy.mark(), delete.hits());
    let said = fixture.until("it says so", "shop", |release| release.status.clone()).await;
    delete.await_hits(hits + 3, PATIENCE).await.unwrap();
    let still = fixture.until("it says so", "shop", |release| release.status.clone()).await;
    assert_eq!(said, still);
    assert_eq!(fixture.statuses_since(mark, "shop"), [] as [Value; 0]);

    // Each trouble that ends leaves the others.
    drop(list);
    fixture.plane.gone("v1/Secret", &home(), "secret").await;
    let (reason, message) = fixture.finalizing("shop", |message| !message.contains("Secret")).await;
    assert!(reason == "CleanupFailed" && message.contains("good"), "{reason}: {message}");
    drop(get);
    let only_good = |message: &str| message.contains("good") && !message.contains("Not_A_Name");
    let (reason, _) = fixture.finalizing("shop", only_good).await;
    assert_eq!(reason, "CleanupFailed");
    drop(delete);
    fixture.plane.gone("v1/ConfigMap", &home(), "good").await;
    // Whether the namespace is empty cannot be told.
    let (reason, message) =
        fixture.finalizing("shop", |message| message.contains(&format!("namespace {}", home()))).await;
    assert!(reason == "CleanupFailed" && message.contains("500"), "{reason}: {message}");
    assert!(fixture.plane.get("v1/Namespace", "", &home()).await.is_some());
    drop(look);
    fixture.until_gone("shop").await;
    fixture.nothing_left(&before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_be_listed_any_more_is_looked_up_and_removed_by_name() {
    let mut fixture = ReleaseFixture::open().await;
    let before = fixture.snapshot().await;
    let secret = |name: &str| at_home("v1/Secret", name, json!({"stringData": {"a": "b"}}));
    fixture.create("shop", &[("one", secret("one")), ("two", secret("two"))]).await;
    fixture.ready("shop").await;
    let lists = Match::new().verb(Verb::List).verb(Verb::Watch).resource("secrets");
    let denied = fixture.plane.proxy.fault(Fault::when(lists).then(Action::status(403)));
    fixture.control.restart_operator().await;
    denied.await_hit(PATIENCE).await.unwrap();

    // Somebody else has made another one of the name since.
    let foreign = json!({"metadata": {"name": "one", "namespace": home()}, "stringData": {"a": "mine"}});
    fixture.plane.api("v1/Secret", &home()).delete("one", &DeleteParams::default()).await.unwrap();
    fixture.plane.gone("v1/Secret", &home(), "one").await;
    fixture.plane.create("v1/Secret", &home(), foreign).await;
    let mark = fixture.plane.proxy.mark();
    fixture.delete("shop").await;
    assert!(fixture.plane.get("v1/Secret", &home(), "two").await.is_none());
    assert!(fixture.plane.get("v1/Secret", &home(), "one").await.is_some());
    let deletions = fixture.plane.proxy.since(mark).verb(Verb::Delete).resource("secrets");
    assert_eq!(deletions.len(), 1, "{deletions}");
    let body = deletions[0].body.json().unwrap();
    assert!(body["preconditions"]["uid"].is_string(), "{body}");
    drop(denied);
    fixture.plane.api("v1/Namespace", "").delete(&home(), &DeleteParams::default()).await.unwrap();
    fixture.nothing_left(&before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_takes_its_pods_along_and_what_others_hold_is_waited_for() {
    let fixture = ReleaseFixture::open().await;
    let before = fixture.snapshot().await;
    let plane = &fixture.plane;
    let mut template = pods("job", "busybox");
    template["spec"]["restartPolicy"] = json!("Never");
    let job = at_home("batch/v1/Job", "job", json!({"spec": {"template": template}}));
    fixture.create("shop", &[("job", job), ("kept", config_map("kept", json!({})))]).await;
    plane.wait_exists("v1/ConfigMap", &home(), "kept").await;
    plane
        .until("the Job has a Pod", ("batch/v1/Job", &home(), "job"), |job| {
            (job?["status"]["active"] == 1).then_some(())
        })
        .await;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    plane.patch("v1/ConfigMap", &home(), "kept", hold).await;

    let mark = plane.proxy.mark();
    fixture.ask_to_delete("shop").await;
    let (reason, message) = fixture.finalizing("shop", |message| message.contains("example.com/hold")).await;
    assert!(reason == "CleanupInProgress" && message.contains("kept"), "{reason}: {message}");
    let job = plane.proxy.writes_since(mark).verb(Verb::Delete).resource("jobs");
    assert_eq!(job.len(), 1, "{job}");
    assert_eq!(job[0].body.json().unwrap()["propagationPolicy"], "Background");

    // It is looked at again, and not deleted again.
    let deletions = || plane.proxy.writes_since(mark).verb(Verb::Delete).name("kept");
    assert_eq!(deletions().len(), 1, "{}", deletions());
    fixture.touch("shop").await;
    let release = fixture.until("it is there", "shop", |release| Some(release.clone())).await;
    assert_eq!(condition(&release, "Finalizing").unwrap().1, "CleanupInProgress");
    assert_eq!(deletions().len(), 1, "{}", deletions());

    plane.patch("v1/ConfigMap", &home(), "kept", json!({"metadata": {"finalizers": null}})).await;
    fixture.until_gone("shop").await;
    // Not a Pod either.
    fixture.nothing_left(&before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_goes_with_the_last_release_unless_somebody_uses_it() {
    let fixture = ReleaseFixture::open().await;
    let before = fixture.snapshot().await;
    let plane = &fixture.plane;
    for name in ["first", "second"] {
        fixture.create(name, &[("it", config_map(name, json!({})))]).await;
        fixture.ready(name).await;
    }

    // Another one uses it.
    fixture.delete("first").await;
    plane.gone("v1/ConfigMap", &home(), "first").await;
    fixture.quiet().await;
    let namespace = plane.get("v1/Namespace", "", &home()).await.unwrap();
    assert_eq!(namespace["status"]["phase"], "Active");
    // It was the last one, although the namespace was not made for it.
    fixture.delete("second").await;
    fixture.nothing_left(&before).await;

    // Both at once.
    for name in ["first", "second"] {
        fixture.create(name, &[("it", config_map(name, json!({})))]).await;
        fixture.ready(name).await;
    }
    tokio::join!(fixture.ask_to_delete("first"), fixture.ask_to_delete("second"));
    tokio::join!(fixture.until_gone("first"), fixture.until_gone("second"));
    fixture.nothing_left(&before).await;
    for name in ["first", "second"] {
        assert_eq!(fixture.events(name, "LeftBehind").await, [] as [&str; 0]);
    }

    // Made while it is going: it is made anew.
    fixture.create("first", &[("it", config_map("first", json!({})))]).await;
    fixture.ready("first").await;
    fixture.delete("first").await;
    fixture.create("second", &[("it", config_map("second", json!({})))]).await;
    fixture.ready("second").await;
    fixture.delete("second").await;
    fixture.nothing_left(&before).await;

    // Somebody else put something there.
    fixture.create("third", &[("it", config_map("third", json!({})))]).await;
    fixture.ready("third").await;
    let mine = json!({"metadata": {"name": "mine", "namespace": home()}});
    plane.create("v1/ConfigMap", &home(), mine).await;
    fixture.delete("third").await;
    let note = fixture.event("third", "LeftBehind").await;
    assert!(note.contains(&home()) && note.contains("ConfigMap mine"), "{note}");
    let namespace = plane.get("v1/Namespace", "", &home()).await.unwrap();
    assert_eq!(namespace["status"]["phase"], "Active");
    assert!(plane.get("v1/ConfigMap", &home(), "mine").await.is_some());
    assert!(plane.get("v1/ConfigMap", &home(), "third").await.is_none());

    // It was there before.
    let theirs = json!({"metadata": {"name": "theirs", "labels": {"organization-name": "acme"}}});
    plane.create("v1/Namespace", "", theirs).await;
    let mut there = config_map("there", json!({}));
    there["metadata"]["namespace"] = json!("theirs");
    fixture.create("fourth", &[("it", there)]).await;
    fixture.ready("fourth").await;
    fixture.delete("fourth").await;
    fixture.quiet().await;
    let namespace = plane.get("v1/Namespace", "", "theirs").await.unwrap();
    assert_eq!(namespace["status"]["phase"], "Active");
}
