//! Who is woken by what, over all kinds: two organizations, of which one has two environments on two planes.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use kantor_core::hierarchy::{
    Id, Key, Kind, Need, Place, beside, children,
    sample::{Sample, Shelf},
    unresolved,
};
use rstest::rstest;
use serde_json::json;

use crate::cache::index::{Index, tests::model::assert_rebuilt};

const TRACK: [&str; 4] = ["acme", "shop", "greeter", "main"];

/// All objects. Each name tells what it is, so that the tables below read.
fn world() -> Vec<Sample> {
    let of = |kind, name: &str, below: &[&str]| {
        Sample::new(kind, &format!("acme/{name}")).below(below).named(name.trim_start_matches("hash-"))
    };
    let plane = |name: &str, secret: &str| {
        let cluster = json!({"secretRef": {"name": secret}});
        of(Kind::DataPlane, name, &["acme"]).set("spec.kubernetesCluster", cluster)
    };
    let group = |name: &str| {
        let reference = json!({"configurationGroupRef": {"name": name, "key": "k"}});
        json!({"env": [{"key": "K", "valueFrom": reference}]})
    };
    let in_environment =
        |kind, name: &str, environment: &str| of(kind, name, &TRACK).label("environment", environment);
    vec![
        Sample::new(Kind::Namespace, "acme"),
        Sample::new(Kind::Organization, "acme"),
        Sample::new(Kind::Secret, "acme/token"),
        Sample::new(Kind::Secret, "acme/other-token"),
        plane("plane-1", "token"),
        plane("plane-2", "other-token"),
        of(Kind::Environment, "dev", &["acme"]).set("spec.dataPlaneRef", "plane-1"),
        of(Kind::Environment, "prod", &["acme"]).set("spec.dataPlaneRef", "plane-2"),
        of(Kind::DeploymentPipeline, "default", &["acme"]).set(
            "spec.promotionPaths",
            json!([
                {"sourceEnvironmentRef": "dev", "targetEnvironmentRefs": [{"name": "prod"}]},
            ]),
        ),
        of(Kind::Project, "shop", &["acme"]),
        of(Kind::Component, "hash-greeter", &["acme", "shop"]),
        of(Kind::DeploymentTrack, "hash-main", &["acme", "shop", "greeter"]),
        of(Kind::Build, "build", &TRACK),
        of(Kind::ConfigurationGroup, "group", &["acme"]),
        of(Kind::ConfigurationGroup, "overrides", &["acme"]),
        of(Kind::DeployableArtifact, "artifact", &TRACK)
            .set("spec.targetArtifact.fromBuildRef.name", "build")
            .set("spec.configuration.application", group("group")),
        of(Kind::DeployableArtifact, "unused", &TRACK).set("spec.targetArtifact.fromImageRef.tag", "1"),
        in_environment(Kind::Deployment, "in-dev", "dev").set("spec.deploymentArtifactRef", "artifact"),
        in_environment(Kind::Deployment, "in-prod", "prod")
            .set("spec.deploymentArtifactRef", "artifact")
            .set("spec.configurationOverrides.application", group("overrides")),
        in_environment(Kind::Endpoint, "api-dev", "dev").label("deployment", "in-dev"),
        in_environment(Kind::Endpoint, "api-prod", "prod").label("deployment", "in-prod"),
        of(Kind::Release, "release", &["acme"]).set("spec.environmentName", "prod"),
        // The same names in another organization.
        Sample::new(Kind::Organization, "globex"),
        Sample::new(Kind::DataPlane, "globex/plane-1").named("plane-1"),
        Sample::new(Kind::Environment, "globex/dev").named("dev").set("spec.dataPlaneRef", "plane-1"),
        Sample::new(Kind::Project, "globex/shop").named("shop"),
        Sample::new(Kind::Component, "globex/greeter").below(&["globex", "shop"]).named("greeter"),
        Sample::new(Kind::Deployment, "globex/in-dev").below(&["globex", "shop", "greeter", "main", "dev"]),
    ]
}

fn index() -> Index {
    let mut index = Index::default();
    for sample in world() {
        index.put(sample.facts());
    }
    index
}

