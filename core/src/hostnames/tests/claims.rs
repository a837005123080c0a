use rstest::rstest;

use super::{
    super::claims::{
        State, also_served_by, clear, conflict_message, decide, in_the_way, new_claim, prepare, take_over,
    },
    also_served, book, claim, endpoint, key, keys, transferred,
};

fn withheld(by: &str) -> State {
    State::Withheld { by: by.into() }
}

#[rstest]
#[case::nobody(vec![], State::Free)]
#[case::own(vec![claim("acme/shop", "a.example.com", 5)], State::Held)]
#[case::of_the_organization(vec![claim("acme/cart", "a.example.com", 5)], withheld("acme-ns/cart"))]
#[case::handed_over(vec![transferred(claim("acme/cart", "a.example.com", 5), "acme-ns/shop")], State::Incoming)]
#[case::handed_to_another(vec![transferred(claim("acme/cart", "a.example.com", 5), "acme-ns/x")], withheld("acme-ns/cart"))]
#[case::handed_to_nonsense(vec![transferred(claim("acme/cart", "a.example.com", 5), "shop")], withheld("acme-ns/cart"))]
#[case::of_another(vec![claim("globex/web", "a.example.com", 5)], State::Foreign)]
#[case::of_another_and_handed_over(
    vec![transferred(claim("globex/web", "a.example.com", 5), "acme-ns/shop")],
    State::Foreign
)]
#[case::overlapping_another(vec![claim("globex/web", "*.example.com", 5)], State::Foreign)]
#[case::overlapping_an_older(
    vec![claim("acme/shop", "a.example.com", 5), claim("globex/web", "*.example.com", 4)],
    State::Yielding
)]
#[case::overlapping_a_younger(
    vec![claim("acme/shop", "a.example.com", 5), claim("globex/web", "*.example.com", 6)],
    State::Held
)]
#[case::in_the_same_second_by_uid(
    vec![claim("acme/shop", "a.example.com", 5), claim("globex/web", "*.example.com", 5)],
    State::Yielding
)]
#[case::of_the_organization_overlapping_an_older(
    vec![claim("acme/cart", "a.example.com", 5), claim("globex/web", "*.example.com", 4)],
    State::Foreign
)]
#[case::overlapping_the_own_organization(vec![claim("acme/cart", "*.example.com", 4)], State::Free)]
#[case::next_to_another(vec![claim("globex/web", "b.example.com", 4)], State::Free)]
fn it_is_told_how_it_stands_with_a_host(
    #[case] claims: Vec<kantor_api::hostname_claim::HostnameClaim>,
    #[case] expected: State,
) {
    let decision = decide(&endpoint("acme/shop"), &keys(&["a.example.com"]), &book(claims));
    assert_eq!(decision.keys[&key("a.example.com")], expected);
}

#[test]
fn what_routes_have_and_another_holds_was_handed_over() {
    let claims = book([
        claim("acme/shop", "held.example.com", 1),
        claim("acme/cart", "given.example.com", 1),
        claim("acme/cart", "never-had.example.com", 1),
        transferred(claim("acme/cart", "coming.example.com", 1), "acme-ns/shop"),
    ]);
    let hosts = ["held.example.com", "given.example.com", "never-had.example.com", "coming.example.com"];
    let decision = decide(&endpoint("acme/shop"), &keys(&hosts), &claims);
    let served = keys(&[
        "held.example.com",
        "given.example.com",
        "coming.example.com",
        "no-longer-wanted.example.com",
    ]);
    assert_eq!(decision.handed_over(&served), keys(&["given.example.com"]));
    assert_eq!(decision.incoming().collect::<Vec<_>>(), [&key("coming.example.com")]);
}

#[test]
fn an_endpoint_made_anew_does_not_hold_what_the_old_one_held() {
    let mut old = claim("acme/shop", "a.example.com", 1);
    old.spec.holder.uid = "uid-of-the-old-one".into();
    let decision = decide(&endpoint("acme/shop"), &keys(&["a.example.com"]), &book([old]));
    assert_eq!(decision.keys[&key("a.example.com")], withheld("acme-ns/shop"));
}

#[test]
fn more_names_for_the_same_endpoint_are_not_withheld() {
    let claims = book([claim("acme/shop", "a.example.com", 1)]);
    let decision = decide(&endpoint("acme/shop"), &keys(&["a.example.com", "b.example.com"]), &claims);
    assert!(!decision.is_refused());
    assert!(decision.waiting().is_empty());
}

#[test]
fn only_what_another_endpoint_of_the_organization_holds_is_withheld() {
    let claims = book([claim("acme/cart", "b.example.com", 1)]);
    let decision = decide(&endpoint("acme/shop"), &keys(&["a.example.com", "b.example.com"]), &claims);
    assert!(!decision.is_refused());
    assert_eq!(decision.waiting(), ["b.example.com"]);
    assert_eq!(conflict_message(&decision), None);
}

