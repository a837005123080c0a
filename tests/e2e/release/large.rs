//! A Release that is as large as they come.

use kantor_api::Release;
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::json;

use super::support::{Theatre, config_map, release, resource, start_operator};

const COUNT: usize = 2000;

/// What etcd takes at the most, by default.
const LARGEST: usize = 3 << 19;

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_objects_fit_cost_nothing_when_settled_and_leave_nothing() {
    let mut theatre = Theatre::open().await;
    theatre.stage.operator.kill().unwrap();
    theatre.stage.operator.ended().await.unwrap();
    start_operator(&mut theatre.stage, &["--plane-qps=2000", "--plane-burst=4000"]).await;
    let before = theatre.snapshot().await;

    let ids: Vec<String> = (0..COUNT).map(|n| format!("settings-{n}")).collect();
    let objects: Vec<_> =
        ids.iter().map(|id| (id.as_str(), config_map(id, json!({"name": id, "colour": "blue"})))).collect();
    let mut large = serde_json::to_value(release("large", &objects)).unwrap();
    large["apiVersion"] = json!("openchoreo.dev/v1alpha1");
    large["kind"] = json!("Release");
    let api: Api<Release> = Api::namespaced(theatre.stage.client.clone(), "acme");
    api.patch("large", &PatchParams::apply("somebody"), &Patch::Apply(large)).await.unwrap();
    let release = theatre.ready("large").await;
    let entries = &release.status.as_ref().unwrap().resources;
    assert!(entries.len() == COUNT && entries.iter().all(|entry| entry.uid.is_some()));

    let kind = resource("openchoreo.dev/v1alpha1/Release");
    let stored: Api<DynamicObject> = Api::namespaced_with(theatre.stage.client.clone(), "acme", &kind);
    let size = serde_json::to_vec(&stored.get("large").await.unwrap()).unwrap().len();
    eprintln!("{COUNT} objects: {size} bytes");
    assert!(size < LARGEST, "{size}");

    theatre.quiet().await;
    let (here, there) = (theatre.stage.proxy.mark(), theatre.plane.proxy.mark());
    theatre.touch("large").await;
    assert!(theatre.plane.asked_since(there).is_empty(), "{}", theatre.plane.asked_since(there));
    theatre.stage.proxy.assert_no_writes_since(here);

    theatre.delete("large").await;
    theatre.nothing_left(&before).await;
}
