//! The dashboard and the alert rules: what they name exists, and Prometheus accepts it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use kantor::telemetry::metrics::table::{self, Entry};
use serde::Deserialize;
use serde_json::Value;

/// Labels that a scrape adds to whatever it finds.
const OF_THE_SCRAPE: &[&str] = &["namespace", "job", "instance"];

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(file(path)).unwrap()
}

#[derive(Deserialize)]
struct Rules {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    rules: Vec<Alert>,
}

#[derive(Deserialize)]
struct Alert {
    #[serde(rename = "alert")]
    name: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

fn alerts() -> Vec<Alert> {
    let rules: Rules = serde_saphyr::from_str(&read("config/monitoring/rules.yaml")).unwrap();
    rules.groups.into_iter().flat_map(|group| group.rules).collect()
}

/// A query of the dashboard, with what its legend names.
struct Query {
    expression: String,
    legend: String,
}

fn dashboard() -> Value {
    serde_json::from_str(&read("config/monitoring/dashboard.json")).unwrap()
}

/// The panels that draw something.
fn panels(dashboard: &Value) -> Vec<&Value> {
    let panels = dashboard["panels"].as_array().unwrap();
    panels.iter().filter(|panel| panel["type"] != "row").collect()
}

fn queries() -> Vec<Query> {
    let dashboard = dashboard();
    let targets = panels(&dashboard).into_iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    targets
        .map(|target| Query {
            expression: target["expr"].as_str().unwrap().replace("$__rate_interval", "5m"),
            legend: target["legendFormat"].as_str().unwrap().to_owned(),
        })
        .collect()
}

/// A metric, and the labels that an expression names for it.
#[derive(Deserialize)]
struct Selection {
    metric: String,
    labels: Vec<String>,
}

#[derive(Deserialize)]
struct Report {
    rules: BTreeMap<String, Vec<Selection>>,
    expressions: Vec<Vec<Selection>>,
}

/// Has Prometheus' own code read the rules and the queries.
fn checked(queries: &[Query]) -> Report {
    let program = kantor_testbed::assets::rules_checker().unwrap();
    let mut child = Command::new(program)
        .arg(file("config/monitoring/rules.yaml"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let expressions: Vec<&str> = queries.iter().map(|query| query.expression.as_str()).collect();
    child.stdin.take().unwrap().write_all(&serde_json::to_vec(&expressions).unwrap()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The metric that a series is part of.
fn entry(series: &str) -> Option<&'static Entry> {
    table::all().find(|entry| entry.series().iter().any(|name| name == series))
}

/// What is wrong with a selection.
fn problems(selection: &Selection) -> Vec<String> {
    let Some(entry) = entry(&selection.metric) else {
        return vec![format!("there is no metric {}", selection.metric)];
    };
    let is_bucket = selection.metric.ends_with("_bucket");
    let known = |label: &str| {
        entry.labels.iter().any(|(known, _)| *known == label)
            || OF_THE_SCRAPE.contains(&label)
            || (is_bucket && label == "le")
    };
    let unknown = selection.labels.iter().filter(|label| !known(label));
    unknown.map(|label| format!("{} has no label {label}", selection.metric)).collect()
}

/// The labels that a text takes from its series: those after `before`, up to the end of the word.
fn taken<'a>(text: &'a str, before: &str) -> Vec<&'a str> {
    let mut parts = text.split(before);
    parts.next();
    parts
        .map(|rest| {
            let rest = rest.trim_start();
            &rest[..rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())]
        })
        .collect()
}

fn selects(selections: &[Selection], label: &str) -> bool {
    OF_THE_SCRAPE.contains(&label)
        || selections.iter().any(|selection| selection.labels.iter().any(|known| known == label))
}

#[test]
fn prometheus_accepts_all_rules_and_queries_and_what_they_name_exists() {
    let queries = queries();
    let report = checked(&queries);
    let mut wrong: Vec<String> =
        report.rules.values().chain(&report.expressions).flatten().flat_map(problems).collect();
    for (query, selections) in queries.iter().zip(&report.expressions) {
        let missing = taken(&query.legend, "{{").into_iter().filter(|label| !selects(selections, label));
        wrong.extend(missing.map(|label| format!("the legend of {} names {label}", query.expression)));
    }
    for alert in alerts() {
        let selections = &report.rules[&alert.name];
        let texts = alert.annotations.values().flat_map(|text| taken(text, "$labels."));
        let missing = texts.filter(|label| !selects(selections, label));
        wrong.extend(missing.map(|label| format!("{} names {label}", alert.name)));
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn each_metric_is_on_the_dashboard() {
    let drawn: BTreeSet<&str> = {
        let report = checked(&queries());
        let metrics = report.expressions.iter().flatten().filter_map(|selection| entry(&selection.metric));
        metrics.map(|entry| entry.name).collect()
    };
    let missing: Vec<_> = table::all().map(|entry| entry.name).filter(|name| !drawn.contains(name)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn each_alert_says_what_happened_and_where_to_read_on() {
    for alert in alerts() {
        let name = &alert.name;
        for annotation in ["summary", "description", "runbook"] {
            assert!(
                alert.annotations.get(annotation).is_some_and(|text| !text.is_empty()),
                "{name}: {annotation}"
            );
        }
        assert!(["warning", "critical"].contains(&alert.labels["severity"].as_str()), "{name}");
        let (page, anchor) = alert.annotations["runbook"].split_once('#').unwrap();
        let text = read(page);
        let anchors = text
            .lines()
            .filter_map(|line| line.strip_prefix('#'))
            .map(|title| title.trim_start_matches('#').trim().to_lowercase().replace(' ', "-"));
        assert_eq!(anchors.filter(|found| found == anchor).count(), 1, "{name}: {anchor} in {page}");
    }
}

#[test]
fn the_dashboard_is_one_that_grafana_loads_anywhere() {
    let dashboard = dashboard();
    assert_eq!(dashboard["uid"], "kantor");
    assert!(dashboard["schemaVersion"].as_u64().unwrap() >= 39, "older forms are migrated at each load");
    assert!(dashboard.get("id").is_none_or(Value::is_null), "an id is that of one Grafana");
    let variables: Vec<&str> = dashboard["templating"]["list"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v["name"].as_str().unwrap())
        .collect();
    assert_eq!(variables, ["datasource", "namespace", "data_plane"]);
    let all = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = all.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), all.len(), "ids are unique");
    let mut taken = BTreeSet::new();
    for panel in all {
        let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(at("x") + at("w") <= 24, "{}", panel["title"]);
        for (x, y) in
            (at("x")..at("x") + at("w")).flat_map(|x| (at("y")..at("y") + at("h")).map(move |y| (x, y)))
        {
            assert!(taken.insert((x, y)), "{} lies over another panel", panel["title"]);
        }
    }
    for panel in panels(&dashboard) {
        let sources = [&panel["datasource"]]
            .into_iter()
            .chain(panel["targets"].as_array().unwrap().iter().map(|t| &t["datasource"]));
        for source in sources {
            assert_eq!(source["uid"], "${datasource}", "{}", panel["title"]);
        }
        for target in panel["targets"].as_array().unwrap() {
            assert!(target["expr"].as_str().unwrap().contains("$namespace"), "{}", panel["title"]);
        }
    }
}
