//! Identities with limited rights.

use std::{
    fs,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, anyhow};
use base64::{
    Engine,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
    rbac::v1::PolicyRule,
};
use kube::{Api, Client, ResourceExt, api::PostParams};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};
use serde_json::{Value, json};

use super::{Cluster, files::SERVICE_ACCOUNT_KEY};
use crate::kubeconfig::{Auth, KubeconfigSpec};

/// As the API server is told.
const ISSUER: &str = "https://kubernetes.default.svc";

/// A `ServiceAccount` and all that it may do.
#[derive(Clone, Debug)]
pub struct ServiceAccountAccess {
    namespace: String,
    name: String,
    grants: Vec<Grant>,
    token_lifetime: Duration,
}

#[derive(Clone, Debug)]
struct Grant {
    /// None: in the whole cluster.
    namespace: Option<String>,
    rules: Vec<PolicyRule>,
}

impl ServiceAccountAccess {
    /// An account that may do nothing yet.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            grants: Vec::new(),
            token_lifetime: Duration::from_hours(1),
        }
    }

    /// Allows `rules` in one namespace.
    #[must_use]
    pub fn in_namespace(mut self, namespace: impl Into<String>, rules: &[PolicyRule]) -> Self {
        self.grants.push(Grant { namespace: Some(namespace.into()), rules: rules.to_vec() });
        self
    }

    /// Allows `rules` in the whole cluster.
    #[must_use]
    pub fn cluster_wide(mut self, rules: &[PolicyRule]) -> Self {
        self.grants.push(Grant { namespace: None, rules: rules.to_vec() });
        self
    }

    /// How long the token is good: an hour unless said otherwise. Kubernetes gives no token for less than ten minutes.
    #[must_use]
    pub fn token_lifetime(mut self, lifetime: Duration) -> Self {
        self.token_lifetime = lifetime;
        self
    }

    /// The account, its namespaces, its roles and their bindings.
    fn objects(&self) -> Vec<Value> {
        let granted = self.grants.iter().filter_map(|grant| grant.namespace.as_ref());
        let namespaces = [&self.namespace].into_iter().chain(granted);
        let mut objects: Vec<_> = namespaces
            .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
            .collect();
        objects.push(json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": self.name, "namespace": self.namespace},
        }));
        for (number, grant) in self.grants.iter().enumerate() {
            let prefix = if grant.namespace.is_some() { "" } else { "Cluster" };
            let metadata = json!({
                "name": format!("{}-{}-{number}", self.namespace, self.name),
                "namespace": grant.namespace,
            });
            objects.push(json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{prefix}Role"),
                "metadata": metadata, "rules": grant.rules,
            }));
            objects.push(json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{prefix}RoleBinding"),
                "metadata": metadata,
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io", "kind": format!("{prefix}Role"), "name": metadata["name"],
                },
                "subjects": [{"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}],
            }));
        }
        objects
    }
}

impl Cluster {
    /// Creates the account with its rights, and a kubeconfig with a fresh token of it.
    pub async fn service_account_kubeconfig(&self, access: &ServiceAccountAccess) -> Result<KubeconfigSpec> {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": access.objects()});
        self.apply_yaml(&list.to_string()).await?;
        let token = token(&self.client(), &access.namespace, &access.name, access.token_lifetime).await?;
        Ok(KubeconfigSpec { auth: Auth::Token(token), ..self.kubeconfig() })
    }

    /// A token of an account as the API server would have issued it so long ago, with so long left: no server can be asked
    /// for one that is about to end.
    pub async fn service_account_token(
        &self,
        namespace: &str,
        name: &str,
        age: Duration,
        left: Duration,
    ) -> Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let uid = accounts.get(name).await.context("find the service account")?.uid();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).context("this machine's clock is off")?;
        let issued = now.saturating_sub(age).as_secs();
        let payload = json!({
            "iss": ISSUER, "aud": [ISSUER], "sub": format!("system:serviceaccount:{namespace}:{name}"),
            "iat": issued, "nbf": issued, "exp": (now + left).as_secs(),
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}},
        });
        let encoded = |part: &Value| BASE64_URL_SAFE_NO_PAD.encode(part.to_string());
        let signed = format!("{}.{}", encoded(&json!({"alg": "ES256", "typ": "JWT"})), encoded(&payload));
        let pem =
            fs::read_to_string(self.files.path(SERVICE_ACCOUNT_KEY)).context("read the key of tokens")?;
        let base64: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
        let (pkcs8, random) =
            (BASE64_STANDARD.decode(base64).context("read the key of tokens")?, SystemRandom::new());
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &pkcs8, &random)
            .map_err(|error| anyhow!("use the key of tokens: {error}"))?;
        let signature = key.sign(&random, signed.as_bytes()).map_err(|_| anyhow!("sign a token"))?;
        Ok(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature.as_ref())))
    }

    /// A kubeconfig with a client certificate of this user and at most two groups. It may do what they are allowed
    /// elsewhere.
    pub fn client_certificate_kubeconfig(&self, user: &str, groups: &[&str]) -> Result<KubeconfigSpec> {
        let identity = self.ca().issue_client(user, groups)?;
        Ok(KubeconfigSpec { auth: Auth::ClientCertificate(identity), ..self.kubeconfig() })
    }
}

/// A fresh token of a service account.
pub(super) async fn token(
    client: &Client,
    namespace: &str,
    name: &str,
    lifetime: Duration,
) -> Result<String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(i64::try_from(lifetime.as_secs())?),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request(name, &PostParams::default(), &request)
        .await
        .with_context(|| format!("get a token of the service account {name}"))?;
    answer.status.and_then(|status| status.token).context("the server gave no token")
}
