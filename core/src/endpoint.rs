//! Endpoints: from a port of a deployment to the routes that lead to it, and the policies that guard them.
//!
//! ```text
//! plan    what is asked for: through which gateways (ways), under which hosts and paths (entrances), guarded by what
//!           ─→ host names to be claimed
//! render  what shall be there for the host names that were granted: per route its guards, then the route
//! assess  what the gateway says of it
//! ```
//!
//! Names, labels, hosts, paths and patterns are those of the system that Kantor takes over from. What differs on purpose:
//! a policy guards all of an endpoint, and what is not listed is denied; a host name of one's own has no path in front.

mod assess;
mod backend;
mod guard;
mod overlap;
mod paths;
mod policies;
mod routes;
mod ways;

use std::collections::{BTreeMap, BTreeSet};

use kantor_api::{
    Component, DataPlane, Deployment, DeploymentTrack, Endpoint, Environment, Project, annotations,
    endpoint::{EndpointAddress, EndpointType},
    endpoint_policy::PolicyType,
    labels,
};
use kube_core::{DynamicObject, ObjectMeta, ResourceExt};
use serde_json::{Value, json};

pub use self::assess::{Listener, Seen, Verdict, assess, is_accepted_by, is_let_in, is_open, listener};
use self::{backend::Backend, ways::Way};
use super::{
    deployment::{self, namespace_of},
    hostnames::key::ClaimKey,
    known::Known,
    settings::{Reach, Settings},
};

/// Everything that an Endpoint is rendered from.
#[derive(Clone)]
pub struct Inputs<'a> {
    /// The Endpoint.
    pub endpoint: &'a Endpoint,
    /// Its project.
    pub project: &'a Project,
    /// Its component.
    pub component: &'a Component,
    /// Its deployment track.
    pub track: &'a DeploymentTrack,
    /// Its environment.
    pub environment: &'a Environment,
    /// The Deployment that it leads to.
    pub deployment: &'a Deployment,
    /// The environment's data plane.
    pub data_plane: &'a DataPlane,
    /// Identity of the data plane's cluster.
    pub cluster_uid: &'a str,
    /// Domains that data planes provide for everybody: nobody may have a host name of their own there.
    pub provided: &'a [String],
    /// The Secrets that the policies name and that may be used, by name: their values, by key.
    pub secrets: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
    /// What the data plane has.
    pub plane: PlaneParts,
    /// What the operator was told.
    pub settings: &'a Settings,
}

/// Optional parts of a data plane that routes need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaneParts {
    /// HTTP routes.
    pub http: Known<()>,
    /// gRPC routes.
    pub grpc: Known<()>,
    /// TCP routes, in this version.
    pub tcp: Known<String>,
    /// UDP routes, in this version.
    pub udp: Known<String>,
    /// Envoy Gateway's policies, filters and back-ends.
    pub envoy: Known<()>,
}

/// Why nothing is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Reason of the condition.
    pub reason: &'static str,
    /// What is wrong, and what to do.
    pub message: String,
}

impl Problem {
    fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// What is asked for, and can be had.
#[derive(Debug)]
pub struct Plan {
    /// Namespace on the data plane.
    pub namespace: String,
    /// Service that requests go to, if they go to the component.
    pub service: Option<String>,
    name: String,
    owner: String,
    type_: EndpointType,
    labels: BTreeMap<String, String>,
    base: String,
    backend: Backend,
    ways: Vec<Way>,
    /// Copies of what guards need of Secrets.
    secrets: Vec<(Reach, String, BTreeMap<String, String>)>,
    plane: PlaneParts,
}

/// A route, and what guards it.
#[derive(Clone, PartialEq)]
pub struct GuardedRoute {
    /// Who uses it.
    pub reach: Reach,
    /// Name and namespace of the gateway that it hangs on.
    pub gateway: (String, String),
    /// The route.
    pub route: DynamicObject,
    /// What has to be in force before the route is opened.
    pub guards: Vec<DynamicObject>,
}

/// What shall be on the data plane for an Endpoint.
#[derive(Clone, Default, PartialEq)]
pub struct Rendered {
    /// What guards and routes refer to.
    pub supports: Vec<DynamicObject>,
    /// The routes.
    pub routes: Vec<GuardedRoute>,
}

/// The header that a retired route asks for, with the UID of its Endpoint as its value. Nobody sends it.
const RETIRED: &str = "x-kantor-retired";

/// How a route notes what was claimed for it. Parts of hosts have a slash, so that they are told from whole ones.
fn noted(key: &ClaimKey) -> String {
    let path = key.cluster_uid.as_ref().map_or("", |_| key.path_prefix.as_deref().unwrap_or("/"));
    format!("{}{path}", key.hostname)
}

/// What the routes that are there have: hosts, and parts of hosts of the cluster with this UID.
pub fn served<'a>(
    routes: impl IntoIterator<Item = &'a DynamicObject>,
    cluster_uid: &str,
) -> BTreeSet<ClaimKey> {
    let lists = routes.into_iter().filter_map(|route| route.annotations().get(annotations::HOSTNAMES));
    let read = |note: &str| match note.find('/') {
        None => ClaimKey::custom(note),
        Some(slash) => ClaimKey::provided(&note[..slash], &note[slash..], cluster_uid),
    };
    lists.flat_map(|list| list.split_whitespace()).filter_map(|note| read(note).ok()).collect()
}

