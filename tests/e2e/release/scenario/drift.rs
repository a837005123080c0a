//! What somebody else changes: what the Release sets is set again, what it does not set is left.

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::release::support::{Plane, ReleaseFixture, home};

/// A change by somebody else.
struct Drift {
    object: (&'static str, &'static str),
    namespace: Option<&'static str>,
    patch: Patch<Value>,
    /// Where, and what is there in the end; nothing for what is not there.
    restored: (&'static str, Option<Value>),
}

fn drift(
    kind: &'static str,
    name: &'static str,
    patch: Patch<Value>,
    at: &'static str,
    restored: impl Into<Option<Value>>,
) -> Drift {
    Drift { object: (kind, name), namespace: None, patch, restored: (at, restored.into()) }
}

impl Drift {
    fn within(self, namespace: &'static str) -> Self {
        Self { namespace: Some(namespace), ..self }
    }
}

const DEPLOYMENT: &str = "apps/v1/Deployment";
const GATEWAY: &str = "gateway.networking.k8s.io/v1/Gateway";
const HTTP_ROUTE: &str = "gateway.networking.k8s.io/v1/HTTPRoute";
const ROLE: &str = "rbac.authorization.k8s.io/v1/Role";
const CLUSTER_ROLE: &str = "rbac.authorization.k8s.io/v1/ClusterRole";
const CRD: &str = "apiextensions.k8s.io/v1/CustomResourceDefinition";
const AUTOSCALER: &str = "autoscaling/v2/HorizontalPodAutoscaler";
const WEBHOOKS: &str = "admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration";

fn containers(containers: &Value) -> Value {
    json!({"spec": {"template": {"spec": {"containers": containers}}}})
}

/// Scalars, labels and annotations, keys of maps.
fn plain() -> Vec<Drift> {
    use Patch::Merge;
    let label = json!({"metadata": {"labels": {"tier": "back"}, "annotations": {"checked": null}}});
    vec![
        drift("v1/ConfigMap", "settings", Merge(label), "/metadata/labels/tier", json!("front")),
        drift("v1/ConfigMap", "settings", Merge(json!({})), "/metadata/annotations/checked", json!("yes")),
        drift(
            "v1/ConfigMap",
            "settings",
            Merge(json!({"data": {"colour": null}})),
            "/data/colour",
            json!("blue"),
        ),
        drift("v1/ConfigMap", "settings", Merge(json!({"data": {"size": "11"}})), "/data/size", json!("10")),
        drift("v1/ConfigMap", "settings", Merge(json!({"data": null})), "/data/empty", json!("")),
        drift(
            "v1/Namespace",
            "acme-extra",
            Merge(json!({"metadata": {"annotations": {"note": "changed"}}})),
            "/metadata/annotations/note",
            json!("made by hand"),
        )
        .within(""),
        drift(
            "v1/ServiceAccount",
            "cart",
            Merge(json!({"automountServiceAccountToken": true})),
            "/automountServiceAccountToken",
            json!(false),
        ),
        drift(
            "batch/v1/CronJob",
            "nightly",
            Merge(json!({"spec": {"schedule": "* * 1 1 *"}})),
            "/spec/schedule",
            json!("0 3 1 1 *"),
        ),
        drift(
            AUTOSCALER,
            "scaled",
            Merge(json!({"spec": {"maxReplicas": 9}})),
            "/spec/maxReplicas",
            json!(5),
        ),
        drift(
            "policy/v1/PodDisruptionBudget",
            "cart",
            Merge(json!({"spec": {"minAvailable": 1}})),
            "/spec/minAvailable",
            json!("50%"),
        ),
        drift(
            "scheduling.k8s.io/v1/PriorityClass",
            "acme-low",
            Merge(json!({"description": "changed"})),
            "/description",
            json!("what can wait"),
        )
        .within(""),
        drift(
            "v1/Secret",
            "password",
            Merge(json!({"data": {"password": "eA=="}})),
            "/data/password",
            json!("Y29ycmVjdCBob3JzZQ=="),
        ),
        drift("v1/Secret", "mixed", Merge(json!({"data": {"b": null}})), "/data/b", json!("c2Vjb25kCg==")),
        drift(
            "story.example/v1/Widget",
            "rich",
            Merge(json!({"spec": {"colour": "pink"}})),
            "/spec/colour",
            json!("red"),
        ),
        drift(
            "story.example/v1/Gadget",
            "global",
            Merge(json!({"spec": {"free": {"ratio": 0.75}}})),
            "/spec/free/ratio",
            json!(0.5),
        )
        .within(""),
    ]
}

/// Lists: items by their keys, and lists that are one value.
fn lists() -> Vec<Drift> {
    use Patch::{Merge, Strategic};
    let image = containers(&json!([{"name": "app", "image": "registry.example/evil"}]));
    let mode = containers(&json!([{"name": "app", "env": [{"name": "MODE", "value": "debug"}]}]));
    let less =
        containers(&json!([{"name": "app", "volumeMounts": [{"mountPath": "/tmp", "$patch": "delete"}]}]));
    let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["settings"], "verbs": ["get", "watch"]});
    let more = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
    let env = containers(&json!([{"name": "db", "env": [{"name": "MODE", "$patch": "delete"}]}]));
    vec![
        drift(DEPLOYMENT, "worker", Strategic(image), "/spec/template/spec/containers/0/image", json!("registry.example/worker")),
        drift(DEPLOYMENT, "cart", Strategic(mode), "/spec/template/spec/containers/app/env/MODE/value", json!("production")),
        drift(
            DEPLOYMENT,
            "cart",
            Strategic(less),
            "/spec/template/spec/containers/app/volumeMounts/scratch/mountPath",
            json!("/tmp"),
        ),
        drift("apps/v1/StatefulSet", "db", Strategic(env), "/spec/template/spec/containers/0/env/0/value", json!("production")),
        drift(
            "v1/Service",
            "cart",
            Strategic(json!({"spec": {"ports": [{"port": 80, "$patch": "delete"}]}})),
            "/spec/ports/0/targetPort",
            json!("http"),
        ),
        drift(ROLE, "cart", Merge(json!({"rules": [rule, more]})), "/rules/1", None),
        drift(CLUSTER_ROLE, "acme-reader", Merge(json!({"rules": [more]})), "/rules/0/resources/0", json!("nodes")).within(""),
        drift("story.example/v1/Widget", "small", Merge(json!({"spec": {"tags": ["a", "b", "c"]}})), "/spec/tags/2", None),
        drift(HTTP_ROUTE, "cart", Merge(json!({"spec": {"hostnames": ["a.example", "b.example"]}})), "/spec/hostnames", json!(["cart.example"])),
        drift(
            GATEWAY,
            "front",
            Merge(json!({"spec": {"listeners": [{"name": "http", "port": 81, "protocol": "HTTP"}]}})),
            "/spec/listeners/1/hostname",
            json!("*.other.example"),
        ),
        drift(
            "networking.k8s.io/v1/NetworkPolicy",
            "deny",
            Merge(json!({"spec": {"policyTypes": ["Ingress", "Egress"]}})),
            "/spec/policyTypes",
            json!(["Ingress"]),
        ),
        drift(
            CRD,
            "gadgets.story.example",
            Merge(json!({"spec": {"names": {"shortNames": ["gg", "ga"]}}})),
            "/spec/names/shortNames",
            json!(["gg"]),
        )
        .within(""),
        drift(
            WEBHOOKS,
            "acme-nothing",
            Strategic(json!({"webhooks": [{"name": "nothing.story.example", "timeoutSeconds": 9, "failurePolicy": "Fail"}]})),
            "/webhooks/0/failurePolicy",
            json!("Ignore"),
        )
        .within(""),
    ]
}

