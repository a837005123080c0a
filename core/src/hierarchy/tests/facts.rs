use kantor_api::labels;
use rstest::rstest;
use serde_json::{Value, json};

use crate::hierarchy::{Facts, Key, Kind, sample::Sample};

const IN_TRACK: [&str; 4] = ["acme", "shop", "greeter", "main"];
const IN_DEV: [&str; 5] = ["acme", "shop", "greeter", "main", "dev"];

/// Needs as "Kind namespace: scope/name", with the kinds that hear of it through the object behind an arrow.
fn needs(facts: &Facts) -> Vec<String> {
    let text = |need: &crate::hierarchy::Need| {
        let path = [need.scope.as_slice(), std::slice::from_ref(&need.name)].concat().join("/");
        let hearing: Vec<String> = need.passes_on.iter().map(ToString::to_string).collect();
        let hearing = if hearing.is_empty() { String::new() } else { format!(" → {}", hearing.join(", ")) };
        format!("{} {}: {path}{hearing}", need.kind, need.namespace)
    };
    facts.needs.iter().map(text).collect()
}

fn scope(facts: &Facts) -> Vec<&str> {
    facts.scope.iter().map(|level| level.as_deref().unwrap_or("?")).collect()
}

fn artifact() -> Sample {
    Sample::new(Kind::DeployableArtifact, "acme/a").below(&IN_TRACK)
}

fn deployment() -> Sample {
    Sample::new(Kind::Deployment, "acme/d").below(&IN_DEV)
}

/// One reference of each form, to a group of its own.
fn application() -> Value {
    json!({
        "env": [
            {"key": "A", "value": "plain"},
            {"key": "B", "valueFrom": {"configurationGroupRef": {"name": "by-env", "key": "k"}}},
            {"key": "C", "valueFrom": {"secretRef": {"name": "no-group", "key": "k"}}},
        ],
        "envFrom": [
            {"configurationGroupRef": {"name": "by-env-from"}}, {"secretRef": {"name": "no-group"}},
        ],
        "fileMounts": [
            {"mountPath": "/a", "value": "plain"},
            {"mountPath": "/b", "valueFrom": {"configurationGroupRef": {"name": "by-file", "key": "k"}}},
            {"mountPath": "/c", "valueFrom": {"configurationGroupRef": {"name": "by-env", "key": "k"}}},
        ],
        "fileMountsFrom": [
            {"configurationGroupRef": {"name": "by-files-from", "mountPath": "/d"}},
            {"secretRef": {"name": "no-group", "mountPath": "/e"}},
        ],
    })
}

