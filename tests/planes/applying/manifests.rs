//! One object of every kind that Kantor renders or that Releases usually carry, with fields that the server likes to
//! write otherwise: quantities, ports, defaults, empty values.

use serde_json::{Value, json};

/// The plural of a kind.
pub fn plural(kind: &str) -> String {
    match kind {
        "NetworkPolicy" | "CiliumNetworkPolicy" | "SecurityPolicy" | "BackendTrafficPolicy" => {
            format!("{}ies", kind.trim_end_matches('y').to_lowercase())
        }
        "Ingress" | "SecretProviderClass" => format!("{}es", kind.to_lowercase()),
        _ => format!("{}s", kind.to_lowercase()),
    }
}

fn pod() -> Value {
    json!({
        "metadata": {"labels": {"app": "cart"}, "annotations": {"checksum": "1"}},
        "spec": {
            "serviceAccountName": "cart",
            "automountServiceAccountToken": false,
            "hostNetwork": false,
            "securityContext": {},
            "terminationGracePeriodSeconds": 10,
            "imagePullSecrets": [{"name": "pull"}],
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
                "weight": 1, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "cart"}}}}]}},
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": "cart"}}}],
            "initContainers": [{"name": "init", "image": "registry/init:1", "command": ["true"]}],
            "containers": [{
                "name": "main", "image": "registry/cart:1", "command": ["/cart"], "args": ["--port", "8080"],
                "env": [
                    {"name": "EMPTY", "value": ""},
                    {"name": "COLOUR", "value": "blue"},
                    {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1000m"}}},
                    {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "secret", "key": "key"}}},
                ],
                "envFrom": [{"configMapRef": {"name": "settings"}}],
                "ports": [{"name": "http", "containerPort": 8080}, {"containerPort": 8080, "protocol": "UDP"}],
                "resources": {"requests": {"cpu": "0.5", "memory": "1024Mi"}, "limits": {"cpu": 2, "memory": "2e9"}},
                "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "initialDelaySeconds": 0},
                "livenessProbe": {"tcpSocket": {"port": 8080}},
                "securityContext": {"runAsNonRoot": true, "capabilities": {"drop": ["ALL"]}},
                "volumeMounts": [
                    {"name": "settings", "mountPath": "/etc/settings"},
                    {"name": "settings", "mountPath": "/etc/one", "subPath": "one", "readOnly": true},
                    {"name": "scratch", "mountPath": "/scratch"},
                ],
            }],
            "volumes": [
                {"name": "settings", "configMap": {"name": "settings", "items": [{"key": "a", "path": "one"}]}},
                {"name": "secret", "secret": {"secretName": "secret", "defaultMode": 0o400}},
                {"name": "scratch", "emptyDir": {"sizeLimit": "1024Mi"}},
                {"name": "empty", "emptyDir": {}},
                {"name": "vault", "csi": {"driver": "secrets-store.csi.k8s.io", "readOnly": true,
                    "volumeAttributes": {"secretProviderClass": "vault"}}},
            ],
        },
    })
}

fn job_pod() -> Value {
    let mut pod = pod();
    pod["spec"]["restartPolicy"] = json!("Never");
    pod
}

fn object(api_version: &str, kind: &str, name: &str, mut fields: Value) -> Value {
    fields["apiVersion"] = json!(api_version);
    fields["kind"] = json!(kind);
    fields["metadata"] = json!({"name": name, "annotations": {"note": "kept"}});
    fields
}

/// All of them.
pub fn all() -> Vec<Value> {
    let mut all = core();
    all.extend(workloads());
    all.extend(network());
    all.extend(optional_parts());
    all
}

fn core() -> Vec<Value> {
    vec![
        object("v1", "Namespace", "applying-namespace", json!({})),
        object("v1", "ServiceAccount", "cart", json!({"automountServiceAccountToken": false})),
        object(
            "v1",
            "ConfigMap",
            "settings",
            json!({"data": {"a": "1000m", "empty": ""}, "immutable": false}),
        ),
        object("v1", "Secret", "secret", json!({"data": {"key": "aHVudGVyMg=="}, "type": "Opaque"})),
        object(
            "v1",
            "ResourceQuota",
            "quota",
            json!({"spec": {"hard": {"limits.cpu": "1000", "pods": 100}}}),
        ),
        object(
            "v1",
            "LimitRange",
            "range",
            json!({"spec": {"limits": [{"type": "Container",
            "default": {"cpu": "0.5"}, "max": {"memory": "1024Mi"}}]}}),
        ),
        object(
            "v1",
            "PersistentVolumeClaim",
            "data",
            json!({"spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1024Mi"}}}}),
        ),
        object(
            "rbac.authorization.k8s.io/v1",
            "Role",
            "role",
            json!({"rules": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
        ),
        object(
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            "binding",
            json!({
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "role"},
            "subjects": [{"kind": "ServiceAccount", "name": "cart"}]}),
        ),
    ]
}

