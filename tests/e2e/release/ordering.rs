//! What others need is made before them, and goes after them.

use kantor_testbed::proxy::{Record, Records, Verb};
use serde_json::{Value, json};

use super::support::{ReleaseFixture, definition, pods, resource};

/// The order of making, by resource.
const ORDER: [&[&str]; 7] = [
    &["customresourcedefinitions"],
    &["namespaces"],
    &["serviceaccounts", "roles", "rolebindings"],
    &["configmaps", "secrets"],
    &["services"],
    &["deployments", "widgets"],
    &["ingresses"],
];

fn rank(record: &Record) -> usize {
    ORDER.iter().position(|resources| resources.contains(&record.resource())).unwrap()
}

fn object(kind: &str, name: &str, rest: Value) -> Value {
    let resource = resource(kind);
    let mut object = json!({"apiVersion": resource.api_version, "kind": resource.kind,
        "metadata": {"name": name, "namespace": "acme-extra"}});
    object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    object
}

fn done(records: Records, verb: Verb) -> Records {
    records.verb(verb).filter(Record::committed)
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_made_in_the_order_of_need_and_removed_in_reverse() {
    let fixture = ReleaseFixture::open().await;
    let before = fixture.snapshot().await;
    let plane = &fixture.plane;
    fixture
        .allow(json!({
            "allowedKinds": ["*", "*.rbac.authorization.k8s.io", "Ingress.networking.k8s.io"],
            "clusterScopedKinds": ["CustomResourceDefinition.apiextensions.k8s.io"],
        }))
        .await;
    let rbac = "rbac.authorization.k8s.io";
    let backend = json!({"service": {"name": "app", "port": {"number": 80}}});
    let path = json!({"path": "/", "pathType": "Prefix", "backend": backend});
    let rules = json!([{"host": "app.example", "http": {"paths": [path]}}]);
    let deployment = json!({"replicas": 0, "selector": {"matchLabels": {"app": "app"}},
        "template": pods("app", "nginx")});
    // The last first.
    let resources = [
        ("ingress", object("networking.k8s.io/v1/Ingress", "app", json!({"spec": {"rules": rules}}))),
        ("widget", object("example.com/v1/Widget", "app", json!({"spec": {}}))),
        ("app", object("apps/v1/Deployment", "app", json!({"spec": deployment}))),
        ("service", object("v1/Service", "app", json!({"spec": {"ports": [{"port": 80}]}}))),
        ("secret", object("v1/Secret", "app", json!({"stringData": {"a": "b"}}))),
        ("settings", object("v1/ConfigMap", "app", json!({"data": {"a": "b"}}))),
        (
            "binding",
            object(
                "rbac.authorization.k8s.io/v1/RoleBinding",
                "app",
                json!({
                    "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "app"},
                    "subjects": [{"kind": "ServiceAccount", "name": "app", "namespace": "acme-extra"}],
                }),
            ),
        ),
        ("role", object("rbac.authorization.k8s.io/v1/Role", "app", json!({"rules": []}))),
        ("account", object("v1/ServiceAccount", "app", json!({}))),
        (
            "namespace",
            json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": "acme-extra", "labels": {"organization-name": "acme"}}}),
        ),
        ("definition", definition("Widget")),
    ];
    let mark = plane.proxy.mark();
    fixture.create("shop", &resources).await;
    fixture.ready("shop").await;
    let writes = done(plane.proxy.writes_since(mark), Verb::Apply);
    assert_eq!(writes.len(), resources.len(), "each once:\n{writes}");
    // An object whose kind comes with the Release waits until the plane serves it, and holds up nobody.
    let built_in = writes.clone().without("widgets");
    assert!(built_in.iter().map(rank).is_sorted(), "{writes}");
    assert_eq!(rank(&writes[0]), 0, "{writes}");

    let mark = plane.proxy.mark();
    fixture.delete("shop").await;
    let writes = done(plane.proxy.writes_since(mark), Verb::Delete);
    assert!(writes.iter().map(rank).rev().is_sorted(), "{writes}");
    assert_eq!(writes.len(), resources.len(), "each once:\n{writes}");
    fixture.nothing_left(&before).await;
}