#[rstest]
#[case::organization(Sample::new(Kind::Organization, "acme"), &[], &["Namespace : acme"])]
#[case::namespace(Sample::new(Kind::Namespace, "acme").below(&["acme"]), &[], &[])]
#[case::secret(Sample::new(Kind::Secret, "acme/s").below(&["acme"]), &[], &[])]
#[case::data_plane(
    Sample::new(Kind::DataPlane, "acme/plane").below(&["acme"]), &["acme"], &["Organization : acme"]
)]
#[case::environment(
    Sample::new(Kind::Environment, "acme/dev").below(&["acme"]).set("spec.dataPlaneRef", "plane"),
    &["acme"],
    &["Organization : acme", "DataPlane acme: acme/plane → Deployment, Endpoint, Release"],
)]
#[case::environment_without_plane(
    Sample::new(Kind::Environment, "acme/dev").below(&["acme"]), &["acme"], &["Organization : acme"]
)]
#[case::pipeline(
    Sample::new(Kind::DeploymentPipeline, "acme/default").below(&["acme"]).set("spec.promotionPaths", json!([
        {"sourceEnvironmentRef": "dev", "targetEnvironmentRefs": [{"name": "stage"}, {"name": "prod"}]},
        {"sourceEnvironmentRef": "stage", "targetEnvironmentRefs": [{"name": "prod"}]},
    ])),
    &["acme"],
    &[
        "Organization : acme", "Environment acme: acme/dev", "Environment acme: acme/prod",
        "Environment acme: acme/stage",
    ],
)]
#[case::configuration_group(
    Sample::new(Kind::ConfigurationGroup, "acme/g").below(&["acme"]), &["acme"], &["Organization : acme"]
)]
#[case::project(
    Sample::new(Kind::Project, "acme/shop").below(&["acme"]),
    &["acme"],
    &["Organization : acme", "DeploymentPipeline acme: acme/default"],
)]
#[case::component(
    Sample::new(Kind::Component, "acme/greeter").below(&["acme", "shop"]),
    &["acme", "shop"],
    &["Project acme: acme/shop"],
)]
#[case::track(
    Sample::new(Kind::DeploymentTrack, "acme/main").below(&["acme", "shop", "greeter"]),
    &["acme", "shop", "greeter"],
    &["Project acme: acme/shop", "Component acme: acme/shop/greeter"],
)]
#[case::build(
    Sample::new(Kind::Build, "acme/b").below(&IN_TRACK),
    &IN_TRACK,
    &["Component acme: acme/shop/greeter", "DeploymentTrack acme: acme/shop/greeter/main"],
)]
#[case::artifact_of_an_image(
    artifact().set("spec.targetArtifact.fromImageRef.tag", "1"),
    &IN_TRACK,
    &[
        "Project acme: acme/shop", "Component acme: acme/shop/greeter",
        "DeploymentTrack acme: acme/shop/greeter/main",
    ],
)]
#[case::artifact_of_a_build_with_groups(
    artifact()
        .set("spec.targetArtifact.fromBuildRef.name", "b")
        .set("spec.configuration.application", application()),
    &IN_TRACK,
    &[
        "Project acme: acme/shop", "Component acme: acme/shop/greeter",
        "DeploymentTrack acme: acme/shop/greeter/main", "Build acme: acme/shop/greeter/main/b → Deployment",
        "ConfigurationGroup acme: acme/by-env → Deployment",
        "ConfigurationGroup acme: acme/by-env-from → Deployment",
        "ConfigurationGroup acme: acme/by-file → Deployment",
        "ConfigurationGroup acme: acme/by-files-from → Deployment", "Secret acme: no-group → Deployment",
    ],
)]
#[case::deployment_with_overrides(
    deployment().set("spec.configurationOverrides.application", application()),
    &IN_DEV,
    &[
        "Organization : acme", "Project acme: acme/shop", "Component acme: acme/shop/greeter",
        "DeploymentTrack acme: acme/shop/greeter/main", "Environment acme: acme/dev",
        "DeployableArtifact acme: acme/shop/greeter/main/1", "ConfigurationGroup acme: acme/by-env",
        "ConfigurationGroup acme: acme/by-env-from", "ConfigurationGroup acme: acme/by-file",
        "ConfigurationGroup acme: acme/by-files-from", "Secret acme: no-group",
    ],
)]
#[case::endpoint(
    Sample::new(Kind::Endpoint, "acme/e").below(&["acme", "shop", "greeter", "main", "dev", "d"]),
    &["acme", "shop", "greeter", "main", "dev", "d"],
    &[
        "Project acme: acme/shop", "Component acme: acme/shop/greeter",
        "DeploymentTrack acme: acme/shop/greeter/main", "Environment acme: acme/dev",
        "Deployment acme: acme/shop/greeter/main/dev/d",
    ],
)]
#[case::release(
    Sample::new(Kind::Release, "acme/r").below(&["acme"]),
    &["acme"],
    &[
        "Organization : acme", "Environment acme: acme/dev", "Environment default: default/dev",
        "Component acme: acme/shop/greeter",
    ],
)]
#[case::release_in_the_fallback_namespace(
    Sample::new(Kind::Release, "default/r"),
    &["default"],
    &["Organization : default", "Environment default: default/dev", "Component default: default/shop/greeter"],
)]
fn each_kind_is_below_what_its_labels_say_and_needs_what_it_names(
    #[case] sample: Sample,
    #[case] expected_scope: &[&str],
    #[case] expected_needs: &[&str],
) {
    let facts = sample.facts();
    assert_eq!(scope(&facts), expected_scope);
    assert_eq!(needs(&facts), expected_needs);
    assert_eq!(facts.missing_labels, [] as [&str; 0]);
}