/// Names of the control plane's Secrets that the policies of an Endpoint name. It only reads them: whether the policies can
/// be enforced is not asked for each time that somebody wants to know what an Endpoint refers to.
pub fn secrets_used(endpoint: &Endpoint) -> BTreeSet<String> {
    let visibilities = endpoint.spec.network_visibilities.iter();
    let sides = visibilities.flat_map(|v| [&v.public, &v.organization]).flatten();
    let mut names = BTreeSet::new();
    for policy in sides.flat_map(|side| &side.policies) {
        let spec = &policy.policy_spec;
        match policy.type_ {
            PolicyType::ApiKey => {
                names.extend(spec.api_key_auth.iter().flat_map(|keys| &keys.secret_refs).cloned());
            }
            PolicyType::BasicAuth => {
                let users = spec.basic_auth.iter().flat_map(|basic| &basic.users);
                names.extend(users.map(|user| user.password_from_secret.clone()));
            }
            _ => {}
        }
    }
    names
}

/// What is asked for, or everything that stands against it: never a part, since what is missing would stay open or be
/// closed by mistake.
pub fn plan(inputs: &Inputs<'_>) -> Result<Plan, Vec<Problem>> {
    let mut problems = vec![];
    let spec = &inputs.endpoint.spec;
    let base = paths::trimmed(spec.backend_ref.base_path.as_deref().unwrap_or_default()).to_owned();
    if let Err(why) = paths::check(&base, false) {
        problems.push(Problem::new(
            kantor_api::conditions::reasons::INVALID_ENDPOINT,
            format!("backendRef.basePath {base:?}: {why}"),
        ));
    }
    let backend = backend::of(inputs, &mut problems);
    let ways = ways::of(inputs, &base, &mut problems);
    problems.extend(ways::too_many(&ways));
    let secrets = policies::secrets(inputs, &ways, &mut problems);
    backend::check_parts(inputs, &ways, &mut problems);
    let (Some(backend), true) = (backend, problems.is_empty()) else {
        problems.sort_by(|a, b| (a.reason, &a.message).cmp(&(b.reason, &b.message)));
        problems.dedup();
        return Err(problems);
    };
    let service = matches!(backend, Backend::Service { .. })
        .then(|| deployment::service_of(inputs.component, inputs.track));
    Ok(Plan {
        namespace: namespace_of(inputs.project, inputs.environment),
        service,
        name: inputs.endpoint.name_any(),
        owner: inputs.endpoint.uid().unwrap_or_default(),
        type_: spec.type_,
        labels: deployment::workload_labels(
            inputs.project,
            inputs.component,
            inputs.track,
            inputs.environment,
            inputs.deployment,
        ),
        base,
        backend,
        ways,
        secrets,
        plane: inputs.plane.clone(),
    })
}

impl Plan {
    /// The host names, and parts of hosts, that it needs.
    pub fn claims(&self) -> BTreeSet<ClaimKey> {
        self.ways.iter().flat_map(|way| &way.entrances).flat_map(|entrance| entrance.keys.clone()).collect()
    }

    /// Whether nobody is let in, by the user's own wish.
    pub fn is_closed(&self) -> bool {
        self.ways.is_empty()
    }

    /// The objects that shall be there, given which of [`Plan::claims`] were granted.
    pub fn render(&self, granted: &BTreeSet<ClaimKey>) -> Rendered {
        let mut rendered = Rendered::default();
        for way in &self.ways {
            let before = rendered.routes.len();
            let operations = way.guard.in_order();
            for entrance in &way.entrances {
                rendered.routes.extend(routes::of(self, way, entrance, &operations, granted));
            }
            if rendered.routes.len() > before {
                rendered.supports.extend(policies::copies(self, way.reach));
                rendered.supports.extend(backend::object(self, way.reach));
            }
        }
        rendered
    }

    /// The routes that go when `handed_over` is no longer served beside what is granted, with all that they need. Those that only
    /// lose a host stay.
    pub fn leaving(&self, granted: &BTreeSet<ClaimKey>, handed_over: &BTreeSet<ClaimKey>) -> Rendered {
        let kind = |route: &GuardedRoute| route.route.types.as_ref().map(|types| types.kind.clone());
        let name = |route: &GuardedRoute| (kind(route), route.route.name_any());
        let staying: BTreeSet<_> = self.render(granted).routes.iter().map(name).collect();
        let mut rendered = self.render(&granted.union(handed_over).cloned().collect());
        rendered.routes.retain(|route| !staying.contains(&name(route)));
        rendered
    }

