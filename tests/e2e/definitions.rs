//! Custom resource definitions that change under a running operator, and objects that it cannot read.

use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kantor_api::{DataPlane, Environment, Organization, organization::OrganizationSpec};
use kantor_testbed::wait::{self, Seen};
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    acme::{acme, object},
    support::{OperatorFixture, PATIENCE, condition, operator_with},
};

/// Changes the schema of a kind by a JSON patch; `path` is that of a field in it.
async fn change_schema(control: &OperatorFixture, kind: &str, op: &str, path: &str, value: Value) {
    let definitions: Api<CustomResourceDefinition> = Api::all(control.client.clone());
    let path = format!("/spec/versions/0/schema/openAPIV3Schema{path}");
    let patch = json!([{"op": op, "path": path, "value": value}]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).unwrap());
    definitions.patch(kind, &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_whose_definitions_are_exchanged_for_older_ones_ends_and_waits_for_newer_ones() {
    let mut control = acme().await;
    control.until_quiet().await;
    let gone = "/properties/status/properties/namespace";
    change_schema(&control, "organizations.openchoreo.dev", "remove", gone, Value::Null).await;
    // The API server leaves out what it does not know, also when it reads.
    control
        .until("the older definition is in force", "acme", |found: Option<&Organization>| {
            found?.status.as_ref().filter(|status| status.namespace.is_none()).map(drop)
        })
        .await;
    control.create(&Organization::new("globex", OrganizationSpec {})).await;
    let status = control.operator.ended().await.unwrap();
    let log = control.operator.log();
    assert!(!status.success() && log.contains("older than this operator needs"), "{status}: {log}");
    assert!(log.contains("status.namespace"), "{log}");

    // The next one writes nothing.
    let mark = control.proxy.mark();
    control.operator = operator_with(&control.control_plane, &control.proxy, &[]).await;
    wait::until("readiness names the old kind", PATIENCE, || async {
        let (status, body) = control.operator.get("/readyz").await?;
        let named = status == 503 && body.contains("organizations.openchoreo.dev: older");
        Ok(if named { Seen::Done(()) } else { Seen::NotYet(body) })
    })
    .await
    .unwrap();
    control.proxy.assert_no_writes_since(mark);
    let crds = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
    control.control_plane.apply_dir(&crds).await.unwrap();
    control.operator.ready().await.unwrap();
    control
        .until("the status is whole again", "globex", |found: Option<&Organization>| {
            found?.status.as_ref()?.namespace.clone()
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_holds_what_it_may_use() {
    let control = acme().await;
    let plane = object("DataPlane", "plane", json!({"kubernetesCluster": {"secretRef": {"name": "none"}}}));
    control.create::<DataPlane>(&plane).await;
    control
        .until("the data plane is noticed", "acme/plane", |plane: Option<&DataPlane>| {
            condition(plane?, "Ready").filter(|_| plane.is_some_and(|plane| !plane.finalizers().is_empty()))
        })
        .await;
    // Without its schema the API server accepts what does not fit the kind, as a newer one does.
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    change_schema(&control, "environments.openchoreo.dev", "replace", "", open).await;
    let newer: Value = object("Environment", "newer", json!("nonsense"));
    wait::until("the schema is gone", PATIENCE, || async {
        Ok(match control.control_plane.apply_yaml(&newer.to_string()).await {
            Ok(_) => Seen::Done(()),
            Err(error) => Seen::NotYet(format!("{error:#}")),
        })
    })
    .await
    .unwrap();
    let says = |words: &'static [&'static str]| {
        let operator = &control.operator;
        wait::until("the operator says so", PATIENCE, move || async move {
            let log = operator.log();
            let said = log.lines().any(|line| words.iter().all(|word| line.contains(word)));
            Ok(if said { Seen::Done(()) } else { Seen::NotYet(log) })
        })
    };
    says(&["some objects cannot be read", "newer", "environments.openchoreo.dev"]).await.unwrap();
    control.delete::<DataPlane>("acme/plane").await;
    says(&["reconcile failed", "1 of its objects cannot be read", "plane"]).await.unwrap();
    let plane = control.wait_exists::<DataPlane>("acme/plane").await;
    assert!(!plane.finalizers().is_empty(), "{plane:#?}");

    let resource = ApiResource::erase::<Environment>(&());
    let environments: Api<DynamicObject> = Api::namespaced_with(control.client.clone(), "acme", &resource);
    environments.delete("newer", &DeleteParams::default()).await.unwrap();
    control.until_gone::<DataPlane>("acme/plane").await;
}