fn quantities() -> Vec<Drift> {
    use Patch::{Merge, Strategic};
    let memory = containers(&json!([{"name": "app", "resources": {"requests": {"memory": "1Gi"}}}]));
    vec![
        drift(
            DEPLOYMENT,
            "worker",
            Strategic(memory),
            "/spec/template/spec/containers/0/resources/requests/memory",
            json!("128974848"),
        ),
        drift(
            "v1/ResourceQuota",
            "limits",
            Merge(json!({"spec": {"hard": {"requests.cpu": "5"}}})),
            "/spec/hard/requests.cpu",
            json!("2500m"),
        )
        .within("acme-extra"),
    ]
}

/// What is deleted whole.
const DELETED: [(&str, &str); 5] = [
    ("v1/ConfigMap", "binary"),
    ("v1/Service", "db"),
    ("story.example/v1/Widget", "plain"),
    ("batch/v1/Job", "migrate"),
    ("v1/Pod", "toolbox"),
];

/// Changes everything that can be changed, and waits until it is as it was; what is not the Release's stays.
pub async fn repaired(fixture: &ReleaseFixture) {
    let plane = &fixture.plane;
    leave_things(plane).await;
    let drifts: Vec<Drift> = plain().into_iter().chain(lists()).chain(quantities()).collect();
    let home = home();
    for Drift { object: (kind, name), namespace, patch, .. } in &drifts {
        change(plane, kind, namespace.unwrap_or(&home), name, patch).await;
    }
    let mut gone = vec![];
    for (kind, name) in DELETED {
        let uid = plane.get(kind, &home, name).await.unwrap()["metadata"]["uid"].clone();
        plane.api(kind, &home).delete(name, &DeleteParams::background()).await.unwrap();
        gone.push((kind, name, uid));
    }
    for Drift { object: (kind, name), namespace, restored: (at, value), .. } in &drifts {
        let what = format!("{at} of {kind} {name} is {value:?} again");
        let place = (*kind, namespace.unwrap_or(&home), *name);
        plane.until(&what, place, |found| (look(found?, at) == value.as_ref()).then_some(())).await;
    }
    for (kind, name, uid) in gone {
        let what = format!("{kind} {name} is there again");
        plane
            .until(&what, (kind, &home, name), |found| (found?["metadata"]["uid"] != uid).then_some(()))
            .await;
    }
    // It looks every 15 seconds, and the status of the Release says what it says.
    let looked =
        |found: Option<&Value>| (look(found?, "/status/currentReplicas") == Some(&json!(3))).then_some(());
    plane.until("the autoscaler has seen the replicas", (AUTOSCALER, &home, "scaled"), looked).await;
    fixture.quiet().await;
    things_are_left(plane).await;
}

