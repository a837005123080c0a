//! How what runs is reached: Services, Ingresses, and the kinds of the Gateway API.

use serde_json::Value;

use super::{
    Verdict,
    view::{self, Condition, View, condition},
};

pub(super) fn service(object: View<'_>) -> Verdict {
    let balanced = object.text("/spec/type") == Some("LoadBalancer");
    if balanced && object.list("/status/loadBalancer/ingress").is_empty() {
        return Verdict::progressing("waits for an address of the load balancer");
    }
    Verdict::healthy()
}

/// An Ingress is well as soon as it is there: many controllers never write its status.
pub(super) fn ingress() -> Verdict {
    Verdict::healthy()
}

/// A Route of any protocol. Each controller writes one entry for each parent that it serves.
pub(super) fn route(object: View<'_>) -> Verdict {
    let generation = object.generation();
    let parents: Vec<&[Value]> =
        object.list("/status/parents").iter().map(|parent| View::new(parent).list("/conditions")).collect();
    if parents.is_empty() {
        return Verdict::progressing("no gateway has accepted it yet");
    }
    let all = |kind: &'static str| parents.iter().map(move |conditions| condition(conditions, kind));
    let accepted = || all("Accepted");
    let resolved = || all("ResolvedRefs");
    if accepted().chain(resolved()).flatten().any(|c| c.is_stale(generation)) {
        return view::unobserved();
    }
    if let Some(refused) = accepted().chain(resolved()).flatten().find(Condition::is_false) {
        return Verdict::degraded(refused.say());
    }
    for answer in accepted() {
        match answer {
            Some(c) if c.is_true() => {}
            Some(c) => return Verdict::progressing(c.say()),
            None => return Verdict::progressing("a gateway has not accepted it yet"),
        }
    }
    if let Some(open) = resolved().flatten().find(|c| !c.is_true()) {
        return Verdict::progressing(open.say());
    }
    let (have, want) = (answered(object), object.list("/spec/parentRefs").len());
    if have < want {
        return Verdict::progressing(format!("{have} of {want} parents have accepted it"));
    }
    Verdict::healthy()
}

/// For how many parents there is an answer; several controllers may answer for one.
fn answered(object: View<'_>) -> usize {
    let mut seen: Vec<Option<&Value>> = Vec::new();
    for parent in object.list("/status/parents") {
        let parent = parent.get("parentRef");
        if !seen.contains(&parent) {
            seen.push(parent);
        }
    }
    seen.len()
}

pub(super) fn gateway(object: View<'_>) -> Verdict {
    let generation = object.generation();
    let (accepted, programmed) = (object.condition("Accepted"), object.condition("Programmed"));
    if accepted.iter().chain(&programmed).any(|c| c.is_stale(generation)) {
        return view::unobserved();
    }
    if let Some(refused) = accepted.filter(Condition::is_false) {
        return Verdict::degraded(refused.say());
    }
    match programmed {
        Some(c) if c.is_true() => Verdict::healthy(),
        Some(c) if c.is_false() && c.reason() == "Invalid" => Verdict::degraded(c.say()),
        Some(c) => Verdict::progressing(c.say()),
        None => Verdict::progressing("no controller has programmed it yet"),
    }
}

pub(super) fn gateway_class(object: View<'_>) -> Verdict {
    match object.condition("Accepted") {
        Some(c) if c.is_stale(object.generation()) => view::unobserved(),
        Some(c) if c.is_true() => Verdict::healthy(),
        Some(c) if c.is_false() => Verdict::degraded(c.say()),
        Some(c) => Verdict::progressing(c.say()),
        None => Verdict::progressing("no controller has accepted it yet"),
    }
}