#[rstest]
#[case::component(Kind::Component, &["acme"], &[labels::PROJECT], &[])]
#[case::track(
    Kind::DeploymentTrack, &["acme", "shop"], &[labels::COMPONENT], &["Project acme: acme/shop"]
)]
#[case::track_without_any(Kind::DeploymentTrack, &[], &[labels::COMPONENT, labels::PROJECT], &[])]
#[case::build(
    Kind::Build, &["acme", "shop", "greeter"], &[labels::DEPLOYMENT_TRACK],
    &["Component acme: acme/shop/greeter"],
)]
#[case::artifact(
    Kind::DeployableArtifact, &["acme"],
    &[labels::COMPONENT, labels::DEPLOYMENT_TRACK, labels::PROJECT], &[],
)]
#[case::deployment(
    Kind::Deployment, &IN_TRACK, &[labels::ENVIRONMENT],
    &[
        "Organization : acme", "Project acme: acme/shop", "Component acme: acme/shop/greeter",
        "DeploymentTrack acme: acme/shop/greeter/main", "DeployableArtifact acme: acme/shop/greeter/main/1",
    ],
)]
#[case::endpoint(
    Kind::Endpoint, &IN_DEV, &[labels::DEPLOYMENT],
    &[
        "Project acme: acme/shop", "Component acme: acme/shop/greeter",
        "DeploymentTrack acme: acme/shop/greeter/main", "Environment acme: acme/dev",
    ],
)]
fn a_label_that_is_missing_is_named_and_what_it_would_name_is_not_needed(
    #[case] kind: Kind,
    #[case] below: &[&str],
    #[case] missing: &[&str],
    #[case] expected_needs: &[&str],
) {
    let facts = Sample::new(kind, "acme/x").below(below).facts();
    assert_eq!(facts.missing_labels, missing);
    assert_eq!(needs(&facts), expected_needs);
}

#[test]
fn an_empty_label_is_as_good_as_none() {
    let facts = Sample::new(Kind::Component, "acme/x").below(&["", ""]).named("").facts();
    assert_eq!(facts.missing_labels, [labels::PROJECT]);
    assert_eq!(facts.logical_name, None);
    assert_eq!(scope(&facts), ["acme", "?"]);
}

#[rstest]
#[case(Kind::DataPlane)]
#[case(Kind::Environment)]
#[case(Kind::DeploymentPipeline)]
#[case(Kind::ConfigurationGroup)]
#[case(Kind::Project)]
#[case(Kind::Release)]
fn an_organization_that_is_not_named_is_that_of_the_namespace(#[case] kind: Kind) {
    let facts = Sample::new(kind, "globex/x").facts();
    assert_eq!(scope(&facts), ["globex"]);
    assert_eq!(needs(&facts)[0], "Organization : globex");
    let other = Sample::new(kind, "globex/x").below(&["acme"]).facts();
    assert_eq!(scope(&other), ["acme"]);
}

#[rstest]
#[case::in_cluster(json!({"inCluster": {}}), &[])]
#[case::kubeconfig(json!({"secretRef": {"name": "kubeconfig"}}), &["kubeconfig"])]
#[case::certificate(
    json!({"server": "https://x", "tls": {"ca": {"secretRef": "ca"}}, "auth": {"mtls": {
        "clientCert": {"secretRef": "cert"}, "clientKey": {"secretRef": "key"}}}}),
    &["ca", "cert", "key"],
)]
#[case::token(
    json!({"server": "https://x", "tls": {"ca": {"value": "eA=="}}, "auth": {"bearerToken": {"secretRef": "t"}}}),
    &["t"],
)]
#[case::one_secret_for_all(
    json!({"server": "https://x", "tls": {"ca": {"secretRef": "s"}}, "auth": {
        "bearerToken": {"secretRef": "s"},
        "mtls": {"clientCert": {"secretRef": "s"}, "clientKey": {"value": "eA=="}}}}),
    &["s"],
)]
fn a_data_plane_needs_each_secret_that_it_names_once(#[case] cluster: Value, #[case] secrets: &[&str]) {
    let facts = Sample::new(Kind::DataPlane, "acme/plane").set("spec.kubernetesCluster", cluster).facts();
    let expected: Vec<String> = secrets.iter().map(|name| format!("Secret acme: {name}")).collect();
    assert_eq!(needs(&facts)[1..], expected);
}