/// The same, while all but `kept` are being deleted.
fn ending(kept: &Sample) -> Index {
    let mut index = Index::default();
    for sample in world() {
        let ends = sample.id() != kept.id();
        index.put(if ends { sample.deleted() } else { sample }.facts());
    }
    index
}

/// The object of acme, or of no namespace, that is called so.
fn the(kind: Kind, name: &str) -> Sample {
    let is_it = |s: &Sample| s.id().kind == kind && s.id().name == name && s.id().namespace != "globex";
    world().into_iter().find(is_it).unwrap()
}

/// The objects as "Kind name", without `of` itself, of which each change is told.
fn others(woken: BTreeSet<Id>, of: &Sample) -> Vec<String> {
    assert!(woken.contains(&of.id()), "{woken:?}");
    let shown = |id: &Id| {
        if id.namespace == "globex" { format!("{id} of globex") } else { id.to_string() }
    };
    woken.into_iter().filter(|id| *id != of.id()).map(|id| shown(&id)).collect()
}

const OF_DEV: &[&str] = &["DeploymentPipeline default", "Deployment in-dev", "Endpoint api-dev"];
const OF_PROD: &[&str] =
    &["DeploymentPipeline default", "Deployment in-prod", "Endpoint api-prod", "Release release"];
const DEPLOYMENTS: &[&str] = &["Deployment in-dev", "Deployment in-prod"];
const BELOW_TRACK: &[&str] = &[
    "Build build",
    "DeployableArtifact artifact",
    "DeployableArtifact unused",
    "Deployment in-dev",
    "Deployment in-prod",
    "Endpoint api-dev",
    "Endpoint api-prod",
];
const OF_COMPONENT: &[&str] = &[
    "DeploymentTrack hash-main",
    "Build build",
    "DeployableArtifact artifact",
    "DeployableArtifact unused",
    "Deployment in-dev",
    "Deployment in-prod",
    "Endpoint api-dev",
    "Endpoint api-prod",
    "Release release",
];
const OF_PROJECT: &[&str] = &[
    "Component hash-greeter",
    "DeploymentTrack hash-main",
    "DeployableArtifact artifact",
    "DeployableArtifact unused",
    "Deployment in-dev",
    "Deployment in-prod",
    "Endpoint api-dev",
    "Endpoint api-prod",
];
const OF_ORGANIZATION: &[&str] = &[
    "DataPlane plane-1",
    "DataPlane plane-2",
    "Environment dev",
    "Environment prod",
    "DeploymentPipeline default",
    "Project shop",
    "ConfigurationGroup group",
    "ConfigurationGroup overrides",
    "Deployment in-dev",
    "Deployment in-prod",
    "Release release",
];

/// Whom a change of an object concerns among those who need it.
#[rstest]
#[case(Kind::Namespace, "acme", &["Organization acme"])]
#[case(Kind::Organization, "acme", OF_ORGANIZATION)]
#[case(Kind::Secret, "token", &["DataPlane plane-1"])]
#[case(Kind::DataPlane, "plane-1", &["Environment dev", "Deployment in-dev", "Endpoint api-dev"])]
#[case(
    Kind::DataPlane, "plane-2",
    &["Environment prod", "Deployment in-prod", "Endpoint api-prod", "Release release"],
)]
#[case(Kind::Environment, "dev", OF_DEV)]
#[case(Kind::Environment, "prod", OF_PROD)]
#[case(Kind::DeploymentPipeline, "default", &["Project shop"])]
#[case(Kind::Project, "shop", OF_PROJECT)]
#[case(Kind::Component, "hash-greeter", OF_COMPONENT)]
#[case(Kind::DeploymentTrack, "hash-main", BELOW_TRACK)]
#[case(Kind::Build, "build", &["DeployableArtifact artifact", "Deployment in-dev", "Deployment in-prod"])]
#[case(Kind::ConfigurationGroup, "group", &["DeployableArtifact artifact", "Deployment in-dev", "Deployment in-prod"])]
#[case(Kind::ConfigurationGroup, "overrides", &["Deployment in-prod"])]
#[case(Kind::DeployableArtifact, "artifact", DEPLOYMENTS)]
#[case(Kind::DeployableArtifact, "unused", &[])]
#[case(Kind::Deployment, "in-dev", &["Endpoint api-dev"])]
#[case(Kind::Endpoint, "api-dev", &[])]
#[case(Kind::Release, "release", &[])]
fn a_change_wakes_those_who_depend_on_the_object_and_nobody_else(
    #[case] kind: Kind,
    #[case] name: &str,
    #[case] expected: &[&str],
) {
    let changed = the(kind, name);
    for path in ["metadata.generation", "metadata.annotations.note", "metadata.labels.team"] {
        let value = if path.ends_with("generation") { json!(2) } else { json!("new") };
        assert_eq!(
            others(index().put(changed.clone().set(path, value).facts()), &changed),
            expected,
            "{path}"
        );
    }
    let concerned = others(index().concerned(&changed.id()), &changed);
    assert_eq!(concerned, expected, "what changes outside the control plane goes the same way");
}

