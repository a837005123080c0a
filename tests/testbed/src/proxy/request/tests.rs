use super::*;

const APPLY: Option<&str> = Some("application/apply-patch+yaml");
const MERGE: Option<&str> = Some("application/merge-patch+json");

/// Method, path and query, content type, the readable form, field manager, whether it counts as a write.
type Row = (&'static str, &'static str, Option<&'static str>, &'static str, Option<&'static str>, bool);

#[rustfmt::skip] // One row, one line.
const ROWS: &[Row] = &[
    // Paths that are not resources.
    ("GET", "/readyz", None, "get /readyz", None, false),
    ("GET", "/version", None, "get /version", None, false),
    ("GET", "/api", None, "get /api", None, false),
    ("GET", "/api/v1", None, "get /api/v1", None, false),
    ("GET", "/apis", None, "get /apis", None, false),
    ("GET", "/apis/apps/v1", None, "get /apis/apps/v1", None, false),
    ("GET", "/apis/apps/v1/", None, "get /apis/apps/v1/", None, false),
    ("GET", "/openapi/v3/apis/apps/v1?hash=1", None, "get /openapi/v3/apis/apps/v1", None, false),
    // Core group.
    ("GET", "/api/v1/pods", None, "list pods", None, false),
    ("GET", "/api/v1/namespaces/a/pods?limit=500", None, "list pods a/", None, false),
    ("GET", "/api/v1/namespaces/a/pods/p", None, "get pods a/p", None, false),
    ("GET", "/api/v1/namespaces/a/pods/p/log?follow=true", None, "get pods/log a/p", None, false),
    ("POST", "/api/v1/namespaces/a/configmaps?fieldManager=me", None, "create configmaps a/", Some("me"), true),
    ("PUT", "/api/v1/namespaces/a/configmaps/c", None, "update configmaps a/c", None, true),
    ("DELETE", "/api/v1/namespaces/a/configmaps/c", None, "delete configmaps a/c", None, true),
    ("DELETE", "/api/v1/namespaces/a/configmaps", None, "deletecollection configmaps a/", None, true),
    ("POST", "/api/v1/namespaces/a/serviceaccounts/s/token", None, "create serviceaccounts/token a/s", None, true),
    ("POST", "/api/v1/namespaces/a/pods/p/eviction", None, "create pods/eviction a/p", None, true),
    // Namespaces themselves.
    ("GET", "/api/v1/namespaces", None, "list namespaces", None, false),
    ("GET", "/api/v1/namespaces/a", None, "get namespaces a", None, false),
    ("PATCH", "/api/v1/namespaces/a?fieldManager=kantor&force=true", APPLY, "apply namespaces a", Some("kantor"), true),
    ("PATCH", "/api/v1/namespaces/a/status", MERGE, "patch namespaces/status a", None, true),
    ("PUT", "/api/v1/namespaces/a/finalize", None, "update namespaces/finalize a", None, true),
    ("DELETE", "/api/v1/namespaces/a", None, "delete namespaces a", None, true),
    // Namespaces and names that look like other parts of a path.
    ("GET", "/api/v1/namespaces/status/pods/watch", None, "get pods status/watch", None, false),
    ("GET", "/api/v1/namespaces/watch/secrets", None, "list secrets watch/", None, false),
    // Other groups, custom resources, subresources.
    ("PATCH", "/apis/apps/v1/namespaces/a/deployments/d?force=true&fieldManager=kantor", APPLY, "apply deployments.apps a/d", Some("kantor"), true),
    ("PATCH", "/apis/apps/v1/namespaces/a/deployments/d", MERGE, "patch deployments.apps a/d", None, true),
    ("GET", "/apis/apps/v1/namespaces/a/deployments/d/scale", None, "get deployments/scale.apps a/d", None, false),
    ("PATCH", "/apis/openchoreo.dev/v1alpha1/namespaces/o/deployments/d/status?fieldManager=x", APPLY, "apply deployments/status.openchoreo.dev o/d", Some("x"), true),
    ("GET", "/apis/openchoreo.dev/v1alpha1/organizations/o", None, "get organizations.openchoreo.dev o", None, false),
    ("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Aadmin", None, "get clusterroles.rbac.authorization.k8s.io system:admin", None, false),
    ("DELETE", "/apis/apps/v1/namespaces/a/deployments?labelSelector=a%3Db", None, "deletecollection deployments.apps a/", None, true),
    // Watches.
    ("GET", "/api/v1/pods?watch=true&resourceVersion=1", None, "watch pods", None, false),
    ("GET", "/api/v1/namespaces/a/pods?&watch=1", None, "watch pods a/", None, false),
    ("GET", "/api/v1/pods?watch=false", None, "list pods", None, false),
    ("GET", "/api/v1/pods?watch=0", None, "list pods", None, false),
    ("GET", "/api/v1/watch/namespaces/a/pods", None, "watch pods a/", None, false),
    ("GET", "/apis/apps/v1/deployments?watch=true&fieldSelector=metadata.namespace%3Da%2Cmetadata.name%3Dd", None, "watch deployments.apps d", None, false),
    ("GET", "/api/v1/namespaces/a/secrets?fieldSelector=metadata.name==s", None, "list secrets a/s", None, false),
    // Questions and dry runs store nothing.
    ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", None, "create selfsubjectaccessreviews.authorization.k8s.io", None, false),
    ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", None, "create tokenreviews.authentication.k8s.io", None, false),
    ("POST", "/apis/example.com/v1/namespaces/a/reviews", None, "create reviews.example.com a/", None, true),
    ("PATCH", "/apis/apps/v1/namespaces/a/deployments/d?dryRun=All", MERGE, "patch deployments.apps a/d", None, false),
];

#[test]
fn request_lines_are_read_as_the_apiserver_reads_them() {
    for (method, uri, content_type, display, manager, write) in ROWS {
        let target = parse(method, uri, *content_type);
        assert_eq!(target.to_string(), *display, "{method} {uri}");
        assert_eq!(target.field_manager.as_deref(), *manager, "{method} {uri}");
        assert_eq!(target.is_write(), *write, "{method} {uri}");
    }
}

#[test]
fn group_and_version_come_from_the_path() {
    let core = parse("GET", "/api/v1/pods", None);
    assert_eq!((core.group.as_str(), core.version.as_str()), ("", "v1"));
    let custom = parse("GET", "/apis/openchoreo.dev/v1alpha1/organizations", None);
    assert_eq!((custom.group.as_str(), custom.version.as_str()), ("openchoreo.dev", "v1alpha1"));
    assert_eq!(parse("GET", "/apis/apps/v1", None).resource, "");
}

#[test]
fn a_resource_is_named_as_in_rbac() {
    let main = parse("PUT", "/apis/apps/v1/namespaces/a/deployments/d", None);
    let status = parse("PUT", "/apis/apps/v1/namespaces/a/deployments/d/status", None);
    for (spec, matches_main, matches_status) in [
        ("deployments", true, false),
        ("deployments/status", false, true),
        ("deployments/*", true, true),
        ("pods", false, false),
    ] {
        assert_eq!((main.is_of(spec), status.is_of(spec)), (matches_main, matches_status), "{spec}");
    }
}

fn parse(method: &str, uri: &str, content_type: Option<&str>) -> Target {
    Target::parse(&method.parse().unwrap(), &uri.parse().unwrap(), content_type)
}
