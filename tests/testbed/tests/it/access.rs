//! Who may do what.

use k8s_openapi::api::{
    authentication::v1::SelfSubjectReview,
    core::v1::{ConfigMap, Secret},
    rbac::v1::PolicyRule,
};
use kantor_testbed::{Auth, Cluster, KubeconfigSpec, ServiceAccountAccess};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};

use crate::observe::shared_cluster;

fn read(resource: &str) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![String::new()]),
        resources: Some(vec![resource.to_owned()]),
        verbs: vec!["get".to_owned(), "list".to_owned()],
        ..PolicyRule::default()
    }
}

fn code<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> u16 {
    let Err(kube::Error::Api(status)) = result else { panic!("not refused: {result:?}") };
    status.code
}

async fn who_am_i(client: Client) -> (String, Vec<String>) {
    let reviews = Api::<SelfSubjectReview>::all(client);
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await.unwrap();
    let user = review.status.unwrap().user_info.unwrap();
    (user.username.unwrap(), user.groups.unwrap())
}

#[tokio::test]
async fn a_service_account_can_do_only_what_its_rules_say() {
    let access = ServiceAccountAccess::new("team", "reader")
        .in_namespace("team", &[read("configmaps")])
        .cluster_wide(&[read("namespaces")]);
    let kubeconfig = shared_cluster().await.service_account_kubeconfig(&access).await.unwrap();
    let client = kubeconfig.client().await.unwrap();

    assert_eq!(who_am_i(client.clone()).await.0, "system:serviceaccount:team:reader");
    let everything = ListParams::default();
    let team: Api<ConfigMap> = Api::namespaced(client.clone(), "team");
    team.list(&everything).await.unwrap();
    Api::<k8s_openapi::api::core::v1::Namespace>::all(client.clone()).list(&everything).await.unwrap();
    assert_eq!(code(team.create(&PostParams::default(), &ConfigMap::default()).await), 403);
    assert_eq!(code(Api::<ConfigMap>::default_namespaced(client.clone()).list(&everything).await), 403);
    assert_eq!(code(Api::<Secret>::namespaced(client, "team").list(&everything).await), 403);
}

#[tokio::test]
async fn a_service_account_works_where_no_controllers_run() {
    let cluster = Cluster::start().await.unwrap();
    let access = ServiceAccountAccess::new("team", "reader").in_namespace("team", &[read("configmaps")]);
    let client = cluster.service_account_kubeconfig(&access).await.unwrap().client().await.unwrap();
    Api::<ConfigMap>::namespaced(client, "team").list(&ListParams::default()).await.unwrap();
}

#[tokio::test]
async fn a_client_certificate_brings_its_user_and_groups() {
    let cluster = shared_cluster().await;
    let kubeconfig = cluster.client_certificate_kubeconfig("ada", &["writers", "readers"]).unwrap();
    let client = kubeconfig.client().await.unwrap();
    let (user, groups) = who_am_i(client.clone()).await;
    assert_eq!(user, "ada");
    assert_eq!(groups, ["writers", "readers", "system:authenticated"]);
    assert_eq!(code(Api::<Secret>::default_namespaced(client).list(&ListParams::default()).await), 403);

    let admin = cluster.client_certificate_kubeconfig("root", &["system:masters"]).unwrap();
    let admin = admin.client().await.unwrap();
    Api::<Secret>::default_namespaced(admin).list(&ListParams::default()).await.unwrap();
    assert!(cluster.client_certificate_kubeconfig("many", &["a", "b", "c"]).is_err());
}

#[tokio::test]
async fn the_front_proxy_speaks_for_others_and_nobody_else_does() {
    let cluster = shared_cluster().await;
    let as_grace = |auth: Auth| async move {
        let mut config = KubeconfigSpec { auth, ..cluster.kubeconfig() }.to_config().await.unwrap();
        for (name, value) in [("x-remote-user", "grace"), ("x-remote-group", "ops")] {
            config.headers.push((name.parse().unwrap(), value.parse().unwrap()));
        }
        who_am_i(Client::try_from(config).unwrap()).await
    };
    let (user, groups) = as_grace(Auth::ClientCertificate(cluster.front_proxy_identity().clone())).await;
    assert_eq!((user.as_str(), groups[0].as_str()), ("grace", "ops"));
    let liar = cluster.ca().issue_client("mallory", &[]).unwrap();
    assert_eq!(as_grace(Auth::ClientCertificate(liar)).await.0, "mallory");
}

#[tokio::test]
async fn a_kubeconfig_holds_no_paths_and_no_secret_shows_in_debug_output() {
    let cluster = shared_cluster().await;
    let token = cluster.kubeconfig();
    let certificate = cluster.client_certificate_kubeconfig("ada", &[]).unwrap();
    for spec in [&token, &certificate] {
        let kubeconfig = spec.to_kubeconfig().unwrap();
        let user = kubeconfig.auth_infos[0].auth_info.as_ref().unwrap();
        assert!(user.token_file.is_none() && user.client_certificate.is_none() && user.client_key.is_none());
        assert!(kubeconfig.clusters[0].cluster.as_ref().unwrap().certificate_authority.is_none());
    }
    let Auth::Token(secret) = &token.auth else { panic!("the administrator has no token") };
    assert!(!format!("{token:?}").contains(secret));
    assert!(!format!("{certificate:?} {:?}", cluster.front_proxy_identity()).contains("PRIVATE KEY"));
}
