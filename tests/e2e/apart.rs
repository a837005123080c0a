//! A plane in trouble, with all the work that has piled up for it, keeps nobody from another plane.

use kantor_api::{Environment, Project, Release};
use kantor_testbed::{
    Cluster, CrdBundle,
    proxy::{Action, Fault, Match},
    wait::{self, Seen},
};
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::{
    acme::{acme_with, object},
    deployment::support::{DeploymentFixture, Plane},
    release::support::{config_map, release},
    support::PATIENCE,
};

/// Deployments on each plane: more than there are calls and turns of one.
const EACH: usize = 20;
/// A call that hangs does so for longer than the test: only what is apart gets on. Of two calls at a time, a Deployment and a
/// Release take one each.
const ARGUMENTS: [&str; 2] = ["--plane-timeout=10m", "--plane-concurrency=2"];
const PLANES: [&str; 2] = ["sick", "well"];
const HTTP_ROUTE: &str = "gateway.networking.k8s.io/v1/HTTPRoute";

/// A plane on which nothing runs: what is written there is enough.
async fn plane(name: &str) -> Plane {
    let cluster = Cluster::builder().name(name).crds(&CrdBundle::USED);
    Plane::on(cluster.share().await.unwrap()).await
}

/// The values at a path of all objects of a kind on a plane, in order and each once.
async fn values(plane: &Plane, kind: &str, at: &str) -> (usize, Vec<String>) {
    let list = ListParams::default().labels("openchoreo.dev/owner-uid");
    let found = plane.api(kind, "").list(&list).await.unwrap().items;
    let text = |object: &kube::api::DynamicObject| {
        object.data.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let mut values: Vec<String> = found.iter().map(text).collect();
    values.sort();
    values.dedup();
    (found.len(), values)
}

/// Waits until all objects of a kind that Deployments or Endpoints have on a plane say this.
async fn until_all(plane: &Plane, kind: &str, at: &str, value: &str) {
    wait::until(&format!("each {kind} says {value}"), PATIENCE, || async {
        let found = values(plane, kind, at).await;
        Ok(if found == (EACH, vec![value.to_owned()]) {
            Seen::Done(())
        } else {
            Seen::NotYet(format!("{found:?}"))
        })
    })
    .await
    .unwrap();
}

const IMAGE: &str = "/spec/template/spec/containers/0/image";
const PATH: &str = "/spec/rules/0/matches/0/path/value";

fn artifact(version: u8) -> Value {
    let template = json!({"metadata": {"name": "api"}, "spec": {"type": "HTTP",
        "backendRef": {"type": "componentRef", "basePath": format!("/v{version}"), "componentRef": {"port": 8080}}}});
    json!({"targetArtifact": {"fromImageRef": {"tag": format!("registry.example.com/cart:{version}")}},
        "configuration": {"endpointTemplates": [template]}})
}

/// An organization with both planes, and one artifact in many environments of each: one edit is work for all.
async fn seed(fixture: &DeploymentFixture, well: &Plane) {
    for (name, plane) in PLANES.into_iter().zip([&fixture.plane, well]) {
        fixture.register(name, plane).await;
        let hosts = json!({"spec": {"gateway": {
            "publicVirtualHost": format!("{name}.example.com"), "organizationVirtualHost": format!("{name}.example.org")}}});
        fixture.control.patch::<kantor_api::DataPlane>(&format!("acme/{name}"), hosts).await;
    }
    fixture.project().await;
    fixture.control.until_ready::<Project>("acme/shop").await;
    fixture
        .artifact("cart", "cart", "registry.example.com/cart:1", artifact(1)["configuration"].clone())
        .await;
    for name in PLANES {
        for n in 0..EACH {
            let environment = format!("{name}-{n}");
            let spec = json!({"dataPlaneRef": name, "gateway": {"dnsPrefix": environment}});
            fixture.control.create::<Environment>(&object("Environment", &environment, spec)).await;
            let reference = json!({"deploymentArtifactRef": "cart"});
            fixture.deploy(&environment, "cart", &environment, reference).await;
        }
        let mut extras = release("extras", &[("settings", settings(name, "1"))]);
        extras.metadata.name = Some(format!("extras-{name}"));
        extras.spec.environment_name = format!("{name}-0");
        fixture.control.create(&extras).await;
    }
    for plane in [&fixture.plane, well] {
        until_all(plane, "apps/v1/Deployment", IMAGE, "registry.example.com/cart:1").await;
        until_all(plane, HTTP_ROUTE, PATH, "/shop/cart/v1").await;
    }
    for name in PLANES {
        fixture.control.until_ready::<Release>(&format!("acme/extras-{name}")).await;
    }
}

fn settings(plane: &str, value: &str) -> Value {
    let mut settings = config_map("settings", json!({"value": value}));
    settings["metadata"]["namespace"] = json!(namespace(plane));
    settings
}

/// The namespace of the first environment on a plane.
fn namespace(plane: &str) -> String {
    kantor_core::tenancy::own_namespace(&kantor_core::tenancy::Tenant {
        organization: "acme",
        project: "shop",
        environment: &format!("{plane}-0"),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_piled_up_for_a_plane_that_hangs_keeps_nobody_from_another() {
    let (control, sick, well) =
        Box::pin(async { tokio::join!(acme_with(&ARGUMENTS), plane(PLANES[0]), plane(PLANES[1])) }).await;
    let fixture = DeploymentFixture { control, plane: sick };
    seed(&fixture, &well).await;

    // It answers whoever asks whether it is there, and takes no write.
    let hung = fixture.plane.proxy.fault(Fault::when(Match::new().writes()).then(Action::Hang));
    let edit = |name: &'static str, value: &'static str| {
        let resources = json!([{"id": "settings", "object": settings(name, value)}]);
        let path = format!("acme/extras-{name}");
        let control = &fixture.control;
        async move { control.patch::<Release>(&path, json!({"spec": {"resources": resources}})).await }
    };
    edit("sick", "2").await;
    fixture.edit_artifact("cart", artifact(2)).await;
    // As many as may be under way at a time on one plane are under way there, for good.
    hung.await_hits(2, PATIENCE).await.unwrap();
    until_all(&well, "apps/v1/Deployment", IMAGE, "registry.example.com/cart:2").await;
    until_all(&well, HTTP_ROUTE, PATH, "/shop/cart/v2").await;
    edit("well", "2").await;
    let place = ("v1/ConfigMap", &*namespace("well"), "settings");
    well.until("the Release arrives", place, |found| (found?["data"]["value"] == "2").then_some(())).await;
    // Once more, when all that can be taken by those who wait has been taken.
    fixture.edit_artifact("cart", artifact(3)).await;
    until_all(&well, "apps/v1/Deployment", IMAGE, "registry.example.com/cart:3").await;
    until_all(&well, HTTP_ROUTE, PATH, "/shop/cart/v3").await;
    // All of it happened while the other plane had got nothing.
    let on_sick = values(&fixture.plane, "apps/v1/Deployment", IMAGE).await;
    assert_eq!(on_sick, (EACH, vec!["registry.example.com/cart:1".to_owned()]));
    hung.remove();
    until_all(&fixture.plane, "apps/v1/Deployment", IMAGE, "registry.example.com/cart:3").await;
}
