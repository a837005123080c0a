//! Policies: what guards an endpoint.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{bounds, schema::OPERATION_PATTERN, unset::none_if_default};

/// One guard of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.type != 'oauth2' || has(self.policySpec.oauth2)")
        .message("type oauth2 needs policySpec.oauth2"),
    validation = Rule::new("self.type != 'api-key' || has(self.policySpec.apiKeyAuth)")
        .message("type api-key needs policySpec.apiKeyAuth"),
    validation = Rule::new("self.type != 'basic-auth' || has(self.policySpec.basicAuth)")
        .message("type basic-auth needs policySpec.basicAuth"),
    validation = Rule::new("self.type != 'rate-limit' || has(self.policySpec.rateLimit)")
        .message("type rate-limit needs policySpec.rateLimit"),
    validation = Rule::new("self.type != 'cors' || has(self.policySpec.cors)")
        .message("type cors needs policySpec.cors"),
)]
pub struct Policy {
    /// Name of the policy.
    #[schemars(length(min = 1, max = bounds::NAME))]
    pub name: String,
    /// What it does; the member of `policySpec` that belongs to it must be set.
    #[serde(rename = "type")]
    pub type_: PolicyType,
    /// How it does it.
    pub policy_spec: PolicySpec,
}

/// Kinds of policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyType {
    /// Callers need a token.
    #[default]
    Oauth2,
    /// Callers need a key.
    ApiKey,
    /// Callers need a user name and a password.
    BasicAuth,
    /// Callers may send so many requests.
    RateLimit,
    /// Which web pages may call.
    Cors,
    /// Requests are changed on the way. Not supported: the way in stays closed.
    Mediation,
}

/// How a policy does what it does: the member that belongs to its type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicySpec {
    /// For `oauth2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oauth2: Option<OAuth2>,
    /// For `api-key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_auth: Option<ApiKeyAuth>,
    /// For `basic-auth`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basic_auth: Option<BasicAuth>,
    /// For `rate-limit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
    /// For `cors`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cors: Option<Cors>,
}

/// Callers need a token.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OAuth2 {
    /// What the token must be. It is checked with the keys of the environment's `gateway.security.remoteJwks`.
    pub jwt: Jwt,
}

/// What a token must be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Jwt {
    /// Claims that the token must carry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub claims: Vec<JwtClaim>,
    /// What the token must allow.
    pub authorization: Authorization,
}

/// A claim that a token must carry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JwtClaim {
    /// Name of the claim.
    #[schemars(length(max = bounds::NAME))]
    pub key: String,
    /// Values of which it must have one.
    #[schemars(length(max = 128), inner(length(max = 1024)))]
    pub values: Vec<String>,
}

/// What a token must allow, operation by operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Authorization {
    /// What kind of operations there are.
    pub api_type: ApiType,
    /// Operations of a REST API. Operations that are not listed are denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rest: Option<RestAuthorization>,
    /// Operations of a gRPC API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc: Option<GrpcAuthorization>,
    /// Operations of a GraphQL API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graphql: Option<GraphqlAuthorization>,
}

/// Kinds of APIs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ApiType {
    /// REST.
    #[default]
    REST,
    /// gRPC.
    GRPC,
    /// GraphQL.
    GraphQL,
}

/// Operations of a REST API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestAuthorization {
    /// Claims that the application gets as headers.
    #[schemars(length(max = 64))]
    pub claims_to_headers: Vec<ClaimToHeader>,
    /// The operations.
    #[schemars(length(max = bounds::OPERATIONS))]
    pub operations: Vec<RestOperation>,
}

/// A claim that the application gets as a header.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimToHeader {
    /// Name of the claim.
    #[schemars(length(max = bounds::NAME))]
    pub name: String,
    /// Name of the header.
    #[schemars(length(max = bounds::NAME))]
    pub header: String,
}

/// An operation of a REST API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestOperation {
    /// Path below the endpoint's `basePath`, with parameters in braces: `/books/{id}`.
    #[schemars(length(max = 1024), regex(pattern = OPERATION_PATTERN))]
    pub target: String,
    /// HTTP method.
    pub method: HttpMethod,
    /// Scopes that the token must have, all of them.
    #[schemars(length(max = 64), inner(length(max = bounds::NAME)))]
    pub scopes: Vec<String>,
}

/// HTTP methods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum HttpMethod {
    /// GET.
    #[default]
    Get,
    /// HEAD.
    Head,
    /// POST.
    Post,
    /// PUT.
    Put,
    /// DELETE.
    Delete,
    /// CONNECT.
    Connect,
    /// OPTIONS.
    Options,
    /// TRACE.
    Trace,
    /// PATCH.
    Patch,
}

/// Operations of a gRPC API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.operations.map(service, service.methods.size()).sum() <= 256")
        .message("a policy has at most 256 methods in all")
)]
pub struct GrpcAuthorization {
    /// Claims that the application gets as headers.
    #[schemars(length(max = 64))]
    pub claims_to_headers: Vec<ClaimToHeader>,
    /// The services.
    #[schemars(length(max = bounds::OPERATIONS))]
    pub operations: Vec<GrpcOperation>,
}

