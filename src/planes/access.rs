//! How to reach a cluster: what is left of a kubeconfig once everything dangerous has been refused.

use std::fmt;

use secrecy::SecretString;

/// A DataPlane, by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PlaneKey {
    /// Namespace of the DataPlane.
    pub namespace: String,
    /// Name of the DataPlane.
    pub name: String,
}

impl fmt::Display for PlaneKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// How to reach a cluster.
#[derive(Clone, Debug)]
pub enum Access {
    /// The cluster that the operator itself talks to, with the operator's own identity.
    InCluster,
    /// Another cluster.
    Remote(RemoteAccess),
}

/// Address of a cluster and how to enter it.
#[derive(Clone, Debug)]
pub struct RemoteAccess {
    /// `https://host[:port][/path]`, checked.
    pub server: http::Uri,
    /// Name that the server's certificate must carry, where it is not the host of `server`.
    pub tls_server_name: Option<String>,
    /// Authorities of the server's certificate, PEM; without any, those of the operating system.
    pub ca_pem: Option<String>,
    /// How the operator proves who it is.
    pub auth: Auth,
}

/// How the operator proves who it is. Nothing of it is in its `Debug` output.
#[derive(Clone, Debug)]
pub enum Auth {
    /// With a bearer token.
    Token(SecretString),
    /// With a client certificate.
    ClientCertificate {
        /// The certificate and its chain, PEM.
        certificate_pem: SecretString,
        /// Its private key, PEM.
        key_pem: SecretString,
    },
}