fn workloads() -> Vec<Value> {
    let selector = json!({"matchLabels": {"app": "cart"}});
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "cart"});
    vec![
        object(
            "apps/v1",
            "Deployment",
            "cart",
            json!({"spec": {"selector": selector, "template": pod(), "paused": false,
            "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}}}}),
        ),
        object(
            "apps/v1",
            "StatefulSet",
            "store",
            json!({"spec": {"serviceName": "store", "replicas": 2,
            "selector": selector, "template": pod(), "volumeClaimTemplates": [{"metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "0.5Gi"}}}}]}}),
        ),
        object("apps/v1", "DaemonSet", "agent", json!({"spec": {"selector": selector, "template": pod()}})),
        object(
            "apps/v1",
            "ReplicaSet",
            "set",
            json!({"spec": {"replicas": 0, "selector": selector, "template": pod()}}),
        ),
        object(
            "batch/v1",
            "Job",
            "once",
            json!({"spec": {"template": job_pod(), "suspend": true,
            "activeDeadlineSeconds": 600, "ttlSecondsAfterFinished": 360, "backoffLimit": 4}}),
        ),
        object(
            "batch/v1",
            "CronJob",
            "nightly",
            json!({"spec": {"schedule": "0 3 * * *", "timeZone": "Etc/UTC",
            "suspend": false, "jobTemplate": {"spec": {"template": job_pod(), "activeDeadlineSeconds": 600}}}}),
        ),
        object(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            "cart",
            json!({"spec": {"scaleTargetRef": target,
            "minReplicas": 1, "maxReplicas": 5, "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}},
                {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1024Mi"}}},
            ]}}),
        ),
        object(
            "policy/v1",
            "PodDisruptionBudget",
            "cart",
            json!({"spec": {"minAvailable": "50%", "selector": selector}}),
        ),
    ]
}

fn network() -> Vec<Value> {
    vec![
        object(
            "v1",
            "Service",
            "cart",
            json!({"spec": {"type": "ClusterIP", "selector": {"app": "cart"}, "ports": [
            {"name": "http", "port": 80, "targetPort": "http"}, {"name": "metrics", "port": 9090, "protocol": "TCP"}]}}),
        ),
        object(
            "v1",
            "Service",
            "headless",
            json!({"spec": {"clusterIP": "None", "selector": {"app": "cart"},
            "ports": [{"port": 80}]}}),
        ),
        object(
            "v1",
            "Service",
            "elsewhere",
            json!({"spec": {"type": "ExternalName", "externalName": "example.com"}}),
        ),
        object(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            "isolation",
            json!({"spec": {"podSelector": {},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [{"podSelector": {}}, {"namespaceSelector": {"matchLabels": {"gateway": "yes"}}}]}],
            "egress": [{"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}}]},
                {"ports": [{"protocol": "UDP", "port": 53}]}]}}),
        ),
        object(
            "networking.k8s.io/v1",
            "Ingress",
            "cart",
            json!({"spec": {"rules": [{"host": "cart.example.com",
            "http": {"paths": [{"path": "/", "pathType": "Prefix",
                "backend": {"service": {"name": "cart", "port": {"number": 80}}}}]}}]}}),
        ),
    ]
}

fn optional_parts() -> Vec<Value> {
    let parents = json!([{"name": "gateway-external", "namespace": "openchoreo-data-plane"}]);
    let backends = json!([{"name": "cart", "port": 80}]);
    let target = json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "cart"});
    vec![
        object(
            "gateway.networking.k8s.io/v1",
            "HTTPRoute",
            "cart",
            json!({"spec": {"parentRefs": parents,
            "hostnames": ["dev.example.com"], "rules": [{
                "matches": [{"path": {"type": "PathPrefix", "value": "/shop/cart"}}],
                "filters": [{"type": "URLRewrite", "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}}}],
                "backendRefs": backends}]}}),
        ),
        object(
            "gateway.networking.k8s.io/v1",
            "GRPCRoute",
            "cart",
            json!({"spec": {"parentRefs": parents,
            "rules": [{"matches": [{"method": {"service": "shop.Cart", "method": "Get"}}], "backendRefs": backends}]}}),
        ),
        object(
            "gateway.networking.k8s.io/v1",
            "Gateway",
            "own",
            json!({"spec": {"gatewayClassName": "envoy",
            "listeners": [{"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "Same"}}}]}}),
        ),
        object(
            "gateway.envoyproxy.io/v1alpha1",
            "SecurityPolicy",
            "jwt",
            json!({"spec": {"targetRefs": [target],
            "jwt": {"providers": [{"name": "default", "remoteJWKS": {"uri": "https://idp.example.com/jwks"}}]}}}),
        ),
        object(
            "gateway.envoyproxy.io/v1alpha1",
            "BackendTrafficPolicy",
            "limits",
            json!({"spec": {"targetRefs": [target],
            "rateLimit": {"type": "Local", "local": {"rules": [{"limit": {"requests": 10, "unit": "Second"}}]}}}}),
        ),
        object(
            "gateway.envoyproxy.io/v1alpha1",
            "HTTPRouteFilter",
            "rewrite",
            json!({"spec": {"urlRewrite": {"path": {
            "type": "ReplaceRegexMatch", "replaceRegexMatch": {"pattern": "^/shop/cart(.*)$", "substitution": "\\1"}}}}}),
        ),
        object(
            "cilium.io/v2",
            "CiliumNetworkPolicy",
            "isolation",
            json!({"spec": {"endpointSelector": {},
            "ingress": [{"fromEndpoints": [{}]}], "egress": [{"toEntities": ["world"]}]}}),
        ),
        object(
            "secrets-store.csi.x-k8s.io/v1",
            "SecretProviderClass",
            "vault",
            json!({"spec": {"provider": "vault",
            "parameters": {"roleName": "app", "objects": "- objectName: a\n"}}}),
        ),
    ]
}
