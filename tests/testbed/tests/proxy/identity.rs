//! Who the server thinks is asking.

use hyper::Request;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kantor_testbed::{
    Auth, KubeconfigSpec,
    certificates::Authority,
    proxy::{Credential, Proxy, Upstream},
};
use kube::{Api, Client, Error, api::PostParams};

use crate::stand::{Stand, cluster, run, through};

#[test]
fn a_client_certificate_is_who_it_says() {
    run(async {
        let stand = Stand::new("certificate").await;
        let spec = stand.cluster.client_certificate_kubeconfig("ann", &["dev", "ops"]).unwrap();
        let client = through(&stand.proxy, &spec).await;
        let (user, groups) = who(&client).await.unwrap();
        assert_eq!(user, "ann");
        assert!(["dev", "ops"].iter().all(|group| groups.iter().any(|found| found == group)), "{groups:?}");
        let Credential::Certificate { user, mut groups } = stand.proxy.requests()[0].credential.clone()
        else {
            panic!("{}", stand.proxy.requests())
        };
        groups.sort();
        assert_eq!((user.as_str(), groups), ("ann", vec!["dev".to_owned(), "ops".to_owned()]));
    });
}

#[test]
fn claimed_identities_are_stripped() {
    run(async {
        let stand = Stand::new("spoof").await;
        let ann = stand.cluster.client_certificate_kubeconfig("ann", &["dev"]).unwrap();
        for (client, expected) in [
            (through(&stand.proxy, &ann).await, "ann"),
            (through(&stand.proxy, &anonymous(&ann)).await, "system:anonymous"),
        ] {
            let request = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
                .header("content-type", "application/json")
                .header("X-Remote-User", "root")
                .header("x-remote-group", "system:masters")
                .header("X-Remote-Extra-Scopes", "all")
                .header("X-Remote-Uid", "0")
                .body(br#"{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}"#.to_vec())
                .unwrap();
            let answer = client.request_text(request).await.map_err(|error| error.to_string());
            let text = answer.unwrap_or_else(|error| error);
            assert!(text.contains(expected), "{text}");
            for spoofed in ["root", "system:masters", "scopes"] {
                assert!(!text.contains(spoofed), "{text}");
            }
        }
    });
}

#[test]
fn a_token_passes_and_is_kept_as_a_digest() {
    run(async {
        let stand = Stand::new("token").await;
        let Auth::Token(token) = stand.cluster.kubeconfig().auth else {
            panic!("the administrator has a token")
        };
        assert!(who(&stand.client).await.is_ok());
        let record = stand.proxy.requests()[0].clone();
        assert!(record.credential.is_token(&token) && !record.credential.is_token("other"));
        assert!(!format!("{record:?}").contains(&token));
        let wrong = KubeconfigSpec { auth: Auth::Token("other".to_owned()), ..stand.cluster.kubeconfig() };
        let Err(Error::Api(status)) = who(&through(&stand.proxy, &wrong).await).await else {
            panic!("accepted")
        };
        assert_eq!(status.code, 401);
        assert!(stand.proxy.requests()[1].forwarded);
    });
}

#[test]
fn a_certificate_of_another_authority_is_answered_401() {
    run(async {
        let stand = Stand::new("foreign").await;
        let identity = Authority::new("foreign").unwrap().issue_client("ann", &["system:masters"]).unwrap();
        let spec = KubeconfigSpec { auth: Auth::ClientCertificate(identity), ..stand.cluster.kubeconfig() };
        let Err(Error::Api(status)) = who(&through(&stand.proxy, &spec).await).await else {
            panic!("accepted")
        };
        assert_eq!((status.code, status.reason.as_str()), (401, "Unauthorized"));
        let record = stand.proxy.requests()[0].clone();
        assert_eq!((record.credential, record.forwarded), (Credential::RejectedCertificate, false));
        // A real apiserver says the same.
        let Err(Error::Api(status)) = who(&spec.client().await.unwrap()).await else { panic!("accepted") };
        assert_eq!(status.code, 401);
    });
}

#[test]
fn without_a_client_authority_certificates_are_not_asked_for() {
    run(async {
        let cluster = cluster().await;
        let upstream = Upstream { client_ca_pem: None, front_proxy: None, ..Upstream::from(cluster) };
        let proxy = Proxy::start(upstream.clone()).unwrap();
        let spec = cluster.client_certificate_kubeconfig("ann", &[]).unwrap();
        // Anonymous, who may not even ask who it is.
        who(&through(&proxy, &spec).await).await.unwrap_err();
        assert_eq!(proxy.requests()[0].credential, Credential::None);
        let half = Upstream { client_ca_pem: Some(cluster.client_ca_pem().to_owned()), ..upstream };
        let error = Proxy::start(half).err().unwrap();
        assert!(error.to_string().contains("front-proxy"), "{error}");
    });
}

fn anonymous(spec: &KubeconfigSpec) -> KubeconfigSpec {
    KubeconfigSpec { auth: Auth::Anonymous, ..spec.clone() }
}

async fn who(client: &Client) -> kube::Result<(String, Vec<String>)> {
    let review =
        Api::all(client.clone()).create(&PostParams::default(), &SelfSubjectReview::default()).await?;
    let user = review.status.unwrap().user_info.unwrap();
    Ok((user.username.unwrap(), user.groups.unwrap_or_default()))
}