#[test]
fn what_another_organization_holds_refuses_all_and_does_not_tell_who() {
    let claims = book([claim("globex/web", "*.example.com", 1), claim("acme/cart", "c.example.org", 1)]);
    let wanted = keys(&["a.example.com", "b.example.org", "c.example.org"]);
    let decision = decide(&endpoint("acme/shop"), &wanted, &claims);
    assert!(decision.is_refused());
    assert!(decision.waiting().is_empty(), "one that is refused does not wait");
    let message = conflict_message(&decision).unwrap();
    assert!(message.contains("a.example.com") && !message.contains("example.org"), "{message}");
    for secret in ["globex", "web", "*."] {
        assert!(!message.contains(secret), "{message}");
    }
}

#[rstest]
#[case::free("a.example.com", vec![], &["a.example.com"])]
#[case::of_the_organization("a.example.com", vec![claim("acme/cart", "a.example.com", 1)], &["a.example.com"])]
#[case::above("a.example.com", vec![claim("globex/web", "*.example.com", 1)], &["*.example.com", "a.example.com"])]
#[case::one_below_of_several(
    "*.example.com",
    vec![claim("globex/web", "a.example.com", 1), claim("globex/web", "b.example.com", 1)],
    &["*.example.com", "a.example.com"]
)]
#[case::of_the_organization_below("*.example.com", vec![claim("acme/cart", "a.example.com", 1)], &["*.example.com"])]
#[case::a_younger_one_is_not(
    "*.example.com",
    vec![
        claim("acme/shop", "*.example.com", 2),
        claim("globex/web", "a.example.com", 3),
        claim("globex/web", "b.example.com", 1),
    ],
    &["*.example.com", "b.example.com"]
)]
fn what_is_in_the_way_of_a_host_is_its_claim_and_one_that_overlaps_it(
    #[case] wanted: &str,
    #[case] claims: Vec<kantor_api::hostname_claim::HostnameClaim>,
    #[case] expected: &[&str],
) {
    let found = in_the_way(&endpoint("acme/shop"), &keys(&[wanted]), &book(claims));
    assert_eq!(found, expected.iter().map(|host| key(host).name()).collect());
}

#[test]
fn a_new_claim_names_its_endpoint() {
    let (me, key) = (endpoint("acme/shop"), key("apis.example.com/shop"));
    let claim = new_claim(&me, &key);
    assert_eq!(claim.metadata.name, Some(key.name()));
    assert_eq!(claim.spec.organization, "acme");
    assert!(me.holds(&claim) && me.may_serve(&claim));
    assert!(!endpoint("acme/cart").may_serve(&claim));
}

#[test]
fn a_host_is_handed_over_in_three_writes() {
    let (old, new) = (endpoint("acme/cart"), endpoint("acme/shop"));
    let seen = transferred(claim("acme/cart", "a.example.com", 5), "acme-ns/shop");

    let prepared = prepare(&new, &seen).unwrap();
    assert!(old.holds(&prepared) && new.may_serve(&prepared) && !new.holds(&prepared));
    assert_eq!(prepare(&new, &prepared), None);

    let taken = take_over(&new, &prepared).unwrap();
    assert!(new.holds(&taken) && old.may_serve(&taken) && !old.holds(&taken));
    assert_eq!(taken.metadata.resource_version, seen.metadata.resource_version);
    assert_eq!(taken.metadata.uid, seen.metadata.uid);
    assert_eq!(take_over(&new, &taken), None);

    let cleared = clear(&old, &taken).unwrap();
    assert!(!old.may_serve(&cleared) && new.holds(&cleared));
    assert_eq!(clear(&old, &cleared), None);
    assert!(cleared.metadata.annotations.unwrap_or_default().is_empty());
}

#[rstest]
#[case::not_handed_over(claim("acme/cart", "a.example.com", 5))]
#[case::to_another(transferred(claim("acme/cart", "a.example.com", 5), "acme-ns/blog"))]
#[case::of_another_organization(transferred(claim("globex/web", "a.example.com", 5), "acme-ns/shop"))]
fn nothing_else_is_taken_over(#[case] claim: kantor_api::hostname_claim::HostnameClaim) {
    assert_eq!(prepare(&endpoint("acme/shop"), &claim), None);
    assert_eq!(take_over(&endpoint("acme/shop"), &claim), None);
}

#[test]
fn those_who_serve_too_are_a_list() {
    let claim = also_served(claim("acme/cart", "a.example.com", 5), " uid-a,,uid-b ");
    assert_eq!(also_served_by(&claim).collect::<Vec<_>>(), ["uid-a", "uid-b"]);
}
