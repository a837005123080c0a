//! Charts and kustomize bases on a real API server, in a namespace that admits nothing but restricted pods.

use std::time::Duration;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kantor_testbed::{
    Cluster,
    wait::{self, Seen},
};
use kube::{Api, api::ListParams};
use serde_json::{Value, json};

use crate::support::{Administrator, documents, kustomize, project, render};

const PATIENCE: Duration = Duration::from_mins(4);
const NAMESPACE: &str = "kantor-system";

async fn cluster() -> (Cluster, Administrator) {
    let cluster = Cluster::builder().name("control-plane").controllers(true).start().await.unwrap();
    let administrator = Administrator::of(&cluster);
    (cluster, administrator)
}

/// A namespace that enforces the Pod Security Standard.
fn restricted() -> String {
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/warn": "restricted"});
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}})
        .to_string()
}

/// As much of the Prometheus Operator's definition as the chart uses.
fn service_monitors() -> String {
    let text = json!({"type": "string"});
    let endpoint = json!({"type": "object", "properties": {"port": text, "path": text, "interval": text,
        "scrapeTimeout": text, "relabelings": {"type": "array", "items": {"type": "object",
        "x-kubernetes-preserve-unknown-fields": true}}}});
    let labels = json!({"type": "object", "additionalProperties": text});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "selector": {"type": "object", "properties": {"matchLabels": labels}},
        "endpoints": {"type": "array", "items": endpoint}}}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "servicemonitors.monitoring.coreos.com"},
        "spec": {"group": "monitoring.coreos.com", "scope": "Namespaced",
            "names": {"plural": "servicemonitors", "kind": "ServiceMonitor"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
    .to_string()
}

/// Every value set to something else than nothing.
fn everything() -> Vec<String> {
    let values = json!({
        "commonLabels": {"team": "platform"},
        "image": {"digest": format!("sha256:{}", "0".repeat(64)), "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "pull"}],
        "replicas": 3,
        "config": {"planeQps": 10, "logFormat": "json"},
        "listen": "0.0.0.0:9090",
        "extraArgs": ["--log=debug"],
        "extraEnv": [{"name": "KANTOR_LOG", "value": "info"}],
        "extraEnvFrom": [{"configMapRef": {"name": "more", "optional": true}}],
        "extraVolumes": [{"name": "more", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
        "serviceAccount": {"name": "operator", "annotations": {"who": "me"}},
        "rbac": {"inClusterDataPlane": true},
        "podLabels": {"tier": "control"},
        "podAnnotations": {"note": "yes"},
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1,
            "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "kantor"}}}}]}},
        "topologySpread": {"whenUnsatisfiable": "DoNotSchedule"},
        "podDisruptionBudget": {"maxUnavailable": "50%"},
        "networkPolicy": {"enabled": true, "from": [{"namespaceSelector": {}}], "egressPorts": [443],
            "extraEgress": [{"ports": [{"port": 8443, "protocol": "TCP"}]}]},
        "service": {"annotations": {"note": "yes"}},
        "serviceMonitor": {"enabled": true, "labels": {"release": "prometheus"},
            "relabelings": [{"action": "labeldrop", "regex": "pod"}]},
    });
    let object = values.as_object().unwrap();
    object.iter().map(|(key, value)| format!("--set-json={key}={value}")).collect()
}

fn text(objects: &[Value]) -> String {
    objects.iter().fold(String::new(), |text, object| format!("{text}---\n{object}\n"))
}

/// Waits until the Deployment has all its pods: the namespace admits them.
async fn has_pods(cluster: &Cluster, count: usize) -> Vec<Pod> {
    let pods: Api<Pod> = Api::namespaced(cluster.client(), NAMESPACE);
    let deployments: Api<Deployment> = Api::namespaced(cluster.client(), NAMESPACE);
    wait::until("the pods are admitted", PATIENCE, || async {
        let found = pods.list(&ListParams::default()).await?.items;
        let status = deployments.get("kantor").await?.status;
        Ok(if found.len() == count { Seen::Done(found) } else { Seen::NotYet(format!("{status:#?}")) })
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chart_installs_into_a_restricted_namespace_upgrades_and_goes_again() {
    let (cluster, administrator) = cluster().await;
    cluster.apply_yaml(&restricted()).await.unwrap();
    cluster.apply_yaml(&service_monitors()).await.unwrap();

    // No field is unknown, whatever is set.
    let nothing: Vec<String> = ["serviceAccount.create", "rbac.create", "podDisruptionBudget.enabled"]
        .iter()
        .chain(&["service.enabled", "topologySpread.enabled"])
        .map(|switch| format!("--set={switch}=false"))
        .collect();
    for values in [nothing, everything(), vec![]] {
        administrator.apply(&text(&render(&values)), &["--dry-run=server"]);
    }

    let chart = project("charts/kantor").display().to_string();
    let namespace = ["--namespace", NAMESPACE];
    let upgrade = ["upgrade", "--install", "kantor", &chart];
    administrator.helm(&[&upgrade[..], &namespace].concat());
    has_pods(&cluster, 2).await;

    let everything = everything();
    // What only an administrator may use, and what this cluster has no node for.
    let values: Vec<&str> =
        everything.iter().map(String::as_str).filter(|v| !v.contains("priorityClass")).collect();
    administrator.helm(&[&upgrade[..], &namespace, &values].concat());
    let deployments: Api<Deployment> = Api::namespaced(cluster.client(), NAMESPACE);
    wait::until("pods of the new kind are admitted", PATIENCE, || async {
        let pods: Api<Pod> = Api::namespaced(cluster.client(), NAMESPACE);
        let new = pods.list(&ListParams::default().labels("tier=control")).await?.items.len();
        // Nothing runs here, so that the roll-out stops when as many as may be missing are. All that it has made by then are
        // the new ones, and they are admitted.
        let deployment = deployments.get("kantor").await?;
        let status = deployment.status.unwrap_or_default();
        let is_current = status.observed_generation == deployment.metadata.generation;
        let updated = usize::try_from(status.updated_replicas.unwrap_or_default())?;
        let seen = format!("{new} pods: {status:?}");
        Ok(if new > 0 && is_current && new == updated { Seen::Done(()) } else { Seen::NotYet(seen) })
    })
    .await
    .unwrap();
    administrator.helm(&[&["uninstall", "kantor", "--wait"][..], &namespace].concat());
    let left = administrator.kubectl(
        &[
            "get",
            "deployments,services,roles,clusterroles,clusterrolebindings",
            "-A",
            "-o",
            "name",
            "-l",
            "app.kubernetes.io/name=kantor",
        ],
        "",
    );
    assert_eq!(String::from_utf8_lossy(&left.stdout), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kustomize_bases_apply_and_their_namespace_admits_the_pods() {
    let (cluster, administrator) = cluster().await;
    let default = kustomize("config/default");
    let parts = documents(&default);
    // Strictly: custom resources and the namespace first, as kubectl would do in two rounds.
    administrator.apply(&default, &[]);
    assert!(parts.len() > 20);
    has_pods(&cluster, 2).await;
    administrator.apply(&kustomize("config/data-plane"), &[]);
    let any_release = std::fs::read_to_string(project("config/data-plane/any-release.yaml")).unwrap();
    administrator.apply(&any_release, &[]);
    // Once more changes nothing.
    let again = administrator.apply(&default, &[]);
    assert!(again.lines().all(|line| line.ends_with("serverside-applied")), "{again}");
}
