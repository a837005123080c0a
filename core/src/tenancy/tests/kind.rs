use rstest::rstest;

use super::*;

const NEEDS_CLUSTER_ENTRY: Option<&str> =
    Some("kinds without a namespace need an entry in the data plane's releasePolicy.clusterScopedKinds");
const NEEDS_ENTRY: Option<&str> = Some("not among the data plane's releasePolicy.allowedKinds");
const NEEDS_GROUP: Option<&str> = Some("that names the group");
const DENIED: Option<&str> = Some("releasePolicy.deniedKinds");

#[rstest]
#[case::by_name(&["Deployment.apps"], in_namespace("Deployment.apps", "acme-a"), DENIED)]
#[case::by_group(&["*.apps"], in_namespace("Deployment.apps", "acme-a"), DENIED)]
#[case::all(&["*"], in_namespace("ConfigMap", "acme-a"), DENIED)]
#[case::one_of_several(&["Job.batch", "Secret"], in_namespace("Secret", "acme-a"), DENIED)]
#[case::without_a_namespace(&["PersistentVolume"], cluster_wide("PersistentVolume"), DENIED)]
#[case::namespaces(&["Namespace"], namespace("acme-a"), DENIED)]
#[case::guarded(&["*.rbac.*"], in_namespace("Role.rbac.authorization.k8s.io", "acme-a"), DENIED)]
#[case::another_kind(&["Job.batch"], in_namespace("Deployment.apps", "acme-a"), None)]
#[case::another_group(&["Deployment"], in_namespace("Deployment.apps", "acme-a"), None)]
#[case::another_case(&["deployment.apps"], in_namespace("Deployment.apps", "acme-a"), None)]
#[case::nothing(&[], in_namespace("Deployment.apps", "acme-a"), None)]
fn what_is_denied_is_refused_whatever_allows_it(
    #[case] denied: &[&str],
    #[case] object: Object<'_>,
    #[case] expected: Option<&str>,
) {
    let policy = ReleasePolicy {
        denied_kinds: texts(denied),
        allowed_kinds: texts(&["*", "*.rbac.authorization.k8s.io"]),
        cluster_scoped_kinds: texts(&["*"]),
        namespaces: texts(&["*"]),
        ..ReleasePolicy::default()
    };
    assert_refused(refused(Some(&policy), object, &Labels::new()).as_ref(), expected);
}

