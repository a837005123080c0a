use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kantor_api::{annotations, hostname_claim::HostnameClaim};
use kube_core::ResourceExt;
use rstest::rstest;

use super::{
    super::{
        claims::Contender,
        release::{Deletion, Release, orphaned, release},
    },
    also_served, at, claim, endpoint, transferred,
};

const HOST: &str = "a.example.com";

fn waiters(list: &[(i64, &str)]) -> Vec<(Time, Contender)> {
    list.iter().map(|(created, path)| (at(*created), endpoint(path))).collect()
}

/// `Delete`, `Await`, or the name of the new holder.
fn told(way: &Release) -> String {
    match way {
        Release::HandOver(claim) => {
            assert!(!claim.annotations().contains_key(annotations::TRANSFER_TO));
            assert_eq!(claim.resource_version().as_deref(), Some("7"));
            claim.spec.holder.name.clone()
        }
        Release::Clear(claim) => {
            format!(
                "Clear {}",
                claim.annotations().get(annotations::ALSO_SERVED_BY).map_or("", String::as_str)
            )
        }
        Release::Delete(deletion) => {
            let (uid, resource_version) = (Some(format!("claim-{HOST}")), Some("7".into()));
            assert_eq!(*deletion, Deletion { name: HOST.into(), uid, resource_version });
            "Delete".into()
        }
        Release::Await => "Await".into(),
        Release::Leave => "Leave".into(),
    }
}

fn held() -> HostnameClaim {
    claim("acme/shop", HOST, 1)
}

#[rstest]
#[case::nobody_waits(held(), &[], "Delete")]
#[case::one_waits(held(), &[(9, "acme/cart")], "cart")]
#[case::the_oldest(held(), &[(9, "acme/cart"), (3, "acme/zoo"), (5, "acme/blog")], "zoo")]
#[case::by_name_in_the_same_second(held(), &[(3, "acme/zoo"), (3, "acme/blog")], "blog")]
#[case::the_one_it_is_for(transferred(held(), "acme-ns/cart"), &[(9, "acme/cart"), (3, "acme/zoo")], "cart")]
#[case::the_one_it_is_for_does_not_wait(transferred(held(), "acme-ns/x"), &[(9, "acme/cart")], "cart")]
#[case::not_another_organization(held(), &[(3, "globex/web")], "Delete")]
#[case::not_another_organization_even_if_for_it(transferred(held(), "globex-ns/web"), &[(3, "globex/web")], "Delete")]
#[case::not_oneself(held(), &[(3, "acme/shop")], "Delete")]
#[case::not_the_holder(claim("acme/cart", HOST, 1), &[(3, "acme/blog")], "Leave")]
#[case::others_serve_it(also_served(held(), "uid-cart"), &[], "Await")]
#[case::others_serve_it_and_wait(also_served(held(), "uid-cart"), &[(3, "acme/cart")], "cart")]
fn a_host_goes_to_the_oldest_that_waits(
    #[case] claim: HostnameClaim,
    #[case] waiting: &[(i64, &str)],
    #[case] expected: &str,
) {
    assert_eq!(told(&release(&endpoint("acme/shop"), &claim, &waiters(waiting))), expected);
}

#[test]
fn whoever_gets_a_host_needs_no_note() {
    let claim = also_served(held(), "uid-blog,uid-cart");
    let Release::HandOver(claim) = release(&endpoint("acme/shop"), &claim, &waiters(&[(3, "acme/cart")]))
    else {
        panic!("not handed over")
    };
    assert_eq!(claim.annotations().get(annotations::ALSO_SERVED_BY).map(String::as_str), Some("uid-blog"));
}

#[rstest]
#[case::alive(held(), "", &[], "Leave")]
#[case::gone(held(), "uid-shop", &[], "Delete")]
#[case::gone_and_one_waits(held(), "uid-shop", &[(3, "acme/cart")], "cart")]
#[case::gone_as_the_one_that_waits(held(), "uid-shop uid-zoo", &[(3, "acme/zoo"), (4, "acme/cart")], "cart")]
#[case::gone_while_others_serve(also_served(held(), "uid-cart"), "uid-shop", &[], "Await")]
#[case::gone_as_one_of_the_others(also_served(held(), "uid-cart,uid-zoo"), "uid-shop uid-zoo", &[], "Clear uid-cart")]
#[case::gone_as_the_others(also_served(held(), "uid-cart"), "uid-shop uid-cart", &[], "Delete")]
#[case::only_the_others_gone(also_served(held(), "uid-cart"), "uid-cart", &[], "Clear ")]
#[case::not_another_organization(held(), "uid-shop", &[(3, "globex/web")], "Delete")]
fn what_the_gone_held_is_let_go(
    #[case] claim: HostnameClaim,
    #[case] gone: &str,
    #[case] waiting: &[(i64, &str)],
    #[case] expected: &str,
) {
    let gone = |uid: &str| gone.split_whitespace().any(|gone| gone == uid);
    assert_eq!(told(&orphaned(&claim, gone, &waiters(waiting))), expected);
}
