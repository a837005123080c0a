//! Drift: somebody changes an object on a data plane, until it is as it was.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
};
use serde_json::json;

use super::{
    edit::report,
    result::{Case, Run},
    sample,
    stand::{PATIENCE, Stand},
    watching::Watches,
};

/// In milliseconds.
const GOAL: f64 = 1000.0;
const IMAGE: &str = "/spec/template/spec/containers/0/image";

/// Changes images of workloads, and deletes Services.
pub(crate) async fn measure(stand: &Stand, case: &Case, count: usize, run: &mut Run) -> Result<()> {
    stand.ground.quiet().await?;
    let (mut changed, mut deleted) = (Vec::new(), Vec::new());
    for plane in 0..stand.ground.planes.len() {
        let client = &stand.ground.planes[plane].client;
        let workloads = sample::all(client, "apps/v1/Deployment");
        let services = sample::all(client, "v1/Service");
        let owned = "openchoreo.dev/owner-uid";
        let mut watches = Watches::open(vec![(workloads, owned), (services, owned)]).await?;
        let share = count.div_ceil(stand.ground.planes.len());
        let workloads = stand.on_plane(plane, "apps/v1/Deployment").await?;
        for workload in workloads.iter().cycle().take(share) {
            changed.push(change_image(stand, plane, workload, &mut watches).await?);
        }
        let services = stand.on_plane(plane, "v1/Service").await?;
        for service in services.iter().take(share) {
            deleted.push(delete(stand, plane, service, &mut watches).await?);
        }
    }
    report(run, "drift", case, "changed field repaired", &changed, Some(GOAL));
    report(run, "drift", case, "deleted object made again", &deleted, Some(GOAL));
    Ok(())
}

/// Milliseconds until the image is as it was.
async fn change_image(
    stand: &Stand,
    plane: usize,
    workload: &DynamicObject,
    watches: &mut Watches,
) -> Result<f64> {
    let container = &workload.data["spec"]["template"]["spec"]["containers"][0];
    let image = container["image"].clone();
    let foreign = json!([{"name": container["name"], "image": "registry.example.com/foreign:1"}]);
    let patch = Patch::Strategic(json!({"spec": {"template": {"spec": {"containers": foreign}}}}));
    let params = PatchParams { field_manager: Some("somebody".to_owned()), ..PatchParams::default() };
    watches.drain();
    let sent = Instant::now();
    let changed = api(stand, plane, "apps/v1/Deployment", workload)
        .patch(&workload.name_any(), &params, &patch)
        .await?;
    let version = version(&changed).context("an object without a version")?;
    let repaired = watches.until("a change is repaired", PATIENCE, |sight| {
        sight.watch == 0
            && sight.object.metadata.uid == workload.metadata.uid
            && self::version(&sight.object).is_some_and(|seen| seen > version)
            && sight.object.data.pointer(IMAGE) == Some(&image)
    });
    Ok(milliseconds(repaired.await?.duration_since(sent)))
}

/// Milliseconds until another one is there.
async fn delete(stand: &Stand, plane: usize, service: &DynamicObject, watches: &mut Watches) -> Result<f64> {
    watches.drain();
    let sent = Instant::now();
    api(stand, plane, "v1/Service", service).delete(&service.name_any(), &DeleteParams::default()).await?;
    let made = watches.until("a deleted Service is made again", PATIENCE, |sight| {
        let same =
            sight.object.name_any() == service.name_any() && sight.object.namespace() == service.namespace();
        sight.watch == 1 && same && !sight.gone && sight.object.metadata.uid != service.metadata.uid
    });
    Ok(milliseconds(made.await?.duration_since(sent)))
}

fn api(stand: &Stand, plane: usize, kind: &str, object: &DynamicObject) -> Api<DynamicObject> {
    let client = stand.ground.planes[plane].client.clone();
    Api::namespaced_with(client, &object.namespace().unwrap_or_default(), &sample::resource(kind))
}

fn version(object: &DynamicObject) -> Option<u64> {
    object.resource_version()?.parse().ok()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_image_is_that_of_the_first_container() {
        let workload = json!({"spec": {"template": {"spec": {"containers": [{"image": "a"}]}}}});
        assert_eq!(workload.pointer(IMAGE).and_then(Value::as_str), Some("a"));
    }
}
