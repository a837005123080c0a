use kantor_api::{annotations, hostname_claim::HostnameClaim};
use kube_core::ResourceExt;
use rstest::rstest;

use super::{
    super::{
        claims::decide,
        key::ClaimKey,
        steps::{Facts, Step, confirmed, next},
    },
    also_served, book, claim, endpoint, key, keys, transferred,
};

/// The next step of `acme/shop`, in words.
fn told(wanted: &[&str], served: &[&str], claims: Vec<HostnameClaim>) -> String {
    told_if(true, wanted, served, claims)
}

/// The same, given whether requests are answered.
fn told_if(answers: bool, wanted: &[&str], served: &[&str], claims: Vec<HostnameClaim>) -> String {
    let (me, claims) = (endpoint("acme/shop"), book(claims));
    let decision = decide(&me, &keys(wanted), &claims);
    let facts = Facts { me: &me, decision: &decision, served: &keys(served), claims: &claims, answers };
    match next(&facts, |_| vec![]) {
        Step::Create(claim) => format!("create {}", claim.name_any()),
        Step::Update(claim) => {
            let others = claim.annotations().get(annotations::ALSO_SERVED_BY).map_or("", String::as_str);
            format!("{} {} {others}", claim.name_any(), claim.spec.holder.name).trim_end().to_owned()
        }
        Step::Delete(deletion) => format!("delete {}", deletion.name),
        Step::Serve(keys) => {
            format!("serve {}", keys.iter().map(ClaimKey::shown).collect::<Vec<_>>().join(" "))
        }
        Step::Rest => "rest".to_owned(),
    }
}

const A: &str = "a.example.com";
const B: &str = "b.example.com";

fn own(host: &str) -> HostnameClaim {
    claim("acme/shop", host, 5)
}

fn incoming() -> HostnameClaim {
    transferred(claim("acme/cart", A, 5), "acme-ns/shop")
}

#[rstest]
#[case::claims_come_first(&[A, B], &[], vec![], "create a.example.com")]
#[case::one_after_the_other(&[A, B], &[], vec![own(A)], "create b.example.com")]
#[case::then_the_route(&[A, B], &[], vec![own(A), own(B)], "serve a.example.com b.example.com")]
#[case::then_nothing(&[A, B], &[A, B], vec![own(A), own(B)], "rest")]
#[case::the_route_goes_before_the_claim(&[A], &[A, B], vec![own(A), own(B)], "serve a.example.com")]
#[case::the_claim_follows(&[A], &[A], vec![own(A), own(B)], "delete b.example.com")]
#[case::the_rest_is_served_without_what_is_withheld(&[A, B], &[], vec![own(A), claim("acme/cart", B, 1)], "serve a.example.com")]
#[case::what_is_handed_over_is_noted_first(&[A], &[], vec![incoming()], "a.example.com cart uid-shop")]
#[case::then_served(&[A], &[], vec![also_served(incoming(), "uid-shop")], "serve a.example.com")]
#[case::then_taken(&[A], &[A], vec![also_served(incoming(), "uid-shop")], "a.example.com shop uid-cart")]
#[case::what_was_taken_is_not_served(&[A], &[A], vec![also_served(claim("acme/cart", A, 5), "uid-shop")], "serve ")]
#[case::and_then_the_note_goes(&[A], &[], vec![also_served(claim("acme/cart", A, 5), "uid-shop")], "a.example.com cart")]
#[case::refused_serves_nothing(&[A, B], &[A], vec![own(A), claim("globex/web", B, 1)], "serve ")]
#[case::refused_keeps_and_claims_nothing(&[A, B, "c.example.com"], &[], vec![own(A), claim("globex/web", B, 1)], "rest")]
#[case::refused_lets_go_of_the_unwanted(&[B], &[], vec![own(A), claim("globex/web", B, 1)], "delete a.example.com")]
#[case::refused_takes_nothing(&[A, B], &[], vec![incoming(), claim("globex/web", B, 1)], "rest")]
#[case::the_younger_yields(&[A], &[], vec![own(A), claim("globex/web", "*.example.com", 1)], "delete a.example.com")]
#[case::but_not_while_it_is_served(&[A], &[A], vec![own(A), claim("globex/web", "*.example.com", 1)], "serve ")]
#[case::not_while_others_serve(&[], &[], vec![also_served(own(A), "uid-cart")], "rest")]
fn steps_follow_each_other(
    #[case] wanted: &[&str],
    #[case] served: &[&str],
    #[case] claims: Vec<HostnameClaim>,
    #[case] expected: &str,
) {
    assert_eq!(told(wanted, served, claims), expected);
}

#[rstest]
#[case::does_not_get_it(&[A], &[], vec![incoming()], "rest")]
#[case::nor_when_it_was_noted(&[A], &[], vec![also_served(incoming(), "uid-shop")], "rest")]
#[case::keeps_what_it_has_got(&[A], &[A], vec![also_served(incoming(), "uid-shop")], "rest")]
#[case::keeps_what_it_holds(&[A, B], &[A], vec![own(A), own(B)], "serve a.example.com b.example.com")]
#[case::lets_go_all_the_same(&[A], &[A], vec![also_served(incoming(), "uid-shop"), own(B)], "delete b.example.com")]
fn who_does_not_answer(
    #[case] wanted: &[&str],
    #[case] served: &[&str],
    #[case] claims: Vec<HostnameClaim>,
    #[case] expected: &str,
) {
    assert_eq!(told_if(false, wanted, served, claims), expected);
}

#[test]
fn routes_get_only_what_the_server_confirms() {
    let me = endpoint("acme/shop");
    let live = book([own(A), claim("globex/web", B, 9)]);
    let target = keys(&[A, B, "c.example.com", "d.example.com"]);
    let kept = confirmed(&me, &keys(&["d.example.com"]), &target, |key| live.get(&key.name()).cloned());
    assert_eq!(kept, [key(A), key("d.example.com")].into());
}