#[rstest]
#[case::without_entries(&[], "ClusterRoleBinding.rbac.authorization.k8s.io", NEEDS_CLUSTER_ENTRY)]
#[case::core(&[], "PersistentVolume", NEEDS_CLUSTER_ENTRY)]
#[case::named(&["PersistentVolume"], "PersistentVolume", None)]
#[case::another(&["PersistentVolume"], "Node", NEEDS_CLUSTER_ENTRY)]
#[case::any(&["*"], "StorageClass.storage.k8s.io", None)]
#[case::of_a_group(&["*.storage.k8s.io"], "StorageClass.storage.k8s.io", None)]
#[case::uppercase(&["PERSISTENTVOLUME"], "PersistentVolume", NEEDS_CLUSTER_ENTRY)]
#[case::any_is_not_rbac(&["*"], "ClusterRoleBinding.rbac.authorization.k8s.io", NEEDS_GROUP)]
#[case::many_are_not_rbac(&["**", "*.*", "*.*k8s.io"], "ClusterRole.rbac.authorization.k8s.io", NEEDS_GROUP)]
#[case::any_is_not_ours(&["*"], "Organization.openchoreo.dev", NEEDS_GROUP)]
#[case::any_is_no_webhook(&["*"], "MutatingWebhookConfiguration.admissionregistration.k8s.io", NEEDS_GROUP)]
#[case::any_is_no_api_service(&["*"], "APIService.apiregistration.k8s.io", NEEDS_GROUP)]
#[case::any_is_no_gateway_class(&["*"], "GatewayClass.gateway.networking.k8s.io", NEEDS_GROUP)]
#[case::any_is_no_ingress_class(&["*"], "IngressClass.networking.k8s.io", NEEDS_GROUP)]
#[case::any_is_no_admin_policy(&["*"], "AdminNetworkPolicy.policy.networking.k8s.io", NEEDS_GROUP)]
#[case::any_is_no_wide_policy(&["*"], "CiliumClusterwideNetworkPolicy.cilium.io", NEEDS_GROUP)]
#[case::named_gateway_class(&["GatewayClass.gateway.networking.k8s.io"], "GatewayClass.gateway.networking.k8s.io", None)]
#[case::any_is_no_certificate(&["*"], "CertificateSigningRequest.certificates.k8s.io", NEEDS_GROUP)]
#[case::any_is_no_token_review(&["*"], "TokenReview.authentication.k8s.io", NEEDS_GROUP)]
#[case::any_is_no_access_review(&["*"], "SubjectAccessReview.authorization.k8s.io", NEEDS_GROUP)]
#[case::rbac_by_group(&["*.rbac.authorization.k8s.io"], "ClusterRole.rbac.authorization.k8s.io", None)]
#[case::rbac_by_kind(
    &["ClusterRole.rbac.authorization.k8s.io"], "ClusterRole.rbac.authorization.k8s.io", None
)]
#[case::rbac_by_another_kind(
    &["*", "ClusterRole.rbac.authorization.k8s.io"],
    "ClusterRoleBinding.rbac.authorization.k8s.io",
    NEEDS_GROUP
)]
#[case::rbac_without_its_group(&["ClusterRole"], "ClusterRole.rbac.authorization.k8s.io", NEEDS_GROUP)]
#[case::somebody_elses_namespace_kind(&[], "Namespace.example.com", NEEDS_CLUSTER_ENTRY)]
fn a_kind_without_a_namespace_needs_an_entry(
    #[case] cluster_scoped: &[&str],
    #[case] kind: &str,
    #[case] expected: Option<&str>,
) {
    // Neither kinds with a namespace nor namespaces that are allowed open it.
    let policy = ReleasePolicy {
        allowed_kinds: texts(&["*", "*.rbac.authorization.k8s.io"]),
        cluster_scoped_kinds: texts(cluster_scoped),
        namespaces: texts(&["*"]),
        ..ReleasePolicy::default()
    };
    assert_refused(refused(Some(&policy), cluster_wide(kind), &Labels::new()).as_ref(), expected);
}