#[test]
fn a_change_of_status_alone_wakes_only_the_object_itself() {
    for sample in world() {
        // The version of a Secret stands for its values.
        let version = if sample.id().kind == Kind::Secret { "1" } else { "2" };
        let changed = sample
            .clone()
            .set("metadata.resourceVersion", version)
            .set("metadata.finalizers", json!(["a/b"]))
            .set("status.observedGeneration", json!(1));
        assert_eq!(others(index().put(changed.facts()), &sample), [] as [&str; 0], "{}", sample.id());
    }
}

#[rstest]
#[case(Kind::Build, "build", "status.imageStatus.image", json!("x:2"),
    &["DeployableArtifact artifact", "Deployment in-dev", "Deployment in-prod"])]
#[case(Kind::DataPlane, "plane-1", "status.clusterUID", json!("u"),
    &["Environment dev", "Deployment in-dev", "Endpoint api-dev"])]
#[case(Kind::Secret, "other-token", "metadata.resourceVersion", json!("2"), &["DataPlane plane-2"])]
#[case(Kind::Endpoint, "api-dev", "status.address", json!("https://x"), &["Deployment in-dev"])]
#[case(Kind::Deployment, "in-prod", "status.dataPlane", json!({"namespace": "acme", "name": "plane-2"}),
    &["Environment prod"])]
#[case(Kind::Deployment, "in-prod", "status.namespace", json!("dp-acme"), &["Environment prod"])]
fn a_fact_of_a_status_that_concerns_others_wakes_them(
    #[case] kind: Kind,
    #[case] name: &str,
    #[case] path: &str,
    #[case] value: serde_json::Value,
    #[case] expected: &[&str],
) {
    let changed = the(kind, name);
    assert_eq!(others(index().put(changed.clone().set(path, value).facts()), &changed), expected);
}

/// However many Deployments use a namespace, their environment has to be told of it once.
#[test]
fn what_others_have_reported_already_is_no_news() {
    let mut index = index();
    let deployment = |name: &str| {
        let track = ["acme", "shop", "greeter", "main", "dev"];
        Sample::new(Kind::Deployment, &format!("acme/{name}")).below(&track)
    };
    let using = |name: &str| deployment(name).set("status.namespace", "dp-acme");
    let (first, second) = (deployment("first"), deployment("second"));
    let nobody: [&str; 0] = [];
    assert_eq!(others(index.put(first.facts()), &first), nobody, "as in-dev, it has reported nothing yet");
    index.put(second.facts());
    assert_eq!(others(index.put(using("first").facts()), &first), ["Environment dev"]);
    assert_eq!(others(index.put(using("second").facts()), &second), nobody);
    assert_eq!(others(index.remove(&first.id()), &first), nobody, "the second uses it still");
    assert_eq!(others(index.remove(&second.id()), &second), ["Environment dev"]);
}

/// An object that comes, goes, or begins to go concerns those who need it, and those whom it needs if they are going.
#[rstest]
#[case(Kind::DeploymentTrack, "hash-main", &["Project shop", "Component hash-greeter"], BELOW_TRACK)]
#[case(Kind::Component, "hash-greeter", &["Project shop"], OF_COMPONENT)]
#[case(Kind::Project, "shop", &["Organization acme", "DeploymentPipeline default"], OF_PROJECT)]
#[case(Kind::Environment, "dev", &["Organization acme", "DataPlane plane-1"], OF_DEV)]
#[case(Kind::Build, "build", &["Component hash-greeter", "DeploymentTrack hash-main"],
    &["DeployableArtifact artifact", "Deployment in-dev", "Deployment in-prod"])]
