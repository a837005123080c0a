//! What helm makes of the charts, without a cluster.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::{documents, helm, helm_prints, kustomize, project, render, the};

/// The schema's switches: all booleans that are not settings of the operator.
fn switches() -> Vec<String> {
    fn walk(properties: &Value, prefix: &str, found: &mut Vec<String>) {
        for (key, property) in properties.as_object().into_iter().flatten() {
            let path = format!("{prefix}{key}");
            if property["type"] == "boolean" {
                found.push(path);
            } else if path != "config" {
                walk(&property["properties"], &format!("{path}."), found);
            }
        }
    }
    let schema = std::fs::read_to_string(project("charts/kantor/values.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let mut found = vec![];
    walk(&schema["properties"], "", &mut found);
    found
}

#[test]
fn helm_finds_nothing_to_complain_about() {
    for chart in ["charts/kantor", "charts/kantor-crds"] {
        helm_prints(&["lint", "--strict", &project(chart).display().to_string()]);
    }
}

#[test]
fn every_combination_of_switches_renders_what_is_switched_on_and_nothing_else() {
    // What each brings.
    let brings: &[(&str, &[&str])] = &[
        ("networkPolicy.enabled", &["NetworkPolicy"]),
        ("podDisruptionBudget.enabled", &["PodDisruptionBudget"]),
        ("rbac.create", &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
        ("rbac.inClusterDataPlane", &[]),
        ("service.enabled", &["Service"]),
        ("serviceAccount.create", &["ServiceAccount"]),
        ("serviceMonitor.enabled", &["ServiceMonitor"]),
        ("topologySpread.enabled", &[]),
    ];
    let switches = switches();
    assert_eq!(switches, brings.iter().map(|(switch, _)| *switch).collect::<Vec<_>>());
    let mut refused = 0;
    for combination in 0..1_u32 << switches.len() {
        let is_on = |switch: &str| {
            let place = switches.iter().position(|known| known == switch).unwrap();
            combination >> place & 1 == 1
        };
        let values: Vec<String> =
            switches.iter().map(|switch| format!("--set={switch}={}", is_on(switch))).collect();
        if is_on("serviceMonitor.enabled") && !is_on("service.enabled") {
            // All fail alike: one is enough.
            if refused == 0 {
                let chart = project("charts/kantor").display().to_string();
                let all: Vec<&str> = ["template", "kantor", &chart]
                    .into_iter()
                    .chain(values.iter().map(String::as_str))
                    .collect();
                let output = helm(&all);
                assert!(!output.status.success());
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(said.contains("serviceMonitor.enabled: it scrapes the Service"), "{said}");
            }
            refused += 1;
            continue;
        }
        let objects = render(&values);
        let kinds: BTreeSet<&str> = objects.iter().filter_map(|object| object["kind"].as_str()).collect();
        let mut expected = BTreeSet::from(["ConfigMap", "Deployment"]);
        expected.extend(brings.iter().filter(|(switch, _)| is_on(switch)).flat_map(|(_, kinds)| *kinds));
        assert_eq!(kinds, expected, "{values:?}");
        let data_plane = objects.iter().any(|object| object["metadata"]["name"] == "kantor-data-plane");
        assert_eq!(data_plane, is_on("rbac.create") && is_on("rbac.inClusterDataPlane"), "{values:?}");
        let pod = &the(&objects, "Deployment", "kantor")["spec"]["template"]["spec"];
        assert_eq!(pod["topologySpreadConstraints"].is_array(), is_on("topologySpread.enabled"));
        let account = if is_on("serviceAccount.create") { "kantor" } else { "default" };
        assert_eq!(pod["serviceAccountName"], account);
    }
}

#[test]
fn values_that_cannot_be_are_refused() {
    let chart = project("charts/kantor").display().to_string();
    for (values, said) in [
        (&["replica=2"][..], "replica"),
        (&["replicas=two"], "replicas"),
        (&["image.digest=sha256:1"], "digest"),
        (&["config.planeQp=1"], "planeQp"),
        (&["config.planeQps=many"], "planeQps"),
        (&["config.logFormat=xml"], "logFormat"),
        (&["userId=0"], "userId"),
        (&["config.leaderElect=false"], "several replicas have to elect"),
        (&["serviceMonitor.interval=often"], "interval"),
    ] {
        let values = values.iter().map(|value| format!("--set={value}"));
        let all: Vec<String> =
            ["template", "kantor", &chart].map(ToOwned::to_owned).into_iter().chain(values).collect();
        let output = helm(&all);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(said), "{all:?}: {text}");
    }
    // One that leads alone needs no election.
    render(&["--set=config.leaderElect=false,replicas=1".to_owned()]);
}

/// The pod of the operator, without what is named after a release.
fn pod(objects: &[Value], selector: &str) -> Value {
    let mut pod = the(objects, "Deployment", "kantor")["spec"]["template"]["spec"].clone();
    for constraint in pod["topologySpreadConstraints"].as_array_mut().unwrap() {
        constraint["labelSelector"]["matchLabels"].as_object_mut().unwrap().remove(selector);
    }
    let config_map = pod["volumes"][0]["configMap"]["name"].as_str().unwrap().to_owned();
    assert!(config_map.starts_with("kantor"));
    pod["volumes"][0]["configMap"]["name"] = "kantor".into();
    pod
}

#[test]
fn the_chart_and_kustomize_grant_and_run_the_same() {
    let chart = render(&["--set=rbac.inClusterDataPlane=true".to_owned()]);
    let default = documents(&kustomize("config/default"));
    let data_plane = documents(&kustomize("config/data-plane"));
    for (kind, name, others) in [
        ("ClusterRole", "kantor", &default),
        ("Role", "kantor", &default),
        ("ClusterRole", "kantor-data-plane", &data_plane),
    ] {
        assert_eq!(the(&chart, kind, name)["rules"], the(others, kind, name)["rules"], "{kind} {name}");
    }
    let name = "kantor-data-plane-releases";
    assert_eq!(
        the(&chart, "ClusterRole", name)["aggregationRule"],
        the(&data_plane, "ClusterRole", name)["aggregationRule"]
    );
    let selector = "app.kubernetes.io/instance";
    assert_eq!(pod(&chart, selector), pod(&default, selector));
    let settings = |objects: &[Value]| {
        let found = objects.iter().find(|object| object["kind"] == "ConfigMap").unwrap();
        serde_saphyr::from_str::<Value>(found["data"]["config.yaml"].as_str().unwrap()).unwrap()
    };
    assert_eq!(settings(&chart), settings(&default));
}

#[test]
fn the_lease_that_is_asked_for_is_the_one_that_may_be_had() {
    let objects = render(&["--set=config.leaseName=other".to_owned()]);
    assert_eq!(the(&objects, "Role", "kantor")["rules"][1]["resourceNames"], serde_json::json!(["other"]));
}
