use rstest::rstest;

use crate::hierarchy::{
    Facts, Id, Kind, ResolveError, children, resolve,
    sample::{Sample, Shelf},
    taken_along, twins, unresolved, users,
};

fn shelf(samples: &[Sample]) -> Shelf {
    samples.iter().collect()
}

fn component(name: &str, project: &str) -> Sample {
    Sample::new(Kind::Component, &format!("acme/{name}")).below(&["acme", project])
}

/// A track of the component of that logical name in project shop.
fn track(name: &str, component: &str) -> Sample {
    Sample::new(Kind::DeploymentTrack, &format!("acme/{name}")).below(&["acme", "shop", component])
}

fn environment(path: &str, organization: &str) -> Sample {
    Sample::new(Kind::Environment, path).below(&[organization])
}

fn component_of(track: &Sample, others: &[Sample]) -> Result<String, String> {
    resolve(&shelf(others), &track.facts(), Kind::Component).map(|id| id.name).map_err(|e| e.to_string())
}

fn tracks_of(parent: &Sample, all: &[Sample]) -> Vec<String> {
    names(children(&shelf(all), &parent.facts(), Kind::DeploymentTrack))
}

fn names(ids: Vec<Id>) -> Vec<String> {
    ids.into_iter().map(|id| id.name).collect()
}

#[rstest]
#[case::by_its_label(&[component("hash-1", "shop").named("greeter")], "hash-1")]
#[case::by_its_name(&[component("greeter", "shop")], "greeter")]
#[case::by_its_name_though_its_label_differs(&[component("greeter", "shop").named("other")], "greeter")]
#[case::by_its_label_rather_than_its_name(
    &[component("greeter", "shop").named("other"), component("hash-1", "shop").named("greeter")], "hash-1"
)]
#[case::though_it_names_no_project(&[component("greeter", "shop").without("project")], "greeter")]
#[case::in_its_own_project(
    &[component("a", "shop").named("greeter"), component("b", "blog").named("greeter")], "a"
)]
fn a_parent_is_found(#[case] components: &[Sample], #[case] expected: &str) {
    assert_eq!(component_of(&track("main", "greeter"), components).as_deref(), Ok(expected));
}

#[rstest]
#[case::none(&[])]
#[case::of_another_project_by_label(&[component("hash-1", "blog").named("greeter")])]
#[case::of_another_project_by_name(&[component("greeter", "blog")])]
#[case::of_another_namespace(&[Sample::new(Kind::Component, "globex/greeter").below(&["acme", "shop"])])]
#[case::of_another_kind(&[Sample::new(Kind::Project, "acme/greeter").below(&["acme"]).named("greeter")])]
#[case::labelled_below_nothing(&[component("hash-1", "shop").named("greeter").without("project")])]
fn a_parent_that_is_not_there_is_named_with_its_chain(#[case] components: &[Sample]) {
    assert_eq!(
        component_of(&track("main", "greeter"), components).unwrap_err(),
        "Component greeter does not exist in project shop of organization acme"
    );
}

#[test]
fn the_chain_goes_up_to_the_organization() {
    let endpoint =
        Sample::new(Kind::Endpoint, "acme/e").below(&["acme", "shop", "greeter", "main", "dev", "d"]);
    let error = resolve(&shelf(&[]), &endpoint.facts(), Kind::Deployment).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Deployment d does not exist in environment dev of deployment track main of component greeter of \
         project shop of organization acme"
    );
    let organization = resolve(&shelf(&[]), &environment("acme/dev", "acme").facts(), Kind::Organization);
    assert_eq!(organization.unwrap_err().to_string(), "Organization acme does not exist");
}

#[rstest]
#[case(&["first", "second"])]
#[case(&["second", "first"])]
fn parents_that_cannot_be_told_apart_are_both_named(#[case] order: &[&str]) {
    let components: Vec<Sample> = order.iter().map(|name| component(name, "shop").named("greeter")).collect();
    assert_eq!(
        component_of(&track("main", "greeter"), &components).unwrap_err(),
        "Component greeter is ambiguous in project shop of organization acme: first, second; give each its own \
         label openchoreo.dev/name"
    );
}

