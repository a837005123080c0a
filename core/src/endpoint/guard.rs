//! What guards one way in: the policies of a visibility, merged into one.
//!
//! A gateway enforces one security policy per route, so that policies which are written apart are put together here; and
//! what cannot be enforced is told here, before anything is opened.

use std::collections::{BTreeMap, BTreeSet};

use kantor_api::{
    bounds,
    conditions::reasons,
    endpoint::{EndpointType, Visibility},
    endpoint_policy::{
        ApiKeyAuth, ApiType, BasicAuth, ClaimToHeader, Cors, HttpMethod, JwtClaim, OAuth2, Policy,
        PolicyType, RateLimit,
    },
};

use super::{Problem, overlap::Overlaps, paths};

/// What guards one way in.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Guard {
    /// Callers need a token.
    pub token: Option<Token>,
    /// Callers need a key.
    pub api_key: Option<ApiKeyAuth>,
    /// Callers need a user name and a password.
    pub basic: Option<BasicAuth>,
    /// Which web pages may call.
    pub cors: Option<Cors>,
    /// Requests per unit of time.
    pub limit: Option<Limit>,
    /// Operations with rules of their own.
    pub operations: BTreeMap<Operation, Rules>,
    /// How they relate to each other, by their places; told once, since it is asked for each time that routes are made.
    overlaps: Overlaps,
}

/// What a token must be.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Token {
    /// Where the keys are found that sign it.
    pub jwks: String,
    /// Claims that it must carry.
    pub claims: Vec<JwtClaim>,
    /// Claims that the application gets as headers.
    pub headers: Vec<ClaimToHeader>,
    /// Whether operations are listed: then all others are denied.
    pub listed: bool,
}

/// An operation of an API, as far as a gateway can tell it from others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    /// Method and path.
    Rest { method: &'static str, target: String },
    /// Service and method.
    Grpc { service: String, method: String },
}

/// The rules of one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rules {
    /// Scopes that a token must have, if a policy lists the operation.
    pub scopes: Option<BTreeSet<String>>,
    /// Requests per unit of time; without one, that of the whole API.
    pub limit: Option<Limit>,
}

/// So many requests per unit of time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Limit {
    pub requests: i64,
    /// As the gateway writes it.
    pub unit: String,
}

/// Any token will do.
static NO_SCOPES: BTreeSet<String> = BTreeSet::new();

/// An operation, its rules, and the places of those around it.
pub(super) type Ordered<'a> = (&'a Operation, &'a Rules, Vec<usize>);

/// Who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access<'a> {
    /// Everybody whom the other guards let pass.
    Any,
    /// Who has a token with these scopes.
    Scopes(&'a BTreeSet<String>),
    /// Nobody.
    Nobody,
}

impl Guard {
    /// Merges the policies of a way in.
    pub fn of(visibility: &Visibility, type_: EndpointType, problems: &mut Vec<Problem>) -> Self {
        let mut guard = Self::default();
        for policy in &visibility.policies {
            guard.add(policy, type_, problems);
        }
        if guard.token.as_ref().is_some_and(|token| token.listed) {
            // A limit does not make an operation one that tokens are good for.
            guard.operations.retain(|_, rules| rules.scopes.is_some());
        }
        let most = bounds::OPERATIONS as usize;
        if guard.operations.len() > most {
            let message = format!(
                "its policies have rules for {} operations; at most {most} are possible: use parameters, or split the endpoint",
                guard.operations.len()
            );
            problems.push(Problem::new(reasons::INVALID_ENDPOINT, message));
            return guard;
        }
        guard.overlaps = overlaps(guard.operations.keys());
        guard.tell_contradictions(problems);
        guard
    }

