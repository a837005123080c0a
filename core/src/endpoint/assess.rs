//! What the gateway says of routes and their guards.

use kantor_api::conditions::reasons;
use kube_core::{DynamicObject, ResourceExt};
use serde_json::Value;

use super::GuardedRoute;

/// What listens for a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// `https` or `http`.
    pub scheme: &'static str,
    /// The port, where it is not the usual one.
    pub port: Option<u64>,
}

impl Default for Listener {
    fn default() -> Self {
        Self { scheme: "https", port: None }
    }
}

impl Listener {
    pub(super) fn port_text(&self) -> String {
        self.port.map(|port| format!(":{port}")).unwrap_or_default()
    }
}

/// What listens for `host` on a gateway: TLS before plain text.
pub fn listener(gateway: &DynamicObject, host: &str) -> Option<Listener> {
    let listeners = gateway.data.pointer("/spec/listeners").and_then(Value::as_array)?;
    let fits = |listener: &&Value| match listener.get("hostname").and_then(Value::as_str) {
        None | Some("") => true,
        Some(own) => match own.strip_prefix('*') {
            Some(domain) => host.ends_with(domain),
            None => host == own,
        },
    };
    let of = |protocol: &str, scheme: &'static str, usual: u64| {
        let found = listeners
            .iter()
            .filter(fits)
            .find(|listener| listener.get("protocol").and_then(Value::as_str) == Some(protocol))?;
        let port = found.get("port").and_then(Value::as_u64).filter(|port| *port != usual);
        Some(Listener { scheme, port })
    };
    of("HTTPS", "https", 443).or_else(|| of("TLS", "https", 443)).or_else(|| of("HTTP", "http", 80))
}

/// Whether requests that reach a route get any further.
pub fn is_open(route: &DynamicObject) -> bool {
    let rules = route.data.pointer("/spec/rules").and_then(Value::as_array);
    rules.into_iter().flatten().any(|rule| {
        rule.get("backendRefs").and_then(Value::as_array).is_some_and(|backends| !backends.is_empty())
    })
}

/// Whether a gateway, whichever, has accepted a route that is open: then somebody may use it.
pub fn is_let_in(route: &DynamicObject) -> bool {
    let parents = route.data.pointer("/status/parents").and_then(Value::as_array).into_iter().flatten();
    let mut conditions = parents.filter_map(|parent| parent.get("conditions")?.as_array()).flatten();
    is_open(route)
        && conditions.any(|condition| {
            let is = |key: &str, value: &str| condition.get(key).and_then(Value::as_str) == Some(value);
            is("type", "Accepted") && is("status", "True")
        })
}

/// What a gateway says of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is in force as it is.
    Accepted,
    /// It has not been looked at, or not as it is by now.
    Pending,
    /// It is refused, and why.
    Refused(String),
}

/// What `gateway` says of a policy.
pub fn is_accepted_by(policy: &DynamicObject, gateway: &(String, String)) -> Verdict {
    if policy.types.as_ref().is_some_and(|types| types.kind == "HTTPRouteFilter") {
        // It has no status: routes say whether they found it.
        return Verdict::Accepted;
    }
    said(policy, "/status/ancestors", "ancestorRef", gateway, &["Accepted"])
}

/// What `gateway` says of a route.
fn route_verdict(route: &DynamicObject, gateway: &(String, String)) -> Verdict {
    said(route, "/status/parents", "parentRef", gateway, &["Accepted", "ResolvedRefs"])
}