#[case(Kind::DeployableArtifact, "artifact", &[
    "Project shop", "Component hash-greeter", "DeploymentTrack hash-main", "Build build",
    "ConfigurationGroup group"], DEPLOYMENTS)]
#[case(Kind::Release, "release", &["Organization acme", "Environment prod", "Component hash-greeter"], &[])]
#[case(Kind::Secret, "token", &[], &["DataPlane plane-1"])]
fn coming_and_going_is_heard_above_and_below(
    #[case] kind: Kind,
    #[case] name: &str,
    #[case] above: &[&str],
    #[case] below: &[&str],
) {
    let object = the(kind, name);
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    let expected = sorted(above.iter().chain(below).map(ToString::to_string).collect());
    let mut index = ending(&object);
    assert_eq!(sorted(others(index.put(object.clone().deleted().facts()), &object)), expected);
    assert_eq!(sorted(others(index.remove(&object.id()), &object)), expected);
    assert_eq!(sorted(others(index.put(object.facts()), &object)), expected);
    let mut index = self::index();
    let below = sorted(below.iter().map(ToString::to_string).collect());
    assert_eq!(sorted(others(index.remove(&object.id()), &object)), below, "those above are not going");
    assert_eq!(
        others(index.remove(&Sample::new(kind, "acme/unknown").id()), &Sample::new(kind, "acme/unknown")),
        [] as [&str; 0]
    );
}

#[test]
fn a_child_that_moves_wakes_the_parent_it_leaves_and_the_one_it_joins_when_they_are_going() {
    let track = the(Kind::DeploymentTrack, "hash-main");
    let mut index = ending(&track);
    let other = Sample::new(Kind::Component, "acme/other").below(&["acme", "shop"]).deleted();
    index.put(other.facts());
    let woken = others(index.put(track.clone().label("component", "other").facts()), &track);
    assert!(woken.contains(&"Component hash-greeter".to_owned()), "{woken:?}");
    assert!(woken.contains(&"Component other".to_owned()), "{woken:?}");
    // Those who say that they are in the track have lost it.
    assert!(BELOW_TRACK.iter().all(|name| woken.contains(&(*name).to_owned())), "{woken:?}");
}

#[test]
fn an_environment_that_moves_wakes_all_that_is_in_it_and_both_planes_if_they_are_going() {
    let environment = the(Kind::Environment, "dev");
    let moved = environment.clone().set("spec.dataPlaneRef", "plane-2").set("metadata.generation", 2);
    let mut index = ending(&environment);
    let woken = others(index.put(moved.facts()), &environment);
    let expected = ["DataPlane plane-1", "DataPlane plane-2", "Organization acme"].iter().chain(OF_DEV);
    let expected: BTreeSet<String> = expected.map(ToString::to_string).collect();
    assert_eq!(woken.into_iter().collect::<BTreeSet<_>>(), expected);
    let plane = the(Kind::DataPlane, "plane-1");
    assert_eq!(others(index.concerned(&plane.id()), &plane), [] as [&str; 0]);
}

#[test]
fn a_parent_that_is_given_another_name_wakes_those_who_lose_it_and_those_who_get_it() {
    let mut index = index();
    let waiting = Sample::new(Kind::DeploymentTrack, "acme/waiting").below(&["acme", "shop", "renamed"]);
    index.put(waiting.facts());
    let component = the(Kind::Component, "hash-greeter");
    let woken = others(index.put(component.clone().named("renamed").facts()), &component);
    assert!(woken.contains(&"DeploymentTrack waiting".to_owned()), "{woken:?}");
    assert!(woken.contains(&"DeploymentTrack hash-main".to_owned()), "{woken:?}");
}

