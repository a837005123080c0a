//! Operators that look after a part of the control plane.

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kantor_api::{
    DataPlane, DeploymentPipeline, Environment, Organization, Release, labels::INSTANCE_ID,
    organization::OrganizationSpec,
};
use kantor_core::tenancy::{Tenant, own_namespace};
use kantor_testbed::{
    Cluster, Operator,
    proxy::{Proxy, Verb},
    wait::{self, Seen},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    acme::acme,
    release::support::{Plane, ReleaseFixture, config_map, release, start_operator},
    support::{PATIENCE, TestObject, condition, control_plane, operator_with},
};

async fn start(control_plane: &Cluster, arguments: &[&str]) -> (Operator, Proxy) {
    let proxy = Proxy::start(control_plane).unwrap();
    let operator = operator_with(control_plane, &proxy, arguments).await;
    operator.ready().await.unwrap();
    (operator, proxy)
}

async fn organization(client: &Client, name: &str, instance: Option<&str>) {
    let mut organization = Organization::new(name, OrganizationSpec {});
    if let Some(instance) = instance {
        organization.labels_mut().insert(INSTANCE_ID.to_owned(), instance.to_owned());
    }
    Api::all(client.clone()).create(&PostParams::default(), &organization).await.unwrap();
}

/// A pipeline in a namespace, made by hand where no operator makes it.
async fn pipeline(client: &Client, namespace: &str) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    if namespaces.get_opt(namespace).await.unwrap().is_none() {
        let made = serde_json::from_value(json!({"metadata": {"name": namespace}})).unwrap();
        namespaces.create(&PostParams::default(), &made).await.unwrap();
    }
    let labels = json!({"openchoreo.dev/organization": namespace, "openchoreo.dev/name": "main"});
    let pipeline = json!({
        "apiVersion": "openchoreo.dev/v1alpha1", "kind": "DeploymentPipeline",
        "metadata": {"name": "main", "namespace": namespace, "labels": labels},
        "spec": {"promotionPaths": []},
    });
    let pipeline: DeploymentPipeline = serde_json::from_value(pipeline).unwrap();
    Api::namespaced(client.clone(), namespace).create(&PostParams::default(), &pipeline).await.unwrap();
}

async fn becomes_ready<K: TestObject>(api: &Api<K>, name: &str) {
    wait::until(&format!("{name} is ready"), PATIENCE, || async {
        let found = api.get(name).await?;
        let ready = condition(&found, "Ready").is_some_and(|(status, ..)| status == "True");
        Ok(if ready { Seen::Done(()) } else { Seen::NotYet(format!("{found:#?}")) })
    })
    .await
    .unwrap();
}