#[rstest]
#[case::unsaid(&[], "Deployment.apps", None)]
#[case::unsaid_core(&[], "Secret", None)]
#[case::unsaid_rbac(&[], "RoleBinding.rbac.authorization.k8s.io", NEEDS_GROUP)]
#[case::unsaid_ours(&[], "Release.openchoreo.dev", NEEDS_GROUP)]
#[case::unsaid_review(&[], "LocalSubjectAccessReview.authorization.k8s.io", NEEDS_GROUP)]
#[case::unsaid_http_route(&[], "HTTPRoute.gateway.networking.k8s.io", NEEDS_GROUP)]
#[case::unsaid_port_route(&[], "TCPRoute.gateway.networking.k8s.io", NEEDS_GROUP)]
#[case::unsaid_gateway(&[], "Gateway.gateway.networking.k8s.io", NEEDS_GROUP)]
#[case::unsaid_reference_grant(&[], "ReferenceGrant.gateway.networking.k8s.io", NEEDS_GROUP)]
#[case::unsaid_gateway_policy(&[], "BackendTLSPolicy.gateway.networking.k8s.io", NEEDS_GROUP)]
#[case::unsaid_listeners(&[], "XListenerSet.gateway.networking.x-k8s.io", NEEDS_GROUP)]
#[case::unsaid_guard(&[], "SecurityPolicy.gateway.envoyproxy.io", NEEDS_GROUP)]
#[case::unsaid_backend(&[], "Backend.gateway.envoyproxy.io", NEEDS_GROUP)]
#[case::unsaid_ingress(&[], "Ingress.networking.k8s.io", NEEDS_GROUP)]
#[case::unsaid_old_ingress(&[], "Ingress.extensions", NEEDS_GROUP)]
#[case::unsaid_mesh_route(&[], "VirtualService.networking.istio.io", NEEDS_GROUP)]
#[case::unsaid_mesh_authorization(&[], "AuthorizationPolicy.security.istio.io", NEEDS_GROUP)]
#[case::unsaid_traefik_route(&[], "IngressRoute.traefik.io", NEEDS_GROUP)]
#[case::unsaid_old_traefik_route(&[], "IngressRoute.traefik.containo.us", NEEDS_GROUP)]
#[case::unsaid_contour_proxy(&[], "HTTPProxy.projectcontour.io", NEEDS_GROUP)]
#[case::unsaid_kong_ingress(&[], "KongIngress.configuration.konghq.com", NEEDS_GROUP)]
#[case::unsaid_nginx_server(&[], "VirtualServer.k8s.nginx.org", NEEDS_GROUP)]
#[case::unsaid_ambassador_mapping(&[], "Mapping.getambassador.io", NEEDS_GROUP)]
#[case::unsaid_kuma_permission(&[], "MeshTrafficPermission.kuma.io", NEEDS_GROUP)]
#[case::unsaid_openshift_route(&[], "Route.route.openshift.io", NEEDS_GROUP)]
#[case::unsaid_dns_record(&[], "DNSEndpoint.externaldns.k8s.io", NEEDS_GROUP)]
#[case::unsaid_network_policy(&[], "NetworkPolicy.networking.k8s.io", NEEDS_GROUP)]
#[case::unsaid_cilium(&[], "CiliumNetworkPolicy.cilium.io", NEEDS_GROUP)]
#[case::unsaid_calico(&[], "NetworkPolicy.crd.projectcalico.org", NEEDS_GROUP)]
#[case::unsaid_calico_api(&[], "NetworkPolicy.projectcalico.org", NEEDS_GROUP)]
#[case::unsaid_antrea(&[], "NetworkPolicy.crd.antrea.io", NEEDS_GROUP)]
#[case::unsaid_ovn_firewall(&[], "EgressFirewall.k8s.ovn.org", NEEDS_GROUP)]
#[case::unsaid_slice(&[], "EndpointSlice.discovery.k8s.io", NEEDS_GROUP)]
#[case::unsaid_endpoints(&[], "Endpoints", NEEDS_GROUP)]
#[case::unsaid_budget(&[], "PodDisruptionBudget.policy", None)]
#[case::unsaid_quota(&[], "ResourceQuota", None)]
#[case::any_is_no_route(&["*", "*.*", "HTTPRoute.*"], "HTTPRoute.gateway.networking.k8s.io", NEEDS_GROUP)]
#[case::any_is_no_network_policy(&["*"], "NetworkPolicy.networking.k8s.io", NEEDS_GROUP)]
#[case::any_is_no_endpoints(&["*", "Endpoint*", "*."], "Endpoints", NEEDS_GROUP)]
#[case::named_route(&["*", "HTTPRoute.gateway.networking.k8s.io"], "HTTPRoute.gateway.networking.k8s.io", None)]
#[case::named_network_policy(&["NetworkPolicy.networking.k8s.io"], "NetworkPolicy.networking.k8s.io", None)]
#[case::another_is_named(&["Ingress.networking.k8s.io"], "NetworkPolicy.networking.k8s.io", NEEDS_GROUP)]
#[case::named_endpoints(&["Endpoints"], "Endpoints", None)]
#[case::unsaid_token(&[], "TokenRequest.authentication.k8s.io", NEEDS_GROUP)]
#[case::listed(&["Deployment.apps"], "Deployment.apps", None)]
#[case::listed_by_group(&["*.apps"], "Deployment.apps", None)]
#[case::unlisted(&["Deployment.apps"], "StatefulSet.apps", NEEDS_ENTRY)]
#[case::unlisted_core(&["*.apps"], "Secret", NEEDS_ENTRY)]
#[case::uppercase(&["DEPLOYMENT.APPS"], "Deployment.apps", NEEDS_ENTRY)]
#[case::any(&["*"], "Deployment.apps", None)]
#[case::any_is_not_rbac(&["*"], "RoleBinding.rbac.authorization.k8s.io", NEEDS_GROUP)]
#[case::many_are_not_rbac(&["**", "*.*", "Role*", "*.rbac.*"], "Role.rbac.authorization.k8s.io", NEEDS_GROUP)]
#[case::any_is_not_ours(&["*"], "Release.openchoreo.dev", NEEDS_GROUP)]
#[case::rbac_by_group(&["*.rbac.authorization.k8s.io"], "RoleBinding.rbac.authorization.k8s.io", None)]
#[case::rbac_by_kind(&["Role.rbac.authorization.k8s.io"], "Role.rbac.authorization.k8s.io", None)]
#[case::rbac_by_another_kind(
    &["*", "Role.rbac.authorization.k8s.io"], "RoleBinding.rbac.authorization.k8s.io", NEEDS_GROUP
)]
#[case::ours_by_group(&["*.openchoreo.dev"], "Release.openchoreo.dev", None)]
#[case::rbac_alone_closes_the_rest(&["*.rbac.authorization.k8s.io"], "ConfigMap", NEEDS_ENTRY)]
fn a_kind_with_a_namespace_is_allowed_unless_others_are_listed_or_it_gives_rights(
    #[case] allowed: &[&str],
    #[case] kind: &str,
    #[case] expected: Option<&str>,
) {
    // Entries for kinds without a namespace do not open it.
    let policy = ReleasePolicy {
        allowed_kinds: texts(allowed),
        cluster_scoped_kinds: texts(&["*", "*.rbac.authorization.k8s.io", "*.openchoreo.dev"]),
        ..ReleasePolicy::default()
    };
    assert_refused(refused(Some(&policy), in_namespace(kind, "acme-a"), &Labels::new()).as_ref(), expected);
}

