//! Host names of the routes that a Release brings, where its data plane allows routes at all.

use std::collections::BTreeSet;

use kube_core::DynamicObject;
use serde_json::Value;

use super::Rendered;
use crate::{
    changes::{identity, shown},
    hostnames::{domains::Domains, key::ClaimKey},
};

/// The most hosts that one Release may have.
const MOST: usize = 64;

/// Whether objects of this kind lead requests somewhere by the host that they are for.
pub fn is_route(group: &str, kind: &str) -> bool {
    ROUTES.contains(&(group, kind))
}

/// The kinds that lead requests for a host, by group.
pub const ROUTES: [(&str, &str); 5] = [
    ("gateway.networking.k8s.io", "HTTPRoute"),
    ("gateway.networking.k8s.io", "GRPCRoute"),
    ("gateway.networking.k8s.io", "TLSRoute"),
    ("networking.k8s.io", "Ingress"),
    ("extensions", "Ingress"),
];

/// What has to be claimed for the routes of a Release, or all that stands against it.
pub fn wanted_hosts(rendered: &[Rendered], domains: &Domains<'_>) -> Result<BTreeSet<ClaimKey>, Vec<String>> {
    let (mut keys, mut problems) = (BTreeSet::new(), vec![]);
    for rendered in rendered {
        let object = &rendered.wanted.object;
        let (group, _, kind) = identity(object);
        if !is_route(&group, &kind) {
            continue;
        }
        let mut refuse = |why: String| problems.push(format!("{}: {why}", shown(&rendered.item())));
        if takes_all(&kind, object) {
            refuse(
                "it has no host, so that it takes those of everybody; write the hosts that it is for"
                    .to_owned(),
            );
        }
        for host in hosts(&kind, object) {
            let key = ClaimKey::custom(host).and_then(|key| domains.allow(&key.hostname).map(|()| key));
            match key {
                Ok(key) => drop(keys.insert(key)),
                Err(why) => refuse(why),
            }
        }
    }
    if keys.len() > MOST {
        problems.push(format!("the routes have {} hosts; a Release may have {MOST}", keys.len()));
    }
    if problems.is_empty() { Ok(keys) } else { Err(problems) }
}

/// What a route on a plane has.
pub fn served_hosts(route: &DynamicObject) -> BTreeSet<ClaimKey> {
    let kind = identity(route).2;
    hosts(&kind, route).filter_map(|host| ClaimKey::custom(host).ok()).collect()
}

fn hosts<'a>(kind: &str, object: &'a DynamicObject) -> impl Iterator<Item = &'a str> {
    let at = |path: &str| object.data.pointer(path).and_then(Value::as_array).into_iter().flatten();
    let (named, ruled, secured) = if kind == "Ingress" {
        (None, Some(at("/spec/rules")), Some(at("/spec/tls")))
    } else {
        (Some(at("/spec/hostnames")), None, None)
    };
    let ruled = ruled.into_iter().flatten().filter_map(|rule| rule.get("host"));
    let secured = secured.into_iter().flatten().filter_map(|tls| tls.get("hosts")?.as_array()).flatten();
    let all = named.into_iter().flatten().chain(ruled).chain(secured);
    all.filter_map(Value::as_str).filter(|host| !host.is_empty())
}