    fn add(&mut self, policy: &Policy, type_: EndpointType, problems: &mut Vec<Problem>) {
        let spec = &policy.policy_spec;
        let mut refuse = |reason, what: &str| {
            problems.push(Problem::new(reason, format!("policy {}: {what}", policy.name)));
        };
        if matches!(type_, EndpointType::TCP | EndpointType::UDP) {
            return refuse(
                reasons::POLICY_NOT_ENFORCEABLE,
                "gateways enforce no policies on TCP and UDP; remove it, or use another type of endpoint",
            );
        }
        match policy.type_ {
            PolicyType::Oauth2 => match &spec.oauth2 {
                Some(oauth2) => {
                    if let Err((reason, what)) = self.add_token(oauth2, type_) {
                        refuse(reason, &what);
                    }
                }
                None => refuse(reasons::INVALID_ENDPOINT, "policySpec.oauth2 is missing"),
            },
            PolicyType::ApiKey => {
                once(&mut self.api_key, spec.api_key_auth.as_ref(), &mut refuse);
                let scheme =
                    self.api_key.as_ref().and_then(|keys| keys.key_source.header_auth_scheme.as_deref());
                // Envoy takes this one off, and no other.
                if scheme.is_some_and(|scheme| scheme != "Bearer") {
                    refuse(
                        reasons::POLICY_NOT_ENFORCEABLE,
                        "gateways take keys as they are, or after the word Bearer: remove headerAuthScheme",
                    );
                }
            }
            PolicyType::BasicAuth => {
                once(&mut self.basic, spec.basic_auth.as_ref(), &mut refuse);
                if let Some(basic) = &self.basic
                    && !(is_or_empty(&basic.header, "Authorization")
                        && is_or_empty(&basic.header_auth_scheme, "Basic"))
                {
                    refuse(
                        reasons::POLICY_NOT_ENFORCEABLE,
                        "gateways take user names and passwords only as Authorization: Basic",
                    );
                }
            }
            PolicyType::Cors => once(&mut self.cors, spec.cors.as_ref(), &mut refuse),
            PolicyType::RateLimit => match &spec.rate_limit {
                Some(_) if self.limit.is_some() => refuse(reasons::INVALID_ENDPOINT, TWICE),
                Some(rate_limit) => {
                    if let Err(what) = self.add_limits(rate_limit, type_) {
                        refuse(reasons::INVALID_ENDPOINT, &what);
                    }
                }
                None => refuse(reasons::INVALID_ENDPOINT, "policySpec.rateLimit is missing"),
            },
            PolicyType::Mediation => {
                refuse(reasons::POLICY_NOT_ENFORCEABLE, "mediation is not supported; remove it");
            }
        }
    }

    fn add_token(&mut self, oauth2: &OAuth2, type_: EndpointType) -> Result<(), Refusal> {
        let authorization = &oauth2.jwt.authorization;
        let fits = match authorization.api_type {
            ApiType::REST => !matches!(type_, EndpointType::Grpc | EndpointType::GraphQL),
            ApiType::GRPC => type_ == EndpointType::Grpc,
            ApiType::GraphQL => type_ == EndpointType::GraphQL,
        };
        if !fits {
            let what = format!(
                "apiType {:?} does not go with an endpoint of type {type_:?}",
                authorization.api_type
            );
            return Err((reasons::INVALID_ENDPOINT, what));
        }
        let token = self.token.get_or_insert_default();
        token.claims.extend(oauth2.jwt.claims.iter().cloned());
        let (headers, operations) = match authorization.api_type {
            ApiType::REST => {
                let rest = authorization.rest.as_ref();
                let operations = rest.into_iter().flat_map(|rest| &rest.operations).map(|operation| {
                    let what = format!("operation {}", operation.target);
                    paths::check(&operation.target, true)
                        .map_err(|why| (reasons::INVALID_ENDPOINT, format!("{what}: {why}")))?;
                    let key = Operation::Rest {
                        method: method(operation.method),
                        target: operation.target.clone(),
                    };
                    Ok((key, operation.scopes.clone()))
                });
                (rest.map(|rest| &rest.claims_to_headers), operations.collect::<Result<Vec<_>, Refusal>>()?)
            }
            ApiType::GRPC => {
                let grpc = authorization.grpc.as_ref();
                let operations = grpc.into_iter().flat_map(|grpc| &grpc.operations).flat_map(|service| {
                    service.methods.iter().map(|method| {
                        let key =
                            Operation::Grpc { service: service.name.clone(), method: method.name.clone() };
                        (key, method.scopes.clone())
                    })
                });
                (grpc.map(|grpc| &grpc.claims_to_headers), operations.collect())
            }
            ApiType::GraphQL => {
                let graphql = authorization.graphql.as_ref();
                if graphql.is_some_and(|graphql| !graphql.operations.is_empty()) {
                    let what = "gateways cannot tell the operations of a GraphQL API apart; leave operations empty, and \
                                every request needs a token";
                    return Err((reasons::POLICY_NOT_ENFORCEABLE, what.to_owned()));
                }
                (graphql.map(|graphql| &graphql.claims_to_headers), vec![])
            }
        };
        let name = |header: &ClaimToHeader| (header.name.clone(), header.header.clone());
        let mut known: BTreeSet<_> = token.headers.iter().map(name).collect();
        token
            .headers
            .extend(headers.into_iter().flatten().filter(|header| known.insert(name(header))).cloned());
        token.listed |= !operations.is_empty();
        for (operation, scopes) in operations {
            let scopes: BTreeSet<String> = scopes.into_iter().collect();
            let known = self.operations.get(&operation).and_then(|known| known.scopes.as_ref());
            if known.is_some_and(|known| *known != scopes) {
                let what = format!("{operation} is listed twice, with different scopes");
                return Err((reasons::INVALID_ENDPOINT, what));
            }
            self.operations.entry(operation).or_default().scopes = Some(scopes);
        }
        Ok(())
    }