#[test]
fn an_object_that_does_not_say_whose_it_is_is_told_so() {
    let of = |facts: &Facts, kind| resolve(&shelf(&[]), facts, kind).unwrap_err().to_string();
    let unlabelled = Sample::new(Kind::DeploymentTrack, "acme/main").facts();
    assert_eq!(
        of(&unlabelled, Kind::Component),
        "label openchoreo.dev/component, openchoreo.dev/project is missing"
    );
    let planeless = environment("acme/dev", "acme").facts();
    assert_eq!(of(&planeless, Kind::DataPlane), "no DataPlane is named");
}

#[test]
fn what_was_not_found_is_the_first_of_the_kinds_asked_for() {
    let catalog = shelf(&[Sample::new(Kind::Project, "acme/shop").below(&["acme"])]);
    let of = |sample: &Sample, kinds: &[Kind]| {
        unresolved(&catalog, &sample.facts(), kinds).map(|error| error.to_string())
    };
    let main = track("main", "greeter");
    assert_eq!(of(&main, &[]), None);
    assert_eq!(of(&main, &[Kind::Project]), None);
    assert_eq!(
        of(&main, &[Kind::Project, Kind::Component]).as_deref(),
        Some("Component greeter does not exist in project shop of organization acme")
    );
    assert_eq!(
        of(&main.without("component"), &[Kind::Project, Kind::Component]).as_deref(),
        Some("label openchoreo.dev/component is missing")
    );
    assert_eq!(
        of(&environment("acme/dev", "acme"), &[Kind::DataPlane]).as_deref(),
        Some("no DataPlane is named")
    );
}

#[test]
fn each_environment_of_a_pipeline_has_to_exist() {
    let pipeline = Sample::new(Kind::DeploymentPipeline, "acme/default").set(
        "spec.promotionPaths",
        serde_json::json!([{"sourceEnvironmentRef": "dev", "targetEnvironmentRefs": [{"name": "prod"}]}]),
    );
    let of = |environments: &[Sample]| {
        unresolved(&shelf(environments), &pipeline.facts(), &[Kind::Environment]).map(|e| e.to_string())
    };
    let (dev, prod) = (environment("acme/dev", "acme"), environment("acme/prod", "acme"));
    assert_eq!(of(&[dev.clone(), prod.clone()]), None);
    let missing = |name| Some(format!("Environment {name} does not exist in organization acme"));
    assert_eq!(of(&[dev]), missing("prod"));
    assert_eq!(of(&[prod]), missing("dev"));
}

#[test]
fn children_are_those_whose_reference_leads_to_this_parent() {
    let named_greeter = component("greeter", "shop").named("other");
    let labelled_greeter = component("hash-1", "shop").named("greeter");
    let (of_greeter, of_other) = (track("t-greeter", "greeter"), track("t-other", "other"));
    let all = [named_greeter.clone(), labelled_greeter.clone(), of_greeter.clone(), of_other.clone()];
    assert_eq!(tracks_of(&labelled_greeter, &all), ["t-greeter"]);
    assert_eq!(tracks_of(&named_greeter, &all), ["t-other"]);
    // Without the other one, its name does.
    let alone = [named_greeter.clone(), of_greeter, of_other];
    assert_eq!(tracks_of(&named_greeter, &alone), ["t-greeter", "t-other"]);
}

#[test]
fn children_of_others_are_not_taken_for_ones_own() {
    let greeter = component("greeter", "shop").named("greeter");
    let all = [
        greeter.clone(),
        track("b", "greeter"),
        track("a", "greeter"),
        track("of-another-component", "other"),
        Sample::new(Kind::DeploymentTrack, "acme/of-another-project").below(&["acme", "blog", "greeter"]),
        Sample::new(Kind::DeploymentTrack, "globex/elsewhere").below(&["acme", "shop", "greeter"]),
        Sample::new(Kind::Build, "acme/build").below(&["acme", "shop", "greeter", "main"]),
    ];
    assert_eq!(tracks_of(&greeter, &all), ["a", "b"]);
    assert_eq!(names(children(&shelf(&all), &greeter.facts(), Kind::Build)), ["build"]);
}

