//! What a new access means for a connection that stands.

use secrecy::ExposeSecret;

use crate::planes::{Access, Auth, RemoteAccess};

/// What a new access asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessChange {
    /// Nothing: it is the same.
    Nothing,
    /// Other credentials at the same server.
    Swap,
    /// Another server, or another way to know it.
    Reconnect,
}

impl AccessChange {
    /// Compares two accesses. Equal texts of another form (an authority with other line ends) count as different,
    /// which costs a reconnect and nothing else.
    pub fn between(old: &Access, new: &Access) -> Self {
        match (old, new) {
            (Access::InCluster, Access::InCluster) => Self::Nothing,
            (Access::Remote(old), Access::Remote(new)) if !same_server(old, new) => Self::Reconnect,
            (Access::Remote(old), Access::Remote(new)) if same_auth(&old.auth, &new.auth) => Self::Nothing,
            (Access::Remote(_), Access::Remote(_)) => Self::Swap,
            _ => Self::Reconnect,
        }
    }
}

fn same_server(old: &RemoteAccess, new: &RemoteAccess) -> bool {
    old.server == new.server && old.tls_server_name == new.tls_server_name && old.ca_pem == new.ca_pem
}

fn same_auth(old: &Auth, new: &Auth) -> bool {
    match (old, new) {
        (Auth::Token(old), Auth::Token(new)) => old.expose_secret() == new.expose_secret(),
        (
            Auth::ClientCertificate { certificate_pem, key_pem },
            Auth::ClientCertificate { certificate_pem: new_certificate, key_pem: new_key },
        ) => {
            certificate_pem.expose_secret() == new_certificate.expose_secret()
                && key_pem.expose_secret() == new_key.expose_secret()
        }
        _ => false,
    }
}
