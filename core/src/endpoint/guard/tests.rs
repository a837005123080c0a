use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::endpoint::paths::{Relation, relation};

#[expect(clippy::needless_pass_by_value, reason = "json! makes values")]
fn side(policies: Value) -> Visibility {
    serde_json::from_value(json!({"enable": true, "policies": policies})).unwrap()
}

fn limited(operations: &[(&str, String, i64)]) -> Visibility {
    let rest: Vec<Value> = operations
        .iter()
        .map(|(method, target, limit)| {
            json!({"method": method, "target": target, "timeUnit": "Day", "requestLimit": limit})
        })
        .collect();
    side(json!([{"name": "limits", "type": "rate-limit", "policySpec": {"rateLimit": {
        "apiLevel": {"timeUnit": "Minute", "requestLimit": 9}, "operationLevel": {"rest": rest},
    }}}]))
}

fn guarded(visibility: &Visibility) -> (Guard, Vec<Problem>) {
    let mut problems = vec![];
    let guard = Guard::of(visibility, EndpointType::REST, &mut problems);
    (guard, problems)
}

/// What was asked of each pair.
fn related(one: &Operation, other: &Operation) -> Option<Relation> {
    match (one, other) {
        (Operation::Rest { method, target }, Operation::Rest { method: theirs, target: other })
            if method == theirs =>
        {
            Some(relation(target, other))
        }
        _ => None,
    }
}

fn contradictions(guard: &Guard) -> Vec<Problem> {
    let mut found = vec![];
    for (i, (one, rules)) in guard.operations.iter().enumerate() {
        for (other, others) in guard.operations.iter().skip(i + 1) {
            if rules != others && related(one, other) == Some(Relation::Across) {
                let message = format!("{one} and {other} match the same requests, with different rules");
                found.push(Problem::new(reasons::INVALID_ENDPOINT, message));
            }
        }
    }
    found
}

fn in_order(guard: &Guard) -> Vec<(&Operation, &Rules, Vec<usize>)> {
    let mut all: Vec<(&Operation, &Rules)> = guard.operations.iter().collect();
    all.sort_by_key(|(operation, _)| operation.literals());
    let around = |(one, rules): (&Operation, &Rules)| -> Vec<usize> {
        let wider = |(other, others): &(&Operation, &Rules)| {
            *other != one && *others != rules && related(one, other) == Some(Relation::Within)
        };
        (0..all.len()).filter(|i| wider(&all[*i])).collect()
    };
    all.iter().map(|(operation, rules)| (*operation, *rules, around((operation, rules)))).collect()
}

proptest! {
    #[test]
    fn contradictions_and_order_are_those_of_comparing_all_pairs(
        operations in prop::collection::vec(
            (prop::sample::select(vec!["GET", "PUT"]), "(/([abA]|\\{[xy]\\})){1,3}/?", 1_i64..4), 0..40,
        ),
    ) {
        let (guard, problems) = guarded(&limited(&operations));
        let all = contradictions(&guard);
        prop_assert_eq!(&problems[..], &all[..all.len().min(MOST_TOLD)]);
        prop_assert_eq!(guard.in_order(), in_order(&guard));
    }
}

fn plain(count: usize) -> Vec<(&'static str, String, i64)> {
    (0..count).map(|i| ("GET", format!("/x{i}"), 1)).collect()
}

#[test]
fn there_are_no_more_operations_than_the_api_server_lets_in_for_one_policy() {
    let most = bounds::OPERATIONS as usize;
    assert_eq!(guarded(&limited(&plain(most))).1, []);
    let (_, problems) = guarded(&limited(&plain(12_000)));
    assert_eq!(problems.len(), 1);
    assert!(problems[0].message.contains("12000 operations; at most 256"), "{problems:?}");
}

#[test]
fn a_header_that_two_policies_ask_for_is_set_once() {
    let policy = |name: &str| {
        json!({"name": name, "type": "oauth2", "policySpec": {"oauth2": {"jwt": {"authorization": {
            "apiType": "REST", "rest": {"operations": [], "claimsToHeaders": [
                {"name": "sub", "header": "x-user"}, {"name": "sub", "header": "x-user"}, {"name": name, "header": "x-own"},
            ]},
        }}}}})
    };
    let (guard, problems) = guarded(&side(json!([policy("a"), policy("b")])));
    assert_eq!(problems, []);
    let headers: Vec<_> = guard.token.unwrap().headers.into_iter().map(|h| (h.name, h.header)).collect();
    let expected = [("sub", "x-user"), ("a", "x-own"), ("b", "x-own")];
    assert_eq!(headers, expected.map(|(name, header)| (name.to_owned(), header.to_owned())));
}