/// Whether a route leads requests for hosts that it does not name.
fn takes_all(kind: &str, object: &DynamicObject) -> bool {
    let spec = |field: &str| object.data.get("spec").and_then(|spec| spec.get(field));
    let list = |field: &str| spec(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    if kind == "Ingress" {
        let rules = list("rules");
        spec("defaultBackend").or_else(|| spec("backend")).is_some_and(|backend| !backend.is_null())
            || rules.is_empty()
            || !rules.iter().all(|rule| rule.get("host").is_some_and(text))
    } else {
        let hosts = list("hostnames");
        hosts.is_empty() || !hosts.iter().all(text)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::changes::Wanted;

    fn route(api: &str, kind: &str, spec: &Value) -> Rendered {
        let object = json!({"apiVersion": api, "kind": kind, "metadata": {"name": "cart", "namespace": "app"}, "spec": spec});
        Rendered { id: "route".into(), wanted: Wanted::new(serde_json::from_value(object).unwrap()) }
    }

    const GATEWAY: &str = "gateway.networking.k8s.io/v1";
    const INGRESS: &str = "networking.k8s.io/v1";

    #[rstest]
    #[case::named(GATEWAY, "HTTPRoute", json!({"hostnames": ["Shop.acme.example."]}), Ok(&["shop.acme.example"][..]))]
    #[case::several(GATEWAY, "GRPCRoute", json!({"hostnames": ["b.example.com", "*.a.example.com"]}), Ok(&["*.a.example.com", "b.example.com"][..]))]
    #[case::passed_through(GATEWAY, "TLSRoute", json!({"hostnames": ["a.example.com"]}), Ok(&["a.example.com"][..]))]
    #[case::rules(INGRESS, "Ingress", json!({"rules": [{"host": "a.example.com"}, {"host": "b.example.com"}], "tls": [{"hosts": ["c.example.com"]}]}), Ok(&["a.example.com", "b.example.com", "c.example.com"][..]))]
    #[case::no_hosts(GATEWAY, "HTTPRoute", json!({}), Err("it has no host"))]
    #[case::empty_hosts(GATEWAY, "HTTPRoute", json!({"hostnames": []}), Err("it has no host"))]
    #[case::an_empty_host(GATEWAY, "HTTPRoute", json!({"hostnames": ["a.example.com", ""]}), Err("it has no host"))]
    #[case::no_text(GATEWAY, "HTTPRoute", json!({"hostnames": ["a.example.com", 1]}), Err("it has no host"))]
    #[case::a_rule_without_host(INGRESS, "Ingress", json!({"rules": [{"host": "a.example.com"}, {"http": {}}]}), Err("it has no host"))]
    #[case::default_backend(INGRESS, "Ingress", json!({"rules": [{"host": "a.example.com"}], "defaultBackend": {"service": {"name": "a"}}}), Err("it has no host"))]
    #[case::old_default_backend("extensions/v1beta1", "Ingress", json!({"rules": [{"host": "a.example.com"}], "backend": {"serviceName": "a"}}), Err("it has no host"))]
    #[case::no_domain(GATEWAY, "HTTPRoute", json!({"hostnames": ["localhost"]}), Err("needs a domain"))]
    #[case::denied(GATEWAY, "HTTPRoute", json!({"hostnames": ["a.denied.example"]}), Err("is denied"))]
    #[case::of_everybody(GATEWAY, "HTTPRoute", json!({"hostnames": ["dev.apis.example"]}), Err("for everybody"))]
    #[case::over_everybody(GATEWAY, "HTTPRoute", json!({"hostnames": ["*.apis.example"]}), Err("for everybody"))]
    #[case::by_port(GATEWAY, "TCPRoute", json!({}), Ok(&[][..]))]
    #[case::no_route("v1", "Service", json!({}), Ok(&[][..]))]
    #[case::a_route_of_others("example.com/v1", "HTTPRoute", json!({}), Ok(&[][..]))]
    fn routes_say_which_hosts_they_are_for(
        #[case] api: &str,
        #[case] kind: &str,
        #[case] spec: Value,
        #[case] expected: Result<&[&str], &str>,
    ) {
        let (denied, provided) = (vec![".denied.example".to_owned()], vec!["apis.example".to_owned()]);
        let domains = Domains::of(&[], &denied, &provided);
        let found = wanted_hosts(&[route(api, kind, &spec)], &domains);
        match (found, expected) {
            (Ok(keys), Ok(hosts)) => {
                let mut shown: Vec<String> = keys.iter().map(ClaimKey::shown).collect();
                shown.sort();
                assert_eq!(shown, hosts);
            }
            (Err(problems), Err(part)) => {
                assert!(problems.iter().any(|problem| problem.contains(part)), "{problems:?}");
                assert!(problems[0].contains("app/cart"), "{problems:?}");
            }
            (found, expected) => panic!("{found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn a_release_has_a_limited_number_of_hosts() {
        let many = |count: usize| (0..count).map(|i| format!("h{i}.example.com")).collect::<Vec<_>>();
        let wanted = |count| {
            wanted_hosts(
                &[route(GATEWAY, "HTTPRoute", &json!({"hostnames": many(count)}))],
                &Domains::of(&[], &[], &[]),
            )
        };
        assert_eq!(wanted(MOST).map(|keys| keys.len()), Ok(MOST));
        assert!(wanted(MOST + 1).is_err());
    }

    #[test]
    fn what_a_live_route_has_is_read_as_it_is_written() {
        let live = route(GATEWAY, "HTTPRoute", &json!({"hostnames": ["a.example.com", "not a host"]}));
        let served: Vec<String> = served_hosts(&live.wanted.object).iter().map(ClaimKey::shown).collect();
        assert_eq!(served, ["a.example.com"]);
    }
}
