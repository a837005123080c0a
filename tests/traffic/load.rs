//! Steady load, while what answers changes.

use std::time::Duration;

use kantor_testbed::wait::{self, Seen};
use serde_json::json;

use crate::{
    routes::{route, rule},
    support::{NAMESPACE, PATIENCE, Site},
};

/// Hardly any: on a busy machine, an answer in a hundred may be lost while pods change. A real pod that ends at once
/// loses more.
pub async fn a_rollout_loses_hardly_a_request(site: &Site) {
    let host = "load.localhost";
    site.apply(&[route("load", host, &rule("PathPrefix", "/", &json!([])))]).await;
    site.until(200, host, "/", &[]).await;

    let load = site.gateways.client().load(4, Duration::from_millis(5), host, "/", &[]).unwrap();
    let image = |tag: u8| format!("registry.example.com/greeter:{tag}");
    wait::until("both pods answer", PATIENCE, || async {
        let tally = load.so_far();
        Ok(if tally.pods.len() == 2 { Seen::Done(()) } else { Seen::NotYet(format!("{tally:?}")) })
    })
    .await
    .unwrap();
    let containers = json!([{"name": "main", "image": image(2), "ports": [{"containerPort": 8080}]}]);
    site.apply(&[json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "greeter", "namespace": NAMESPACE},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "greeter"}},
            "template": {"metadata": {"labels": {"app": "greeter"}}, "spec": {"containers": containers}},
        },
    })])
    .await;
    wait::until("only new pods answer", PATIENCE, || async {
        let before = load.so_far();
        let enough = before.total() + 100;
        while load.so_far().total() < enough {
            tokio::task::yield_now().await;
        }
        let (old, new) = (image(1), image(2));
        let after = load.so_far();
        let done = after.images.contains_key(&new) && before.images.get(&old) == after.images.get(&old);
        Ok(if done { Seen::Done(()) } else { Seen::NotYet(format!("{after:?}")) })
    })
    .await
    .unwrap();
    let tally = load.stop().await;
    assert!(tally.errors.is_empty() && tally.failed() * 100 <= tally.total(), "{tally:?}");
    assert_eq!(tally.pods.len(), 4, "{tally:?}");
}