#[test]
fn parents_that_cannot_be_told_apart_keep_their_children() {
    let (first, second) =
        (component("first", "shop").named("greeter"), component("second", "shop").named("greeter"));
    let all = [first.clone(), second.clone(), track("main", "greeter")];
    assert_eq!(tracks_of(&first, &all), ["main"]);
    assert_eq!(tracks_of(&second, &all), ["main"]);
}

/// Two components called greeter, the second of which is being deleted, and what goes with that one.
#[rstest]
#[case::a_copy(component("first", "shop").named("greeter"), &[])]
#[case::a_copy_of_one_that_is_called_so(component("greeter", "shop"), &[])]
#[case::a_copy_of_one_that_goes_as_well(component("first", "shop").named("greeter").deleted(), &["main"])]
#[case::of_another_project(component("first", "blog").named("greeter"), &["main"])]
#[case::of_another_name(component("first", "shop").named("other"), &["main"])]
fn the_copy_of_an_object_takes_nothing_of_the_original_along(
    #[case] original: Sample,
    #[case] expected: &[&str],
) {
    let copy = component("second", "shop").named("greeter").deleted();
    let all = [original, copy.clone(), track("main", "greeter")];
    let taken = taken_along(&shelf(&all), &copy.facts(), Kind::DeploymentTrack);
    assert_eq!(names(taken), expected);
}

#[test]
fn what_an_object_owns_goes_with_it_also_when_it_has_a_copy() {
    let deployment = |name: &str| {
        Sample::new(Kind::Deployment, &format!("acme/{name}"))
            .below(&["acme", "shop", "greeter", "main", "dev"])
            .named("d")
    };
    let (first, second) = (deployment("first").deleted(), deployment("second"));
    let endpoint = |name: &str, owner: &Sample| {
        let owner = owner.facts().uid.unwrap();
        Sample::new(Kind::Endpoint, &format!("acme/{name}"))
            .below(&["acme", "shop", "greeter", "main", "dev", "d"])
            .set(
                "metadata.ownerReferences",
                serde_json::json!([{
                "apiVersion": "v1", "kind": "Deployment", "name": "d", "uid": owner}]),
            )
    };
    let all = [first.clone(), second.clone(), endpoint("own", &first), endpoint("other", &second)];
    assert_eq!(names(taken_along(&shelf(&all), &first.facts(), Kind::Endpoint)), ["own"]);
}

#[test]
fn users_of_a_copy_are_waited_for_only_if_they_mean_nothing_else() {
    let (first, second) = (environment("acme/first", "acme"), environment("acme/second", "acme"));
    let deployment =
        Sample::new(Kind::Deployment, "acme/d").below(&["acme", "shop", "greeter", "main", "dev"]);
    let waited = |first: &Sample, second: &Sample| {
        let all = [first.clone(), second.clone(), deployment.clone()];
        names(users(&shelf(&all), &second.facts(), Kind::Deployment))
    };
    let copy = second.named("dev").deleted();
    assert_eq!(waited(&first.clone().named("dev"), &copy), [] as [&str; 0]);
    assert_eq!(waited(&first.clone().named("dev").deleted(), &copy), ["d"]);
    // It would be taken for another one, and moved to where that is, if this one went.
    assert_eq!(waited(&environment("acme/dev", "acme").named("other"), &copy), ["d"]);
    assert_eq!(waited(&first, &copy), ["d"]);
}

#[test]
fn what_is_recorded_on_a_data_plane_is_on_the_one_of_that_name_whatever_others_are_called() {
    let plane = |name: &str| Sample::new(Kind::DataPlane, &format!("acme/{name}")).below(&["acme"]);
    let deployment = Sample::new(Kind::Deployment, "acme/d")
        .below(&["acme", "shop", "greeter", "main", "dev"])
        .set("status.dataPlane", serde_json::json!({"namespace": "acme", "name": "plane"}));
    for (original, copy) in [
        (plane("plane").named("plane"), plane("copy").named("plane")),
        (plane("plane"), plane("copy").named("plane")),
        (plane("plane").label("organization", "of another name"), plane("copy")),
    ] {
        let all = [original.clone(), copy.clone(), deployment.clone()];
        let used = |plane: &Sample| names(users(&shelf(&all), &plane.facts(), Kind::Deployment));
        assert_eq!(used(&original.deleted()), ["d"]);
        assert_eq!(used(&copy.deleted()), [] as [&str; 0]);
    }
}