#[rstest]
#[case("Deployment.apps", None)]
#[case("RoleBinding.rbac.authorization.k8s.io", NEEDS_GROUP)]
fn without_a_policy_the_rules_are_those_of_an_empty_one(#[case] kind: &str, #[case] expected: Option<&str>) {
    let object = in_namespace(kind, "acme-a");
    assert_refused(refused(None, object, &Labels::new()).as_ref(), expected);
    assert_eq!(
        refused(None, object, &Labels::new()),
        refused(Some(&ReleasePolicy::default()), object, &Labels::new())
    );
}

#[test]
fn the_denied_kind_speaks_before_the_missing_namespace() {
    let policy = ReleasePolicy { denied_kinds: texts(&["Secret"]), ..ReleasePolicy::default() };
    assert_refused(refused(Some(&policy), in_namespace("Secret", ""), &Labels::new()).as_ref(), DENIED);
}

#[test]
fn the_message_has_the_entry_that_helps() {
    let role = refused(None, cluster_wide("ClusterRole.rbac.authorization.k8s.io"), &Labels::new());
    assert_refused(role.as_ref(), Some("such as ClusterRole.rbac.authorization.k8s.io"));
    let node = refused(None, cluster_wide("Node"), &Labels::new());
    assert_eq!(
        node.unwrap(),
        "Node thing: kinds without a namespace need an entry in the data plane's releasePolicy.clusterScopedKinds, \
         such as Node"
    );
}

#[rstest]
#[case("")]
#[case(".")]
#[case("..")]
#[case("../../kube-system/secrets/token")]
#[case("web/scale")]
#[case("web?force=true")]
#[case("web#")]
#[case("%2e%2e%2fkube-system")]
#[case("web\\..")]
#[case("web\n")]
#[case("we b")]
fn a_name_that_would_lead_elsewhere_is_refused(#[case] name: &str) {
    let labels = Labels::new();
    for object in [in_namespace("ConfigMap", "acme-a"), cluster_wide("PersistentVolume")] {
        let policy = ReleasePolicy { cluster_scoped_kinds: texts(&["*"]), ..ReleasePolicy::default() };
        let asked = Object { name, ..object }.asked(&labels);
        let message = refusal(&ACME, Some(&policy), &asked, &live);
        assert_refused(message.as_ref(), Some("metadata.name"));
    }
}

#[test]
fn names_of_kinds_with_wider_rules_are_left_to_the_plane() {
    let policy =
        ReleasePolicy { allowed_kinds: texts(&["*.rbac.authorization.k8s.io"]), ..ReleasePolicy::default() };
    let role = Object { name: "system:Role", ..in_namespace("Role.rbac.authorization.k8s.io", "acme-a") };
    assert_eq!(refused(Some(&policy), role, &Labels::new()), None);
}