async fn change(plane: &Plane, kind: &str, namespace: &str, name: &str, patch: &Patch<Value>) {
    let params = PatchParams { field_manager: Some("somebody".into()), ..PatchParams::default() };
    let changed = plane.api(kind, namespace).patch(name, &params, patch).await;
    assert!(changed.is_ok(), "{kind} {name}: {changed:?}");
}

/// What is at `path`; items of lists by their position or their name.
fn look<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.trim_start_matches('/').split('/').try_fold(object, |value, step| match value {
        Value::Array(items) => match step.parse::<usize>() {
            Ok(index) => items.get(index),
            Err(_) => items.iter().find(|item| item["name"] == step),
        },
        other => other.get(step),
    })
}

/// Things of others on objects of the Release.
async fn leave_things(plane: &Plane) {
    let home = home();
    let note = json!({"metadata": {"labels": {"team": "red"}, "annotations": {"note": "mine"}}});
    change(plane, "v1/ConfigMap", &home, "fixed", &Patch::Merge(note)).await;
    let sidecar = containers(&json!([{"name": "sidecar", "image": "registry.example/sidecar"}]));
    change(plane, DEPLOYMENT, &home, "cart", &Patch::Strategic(sidecar)).await;
    change(plane, DEPLOYMENT, &home, "scaled", &Patch::Merge(json!({"spec": {"replicas": 3}}))).await;
    let status = Patch::Merge(json!({"status": {"phase": "Busy"}}));
    plane
        .api("story.example/v1/Widget", &home)
        .patch_status("rich", &PatchParams::default(), &status)
        .await
        .unwrap();
}

async fn things_are_left(plane: &Plane) {
    let home = home();
    let get = async |kind, name| plane.get(kind, &home, name).await.unwrap();
    let fixed = get("v1/ConfigMap", "fixed").await;
    assert_eq!(fixed["metadata"]["labels"]["team"], "red");
    assert_eq!(fixed["metadata"]["annotations"]["note"], "mine");
    let cart = get(DEPLOYMENT, "cart").await;
    let names: Vec<_> = cart["spec"]["template"]["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|container| container["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"sidecar") && names.contains(&"app"), "{names:?}");
    assert_eq!(get(DEPLOYMENT, "scaled").await["spec"]["replicas"], 3);
    assert_eq!(get("story.example/v1/Widget", "rich").await["status"]["phase"], "Busy");
}