#[test]
fn twins_have_the_same_logical_name_and_live() {
    let project = |name: &str| Sample::new(Kind::Project, &format!("acme/{name}")).below(&["acme"]);
    let shop = project("a").named("shop");
    let all = [
        shop.clone(),
        project("b").named("shop"),
        project("shop"),
        project("c").named("shop").deleted(),
        project("d").named("other"),
        Sample::new(Kind::Project, "acme/e").below(&["globex"]).named("shop"),
    ];
    let of = |sample: &Sample, all: &[Sample]| names(twins(&shelf(all), &sample.facts()));
    assert_eq!(of(&shop, &all), ["b", "shop"]);
    assert_eq!(of(&all[2], &all), ["a", "b"]);
    // It is called so, and means something else.
    assert_eq!(of(&shop, &[shop.clone(), project("shop").named("other")]), [] as [&str; 0]);
    assert_eq!(of(&shop, std::slice::from_ref(&shop)), [] as [&str; 0]);
}

#[test]
fn an_organization_has_the_objects_of_its_own_namespace_only() {
    let acme = Sample::new(Kind::Organization, "acme");
    let all = [
        acme.clone(),
        Sample::new(Kind::Project, "acme/shop"),
        Sample::new(Kind::Project, "globex/claims-to-be-of-acme").below(&["acme"]),
    ];
    assert_eq!(names(children(&shelf(&all), &acme.facts(), Kind::Project)), ["shop"]);
}

/// A Release looks for its environment in its own namespace first, and then in `default`.
mod a_release {
    use super::*;

    fn release() -> Sample {
        Sample::new(Kind::Release, "acme/r").below(&["acme"])
    }

    fn own() -> Sample {
        environment("acme/dev", "acme")
    }

    fn fallback() -> Sample {
        environment("default/dev", "default")
    }

    fn found(environments: &[Sample]) -> Result<Id, ResolveError> {
        resolve(&shelf(environments), &release().facts(), Kind::Environment)
    }

    #[test]
    fn takes_the_environment_of_its_own_namespace_first() {
        assert_eq!(found(&[fallback(), own()]), Ok(own().id()));
        assert_eq!(found(&[fallback()]), Ok(fallback().id()));
        let error = found(&[]).unwrap_err().to_string();
        assert_eq!(error, "Environment dev does not exist in organization acme");
    }

    #[rstest]
    #[case::both(&[own(), fallback()], None)]
    #[case::own(&[own()], None)]
    #[case::fallback(&[fallback()], None)]
    #[case::none(&[], Some("Environment dev does not exist in organization acme"))]
    fn lacks_an_environment_when_it_is_in_neither(
        #[case] environments: &[Sample],
        #[case] expected: Option<&str>,
    ) {
        let error = unresolved(&shelf(environments), &release().facts(), &[Kind::Environment]);
        assert_eq!(error.map(|error| error.to_string()).as_deref(), expected);
    }

    #[test]
    fn uses_only_the_environment_that_it_takes() {
        let users = |of: &Sample, all: &[Sample]| names(children(&shelf(all), &of.facts(), Kind::Release));
        assert_eq!(users(&own(), &[own(), fallback(), release()]), ["r"]);
        assert_eq!(users(&fallback(), &[own(), fallback(), release()]), [] as [&str; 0]);
        assert_eq!(users(&fallback(), &[fallback(), release()]), ["r"]);
    }

    #[test]
    fn does_not_use_an_environment_of_the_fallback_that_is_called_like_one_of_two_of_its_own() {
        let all = [
            environment("acme/a", "acme").named("dev"),
            environment("acme/b", "acme").named("dev"),
            environment("default/a", "default").named("dev"),
            release(),
        ];
        assert_eq!(names(children(&shelf(&all), &all[0].facts(), Kind::Release)), ["r"]);
        assert_eq!(names(children(&shelf(&all), &all[2].facts(), Kind::Release)), [] as [&str; 0]);
    }
}
