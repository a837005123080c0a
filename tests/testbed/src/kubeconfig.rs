//! Kubeconfigs with everything inline.

use std::fmt;

use anyhow::{Context, Result};
use base64::{Engine, prelude::BASE64_STANDARD};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use crate::certificates::Identity;

/// How a client says who it is.
#[derive(Clone, PartialEq, Eq)]
pub enum Auth {
    /// A bearer token.
    Token(String),
    /// A client certificate.
    ClientCertificate(Identity),
    /// Nothing: the user is `system:anonymous`.
    Anonymous,
}

/// Tokens stay out of logs and panics.
impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(_) => f.write_str("Token"),
            Self::ClientCertificate(_) => f.write_str("ClientCertificate"),
            Self::Anonymous => f.write_str("Anonymous"),
        }
    }
}

/// Where a cluster is and how to enter it: all that a kubeconfig says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeconfigSpec {
    /// Names the cluster, the user and the context.
    pub name: String,
    /// The URL of the API server, or of a proxy before it.
    pub server: String,
    /// The authority that the server's certificate is checked against.
    pub ca_pem: String,
    /// The client's identity.
    pub auth: Auth,
}

impl KubeconfigSpec {
    /// The same identity at another address, such as a proxy's.
    #[must_use]
    pub fn at(&self, server: impl Into<String>, ca_pem: impl Into<String>) -> Self {
        Self { server: server.into(), ca_pem: ca_pem.into(), ..self.clone() }
    }

    /// The kubeconfig file's text: all data inline, no paths.
    pub fn to_yaml(&self) -> String {
        let name = quoted(&self.name);
        let user = match &self.auth {
            Auth::Token(token) => format!("{{token: {}}}", quoted(token)),
            Auth::ClientCertificate(identity) => format!(
                "{{client-certificate-data: {}, client-key-data: {}}}",
                encoded(&identity.certificate_pem),
                encoded(&identity.key_pem)
            ),
            Auth::Anonymous => "{}".to_owned(),
        };
        format!(
            "apiVersion: v1
kind: Config
clusters:
- name: {name}
  cluster:
    server: {server}
    certificate-authority-data: {ca}
users:
- name: {name}
  user: {user}
contexts:
- name: {name}
  context: {{cluster: {name}, user: {name}}}
current-context: {name}
",
            server = quoted(&self.server),
            ca = encoded(&self.ca_pem),
        )
    }

    /// The same as kube's type.
    pub fn to_kubeconfig(&self) -> Result<Kubeconfig> {
        Kubeconfig::from_yaml(&self.to_yaml()).context("read a kubeconfig of our own making")
    }

    /// The settings of a client that goes straight to the server, whatever proxy the environment names.
    pub async fn to_config(&self) -> Result<Config> {
        let mut config = Config::from_custom_kubeconfig(self.to_kubeconfig()?, &KubeConfigOptions::default())
            .await
            .with_context(|| format!("use the kubeconfig of {}", self.name))?;
        config.proxy_url = None;
        Ok(config)
    }

    /// A client with this identity.
    pub async fn client(&self) -> Result<Client> {
        Client::try_from(self.to_config().await?).with_context(|| format!("make a client for {}", self.name))
    }
}

/// A JSON string is a YAML string, whatever it holds.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn encoded(pem: &str) -> String {
    quoted(&BASE64_STANDARD.encode(pem))
}
