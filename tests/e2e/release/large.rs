//! A Release that is as large as they come.

use kantor_api::Release;
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::json;

use super::support::{ReleaseFixture, config_map, release, resource, start_operator};

const COUNT: usize = 2000;

/// What etcd takes at the most, by default.
const LARGEST: usize = 3 << 19;

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_objects_fit_cost_nothing_when_settled_and_leave_nothing() {
    let mut fixture = ReleaseFixture::open().await;
    fixture.control.operator.kill().unwrap();
    fixture.control.operator.ended().await.unwrap();
    start_operator(&mut fixture.control, &["--plane-qps=2000", "--plane-burst=4000"]).await;
    let before = fixture.snapshot().await;

    let ids: Vec<String> = (0..COUNT).map(|n| format!("settings-{n}")).collect();
    let objects: Vec<_> =
        ids.iter().map(|id| (id.as_str(), config_map(id, json!({"name": id, "colour": "blue"})))).collect();
    let mut large = serde_json::to_value(release("large", &objects)).unwrap();
    large["apiVersion"] = json!("openchoreo.dev/v1alpha1");
    large["kind"] = json!("Release");
    let api: Api<Release> = Api::namespaced(fixture.control.client.clone(), "acme");
    api.patch("large", &PatchParams::apply("somebody"), &Patch::Apply(large)).await.unwrap();
    let release = fixture.ready("large").await;
    let entries = &release.status.as_ref().unwrap().resources;
    assert!(entries.len() == COUNT && entries.iter().all(|entry| entry.uid.is_some()));

    let kind = resource("openchoreo.dev/v1alpha1/Release");
    let stored: Api<DynamicObject> = Api::namespaced_with(fixture.control.client.clone(), "acme", &kind);
    let size = serde_json::to_vec(&stored.get("large").await.unwrap()).unwrap().len();
    eprintln!("{COUNT} objects: {size} bytes");
    assert!(size < LARGEST, "{size}");

    fixture.quiet().await;
    let (here, there) = (fixture.control.proxy.mark(), fixture.plane.proxy.mark());
    fixture.touch("large").await;
    assert!(fixture.plane.asked_since(there).is_empty(), "{}", fixture.plane.asked_since(there));
    fixture.control.proxy.assert_no_writes_since(here);

    fixture.delete("large").await;
    fixture.nothing_left(&before).await;
}