/// A gRPC service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrpcOperation {
    /// Name of the service.
    #[schemars(length(max = 1024))]
    pub name: String,
    /// Its methods. A policy has at most 256 of them in all.
    #[schemars(length(max = bounds::OPERATIONS))]
    pub methods: Vec<GrpcMethod>,
}

/// A method of a gRPC service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrpcMethod {
    /// Name of the method.
    #[schemars(length(max = 1024))]
    pub name: String,
    /// Scopes that the token must have, all of them.
    #[schemars(length(max = 64), inner(length(max = bounds::NAME)))]
    pub scopes: Vec<String>,
}

/// Operations of a GraphQL API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GraphqlAuthorization {
    /// Claims that the application gets as headers.
    #[schemars(length(max = 64))]
    pub claims_to_headers: Vec<ClaimToHeader>,
    /// The operations.
    #[schemars(length(max = bounds::OPERATIONS))]
    pub operations: Vec<GraphqlOperation>,
}

/// An operation of a GraphQL API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GraphqlOperation {
    /// `query`, `mutation` or `subscription`.
    #[serde(rename = "type")]
    #[schemars(length(max = bounds::NAME))]
    pub type_: String,
    /// Name of the operation.
    #[schemars(length(max = 1024))]
    pub name: String,
    /// Scopes that the token must have, all of them.
    #[schemars(length(max = 64), inner(length(max = bounds::NAME)))]
    pub scopes: Vec<String>,
}

/// Callers need a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiKeyAuth {
    /// Where the key is in a request.
    pub key_source: KeyHeader,
    /// Names of Secrets, in the same namespace, that hold the keys.
    #[schemars(length(max = 256), inner(length(max = bounds::NAME)))]
    pub secret_refs: Vec<String>,
}

/// Where a key is in a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyHeader {
    /// Name of the header.
    #[schemars(length(min = 1, max = bounds::NAME))]
    pub header: String,
    /// Word in front of the key, such as `Bearer`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "none_if_default")]
    #[schemars(length(max = bounds::NAME))]
    pub header_auth_scheme: Option<String>,
}

/// Callers need a user name and a password.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BasicAuth {
    /// The users.
    #[schemars(length(max = 256))]
    pub users: Vec<BasicAuthUser>,
    /// Name of the header; `Authorization`.
    #[schemars(length(max = bounds::NAME))]
    pub header: String,
    /// Word in front of the credentials; `Basic`.
    #[schemars(length(max = bounds::NAME))]
    pub header_auth_scheme: String,
}

/// A user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BasicAuthUser {
    /// User name.
    #[schemars(length(min = 1, max = bounds::NAME))]
    pub username: String,
    /// Name of a Secret, in the same namespace, that holds the password.
    #[schemars(length(min = 1, max = bounds::NAME))]
    pub password_from_secret: String,
}

/// Callers may send so many requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateLimit {
    /// For the whole API.
    pub api_level: RateLimitRule,
    /// For single operations.
    pub operation_level: OperationRateLimits,
}

/// So many requests per unit of time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitRule {
    /// `Second`, `Minute`, `Hour` or `Day`, in upper or lower case.
    #[schemars(length(max = 16), regex(pattern = "^(?i:second|minute|hour|day)$"))]
    pub time_unit: String,
    /// Requests per unit of time.
    #[schemars(range(min = 1))]
    pub request_limit: i64,
}

/// Rate limits of single operations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationRateLimits {
    /// Operations of a REST API.
    #[schemars(length(max = bounds::OPERATIONS))]
    pub rest: Vec<RestRateLimit>,
}

/// The rate limit of an operation of a REST API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestRateLimit {
    /// Path below the endpoint's `basePath`, with parameters in braces: `/books/{id}`.
    #[schemars(length(max = 1024), regex(pattern = OPERATION_PATTERN))]
    pub target: String,
    /// HTTP method.
    pub method: HttpMethod,
    /// `Second`, `Minute`, `Hour` or `Day`, in upper or lower case.
    #[schemars(length(max = 16), regex(pattern = "^(?i:second|minute|hour|day)$"))]
    pub time_unit: String,
    /// Requests per unit of time.
    #[schemars(range(min = 1))]
    pub request_limit: i64,
}

/// Which web pages may call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!(self.allowCredentials && self.allowOrigins.exists(origin, origin == '*'))")
        .message("allowCredentials needs a list of origins: browsers refuse it together with '*'")
)]
pub struct Cors {
    /// Origins that may call, such as `https://shop.example.com`.
    #[schemars(length(max = 64), inner(length(max = 253)))]
    pub allow_origins: Vec<String>,
    /// Methods that they may use.
    #[schemars(length(max = 16), inner(length(max = 64)))]
    pub allow_methods: Vec<String>,
    /// Headers that they may send.
    #[schemars(length(max = 64), inner(length(max = bounds::NAME)))]
    pub allow_headers: Vec<String>,
    /// Headers of the answer that they may read.
    #[schemars(length(max = 64), inner(length(max = bounds::NAME)))]
    pub expose_headers: Vec<String>,
    /// Seconds for which a browser may remember this.
    #[schemars(range(min = 0))]
    pub max_age: i64,
    /// Whether requests may carry cookies and credentials.
    pub allow_credentials: bool,
}