async fn is_untouched<K: TestObject>(api: &Api<K>, name: &str) {
    let found = api.get(name).await.unwrap();
    assert!(found.finalizers().is_empty(), "{found:#?}");
    assert_eq!(serde_json::to_value(&found).unwrap().get("status"), None, "{found:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_of_some_namespaces_leaves_the_others_alone() {
    let control_plane = control_plane().await;
    let client = control_plane.client();
    let organizations: Api<Organization> = Api::all(client.clone());
    let (operator, proxy) = start(&control_plane, &["--watch-namespaces=acme,initech"]).await;
    organization(&client, "globex", None).await;
    pipeline(&client, "globex").await;
    for name in ["acme", "initech"] {
        organization(&client, name, None).await;
        becomes_ready(&organizations, name).await;
        pipeline(&client, name).await;
        let pipelines: Api<DeploymentPipeline> = Api::namespaced(client.clone(), name);
        becomes_ready(&pipelines, "main").await;
    }
    is_untouched(&organizations, "globex").await;
    is_untouched(&Api::<DeploymentPipeline>::namespaced(client.clone(), "globex"), "main").await;
    // What lies in namespaces is asked for there.
    let asked = proxy.requests().filter(|record| [Verb::List, Verb::Watch].contains(&record.verb()));
    for record in &*asked.clone().resource("deploymentpipelines") {
        assert!(["acme", "initech"].contains(&record.namespace()), "{asked}");
    }
    assert!(asked.clone().resource("secrets").iter().all(|record| !record.namespace().is_empty()), "{asked}");

    // What goes in one of them goes; a broken watch of one does not make the other's objects vanish.
    proxy.cut_connections();
    let pipelines: Api<DeploymentPipeline> = Api::namespaced(client.clone(), "initech");
    pipelines.delete("main", &DeleteParams::default()).await.unwrap();
    wait::until("the pipeline is gone", PATIENCE, || async {
        Ok(if pipelines.get_opt("main").await?.is_none() {
            Seen::Done(())
        } else {
            Seen::NotYet(operator.log())
        })
    })
    .await
    .unwrap();
    becomes_ready(&Api::<DeploymentPipeline>::namespaced(client, "acme"), "main").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_of_two_instances_share_a_control_plane() {
    let control_plane = control_plane().await;
    let client = control_plane.client();
    let organizations: Api<Organization> = Api::all(client.clone());
    organization(&client, "acme", None).await;
    organization(&client, "globex", Some("blue")).await;
    let (_blue, of_blue) = start(&control_plane, &["--instance-id=blue"]).await;
    becomes_ready(&organizations, "globex").await;
    is_untouched(&organizations, "acme").await;
    let (_other, of_other) = start(&control_plane, &[]).await;
    becomes_ready(&organizations, "acme").await;
    let wrote = |proxy: &Proxy, name: &str| proxy.requests().writes().name(name).len();
    assert_eq!((wrote(&of_blue, "acme"), wrote(&of_other, "globex")), (0, 0));
    assert!(wrote(&of_blue, "globex") > 0 && wrote(&of_other, "acme") > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_that_are_off_do_nothing_and_are_not_watched() {
    let control_plane = control_plane().await;
    let client = control_plane.client();
    organization(&client, "acme", None).await;
    pipeline(&client, "acme").await;
    let (_operator, proxy) = start(&control_plane, &["--controllers=deployment-pipeline,release"]).await;
    let pipelines: Api<DeploymentPipeline> = Api::namespaced(client.clone(), "acme");
    becomes_ready(&pipelines, "main").await;
    is_untouched(&Api::<Organization>::all(client), "acme").await;
    let requests = proxy.requests();
    for off in ["builds", "endpoints", "hostnameclaims", "configurationgroups"] {
        assert_eq!(requests.clone().resource(off).len(), 0, "{off}: {requests}");
    }
    for on in ["deploymentpipelines", "releases", "organizations", "dataplanes"] {
        assert!(!requests.clone().resource(on).is_empty(), "{on}: {requests}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_plane_that_is_out_of_sight_is_not_taken_for_gone() {
    let (control, plane) = tokio::join!(acme(), Plane::start("common"));
    let mut fixture = ReleaseFixture { control, plane };
    let metadata = |name: &str| json!({"name": name, "namespace": "default"});
    let kubeconfig = fixture.plane.kubeconfig.to_yaml();
    let secret = json!({"metadata": metadata("common"), "stringData": {"kubeconfig": kubeconfig}});
    fixture.control.create::<Secret>(&serde_json::from_value(secret).unwrap()).await;
    let choreo = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "openchoreo.dev/v1alpha1", "kind": kind, "metadata": metadata(name), "spec": spec});
    let cluster = json!({"kubernetesCluster": {"secretRef": {"name": "common"}}});
    let common = choreo("DataPlane", "common", cluster);
    fixture.control.create::<DataPlane>(&serde_json::from_value(common).unwrap()).await;
    let shared = choreo("Environment", "shared", json!({"dataPlaneRef": "common"}));
    fixture.control.create::<Environment>(&serde_json::from_value(shared).unwrap()).await;
    let home = own_namespace(&Tenant { organization: "acme", project: "shop", environment: "shared" });
    for name in ["first", "second"] {
        let mut shop = release(name, &[("it", config_map(name, json!({})))]);
        shop.spec.environment_name = "shared".into();
        shop.spec.resources[0].object["metadata"]["namespace"] = json!(home);
        fixture.control.create(&shop).await;
        fixture.ready(name).await;
    }

    // The operator looks after a part of it only.
    fixture.control.operator.kill().unwrap();
    fixture.control.operator.ended().await.unwrap();
    start_operator(&mut fixture.control, &["--watch-namespaces=acme"]).await;
    fixture.control.operator.ready().await.unwrap();
    fixture.ask_to_delete("first").await;
    let (_, message) = fixture.finalizing("first", |message| message.contains("--watch-namespaces")).await;
    assert!(message.contains("default"), "{message}");
    fixture.plane.wait_exists("v1/ConfigMap", &home, "first").await;
    fixture.control.restart_operator().await;
    fixture.until_gone("first").await;
    fixture.plane.gone("v1/ConfigMap", &home, "first").await;

    // It is another instance's.
    let mark = |instance: Value| json!({"metadata": {"labels": {INSTANCE_ID: instance}}});
    fixture.control.patch::<DataPlane>("default/common", mark("blue".into())).await;
    fixture.control.restart_operator().await;
    fixture.ask_to_delete("second").await;
    fixture.finalizing("second", |message| message.contains(INSTANCE_ID)).await;
    fixture.plane.wait_exists("v1/ConfigMap", &home, "second").await;
    fixture.control.patch::<DataPlane>("default/common", mark(Value::Null)).await;
    fixture.until_gone("second").await;
    fixture.plane.gone("v1/ConfigMap", &home, "second").await;

    // Gone for good: that is what the API server says.
    let gone: Option<Release> =
        Api::namespaced(fixture.control.client.clone(), "acme").get_opt("second").await.unwrap();
    assert!(gone.is_none());
}