    fn add_limits(&mut self, rate_limit: &RateLimit, type_: EndpointType) -> Result<(), String> {
        self.limit = Some(Limit::of(&rate_limit.api_level.time_unit, rate_limit.api_level.request_limit)?);
        for operation in &rate_limit.operation_level.rest {
            if type_ == EndpointType::Grpc {
                return Err("operationLevel.rest does not go with an endpoint of type gRPC".to_owned());
            }
            paths::check(&operation.target, true)
                .map_err(|why| format!("operation {}: {why}", operation.target))?;
            let key = Operation::Rest { method: method(operation.method), target: operation.target.clone() };
            let limit = Limit::of(&operation.time_unit, operation.request_limit)?;
            self.operations.entry(key).or_default().limit = Some(limit);
        }
        Ok(())
    }

    /// Operations that match some requests in common, each with rules of its own: nobody could tell which hold.
    fn tell_contradictions(&self, problems: &mut Vec<Problem>) {
        let all: Vec<(&Operation, &Rules)> = self.operations.iter().collect();
        let pairs = (0..all.len()).flat_map(|i| self.overlaps.across(i).map(move |j| (i, j)));
        let number = numbers(&all);
        let contradicting = pairs.filter(|(i, j)| i < j && number[*i] != number[*j]);
        problems.extend(contradicting.take(MOST_TOLD).map(|(i, j)| {
            let message =
                format!("{} and {} match the same requests, with different rules", all[i].0, all[j].0);
            Problem::new(reasons::INVALID_ENDPOINT, message)
        }));
    }