    /// Where it is reached, given which claims were granted and what listens for a host.
    pub fn addresses(
        &self,
        granted: &BTreeSet<ClaimKey>,
        listener: impl Fn(&(String, String), &str) -> Option<Listener>,
    ) -> Vec<EndpointAddress> {
        let mut addresses = vec![];
        for way in &self.ways {
            for (entrance, host) in way.open_hosts(granted) {
                let Some(listener) = listener(&way.gateway, host) else { continue };
                let path = format!("{}{}", entrance.prefix, self.base);
                let url = self.url(&listener, host, paths::or_root(&path));
                addresses.push(EndpointAddress { visibility: way.reach.as_str().to_owned(), url });
            }
        }
        addresses
    }

    /// The address that stands for all: that of the first way in, without the path of the application.
    pub fn address(
        &self,
        granted: &BTreeSet<ClaimKey>,
        listener: impl Fn(&(String, String), &str) -> Option<Listener>,
    ) -> Option<String> {
        self.ways.iter().find_map(|way| {
            let (entrance, host) = way.open_hosts(granted).next()?;
            let listener = listener(&way.gateway, host)?;
            Some(self.url(&listener, host, paths::or_root(&entrance.prefix)))
        })
    }

    fn url(&self, listener: &Listener, host: &str, path: &str) -> String {
        match (self.type_, &self.backend) {
            (EndpointType::TCP, Backend::Service { port, .. }) => format!("tcp://{host}:{port}"),
            (EndpointType::UDP, Backend::Service { port, .. }) => format!("udp://{host}:{port}"),
            _ => format!("{}://{host}{}{path}", listener.scheme, listener.port_text()),
        }
    }

    /// The labels of the objects of one way in.
    fn labels(&self, reach: Reach) -> BTreeMap<String, String> {
        let mut labels = self.labels.clone();
        labels.insert(labels::plane::GATEWAY_VISIBILITY.to_owned(), reach.gateway().to_owned());
        labels.insert(labels::OWNER_UID.to_owned(), self.owner.clone());
        labels
    }

    /// An object of the Endpoint.
    fn own(&self, reach: Reach, api_version: &str, kind: &str, name: String, body: Value) -> DynamicObject {
        self.labelled(self.labels(reach), api_version, kind, name, body)
    }

    /// An object of the Endpoint with these [`Plan::labels`].
    fn labelled(
        &self,
        labels: BTreeMap<String, String>,
        api_version: &str,
        kind: &str,
        name: String,
        body: Value,
    ) -> DynamicObject {
        let namespace = Some(self.namespace.clone());
        let metadata = ObjectMeta { name: Some(name), namespace, labels: Some(labels), ..Default::default() };
        deployment::object(api_version, kind, metadata, body)
    }
}

impl GuardedRoute {
    /// The route as it is until its guards are in force: requests reach the gateway and go nowhere.
    pub fn closed(&self) -> DynamicObject {
        let mut route = self.route.clone();
        let rules = route.data.pointer_mut("/spec/rules").and_then(Value::as_array_mut);
        for rule in rules.into_iter().flatten().filter_map(Value::as_object_mut) {
            rule.remove("backendRefs");
        }
        route
    }

    /// The route as it is for a while before it goes, if its kind can be so: no request is led there any more, and the gateway
    /// still knows what is behind it.
    pub fn retired(&self) -> Option<DynamicObject> {
        let mut route = self.route.clone();
        if !route
            .types
            .as_ref()
            .is_some_and(|types| ["HTTPRoute", "GRPCRoute"].contains(&types.kind.as_str()))
        {
            return None;
        }
        let header = json!({"name": RETIRED, "value": route.labels().get(labels::OWNER_UID)});
        let rules = route.data.pointer_mut("/spec/rules").and_then(Value::as_array_mut);
        for rule in rules.into_iter().flatten().filter_map(Value::as_object_mut) {
            let matches = rule.entry("matches").or_insert_with(|| json!([{}])).as_array_mut();
            for one in matches.into_iter().flatten().filter_map(Value::as_object_mut) {
                if let Some(headers) = one.entry("headers").or_insert_with(|| json!([])).as_array_mut() {
                    headers.push(header.clone());
                }
            }
        }
        Some(route)
    }
}

impl Rendered {
    /// All objects.
    pub fn objects(&self) -> impl Iterator<Item = &DynamicObject> {
        let guarded = self.routes.iter().flat_map(|route| route.guards.iter().chain([&route.route]));
        self.supports.iter().chain(guarded)
    }

    /// The labels that tell an object of this Endpoint, without whose it is.
    pub fn labels(&self) -> Option<&BTreeMap<String, String>> {
        self.routes.first().map(|route| route.route.labels())
    }
}