/// One that waits until nobody uses it has to hear that its users now use another.
#[test]
fn an_object_that_takes_the_place_of_another_wakes_that_one_when_it_comes_and_when_it_goes() {
    let mut index = Index::default();
    let old = Sample::new(Kind::DataPlane, "acme/plane");
    let new = Sample::new(Kind::DataPlane, "acme/hash-plane").named("plane");
    let environment = Sample::new(Kind::Environment, "acme/dev").set("spec.dataPlaneRef", "plane");
    index.put(old.facts());
    index.put(environment.facts());
    let users = |index: &Index, of: &Sample| children(index, &of.facts(), Kind::Environment).len();
    assert_eq!((users(&index, &old), users(&index, &new)), (1, 0));
    assert_eq!(others(index.put(new.facts()), &new), ["DataPlane plane", "Environment dev"]);
    assert_eq!((users(&index, &old), users(&index, &new)), (0, 1));
    assert_eq!(
        others(index.put(new.clone().set("metadata.generation", 2).facts()), &new),
        ["Environment dev"]
    );
    assert_eq!(others(index.remove(&new.id()), &new), ["DataPlane plane", "Environment dev"]);
    assert_eq!((users(&index, &old), users(&index, &new)), (1, 0));
}

#[test]
fn in_whatever_order_objects_come_the_last_parent_wakes_its_children_and_all_is_known() {
    let samples = world();
    let complete: Shelf = samples.iter().collect();
    for turn in 0..samples.len() {
        let mut order = samples.clone();
        order.rotate_left(turn);
        if turn % 2 == 1 {
            order.reverse();
        }
        let mut index = Index::default();
        for (position, sample) in order.iter().enumerate() {
            let woken = index.put(sample.facts());
            let waiting = order[..position].iter().filter(|earlier| {
                let (earlier, own) = (earlier.facts(), sample.facts().keys());
                let mut keys = earlier.needs.iter().flat_map(Need::keys);
                keys.any(|key| own.iter().any(|own| own.borrowed() == key))
            });
            for earlier in waiting {
                assert!(woken.contains(&earlier.id()), "{} does not wake {}", sample.id(), earlier.id());
            }
        }
        assert_rebuilt(&index, &complete.0);
    }
}

#[test]
fn what_an_object_owns_is_found_by_its_uid_alone() {
    let owned = |name: &str, owner: &str| {
        let reference = json!([{"apiVersion": "openchoreo.dev/v1alpha1", "kind": "Deployment", "name": "d", "uid": owner}]);
        Sample::new(Kind::Endpoint, &format!("acme/{name}")).set("metadata.ownerReferences", reference)
    };
    let mut index = Index::default();
    for sample in [owned("a", "one"), owned("b", "one"), owned("c", "two")] {
        index.put(sample.facts());
    }
    let names = |index: &Index, uid| index.owned_by(uid).into_iter().map(|id| id.name).collect::<Vec<_>>();
    assert_eq!(names(&index, "one"), ["a", "b"]);
    // It moves with its owner, and goes with itself.
    index.put(owned("b", "two").facts());
    index.remove(&owned("c", "two").facts().id);
    assert_eq!(names(&index, "one"), ["a"]);
    assert_eq!(names(&index, "two"), ["b"]);
    assert_eq!(names(&index, "three"), Vec::<String>::new());
}

#[test]
fn objects_beside_each_other_share_a_parent_whether_it_exists_or_not() {
    let mut index = Index::default();
    let of = |kind, path: &str| Sample::new(kind, path);
    for sample in [
        of(Kind::Environment, "acme/dev"),
        of(Kind::Environment, "acme/other").below(&["globex"]),
        of(Kind::Environment, "globex/dev"),
        of(Kind::DataPlane, "acme/plane"),
    ] {
        index.put(sample.facts());
    }
    let project = of(Kind::Project, "acme/shop").facts();
    let beside = beside(&index, &project, Kind::Organization, Kind::Environment);
    assert_eq!(beside, [Id::new(Kind::Environment, "acme", "dev")]);
}

