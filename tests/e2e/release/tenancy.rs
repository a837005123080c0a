//! Releases that reach for what is not theirs.

use kantor_api::{DataPlane, Environment, Release};
use kantor_core::tenancy::{Tenant, own_namespace};
use kantor_testbed::proxy::{Mark, Verb};
use serde_json::{Value, json};

use super::support::{ReleaseFixture, at_home, config_map, home};
use crate::acme::{object, plane_ready};

/// An object that is refused, and what opens the plane to it.
struct Case {
    name: &'static str,
    object: Value,
    /// The policy under which it is refused.
    under: Value,
    /// Words of the condition: the object, and the rule.
    said: [&'static str; 2],
    /// The policy that allows it, if any does.
    allowed_by: Option<Value>,
}

fn binding(kind: &str, namespace: Option<&str>) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": {"name": "takeover", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "acme"}],
    })
}

fn config_map_in(namespace: &str) -> Value {
    let mut object = config_map("mine", json!({"a": "b"}));
    object["metadata"]["namespace"] = json!(namespace);
    object
}

/// The namespace that another organization has by its name.
fn home_of_globex() -> String {
    own_namespace(&Tenant { organization: "globex", project: "shop", environment: "dev" })
}

fn cases() -> Vec<Case> {
    let relabelled = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "globex-web", "labels": {"organization-name": "acme"}}});
    let mut cases = vec![
        Case {
            name: "cluster-role-binding",
            object: binding("ClusterRoleBinding", None),
            under: json!({"clusterScopedKinds": ["*"]}),
            said: ["ClusterRoleBinding takeover", "releasePolicy.clusterScopedKinds"],
            allowed_by: Some(json!({"clusterScopedKinds": ["ClusterRoleBinding.rbac.authorization.k8s.io"]})),
        },
        Case {
            name: "role-binding",
            object: binding("RoleBinding", Some(&home())),
            under: json!({"allowedKinds": ["*"]}),
            said: ["RoleBinding takeover", "releasePolicy.allowedKinds"],
            allowed_by: Some(json!({"allowedKinds": ["*", "RoleBinding.rbac.authorization.k8s.io"]})),
        },
        Case {
            name: "shared-namespace",
            object: config_map_in("shared"),
            under: Value::Null,
            said: ["ConfigMap mine", "releasePolicy.namespaces"],
            allowed_by: Some(json!({"namespaces": ["share*"]})),
        },
    ];
    cases.extend(by_which_organizations_are_kept_apart());
    let others = "belongs to another organization";
    for (name, object, said) in [
        (
            "kube-system",
            config_map_in("kube-system"),
            ["ConfigMap mine", "kube-system belongs to Kubernetes"],
        ),
        ("other-tenant", config_map_in("globex-web"), ["ConfigMap mine", others]),
        ("relabelled", relabelled, ["Namespace globex-web", others]),
        (
            "generated-name",
            config_map_in(&home_of_globex()),
            ["ConfigMap mine", "kept for those that Kantor makes"],
        ),
    ] {
        // No policy opens these, however wide it is.
        for under in [Value::Null, json!({"namespaces": ["*"], "clusterScopedKinds": ["*"]})] {
            cases.push(Case { name, object: object.clone(), under, said, allowed_by: None });
        }
    }
    cases
}

/// Kinds, and labels of Namespaces, by which organizations are kept apart.
fn by_which_organizations_are_kept_apart() -> [Case; 5] {
    let kind = |entry: &str| json!({"allowedKinds": ["*", entry]});
    let wide = || json!({"allowedKinds": ["*"], "namespaceLabels": ["*"]});
    let rule = "releasePolicy.allowedKinds that names the group";
    let enforce = "pod-security.kubernetes.io/enforce";
    [
        Case {
            name: "network-policy",
            object: at_home(
                "networking.k8s.io/v1/NetworkPolicy",
                "open",
                json!({"spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{}]}}),
            ),
            under: Value::Null,
            said: ["NetworkPolicy open", rule],
            allowed_by: Some(kind("NetworkPolicy.networking.k8s.io")),
        },
        Case {
            name: "endpoint-slice",
            object: at_home(
                "discovery.k8s.io/v1/EndpointSlice",
                "inside",
                json!({"addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.1"]}], "ports": []}),
            ),
            under: wide(),
            said: ["EndpointSlice inside", rule],
            allowed_by: Some(kind("*.discovery.k8s.io")),
        },
        Case {
            name: "endpoints",
            object: at_home("v1/Endpoints", "inside", json!({"subsets": []})),
            under: wide(),
            said: ["Endpoints inside", rule],
            allowed_by: Some(kind("Endpoints")),
        },
        Case {
            name: "ingress",
            object: at_home(
                "networking.k8s.io/v1/Ingress",
                "everything",
                json!({"spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}}}),
            ),
            under: kind("*.networking.k8s.io"),
            said: ["everything", "takes those of everybody"],
            allowed_by: None,
        },
        Case {
            name: "privileged-namespace",
            object: json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
                "name": "acme-free", "labels": {"organization-name": "acme", enforce: "privileged"}}}),
            under: wide(),
            said: ["Namespace acme-free", "releasePolicy.namespaceLabels"],
            allowed_by: Some(json!({"namespaceLabels": [enforce]})),
        },
    ]
}

