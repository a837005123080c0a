//! Organizations and their namespaces.

use k8s_openapi::api::{core::v1::Namespace, events::v1::Event};
use kantor_api::{Organization, organization::OrganizationSpec};
use kantor_testbed::{
    proxy::{Action, Fault, Match, Verb},
    snapshot::{Options, Snapshot, assert_nothing_left},
    wait::{Seen, until},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;

use crate::{
    observing::{looks, until_looked_at},
    support::{OperatorFixture, PATIENCE, condition, is_ready},
};

fn acme() -> Organization {
    Organization::new("acme", OrganizationSpec {})
}

async fn until_ready(control: &OperatorFixture, name: &str) -> Organization {
    control
        .until("the organization is ready", name, |o: Option<&Organization>| {
            o.filter(|o| is_ready(*o)).cloned()
        })
        .await
}

async fn label(control: &OperatorFixture, namespace: &str, key: &str, value: Option<&str>) {
    let namespaces: Api<Namespace> = Api::all(control.client.clone());
    let patch = json!({"metadata": {"labels": {key: value}}});
    namespaces.patch(namespace, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn until_labelled(control: &OperatorFixture, namespace: &str, key: &str, value: Option<&str>) {
    let what = format!("label {key} of namespace {namespace} is {value:?}");
    control
        .until::<Namespace, ()>(&what, namespace, |ns| {
            (ns?.labels().get(key).map(String::as_str) == value).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_organization_gets_a_namespace_keeps_it_and_takes_it_along() {
    let mut control = OperatorFixture::start().await;
    let before = Snapshot::take(&control.client, &Options::default()).await.unwrap();
    control.create(&acme()).await;

    let organization = until_ready(&control, "acme").await;
    assert_eq!(organization.finalizers(), ["openchoreo.dev/delete-namespace"]);
    assert_eq!(organization.status.as_ref().unwrap().namespace.as_deref(), Some("acme"));
    let (_, reason, _) = condition(&organization, "Ready").unwrap();
    assert_eq!(reason, "NamespaceCreated");
    let namespace = control.wait_exists::<Namespace>("acme").await;
    assert_eq!(namespace.labels()["openchoreo.dev/managed-by"], "openchoreo-control-plane");
    assert_eq!(namespace.labels()["openchoreo.dev/organization"], "acme");
    assert_eq!(namespace.labels()["openchoreo.dev/name"], "acme");
    assert_eq!(namespace.owner_references()[0].uid, organization.uid().unwrap());
    // It is told beside the work.
    let events: Api<Event> = Api::all(control.client.clone());
    let created = ListParams::default().fields("reason=NamespaceCreated");
    let told = || events.list(&created);
    until("the Event is there", PATIENCE, || async {
        let told = told().await?.items.len();
        Ok(if told > 0 { Seen::Done(()) } else { Seen::NotYet("there is none".to_owned()) })
    })
    .await
    .unwrap();

    // Foreign labels are kept, ours are restored.
    label(&control, "acme", "team", Some("blue")).await;
    label(&control, "acme", "openchoreo.dev/organization", Some("evil")).await;
    until_labelled(&control, "acme", "openchoreo.dev/organization", Some("acme")).await;
    until_labelled(&control, "acme", "team", Some("blue")).await;

    // Nothing to do costs nothing, also after a restart.
    control.until_quiet().await;
    let (mark, looked) = (control.proxy.mark(), looks(&control, "organization").await);
    let organizations: Api<Organization> = Api::all(control.client.clone());
    let touch = json!({"metadata": {"annotations": {"touched": "yes"}}});
    organizations.patch("acme", &PatchParams::default(), &Patch::Merge(touch)).await.unwrap();
    until_looked_at(&control, "organization", looked).await;
    control.until_quiet().await;
    control.proxy.assert_no_requests_since(mark);
    control.restart_operator().await;
    until_looked_at(&control, "organization", 0.0).await;
    control.until_quiet().await;
    control.proxy.assert_no_writes_since(mark);
    assert_eq!(told().await.unwrap().items.len(), 1, "one Event, on the change");

    // A namespace that somebody deletes comes back.
    let old = control.until::<Namespace, _>("the namespace is there", "acme", |ns| ns?.uid()).await;
    let namespaces: Api<Namespace> = Api::all(control.client.clone());
    namespaces.delete("acme", &DeleteParams::default()).await.unwrap();
    control
        .until::<Namespace, ()>("another namespace is there", "acme", |ns| (ns?.uid()? != old).then_some(()))
        .await;
    until_ready(&control, "acme").await;

    organizations.delete("acme", &DeleteParams::default()).await.unwrap();
    control.until_gone::<Organization>("acme").await;
    control.until_gone::<Namespace>("acme").await;
    assert_nothing_left(&before, &control.client, PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_its_own_namespace_goes_with_an_organization() {
    let control = OperatorFixture::start().await;
    // One that was there before is adopted, and let go as it was.
    control
        .create(&Namespace {
            metadata: kube::api::ObjectMeta { name: Some("acme".into()), ..Default::default() },
            ..Default::default()
        })
        .await;
    label(&control, "acme", "team", Some("blue")).await;
    let namespace = control.wait_exists::<Namespace>("acme").await;
    control.create(&acme()).await;
    until_ready(&control, "acme").await;
    until_labelled(&control, "acme", "openchoreo.dev/organization", Some("acme")).await;
    let organizations: Api<Organization> = Api::all(control.client.clone());
    organizations.delete("acme", &DeleteParams::default()).await.unwrap();
    control.until_gone::<Organization>("acme").await;
    let after = control.wait_exists::<Namespace>("acme").await;
    assert_eq!(after.uid(), namespace.uid());
    assert_eq!(after.metadata.deletion_timestamp, None);
    assert_eq!(after.labels(), namespace.labels());

    // One of another organization is not taken, and the status says whose it is.
    label(&control, "acme", "openchoreo.dev/organization", Some("globex")).await;
    control.create(&acme()).await;
    let (reason, message) = control
        .until("the conflict is shown", "acme", |o: Option<&Organization>| {
            let (status, reason, message) = condition(o?, "Ready")?;
            (status == "False").then_some((reason, message))
        })
        .await;
    assert_eq!(reason, "NamespaceConflict");
    assert!(message.contains("globex"), "{message}");
    // It is the moment the namespace is given up.
    label(&control, "acme", "openchoreo.dev/organization", None).await;
    until_ready(&control, "acme").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_the_watch_did_not_show_is_found_by_the_next_list() {
    let control = OperatorFixture::start().await;
    control.create(&acme()).await;
    until_ready(&control, "acme").await;
    control.until_quiet().await;
    let hidden = control.proxy.fault(
        Fault::when(Match::new().verb(Verb::Watch).resource("namespaces"))
            .then(Action::hide_events_of("acme")),
    );
    let namespaces: Api<Namespace> = Api::all(control.client.clone());
    namespaces.delete("acme", &DeleteParams::default()).await.unwrap();
    control.until_gone::<Namespace>("acme").await;
    hidden.await_hits(2, PATIENCE).await.unwrap();
    let expired = control
        .proxy
        .fault(Fault::when(Match::new().verb(Verb::Watch).resource("namespaces")).then(Action::ExpireWatch));
    expired.await_hit(PATIENCE).await.unwrap();
    hidden.remove();
    control.until::<Namespace, ()>("the namespace is made anew", "acme", |ns| ns.map(|_| ())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_malformed_object_does_not_stop_the_others() {
    let control = OperatorFixture::start().await;
    // Without its schema the API server accepts what does not fit the kind.
    let crds: Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = Api::all(control.client.clone());
    let open = json!([{
        "op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema",
        "value": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }]);
    let open: kube::api::Patch<()> = Patch::Json(serde_json::from_value(open).unwrap());
    crds.patch("organizations.openchoreo.dev", &PatchParams::default(), &open).await.unwrap();
    let broken = r#"{"apiVersion": "openchoreo.dev/v1alpha1", "kind": "Organization", "metadata": {"name": "broken"}, "spec": "nonsense"}"#;
    kantor_testbed::wait::until("the schema is gone", PATIENCE, || async {
        use kantor_testbed::wait::Seen;
        Ok(match control.control_plane.apply_yaml(broken).await {
            Ok(_) => Seen::Done(()),
            Err(error) => Seen::NotYet(format!("{error:#}")),
        })
    })
    .await
    .unwrap();
    control.create(&acme()).await;
    until_ready(&control, "acme").await;
    let log = control.operator.log();
    assert!(log.lines().any(|l| l.contains("does not fit its kind") && l.contains("broken")), "{log}");
}