#[test]
fn an_object_is_found_by_the_namespace_of_a_plane_in_which_it_says_that_it_is_and_by_no_other() {
    let recorded = |kind, name: &str, plane: &str, namespace: &str| {
        Sample::new(kind, &format!("acme/{name}"))
            .set("status.dataPlane", json!({"namespace": "acme", "name": plane}))
            .set("status.namespace", namespace)
    };
    let place = |plane: &str, namespace: &str| Place {
        plane: ("acme".to_owned(), plane.to_owned()),
        namespace: namespace.to_owned(),
    };
    let mut index = Index::default();
    for sample in [
        recorded(Kind::Deployment, "cart", "eu", "dp-shop"),
        recorded(Kind::Endpoint, "cart-api", "eu", "dp-shop"),
        recorded(Kind::Deployment, "of-another-plane", "us", "dp-shop"),
        recorded(Kind::Deployment, "of-another-namespace", "eu", "dp-blog"),
        Sample::new(Kind::Deployment, "acme/not-recorded"),
    ] {
        index.put(sample.facts());
    }
    let names = |index: &Index, plane, namespace| {
        index.placed(&place(plane, namespace)).into_iter().map(|id| id.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&index, "eu", "dp-shop"), ["cart", "cart-api"]);
    assert_eq!(names(&index, "eu", "dp-none"), Vec::<String>::new());
    index.put(recorded(Kind::Deployment, "cart", "us", "dp-shop").facts());
    index.remove(&Id::new(Kind::Endpoint, "acme", "cart-api"));
    assert_eq!(names(&index, "eu", "dp-shop"), Vec::<String>::new());
    assert_eq!(names(&index, "us", "dp-shop"), ["cart", "of-another-plane"]);
}

#[test]
fn who_waits_for_claims_is_woken_by_what_becomes_of_them_until_it_waits_no_more() {
    let claim = |name: &str, holder: &str| {
        let holder = json!({"namespace": "acme", "name": "cart", "uid": holder});
        let spec = json!({"hostname": name, "organization": "acme", "holder": holder});
        Sample::new(Kind::HostnameClaim, name).set("spec", spec)
    };
    let key = |name: &str| Key::Named(Id::new(Kind::HostnameClaim, "", name));
    let (release, nobody) = (the(Kind::Release, "release"), Vec::<String>::new());
    let mut index = index();
    let taken = claim("taken.example.com", "one");
    index.put(taken.facts());
    index.await_only(&release.id(), &[key("taken.example.com"), key("free.example.com")]);
    // What is said of it is not what it is.
    assert_eq!(others(index.put(taken.facts()), &taken), nobody);
    let other = claim("taken.example.com", "another");
    assert_eq!(others(index.put(other.facts()), &other), ["Release release"]);
    let free = claim("free.example.com", "one");
    assert_eq!(others(index.put(free.facts()), &free), ["Release release"]);
    // A change of whoever waits leaves it waiting.
    index.put(release.clone().label("touched", "yes").facts());
    assert_eq!(others(index.remove(&other.id()), &other), ["Release release"]);

    index.await_only(&release.id(), &[key("free.example.com")]);
    assert_eq!(others(index.put(taken.facts()), &taken), nobody, "it no longer waits for this one");
    assert!(index.is_waiting(&release.id()));
    index.await_only(&release.id(), &[]);
    assert!(!index.is_waiting(&release.id()));
    assert_eq!(others(index.remove(&free.id()), &free), nobody);
    // Nothing is kept of who has gone.
    index.await_only(&release.id(), &[key("free.example.com")]);
    index.remove(&release.id());
    index.await_only(&release.id(), &[key("free.example.com")]);
    assert!(index.awaited.is_empty() && index.awaiting.is_empty());
    assert_eq!(others(index.put(free.facts()), &free), nobody);
}

/// What is done for each of so many references takes a moment; what is done for each pair of them, many minutes.
#[test]
fn an_object_with_very_many_references_costs_little_more_than_so_many_with_one() {
    const MANY: usize = 100_000;
    let mut facts = the(Kind::DeploymentPipeline, "default").facts();
    let environment = facts.needs.iter().find(|need| need.kind == Kind::Environment).unwrap().clone();
    let many = |prefix: &str| {
        (0..MANY).map(|n| Need { name: format!("{prefix}{n}"), ..environment.clone() }).collect::<Vec<_>>()
    };
    let begun = Instant::now();
    let mut index = index();
    facts.needs = many("a");
    index.put(facts.clone());
    facts.needs[MANY / 2..].clone_from_slice(&many("b")[MANY / 2..]);
    index.put(facts.clone());
    assert!(unresolved(&index, &facts, &[Kind::Environment]).is_some());
    index.remove(&facts.id);
    assert!(begun.elapsed() < Duration::from_mins(1), "{:?}", begun.elapsed());
}
