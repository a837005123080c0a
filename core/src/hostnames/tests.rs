mod claims;
mod domains;
mod model;
mod names;
mod release;
mod simulation;
mod steps;

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kantor_api::{annotations, hostname_claim::HostnameClaim};
use kube_core::ResourceExt;

use super::{
    book::Book,
    claims::{Contender, new_claim},
    key::ClaimKey,
};

fn key(host: &str) -> ClaimKey {
    match host.split_once('/') {
        None => ClaimKey::custom(host).unwrap(),
        Some((host, path)) => ClaimKey::provided(host, path, "plane").unwrap(),
    }
}

fn keys(hosts: &[&str]) -> BTreeSet<ClaimKey> {
    hosts.iter().map(|host| key(host)).collect()
}

/// `acme/shop` is the Endpoint `shop` of the organization `acme`.
fn endpoint(path: &str) -> Contender {
    let (organization, name) = path.split_once('/').unwrap();
    Contender {
        organization: organization.into(),
        namespace: format!("{organization}-ns"),
        name: name.into(),
        uid: format!("uid-{name}"),
    }
}

fn at(second: i64) -> Time {
    Time(Timestamp::from_second(second).unwrap())
}

/// A claim as the server has it.
fn claim(holder: &str, host: &str, created: i64) -> HostnameClaim {
    let mut claim = new_claim(&endpoint(holder), &key(host));
    claim.metadata.uid = Some(format!("claim-{host}"));
    claim.metadata.resource_version = Some("7".into());
    claim.metadata.creation_timestamp = Some(at(created));
    claim
}

fn with(mut claim: HostnameClaim, annotation: &str, value: &str) -> HostnameClaim {
    claim.annotations_mut().insert(annotation.into(), value.into());
    claim
}

fn transferred(claim: HostnameClaim, to: &str) -> HostnameClaim {
    with(claim, annotations::TRANSFER_TO, to)
}

fn also_served(claim: HostnameClaim, by: &str) -> HostnameClaim {
    with(claim, annotations::ALSO_SERVED_BY, by)
}

fn book(claims: impl IntoIterator<Item = HostnameClaim>) -> Book {
    let mut book = Book::default();
    claims.into_iter().for_each(|claim| book.set(Arc::new(claim)));
    book
}
