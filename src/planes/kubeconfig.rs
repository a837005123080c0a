//! Kubeconfigs, and the reference's inline form of one: hostile input.
//!
//! ```text
//! bytes ─ document (size, YAML limits) ─ fields (allow-list) ─ one context ─ server, authorities, credentials ─→ RemoteAccess
//! ```
//!
//! Whoever may write a Secret or a DataPlane chooses these bytes, and a kubeconfig can ask for much: commands to run,
//! files to read, proxies, another identity. Nothing here does any of it, because nothing here does anything but look
//! at bytes; kube's own types for kubeconfigs, which run commands and read files, never see them. What is not known to
//! be harmless is refused. A refusal names the field and what to do, and repeats nothing of the document: neither
//! values nor keys that are not words of kubeconfigs, for both may be misplaced secrets.
//!
//! Fields are judged in the whole document, values only where they are used: a command is refused even in a user that
//! no context uses, a broken certificate there is not looked at.

mod credentials;
mod document;
mod expiry;
mod fields;
mod inline;
mod server;

use kantor_core::net::AddressPolicy;
use rustls::pki_types::ServerName;
use thiserror::Error;

pub use self::{
    document::MAX_DOCUMENT_BYTES,
    expiry::{credentials_expiry, token_claims},
    inline::{kubeconfig_key, parse_inline, secret_names},
};
use self::{
    document::Node,
    fields::{Kubeconfig, Section},
};
use super::access::{Auth, RemoteAccess};

/// Why a description of a cluster is not used. Holds nothing of the description but names of fields and Secrets.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: {why}")]
pub struct Refusal {
    /// Whether something is wrong or only missing.
    pub kind: RefusalKind,
    /// Where, for example `users[0].user.exec`.
    pub field: String,
    /// What is wrong and what to do.
    pub why: String,
}

/// Whether something is wrong or only missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// What is there is refused: it has to be changed.
    Refused,
    /// A Secret or a key of one is not there: it may still come.
    SecretMissing,
    /// A Secret is there and may not be read: that may be allowed.
    SecretUnreadable,
}

impl Refusal {
    fn new(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self { kind: RefusalKind::Refused, field: field.into(), why: why.into() }
    }

    fn missing(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self { kind: RefusalKind::SecretMissing, field: field.into(), why: why.into() }
    }
}

/// What a kubeconfig says about how to reach a cluster. Every field that is not known to be harmless is refused.
pub fn parse_kubeconfig(bytes: &[u8], policy: &AddressPolicy) -> Result<RemoteAccess, Refusal> {
    let document = document::read(bytes)?;
    let (cluster, user) = Kubeconfig::read(&document)?.chosen()?;

    let Some(server) = cluster.text("server")? else {
        return Err(Refusal::new(
            cluster.path_of("server"),
            "is missing; set the https address of the API server",
        ));
    };
    let ca_pem = match cluster.text("certificate-authority-data")? {
        Some(data) => {
            let field = cluster.path_of("certificate-authority-data");
            Some(credentials::authorities(&field, &credentials::decode(&field, data)?)?)
        }
        None => None,
    };
    Ok(RemoteAccess {
        server: server::parse(&cluster.path_of("server"), server, *policy)?,
        tls_server_name: tls_server_name(&cluster)?,
        ca_pem,
        auth: auth(&user)?,
    })
}

/// With a certificate and a token, the certificate: API servers look at it first, and the admin's kubeconfig of some
/// clouds has both.
fn auth(user: &Section<'_>) -> Result<Auth, Refusal> {
    const CERTIFICATE: &str = "client-certificate-data";
    const KEY: &str = "client-key-data";
    match (user.text(CERTIFICATE)?, user.text(KEY)?, user.text("token")?) {
        (Some(certificate), Some(key), _) => {
            let (certificate_field, key_field) = (user.path_of(CERTIFICATE), user.path_of(KEY));
            let certificate = credentials::decode(&certificate_field, certificate)?;
            let key = credentials::decode(&key_field, key)?;
            credentials::client_certificate((&certificate_field, &certificate), (&key_field, &key))
        }
        (Some(_), None, _) => {
            Err(Refusal::new(user.path_of(KEY), "is missing; client-certificate-data needs it"))
        }
        (None, Some(_), _) => {
            Err(Refusal::new(user.path_of(CERTIFICATE), "is missing; client-key-data needs it"))
        }
        (None, None, Some(token)) => credentials::token(&user.path_of("token"), token.as_bytes()),
        (None, None, None) => Err(Refusal::new(
            user.path(),
            "has no credentials; set token, or client-certificate-data and client-key-data",
        )),
    }
}

fn tls_server_name(cluster: &Section<'_>) -> Result<Option<String>, Refusal> {
    let Some(name) = cluster.text("tls-server-name")? else { return Ok(None) };
    if ServerName::try_from(name).is_err() {
        return Err(Refusal::new(
            cluster.path_of("tls-server-name"),
            "is neither a host name nor an IP address",
        ));
    }
    Ok(Some(name.to_owned()))
}

#[cfg(test)]
mod tests;