/// Also of policies that cannot be enforced: whoever corrects them is told then what the Secrets lack.
#[test]
fn an_endpoint_needs_all_secrets_that_its_policies_name() {
    let keys = |name: &str| {
        json!({"name": name, "type": "api-key", "policySpec": {"apiKeyAuth": {
            "keySource": {"header": "x-key"}, "secretRefs": [name, "shared"]}}})
    };
    let users = json!({"name": "users", "type": "basic-auth", "policySpec": {"basicAuth": {
        "users": [{"username": "a", "passwordFromSecret": "password"}], "header": "", "headerAuthScheme": ""}}});
    // What does not belong to its type is not read.
    let other = json!({"name": "pages", "type": "cors", "policySpec": {"apiKeyAuth": {
        "keySource": {"header": "x-key"}, "secretRefs": ["of-no-policy"]}}});
    let facts = Sample::new(Kind::Endpoint, "acme/e")
        .below(&IN_DEV)
        .set(
            "spec.networkVisibilities.public",
            json!({"enable": true, "policies": [keys("one"), keys("two")]}),
        )
        .set("spec.networkVisibilities.organization", json!({"enable": true, "policies": [users, other]}))
        .facts();
    let secrets: Vec<String> = needs(&facts).into_iter().filter(|need| need.starts_with("Secret")).collect();
    let expected = ["one", "password", "shared", "two"].map(|name| format!("Secret acme: {name}"));
    assert_eq!(secrets, expected);
}

#[test]
fn an_object_is_found_by_its_name_and_by_its_logical_name_below_all_its_parents() {
    let sample = Sample::new(Kind::Component, "acme/shop-greeter").below(&["acme", "shop"]);
    let labelled = |scope: &[&str]| Key::Labelled {
        kind: Kind::Component,
        namespace: "acme".to_owned(),
        scope: scope.iter().map(ToString::to_string).collect(),
        name: "greeter".to_owned(),
    };
    assert_eq!(sample.facts().keys(), [Key::Named(sample.id())]);
    let named = sample.named("greeter");
    assert_eq!(named.facts().keys(), [Key::Named(named.id()), labelled(&["acme", "shop"])]);
    let below_nothing = named.without("project");
    assert_eq!(below_nothing.facts().keys(), [Key::Named(below_nothing.id())]);
}

#[rstest]
#[case(Sample::new(Kind::Namespace, "acme"))]
#[case(Sample::new(Kind::Secret, "acme/token"))]
fn objects_of_kubernetes_itself_are_known_by_their_name_alone(#[case] sample: Sample) {
    let sample = sample.below(&["acme"]).named("other");
    assert_eq!(sample.facts().keys(), [Key::Named(sample.id())]);
}

#[test]
fn an_object_fits_where_it_does_not_say_otherwise() {
    let scope = |names: [&str; 2]| names.map(str::to_owned);
    let facts = Sample::new(Kind::Component, "acme/x").below(&["acme", "shop"]).facts();
    assert!(facts.fits(&scope(["acme", "shop"])));
    assert!(!facts.fits(&scope(["acme", "other"])));
    assert!(!facts.fits(&scope(["acme", "shop"])[..1]));
    let silent = Sample::new(Kind::Component, "acme/x").facts();
    assert!(silent.fits(&scope(["acme", "shop"])) && silent.fits(&scope(["acme", "other"])));
}

#[test]
fn kinds_are_known_to_the_api_server_by_group_and_plural() {
    let of = |kind: Kind| (kind.resource().api_version, kind.resource().plural);
    let ours = |plural: &str| ("openchoreo.dev/v1alpha1".to_owned(), plural.to_owned());
    assert_eq!(of(Kind::DeployableArtifact), ours("deployableartifacts"));
    assert_eq!(of(Kind::Deployment), ours("deployments"));
    assert_eq!(of(Kind::Endpoint), ours("endpoints"));
    assert_eq!(of(Kind::Secret), ("v1".to_owned(), "secrets".to_owned()));
}
