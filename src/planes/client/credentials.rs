//! The credentials in use: read anew by each request and each handshake.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use http::HeaderValue;
use rustls::{
    SignatureScheme,
    client::ResolvesClientCert,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use secrecy::{ExposeSecret, SecretString};

use super::AccessError;
use crate::planes::Auth;

/// Credentials that can be exchanged while connections use them.
pub(super) struct Credentials(RwLock<Current>);

#[derive(Clone, Default)]
struct Current {
    /// The whole `Authorization` header, marked as sensitive.
    token: Option<HeaderValue>,
    certificate: Option<Arc<CertifiedKey>>,
}

impl Credentials {
    pub(super) fn new(auth: &Auth) -> Result<Self, AccessError> {
        Ok(Self(RwLock::new(Current::read(auth)?)))
    }

    /// Takes other credentials, or keeps the old ones if the new cannot be used. Tells whether handshakes differ
    /// from now on.
    pub(super) fn swap(&self, auth: &Auth) -> Result<bool, AccessError> {
        let new = Current::read(auth)?;
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let handshake = current.certificate.is_some() || new.certificate.is_some();
        *current = new;
        Ok(handshake)
    }

    pub(super) fn authorization(&self) -> Option<HeaderValue> {
        self.current().token
    }

    fn current(&self) -> Current {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Current {
    fn read(auth: &Auth) -> Result<Self, AccessError> {
        Ok(match auth {
            Auth::Token(token) => Self { token: Some(bearer(token)?), certificate: None },
            Auth::ClientCertificate { certificate_pem, key_pem } => {
                Self { token: None, certificate: Some(Arc::new(certified(certificate_pem, key_pem)?)) }
            }
        })
    }
}

fn bearer(token: &SecretString) -> Result<HeaderValue, AccessError> {
    let mut header = HeaderValue::try_from(format!("Bearer {}", token.expose_secret()))
        .map_err(|_| AccessError("the token holds characters that cannot be sent"))?;
    header.set_sensitive(true);
    Ok(header)
}

/// The errors of the parsers quote what they could not read, hence errors of our own.
fn certified(certificate: &SecretString, key: &SecretString) -> Result<CertifiedKey, AccessError> {
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(certificate.expose_secret().as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|_| AccessError("the client certificate is not PEM"))?;
    if chain.is_empty() {
        return Err(AccessError("the client certificate holds no certificate"));
    }
    let key = PrivateKeyDer::from_pem_slice(key.expose_secret().as_bytes())
        .map_err(|_| AccessError("the client key is not a private key in PEM form"))?;
    CertifiedKey::from_der(chain, key, &rustls::crypto::ring::default_provider())
        .map_err(|_| AccessError("the client certificate and the client key do not belong together"))
}

impl ResolvesClientCert for Credentials {
    fn resolve(&self, _hints: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.current().certificate
    }

    fn has_certs(&self) -> bool {
        self.current().certificate.is_some()
    }
}

/// rustls prints its settings with everything in them.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}