    /// The operations, each after those that match all of its requests as well, which are told by their places; of those,
    /// only the ones that have other rules.
    pub fn in_order(&self) -> Vec<Ordered<'_>> {
        let all: Vec<(&Operation, &Rules)> = self.operations.iter().collect();
        let number = numbers(&all);
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by_cached_key(|i| all[*i].0.literals());
        let mut places = vec![0; all.len()];
        for (place, i) in order.iter().enumerate() {
            places[*i] = place;
        }
        let around = |i: usize| {
            let others = self.overlaps.within(i).filter(|j| number[i] != number[*j]);
            let mut around: Vec<usize> = others.map(|j| places[j]).collect();
            around.sort_unstable();
            around
        };
        order.into_iter().map(|i| (all[i].0, all[i].1, around(i))).collect()
    }

    /// Who may use what is not an operation with rules of its own.
    pub fn elsewhere(&self) -> Access<'_> {
        match &self.token {
            None => Access::Any,
            Some(token) if token.listed => Access::Nobody,
            Some(_) => Access::Scopes(&NO_SCOPES),
        }
    }

    /// Who may use an operation.
    pub fn access<'a>(&self, rules: &'a Rules) -> Access<'a> {
        match &self.token {
            None => Access::Any,
            Some(_) => Access::Scopes(rules.scopes.as_ref().unwrap_or(&NO_SCOPES)),
        }
    }

    /// What each route repeats of it beside the scopes of its operation: the texts.
    pub fn repeated(&self) -> impl Iterator<Item = &String> {
        let claims = self.token.iter().flat_map(|token| &token.claims);
        let claims = claims.flat_map(|claim| claim.values.iter().chain([&claim.key]));
        let headers = self.token.iter().flat_map(|token| &token.headers);
        let headers = headers.flat_map(|header| [&header.name, &header.header]);
        let cors = self.cors.iter().flat_map(|cors| {
            [&cors.allow_origins, &cors.allow_methods, &cors.allow_headers, &cors.expose_headers]
        });
        claims.chain(headers).chain(cors.flatten())
    }

    /// The scopes of all operations.
    pub fn scopes(&self) -> impl Iterator<Item = &String> {
        self.operations.values().flat_map(|rules| &rules.scopes).flatten()
    }

    /// Whether it needs a gateway that knows more than routes.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn overlaps<'a>(operations: impl Iterator<Item = &'a Operation>) -> Overlaps {
    Overlaps::of(operations.map(|operation| match operation {
        Operation::Rest { method, target } => Some((*method, target.as_str())),
        Operation::Grpc { .. } => None,
    }))
}

/// The rules of operations by number, since each is compared with many others.
fn numbers(operations: &[(&Operation, &Rules)]) -> Vec<usize> {
    let mut known: BTreeMap<&Rules, usize> = BTreeMap::new();
    let mut numbers = vec![];
    for (_, rules) in operations {
        let next = known.len();
        numbers.push(*known.entry(rules).or_insert(next));
    }
    numbers
}

/// How many contradictions are told; there may be thousands.
const MOST_TOLD: usize = 8;

/// Why a policy cannot be used: reason, and what is wrong.
type Refusal = (&'static str, String);

const TWICE: &str = "there is another policy of its type; put them together";

/// Takes over the one policy of a type.
fn once<T: Clone>(slot: &mut Option<T>, spec: Option<&T>, refuse: &mut impl FnMut(&'static str, &str)) {
    match spec {
        Some(_) if slot.is_some() => refuse(reasons::INVALID_ENDPOINT, TWICE),
        Some(spec) => *slot = Some(spec.clone()),
        None => {
            refuse(reasons::INVALID_ENDPOINT, "the member of policySpec that belongs to its type is missing");
        }
    }
}

fn is_or_empty(text: &str, expected: &str) -> bool {
    text.is_empty() || text.eq_ignore_ascii_case(expected)
}

impl Limit {
    fn of(unit: &str, requests: i64) -> Result<Self, String> {
        let unit = match unit.to_ascii_lowercase().as_str() {
            "second" => "Second",
            "minute" => "Minute",
            "hour" => "Hour",
            "day" => "Day",
            _ => return Err(format!("timeUnit {unit:?} is none of Second, Minute, Hour and Day")),
        };
        if requests < 1 {
            return Err("requestLimit has to be at least 1".to_owned());
        }
        Ok(Self { requests, unit: unit.to_owned() })
    }
}

impl Operation {
    /// How many segments of its path are what they are.
    fn literals(&self) -> usize {
        match self {
            Self::Rest { target, .. } => {
                target.split('/').filter(|segment| !segment.starts_with('{')).count()
            }
            Self::Grpc { .. } => 0,
        }
    }
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rest { method, target } => write!(f, "{method} {target}"),
            Self::Grpc { service, method } => write!(f, "{service}/{method}"),
        }
    }
}

const fn method(method: HttpMethod) -> &'static str {
    match method {
        HttpMethod::Get => "GET",
        HttpMethod::Head => "HEAD",
        HttpMethod::Post => "POST",
        HttpMethod::Put => "PUT",
        HttpMethod::Delete => "DELETE",
        HttpMethod::Connect => "CONNECT",
        HttpMethod::Options => "OPTIONS",
        HttpMethod::Trace => "TRACE",
        HttpMethod::Patch => "PATCH",
    }
}

#[cfg(test)]
mod tests;
