//! A good kubeconfig that becomes one that is refused.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_that_becomes_a_refused_one_ends_the_connection() {
    let (control, plane) = tokio::join!(acme(), plain_plane("plane"));
    let proxy = Proxy::start(&plane).unwrap();
    let kubeconfig = plane_kubeconfig(&plane).await.at(proxy.url(), proxy.ca_pem());
    register(&control, "plane", &kubeconfig).await;
    plane_ready(&control, "plane").await;
    assert!(proxy.requests().iter().any(kantor_testbed::proxy::Record::is_open_watch));

    let hostile =
        kubeconfig.to_yaml().replace("users:", "users:\n- name: other\n  user: {exec: {command: sh}}");
    assert_ne!(hostile, kubeconfig.to_yaml());
    let data = json!({"data": {"kubeconfig": BASE64_STANDARD.encode(hostile)}});
    control.patch::<Secret>("acme/plane", data).await;
    wait_plane_condition(&control, "plane", "False", "KubeconfigRefused").await;
    wait::until("nothing is open", PATIENCE, || async {
        let open = proxy.requests().filter(|record| !record.is_over());
        Ok(if open.is_empty() { Seen::Done(()) } else { Seen::NotYet(open.to_string()) })
    })
    .await
    .unwrap();
    let metrics = control.operator.get("/metrics").await.unwrap().1;
    assert!(!metrics.contains(r#"kantor_plane_connected{data_plane="acme/plane"}"#), "{metrics}");
}
