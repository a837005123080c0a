use std::collections::{BTreeMap, BTreeSet};

use http::{Request, Response};
use kantor_core::{changes, hierarchy::Kind};
use tower::{Layer, ServiceExt, service_fn};

use super::*;

/// Metrics of which each has a sample.
async fn all_touched() -> Metrics {
    let metrics = Metrics::default();
    metrics.leads(true);
    metrics.reconciled("organization", Outcome::Success, Duration::from_millis(3));
    metrics.waited("organization", Duration::from_millis(3));
    metrics.watch_restarted("projects.openchoreo.dev");
    metrics.count_with(|| {
        let mut standing = Standing::default();
        standing.count(Some("True"));
        Census {
            objects: vec![(Kind::Project, standing)],
            claims_held: 2,
            claims_waiting: 1,
            watches: vec![("projects.openchoreo.dev".to_owned(), true)],
        }
    });
    let plane = metrics.add_plane("acme/eu".to_owned());
    plane.connected(true);
    plane.contacted(Some(jiff::Timestamp::UNIX_EPOCH));
    plane.disconnected("Unreachable");
    plane.probed(Duration::from_millis(3));
    plane.credentials_expire(Some(1_900_000_000));
    plane.watch_restarted();
    metrics.deployed("apply", "success", "acme/eu", Duration::from_millis(3));
    for calls in [metrics.control_plane_calls(), plane.calls.layer()] {
        let ok = service_fn(|_: Request<()>| std::future::ready(Ok::<_, std::io::Error>(Response::new(()))));
        calls.layer(ok).oneshot(Request::get("/api/v1/pods").body(()).unwrap()).await.unwrap();
    }
    metrics
}

/// Names and label sets of all samples.
fn scraped(text: &str) -> BTreeMap<String, BTreeSet<Vec<String>>> {
    let mut found: BTreeMap<String, BTreeSet<Vec<String>>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let series = line.rsplit_once(' ').unwrap().0;
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels = labels.trim_end_matches('}').split("\",").filter(|label| !label.is_empty());
        let labels =
            labels.map(|label| label.split_once('=').unwrap().0.to_owned()).filter(|label| label != "le");
        found.entry(name.to_owned()).or_default().insert(labels.collect());
    }
    found
}

#[tokio::test]
async fn what_is_scraped_is_what_the_table_declares() {
    let text = all_touched().await.encode().unwrap();
    let mut found = scraped(&text);
    for entry in table::all() {
        let labels: Vec<String> = entry.labels.iter().map(|(label, _)| (*label).to_owned()).collect();
        for series in entry.series() {
            assert_eq!(found.remove(&series), Some(BTreeSet::from([labels.clone()])), "{series}\n{text}");
        }
        let kind = format!("# TYPE {} {}\n", entry.family(), entry.kind.as_str());
        assert!(text.contains(&kind), "{kind}\n{text}");
    }
    assert_eq!(found.into_keys().collect::<Vec<_>>(), Vec::<String>::new(), "not in the table");
}

#[test]
fn reconciles_are_counted_by_controller_and_result() {
    let metrics = Metrics::default();
    metrics.controller_starts("organization");
    metrics.reconciled("organization", Outcome::Success, Duration::from_millis(3));
    metrics.reconciled("organization", Outcome::Success, Duration::from_millis(3));
    metrics.reconciled("organization", Outcome::Error, Duration::from_millis(3));
    let text = metrics.encode().unwrap();
    for line in [
        r#"kantor_reconciles_total{controller="organization",result="success"} 2"#,
        r#"kantor_reconciles_total{controller="organization",result="error"} 1"#,
        r#"kantor_reconciles_total{controller="organization",result="conflict"} 0"#,
        r#"kantor_reconcile_duration_seconds_count{controller="organization"} 3"#,
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn objects_are_counted_by_kind_and_readiness() {
    let metrics = Metrics::default();
    assert!(
        !metrics.encode().unwrap().contains("kantor_objects"),
        "an operator that stands by knows of none"
    );
    metrics.count_with(|| {
        let mut standing = Standing::default();
        for status in [Some("True"), Some("True"), Some("False"), Some("Unknown"), None] {
            standing.count(status);
        }
        Census { objects: vec![(Kind::Release, standing)], ..Census::default() }
    });
    let text = metrics.encode().unwrap();
    for (ready, count) in [("true", 2), ("false", 1), ("unknown", 1), ("none", 1)] {
        let line = format!("kantor_objects{{kind=\"Release\",ready=\"{ready}\"}} {count}\n");
        assert!(text.contains(&line), "{line}\n{text}");
    }
}

#[test]
fn a_forgotten_plane_takes_its_series_along_and_late_counts_do_not_bring_them_back() {
    let metrics = Metrics::default();
    let plane = metrics.add_plane("acme/eu".to_owned());
    metrics.add_plane("acme/us".to_owned());
    plane.applied(&changes::Outcome::Created);
    plane.connected(true);
    let text = metrics.encode().unwrap();
    assert!(
        text.contains(r#"kantor_applied_objects_total{data_plane="acme/eu",result="created"} 1"#),
        "{text}"
    );
    assert!(text.contains(r#"kantor_plane_connected{data_plane="acme/us"} 0"#), "{text}");

    metrics.forget_plane("acme/eu");
    plane.applied(&changes::Outcome::Created);
    plane.disconnected("Unreachable");
    metrics.deployed("remove", "success", "acme/eu", Duration::ZERO);
    let text = metrics.encode().unwrap();
    assert!(!text.contains("acme/eu") && text.contains("acme/us"), "{text}");
}