fn said(
    object: &DynamicObject,
    list: &str,
    reference: &str,
    (name, namespace): &(String, String),
    types: &[&str],
) -> Verdict {
    let is_ours = |entry: &&Value| {
        let part =
            |key: &str| entry.get(reference).and_then(|parent| parent.get(key)).and_then(Value::as_str);
        let own = object.namespace();
        part("name") == Some(name) && part("namespace").or(own.as_deref()) == Some(namespace)
    };
    let entries = object.data.pointer(list).and_then(Value::as_array).into_iter().flatten();
    let mut found = false;
    for entry in entries.filter(is_ours) {
        found = true;
        let conditions = entry.get("conditions").and_then(Value::as_array);
        for type_ in types {
            let condition = conditions
                .into_iter()
                .flatten()
                .find(|condition| condition.get("type").and_then(Value::as_str) == Some(type_));
            let Some(condition) = condition else { return Verdict::Pending };
            let generation = condition.get("observedGeneration").and_then(Value::as_i64);
            if generation < object.metadata.generation {
                return Verdict::Pending;
            }
            let text = |key: &str| condition.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            match text("status").as_str() {
                "True" => {}
                "False" => return Verdict::Refused(format!("{}: {}", text("reason"), text("message"))),
                _ => return Verdict::Pending,
            }
        }
    }
    if found { Verdict::Accepted } else { Verdict::Pending }
}

/// A route as it shall be, and what is there.
pub struct Seen<'a> {
    /// As it shall be.
    pub wanted: &'a GuardedRoute,
    /// The route.
    pub route: Option<&'a DynamicObject>,
    /// Its guards, in the order of those that it shall have.
    pub guards: Vec<Option<&'a DynamicObject>>,
}

impl Seen<'_> {
    /// What is said of the guards: all of them have to be in force.
    pub fn guarded(&self) -> Verdict {
        let mut verdict = Verdict::Accepted;
        for guard in &self.guards {
            match guard.map_or(Verdict::Pending, |guard| is_accepted_by(guard, &self.wanted.gateway)) {
                Verdict::Accepted => {}
                Verdict::Pending => verdict = Verdict::Pending,
                refused @ Verdict::Refused(_) => return refused,
            }
        }
        verdict
    }

    /// Whether the route may be open. One that is open stays so: its guards are changed in place, and a gateway that
    /// cannot make sense of one lets nobody in.
    pub fn may_open(&self) -> bool {
        self.route.is_some_and(is_open) || self.guarded() == Verdict::Accepted
    }
}

/// What keeps an Endpoint from being ready: reason, message, and whether it takes somebody to mend it.
pub type Obstacle = (&'static str, String, bool);

/// What keeps an Endpoint from being ready, given what is there. The worst comes first.
pub fn assess(seen: &[Seen<'_>]) -> Option<Obstacle> {
    let mut pending = None;
    for route in seen {
        let shown = |object: &DynamicObject| {
            let kind = object.types.as_ref().map_or("", |types| types.kind.as_str());
            format!("{kind} {}", object.name_any())
        };
        let gateway = &route.wanted.gateway.0;
        match route.guarded() {
            Verdict::Refused(why) => {
                let message = format!(
                    "gateway {gateway} does not accept a policy of {}: {why}",
                    shown(&route.wanted.route)
                );
                return Some((reasons::POLICY_NOT_ACCEPTED, message, true));
            }
            Verdict::Pending => {
                let message = format!(
                    "waiting for gateway {gateway} to accept the policies of {}",
                    shown(&route.wanted.route)
                );
                pending.get_or_insert((reasons::POLICY_PENDING, message, false));
            }
            Verdict::Accepted => {}
        }
        let verdict = route.route.map_or(Verdict::Pending, |live| route_verdict(live, &route.wanted.gateway));
        match verdict {
            Verdict::Refused(why) => {
                let message =
                    format!("gateway {gateway} does not accept {}: {why}", shown(&route.wanted.route));
                return Some((reasons::ROUTE_NOT_ACCEPTED, message, true));
            }
            Verdict::Accepted if route.route.is_some_and(is_open) => {}
            Verdict::Accepted | Verdict::Pending => {
                let message =
                    format!("waiting for gateway {gateway} to accept {}", shown(&route.wanted.route));
                pending.get_or_insert((reasons::ROUTE_PENDING, message, false));
            }
        }
    }
    pending
}

#[cfg(test)]
mod tests;
