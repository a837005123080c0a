//! Clusters that hang and clusters that are down.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kantor_testbed::{
    Cluster,
    wait::{Seen, until},
};
use kube::Api;

use crate::observe::LIMIT;

const CONFIG: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: kept}, data: {a: b}}";

async fn answers(cluster: &Cluster) {
    until("the cluster answers", LIMIT, || async {
        Ok(match cluster.client().apiserver_version().await {
            Ok(_) => Seen::Done(()),
            Err(error) => Seen::NotYet(error.to_string()),
        })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_paused_cluster_hangs_until_it_is_resumed() {
    let cluster = Cluster::start().await.unwrap();
    cluster.pause().unwrap();
    // Neither a refusal nor an answer: the only thing to see of a hang is that time passes.
    let client = cluster.client();
    let request = client.apiserver_version();
    tokio::pin!(request);
    assert!(tokio::time::timeout(Duration::from_secs(2), &mut request).await.is_err());
    cluster.resume().unwrap();
    tokio::time::timeout(LIMIT, request).await.unwrap().unwrap();
    answers(&cluster).await;
    // A cluster that is dropped while it hangs must end too.
    cluster.pause().unwrap();
}

#[tokio::test]
async fn a_killed_apiserver_refuses_and_its_restart_heals_with_all_data() {
    let cluster = Cluster::start().await.unwrap();
    cluster.apply_yaml(CONFIG).await.unwrap();
    let kubeconfig = cluster.kubeconfig();
    cluster.kill_apiserver();
    let port = cluster.url().rsplit(':').next().unwrap().parse::<u16>().unwrap();
    let refused = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    assert!(cluster.pause().is_err(), "paused a process that does not run");

    cluster.restart_apiserver().await.unwrap();
    let client = kubeconfig.client().await.unwrap();
    let kept = Api::<ConfigMap>::default_namespaced(client).get("kept").await.unwrap();
    assert_eq!(kept.data.unwrap()["a"], "b");
}
