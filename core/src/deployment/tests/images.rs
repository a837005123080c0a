use kantor_api::{annotations, conditions::reasons};
use rstest::rstest;

use super::*;

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn tagged(tag: &str) -> World {
    let mut world = World::service(json!({}));
    world.artifact.spec.target_artifact =
        serde_json::from_value(json!({"fromImageRef": {"tag": tag}})).unwrap();
    world
}

fn built(image: Option<&str>) -> World {
    let mut world = World::service(json!({}));
    world.artifact.spec.target_artifact =
        serde_json::from_value(json!({"fromBuildRef": {"name": "build-1"}})).unwrap();
    let spec = json!({
        "owner": {"projectName": "my-project", "componentName": "my-component"},
        "repository": {"url": "https://example.com", "revision": {}, "appPath": "/"},
        "templateRef": {"name": "docker"},
    });
    let mut build: Build = object("Build", "build-1", spec);
    build.status =
        image.map(|image| serde_json::from_value(json!({"imageStatus": {"image": image}})).unwrap());
    world.build = Some(build);
    world
}

fn prefixed(world: World, prefix: &str) -> World {
    world.on_plane(json!({"registry": {"prefix": prefix}}))
}

#[rstest]
#[case::registry_by_name("registry.example.com/acme/greeter:1", "registry.example.com/acme/greeter:1")]
#[case::registry_by_port("registry:5000/greeter:1", "registry:5000/greeter:1")]
#[case::local_registry("localhost/greeter:1", "localhost/greeter:1")]
#[case::no_registry("greeter:1", "prefix.example.com/team/greeter:1")]
#[case::a_path_is_no_registry("acme/greeter:1", "prefix.example.com/team/acme/greeter:1")]
fn a_built_image_is_used_as_it_is_if_it_names_its_registry(#[case] built_as: &str, #[case] expected: &str) {
    for prefix in ["prefix.example.com/team", "prefix.example.com/team/"] {
        let rendered = prefixed(built(Some(built_as)), prefix).render();
        assert_eq!(rendered.image, expected);
        assert_eq!(
            rendered.one("Deployment")["spec"]["template"]["spec"]["containers"][0]["image"],
            expected
        );
    }
}

#[rstest]
#[case::whole("ghcr.io/acme/greeter:1", "ghcr.io/acme/greeter:1")]
#[case::of_the_common_registry("nginx:1.27", "nginx:1.27")]
#[case::by_digest("nginx@sha256:ab", "nginx@sha256:ab")]
#[case::without_tag("acme/greeter", "acme/greeter")]
#[case::tag("v1.2.3", "prefix.example.com/my-project-my-component:v1.2.3")]
#[case::digest(DIGEST, &format!("prefix.example.com/my-project-my-component@{DIGEST}"))]
#[case::no_digest_but_an_image_of_that_name("sha256:v1", "sha256:v1")]
fn a_tag_may_be_a_whole_reference(#[case] tag: &str, #[case] expected: &str) {
    assert_eq!(prefixed(tagged(tag), "prefix.example.com").render().image, expected);
}

#[rstest]
#[case("v1", "ghcr.io/acme/greeter:v1")]
#[case(DIGEST, &format!("ghcr.io/acme/greeter@{DIGEST}"))]
fn a_component_may_name_the_repository_of_its_tags(#[case] tag: &str, #[case] expected: &str) {
    let mut world = prefixed(tagged(tag), "prefix.example.com");
    world
        .component
        .annotations_mut()
        .insert(annotations::IMAGE_REPOSITORY.into(), "ghcr.io/acme/greeter".into());
    assert_eq!(world.render().image, expected);
}

#[test]
fn logical_names_make_the_repository_and_it_is_in_lower_case() {
    let mut world = prefixed(tagged("v1"), "prefix.example.com");
    world.project.labels_mut().insert(kantor_api::labels::NAME.into(), "Shop".into());
    assert_eq!(world.render().image, "prefix.example.com/shop-my-component:v1");
}

#[rstest]
#[case::build_gone(World { build: None, ..built(None) }, reasons::ARTIFACT_BUILD_NOT_FOUND, "build-1")]
#[case::build_running(built(None), reasons::IMAGE_NOT_BUILT, "build-1")]
#[case::build_with_an_empty_image(built(Some("")), reasons::IMAGE_NOT_BUILT, "build-1")]
#[case::build_without_registry(
    built(Some("greeter:1")),
    reasons::IMAGE_UNKNOWN,
    "registry.prefix of DataPlane plane-1"
)]
#[case::tag_of_nothing(
    tagged("v1"),
    reasons::IMAGE_UNKNOWN,
    "openchoreo.dev/image-repository of Component my-component"
)]
#[case::empty_prefix(
    prefixed(tagged("v1"), ""),
    reasons::IMAGE_UNKNOWN,
    "registry.prefix of DataPlane plane-1"
)]
#[case::nothing(tagged(""), reasons::IMAGE_UNKNOWN, "fromImageRef.tag")]
fn an_image_that_is_not_known_is_a_problem_and_no_guess(
    #[case] world: World,
    #[case] reason: &str,
    #[case] says: &str,
) {
    let problems = render(&world.inputs()).unwrap_err();
    let [Problem { reason: found, message, of_artifact: true }] = problems.as_slice() else {
        panic!("{problems:?}")
    };
    assert_eq!(*found, reason);
    assert!(message.contains(says), "{message}");
}

#[test]
fn a_build_goes_before_a_tag() {
    let mut world = built(Some("ghcr.io/acme/greeter:1"));
    world.artifact.spec.target_artifact.from_image_ref =
        serde_json::from_value(json!({"tag": "ghcr.io/acme/other:2"})).unwrap();
    assert_eq!(world.render().image, "ghcr.io/acme/greeter:1");
}
