use k8s_openapi::{
    api::core::v1::Namespace, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kantor::planes::{
    Access, AddressPolicy, Capability, DisconnectReason, Kind, NotConnected, PlaneOptions, PlaneState, Served,
};
use kantor_core::known::Known;
use kantor_testbed::{
    KubeconfigSpec, ServiceAccountAccess,
    certificates::Authority,
    kubeconfig::Auth,
    proxy::{Action, Fault, Match, Proxy},
    wait::{self, Seen},
};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

use crate::support::{PATIENCE, Registry, Stage, access, bare, full, key, options, soon, token, whoami};

#[tokio::test(flavor = "multi_thread")]
async fn a_plane_tells_its_version_identity_and_parts() {
    let stage = Stage::on(full(), "parts", options()).await;
    let mut changes = stage.planes.changes();
    assert_eq!(stage.planes.state(&stage.key), None);
    stage.want(&stage.cluster.kubeconfig());
    assert_eq!(soon(changes.recv()).await.unwrap(), stage.key);
    // A server tells of a kind a moment after it was installed, so this may take a second look.
    let expected =
        ["autoscaling", "cilium", "envoy-gateway", "gateway-api", "gateway-api-grpc", "secrets-store-csi"];
    let has_all = |names: &[String]| expected.iter().all(|name| names.iter().any(|found| found == name));
    let complete = |_: Option<&PlaneState>| {
        stage.planes.get(&stage.key).ok().filter(|plane| has_all(&plane.capabilities.names()))
    };
    let plane = stage.registry.until(&stage.key, "the plane has all parts", complete).await;
    assert!(!plane.capabilities.has(Capability::Keda), "{:?}", plane.capabilities);

    let namespaces: Api<Namespace> = Api::all(stage.cluster.client());
    let uid = namespaces.get("kube-system").await.unwrap().metadata.uid.unwrap();
    assert_eq!((&plane.cluster_uid, &plane.key), (&uid, &stage.key));
    assert!(plane.server_version.starts_with("v1."), "{}", plane.server_version);
    let Some(PlaneState::Connected { server_version, cluster_uid, capabilities, .. }) =
        stage.planes.state(&stage.key)
    else {
        panic!("{:?}", stage.planes.state(&stage.key))
    };
    assert_eq!(server_version, plane.server_version);
    assert_eq!((cluster_uid, capabilities), (uid, plane.capabilities.clone()));
    // All that it took, with the operator's name on each request.
    let agent = format!("kantor/{}", kantor::VERSION);
    assert!(stage.proxy.requests().iter().all(|record| record.user_agent.as_ref() == Some(&agent)));
    assert!(stage.proxy.requests().writes().is_empty(), "{}", stage.proxy.requests());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_custom_resource_that_comes_later_is_noticed() {
    let (stage, plane) = Stage::connected("later").await;
    assert!(plane.capabilities.has(Capability::Autoscaling));
    assert!(!plane.capabilities.has(Capability::Keda) && !plane.capabilities.has(Capability::GatewayApi));
    let mut changes = stage.planes.changes();

    stage.cluster.apply_yaml(KEDA).await.unwrap();
    let has_keda = |state: Option<&PlaneState>| matches!(state, Some(PlaneState::Connected { capabilities, .. }) if capabilities.has(Capability::Keda));
    stage.registry.until(&stage.key, "the plane has KEDA", |state| has_keda(state).then_some(())).await;
    assert!(stage.planes.get(&stage.key).unwrap().capabilities.has(Capability::Keda));
    assert_eq!(soon(changes.recv()).await.unwrap(), stage.key);
    assert!(!plane.cancelled().is_cancelled(), "the connection is the same");

    let definitions: Api<CustomResourceDefinition> = Api::all(stage.cluster.client());
    definitions.delete("scaledobjects.keda.sh", &DeleteParams::default()).await.unwrap();
    let without = |state: Option<&PlaneState>| (state.is_some() && !has_keda(state)).then_some(());
    stage.registry.until(&stage.key, "the plane has no KEDA", without).await;
}

/// A definition of `never.example` with this plural and kind, in one version that is `served` or not.
fn definition(plural: &str, kind: &str, served: bool) -> CustomResourceDefinition {
    let names =
        json!({"plural": plural, "singular": plural, "kind": kind, "listKind": format!("{plural}List")});
    let version = json!({"name": "v1", "served": served, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
    serde_json::from_value(json!({
        "metadata": {"name": format!("{plural}.never.example")},
        "spec": {"group": "never.example", "scope": "Namespaced", "names": names, "versions": [version]},
    }))
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_is_never_served_is_told_from_one_that_may_have_objects() {
    let (stage, plane) = Stage::connected("never").await;
    let definitions: Api<CustomResourceDefinition> = Api::all(stage.cluster.client());
    let make = async |definition: CustomResourceDefinition| {
        definitions.create(&PostParams::default(), &definition).await.unwrap();
    };
    let until = async |what: &str, seen: &dyn Fn(&Known<Served>) -> bool| {
        wait::until(what, PATIENCE, || async {
            let known = plane.known(&Kind::new("never.example", "v1", "Gadget"));
            Ok(if seen(&known) { Seen::Done(()) } else { Seen::NotYet(format!("{known:?}")) })
        })
        .await
        .unwrap();
    };
    let is_absent = |known: &Known<Served>| matches!(known, Known::Absent(_));
    let is_seen = |name: &str| plane.unseen().unwrap().iter().all(|group| group != name);
    make(definition("firsts", "First", true)).await;
    until("the first is served, and there is no other", &is_absent).await;
    // Its kind is that of the first: it is not served, and never was.
    make(definition("seconds", "First", true)).await;
    wait::until("its names are not accepted", PATIENCE, || async {
        let found = definitions.get("seconds.never.example").await?;
        let conditions = found.status.and_then(|status| status.conditions).unwrap_or_default();
        let refused = conditions.iter().any(|said| said.type_ == "NamesAccepted" && said.status == "False");
        Ok(if refused { Seen::Done(()) } else { Seen::NotYet(format!("{conditions:?}")) })
    })
    .await
    .unwrap();
    until("the second is known to have no objects", &is_absent).await;
    assert!(is_seen("never.example"));
    // One that finds it there knows as much from the start.
    stage.planes.want(&key("never-later"), stage.access(&stage.cluster.kubeconfig()));
    let later = stage.registry.connected(&key("never-later")).await;
    assert!(is_absent(&later.known(&Kind::new("never.example", "v1", "Gadget"))));

    // Of one that serves no version there may be objects.
    make(definition("thirds", "Third", false)).await;
    let says_why = |known: &Known<Served>| matches!(known, Known::Unknown(why) if why.contains("thirds.never.example") && why.contains("set served"));
    until("the third says why it is not served", &says_why).await;
    assert!(!is_seen("never.example"));
    definitions.delete("thirds.never.example", &DeleteParams::default()).await.unwrap();
    until("the third has gone", &is_absent).await;

    // The first gives its kind away, and the second is served.
    definitions.delete("firsts.never.example", &DeleteParams::default()).await.unwrap();
    wait::until("the second is served", PATIENCE, || async {
        let known = plane.known(&Kind::new("never.example", "v1", "First"));
        let is_second = matches!(&known, Known::Present(served) if served.resource.plural == "seconds");
        Ok(if is_second { Seen::Done(()) } else { Seen::NotYet(format!("{known:?}")) })
    })
    .await
    .unwrap();
    definitions.delete("seconds.never.example", &DeleteParams::default()).await.unwrap();
}

const KEDA: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: scaledobjects.keda.sh}
spec:
  group: keda.sh
  names: {kind: ScaledObject, listKind: ScaledObjectList, plural: scaledobjects, singular: scaledobject}
  scope: Namespaced
  versions:
  - {name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
";

#[tokio::test(flavor = "multi_thread")]
async fn the_operators_own_cluster_is_reached_with_the_operators_own_identity() {
    let proxy = Proxy::start(bare()).unwrap();
    let spec = bare().kubeconfig().at(proxy.url(), proxy.ca_pem());
    let registry = Registry::new(options(), Some(spec.to_config().await.unwrap()));
    let key = key("own");
    registry.planes.want(&key, Access::InCluster);
    let plane = registry.connected(&key).await;
    assert!(!crate::support::whoami(&plane.calls()).await.unwrap().is_empty());
    let agent = format!("kantor/{}", kantor::VERSION);
    for record in proxy.requests() {
        assert!(record.credential.is_token(token(&spec)), "{record}");
        assert_eq!(record.user_agent.as_ref(), Some(&agent), "{record}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_way_to_fail_has_its_reason_and_says_what_to_do() {
    let stage = Stage::new("reasons").await;
    let good = stage.cluster.kubeconfig();
    let wrong_token = KubeconfigSpec { auth: Auth::Token("wrong".to_owned()), ..good.clone() };
    let powerless = ServiceAccountAccess::new(&stage.namespace, "powerless");
    let powerless = stage.cluster.service_account_kubeconfig(&powerless).await.unwrap();
    let foreign = Authority::new("foreign").unwrap();
    let foreign_certificate = KubeconfigSpec {
        auth: Auth::ClientCertificate(foreign.issue_client("ann", &["system:masters"]).unwrap()),
        ..good.clone()
    };
    let through = |spec: &KubeconfigSpec| stage.access(spec);
    let Access::Remote(mut under_another_name) = through(&good) else { panic!() };
    under_another_name.tls_server_name = Some("elsewhere.example.com".to_owned());
    let under_another_name = Access::Remote(under_another_name);
    let cases = [
        ("wrong token", through(&wrong_token), DisconnectReason::Unauthorized, "valid ones"),
        ("foreign certificate", through(&foreign_certificate), DisconnectReason::Unauthorized, "valid ones"),
        ("no rights", through(&powerless), DisconnectReason::Forbidden, "grant"),
        (
            "wrong authority",
            access(&good.at(stage.proxy.url(), foreign.pem())),
            DisconnectReason::TlsFailed,
            "certificate-authority-data",
        ),
        ("wrong name", under_another_name, DisconnectReason::TlsFailed, "tls-server-name"),
        (
            "nobody there",
            access(&good.at(stage.proxy.url().replace("127.0.0.1", "127.0.0.2"), stage.proxy.ca_pem())),
            DisconnectReason::Unreachable,
            "address",
        ),
    ];
    for (name, access, reason, word) in cases {
        let key = key(&name.replace(' ', "-"));
        stage.planes.want(&key, access);
        let message = stage.registry.lost(&key, &reason).await;
        assert!(message.contains(word), "{name}: {message}");
        let error = stage.planes.get(&key).unwrap_err();
        assert!(error.to_string().contains(&message) && error.to_string().contains(&key.name), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_a_kubernetes_api_is_told_apart_from_a_sick_one() {
    for (code, reason) in [(404, DisconnectReason::NotKubernetes), (503, DisconnectReason::Unhealthy)] {
        let stage = Stage::new(&format!("answers-{code}")).await;
        let fault = stage.proxy.fault(Fault::when(Match::new().path("/version")).then(Action::status(code)));
        stage.want(&stage.cluster.kubeconfig());
        stage.lost(reason).await;
        fault.remove();
        stage.plane().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_ready_is_not_asked_what_it_serves() {
    let stage = Stage::new("not-ready").await;
    let readyz = || Match::new().path("/readyz");
    let fault = stage.proxy.fault(Fault::when(readyz()).then(Action::status(500)));
    stage.want(&stage.cluster.kubeconfig());
    let message = stage.lost(DisconnectReason::Unhealthy).await;
    assert!(message.contains("/readyz"), "{message}");
    let asked = stage.proxy.requests().filter(|record| record.target.path == "/apis");
    assert!(asked.is_empty(), "{asked}");
    fault.remove();
    stage.plane().await;
    // Whoever may not ask is not kept out: what is not known then stays unknown.
    let stage = Stage::new("may-not-ask").await;
    let fault = stage.proxy.fault(Fault::when(readyz()).then(Action::status(403)));
    stage.want(&stage.cluster.kubeconfig());
    stage.plane().await;
    fault.remove();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_leads_to_an_address_that_no_plane_may_have_is_not_followed() {
    let strict = PlaneOptions { addresses: AddressPolicy { allow_loopback: false }, ..options() };
    let stage = Stage::on(bare(), "rebound", strict).await;
    let by_name = stage.proxy.url().replace("127.0.0.1", "localhost");
    stage
        .planes
        .want(&stage.key, access(&stage.cluster.kubeconfig().at(by_name.clone(), stage.proxy.ca_pem())));
    let message = stage.lost(DisconnectReason::Unreachable).await;
    assert!(message.contains("no address that a plane may have"), "{message}");
    assert!(stage.proxy.requests().is_empty(), "{}", stage.proxy.requests());
    // Where it may have it, the name is as good as the address.
    let lenient = Stage::new("by-name").await;
    lenient.planes.want(&lenient.key, access(&stage.cluster.kubeconfig().at(by_name, stage.proxy.ca_pem())));
    lenient.plane().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_cannot_be_sent_makes_calls_fail_rather_than_go_out_in_our_own_name() {
    let (stage, plane) = Stage::connected("unsendable").await;
    let mark = stage.proxy.mark();
    whoami(&plane.calls_as(Some("system:serviceaccount:a:b\nevil"))).await.unwrap_err();
    let sent = stage.proxy.since(mark).filter(|record| record.resource() == "selfsubjectreviews");
    assert!(sent.is_empty(), "{sent}");
    whoami(&plane.calls_as(Some("system:serviceaccount:a:b"))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn another_cluster_at_the_address_is_reported_and_not_used() {
    let (stage, plane) = Stage::connected("identity").await;
    let uid = plane.cluster_uid.clone();
    let other = Proxy::start(full()).unwrap();
    stage.planes.want(&stage.key, access(&full().kubeconfig().at(other.url(), other.ca_pem())));
    let found = stage
        .registry
        .until(&stage.key, "the other cluster is noticed", |state| match state {
            Some(PlaneState::Disconnected {
                why: DisconnectReason::IdentityChanged { recorded, found },
                ..
            }) => {
                assert_eq!(*recorded, uid);
                Some(found.clone())
            }
            _ => None,
        })
        .await;
    assert!(matches!(stage.planes.get(&stage.key), Err(NotConnected::Disconnected { .. })));
    // Back at its old address it is the plane again.
    stage.want(&stage.cluster.kubeconfig());
    assert_eq!(stage.plane().await.cluster_uid, uid);
    // Forgotten and wanted anew, it may be the other cluster.
    soon(stage.planes.forget(&stage.key)).await;
    stage.planes.want(&stage.key, access(&full().kubeconfig().at(other.url(), other.ca_pem())));
    assert_eq!(stage.plane().await.cluster_uid, found);
    // One that was known before the operator started is not mistaken either.
    let known = key("identity-known");
    stage.planes.want_known(&known, stage.access(&stage.cluster.kubeconfig()), Some(found.clone()), None);
    stage.registry.lost(&known, &DisconnectReason::IdentityChanged { recorded: found, found: uid }).await;
}

/// A TLS server that shows this certificate, and does nothing else.
fn tls_server(certificate: &rcgen::Certificate, key: &rcgen::KeyPair) -> std::net::SocketAddr {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let config = std::sync::Arc::new(config);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut connection = rustls::ServerConnection::new(config.clone()).unwrap();
            // Until the client goes.
            let mut stream = stream.unwrap();
            while connection.complete_io(&mut stream).is_ok_and(|(read, _)| read > 0) {}
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_the_certificate_of_an_authority_says_what_to_issue_instead() {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).unwrap();
    let address = tls_server(&certificate, &key);
    let registry = Registry::new(options(), None);
    let plane = crate::support::key("authority");
    let spec = KubeconfigSpec {
        auth: Auth::Token("token".to_owned()),
        ..bare().kubeconfig().at(format!("https://{address}"), certificate.pem())
    };
    registry.planes.want(&plane, access(&spec));
    let message = registry.lost(&plane, &DisconnectReason::TlsFailed).await;
    assert!(message.contains("CA:FALSE"), "{message}");
}