/// A plane with things of others on it.
async fn with_others() -> (ReleaseFixture, Vec<Value>) {
    let fixture = Box::pin(ReleaseFixture::open()).await;
    let plane = &fixture.plane;
    plane.create("v1/Namespace", "", json!({"metadata": {"name": "shared"}})).await;
    let labels = json!({"organization-name": "globex"});
    plane.create("v1/Namespace", "", json!({"metadata": {"name": "globex-web", "labels": labels}})).await;
    for namespace in ["shared", "globex-web"] {
        let data = json!({"metadata": {"name": "theirs"}, "data": {"whose": "theirs"}});
        plane.create("v1/ConfigMap", namespace, data).await;
    }
    let others = others(&fixture).await;
    (fixture, others)
}

/// What is of others, to the last byte.
async fn others(fixture: &ReleaseFixture) -> Vec<Value> {
    let mut found = vec![];
    for (kind, namespace, name) in [
        ("v1/Namespace", "", "shared"),
        ("v1/Namespace", "", "globex-web"),
        ("v1/ConfigMap", "shared", "theirs"),
        ("v1/ConfigMap", "globex-web", "theirs"),
    ] {
        found.push(fixture.plane.get(kind, namespace, name).await.unwrap());
    }
    found
}

/// Nothing has been written to the plane.
fn untouched(fixture: &ReleaseFixture, mark: Mark, name: &str) {
    let writes = fixture.plane.proxy.writes_since(mark).filter(|record| !record.target.dry_run);
    assert!(writes.is_empty(), "{name}:\n{writes}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_the_organizations_is_refused_whole_until_a_policy_allows_it() {
    let (fixture, before) = with_others().await;
    for Case { name, object, under, said, allowed_by } in cases() {
        fixture.allow(under).await;
        let mark = fixture.plane.proxy.mark();
        let harmless = config_map("harmless", json!({"a": "b"}));
        fixture.create(name, &[("harmless", harmless), ("hostile", object)]).await;
        let message = fixture.wait_condition(name, "Ready", "False", "PolicyViolation").await;
        assert!(said.iter().all(|words| message.contains(words)), "{name}: {message}");
        assert!(!message.contains("harmless"), "{name}: {message}");
        fixture.quiet().await;
        untouched(&fixture, mark, name);
        assert_eq!(others(&fixture).await, before, "{name}");

        fixture.allow(Value::Null).await;
        if let Some(policy) = allowed_by {
            fixture.allow(policy).await;
            fixture.ready(name).await;
        }
        fixture.delete(name).await;
        fixture.allow(Value::Null).await;
    }
    assert_eq!(others(&fixture).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_somebody_else_is_left_alone_and_named() {
    let (fixture, before) = with_others().await;
    fixture.allow(json!({"namespaces": ["shared"]})).await;
    let mut object = config_map_in("shared");
    object["metadata"]["name"] = json!("theirs");
    let mark = fixture.plane.proxy.mark();
    fixture.create("greedy", &[("theirs", object)]).await;
    let message = fixture.wait_condition("greedy", "Ready", "False", "ApplyRefused").await;
    assert!(message.contains("ConfigMap shared/theirs exists and belongs to nobody"), "{message}");
    let landed = fixture.plane.proxy.writes_since(mark).filter(kantor_testbed::proxy::Record::committed);
    assert!(landed.is_empty(), "{landed}");
    assert_eq!(others(&fixture).await, before);
    fixture.delete("greedy").await;
    assert_eq!(others(&fixture).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_do_not_make_a_release_another_organizations() {
    let (fixture, before) = with_others().await;
    // All that acme has to write for its Release to look like one of globex, up to the cluster.
    let plane = json!({"kubernetesCluster": {"secretRef": {"name": "plane"}}});
    fixture.control.create(&claiming::<DataPlane>("DataPlane", "claimed", plane)).await;
    plane_ready(&fixture.control, "claimed").await;
    let environment = json!({"dataPlaneRef": "claimed"});
    fixture.control.create(&claiming::<Environment>("Environment", "claimed", environment)).await;
    let mark = fixture.plane.proxy.mark();
    let resources = json!([{"id": "theirs", "object": config_map_in("globex-web")}]);
    let owner = json!({"projectName": "shop", "componentName": "cart"});
    let spec = json!({"owner": owner, "environmentName": "claimed", "resources": resources});
    fixture.control.create(&claiming::<Release>("Release", "claiming", spec)).await;
    let message = fixture.wait_condition("claiming", "Ready", "False", "PolicyViolation").await;
    assert!(message.contains("globex-web belongs to another organization"), "{message}");
    fixture.quiet().await;
    untouched(&fixture, mark, "claiming");
    assert_eq!(others(&fixture).await, before);
    fixture.delete("claiming").await;
}

/// An object in the namespace of acme whose label says globex.
fn claiming<K: serde::de::DeserializeOwned + kube::Resource>(kind: &str, name: &str, spec: Value) -> K {
    let mut claiming: K = object(kind, name, spec);
    let labels = claiming.meta_mut().labels.get_or_insert_default();
    labels.insert("openchoreo.dev/organization".to_owned(), "globex".to_owned());
    claiming
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_service_account_may_not_do_releases_may_not() {
    let fixture = ReleaseFixture::open().await;
    let plane = &fixture.plane;
    plane.create("v1/Namespace", "", json!({"metadata": {"name": "platform"}})).await;
    plane.create("v1/ServiceAccount", "platform", json!({"metadata": {"name": "releaser"}})).await;
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]);
    let role = json!({"metadata": {"name": "releaser"}, "rules": rules});
    plane.create("rbac.authorization.k8s.io/v1/ClusterRole", "", role).await;
    let binding = json!({"metadata": {"name": "releaser"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "releaser"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "platform", "name": "releaser"}]});
    plane.create("rbac.authorization.k8s.io/v1/ClusterRoleBinding", "", binding).await;
    let impersonating = json!([{"apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": ["releaser"],
        "verbs": ["impersonate"]}]);
    plane.cluster.allow_on_data_plane("kantor-as-releaser", impersonating).await.unwrap();
    let before = fixture.snapshot().await;
    fixture.allow(json!({"serviceAccount": {"namespace": "platform", "name": "releaser"}})).await;

    let mark = plane.proxy.mark();
    let secret = at_home("v1/Secret", "password", json!({"stringData": {"password": "hunter2"}}));
    let settings = config_map("settings", json!({"colour": "blue"}));
    fixture.create("limited", &[("settings", settings.clone()), ("password", secret)]).await;
    let message = fixture.wait_condition("limited", "Ready", "False", "ApplyRefused").await;
    let user = "system:serviceaccount:platform:releaser";
    assert!(message.contains(&format!("Secret {}/password", home())) && message.contains(user), "{message}");
    assert!(!message.contains("hunter2"), "{message}");
    assert!(plane.get("v1/ConfigMap", &home(), "settings").await.is_some());
    assert!(plane.get("v1/Secret", &home(), "password").await.is_none());
    // The namespace is Kantor's own to make.
    let writes = plane.proxy.writes_since(mark).without("namespaces");
    assert!(writes.iter().all(|record| record.impersonate.as_deref() == Some(user)), "{writes:#?}");

    // What it never could make does not keep it from being left out, and nothing keeps the namespace.
    fixture.edit("limited", &[("settings", settings)]).await;
    fixture.ready("limited").await;
    let mark = plane.proxy.mark();
    fixture.delete("limited").await;
    // What is removed is removed in its name as well.
    let deleted = plane.proxy.writes_since(mark).verb(Verb::Delete).resource("configmaps");
    assert!(!deleted.is_empty(), "{deleted}");
    assert!(deleted.iter().all(|record| record.impersonate.as_deref() == Some(user)), "{deleted:#?}");
    fixture.nothing_left(&before).await;
}
