use super::*;

fn world() -> World {
    World::listening(&[("my-endpoint", "REST", 8080)])
}

fn endpoint(world: &World) -> Endpoint {
    let [endpoint] = world.render().endpoints.try_into().unwrap();
    endpoint
}

#[test]
fn an_endpoint_is_made_from_a_template() {
    let expected = json!({
        "apiVersion": "openchoreo.dev/v1alpha1", "kind": "Endpoint",
        "metadata": {
            "name": "my-deployment-my-endpoint-d4122a23", "namespace": "test-organization",
            "labels": {
                "openchoreo.dev/organization": "test-organization",
                "openchoreo.dev/project": "my-project",
                "openchoreo.dev/component": "my-component",
                "openchoreo.dev/deployment-track": "my-main-track",
                "openchoreo.dev/environment": "test-environment",
                "openchoreo.dev/deployment": "my-deployment",
                "openchoreo.dev/name": "my-endpoint",
            },
            "ownerReferences": [{
                "apiVersion": "openchoreo.dev/v1alpha1", "kind": "Deployment", "name": "my-deployment",
                "uid": "uid of my-deployment", "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {"type": "REST", "backendRef": {"type": "componentRef", "componentRef": {"port": 8080}}},
    });
    assert_eq!(json!(endpoint(&world())), expected);
}

#[test]
fn a_template_without_a_name_is_called_endpoint() {
    let endpoint = endpoint(&World::listening(&[("", "REST", 8080)]));
    assert_eq!(endpoint.name_any(), "my-deployment-endpoint-ec6e6976");
    assert_eq!(endpoint.labels()["openchoreo.dev/name"], "endpoint");
}

#[test]
fn annotations_that_speak_about_the_deployment_stay_with_it_but_for_what_may_be_taken_over() {
    let mut world = world();
    let annotations = [
        ("team", "shop"),
        ("openchoreo.dev/display-name", "My deployment"),
        ("openchoreo.dev/description", "Of the deployment"),
        ("kubectl.kubernetes.io/last-applied-configuration", "{}"),
        ("openchoreo.dev/paused", "true"),
        ("openchoreo.dev/deletion-policy", "Orphan"),
        ("openchoreo.dev/adopt", "true"),
        ("openchoreo.dev/replace", "true"),
        ("openchoreo.dev/intent-hash", "0"),
    ];
    world.deployment.metadata.annotations =
        Some(annotations.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    let template = &mut world.artifact.spec.configuration.as_mut().unwrap().endpoint_templates[0];
    template.metadata.annotations = BTreeMap::from([
        ("openchoreo.dev/display-name".to_owned(), "The API".to_owned()),
        ("openchoreo.dev/description".to_owned(), String::new()),
        ("other".to_owned(), "x".to_owned()),
    ]);
    assert_eq!(
        json!(endpoint(&world).annotations()),
        json!({
            "team": "shop",
            "openchoreo.dev/adopt": "true",
            "openchoreo.dev/display-name": "The API",
            "openchoreo.dev/description": "Of the deployment",
        })
    );
}

#[test]
fn without_configuration_there_are_no_endpoints() {
    let mut world = world();
    world.artifact.spec.configuration = None;
    assert_eq!(world.render().endpoints, []);
}
